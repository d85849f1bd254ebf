"""Canaries for the end of a sandbox, which must come even if the host does nothing for it."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import time

from harness.core.errors import SandboxError
from harness.sandbox import reaper
from harness.sandbox.backends.base import Backend, SandboxSpec
from harness.sandbox.connection import ConnectionLost, hold_container, open_connection
from harness.sandbox.failures import SandboxUnresponsive
from harness.sandbox.layout import HOME, SHARED_FOLDERS, SHARED_MEMORY_FOLDER, TEMPORARY_FOLDER, WORK_FOLDER
from harness.sandbox.limits import MIB, Limits
from harness.sandbox.results import ExecResult
from harness.sandbox.sandbox import FIRST_UID, LAST_UID, Sandbox
from harness.sandbox.selfcheck import probe
from harness.sandbox.selfcheck.check import (
    RUN_ID,
    Finding,
    Level,
    answer,
    attempt,
    describe_end,
    make_finding,
)
from harness.sandbox.time_factor import extend_wait

DEADLINE_SECONDS = 1.0
# The time that a sandbox may take to end, or so many times what it took to start on a slow machine.
END_SECONDS, END_STARTS = 10.0, 10
START_SECONDS = 60.0
POLL_SECONDS = 0.02


async def deadline(backend: Backend, runtime: str) -> Finding:
    """Return whether a sandbox that is opened for DEADLINE_SECONDS ends itself, and no sooner."""
    start = time.monotonic()
    async with Sandbox.open(
        deadline_seconds=DEADLINE_SECONDS, runtime=runtime, run_id=RUN_ID, backend=backend
    ) as sandbox:
        return await outlast_deadline(sandbox, start)


async def outlast_deadline(sandbox: Sandbox, start: float) -> Finding:
    """Return whether a sandbox ends itself at its deadline. Its opening began at `start`."""
    try:
        result = await attempt(sandbox, probe.sleep, 60, timeout=3 * DEADLINE_SECONDS)
    except SandboxUnresponsive:
        # The host ended it.
        raise
    except SandboxError:
        lasted = time.monotonic() - start
        # Too early means that it ended for another reason.
        if lasted < DEADLINE_SECONDS:
            raise
        return Finding(Level.OK, f"the sandbox ended itself {lasted:.1f} s after its start, at its deadline")
    return Finding(
        Level.FAIL, f"the sandbox outlived its {DEADLINE_SECONDS:g} s: a job {describe_end(result)}"
    )


async def leave_block(backend: Backend, runtime: str) -> Finding:
    """Return whether a container exists during the block of a sandbox, and is gone after it."""
    run_id = f"{RUN_ID}-{secrets.token_hex(6)}"
    async with Sandbox.open(runtime=runtime, run_id=run_id, backend=backend):
        there = await _count(backend, run_id)
    left = await _count(backend, run_id)
    return make_finding((there, left) == (1, 0), f"{there} container during the block, {left} after it")


async def cancel_command(backend: Backend, runtime: str) -> Finding:
    """Return whether a task that is cancelled during a command leaves no container."""
    run_id = f"{RUN_ID}-{secrets.token_hex(6)}"
    opened = asyncio.Event()

    async def use() -> None:
        async with Sandbox.open(runtime=runtime, run_id=run_id, backend=backend) as sandbox:
            opened.set()
            await sandbox.exec(["sleep", "600"], timeout=600)

    task = asyncio.create_task(use())
    try:
        # The task ends first if the sandbox cannot be opened, and then raises its error below.
        waiting = asyncio.create_task(opened.wait())
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
    finally:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    left = await _count(backend, run_id)
    return make_finding(left == 0, f"{left} containers after a cancellation during a command")


async def _count(backend: Backend, run_id: str) -> int:
    return len(await asyncio.to_thread(reaper.find_run_containers, backend, run_id))


async def close_stream(backend: Backend, runtime: str, *, seconds: float = END_SECONDS) -> Finding:
    """Check that the guest ends soon after the end of its stream, as after a SIGKILL of its host.

    A slow machine has longer than `seconds` for it.

    Raises SandboxError, for instance if the container then cannot be removed.
    """
    spec = SandboxSpec(
        image="python",
        limits=Limits(),
        name=f"harness-{secrets.token_hex(8)}",
        runtime=runtime,
        labels=reaper.make_labels(RUN_ID, role="sandbox", deadline_seconds=START_SECONDS),
    )
    start = time.monotonic()
    async with hold_container(backend, spec) as container:
        async with open_connection(container) as connection:
            hello = {
                "verb": "hello",
                "first_uid": FIRST_UID,
                "last_uid": LAST_UID,
                "work_folder": WORK_FOLDER,
                "shared_folders": SHARED_FOLDERS,
                "deadline_seconds": START_SECONDS,
            }
            try:
                async with asyncio.timeout(extend_wait(START_SECONDS)):
                    await connection.request(hello)
            except (ConnectionLost, TimeoutError) as error:
                raise SandboxError(f"the guest did not answer: {error}") from error
            # The same as the kernel does for a dead process. A `close` would not suffice, because other
            # descriptors would keep the stream open. A `bye` would be a request to end.
            seconds = max(seconds, END_STARTS * (time.monotonic() - start))
            container.stream.shutdown(socket.SHUT_RDWR)
        lasted = await _wait_for_stop(backend, container.id, seconds)
    if lasted is None:
        return Finding(Level.FAIL, f"the sandbox still ran {seconds:.1f} s after its stream was closed")
    return Finding(Level.OK, f"the sandbox ended {lasted:.2f} s after its stream was closed")


async def _wait_for_stop(backend: Backend, container_id: str, seconds: float) -> float | None:
    """Wait until the container has stopped and return the seconds; None if it took too long."""
    start = time.monotonic()
    lasted = 0.0
    while lasted < seconds:
        found = await asyncio.to_thread(backend.find_containers, {reaper.RUN: RUN_ID})
        lasted = time.monotonic() - start
        if not any(each.running for each in found if each.id == container_id):
            return lasted
        await asyncio.sleep(POLL_SECONDS)
    return None


WRITABLE_FOLDERS = (HOME, TEMPORARY_FOLDER, SHARED_MEMORY_FOLDER)
EXCESS_MB = 16
WALL_SECONDS = 0.25
# Several periods of the kernel's CPU quota, which are 0.1 s each.
SHARE_SECONDS = 0.5
# A program may use a quota late in one period and the next quota early in the next period.
SHARE_SLACK = 0.25


async def memory_mb(sandbox: Sandbox, limits: Limits) -> Finding:
    """Check that memory beyond the limit ends the job, and that the guest can read the counter of kills."""
    asked = limits.memory_mb + EXCESS_MB
    result = await attempt(sandbox, probe.memory, asked)
    return _check_limit(result, "memory_mb", f"the job asked for {asked} MiB, of {limits.memory_mb} allowed")


async def swap(sandbox: Sandbox, limits: Limits) -> Finding:
    """Check that there is no swap beyond the limit on memory, because swap would add slow memory to it."""
    facts = await answer(sandbox, probe.swap)
    if facts["allowed"] is not None:
        return make_finding(
            facts["allowed"] == 0, "none beyond memory_mb" if facts["allowed"] == 0 else "not limited"
        )
    if facts["total"] == 0:
        return Finding(Level.OK, "the machine has none")
    return Finding(
        Level.FAIL,
        "the kernel does not count swap, so that memory_mb does not bound it",
        "boot with swapaccount=1 on the kernel's command line, or run: sudo swapoff -a",
    )


async def processes(sandbox: Sandbox, limits: Limits) -> Finding:
    """Check that the kernel refuses a fork beyond the limit."""
    facts = await answer(sandbox, probe.processes, limits.processes)
    found = f"{facts['started']} forks next to the guest, of {limits.processes} processes allowed"
    return make_finding(facts["refused"] == "EAGAIN", f"{found}, then {facts['refused'] or 'no refusal'}")


async def cpu_seconds(sandbox: Sandbox, limits: Limits) -> Finding:
    """Check that a busy loop ends once it has used its CPU time."""
    result = await attempt(sandbox, probe.burn, limits.cpu_seconds + 1)
    return _check_limit(result, "cpu_seconds", f"a busy loop used {result.cpu_seconds:.1f} s of CPU")


async def cpus(sandbox: Sandbox, limits: Limits) -> Finding:
    """Check that a busy loop gets no more than its share of a core.

    A small share proves nothing on a busy machine, so the cgroup has to confirm the quota.
    """
    facts = await answer(sandbox, probe.share, SHARE_SECONDS)
    found = f"a busy loop got {facts['used']:.2f} of a core, of {limits.cpus:g} allowed"
    if facts["used"] > limits.cpus + SHARE_SLACK:
        return Finding(Level.FAIL, found)
    if facts["allowed"] is not None and abs(facts["allowed"] - limits.cpus) < 0.01:
        return Finding(Level.OK, found)
    return Finding(
        Level.WARN, f"{found}, but its cgroup shows no such quota", "run it again when the machine is idle"
    )


async def wall_seconds(sandbox: Sandbox, limits: Limits) -> Finding:
    """Check that a sleeping job ends at its timeout."""
    result = await attempt(sandbox, probe.sleep, 4 * WALL_SECONDS, timeout=WALL_SECONDS)
    return _check_limit(result, "wall_seconds", f"a sleeping job had a timeout of {WALL_SECONDS} s")


async def output_mb(sandbox: Sandbox, limits: Limits) -> Finding:
    """Check that a job ends that writes too much."""
    asked = 4 * limits.output_mb
    result = await attempt(sandbox, probe.output, asked)
    return _check_limit(
        result, "output_mb", f"the job wrote up to {asked} MiB, of {limits.output_mb} MiB allowed"
    )


async def disk_mb(sandbox: Sandbox, limits: Limits) -> Finding:
    """Check that each folder that a job can write to takes no more bytes than its limit."""
    sizes = []
    holds = True
    for folder in WRITABLE_FOLDERS:
        facts = await answer(sandbox, probe.fill, folder, 4 * limits.disk_mb)
        sizes.append(f"{folder} {facts['bytes'] / MIB:.1f} MiB")
        holds = holds and facts["refused"] == "ENOSPC" and facts["bytes"] <= limits.disk_mb * MIB
    return make_finding(holds, f"{', '.join(sizes)}, of {limits.disk_mb} MiB allowed in each")


async def inodes(sandbox: Sandbox, limits: Limits) -> Finding:
    """Check that each folder that a job can write to takes no more files, even empty ones, than its limit."""
    counts = []
    holds = True
    for folder in WRITABLE_FOLDERS:
        facts = await answer(sandbox, probe.inodes, folder, 2 * limits.inodes)
        counts.append(f"{folder} {facts['files']} files")
        holds = holds and facts["refused"] == "ENOSPC" and facts["files"] <= limits.inodes
    return make_finding(holds, f"{', '.join(counts)}, of {limits.inodes} allowed in each")


async def file_mb(sandbox: Sandbox, limits: Limits) -> Finding:
    """Check that a file does not grow beyond its limit, which has to be less than `disk_mb` here."""
    facts = await answer(sandbox, probe.file_size, f"{TEMPORARY_FOLDER}/large", limits.disk_mb)
    found = f"a file of {facts['bytes'] / MIB:.1f} MiB, of {limits.file_mb} MiB allowed"
    return make_finding(facts["refused"] == "EFBIG" and facts["bytes"] <= limits.file_mb * MIB, found)


async def open_files(sandbox: Sandbox, limits: Limits) -> Finding:
    """Check that a job cannot open more files than its limit."""
    facts = await answer(sandbox, probe.open_files, 2 * limits.open_files)
    found = f"{facts['files']} files next to the standard streams, of {limits.open_files} allowed"
    return make_finding(facts["refused"] == "EMFILE" and facts["files"] <= limits.open_files, found)


def _check_limit(result: ExecResult, limit: str, found: str) -> Finding:
    return make_finding(result.limit == limit, f"{found}: {describe_end(result)}")
