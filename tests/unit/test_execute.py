"""The part of an attempt that needs no engine: what the agent does, and for how long."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harness.agents import AgentError
from harness.benchmarks import load_benchmark
from harness.engine.execute import Execution, execute
from harness.engine.faults import Faults
from harness.engine.plan import PlannedAttempt
from harness.engine.store import RunStore
from harness.environments.world import World
from harness.model import AttemptRecord, Status, Submission, Task
from harness.reports.progress import NotesOnly

BENCHMARK = load_benchmark("mbpp", path="bundled", notify=print)
PLAN = [PlannedAttempt(BENCHMARK.tasks[0], 0, None)]


class Acting:
    """An agent that does what it is told to."""

    def __init__(self, act: Any) -> None:
        self._act = act

    def sample_lines(self, task: Task) -> list[int | None]:
        return [None]

    async def attempt(self, task: Task, sample_line: int | None, world: World | None) -> Submission:
        await self._act()
        raise AssertionError("it ends otherwise")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with closing(RunStore(tmp_path)) as store:
        yield store


async def attempted(store: RunStore, act: Any) -> AttemptRecord:
    """What is stored of one attempt of an agent that does `act`, within half a second."""
    observer = NotesOnly(sys.stderr)
    execution = Execution(
        benchmark=BENCHMARK,
        agent=Acting(act),
        store=store,
        observer=observer,
        faults=Faults(None, observer, wait_seconds=0),
        openings={},
        shared={},
        timeout_seconds=0.5,
        concurrency=1,
    )
    await execute(execution, PLAN)
    (record,) = store.records(PLAN)
    return record


async def test_an_agent_that_does_not_end_is_a_timeout_of_the_agent(store: RunStore) -> None:
    record = await attempted(store, asyncio.Event().wait)
    assert record.status is Status.TIMEOUT
    assert record.metrics == {"phase": "agent", "limit": "timeout_seconds"}


async def test_an_agent_that_gives_up_is_an_agent_error(store: RunStore) -> None:
    async def give_up() -> None:
        raise AgentError("no idea")

    record = await attempted(store, give_up)
    assert (record.status, record.error) == (Status.AGENT_ERROR, "no idea")
