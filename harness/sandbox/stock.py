"""A stock of prepared sandboxes, so that a lease of a new one need not wait for its start."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Self

from harness.core.errors import HarnessError
from harness.core.logger import get_logger
from harness.sandbox.pool import PREPARED, SandboxPool, SandboxSettings

# The demand of this time decides the size of the stock.
WINDOW_SECONDS = 60.0
# Claims that follow each other as fast as this come before a sandbox could start for them.
BURST_SECONDS = 2.0
# The share of the pool's memory that the stock may take.
MEMORY_SHARE = 0.5
# The time between two looks at the demand, and the pause after a start that failed.
LOOK_SECONDS, PAUSE_SECONDS = 0.25, 10.0

_LOGGER = get_logger(__name__)


class Stock:
    """Keeps sandboxes prepared while its block lasts, for the leases of a pool that ask for a new one.

    For each kind of settings, it keeps as many as were claimed within BURST_SECONDS at the busiest moment of
    the last minute, as far as half of the pool's memory suffices. A kind that is no longer claimed is gone
    after a minute. A prepared sandbox has all limits and filters of its settings from its start, and has run
    nothing.

    Args:
        pool: the pool, which tells the stock of each claim.
        on_claim: called for each claim with the age of its sandbox in seconds, None if it had to start.
    """

    def __init__(
        self, pool: SandboxPool, on_claim: Callable[[float | None], None] = lambda _age: None
    ) -> None:
        self._pool = pool
        self._on_claim = on_claim
        # The times and the seconds of the claims in the last minute.
        self._claims: dict[SandboxSettings, deque[tuple[float, float]]] = {}
        self._is_starting = False
        self._keeper: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._pool.on_claim = self._note
        self._keeper = asyncio.create_task(self._keep())
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._pool.on_claim = lambda *_claim: None
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait((self._keeper,))
        self._pool.discard(PREPARED)

    @property
    def ready(self) -> int:
        """The number of sandboxes that wait for a claim."""
        return sum(self._pool.count_idle(PREPARED, settings) for settings in self._claims)

    @property
    def count(self) -> int:
        """The number of prepared sandboxes, with the one that starts."""
        return self.ready + self._is_starting

    def _note(self, settings: SandboxSettings, seconds: float, age: float | None) -> None:
        # A machine among several is not prepared, because they are counted together.
        if not settings.beside_mb:
            self._claims.setdefault(settings, deque()).append((time.monotonic(), seconds))
        self._on_claim(age)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                for settings in list(self._claims):
                    await self._adapt(settings)
            except HarnessError as error:
                # Whoever needs a sandbox meets the same error, and gets its explanation.
                _LOGGER.debug("no sandbox could be prepared: %s", error)
                await asyncio.sleep(PAUSE_SECONDS)

    async def _adapt(self, settings: SandboxSettings) -> None:
        claims = self._claims[settings]
        while claims and claims[0][0] < time.monotonic() - WINDOW_SECONDS:
            claims.popleft()
        if not claims:
            self._pool.discard(PREPARED, settings)
            del self._claims[settings]
            return
        others = [each for each in self._claims if each != settings]
        taken_mb = sum(self._pool.count_idle(PREPARED, each) * each.memory_mb for each in others)
        rest_mb = int(self._pool.memory_mb * MEMORY_SHARE) - taken_mb
        wanted = min(count_burst([at for at, _ in claims]), max(0, rest_mb // settings.memory_mb))
        while self._pool.count_idle(PREPARED, settings) < wanted:
            self._is_starting = True
            try:
                if not await self._pool.prepare(settings, max(seconds for _, seconds in claims)):
                    return
            finally:
                self._is_starting = False


def count_burst(times: list[float]) -> int:
    """Return the most claims within BURST_SECONDS. `times` are in ascending order."""
    most = start = 0
    for end, at in enumerate(times):
        while at - times[start] > BURST_SECONDS:
            start += 1
        most = max(most, end - start + 1)
    return most
