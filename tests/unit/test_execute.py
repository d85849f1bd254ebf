"""The part of an attempt that needs no engine: the agent's actions and its time limit."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bundled import load_bundled
from case_checks import each_case
from contexts import execute, no_context

from harness.core.errors import SandboxError
from harness.core.types import AttemptRecord, Phase, Status, Submission, Task, Verdict
from harness.environments import EnvironmentSpec, environment_specs, grading
from harness.environments.base import Environment, EnvironmentContext, SandboxEnvironment
from harness.environments.grading import GradingContext, grade_submission
from harness.environments.spec import StateGrader, TextGrader
from harness.host import retries
from harness.host.retries import LOST_SANDBOX
from harness.reports.progress import NotesOnly
from harness.runs.agents import AgentError, AttemptContext
from harness.runs.agents.agent import AgentNotStarted
from harness.runs.attempt import AttemptSettings
from harness.runs.faults import Faults
from harness.runs.records import PlannedAttempt
from harness.runs.store import RunStore
from harness.sandbox.failures import SandboxOutOfDisk, SandboxUnresponsive
from harness.sandbox.pool import SandboxPool

BENCHMARK = load_bundled("mbpp")
MISSING = AgentNotStarted("exit code 127: agent: not found")


class Acting:
    """An agent that runs a function of the test."""

    def __init__(self, act: Any) -> None:
        self._act = act

    async def attempt(self, context: AttemptContext) -> Submission:
        await self._act()
        assert context.environment is not None, "it ends otherwise"
        return Submission("", agent_output="said")


def task_in_environment(
    monkeypatch: pytest.MonkeyPatch, end: Any, *, acted: bool = False, leave: Any = lambda: None
) -> Task:
    """Return a task of a test environment, which has no sandbox and ends as `end` does.

    If `acted` is true, an agent has acted in it. `leave` is called at the end of its block.
    """

    @contextlib.asynccontextmanager
    async def open_environment(task: Task, context: EnvironmentContext) -> AsyncIterator[Environment]:
        sandbox: Any = SimpleNamespace(agent_acted=acted)
        yield SandboxEnvironment(sandbox, {}, context, end=end)
        leave()

    nowhere = EnvironmentSpec("nowhere", None, "no place", open_environment=open_environment)
    monkeypatch.setitem(environment_specs(), "nowhere", nowhere)
    monkeypatch.setattr(retries, "BACKOFF_SECONDS", 0.0)
    return replace(BENCHMARK.tasks[0], environment="nowhere")


async def nothing_to_do() -> None:
    """Do nothing, as an agent that submits at once."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with closing(RunStore(tmp_path)) as store:
        yield store


async def attempted(
    store: RunStore,
    act: Any,
    task: Task = BENCHMARK.tasks[0],
    *,
    seconds: float = 0.5,
    engine: Faults | None = None,
) -> AttemptRecord:
    """Return the stored record of one attempt of an agent that runs `act` for at most `seconds`."""
    plan = [PlannedAttempt(task, 0, None)]
    observer = NotesOnly(sys.stderr)
    settings = AttemptSettings(
        benchmark=BENCHMARK,
        agent=Acting(act),
        transcripts=store,
        observer=observer,
        faults=engine or Faults(None, observer, wait_seconds=0),
        pool=SandboxPool(),
        limits={},
        timeout_seconds=seconds,
    )
    await execute(settings, plan, store=store, concurrency=1)
    (record,) = store.records(plan)
    return record


async def test_an_agent_that_does_not_end_is_a_timeout_of_the_agent(store: RunStore) -> None:
    record = await attempted(store, asyncio.Event().wait)
    assert record.status is Status.TIMEOUT
    assert record.metrics == {"phase": "agent", "limit": "timeout_seconds", "limit_value": 0.5}


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

    record = await attempted(store, nothing_to_do, task_in_environment(monkeypatch, fill))
    assert (record.status, record.agent_output) == (Status.OUTPUT_LIMIT, "said")
    assert record.metrics == {"phase": "agent", "limit": "disk_mb", "rounds": 0}


