"""Two sandboxes cannot meet by their networks, and each way to meet is a real one within a sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import pytest
from security import network_meetings

from harness import Sandbox
from harness.environments.python.client import run_on_inputs
from harness.sandbox.backends.base import Backend
from harness.sandbox.limits import Limits

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

# The search ends as soon as it has found everything, so only the protected sandboxes take this long.
SEARCH_SECONDS, STAY_SECONDS = 4.0, 8.0
# With sockets of every kind.
LIMITS = Limits(uncounted_sockets=True)
LEAVE, SEARCH = network_meetings.leave(STAY_SECONDS), network_meetings.search(SEARCH_SECONDS)


async def run_command(sandbox: Sandbox, program: str) -> str:
    return str((await sandbox.exec(["python3", "-c", program])).stdout)


async def run_program(sandbox: Sandbox, program: str) -> str:
    (run,) = await run_on_inputs(sandbox, program=program.encode(), inputs=[b""], stdout_bytes=1 << 16)
    assert run.succeeded, run
    return str(run.stdout)


async def meet(leaving: Any, searching: Any) -> list[str]:
    """Return the ways by which the search found what the other program left."""
    staying = asyncio.create_task(leaving)
    try:
        found: list[str] = json.loads(await searching)
        return found
    finally:
        staying.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await staying


async def test_every_way_to_meet_works_within_a_sandbox_and_none_between_two(backend: Backend) -> None:
    async with (
        Sandbox.open(limits=LIMITS, backend=backend) as one,
        Sandbox.open(limits=LIMITS, backend=backend) as other,
    ):
        assert await meet(run_command(one, LEAVE), run_command(one, SEARCH)) == sorted(network_meetings.WAYS)
        assert await meet(run_command(one, LEAVE), run_command(other, SEARCH)) == []


async def test_programs_without_sockets_meet_in_no_way(backend: Backend) -> None:
    async with (
        Sandbox.open(seccomp="strict", network="shared", backend=backend) as one,
        Sandbox.open(seccomp="strict", network="shared", backend=backend) as other,
    ):
        assert await meet(run_program(one, LEAVE), run_program(other, SEARCH)) == []
