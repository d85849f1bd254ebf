"""The limit of the requests under way, if many requests are cancelled at once."""

from __future__ import annotations

import asyncio
from collections import Counter

from harness.models.concurrency import AdaptiveLimit
from harness.models.endpoint import ConcurrencyBounds


async def test_requests_that_are_cancelled_together_end_as_cancelled_and_free_all_places() -> None:
    limit = AdaptiveLimit(ConcurrencyBounds(start=2, least=1, most=2))

    async def hold() -> None:
        async with limit.admit():
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(hold()) for _ in range(6)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [asyncio.CancelledError] * 6
    async with asyncio.timeout(5), limit.admit(), limit.admit():
        pass


async def test_a_request_that_is_cancelled_in_the_queue_lets_the_next_one_in() -> None:
    limit = AdaptiveLimit(ConcurrencyBounds(start=1, least=1, most=1))
    entered: list[str] = []

    async def enter(name: str) -> None:
        async with limit.admit():
            entered.append(name)

    async with limit.admit():
        first, second = (asyncio.create_task(enter(name)) for name in ("first", "second"))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
    await second
    assert entered == ["second"]


class Holders:
    """Requests of several attempts. Each holds its place until it is cancelled."""

    def __init__(self, places: int) -> None:
        self.limit = AdaptiveLimit(ConcurrencyBounds(start=places, least=1, most=places))
        self.held: Counter[str] = Counter()
        self._tasks: dict[str, list[asyncio.Task[None]]] = {}

    async def ask(self, owner: str, requests: int) -> None:
        """Begin requests of one attempt."""
        begun = [asyncio.create_task(self._hold(owner)) for _ in range(requests)]
        self._tasks.setdefault(owner, []).extend(begun)
        await asyncio.sleep(0)

    async def end_one(self, owner: str) -> None:
        """End the first request of an attempt, and let others take its place."""
        task = self._tasks[owner].pop(0)
        task.cancel()
        await asyncio.wait([task])
        await asyncio.sleep(0)

    async def end(self) -> None:
        for owner, tasks in self._tasks.items():
            while tasks:
                await self.end_one(owner)

    async def _hold(self, owner: str) -> None:
        async with self.limit.admit(owner):
            self.held[owner] += 1
            try:
                await asyncio.Event().wait()
            finally:
                self.held[owner] -= 1


async def test_each_attempt_leaves_half_of_the_free_places_to_the_others() -> None:
    holders = Holders(20)
    for owner in ("a", "b", "c"):
        await holders.ask(owner, 30)
    assert holders.held == {"a": 10, "b": 5, "c": 3}
    await holders.end()


async def test_attempts_with_one_request_each_fill_all_places() -> None:
    holders = Holders(4)
    for owner in ("a", "b", "c", "d", "e"):
        await holders.ask(owner, 1)
    assert holders.held == {"a": 1, "b": 1, "c": 1, "d": 1}
    await holders.end()


async def test_an_attempt_without_a_place_goes_before_one_that_has_its_share() -> None:
    holders = Holders(3)
    await holders.ask("a", 9)
    await holders.ask("b", 1)
    await holders.ask("c", 1)
    assert holders.held == {"a": 2, "b": 1}
    await holders.end_one("a")
    assert holders.held == {"a": 1, "b": 1, "c": 1}
    await holders.end()


async def test_an_attempt_alone_gets_its_share_back_after_its_requests_end() -> None:
    holders = Holders(4)
    for _ in range(3):
        await holders.ask("a", 9)
        assert holders.held["a"] == 2
        await holders.end()


async def test_requests_of_no_attempt_fill_all_places() -> None:
    limit = AdaptiveLimit(ConcurrencyBounds(start=2, least=1, most=2))
    async with asyncio.timeout(5), limit.admit(), limit.admit():
        pass
