"""Measure how many verdicts one head dispatches to 64 nodes in a second. The nodes are stubs in its process.

So the figures have the head's own work, and neither Ray's nor the time of any network.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from figure import Figure, Measurement, Reading
from session import Session

sys.path.append(str(Path(__file__).parents[1]))
from stub_nodes import Notes, StubNode, make_attempts, open_members

from harness.service.workers import RayWorkers

NODES, PLACES, SECONDS = 64, 16, 0.05
COUNT, ROUNDS = 20_000, 3
RUN = Figure(
    "verdicts of a run that one head dispatches to 64 nodes and stores, by processor time",
    "a second",
    mark=5000,
    judged="ours",
    better="higher",
)
SERVICE = Figure(
    "verdicts of a service that one head dispatches to 64 nodes, by processor time",
    "a second",
    mark=5000,
    judged="ours",
    better="higher",
)


def take(_session: Session) -> Iterator[Reading]:
    """Yield the readings of a run and of a service."""
    note = f"{NODES * PLACES:,} places of {SECONDS:g} s each, by stubs in the same process"
    yield Reading(RUN, [asyncio.run(_measure_run()) for _ in range(ROUNDS)], note=note)
    yield Reading(SERVICE, [asyncio.run(_measure_service()) for _ in range(ROUNDS)], note=note)


def _make_nodes() -> list[StubNode]:
    return [StubNode(number, PLACES, SECONDS) for number in range(NODES)]


async def _measure_run() -> float:
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        await make_attempts(_make_nodes(), COUNT, Path(folder), Notes())
        return COUNT / (time.process_time() - began)


async def _measure_service() -> float:
    workers = RayWorkers(await open_members(_make_nodes(), print), lambda _faults: None)
    numbers = itertools.count()

    async def work_off() -> None:
        while (number := next(numbers)) < COUNT:
            item: Any = number
            await workers.perform(item, seconds=60)

    began = time.process_time()
    await asyncio.gather(*(work_off() for _ in range(NODES * PLACES)))
    return COUNT / (time.process_time() - began)


MEASUREMENTS = (Measurement("dispatch", (RUN, SERVICE), take),)
