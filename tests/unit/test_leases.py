"""The leases of attempts that nodes of a cluster make."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from harness.core.types import Task
from harness.runs.executors.execution import group_attempts
from harness.runs.executors.messages import LeaseBook
from harness.runs.records import PlannedAttempt


def plan(*keys: tuple[str, int]) -> list[PlannedAttempt]:
    return [PlannedAttempt(Task(name, "b", "python", ""), number, None) for name, number in keys]


A, B, C = plan(("a", 0), ("b", 0), ("c", 0))


async def take_all(book: LeaseBook) -> list[tuple[str, int]]:
    """Take and finish every unit, and return the keys in their order."""
    keys = []
    while (unit := await book.take()) is not None:
        for planned in unit:
            assert book.finish(planned)
            keys.append(planned.key)
    return keys


async def test_units_are_lent_in_the_order_of_the_plan() -> None:
    assert await take_all(LeaseBook([[A], [B], [C]])) == [("a", 0), ("b", 0), ("c", 0)]


async def test_a_unit_that_a_lost_node_gives_back_is_lent_before_all_others() -> None:
    book = LeaseBook([[A], [B], [C]])
    lost = await book.take()
    assert lost is not None
    assert book.give_back(lost) == 1
    assert await take_all(book) == [("a", 0), ("b", 0), ("c", 0)]


async def test_only_the_attempts_without_a_record_are_lent_again() -> None:
    unit = plan(("a", 0), ("a", 1), ("a", 2))
    book = LeaseBook([unit])
    assert await book.take() == unit
    assert book.finish(unit[0])
    assert book.give_back(unit) == 2
    assert await take_all(book) == [("a", 1), ("a", 2)]


async def test_a_late_duplicate_is_not_the_first_record() -> None:
    book = LeaseBook([[A], [B]])
    lost = await book.take()
    assert lost is not None
    book.give_back(lost)
    assert await take_all(book) == [("a", 0), ("b", 0)]
    assert not book.finish(A)


async def test_a_late_record_is_taken_if_it_is_the_first_and_the_attempt_is_not_lent_again() -> None:
    book = LeaseBook([[A], [B]])
    lost = await book.take()
    assert lost is not None
    book.give_back(lost)
    assert book.finish(A)
    assert await take_all(book) == [("b", 0)]


async def test_a_free_place_waits_while_others_may_give_attempts_back() -> None:
    book = LeaseBook([[A]])
    unit = await book.take()
    assert unit is not None
    waiting = asyncio.create_task(book.take())
    await asyncio.sleep(0)
    assert not waiting.done()
    book.give_back(unit)
    assert await waiting == unit


async def test_all_places_end_with_the_last_record() -> None:
    book = LeaseBook([[A]])
    assert await book.take() == [A]
    waiting = [asyncio.create_task(book.take()) for _ in range(3)]
    await asyncio.sleep(0)
    book.finish(A)
    assert await asyncio.gather(*waiting) == [None, None, None]
    await book.wait_until_done()


async def test_a_run_without_open_attempts_is_done_at_once() -> None:
    book = LeaseBook([])
    assert await book.take() is None
    await book.wait_until_done()


def test_tries_are_counted_for_each_attempt() -> None:
    book = LeaseBook([[A], [B]])
    assert [book.begin(A), book.begin(A), book.begin(B)] == [1, 2, 1]


def list_keys(units: Sequence[Sequence[PlannedAttempt]]) -> list[list[int]]:
    return [[planned.number for planned in unit] for unit in units]


def test_attempts_at_one_task_are_a_unit_unless_the_agent_waits_for_a_model() -> None:
    attempts = plan(("a", 0), ("a", 1), ("b", 5))
    assert list_keys(group_attempts(attempts, in_parallel=False)) == [[0, 1], [5]]
    assert list_keys(group_attempts(attempts, in_parallel=True)) == [[0], [1], [5]]
