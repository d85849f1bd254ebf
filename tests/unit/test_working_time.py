"""The time limit of an agent, which stands still during pauses."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from harness.runs import attempt_parts
from harness.runs.attempt_parts import WorkingTime, limit_working_time


async def run_out(seconds: float, *, paused_seconds: float = 0.0) -> WorkingTime:
    """Return the limit of work that pauses for a time, and that only its limit ends."""
    with contextlib.suppress(TimeoutError):
        async with limit_working_time(seconds) as limit:
            if paused_seconds:
                with limit.pause():
                    await asyncio.sleep(paused_seconds)
            await asyncio.get_running_loop().create_future()
    return limit


async def test_the_limit_ends_the_block() -> None:
    assert (await run_out(0.01)).is_over


async def test_a_pause_does_not_count() -> None:
    async with limit_working_time(0.1) as limit:
        with limit.pause(), limit.pause():
            await asyncio.sleep(0.3)
    assert not limit.is_over


async def test_the_rest_of_the_time_runs_on_after_a_pause() -> None:
    assert (await run_out(0.05, paused_seconds=0.1)).is_over


async def test_pauses_have_a_bound_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_parts, "MOST_PAUSE_SECONDS", 0.05)
    assert (await run_out(0.01, paused_seconds=3600.0)).is_over


async def test_a_pause_after_the_end_changes_nothing() -> None:
    async with limit_working_time(0.1) as limit:
        pass
    with limit.pause():
        assert not limit.is_over
