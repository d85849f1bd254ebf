"""A program that ended a little above its limit is run once more, alone, whether it was right or not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

from case_checks import each_case

from harness.core.types import Status, Submission, Verdict
from harness.environments.grading import RUN_AGAIN, GradingContext, _grade_in_sandbox
from harness.environments.spec import SandboxGrader
from harness.sandbox.pool import SandboxPool, SandboxSettings

RIGHT, LATE = Verdict(Status.PASSED, 1.0), Verdict(Status.TIMEOUT, 0.0)
WRONG = Verdict(Status.FAILED, 0.0)


class Pool:
    """Lends nothing, and records the leases."""

    def __init__(self) -> None:
        self.leases: list[tuple[Any, bool, bool]] = []
        self.is_alone = False

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        self.is_alone = True
        yield
        self.is_alone = False

    @contextlib.asynccontextmanager
    async def lease(
        self, _settings: object, *, key: Any, nested: bool, **_options: Any
    ) -> AsyncIterator[Any]:
        self.leases.append((key, nested, self.is_alone))
        yield SimpleNamespace(clean=True)


async def grade(*verdicts: Verdict) -> tuple[Verdict, Pool]:
    pool, waiting = Pool(), list(verdicts)

    async def next_verdict(_sandbox: object, _target: object, _submission: Submission) -> Verdict:
        return waiting.pop(0)

    context = GradingContext(pool, 10.0, fresh=SandboxSettings("python"), key="task")  # type: ignore[arg-type]
    verdict = await _grade_in_sandbox(SandboxGrader(str, next_verdict), "", Submission("", ""), context)
    assert not waiting
    return verdict, pool


def slow(verdict: Verdict, *, right: bool) -> Verdict:
    return Verdict(verdict.status, verdict.score, borderline=right)


@each_case(
    ("first", "second", "status"),
    [
        (slow(LATE, right=True), RIGHT, Status.PASSED),
        (slow(LATE, right=True), LATE, Status.TIMEOUT),
        (slow(LATE, right=True), slow(LATE, right=True), Status.TIMEOUT),
        (slow(LATE, right=True), WRONG, Status.FAILED),
        (slow(LATE, right=False), RIGHT, Status.TIMEOUT),
    ],
)
async def test_one_more_run_decides_only_if_everything_else_was_right(
    first: Verdict, second: Verdict, status: Status
) -> None:
    verdict, pool = await grade(first, second)
    assert (verdict.status, verdict.borderline, verdict.metrics[RUN_AGAIN]) == (status, None, 1)
    assert pool.leases == [("task", False, False), (None, True, True)]


async def test_other_verdicts_count_at_once() -> None:
    for only in (RIGHT, WRONG, LATE):
        verdict, pool = await grade(only)
        assert (verdict, len(pool.leases)) == (only, 1)


async def test_a_block_that_is_alone_waits_for_all_places_and_gives_them_back() -> None:
    pool = SandboxPool(gate_places=2, memory_mb=1000)
    events = []

    async def work(name: str) -> None:
        async with pool.gate:
            events.append(name)
            await asyncio.sleep(0)

    async def work_alone(name: str) -> None:
        async with pool.alone():
            events.append(f"{name} begins")
            await asyncio.sleep(0.01)
            events.append(f"{name} ends")

    await asyncio.gather(work("a"), work_alone("x"), work("b"), work_alone("y"), work("c"))
    for name in ("x", "y"):
        assert events[events.index(f"{name} begins") + 1] == f"{name} ends"
    assert {"a", "b", "c"} < {*events}
    async with asyncio.timeout(1), pool.gate, pool.gate:
        pass
