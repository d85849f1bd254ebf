"""Attempts of agents that do as a test says, in real sandboxes."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

from docker import APIClient

from harness.benchmarks import load_benchmark
from harness.engine.execute import Execution, execute
from harness.engine.faults import Faults
from harness.engine.plan import PlannedAttempt
from harness.engine.store import RunStore
from harness.environments import environment
from harness.environments.opening import Opening
from harness.environments.world import World
from harness.model import AttemptRecord, Submission, Task
from harness.reports.progress import NotesOnly
from harness.sandbox.images import build_images, require_image

Act = Callable[[World], Awaitable[object]]


class Acting:
    """An agent that does what it is told to, and then hands in a word."""

    def __init__(self, act: Act) -> None:
        self._act = act

    def sample_lines(self, task: Task) -> list[int | None]:
        return [None]

    async def attempt(self, task: Task, sample_line: int | None, world: World | None) -> Submission:
        assert world is not None
        await self._act(world)
        await world.submit("done")
        return Submission("done", agent_output="done")


async def attempted(
    client: APIClient,
    folder: Path,
    act: Act,
    *,
    environment_name: str = "os",
    seconds: float = 60.0,
    memory_mb: int = 128,
    disk_mb: int = 32,
) -> AttemptRecord:
    """Return the record of an attempt at the first bundled task, in a small world."""
    world = environment(environment_name)
    benchmark = load_benchmark("agentbench", path="bundled", notify=print)
    task = next(task for task in benchmark.tasks if task.environment == world.name)
    limits = world.limits.model_copy(update={"disk_mb": disk_mb, "memory_mb": memory_mb})
    assert world.image is not None
    build_images(client, [world.image], notify=print)
    opening = Opening(require_image(client, world.image), limits, "runc", "none", client)
    observer = NotesOnly(sys.stderr)
    plan = [PlannedAttempt(task, 0, None)]
    with closing(RunStore(folder)) as store:
        await execute(
            Execution(
                benchmark=benchmark,
                agent=Acting(act),
                store=store,
                observer=observer,
                faults=Faults(client, observer, wait_seconds=0),
                openings={world.name: opening},
                shared={},
                timeout_seconds=seconds,
                concurrency=1,
            ),
            plan,
        )
        (record,) = store.records(plan)
    return record


async def bash(world: World, command: str) -> str:
    return (await world.call("bash", {"command": command})).text
