"""Whatever a user's agent does on its thread, only its own attempt is affected."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bundled import load_bundled
from case_checks import each_case
from contexts import ListTranscript, execute, no_context

from harness import StorageError
from harness.core.errors import SandboxError
from harness.core.tools import Arguments, Tool
from harness.core.types import AttemptRecord, Status, Submission, Task
from harness.environments import EnvironmentSpec, environment_specs
from harness.environments.base import Environment, EnvironmentContext, SandboxEnvironment
from harness.host import retries
from harness.reports.progress import NotesOnly
from harness.runs.agents import AgentError, AttemptContext, attempt_access, settings_for
from harness.runs.agents.attempt_access import open_access
from harness.runs.agents.outside import OutsideAgent, wrap_outside_agent
from harness.runs.attempt import AttemptSettings
from harness.runs.faults import Faults
from harness.runs.records import PlannedAttempt
from harness.runs.store import RunStore
from harness.runs.transcripts import TranscriptFile
from harness.sandbox.failures import SandboxClosed
from harness.sandbox.pool import SandboxPool

BENCHMARK = load_bundled("gsm8k")
ANSWER = BENCHMARK.references[BENCHMARK.tasks[0].id].solution
Attempt = Callable[[AttemptContext], Coroutine[Any, Any, Any]]


class Nothing(Arguments):
    pass


LOOK = Tool("look", "Look around.", Nothing)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with closing(RunStore(tmp_path)) as store:
        yield store


@pytest.fixture(autouse=True)
def _short_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_access, "END_SECONDS", 0.2)


async def end_nothing() -> None:
    """End the processes of an agent that has started none."""


def in_environment(monkeypatch: pytest.MonkeyPatch, look: Callable[[Any], Coroutine[Any, Any, str]]) -> Task:
    """Return a task whose environment has no sandbox and one tool, `look`."""

    @contextlib.asynccontextmanager
    async def open_environment(task: Task, context: EnvironmentContext) -> AsyncIterator[Environment]:
        sandbox: Any = SimpleNamespace(agent_acted=False)
        yield SandboxEnvironment(sandbox, {LOOK: look}, context, end=end_nothing)

    monkeypatch.setattr(retries, "BACKOFF_SECONDS", 0.0)
    spec = EnvironmentSpec("nowhere", None, "no place", open_environment=open_environment)
    monkeypatch.setitem(environment_specs(), "nowhere", spec)
    return replace(BENCHMARK.tasks[0], environment="nowhere")


async def run_attempts(
    store: RunStore,
    attempt: Attempt,
    task: Task = BENCHMARK.tasks[0],
    *,
    count: int = 1,
    seconds: float = 60.0,
) -> list[AttemptRecord]:
    """Return the records of a user's agent's attempts at `count` copies of a task, all under way at once.

    Each attempt has the number of its copy.
    """
    tasks = [replace(task, id=str(number)) for number in range(count)]
    references = {each.id: BENCHMARK.references[task.id] for each in tasks}
    agent = wrap_outside_agent(attempt, settings_for(BENCHMARK), name="mine")
    assert isinstance(agent, OutsideAgent)
    plan = [PlannedAttempt(each, number, None) for number, each in enumerate(tasks)]
    observer = NotesOnly(sys.stderr)
    settings = AttemptSettings(
        benchmark=replace(BENCHMARK, references=references),
        agent=agent,
        transcripts=store,
        observer=observer,
        faults=Faults(None, observer, wait_seconds=0),
        pool=SandboxPool(),
        limits={},
        timeout_seconds=seconds,
    )
    with closing(agent):
        await execute(settings, plan, store=store, concurrency=count)
    return list(store.records(plan))


async def run_attempt(store: RunStore, attempt: Attempt, **arguments: Any) -> AttemptRecord:
    (record,) = await run_attempts(store, attempt, **arguments)
    return record


async def fail_beside_others(store: RunStore, error: BaseException) -> AttemptRecord:
    """Return the record of an attempt whose agent raises `error`, after two others have passed."""

    async def attempt(context: AttemptContext) -> str:
        if context.number == 0:
            raise error
        return ANSWER

    failed, *others = await run_attempts(store, attempt, count=3)
    assert failed.status is Status.AGENT_ERROR
    assert [record.status for record in others] == [Status.PASSED] * 2
    return failed


class Unspeakable(Exception):
    """An exception of a library whose message may be missing."""

    def __str__(self) -> str:
        return None  # type: ignore[return-value]


class Outcome(BaseException):
    """The base of exceptions that test frameworks raise past every `except Exception`."""


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        pytest.param(SystemExit(1), "SystemExit: 1", id="exit"),
        pytest.param(KeyboardInterrupt(), "KeyboardInterrupt: ", id="interrupt"),
        pytest.param(GeneratorExit(), "GeneratorExit: ", id="generator exit"),
        pytest.param(asyncio.CancelledError("by itself"), "CancelledError: by itself", id="cancelled"),
        pytest.param(TimeoutError("no answer"), "TimeoutError: no answer", id="its own timeout"),
        pytest.param(ExceptionGroup("tasks", [ValueError()]), "ExceptionGroup: tasks", id="group"),
        pytest.param(BaseExceptionGroup("all", [Outcome()]), "BaseExceptionGroup: all", id="base group"),
        pytest.param(Unspeakable(), "Unspeakable: (TypeError in its __str__)", id="no message"),
        pytest.param(SandboxError("its own"), "SandboxError: its own", id="its own sandbox"),
        pytest.param(StorageError("its own"), "StorageError: its own", id="its own file"),
    ],
)
async def test_no_exception_of_an_agent_ends_more_than_its_attempt(
    store: RunStore, error: BaseException, shown: str
) -> None:
    failed = await fail_beside_others(store, error)
    assert failed.error is not None
    assert failed.error.startswith(shown)


def leave(*_: Any) -> Any:
    raise SystemExit(7)


class NameThatExits(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise SystemExit(7)


class FormatThatExits(str):
    __format__ = leave
    __str__ = leave


def chain(length: int) -> Exception:
    error = Exception("the first")
    for _ in range(length):
        above = Exception("next")
        above.__cause__ = error
        error = above
    return error


def nest_twice(depth: int) -> Exception:
    """Return a group that holds itself twice on each of many levels, so it has 2 ** depth leaves."""
    error: Exception = ValueError("leaf")
    for _ in range(depth):
        error = ExceptionGroup("group", [error, error])
    return error


@each_case(
    "error",
    [
        pytest.param(type("E", (Exception,), {"__str__": leave})(), id="its text"),
        pytest.param(type("E", (Exception,), {"__cause__": property(leave)})(), id="its cause"),
        pytest.param(type("E", (Exception,), {"__class__": property(leave)})(), id="its class"),
        pytest.param(NameThatExits("E", (Exception,), {})(), id="its name"),
        pytest.param(
            type("E", (Exception,), {"__str__": lambda _self: FormatThatExits("x")})(), id="its format"
        ),
        pytest.param(chain(100_000), id="many causes"),
        pytest.param(nest_twice(60), id="a vast group"),
    ],
)
async def test_the_code_of_an_exception_runs_on_the_thread_of_the_agent_alone(
    store: RunStore, error: Exception
) -> None:
    await fail_beside_others(store, error)


class TextThatExits(str):
    __hash__ = leave
    __eq__ = leave
    __str__ = leave


class MapThatExits(dict[str, Any]):
    items = leave
    __iter__ = leave


@each_case(
    ("name", "arguments"),
    [
        pytest.param(TextThatExits("look"), {}, id="name"),
        pytest.param("look", {"x": object()}, id="object"),
        pytest.param("look", {"x": type("Odd", (), {"__repr__": leave, "__str__": leave})()}, id="text"),
        pytest.param("look", {"x": MapThatExits(y=1)}, id="map"),
        pytest.param("look", MapThatExits(y=1), id="arguments"),
        pytest.param(["look"], {}, id="list"),
    ],
)
async def test_the_arguments_of_a_tool_run_no_code_in_the_harness(
    store: RunStore, monkeypatch: pytest.MonkeyPatch, name: Any, arguments: Any
) -> None:
    """They either cross as plain data, or end the attempt that made them."""

    async def look(_arguments: Any) -> str:
        return "nothing"

    async def attempt(context: AttemptContext) -> str:
        assert context.environment is not None
        await context.environment.call(name, arguments)
        raise AgentError("they crossed")

    record = await run_attempt(store, attempt, task=in_environment(monkeypatch, look))
    assert record.status is Status.AGENT_ERROR


async def test_an_attempt_that_forks_leaves_its_child_no_part_in_the_run(store: RunStore) -> None:
    children: list[int] = []

    async def attempt(context: AttemptContext) -> str:
        child = os.fork()
        if child:
            children.append(child)
            await asyncio.to_thread(os.waitpid, child, 0)
        return ANSWER

    records = await run_attempts(store, attempt, count=3)
    assert [record.status for record in records] == [Status.PASSED] * 3
    assert len(children) == 3


async def exit_in_a_child() -> None:
    async def child() -> None:
        raise SystemExit("no key")

    await asyncio.gather(child())


async def stop_the_loop() -> None:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0)
    raise ValueError


async def cancel_all_tasks() -> None:
    for task in asyncio.all_tasks():
        task.cancel()
    await asyncio.sleep(0)


@each_case("misbehave", [exit_in_a_child, stop_the_loop, cancel_all_tasks])
async def test_an_agent_that_disturbs_its_loop_ends_no_later_attempt(
    store: RunStore, misbehave: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    begun, disturbed = asyncio.Barrier(3), asyncio.Event()

    async def attempt(context: AttemptContext) -> str:
        if context.number > 0:
            with contextlib.suppress(asyncio.CancelledError):
                await begun.wait()
                await disturbed.wait()
            return ANSWER
        await begun.wait()
        disturbed.set()
        await misbehave()
        return ANSWER

    failed, *others = await run_attempts(store, attempt, count=3)
    assert failed.status is Status.AGENT_ERROR
    assert [record.status for record in others] == [Status.PASSED] * 2


async def test_an_agent_that_ignores_its_cancellation_is_left_behind(store: RunStore) -> None:
    may_end = threading.Event()

    async def attempt(context: AttemptContext) -> str:
        while not may_end.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
        return ANSWER

    try:
        record = await run_attempt(store, attempt, seconds=0.2)
    finally:
        may_end.set()
    assert (record.status, record.metrics["limit"]) == (Status.TIMEOUT, "timeout_seconds")


async def test_an_agent_that_blocks_its_loop_does_not_block_the_run(store: RunStore) -> None:
    may_end = threading.Event()

    async def attempt(context: AttemptContext) -> str:
        may_end.wait()  # no `await`
        return ANSWER

    try:
        records = await run_attempts(store, attempt, count=2, seconds=0.2)
    finally:
        may_end.set()
    assert [record.status for record in records] == [Status.TIMEOUT] * 2


async def test_an_agent_that_waits_in_threads_takes_none_from_the_harness(store: RunStore) -> None:
    """Two hundred blocking calls at once wait for each other, which fewer threads would not survive."""
    barrier = threading.Barrier(200)

    async def attempt(context: AttemptContext) -> str:
        await asyncio.to_thread(barrier.wait, 60.0)
        return ANSWER

    records = await run_attempts(store, attempt, count=200)
    assert {record.status for record in records} == {Status.PASSED}


@each_case("text", [None, b"42", ["42"]])
async def test_a_submission_of_anything_but_texts_is_an_agent_error(store: RunStore, text: Any) -> None:
    async def attempt(context: AttemptContext) -> Submission:
        return Submission(text, agent_output="") if context.number else Submission("", agent_output=text)

    for record in await run_attempts(store, attempt, count=2):
        assert record.status is Status.AGENT_ERROR
        assert "not text or a Submission" in str(record.error)


class Flattering(str):
    """A text that claims to equal every other text."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