async def test_a_guest_that_is_kept_from_answering_by_the_agent_is_a_timeout_of_the_agent(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang() -> None:
        raise SandboxUnresponsive("it did not answer")

    record = await attempted(store, hang, task_in_environment(monkeypatch, nothing_to_do))
    assert record.status is Status.TIMEOUT
    assert record.metrics == {"phase": "agent", "limit": "timeout_seconds", "tries": 3}


async def test_a_sandbox_that_fails_after_the_agent_acted_is_the_agents_failure_at_once(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail() -> None:
        raise SandboxError("PID 1 \x1b[2J is gone", acted_in=True)

    record = await attempted(store, nothing_to_do, task_in_environment(monkeypatch, fail, acted=True))
    assert (record.status, record.score, record.error) == (Status.CRASHED, 0.0, "PID 1 \\x1b[2J is gone")
    assert record.metrics == {"phase": "agent", "integrity": LOST_SANDBOX, "rounds": 0}


async def test_an_error_without_a_sandbox_is_the_agents_once_it_has_acted(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail() -> None:
        raise SandboxError("a process that ran the agent's SQL could not be ended")

    record = await attempted(store, nothing_to_do, task_in_environment(monkeypatch, fail, acted=True))
    assert (record.status, record.metrics["integrity"]) == (Status.CRASHED, LOST_SANDBOX)


async def test_a_silent_guest_after_the_agent_acted_is_a_timeout_at_once(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang() -> None:
        raise SandboxUnresponsive("it did not answer", acted_in=True)

    record = await attempted(store, nothing_to_do, task_in_environment(monkeypatch, hang, acted=True))
    assert record.status is Status.TIMEOUT
    assert record.metrics == {
        "phase": "agent",
        "integrity": LOST_SANDBOX,
        "limit": "timeout_seconds",
        "rounds": 0,
    }


@each_case(
    ("acted", "error"),
    [
        pytest.param(True, SandboxError("the engine restarted", outside=True), id="ended from outside"),
        pytest.param(True, SandboxError("a fresh one", acted_in=False), id="a sandbox of ours"),
        pytest.param(
            True, SandboxUnresponsive("paused", outside=True, acted_in=True), id="paused from outside"
        ),
        pytest.param(False, SandboxError("lost"), id="before the agent acted"),
    ],
)
async def test_a_failure_that_is_not_the_agents_is_retried_and_has_no_score(
    store: RunStore, monkeypatch: pytest.MonkeyPatch, acted: bool, error: SandboxError
) -> None:
    tries = []

    async def fail() -> None:
        tries.append(1)
        raise error

    record = await attempted(store, nothing_to_do, task_in_environment(monkeypatch, fail, acted=acted))
    assert (record.status, record.score) == (Status.INFRA_ERROR, None)
    assert record.metrics["tries"] == len(tries) > 1
    assert "integrity" not in record.metrics


async def test_a_sandbox_that_cannot_be_removed_costs_no_verdict(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    acts = []

    async def give_up() -> None:
        acts.append(1)
        raise AgentError("no idea")

    def stay() -> None:
        raise SandboxError("cannot remove a sandbox: timed out", outside=True)

    async def end() -> None: ...

    record = await attempted(store, give_up, task_in_environment(monkeypatch, end, acted=True, leave=stay))
    assert (record.status, len(acts)) == (Status.AGENT_ERROR, 1)


class Engine(Faults):
    """The faults of a run whose engine answers or does not answer."""

    def __init__(self, observer: NotesOnly, *, there: bool) -> None:
        super().__init__(None, observer, wait_seconds=0)
        self.there = there
        self.asked = 0

    async def check_engine(self) -> bool:
        self.asked += 1
        return self.there


async def never_end(*_arguments: Any) -> Verdict:
    await asyncio.Event().wait()
    raise AssertionError("unreachable: it waits for ever")


async def graded_in_time(
    monkeypatch: pytest.MonkeyPatch, engine: Engine, grader: StateGrader | TextGrader
) -> Verdict:
    """Return the verdict of `grade_submission` with this grader."""
    sandbox: Any = SimpleNamespace(agent_acted=True, clean=True)
    environment = SandboxEnvironment(sandbox, {}, no_context(), end=nothing_to_do)
    monkeypatch.setattr(grading, "grader_of", lambda _target: grader)
    context = GradingContext(
        SandboxPool(),
        0.05,
        environment=environment if isinstance(grader, StateGrader) else None,
        check_engine=engine.check_engine,
    )
    return await grade_submission(0, Submission("", agent_output=""), context)


async def test_a_grader_that_does_not_end_is_a_timeout_if_the_engine_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = Engine(NotesOnly(sys.stderr), there=True)
    verdict = await graded_in_time(monkeypatch, engine, StateGrader(int, never_end))
    assert (verdict.status, verdict.phase) == (Status.TIMEOUT, Phase.EVALUATOR)


async def test_a_grader_that_does_not_end_is_a_fault_of_ours_if_the_engine_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = Engine(NotesOnly(sys.stderr), there=False)
    with pytest.raises(SandboxError, match="stopped answering while a submission was graded"):
        await graded_in_time(monkeypatch, engine, StateGrader(int, never_end))


async def test_an_engine_is_not_asked_if_no_sandbox_was_used(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(NotesOnly(sys.stderr), there=False)
    verdict = await graded_in_time(monkeypatch, engine, TextGrader(int, never_end))
    assert (verdict.status, engine.asked) == (Status.TIMEOUT, 0)


async def test_grading_that_begins_too_late_is_a_fault_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox: Any = SimpleNamespace(agent_acted=True, clean=True)
    environment = SandboxEnvironment(sandbox, {}, no_context(), end=nothing_to_do)
    monkeypatch.setattr(grading, "grader_of", lambda _target: StateGrader(int, never_end))
    context = GradingContext(SandboxPool(), 5.0, environment=environment)
    with pytest.raises(SandboxError, match="waited too long") as raised:
        await grade_submission(0, Submission("", agent_output=""), context)
    assert raised.value.outside


@pytest.mark.parametrize(("there", "status"), [(True, Status.TIMEOUT), (False, Status.INFRA_ERROR)])
async def test_a_lost_engine_is_no_timeout_of_the_agent(
    store: RunStore, monkeypatch: pytest.MonkeyPatch, there: bool, status: Status
) -> None:
    task = task_in_environment(monkeypatch, nothing_to_do)
    engine = Engine(NotesOnly(sys.stderr), there=there)
    record = await attempted(store, asyncio.Event().wait, task, seconds=0.02, engine=engine)
    assert record.status is status
    assert record.metrics["phase"] == "agent"
    assert record.score == (0.0 if there else None)


async def test_an_exception_in_an_agent_ends_its_attempt_and_not_the_run(store: RunStore) -> None:
    async def stumble() -> None:
        raise KeyError("choices\x1b[2J")

    record = await attempted(store, stumble)
    assert (record.status, record.score) == (Status.AGENT_ERROR, 0.0)
    assert record.error == "KeyError: 'choices\\x1b[2J'"
    assert record.metrics == {"phase": "agent"}


async def test_the_traceback_of_an_agent_is_in_its_transcript(store: RunStore) -> None:
    async def stumble() -> None:
        raise ConnectionError("the endpoint is down")

    await attempted(store, stumble)
    (transcript,) = (store.folder / "transcripts").iterdir()
    prompt, fault = map(json.loads, transcript.read_text().splitlines())
    assert (prompt["schema_version"], prompt["prompt"]) == (1, BENCHMARK.tasks[0].prompt)
    assert fault["error"] == "ConnectionError: the endpoint is down"
    assert "in stumble" in fault["traceback"]


async def test_a_run_that_is_cancelled_while_an_agent_acts_has_no_record_of_it(store: RunStore) -> None:
    begun = asyncio.Event()

    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(attempted(store, wait, seconds=60.0))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert store.results == {}


def end_attempts(*ends: Exception | None) -> Faults:
    """Return the faults of a run whose attempts have ended so. None is a submission."""
    faults = Faults(None, NotesOnly(sys.stderr), wait_seconds=0, start_tries=2)
    for end in ends:
        try:
            with faults.watch_start():
                if end is not None:
                    raise end
        except type(end or AgentError()):
            pass
    return faults


@each_case(
    "ends",
    [(MISSING, MISSING), (MISSING, SandboxError("the engine is busy"), MISSING)],
    ids=["first attempts", "a fault between them"],
)
def test_a_run_stops_if_its_agent_starts_in_none_of_the_first_attempts(
    ends: tuple[Exception | None, ...],
) -> None:
    stopped = end_attempts(*ends).stopped
    assert stopped is not None
    assert "could not start in any of its first 2 attempts: exit code 127" in stopped.message
    assert stopped.exit_code == 3


@each_case("start", [None, AgentError("exit code 1"), TimeoutError()], ids=repr)
def test_a_run_goes_on_if_its_agent_has_started_once(start: Exception | None) -> None:
    assert end_attempts(start, MISSING, MISSING, MISSING).stopped is None


def test_the_reason_is_escaped_because_it_comes_from_a_program() -> None:
    stopped = end_attempts(*[AgentNotStarted("\x1b[2J")] * 2).stopped
    assert stopped is not None
    assert "\x1b" not in stopped.message
