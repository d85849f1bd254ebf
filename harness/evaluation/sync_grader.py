"""The synchronous face of a grader, for scripts that have no event loop.

    with open_grader_sync() as grader:
        print(grader.grade(tests, program).status)

The grader lives on an event loop in a thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypedDict

from typing_extensions import Unpack

from harness.errors import UsageError
from harness.evaluation.grader import GraderIsolation, open_grader
from harness.sandbox.backends.base import Backend
from harness.sandbox.limits import Limits
from harness.sandbox.loop_thread import LoopCalls, hold_on_loop
from harness.types import PlainData, Submission, Verdict


class GraderOptions(TypedDict, total=False):
    """The arguments of `open_grader`."""

    environments: Sequence[str]
    isolation: GraderIsolation
    timeout_seconds: float | None
    limits: Limits | None
    max_concurrent: int | None
    max_sandboxes: int | None
    memory_mb: int | None
    runtime: str
    backend: Backend | None


class AsyncGrader(Protocol):
    """A grader on this machine or at a service. Its methods are those of `Grader`."""

    async def grade(self, target: PlainData, submission: Submission | str) -> Verdict: ...

    async def grade_task(
        self, benchmark: Any, task_id: str, text: str, *, field: str = "solution"
    ) -> Verdict: ...


class SyncGrader:
    """Grades submissions by blocking calls. Make it with `open_grader_sync`.

    Threads may share it. Each method does the same as the method of `Grader` with this name.
    """

    def __init__(self, grader: AsyncGrader, calls: LoopCalls) -> None:
        self._grader = grader
        self._call = calls.call

    def grade(self, target: PlainData, submission: Submission | str) -> Verdict:
        """Return the verdict of a target on a submission: a program, or an answer."""
        return self._call(self._grader.grade(target, submission))

    def grade_task(self, benchmark: Any, task_id: str, text: str, *, field: str = "solution") -> Verdict:
        """Return the verdict on a text for a task of a benchmark."""
        return self._call(self._grader.grade_task(benchmark, task_id, text, field=field))


@contextlib.contextmanager
def hold_grader(opening: Callable[[], AbstractAsyncContextManager[AsyncGrader]]) -> Iterator[SyncGrader]:
    """Open a grader on a separate event loop and yield its synchronous face."""
    with hold_on_loop(opening, _build_closed_error) as (grader, calls):
        yield SyncGrader(grader, calls)


def open_grader_sync(**options: Unpack[GraderOptions]) -> contextlib.AbstractContextManager[SyncGrader]:
    """Return a context manager that opens a grader for blocking calls, without an event loop.

    The arguments and the errors are those of `open_grader`.
    """
    return hold_grader(lambda: open_grader(**options))


def _build_closed_error() -> UsageError:
    return UsageError("the grader is closed", hint="grade inside the block of open_grader_sync")
