"""Show where the time of one container goes: wall time and processor time of each phase, by process.

Containers start, grade one sample and end one after the other. The clocks are those of machine_clock.py, so
that no profiler is needed.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from docker import APIClient
from figure import CannotMeasure
from machine_clock import NAMES, MachineClock, differ, foreign_containers, watch_machine
from session import Session

from harness import Sandbox, load_benchmark
from harness.core.types import ProgramTests
from harness.environments.python.programs import grade_program
from harness.sandbox.backends.docker.backend import DockerBackend

PHASES = ("create", "attach", "start", "hello", "grade", "further grade", "remove", "settle")
# The requests to the engine that end these phases.
_REQUESTS = {"create_container": "create", "start": "start", "remove_container": "remove"}
TIMES = 12


class _Phases:
    """The wall time and the processor times of each phase, in seconds, for each container."""

    def __init__(self, clock: MachineClock) -> None:
        self.wall: dict[str, list[float]] = defaultdict(list)
        self.spent: dict[str, list[Mapping[str, float]]] = defaultdict(list)
        self._clock = clock
        self._begin = 0.0
        self._before: dict[str, float] = {}

    def begin(self) -> None:
        """Begin a phase now."""
        self._before = self._clock.read()
        self._begin = time.monotonic()

    def end(self, phase: str) -> None:
        """End the phase that has begun, and begin the next one."""
        self.wall[phase].append(time.monotonic() - self._begin)
        self.spent[phase].append(differ(self._clock.read(), self._before))
        self.begin()


class _WatchedClient:
    """A client of the engine that ends a phase with each request that creates, starts or removes."""

    def __init__(self, client: APIClient, phases: _Phases) -> None:
        self._client = client
        self._phases = phases

    def __getattr__(self, name: str) -> Any:
        work = getattr(self._client, name)
        if name not in _REQUESTS:
            return work

        def watched(*arguments: Any, **options: Any) -> Any:
            if name == "start":
                self._phases.end("attach")
            try:
                return work(*arguments, **options)
            finally:
                self._phases.end(_REQUESTS[name])

        return watched


def trace(session: Session) -> str:
    """Return a table of the phases of one container. Raises CannotMeasure without the kernel's records."""
    others = foreign_containers(session.client)
    with watch_machine() as clock:
        phases = _Phases(clock)
        asyncio.run(_live(session, phases, clock))
    others += foreign_containers(session.client)
    warning = "\nOther containers ran on this engine: their processor time is part of this." if others else ""
    return _as_text(phases) + warning


async def _live(session: Session, phases: _Phases, clock: MachineClock) -> None:
    watched: Any = _WatchedClient(session.client, phases)
    backend = DockerBackend(watched)
    benchmark = load_benchmark("humaneval", data=str(session.humaneval))
    tasks = [benchmark.tasks[0], *benchmark.tasks[:TIMES]]
    for number, task in enumerate(tasks):
        if number == 1:
            # The first container reads the disk, and this process imports.
            phases.wall.clear()
            phases.spent.clear()
        reference = benchmark.references[task.id]
        submission = benchmark.definition.submit(task, "solution", reference.solution)
        assert isinstance(reference.target, ProgramTests)
        phases.begin()
        async with Sandbox.open("python", backend=backend, seccomp="strict") as sandbox:
            phases.end("hello")
            for phase in ("grade", "further grade"):
                verdict = await grade_program(sandbox, reference.target, submission)
                phases.end(phase)
                if not verdict.resolved:
                    raise CannotMeasure(f"{task.id}: the reference failed")
        phases.begin()
        clock.settle()
        phases.end("settle")


def _as_text(phases: _Phases) -> str:
    head = f"{'ms a container':16}{'wall':>8}{'processor':>11}" + "".join(f"{name:>12}" for name in NAMES)
    lines = [head, "-" * len(head)]
    sums = dict.fromkeys(NAMES, 0.0)
    for phase in PHASES:
        if not phases.wall[phase]:
            continue
        # The mean, because the clocks of some kernels advance in ticks.
        spent = {name: 1000 * statistics.fmean(each[name] for each in phases.spent[phase]) for name in NAMES}
        wall = 1000 * statistics.median(phases.wall[phase])
        shown = f"{wall:8.1f}" if phase != "settle" else f"{'-':>8}"
        lines.append(f"{phase:16}{shown}" + _cells(spent))
        sums = {name: sums[name] + spent[name] for name in NAMES}
    whole = 1000 * statistics.median(
        sum(walls)
        for walls in zip(*(phases.wall[each] for each in PHASES[:-1] if phases.wall[each]), strict=True)
    )
    lines.append(f"{'sum':16}{whole:8.1f}" + _cells(sums))
    lines += [
        "",
        f"{len(phases.wall['hello'])} containers, one after the other. `hello` is the wait for the guest.",
        "`settle` is the work of the engine after the removal. The guest is everything in the container's",
        "control group; the harness has the clocks' own cost, and runc its processes outside of that group.",
    ]
    return "\n".join(lines)


def _cells(spent: Mapping[str, float]) -> str:
    return f"{sum(spent.values()):11.1f}" + "".join(f"{spent[name]:12.1f}" for name in NAMES)
