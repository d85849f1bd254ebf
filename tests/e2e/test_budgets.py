"""Budgets of resources that an attempt does not use do not bound attempts that wait for a model."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import harness
from harness.core.types import Status
from harness.runs.agents import AgentError, AttemptContext

ATTEMPTS = 200
# The number of attempts that are graded.
REPLIES = 6


class Waiting:
    """Waits as for a model until `ATTEMPTS` attempts wait at once. Some of them then submit a reply."""

    def __init__(self) -> None:
        self._waiting = 0
        self._all_wait = asyncio.Event()

    async def attempt(self, context: AttemptContext) -> str:
        self._waiting += 1
        if self._waiting == ATTEMPTS:
            self._all_wait.set()
        await self._all_wait.wait()
        if self._waiting > REPLIES:
            self._waiting -= 1
            raise AgentError("no reply")
        return "none"


def questions(folder: Path) -> str:
    path = folder / "questions.jsonl"
    rows = [{"question": f"What is {n} + 0?", "answer": f"#### {n}"} for n in range(ATTEMPTS)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


async def test_two_hundred_attempts_wait_at_once_without_sandboxes(tmp_path: Path) -> None:
    result = await harness.run(
        "gsm8k", agent=Waiting().attempt, data=questions(tmp_path), output_dir=str(tmp_path)
    )
    statuses = Counter(record.status for record in result.attempts)
    assert statuses == {Status.AGENT_ERROR: ATTEMPTS - REPLIES, Status.FAILED: REPLIES}


async def test_max_concurrent_bounds_the_attempts_at_once(tmp_path: Path) -> None:
    first_three = asyncio.Barrier(3)
    begun, under_way, most = 0, 0, 0

    async def attempt(_context: AttemptContext) -> str:
        nonlocal begun, under_way, most
        begun, under_way = begun + 1, under_way + 1
        most = max(most, under_way)
        await (first_three.wait() if begun <= 3 else asyncio.sleep(0))
        under_way -= 1
        return "7"

    await harness.run(
        "gsm8k", agent=attempt, data=questions(tmp_path), output_dir=str(tmp_path), max_concurrent=3
    )
    assert (begun, most) == (ATTEMPTS, 3)
