"""The agent's time in an attempt, which stops while a request waits for a model."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

from harness.core.errors import SandboxError
from harness.runs.attempt_parts import AttemptPart, Try

# The most time that pauses add to one attempt. A sandbox in use lives that much longer.
MOST_PAUSE_SECONDS = 2 * 3600.0


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
