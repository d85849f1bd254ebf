"""The part of an attempt that needs no engine: what the agent does, and for how long."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.agents import AgentError
from harness.benchmarks import load_benchmark
from harness.engine import faults
from harness.engine.execute import Execution, execute
from harness.engine.faults import Faults
from harness.engine.plan import PlannedAttempt
from harness.engine.store import RunStore
from harness.environments import Environment, environments
from harness.environments.world import World
from harness.model import AttemptRecord, Status, Submission, Task
from harness.reports.progress import NotesOnly
from harness.sandbox.failures import SandboxOutOfDisk, SandboxUnresponsive

BENCHMARK = load_benchmark("mbpp", path="bundled", notify=print)


class Acting:
    """An agent that does what it is told to."""

    def __init__(self, act: Any) -> None:
        self._act = act

    def sample_lines(self, task: Task) -> list[int | None]:
        return [None]

    async def attempt(self, task: Task, sample_line: int | None, world: World | None) -> Submission:
        await self._act()
        assert world is not None, "it ends otherwise"
        return Submission("", agent_output="said")


def task_in_world(monkeypatch: pytest.MonkeyPatch, end: Any) -> Task:
    """A task of an environment of the tests' own, whose worlds have no sandbox and end as `end` does."""
    nothing: Any = None

    @contextlib.asynccontextmanager
    async def open_world(
        opening: Any, task: Task, rounds: int | None, seconds: float, record: Any
    ) -> AsyncIterator[World]:
        yield World(nothing, nothing, {}, rounds=rounds, record=record, end=end)

    nowhere = Environment("nowhere", None, "no place", open_world=open_world)
    monkeypatch.setitem(environments(), "nowhere", nowhere)
    monkeypatch.setattr(faults, "BACKOFF_SECONDS", 0.0)
    return replace(BENCHMARK.tasks[0], environment="nowhere")


async def nothing_to_do() -> None:
    """What an agent does that hands in at once."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with closing(RunStore(tmp_path)) as store:
        yield store


async def attempted(store: RunStore, act: Any, task: Task = BENCHMARK.tasks[0]) -> AttemptRecord:
    """What is stored of one attempt of an agent that does `act`, within half a second."""
    plan = [PlannedAttempt(task, 0, None)]
    nothing: Any = None
    observer = NotesOnly(sys.stderr)
    execution = Execution(
        benchmark=BENCHMARK,
        agent=Acting(act),
        store=store,
        observer=observer,
        faults=Faults(None, observer, wait_seconds=0),
        openings={task.environment: nothing},
        shared={},
        timeout_seconds=0.5,
        concurrency=1,
    )
    await execute(execution, plan)
    (record,) = store.records(plan)
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


async def test_a_limit_reached_after_the_last_round_is_the_agents_doing(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fill() -> None:
        raise SandboxOutOfDisk("too much was written")

    record = await attempted(store, nothing_to_do, task_in_world(monkeypatch, fill))
    assert (record.status, record.agent_output) == (Status.OUTPUT_LIMIT, "said")
    assert record.metrics == {"phase": "agent", "limit": "disk_mb", "rounds": 0}


async def test_a_guest_that_is_kept_from_answering_by_the_agent_is_a_timeout_of_the_agent(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang() -> None:
        raise SandboxUnresponsive("it did not answer")

    record = await attempted(store, hang, task_in_world(monkeypatch, nothing_to_do))
    assert record.status is Status.TIMEOUT
    assert record.metrics == {"phase": "agent", "limit": "timeout_seconds", "tries": 3}
