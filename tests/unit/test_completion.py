from __future__ import annotations

import asyncio

import pytest

from harness.core.shield import complete


async def test_the_result_or_the_error_of_the_work_is_that_of_the_call() -> None:
    async def divide(number: int) -> float:
        return 14 / number

    assert await complete(divide(2)) == 7
    with pytest.raises(ZeroDivisionError):
        await complete(divide(0))


async def test_work_ends_before_a_cancellation_is_raised() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()
    done: list[str] = []

    async def work() -> None:
        begun.set()
        await may_end.wait()
        done.append("work")

    async def caller() -> None:
        try:
            await complete(work())
        finally:
            done.append("caller")

    task = asyncio.create_task(caller())
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == ["work", "caller"]


async def test_a_failure_after_a_cancellation_is_still_a_cancellation() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await may_end.wait()
        raise ValueError("late")

    task = asyncio.create_task(complete(work()))
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
