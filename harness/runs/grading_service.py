"""A run whose submissions a service grades: the protocol of the service, and its facts in the manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from harness.core.errors import UsageError
from harness.core.text import quote_argument
from harness.core.types import Submission, Verdict
from harness.host.retries import Retries, RunStopped, RunStoppedError
from harness.sandbox.backends.base import BackendFacts

# The key of a manifest with the service that has graded, absent if this machine has.
SERVICE = "service"


@dataclass(frozen=True, slots=True)
class ServiceFacts:
    """The facts about a service that a run writes into its manifest. They name no address and no token."""

    harness_version: str
    # The SHA-256 over everything that verdicts on the benchmark depend on.
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
    faults: Retries,
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
