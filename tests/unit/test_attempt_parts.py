"""The parts of an attempt: when they enter and close, and who is to blame for what they raise."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from bundled import load_bundled
from contexts import execute

from harness.core.errors import DataError, SandboxError
from harness.core.types import AttemptRecord, Status, Submission, Verdict
from harness.environments import grading
from harness.environments.spec import TextGrader
from harness.host import retries
from harness.reports.progress import NotesOnly
from harness.runs import attempt, attempt_parts, model_parts
from harness.runs.agents import AgentError, AttemptContext
from harness.runs.attempt import AttemptSettings
from harness.runs.attempt_parts import AttemptPart, Try, WorkingTime, limit_working_time
from harness.runs.faults import Faults
from harness.runs.features import Features
from harness.runs.records import PlannedAttempt
from harness.runs.store import RunStore
from harness.sandbox.pool import SandboxPool

BENCHMARK = load_bundled("mbpp")


@dataclass
class Part(AttemptPart):
    """Notes what happens to it, and raises where a test wants it."""

    name: str
    events: list[str]
    raises: dict[str, Exception] = field(default_factory=dict)

    def note(self, event: str) -> None:
        self.events.append(f"{self.name} {event}")
        if event in self.raises:
            raise self.raises[event]

    async def prepare(self, attempt: Try) -> None:
        self.note("prepares")

    @contextlib.asynccontextmanager
    async def enter(self, attempt: Try) -> AsyncIterator[None]:
        self.note("enters")
        try:
            yield
        finally:
            self.note("closes")

    def metrics(self, verdict: Verdict) -> Mapping[str, Any]:
        return {self.name: verdict.status.value}


class Acting:
    """An agent that runs a function of the test."""

    def __init__(self, act: Any) -> None:
        self._act = act

    async def attempt(self, context: AttemptContext) -> Submission:
        return Submission(await self._act() or "", agent_output="said")


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of events, to which the grader adds as well."""
    noted: list[str] = []

    async def grade(_target: Any, _submission: Submission) -> Verdict:
        noted.append("grades")
        return Verdict(Status.PASSED, 1.0)

    monkeypatch.setattr(grading, "grader_of", lambda _target: TextGrader(object, grade))
    monkeypatch.setattr(retries, "BACKOFF_SECONDS", 0.0)
    return noted


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with closing(RunStore(tmp_path)) as store:
        yield store


async def attempted(
    store: RunStore, act: Any, parts: Sequence[AttemptPart], monkeypatch: pytest.MonkeyPatch
) -> AttemptRecord:
    """Return the record of one attempt with these parts around all others."""
    make_parts = Features.make_parts
    monkeypatch.setattr(Features, "make_parts", lambda *arguments: [*parts, *make_parts(*arguments)])
    observer = NotesOnly(sys.stderr)
    settings = AttemptSettings(
        benchmark=BENCHMARK,
        agent=Acting(act),
        transcripts=store,
        observer=observer,
        faults=Faults(None, observer, wait_seconds=0),
        pool=SandboxPool(),
        limits={},
        timeout_seconds=0.3,
    )
    plan = [PlannedAttempt(BENCHMARK.tasks[0], 0, None)]
    await execute(settings, plan, store=store, concurrency=1)
    (record,) = store.records(plan)
    return record


async def answer() -> str:
    return "done"


async def give_up() -> None:
    raise AgentError("no idea")


@pytest.mark.parametrize(
    ("act", "ends"),
    [(answer, ["grades"]), (give_up, []), (asyncio.Event().wait, [])],
    ids=["answers", "gives up", "runs out of time"],
)
async def test_parts_close_in_reverse_before_anything_is_graded(
    store: RunStore, monkeypatch: pytest.MonkeyPatch, events: list[str], act: Any, ends: list[str]
) -> None:
    await attempted(store, act, [Part("a", events), Part("b", events)], monkeypatch)
    prepared = ["a prepares", "b prepares", "a enters", "b enters"]
    assert events == [*prepared, "b closes", "a closes", *ends]


LOST, DEFECT = SandboxError("lost"), KeyError("a defect of ours")


@pytest.mark.parametrize(
    ("when", "error"),
    [("prepares", LOST), ("enters", LOST), ("closes", LOST), ("prepares", DEFECT), ("enters", DEFECT)],
)
async def test_a_failure_of_a_part_is_retried_and_never_the_agents(
    store: RunStore, monkeypatch: pytest.MonkeyPatch, events: list[str], when: str, error: Exception
) -> None:
    record = await attempted(store, answer, [Part("a", events, {when: error})], monkeypatch)
    assert (record.status, record.score) == (Status.INFRA_ERROR, None)
    assert events.count("a prepares") == record.metrics["tries"] > 1
    assert "grades" not in events


