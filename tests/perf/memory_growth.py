"""Measure whether the memory of a run grows with the number of its finished tasks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import psutil
from figure import CannotMeasure, Figure, Measurement, Reading
from session import Session

from harness import run
from harness.core.types import AttemptRecord

STEP = 100
GROWTH = Figure("memory of the host process, at the end of many tasks", "MiB", "after 100 tasks", mark=1.1)


class _MemoryWatch:
    """A watcher of a run that records this process's memory, in MiB, after each STEP attempts."""

    def __init__(self) -> None:
        self.mebibytes: list[float] = []
        self._attempts = 0

    def on_start(self, *, attempts: int, finished: int, concurrency: int) -> None:
        pass

    def on_attempt(self, record: AttemptRecord) -> None:
        self._attempts += 1
        if self._attempts % STEP == 0:
            self.mebibytes.append(psutil.Process().memory_info().rss / 2**20)

    def note(self, text: str) -> None:
        print(text)

    def on_end(self) -> None:
        pass


def take(session: Session) -> Iterator[Reading]:
    """Yield the reading of a run of trivial tasks, each in its own container."""
    tasks = session.size.memory_tasks
    if tasks < 2 * STEP:
        raise CannotMeasure("--quick leaves it out")
    rows = [
        {
            "task_id": number,
            "prompt": f"Write a function to add {number}.",
            "code": f"def add(x):\n    return x + {number}",
            "test_imports": [],
            "test_list": [f"assert add(1) == {number + 1}"],
        }
        for number in range(1, tasks + 1)
    ]
    watch = _MemoryWatch()
    data = session.folder / "mbpp.json"
    data.write_text(json.dumps(rows))
    result = asyncio.run(
        run(
            "mbpp",
            data=str(data),
            max_concurrent=session.workers,
            output_dir=str(session.folder / "memory"),
            observer=watch,
        )
    )
    if result.summary.resolved != tasks:
        raise CannotMeasure(f"only {result.summary.resolved} of {tasks} passed")
    yield Reading(GROWTH, [watch.mebibytes[-1]], [watch.mebibytes[0]], f"{tasks} tasks")


MEASUREMENTS = (Measurement("memory", (GROWTH,), take),)
