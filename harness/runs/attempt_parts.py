"""The parts of an attempt: each optional feature attaches itself, and the attempt knows none by name.

The agent's time is such a part, which every attempt has. It stops while a request waits for a model.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.core.errors import SandboxError

if TYPE_CHECKING:
    from harness.core.types import Submission, Task, Transcript, Verdict
    from harness.environments.base import Environment, EnvironmentContext
    from harness.environments.spec import EnvironmentSpec
    from harness.runs.agents.agent import AttemptContext
    from harness.runs.attempt import AttemptSettings
    from harness.runs.progress import ActiveAttempt
    from harness.runs.records import PlannedAttempt

# The most time that pauses add to one attempt. A sandbox in use lives that much longer.
MOST_PAUSE_SECONDS = 2 * 3600.0


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


class WorkingTime:
    """The rest of an agent's time.

    A run may have more attempts under way than the server of its model takes requests. The time that a
    request waits for a place, or between two tries, must not count against the agent.
    """

    def __init__(self, timeout: asyncio.Timeout) -> None:
        self._timeout = timeout
        self._pauses = 0
        self._paused_at = 0.0
        self._pause_left = MOST_PAUSE_SECONDS

    @property
    def is_over(self) -> bool:
        return self._timeout.expired()

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Stop the time during the block. Blocks may overlap."""
        loop = asyncio.get_running_loop()
        self._pauses += 1
        if self._pauses == 1:
            self._paused_at = loop.time()
            self._extend(self._pause_left)
        try:
            yield
        finally:
            self._pauses -= 1
            if self._pauses == 0:
                unused = max(self._pause_left - (loop.time() - self._paused_at), 0.0)
                self._pause_left = unused
                self._extend(-unused)

    def _extend(self, seconds: float) -> None:
        when = self._timeout.when()
        if when is None or self._timeout.expired():
            return
        # A block that has ended, or that is about to be cancelled, has no limit to change.
        with contextlib.suppress(RuntimeError):
            self._timeout.reschedule(when + seconds)


@contextlib.asynccontextmanager
async def limit_working_time(seconds: float) -> AsyncIterator[WorkingTime]:
    """Bound the working time of the block. Raises TimeoutError when the time is over."""
    async with asyncio.timeout(seconds) as timeout:
        yield WorkingTime(timeout)


class TimeIsOver(Exception):
    """The agent has used up its time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the agent's {seconds:g} s are over")
        self.seconds = seconds


@contextlib.asynccontextmanager
async def limit_agent(attempt: Try, seconds: float) -> AsyncIterator[None]:
    """Bound the agent's time in the block, which is the clock of the attempt meanwhile.

    Raises TimeIsOver, and SandboxError if the engine has stopped responding, because that is a fault.
    """
    clock = None
    try:
        async with limit_working_time(seconds) as clock:
            attempt.clock = clock
            yield
    except TimeoutError as error:
        if clock is None or not clock.is_over:
            raise
        if attempt.environment is not None and not await attempt.settings.faults.check_engine():
            message = "the Docker engine stopped responding while the agent acted"
            raise SandboxError(message, outside=True) from error
        raise TimeIsOver(seconds) from error


class TimePart(AttemptPart):
    """Bounds the agent's time."""

    def enter(self, attempt: Try) -> contextlib.AbstractAsyncContextManager[None]:
        return limit_agent(attempt, attempt.seconds)
