"""An agent that uses up what its world gives it: the attempt ends, in its name, at the first try."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest
from docker import APIClient
from docker.errors import NotFound

from harness.benchmarks import load_benchmark
from harness.engine.execute import Execution, execute
from harness.engine.faults import Faults
from harness.engine.plan import PlannedAttempt
from harness.engine.store import RunStore
from harness.environments import environment
from harness.environments.opening import Opening
from harness.environments.world import World
from harness.model import AttemptRecord, Status, Submission, Task
from harness.reports.progress import NotesOnly
from harness.sandbox.images import build_images, require_image

pytestmark = pytest.mark.timeout(120)

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
    """What is stored of an attempt at the first bundled task, in a small world."""
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


async def test_a_full_disk_ends_as_output_limit(client: APIClient, tmp_path: Path) -> None:
    record = await attempted(client, tmp_path, lambda world: bash(world, "dd if=/dev/zero of=/root/x bs=1M"))
    assert record.status is Status.OUTPUT_LIMIT
    assert record.metrics["limit"] == "disk_mb"
    assert record.metrics["phase"] == "agent"
    assert "tries" not in record.metrics


async def test_a_job_left_behind_that_fills_the_disk_gets_no_pass(client: APIClient, tmp_path: Path) -> None:
    async def leave(world: World) -> None:
        await bash(world, "(sleep 1; dd if=/dev/zero of=/root/x bs=1M) >/dev/null 2>&1 &")
        with contextlib.suppress(NotFound):
            await asyncio.to_thread(client.wait, world.sandbox.container_id)

    record = await attempted(client, tmp_path, leave)
    assert record.status is Status.OUTPUT_LIMIT
    assert record.metrics["limit"] == "disk_mb"


async def test_a_program_that_takes_all_memory_costs_the_agent_only_that(
    client: APIClient, tmp_path: Path
) -> None:
    told = []

    async def take(world: World) -> None:
        told.append(await bash(world, "python3 -c 'x = bytearray(10 ** 9)'"))
        told.append(await bash(world, "echo alive"))

    record = await attempted(client, tmp_path, take)
    assert "[exit code 137]" in told[0]
    assert told[1] == "alive\n[exit code 0]"
    assert record.status is Status.FAILED


async def test_files_that_take_all_memory_end_as_memory_limit(client: APIClient, tmp_path: Path) -> None:
    async def fill(world: World) -> None:
        for folder in ("/tmp", "/dev/shm"):
            await bash(world, f"cat /dev/zero > {folder}/x")
        # Whatever PID 1 does next needs memory, and nothing but PID 1 is left to be killed for it.
        for _ in range(100):
            await bash(world, "true")

    record = await attempted(client, tmp_path, fill, memory_mb=64, disk_mb=256)
    assert record.status is Status.MEMORY_LIMIT
    assert (record.metrics["phase"], record.metrics["limit"]) == ("agent", "memory_mb")


@pytest.mark.parametrize(("environment_name", "rounds"), [("os", 8), ("db", 15)])
async def test_used_up_rounds_end_as_limit_reached(
    client: APIClient, tmp_path: Path, environment_name: str, rounds: int
) -> None:
    async def go_on(world: World) -> None:
        while True:
            await world.call("no such tool", {})

    record = await attempted(client, tmp_path, go_on, environment_name=environment_name)
    assert record.status is Status.LIMIT_REACHED
    assert (record.metrics["limit"], record.metrics["rounds"]) == ("rounds", rounds)


async def test_a_command_beyond_the_tasks_limit_is_a_timeout_of_the_agent(
    client: APIClient, tmp_path: Path
) -> None:
    record = await attempted(client, tmp_path, lambda world: bash(world, "sleep 25"), seconds=2.0)
    assert record.status is Status.TIMEOUT
    assert (record.metrics["phase"], record.metrics["limit"]) == ("agent", "timeout_seconds")
