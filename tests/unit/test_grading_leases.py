"""No attempt is graded in a sandbox that is not clean, has timed out or is in doubt."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from bundled import load_bundled
from case_checks import each_case
from contexts import execute

from harness.core.errors import SandboxError
from harness.core.types import AttemptRecord, Status, Submission
from harness.environments.python import programs
from harness.environments.python.client import TestReport
from harness.host import retries
from harness.reports.progress import NotesOnly
from harness.runs.agents import AttemptContext
from harness.runs.attempt import AttemptSettings
from harness.runs.faults import Faults
from harness.runs.records import PlannedAttempt
from harness.runs.store import RunStore
from harness.sandbox.failures import SandboxOutOfDisk, SandboxOutOfMemory, SandboxUnresponsive
from harness.sandbox.limits import Isolation
from harness.sandbox.pool import SandboxPool
from harness.sandbox.results import Stream
from harness.sandbox.sandbox import Sandbox

BENCHMARK = load_bundled("mbpp")
# Samples of these tasks may share a sandbox.
TASKS = [task for task in BENCHMARK.tasks if not BENCHMARK.list_own_sandboxes([task])]
NOTHING = Stream(b"", b"", 0)
LIMIT_SECONDS = 0.1


class Scripted(Sandbox):
    """A sandbox without a container, whose tests follow the next line of a script."""

    is_lost = False

    def __init__(self, number: int, script: Iterator[Act]) -> None:
        self.number = number
        self.clean = True
        self.marked = False
        self.agent_acted = False
        self._script = script

    async def run_tests(self, **_request: Any) -> TestReport:
        return await next(self._script)(self)


Act = Callable[[Scripted], Awaitable[TestReport]]


@pytest.fixture(autouse=True)
def scripted_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the tests in a sandbox by its script."""

    def run_tests(sandbox: Scripted, **request: Any) -> Awaitable[TestReport]:
        return sandbox.run_tests(**request)

    monkeypatch.setattr(programs, "run_tests", run_tests)


class Sandboxes:
    """Open scripted sandboxes, numbered from 1. `used` has the number of each that ran tests."""

    def __init__(self, *acts: Act) -> None:
        self._script = iter(acts)
        self.opened = 0
        self.open: set[int] = set()
        self.used: list[int] = []
        self.closing_fails = False

    @contextlib.asynccontextmanager
    async def sandbox(self, _image: str, **_arguments: Any) -> AsyncIterator[Sandbox]:
        self.opened += 1
        number = self.opened
        self.open.add(number)
        yield Scripted(number, self._recorded(number))
        self.open.discard(number)
        if self.closing_fails:
            raise SandboxError("it cannot be removed")

    def _recorded(self, number: int) -> Iterator[Act]:
        for act in self._script:
            self.used.append(number)
            yield act


class Answering:
    """An agent that submits at once."""

    async def attempt(self, context: AttemptContext) -> Submission:
        return Submission("pass", agent_output="")


def report(**facts: Any) -> TestReport:
    usual: dict[str, Any] = {"results": (True,), "evidence": None, "error": None, "breach": None}
    usual |= {"ended": None, "exit_code": 71, "stdout": NOTHING, "stderr": NOTHING, "cpu_seconds": 0.0}
    usual |= {"duration_seconds": 0.0, "memory_kills": 0, "refused_forks": 0, "clean": True}
    return TestReport(**usual, **facts)


async def go_well(_sandbox: Scripted) -> TestReport:
    return report()


async def leave_something(sandbox: Scripted) -> TestReport:
    sandbox.clean = False
    return report()


async def leave_a_mark(sandbox: Scripted) -> TestReport:
    sandbox.marked = True
    return report()


async def never_end(_sandbox: Scripted) -> TestReport:
    await asyncio.Event().wait()
    raise AssertionError("unreachable: it waits for ever")


def failing(error: SandboxError) -> Act:
    async def fail(_sandbox: Scripted) -> TestReport:
        raise error

    return fail


async def run_out_of_memory(sandbox: Scripted) -> TestReport:
    sandbox.clean = False  # A sandbox that has lost its guest does this too.
    raise SandboxOutOfMemory("the whole sandbox ran out of memory")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunStore]:
    monkeypatch.setattr(retries, "BACKOFF_SECONDS", 0.0)
    with closing(RunStore(tmp_path)) as store:
        yield store


async def graded(
    store: RunStore, sandboxes: Sandboxes, *, attempts: int = 2, tasks: int = 1, isolation: Isolation = "task"
) -> list[AttemptRecord]:
    """Return the records of attempts that are graded one after the other, by one worker."""
    plan = [PlannedAttempt(task, n, None) for task in TASKS[:tasks] for n in range(attempts)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sandbox, "open", sandboxes.sandbox)
        async with SandboxPool() as pool:
            await execute(make_settings(store, pool, isolation), plan, store=store, concurrency=1)
    return list(store.records(plan))


