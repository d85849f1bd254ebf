"""The number of requests under way at an endpoint, their common pauses, and the notice of an outage.

The number shrinks for a spell of 429 replies and grows while replies succeed, so users need not guess it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

from harness.core.logger import get_logger
from harness.core.text import escape_terminal
from harness.models.endpoint import ConcurrencyBounds, Endpoint, describe_proxy

SHRINK_FACTOR = 0.8
GROWTH_FACTOR = 1.05
# All 429 replies within this time belong to one spell, after which the server gets time to recover.
COOL_DOWN_SECONDS = 15.0
# A fault of one moment is not an outage.
SHORT_FAULT_SECONDS = 1.5
# A server that drops packets gives no error before the time of the connection is over.
SILENT_SECONDS = 2.5
_LOGGER = get_logger(__name__)


@dataclass(slots=True, eq=False)
class _Waiter:
    """A request that waits for a place. `owner` is None if no attempt has made it."""

    place: asyncio.Future[None]
    owner: Hashable | None


class AdaptiveLimit:
    """Admits requests in the order of their arrival, up to a limit that follows the replies.

    An attempt gets a further place only while it holds fewer than are free. So one attempt that reads its
    replies slowly leaves half of the places to the others, and an attempt without a place gets the next one.

    Source: the dynamic threshold of A. Choudhury and E. Hahne, "Dynamic Queue Length Thresholds for
    Shared-Memory Packet Switches", IEEE/ACM Transactions on Networking 6 (1998), with a factor of 1.
    """

    def __init__(self, bounds: ConcurrencyBounds, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._bounds = bounds
        self._clock = clock
        self._limit = float(bounds.start)
        self._under_way = 0
        self._waiting: list[_Waiter] = []
        # The places of each owner that holds any.
        self._held: Counter[Hashable] = Counter()
        self._cool_until = 0.0
        # Successful replies since the limit last changed or a request failed.
        self._clean_replies = 0

    @property
    def limit(self) -> int:
        """The number of requests that may be under way now."""
        return int(self._limit)

    @contextlib.asynccontextmanager
    async def admit(self, owner: Hashable | None = None) -> AsyncIterator[None]:
        """Wait for a place, and hold it during the block.

        Args:
            owner: the attempt that makes the request. None for a request whose owner has no share.
        """
        await self._enter(owner)
        try:
            yield
        finally:
            self._leave(owner)

    def report_success(self) -> None:
        """Note a reply. After as many as the limit, without a failure between them, the limit grows."""
        self._clean_replies += 1
        if self._clean_replies < self.limit or self._clock() < self._cool_until:
            return
        self._clean_replies = 0
        grown = max(self._limit * GROWTH_FACTOR, self._limit + 1)
        self._limit = min(grown, float(self._bounds.most))
        self._wake()

    def report_rate_limit(self, retry_after: float | None = None) -> None:
        """Note a 429 reply. Only the first of a spell shrinks the limit: the others follow from it."""
        now = self._clock()
        if now >= self._cool_until:
            self._limit = max(self._limit * SHRINK_FACTOR, float(self._bounds.least))
        self._cool_until = max(self._cool_until, now + max(COOL_DOWN_SECONDS, retry_after or 0.0))
        self._clean_replies = 0

    def report_server_error(self) -> None:
        """Note a 5xx reply or a broken connection, which delays growth but says nothing about the limit."""
        self._clean_replies = 0

    async def _enter(self, owner: Hashable | None) -> None:
        waiter = _Waiter(asyncio.get_running_loop().create_future(), owner)
        self._waiting.append(waiter)
        self._wake()
        try:
            await waiter.place
        except asyncio.CancelledError:
            if waiter.place.done() and not waiter.place.cancelled():
                # The place was given in the moment of the cancellation.
                self._leave(owner)
            elif waiter in self._waiting:
                # A request that ended in the same moment may have removed the cancelled one already.
                self._waiting.remove(waiter)
            raise

    def _leave(self, owner: Hashable | None) -> None:
        self._under_way -= 1
        if owner is not None:
            self._held[owner] -= 1
            if not self._held[owner]:
                del self._held[owner]
        self._wake()

    def _wake(self) -> None:
        """Give the free places to the requests that wait, in their order."""
        place = 0
        while place < len(self._waiting) and self._under_way < self.limit:
            waiter = self._waiting[place]
            if waiter.place.done():
                del self._waiting[place]
            elif self._has_share(waiter.owner):
                del self._waiting[place]
                self._under_way += 1
                if waiter.owner is not None:
                    self._held[waiter.owner] += 1
                waiter.place.set_result(None)
            else:
                place += 1

    def _has_share(self, owner: Hashable | None) -> bool:
        held = 0 if owner is None else self._held[owner]
        return held == 0 or held < self.limit - self._under_way


Waiting = Callable[[], AbstractContextManager[None]]
"""Return a context that pauses the agent's time."""


