"""The bound of each reply, so that requests under way at once keep the budget of their attempt."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from harness.models.endpoint import Prices
from harness.models.messages import Generation, Usage
from harness.models.spending import compute_cost
from harness.models.wire import BYTES_PER_TOKEN, RawRequest, encode_body

# The length of a reply without a bound that a budget of all tokens, or of the cost, expects.
EXPECTED_REPLY_TOKENS = 8192


class OutputRooms:
    """Bounds each reply of an attempt by the rest of the budget that no reply under way may use.

    Without it, as many requests at once as an agent likes could each use up the whole rest. A budget of all
    tokens, or of the cost, bounds no reply. There a request waits until the others leave enough for what it
    is expected to use.
    """

    def __init__(self, find_rest: Callable[[str], float | None], prices: Prices | None) -> None:
        self._find_rest = find_rest
        self._prices = prices
        self._under_way = 0
        self._taken = 0
        # The tokens and the cost that the requests under way are expected to use.
        self._expected = {"total_tokens": 0.0, "cost": 0.0}
        self._is_free = asyncio.Event()

    @contextlib.asynccontextmanager
    async def take(self, generation: Generation, request: RawRequest) -> AsyncIterator[Generation]:
        """Yield the parameters with the bound of the reply, whose tokens nobody else gets in the block."""
        asked = generation.max_tokens if generation.max_tokens is not None else request.fallback_max_tokens
        expected = self._expect(request, EXPECTED_REPLY_TOKENS if asked is None else asked)
        while self._under_way > 0 and not (self._find_free() >= 1 and self._has_room(expected)):
            self._is_free.clear()
            await self._is_free.wait()
        free, room = self._find_free(), 0
        if free < math.inf:
            # A budget that is used up leaves nothing, and then the client refuses the request.
            asked = room = max(int(free if asked is None else min(asked, free)), 1)
        self._add(1, room, expected)
        try:
            yield replace(generation, max_tokens=asked)
        finally:
            self._add(-1, -room, {limit: -amount for limit, amount in expected.items()})
            self._is_free.set()

    def _expect(self, request: RawRequest, output: int) -> dict[str, float]:
        if all(self._find_rest(limit) is None for limit in self._expected):
            return {}
        usage = Usage(len(encode_body(dict(request.body))) // BYTES_PER_TOKEN, output)
        cost = compute_cost(usage, self._prices) or 0.0
        return {"total_tokens": float(usage.total_tokens or 0), "cost": cost}

    def _has_room(self, expected: dict[str, float]) -> bool:
        rests = {limit: self._find_rest(limit) for limit in expected}
        return all(
            rest is None or rest - self._expected[limit] >= expected[limit] for limit, rest in rests.items()
        )

    def _add(self, requests: int, room: int, expected: dict[str, float]) -> None:
        self._under_way += requests
        self._taken += room
        for limit, amount in expected.items():
            self._expected[limit] += amount

    def _find_free(self) -> float:
        rest = self._find_rest("output_tokens")
        return math.inf if rest is None else rest - self._taken
