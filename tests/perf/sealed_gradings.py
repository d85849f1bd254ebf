"""Measure the cost of the second machine of a task folder: its start, and the files that it gets."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from figure import Figure, Measurement, Reading
from sealed_tasks import acted, judge, write_task
from session import Session

from harness.environments.container.changes import carry_changes, list_changes
from harness.environments.container.grader import make_scene
from harness.environments.container.machine import open_machine
from harness.environments.container.verifier import read_tests
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.backends.docker.images import require_image
from harness.sandbox.pool import SandboxPool

FILES = 1000
CARRY = Figure(
    f"task folder: carry {FILES:,} changed files into the second machine", "s", mark=1, judged="ours"
)
GRADE = Figure("task folder: a grading, beside its tests", "s", mark=1, judged="ours")
SCRIPT = "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n"
CHANGE = f"mkdir -p /app/made; for i in $(seq {FILES}); do echo $i > /app/made/$i; done"


@dataclass(slots=True)
class _Times:
    carries: list[float] = field(default_factory=list)
    gradings: list[float] = field(default_factory=list)


def take(session: Session) -> Iterator[Reading]:
    """Yield the readings of several gradings."""
    times = asyncio.run(_measure(session))
    yield Reading(CARRY, times.carries)
    yield Reading(GRADE, times.gradings)


async def _measure(session: Session) -> _Times:
    times = _Times()
    with tempfile.TemporaryDirectory() as folder:
        task = write_task(Path(folder), require_image(session.client, "os"), script=SCRIPT, tests={"x": ""})
        async with SandboxPool(DockerBackend(session.client), nested_sandboxes=1) as pool:
            for _ in range(session.size.starts):
                async with acted(pool, task, "true") as environment:
                    started = time.monotonic()
                    verdict = await judge(pool, environment, "work")
                    assert verdict.resolved, verdict
                    times.gradings.append(time.monotonic() - started - verdict.metrics["tests_seconds"])
                async with acted(pool, task, CHANGE) as environment, pool.grade_nested():
                    first = environment.machine
                    async with open_machine(pool, first.image_id, seconds=120, nested=True) as second:
                        scene = make_scene(environment.folder, first, read_tests(environment.folder))
                        started = time.monotonic()
                        carried = await carry_changes(await list_changes(first), first, second, "work", scene)
                        times.carries.append(time.monotonic() - started)
                        assert carried.files >= FILES, carried
    return times


MEASUREMENTS = (Measurement("sealed-gradings", (CARRY, GRADE), take),)