def make_settings(store: RunStore, pool: SandboxPool, isolation: Isolation) -> AttemptSettings:
    observer = NotesOnly(sys.stderr)
    return AttemptSettings(
        benchmark=BENCHMARK,
        agent=Answering(),
        transcripts=store,
        observer=observer,
        faults=Faults(None, observer, wait_seconds=0),
        pool=pool,
        limits={},
        timeout_seconds=LIMIT_SECONDS,
        isolation=isolation,
    )


async def test_attempts_at_a_task_share_a_sandbox_that_is_clean(store: RunStore) -> None:
    sandboxes = Sandboxes(go_well, go_well)
    records = await graded(store, sandboxes)
    assert [record.status for record in records] == [Status.PASSED, Status.PASSED]
    assert (sandboxes.used, sandboxes.open) == ([1, 1], set())


@pytest.mark.parametrize(
    ("first", "status"),
    [
        pytest.param(leave_something, Status.PASSED, id="not clean"),
        pytest.param(leave_a_mark, Status.PASSED, id="marked"),
        pytest.param(never_end, Status.TIMEOUT, id="timed out"),
        pytest.param(run_out_of_memory, Status.MEMORY_LIMIT, id="out of memory"),
        pytest.param(failing(SandboxOutOfDisk("too much")), Status.OUTPUT_LIMIT, id="out of disk"),
    ],
)
async def test_a_sandbox_in_doubt_is_not_leased_again(store: RunStore, first: Act, status: Status) -> None:
    sandboxes = Sandboxes(first, go_well)
    records = await graded(store, sandboxes)
    assert [record.status for record in records] == [status, Status.PASSED]
    assert (sandboxes.used, sandboxes.open) == ([1, 2], set())


@pytest.mark.parametrize("error", [SandboxError("lost"), SandboxUnresponsive("silent")])
async def test_a_failed_sandbox_is_replaced_before_a_retry(store: RunStore, error: SandboxError) -> None:
    sandboxes = Sandboxes(failing(error), go_well)
    (record,) = await graded(store, sandboxes, attempts=1)
    assert record.status is Status.PASSED
    assert sandboxes.used == [1, 2]


async def test_no_sandbox_is_leased_to_two_tasks(store: RunStore) -> None:
    sandboxes = Sandboxes(*[go_well] * 4)
    await graded(store, sandboxes, tasks=2)
    assert (sandboxes.used, sandboxes.open) == ([1, 1, 2, 2], set())


async def test_no_sandbox_outlives_an_attempt_with_isolation_by_attempt(store: RunStore) -> None:
    sandboxes = Sandboxes(go_well, go_well)
    await graded(store, sandboxes, isolation="attempt")
    assert (sandboxes.used, sandboxes.open) == ([1, 2], set())


@each_case(("isolation", "keys"), [("task", 2), ("attempt", 4)])
def test_tasks_share_no_key_and_isolated_attempts_share_none(
    store: RunStore, isolation: Isolation, keys: int
) -> None:
    settings = make_settings(store, SandboxPool(), isolation)
    plan = [PlannedAttempt(task, n, None) for task in TASKS[:2] for n in range(2)]
    assert len({settings.key(planned) for planned in plan}) == keys


async def test_tasks_share_a_sandbox_that_is_clean_with_isolation_by_run(store: RunStore) -> None:
    sandboxes = Sandboxes(go_well, go_well, leave_a_mark, go_well, leave_something, go_well)
    await graded(store, sandboxes, tasks=3, isolation="run")
    assert (sandboxes.used, sandboxes.open) == ([1, 1, 1, 2, 2, 3], set())


async def test_a_sandbox_that_cannot_be_removed_is_not_leased_again(store: RunStore) -> None:
    sandboxes = Sandboxes(leave_something, go_well)
    sandboxes.closing_fails = True
    records = await graded(store, sandboxes)
    assert [record.status for record in records] == [Status.PASSED, Status.PASSED]
    assert sandboxes.used == [1, 2]


async def test_a_run_that_is_cancelled_leaves_no_sandbox_open(store: RunStore) -> None:
    begun = asyncio.Event()

    async def begin(_sandbox: Scripted) -> TestReport:
        begun.set()
        return await never_end(_sandbox)

    sandboxes = Sandboxes(begin)
    running = asyncio.create_task(graded(store, sandboxes, attempts=1))
    await begun.wait()
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert (sandboxes.opened, sandboxes.open) == (1, set())