@pytest.mark.parametrize("error", [DEFECT, DataError("a reply that a server of the agent has made")])
async def test_a_defect_after_the_agent_has_acted_gives_no_second_chance(
    store: RunStore, monkeypatch: pytest.MonkeyPatch, events: list[str], error: Exception
) -> None:
    record = await attempted(store, answer, [Part("a", events, {"closes": error})], monkeypatch)
    assert (record.status, record.score) == (Status.INFRA_ERROR, None)
    assert events.count("a prepares") == 1
    assert "grades" not in events


async def test_a_part_that_fails_later_closes_those_that_entered_before(
    store: RunStore, monkeypatch: pytest.MonkeyPatch, events: list[str]
) -> None:
    parts = [Part("a", events), Part("b", events, {"enters": SandboxError("lost")})]
    await attempted(store, answer, parts, monkeypatch)
    assert events.count("a enters") == events.count("a closes") > 1


async def test_parts_close_in_reverse_if_the_run_is_cancelled(
    store: RunStore, monkeypatch: pytest.MonkeyPatch, events: list[str]
) -> None:
    acting = asyncio.Event()

    async def act() -> None:
        acting.set()
        await asyncio.Event().wait()

    parts = [Part("a", events), Part("b", events)]
    running = asyncio.create_task(attempted(store, act, parts, monkeypatch))
    await acting.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert events[-2:] == ["b closes", "a closes"]


async def test_a_part_may_replace_the_exception_of_an_agent(
    store: RunStore, monkeypatch: pytest.MonkeyPatch, events: list[str]
) -> None:
    part = Part("a", events, {"closes": SandboxError("the server failed, and the agent caught it")})
    record = await attempted(store, give_up, [part], monkeypatch)
    assert record.status is Status.INFRA_ERROR


async def test_the_metrics_of_all_parts_are_those_of_the_attempt(
    store: RunStore, monkeypatch: pytest.MonkeyPatch, events: list[str]
) -> None:
    record = await attempted(store, answer, [Part("a", events), Part("b", events)], monkeypatch)
    assert json.loads(json.dumps(record.metrics)) == {"a": "passed", "b": "passed"}


def test_an_attempt_knows_none_of_its_parts_by_name() -> None:
    source = Path(attempt.__file__).read_text()
    parts = [part.__name__ for part in AttemptPart.__subclasses__() if part.__module__ != __name__]
    assert {model_parts.ModelPart.__name__, "ServersPart", "TimePart"} <= set(parts)
    assert [name for name in parts if name in source.replace("AttemptPart", "")] == []


async def test_the_part_of_the_page_measures_the_time_of_the_agent(
    store: RunStore, monkeypatch: pytest.MonkeyPatch, events: list[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "adding" / "part.md").read_text()
    source, attached = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    namespace: dict[str, Any] = {"parts": []}
    exec(f"{source}\n{attached}", namespace)
    record = await attempted(store, asyncio.Event().wait, namespace["parts"], monkeypatch)
    assert record.status is Status.TIMEOUT
    assert record.metrics["acting_seconds"] >= 0.3


async def run_out(seconds: float, *, paused_seconds: float = 0.0) -> WorkingTime:
    """Return the limit of work that pauses for a time, and that only its limit ends."""
    with contextlib.suppress(TimeoutError):
        async with limit_working_time(seconds) as limit:
            if paused_seconds:
                with limit.pause():
                    await asyncio.sleep(paused_seconds)
            await asyncio.get_running_loop().create_future()
    return limit


async def test_the_limit_ends_the_block() -> None:
    assert (await run_out(0.01)).is_over


async def test_a_pause_does_not_count() -> None:
    async with limit_working_time(0.1) as limit:
        with limit.pause(), limit.pause():
            await asyncio.sleep(0.3)
    assert not limit.is_over


async def test_the_rest_of_the_time_runs_on_after_a_pause() -> None:
    assert (await run_out(0.05, paused_seconds=0.1)).is_over


async def test_pauses_have_a_bound_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_parts, "MOST_PAUSE_SECONDS", 0.05)
    assert (await run_out(0.01, paused_seconds=3600.0)).is_over


async def test_a_pause_after_the_end_changes_nothing() -> None:
    async with limit_working_time(0.1) as limit:
        pass
    with limit.pause():
        assert not limit.is_over