async def test_a_text_that_claims_to_equal_the_reference_is_compared_as_it_is(store: RunStore) -> None:
    async def attempt(context: AttemptContext) -> Submission:
        return Submission(Flattering("wrong"), agent_output=Flattering("wrong"))

    assert (await run_attempt(store, attempt)).status is Status.FAILED


async def test_an_agent_can_no_longer_act_once_its_attempt_is_over(store: RunStore) -> None:
    async def look(_arguments: Any) -> str:
        pytest.fail("a tool ran")

    async def act_late(context: AttemptContext) -> int:
        assert context.environment is not None
        with pytest.raises(SandboxClosed):
            await context.environment.call("look", {})
        with pytest.raises(SandboxClosed):
            await context.environment.submit("x")
        with pytest.raises(SandboxClosed):
            context.transcript.write({"late": True})
        return context.environment.turns_used

    sandbox: Any = SimpleNamespace(agent_acted=False)
    environment = SandboxEnvironment(sandbox, {LOOK: look}, no_context(), end=end_nothing)
    context = AttemptContext(BENCHMARK.tasks[0], 0, 7, None, environment, ListTranscript())
    with open_access(context) as access:
        pass
    with closing(attempt_access.AgentThread()) as thread:
        assert await thread.run(act_late(access.context), access.find_failure) == attempt_access.Returned(0)


