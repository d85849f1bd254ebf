"""Attempts of agents that run a test's function, in real sandboxes."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

from contexts import execute
from docker import APIClient

from harness.benchmarks import load_benchmark
from harness.core.types import AttemptRecord, Submission
from harness.environments import environment_spec
from harness.environments.base import SandboxEnvironment
from harness.reports.progress import NotesOnly
from harness.runs.agents import AttemptContext
from harness.runs.attempt import AttemptSettings
from harness.runs.faults import Faults
from harness.runs.records import PlannedAttempt
from harness.runs.store import RunStore
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.machine.images import build_images
from harness.sandbox.pool import SandboxPool

Act = Callable[[SandboxEnvironment], Awaitable[object]]


class Acting:
    """An agent that runs a function of the test, and then submits a word."""

    def __init__(self, act: Act) -> None:
        self._act = act

    async def attempt(self, context: AttemptContext) -> Submission:
        assert isinstance(context.environment, SandboxEnvironment)
        await self._act(context.environment)
        await context.environment.submit("done")
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
    """Return the record of an attempt at the first bundled task, in a small environment."""
    environment = environment_spec(environment_name)
    benchmark = load_benchmark("agentbench", data="bundled", notify=print)
    task = next(task for task in benchmark.tasks if task.environment == environment.name)
    limits = environment.limits.model_copy(update={"disk_mb": disk_mb, "memory_mb": memory_mb})
    assert environment.image is not None
    build_images(client, [environment.image], notify=print)
    observer = NotesOnly(sys.stderr)
    plan = [PlannedAttempt(task, 0, None)]
    with closing(RunStore(folder)) as store:
        async with SandboxPool(DockerBackend(client)) as pool:
            settings = AttemptSettings(
                benchmark=benchmark,
                agent=Acting(act),
                transcripts=store,
                observer=observer,
                faults=Faults(DockerBackend(client), observer, wait_seconds=0),
                pool=pool,
                limits={environment.name: limits},
                timeout_seconds=seconds,
            )
            await execute(settings, plan, store=store, concurrency=1)
        (record,) = store.records(plan)
    return record


async def bash(environment: SandboxEnvironment, command: str) -> str:
    return (await environment.call("bash", {"command": command})).text