class SharedPause:
    """Stops the clock of an agent while every request of it that is under way waits.

    A program may have many requests under way. If one of them that waits stopped the clock, a program could
    fill the places at the server itself, and work on without a limit meanwhile.
    """

    def __init__(self, stop_clock: Waiting) -> None:
        self._stop_clock = stop_clock
        self._under_way = 0
        self._waiting = 0
        self._stopped: AbstractContextManager[None] | None = None

    @contextlib.contextmanager
    def hold_request(self) -> Iterator[None]:
        """Count one request as under way in the block."""
        self._under_way += 1
        self._update()
        try:
            yield
        finally:
            self._under_way -= 1
            self._update()

    @contextlib.contextmanager
    def wait(self) -> Iterator[None]:
        """Count one request that is under way as waiting in the block."""
        self._waiting += 1
        self._update()
        try:
            yield
        finally:
            self._waiting -= 1
            self._update()

    def _update(self) -> None:
        all_wait = 0 < self._waiting == self._under_way
        if all_wait and self._stopped is None:
            self._stopped = self._stop_clock()
            self._stopped.__enter__()
        elif not all_wait and self._stopped is not None:
            stopped, self._stopped = self._stopped, None
            stopped.__exit__(None, None, None)


class Outage:
    """The time since a server has answered its last request, if all requests since then have failed."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._began: float | None = None
        self._is_told = False
        self._has_begun_watch = False

    def note(self, reason: str, *, at_once: bool) -> None:
        """Report a failed try on the screen, unless that was done or the failure may be one of a moment."""
        now = time.monotonic()
        if self._began is None:
            self._began = now
        if self._is_told or not (at_once or now - self._began >= SHORT_FAULT_SECONDS):
            return
        self._is_told = True
        proxy = describe_proxy(self._endpoint.base_url)
        _LOGGER.warning(
            "model '%s': the server at %s does not answer: %s%s; start it, or press Ctrl-C and check "
            "--base-url; harness goes on trying",
            self._endpoint.model,
            self._endpoint.base_url,
            # The text of the failure comes from a server.
            escape_terminal(reason),
            "" if proxy is None else f"; {proxy}",
        )

    def end(self) -> None:
        """Report that the server answers again, if an outage was reported."""
        if self._is_told:
            _LOGGER.warning("model '%s': the server answers again", self._endpoint.model)
        self._began, self._is_told = None, False

    @contextlib.contextmanager
    def watch(self, find_obstacle: Callable[[], Awaitable[str | None]]) -> Iterator[None]:
        """Report in the block of the first try if no connection can be made, before the try itself fails."""
        if self._has_begun_watch:
            yield
            return
        self._has_begun_watch = True

        async def look() -> None:
            await asyncio.sleep(SILENT_SECONDS)
            if (obstacle := await find_obstacle()) is not None:
                self.note(obstacle, at_once=True)

        task = asyncio.create_task(look())
        try:
            yield
        finally:
            task.cancel()
