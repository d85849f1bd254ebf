"""Single submissions are graded in real containers, without a run folder."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from docker import APIClient

import harness
from harness import (
    Host,
    Status,
    UsageError,
    Verdict,
    build_assert_tests,
    build_call_tests,
    build_stdin_tests,
    load_benchmark,
    open_host,
)
from harness.core.errors import EngineUnavailableError, SandboxError
from harness.core.types import PlainData
from harness.environments.os.grader import StateChecks
from harness.environments.os.scripts import Script
from harness.host import retries
from harness.host.retries import WAIT_VARIABLE
from harness.sandbox import reaper
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.limits import Limits

pytestmark = pytest.mark.asyncio(loop_scope="module")

STDIN = build_stdin_tests([("3 4\n", "7\n"), ("1 1\n", "2\n")], seconds=1)
CALLS = build_call_tests("add", [((1, 2), 3), (([1], [2]), [1, 2])], seconds=1)
ASSERTS = build_assert_tests(["assert add(1, 2) == 3", "assert add('a', 'b') == 'ab'"])
ADD = "def add(a, b):\n    return a + b\n"
READ_AND_ADD = "a, b = map(int, input().split())\nprint(a + b)\n"
LIMITS = Limits(memory_mb=256, cpu_seconds=1, wall_seconds=5)
SPIN = "while True:\n    pass\n"


@contextlib.asynccontextmanager
async def opened(**options: Any) -> AsyncIterator[Host]:
    async with open_host(**{"limits": LIMITS, "max_concurrent": 2, **options}) as grader:
        yield grader


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def grader() -> AsyncIterator[Host]:
    """Yield the host of all tests that only look at verdicts."""
    async with opened() as grader:
        yield grader


class CountingBackend(DockerBackend):
    """A backend of the real engine that counts the containers it starts, and can refuse to."""

    started = 0
    refusals: list[Exception]

    def start(self, spec: Any) -> Any:
        if self.refusals:
            raise self.refusals.pop(0)
        self.started += 1
        return super().start(spec)


@pytest.fixture
def counting(client: APIClient) -> CountingBackend:
    backend = CountingBackend(client)
    backend.refusals = []
    return backend


async def test_each_kind_of_hidden_tests_passes_right_programs_and_fails_wrong_ones(grader: Host) -> None:
    for target, right, wrong in (
        (STDIN, READ_AND_ADD, "print(7)"),
        (CALLS, ADD, "def add(a, b):\n    return 3\n"),
        (ASSERTS, ADD, "def add(a, b):\n    return 3\n"),
    ):
        passed = await grader.grade(target, right)
        failed = await grader.grade(target, wrong)
        assert (passed.status, passed.score) == (Status.PASSED, 1.0)
        assert (failed.status, failed.score) == (Status.FAILED, 0.0)
        assert (failed.metrics["tests"], failed.metrics["tests_passed"]) == (2, 1)


async def test_a_call_without_arguments_is_made(grader: Host) -> None:
    tests = build_call_tests("f", [((), [1, None])])
    assert (await grader.grade(tests, "def f():\n    return [1, None]\n")).resolved


async def test_every_fault_of_a_program_is_a_verdict(grader: Host) -> None:
    cases: list[tuple[PlainData, str, Status]] = [
        (STDIN, SPIN, Status.TIMEOUT),
        (STDIN, "x = bytearray(1 << 30)", Status.MEMORY_LIMIT),
        (ASSERTS, "import os\nos.kill(os.getpid(), 11)", Status.CRASHED),
        (ASSERTS, "import os\nos._exit(0)", Status.FAILED),
        (CALLS, "raise SystemExit", Status.FAILED),
        (ASSERTS, "x = '\0'", Status.FAILED),
        (CALLS, "x = '\ud800'", Status.FAILED),
        (STDIN, "", Status.FAILED),
        (CALLS, "#" + "\u00e9" * 3_000_000, Status.FAILED),
    ]
    verdicts = await asyncio.gather(*(grader.grade(target, text) for target, text, _status in cases))
    after = await grader.grade(ASSERTS, ADD)
    found = [(verdict.status, verdict.score) for verdict in verdicts]
    assert found == [(status, 0.0) for _target, _program, status in cases]
    assert after.resolved


async def test_programs_of_many_tasks_share_containers(counting: CountingBackend) -> None:
    benchmark = load_benchmark("mbpp", data="bundled")
    alone = benchmark.list_own_sandboxes(benchmark.tasks)
    tasks = [task for task in benchmark.tasks if task.id not in alone][:12]
    async with opened(backend=counting) as grader:
        verdicts = await asyncio.gather(
            *(grader.grade_task(benchmark, task.id, benchmark.references[task.id].solution) for task in tasks)
        )
    assert {verdict.status for verdict in verdicts} == {Status.PASSED}
    assert counting.started <= 2


async def test_isolated_programs_get_a_container_each(counting: CountingBackend) -> None:
    async with opened(backend=counting, isolation="attempt") as grader:
        verdicts = [await grader.grade(ASSERTS, ADD) for _ in range(2)]
    assert [verdict.resolved for verdict in verdicts] == [True, True]
    assert counting.started == 2


async def test_a_reply_is_read_by_the_rule_of_its_benchmark(grader: Host) -> None:
    benchmark = load_benchmark("humaneval", data="bundled")
    task = benchmark.tasks[0]
    reply = f"Here it is:\n```python\n{benchmark.references[task.id].solution}```\nDone."
    as_reply = await grader.grade_task(benchmark, task.id, reply, field="reply")
    as_program = await grader.grade_task(benchmark, task.id, reply)
    assert (as_reply.resolved, as_program.resolved) == (True, False)


async def test_answers_are_graded_without_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    benchmark = load_benchmark("gsm8k", data="bundled")
    task = benchmark.tasks[0]
    async with open_host(environments=()) as grader:
        verdict = await grader.grade_task(benchmark, task.id, benchmark.references[task.id].solution)
    assert verdict.resolved


async def test_a_missing_engine_is_reported_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    with pytest.raises(EngineUnavailableError):
        async with open_host():
            pass


async def test_a_fault_of_the_engine_is_retried(
    counting: CountingBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "BACKOFF_SECONDS", 0.0)
    counting.refusals = [SandboxError("the engine is busy", outside=True)]
    async with opened(backend=counting) as grader:
        assert (await grader.grade(ASSERTS, ADD)).resolved


async def test_a_lasting_fault_has_no_score_and_ends_no_later_grading(
    counting: CountingBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "BACKOFF_SECONDS", 0.0)
    monkeypatch.setenv(WAIT_VARIABLE, "0")
    async with opened(backend=counting, isolation="attempt") as grader:
        for failure in (
            [SandboxError("the engine is gone", outside=True)] * retries.INFRA_TRIES,
            [harness.ImageMissingError("the image was removed")],
            [RuntimeError("a fault of ours")],
        ):
            counting.refusals = list(failure)
            verdict = await grader.grade(ASSERTS, ADD)
            assert (verdict.status, verdict.score) == (Status.INFRA_ERROR, None)
            assert str(failure[0]) in (verdict.evidence or "")
            assert (await grader.grade(ASSERTS, ADD)).resolved


async def test_an_outage_stops_only_the_gradings_that_it_hits(
    counting: CountingBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "BACKOFF_SECONDS", 0.0)
    monkeypatch.setenv(WAIT_VARIABLE, "0")
    describe = counting.describe
    async with opened(backend=counting, isolation="attempt") as grader:

        def fail(**_options: Any) -> Any:
            raise SandboxError("no answer", outside=True)

        counting.refusals = [SandboxError("the engine is gone", outside=True)]
        monkeypatch.setattr(counting, "describe", fail)
        assert (await grader.grade(ASSERTS, ADD)).status is Status.INFRA_ERROR
        monkeypatch.setattr(counting, "describe", describe)
        counting.refusals = [SandboxError("the engine was gone", outside=True)]
        assert (await grader.grade(ASSERTS, ADD)).resolved


async def _begin_endless(grader: Host, has_container: Callable[[], bool]) -> asyncio.Task[Verdict]:
    """Start the grading of a program that never ends, and return once its container exists."""
    task = asyncio.create_task(grader.grade(ASSERTS, SPIN))
    while not await asyncio.to_thread(has_container):
        assert not task.done()
        await asyncio.sleep(0.01)
    return task


def _list_ours(client: APIClient) -> set[str]:
    labels = [f"{reaper.ROLE}=sandbox", f"{reaper.NAMESPACE}={reaper.namespace()}"]
    return {each["Id"] for each in client.containers(all=True, filters={"label": labels})}


async def test_a_cancelled_grading_ends_and_the_next_one_is_right(client: APIClient) -> None:
    before = _list_ours(client)
    async with opened(limits=Limits(memory_mb=256, cpu_seconds=60, wall_seconds=60)) as grader:
        task = await _begin_endless(grader, lambda: bool(_list_ours(client) - before))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await grader.grade(ASSERTS, ADD)).resolved
    assert _list_ours(client) <= before


async def test_the_end_of_the_block_cancels_gradings_and_removes_containers(client: APIClient) -> None:
    before = _list_ours(client)
    async with opened(limits=Limits(memory_mb=256, cpu_seconds=60, wall_seconds=60)) as grader:
        task = await _begin_endless(grader, lambda: bool(_list_ours(client) - before))
    verdict = await task
    assert (verdict.status, verdict.score) == (Status.CANCELLED, None)
    assert _list_ours(client) <= before
    with pytest.raises(UsageError, match="the host is closed"):
        await grader.grade(ASSERTS, ADD)


async def test_what_a_caller_gets_wrong_is_refused() -> None:
    benchmark = load_benchmark("mbpp", data="bundled")
    async with open_host(environments=()) as grader:
        for wrong, message in (
            (grader.grade(("3", "4"), ADD), "no grader for targets of the type tuple"),  # type: ignore[arg-type]
            (
                grader.grade(StateChecks((Script("bash", "true"),)), ADD),
                "StateChecks is graded by the state that an agent",
            ),
            (grader.grade(ASSERTS, b"x"), "a submission must be text, not bytes"),  # type: ignore[arg-type]
            (grader.grade_task(benchmark, "0", ADD), "unknown task '0'"),
            (grader.grade_task(benchmark, "11", ADD, field="code"), "unknown field 'code'"),
            (grader.grade_task("mbp", "11", ADD), "unknown benchmark 'mbp'"),
            (grader.grade_task("own.py", "11", ADD), "'own.py' is a file"),
        ):
            with pytest.raises(UsageError, match=message):
                await wrong
