"""Canaries for the end of a sandbox: it must come even where the host does nothing for it."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import TYPE_CHECKING

from harness.errors import SandboxError
from harness.sandbox import reaper
from harness.sandbox.checks import probe
from harness.sandbox.checks.canary import attempt, ending
from harness.sandbox.checks.check import Finding, Level, judged
from harness.sandbox.connection import connected
from harness.sandbox.container import end_state, started
from harness.sandbox.images import require_image
from harness.sandbox.limits import Limits
from harness.sandbox.sandbox import Sandbox, SandboxUnresponsive
from harness.sandbox.spec import SHARED_FOLDERS, WORK_FOLDER, SandboxSpec

if TYPE_CHECKING:
    from docker import APIClient

RUN_ID = "doctor"
DEADLINE_SECONDS = 1.0
# What a sandbox may take to end once it should.
END_SECONDS = 10.0
POLL_SECONDS = 0.02


async def host_gone(client: APIClient, runtime: str, *, seconds: float = END_SECONDS) -> Finding:
    """The guest ends when its stream does, as after a SIGKILL of its host; then it can be removed."""
    spec = SandboxSpec(
        image=await asyncio.to_thread(require_image, client, "python"),
        limits=Limits(),
        runtime=runtime,
        labels=reaper.labels(RUN_ID, role="sandbox", deadline_seconds=60),
    )
    async with started(client, spec, f"harness-{secrets.token_hex(8)}") as container:
        async with connected(container.stream) as connection:
            hello = {
                "verb": "hello",
                "first_uid": 10_000,
                "work_folder": WORK_FOLDER,
                "shared_folders": SHARED_FOLDERS,
                "deadline_seconds": 60.0,
            }
            await connection.request(hello)
        # Here the stream is closed, without the `bye` that would be an order to end.
        stopped = await _stopped_within(client, container.id, seconds)
    if stopped is None:
        return Finding(Level.FAIL, f"the sandbox was still there {seconds:g} s after its stream was closed")
    return Finding(Level.OK, f"the sandbox ended {stopped:.1f} s after its stream was closed")


async def deadline(client: APIClient, runtime: str, *, seconds: float = DEADLINE_SECONDS) -> Finding:
    """A sandbox ends itself when its time is up, whatever its host does."""
    async with Sandbox.open(
        runtime=runtime, deadline_seconds=seconds, run_id=RUN_ID, client=client
    ) as sandbox:
        opened = time.monotonic()
        try:
            result = await attempt(sandbox, probe.sleep, 60, timeout=DEADLINE_SECONDS * 3)
        except SandboxUnresponsive:
            raise
        except SandboxError:
            # The stream ended. Too early for the deadline means: for another reason.
            lasted = time.monotonic() - opened
            if lasted < seconds * 0.9 or await _stopped_within(client, sandbox.container_id, END_SECONDS) is None:
                raise
            return judged(True, f"the sandbox ended itself after {lasted:.1f} s, its deadline")
    return judged(False, f"the sandbox outlived its deadline of {DEADLINE_SECONDS:g} s: a job {ending(result)}")


async def _stopped_within(client: APIClient, container_id: str, seconds: float) -> float | None:
    """Wait until the container has stopped; return how long that took, None where it took too long."""
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        _out_of_memory, exit_code = await asyncio.to_thread(end_state, client, container_id)
        if exit_code is not None:
            return time.monotonic() - start
        await asyncio.sleep(POLL_SECONDS)
    return None
