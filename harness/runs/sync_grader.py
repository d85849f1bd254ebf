"""The synchronous face of a grader, for scripts that have no event loop.

    with open_grader_sync() as grader:
        print(grader.grade(tests, program).status)

The grader lives on an event loop in a thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypedDict

from typing_extensions import Unpack

from harness.core.errors import UsageError
from harness.core.text import quote_argument
from harness.core.types import PlainData, Submission, Verdict
from harness.runs.faults import Faults, RunStopped, RunStoppedError
from harness.runs.grader import GraderIsolation, open_grader
from harness.sandbox.backends.base import Backend, BackendFacts
from harness.sandbox.limits import Limits
from harness.sandbox.sync import LoopCalls, hold_on_loop


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


# The key of a manifest with the service that has graded, absent if this machine has.
SERVICE = "service"


@dataclass(frozen=True, slots=True)
class ServiceFacts:
    """The facts about a service that a run writes into its manifest. They name no address and no token."""

    harness_version: str
    # The SHA-256 over all on which verdicts on the benchmark depend.
    revision: str
    # The engine, the runtime and the images of the service.
    backend: BackendFacts

    def describe(self) -> dict[str, str]:
        """Return the value of SERVICE."""
        return {"harness_version": self.harness_version, "revision": self.revision}


class GradingService(Protocol):
    """Grades the submissions of a run on another machine, in sandboxes that no agent has touched."""

    facts: ServiceFacts
    # How long the run waits for a service that stops responding.
    wait_seconds: float

    async def grade(
        self, task_id: str, text: str, *, seconds: float, on_begin: Callable[[], None]
    ) -> Verdict:
        """Return the verdict on a submission. A cancellation ends its program.

        Args:
            task_id: the task of the run's benchmark.
            text: the program or the answer.
            seconds: the wall time of the grading.
            on_begin: is called when the submission is sent.

        Raises:
            SandboxError: for a fault of the service, after which another try may succeed.
            RunStoppedError: if no further submission can be graded.
        """

    async def responds(self) -> bool:
        """Return whether the service takes requests now."""


async def grade_at_service(
    service: GradingService,
    faults: Faults,
    task_id: str,
    submission: Submission,
    *,
    seconds: float,
    on_begin: Callable[[], None],
) -> Verdict:
    """Return the verdict of a service on a submission.

    Raises SandboxError as `GradingService.grade` does, and RunStopped if the run cannot go on.
    """
    try:
        return await service.grade(task_id, submission.text, seconds=seconds, on_begin=on_begin)
    except RunStoppedError as error:
        faults.stop(error)
        raise RunStopped from error


def require_same_place(folder: Path, manifest: Mapping[str, Any], service: GradingService | None) -> None:
    """Raise UsageError unless a resumed run is graded where it was graded before."""
    recorded = manifest.get(SERVICE)
    if service is None:
        if recorded is not None:
            raise UsageError(
                f"{folder}: a service has graded this run, and one run must not mix two places",
                hint=f"resume it from Python: await connect(URL).run(resume={str(folder)!r})",
            )
        return
    if not isinstance(recorded, dict):
        raise UsageError(
            f"{folder}: this machine has graded this run, and one run must not mix two places",
            hint=f"run: harness run --resume {quote_argument(folder)}",
        )
    if recorded.get("revision") != service.facts.revision:
        raise UsageError(
            f"{folder}: the data, the options, the images or the runtime of the service have changed since "
            "this run started",
            hint="resume it at a service like the first one, or start a new run",
        )
