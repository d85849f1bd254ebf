"""The tokens and the cost of requests, and the budgets that bound them."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace

from pydantic import BaseModel, ConfigDict, Field

from harness.models.endpoint import Prices
from harness.models.messages import NO_USAGE, Generation, Usage
from harness.models.server_errors import UnknownSpendingError
from harness.models.wire import BYTES_PER_TOKEN, RawRequest, encode_body

_MILLION = 1_000_000


# The length of a reply without a bound that a budget of all tokens, or of the cost, expects.
EXPECTED_REPLY_TOKENS = 8192


class Budget(BaseModel):
    """The most that an attempt or a run may spend on models. None is not a bound."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True
    )

    output_tokens: int | None = Field(default=None, ge=1)
    total_tokens: int | None = Field(default=None, ge=1)
    cost: float | None = Field(default=None, gt=0)
    """In the currency of the endpoint's prices."""


class BudgetReached(Exception):
    """A budget is used up.

    `limit` is its name, a field of Budget, and `allowed` its bound. `is_of_run` if it is the run's bound.
    """

    def __init__(self, limit: str, used: float, allowed: float, *, is_of_run: bool) -> None:
        owner = "run" if is_of_run else "attempt"
        unit = "" if limit == "cost" else f" {limit}"
        verb = "cost" if limit == "cost" else "used"
        super().__init__(f"the {owner} has {verb} {used:,.6g} of its budget of {allowed:,.6g}{unit}")
        self.limit, self.allowed = limit, allowed
        self.is_of_run = is_of_run


@dataclass(slots=True)
class Spending:
    """The spending of an attempt, or of a run as the parent of its attempts."""

    budget: Budget = field(default_factory=Budget)
    parent: Spending | None = None
    usage: Usage = NO_USAGE
    # None once a request had no known cost.
    cost: float | None = 0.0
    # Called with the usage and the cost of each request, so that they outlive this process, and with whether
    # an attempt has made it. The run itself makes a few.
    keep: Callable[[Usage, float | None, bool], None] | None = None

    def charge(self, usage: Usage, prices: Prices | None) -> None:
        """Add a request. Raises UnknownSpendingError for a budget whose figure is unknown."""
        cost = compute_cost(usage, prices)
        for account in self._accounts():
            account.usage += usage
            account.cost = None if account.cost is None or cost is None else account.cost + cost
        # Every account has the request before one of them may refuse it.
        for account in self._accounts():
            if account.keep is not None:
                account.keep(usage, cost, account is not self)
        for account in self._accounts():
            account._require_figures(has_prices=prices is not None)

    def require_rest(self) -> None:
        """Raise BudgetReached if a budget is used up, and UnknownSpendingError if nobody knows."""
        for account in self._accounts():
            for limit, used, allowed in account._bounds():
                if used is None:
                    raise UnknownSpendingError(
                        f"the budget '{limit}' cannot be kept, because an earlier request has no figure"
                    )
                if used >= allowed:
                    raise BudgetReached(limit, used, allowed, is_of_run=account.parent is None)

    def require_room(self, usage: Usage, prices: Prices | None) -> None:
        """Raise BudgetReached if a request under way, with its usage so far, exceeds a budget."""
        so_far = {
            "output_tokens": usage.output_tokens or 0,
            "total_tokens": (usage.input_tokens or 0) + (usage.output_tokens or 0),
            "cost": compute_cost(usage, prices) or 0.0,
        }
        for account in self._accounts():
            for limit, used, allowed in account._bounds():
                if used is not None and (used >= allowed or used + so_far[limit] > allowed):
                    is_of_run = account.parent is None
                    raise BudgetReached(limit, used + so_far[limit], allowed, is_of_run=is_of_run)

    def find_rest(self, limit: str) -> float | None:
        """Return what all budgets of one name leave, None without such a budget."""
        rests = [
            allowed - used
            for account in self._accounts()
            for name, used, allowed in account._bounds()
            if name == limit and used is not None
        ]
        return min(rests, default=None)

    def describe_budget(self) -> dict[str, dict[str, float | None]]:
        """Return the bound and the use of each limit of the budget, by its name. An unknown use is None."""
        return {limit: {"allowed": allowed, "used": used} for limit, used, allowed in self._bounds()}

    def _accounts(self) -> Iterator[Spending]:
        account: Spending | None = self
        while account is not None:
            yield account
            account = account.parent

    def _require_figures(self, *, has_prices: bool) -> None:
        for limit, used, _ in self._bounds():
            if used is None:
                lacks_prices = limit == "cost" and not has_prices
                reason = "the endpoint has no prices" if lacks_prices else "the server reports no usage"
                raise UnknownSpendingError(
                    f"the budget '{limit}' cannot be kept, because {reason}",
                    hint="leave the budget out, and bound each reply with --max-tokens",
                )

    def _bounds(self) -> Iterator[tuple[str, float | None, float]]:
        used = {
            "output_tokens": self.usage.output_tokens,
            "total_tokens": self.usage.total_tokens,
            "cost": self.cost,
        }
        for limit, amount in used.items():
            allowed = getattr(self.budget, limit)
            if allowed is not None:
                yield limit, amount, allowed


def compute_cost(usage: Usage, prices: Prices | None) -> float | None:
    """Return the cost of a request in the currency of the prices, None if it is unknown."""
    if prices is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    cached = min(usage.cached_tokens or 0, usage.input_tokens)
    cached_price = prices.input if prices.cached_input is None else prices.cached_input
    fresh = usage.input_tokens - cached
    return (fresh * prices.input + cached * cached_price + usage.output_tokens * prices.output) / _MILLION


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
