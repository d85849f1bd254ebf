"""Measure a fork of a sandbox and of an environment, beside the start of one, eight side by side, in turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from figure import Figure, Measurement, Reading
from session import Session

import harness
from harness.benchmarks import load_benchmark
from harness.hosts import Host
from harness.sandbox.snapshots import open_together

COUNT, ROUNDS = 8, 3
FIRST = Figure("the first fork of a sandbox", "s", "the start of a sandbox", mark=1.5)
FURTHER = Figure("each of 8 forks of a sandbox", "s", "each of 8 starts", mark=1.5)
MACHINE = Figure("each of 8 forks of an `os` machine", "s", "each of 8 that are opened", mark=1.5)
_PREPARE = "mkdir a; for i in $(seq 50); do head -c 2000 /dev/urandom > a/$i; done"
_TASK = "os/sample/states/1"

Open = Callable[[int], AbstractAsyncContextManager[Any]]


def take(_session: Session) -> Iterator[Reading]:
    """Yield the readings of sandboxes and of machines."""
    for figure, (forked, opened) in asyncio.run(_measure()).items():
        yield Reading(figure, forked, opened)


async def _measure() -> dict[Figure, tuple[list[float], list[float]]]:
    async with harness.open_host(environments=("python", "os")) as host:
        async with host.sandbox() as sandbox:
            await sandbox.exec(["sh", "-c", _PREPARE])
            files = await sandbox.snapshot()
        readings = {
            figure: await _compare(
                count, lambda count: host.fork(files, count), lambda count: _start(host, count)
            )
            for figure, count in ((FIRST, 1), (FURTHER, COUNT))
        }
        benchmark = load_benchmark("agentbench", data="bundled")
        async with host.environment(benchmark, _TASK) as episode:
            await episode.call("bash", {"command": _PREPARE})
            state = await episode.snapshot()

        def reopen(count: int) -> AbstractAsyncContextManager[Any]:
            return open_together([host.environment(benchmark, _TASK) for _ in range(count)])

        readings[MACHINE] = await _compare(COUNT, lambda count: host.fork(state, count), reopen)
        return readings


def _start(host: Host, count: int) -> AbstractAsyncContextManager[Any]:
    return open_together([host.sandbox() for _ in range(count)])


async def _compare(count: int, fork: Open, start: Open) -> tuple[list[float], list[float]]:
    """Return the seconds of each fork and of each start."""
    forked: list[float] = []
    started: list[float] = []
    for _ in range(ROUNDS):
        for seconds, opening in ((forked, fork(count)), (started, start(count))):
            began = time.perf_counter()
            async with opening:
                seconds.append((time.perf_counter() - began) / count)
    return forked, started


MEASUREMENTS = (Measurement("forks", (FIRST, FURTHER, MACHINE), take),)
