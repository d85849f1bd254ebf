"""The parts of an attempt: each optional feature attaches itself, and the attempt knows none by name."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.core.types import Submission, Task, Transcript, Verdict
    from harness.environments.base import Environment, EnvironmentContext
    from harness.environments.spec import EnvironmentSpec
    from harness.runs.agents.agent import AttemptContext
    from harness.runs.attempt_settings import AttemptSettings
    from harness.runs.planned_attempt import PlannedAttempt
    from harness.runs.progress import ActiveAttempt
    from harness.runs.working_time import WorkingTime


@dataclass(slots=True)
class SandboxTime:
    """How long an attempt has held a sandbox, in all of its tries."""

    seconds: float = 0.0

    @contextlib.contextmanager
    def count(self) -> Iterator[None]:
        """Count the time of the block."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds += time.monotonic() - started


@dataclass(slots=True)
class Try:
    """One try of an attempt, as its parts see it."""

    settings: AttemptSettings
    planned: PlannedAttempt
    spec: EnvironmentSpec
    active: ActiveAttempt
    sandbox_time: SandboxTime
    # The limit of the agent's time.
    seconds: float
    # Closes after the grading.
    stack: contextlib.AsyncExitStack
    # The contexts of the environment and of the agent. A part replaces the fields that it fills.
    environment_context: EnvironmentContext
    agent_context: AttemptContext
    # Lets the agent act, and returns its submission. A part may put itself in between.
    act: Callable[[AttemptContext], Awaitable[Submission]]
    # Whether a task without an environment gets one whose only own tool is `submit`.
    needs_environment: bool = False
    # None until it is open, and for an agent that only answers.
    environment: Environment | None = None
    # The agent's time, None until it begins.
    clock: WorkingTime | None = None

    @property
    def task(self) -> Task:
        """The task as the agent sees it."""
        return self.agent_context.task

    @property
    def transcript(self) -> Transcript:
        return self.environment_context.transcript

    def pause(self) -> contextlib.AbstractContextManager[None]:
        """Return a context that stops the agent's time, if it has begun."""
        return contextlib.nullcontext() if self.clock is None else self.clock.pause()


class AttemptPart:
    """One optional feature of one attempt, for all of its tries. A subclass overrides what it needs.

    A part raises SandboxError for a fault that another try may not have. Any other unknown exception of a
    part is a defect of ours, and never counts against the agent. It is retried unless the agent has acted.
    """

    # How long it may stop the agent's time (`Try.pause`). A sandbox in use lives that much longer.
    most_pause_seconds = 0.0

    async def prepare(self, attempt: Try) -> None:
        """Add to a try before its environment opens. `attempt.stack` ends what must outlive this call."""

    def enter(self, attempt: Try) -> contextlib.AbstractAsyncContextManager[None]:
        """Return a context that surrounds the agent. It closes before anything is graded.

        The context may replace an exception of the agent, such as by a failure that the agent has caught.
        """
        return contextlib.nullcontext()

    def metrics(self, verdict: Verdict) -> Mapping[str, Any]:
        """Return the metrics of the attempt, which ends with `verdict`."""
        return {}