async def test_a_tool_call_under_way_is_cancelled_with_the_attempt(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = []

    async def look(_arguments: Any) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)
        return ""

    async def attempt(context: AttemptContext) -> Any:
        assert context.environment is not None
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await context.environment.call("look", {})

    record = await run_attempt(store, attempt, task=in_environment(monkeypatch, look), seconds=0.2)
    assert (record.status, ended) == (Status.TIMEOUT, [True])


@each_case("kind", ["raised", "from", "group"])
async def test_a_fault_of_the_sandbox_is_recognised_in_the_exceptions_of_the_agent(
    store: RunStore, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    async def look(_arguments: Any) -> str:
        raise SandboxError("lost", outside=True)

    async def attempt(context: AttemptContext) -> Any:
        assert context.environment is not None
        try:
            await context.environment.call("look", {})
        except SandboxError as error:
            if kind == "from":
                raise RuntimeError("the tool failed") from error
            if kind == "group":
                raise ExceptionGroup("tasks", [error]) from None
            raise

    record = await run_attempt(store, attempt, task=in_environment(monkeypatch, look))
    assert record.status is Status.INFRA_ERROR


async def test_an_agent_sees_its_tools_and_its_turns_but_no_sandbox(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    async def look(_arguments: Any) -> str:
        return f"in {threading.current_thread().name}"

    async def attempt(context: AttemptContext) -> str:
        environment = context.environment
        assert environment is not None
        observation = await environment.call("look", {})
        await environment.submit("it is 1")
        seen.update(
            tools=list(environment.tools),
            turns=(environment.turns_used, environment.turns),
            submitted=environment.submitted,
            observation=observation.text,
            sandbox=hasattr(environment, "sandbox"),
            thread=threading.current_thread().name,
        )
        return "ignored"

    record = await run_attempt(store, attempt, task=in_environment(monkeypatch, look))
    assert seen == {
        "tools": ["look", "submit"],
        "turns": (2, None),
        "submitted": "it is 1",
        "observation": "in MainThread",
        "sandbox": False,
        "thread": "harness-agent",
    }
    assert record.agent_output == "it is 1"


async def test_a_full_disk_under_the_transcript_is_no_fault_of_the_agent(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_transcript: TranscriptFile, entry: Any) -> None:
        if "note" in entry:
            raise StorageError("the disk is full")

    monkeypatch.setattr(TranscriptFile, "write", fail)

    async def attempt(context: AttemptContext) -> str:
        context.transcript.write({"note": 1})
        return ANSWER

    with pytest.raises(StorageError, match="the disk is full"):
        await run_attempts(store, attempt)


async def test_an_entry_that_json_cannot_hold_is_written_as_text(store: RunStore) -> None:
    async def attempt(context: AttemptContext) -> str:
        context.transcript.write({"path": Path("/a")})
        return ANSWER

    assert (await run_attempt(store, attempt)).status is Status.PASSED
    (transcript,) = (store.folder / "transcripts").iterdir()
    entries = [json.loads(line) for line in transcript.read_text().splitlines()]
    assert [each["path"] for each in entries if each.get("by") == "agent"] == ["/a"]


async def test_the_thread_ends_with_the_run_and_starts_again_with_the_next(store: RunStore) -> None:
    async def attempt(context: AttemptContext) -> str:
        return f"{ANSWER} from {threading.get_ident()}"

    agent = wrap_outside_agent(attempt, settings_for(BENCHMARK), name="mine")
    assert isinstance(agent, OutsideAgent)
    context = AttemptContext(BENCHMARK.tasks[0], 0, 7, None, None, TranscriptFile(store.folder / "t"))
    before = set(threading.enumerate())
    for _ in range(2):
        assert ANSWER in (await agent.attempt(context)).text
        assert [thread.name for thread in set(threading.enumerate()) - before] == ["harness-agent"]
        agent.close()
        assert set(threading.enumerate()) <= before


async def test_the_user_agents_own_limit_on_attempts_at_once_is_kept() -> None:
    class One:
        max_concurrent = 1
        waits = False

        async def attempt(self, context: AttemptContext) -> str:
            return ""

    agent: Any = wrap_outside_agent(One, settings_for(BENCHMARK), name="mine")
    assert (agent.max_concurrent, agent.waits) == (1, False)


async def test_attempts_wait_at_the_same_time(store: RunStore) -> None:
    all_wait = asyncio.Barrier(50)

    async def attempt(context: AttemptContext) -> str:
        await all_wait.wait()
        return ANSWER

    records = await run_attempts(store, attempt, count=50)
    assert {record.status for record in records} == {Status.PASSED}
