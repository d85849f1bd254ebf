"""The engine reports the end of a sandbox, and the report becomes the right error."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable
from unittest.mock import AsyncMock

import pytest
from docker import APIClient

from harness.core.errors import SandboxError
from harness.sandbox import sandbox as sandbox_module
from harness.sandbox.backends.base import Cause, Fate
from harness.sandbox.backends.docker import fate
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.backends.docker.fate import explain_silence, find_fate, keeps_busy
from harness.sandbox.failures import SandboxOutOfMemory, SandboxUnresponsive
from harness.sandbox.guest.frames import DEADLINE_CODE
from harness.sandbox.limits import Limits
from harness.sandbox.sandbox import Sandbox


async def error_of(sandbox: Sandbox) -> SandboxError:
    """Return the error of a lost sandbox."""
    with pytest.raises(SandboxError) as raised:
        await sandbox.exec(["sleep", "600"])
    return raised.value


def stop(client: APIClient, container_id: str) -> None:
    client.stop(container_id)


def kill(client: APIClient, container_id: str) -> None:
    client.kill(container_id)


def remove(client: APIClient, container_id: str) -> None:
    client.remove_container(container_id, force=True)


@pytest.mark.parametrize("end", [stop, kill, remove])
@pytest.mark.usefixtures("docker_only")
async def test_an_end_that_somebody_outside_causes_is_from_outside(
    client: APIClient, backend: DockerBackend, end: Callable[[APIClient, str], None]
) -> None:
    async with Sandbox.open("python", backend=backend) as sandbox:
        sandbox.agent_acted = True
        await asyncio.to_thread(end, client, sandbox.container_id)
        found = await asyncio.to_thread(find_fate, client, sandbox.container_id)
        assert found.cause is Cause.OUTSIDE
        assert (await error_of(sandbox)).outside


async def test_an_end_that_the_guest_causes_is_from_inside(backend: DockerBackend) -> None:
    async with Sandbox.open("python", backend=backend) as sandbox:
        sandbox.agent_acted = True
        transport = sandbox._connection._transport
        assert transport is not None
        # PID 1 fails at a frame that is broken.
        transport.write(b"\xff" * 16)
        error = await error_of(sandbox)
        assert (error.outside, error.acted_in) == (False, True)
        assert backend.find_fate(sandbox.container_id) == Fate(Cause.INSIDE, 1)


async def test_the_deadline_of_a_sandbox_is_no_limit_of_an_agent(backend: DockerBackend) -> None:
    async with Sandbox.open("python", backend=backend, deadline_seconds=0.1) as sandbox:
        sandbox.agent_acted = True
        assert (await error_of(sandbox)).outside
        assert backend.find_fate(sandbox.container_id) == Fate(Cause.OUTSIDE, DEADLINE_CODE)


@pytest.mark.usefixtures("docker_only")
async def test_a_guest_that_the_machine_kills_is_no_fault_of_an_agent(
    client: APIClient, backend: DockerBackend
) -> None:
    """The kernel kills like this if the machine, and not the sandbox, has too little memory."""
    async with Sandbox.open("python", backend=backend) as sandbox:
        sandbox.agent_acted = True
        pid = client.inspect_container(sandbox.container_id)["State"]["Pid"]
        try:
            os.kill(pid, signal.SIGKILL)
        except (PermissionError, ProcessLookupError):
            pytest.skip("the processes of containers are out of reach")
        assert (await error_of(sandbox)).outside
        assert backend.find_fate(sandbox.container_id) == Fate(Cause.OUTSIDE, 137)


async def test_a_guest_that_is_killed_for_memory_is_out_of_memory(backend: DockerBackend) -> None:
    limits = Limits(memory_mb=64, disk_mb=64)
    async with Sandbox.open("python", backend=backend, limits=limits) as sandbox:
        with pytest.raises(SandboxOutOfMemory):
            # PID 1 allocates more memory than there is.
            await sandbox.write_file("file", bytes(60 << 20))


async def test_a_stream_that_was_closed_from_outside_is_no_fault_of_the_guest(backend: DockerBackend) -> None:
    async with Sandbox.open("python", backend=backend) as sandbox:
        sandbox.agent_acted = True
        transport = sandbox._connection._transport
        assert transport is not None
        transport.get_extra_info("socket").shutdown(socket.SHUT_WR)
        assert (await error_of(sandbox)).outside
        assert backend.find_fate(sandbox.container_id) == Fate(Cause.OUTSIDE, 0)


@pytest.mark.usefixtures("docker_only")
async def test_a_sandbox_is_silent_from_inside_only_while_its_programs_keep_it_busy(
    client: APIClient, backend: DockerBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Other tests may keep the machine busy.
    monkeypatch.setattr(fate, "BUSY_SHARE", 0.02)
    async with Sandbox.open("python", backend=backend) as sandbox:

        async def wait_for(cause: Cause) -> None:
            """Wait until the last moments of the sandbox have this cause. The test's limit ends the wait."""
            while await asyncio.to_thread(explain_silence, client, sandbox.container_id) is not cause:
                pass

        await wait_for(Cause.OUTSIDE)
        job = asyncio.create_task(sandbox.exec(["sh", "-c", "while :; do :; done"], timeout=60))
        await wait_for(Cause.INSIDE)
        client.pause(sandbox.container_id)
        await wait_for(Cause.OUTSIDE)
        client.unpause(sandbox.container_id)
        job.cancel()
        await asyncio.gather(job, return_exceptions=True)


def test_programs_that_fill_the_memory_keep_a_sandbox_busy() -> None:
    moments = {"read": "2026-11-27T07:21:04.625734808Z", "preread": "2026-11-27T07:21:03.622257244Z"}
    idle = {"cpu_usage": {"total_usage": 58_281_979}}
    stats = {**moments, "cpu_stats": idle, "precpu_stats": idle}
    memory = {"usage": 950, "limit": 1000}
    assert keeps_busy({**stats, "memory_stats": {**memory, "stats": {"total_cache": 10}}}, 1.0)
    assert keeps_busy({**stats, "memory_stats": {**memory, "stats": {"file": 10}}}, 1.0)
    assert not keeps_busy({**stats, "memory_stats": {**memory, "stats": {"total_cache": 800}}}, 1.0)
    assert not keeps_busy(stats, 1.0)
    assert not keeps_busy({}, 1.0)


async def test_the_error_of_a_guest_reports_whether_an_agent_acted(backend: DockerBackend) -> None:
    async with Sandbox.open("python", backend=backend) as sandbox:
        for acted in (False, True):
            sandbox.agent_acted = acted
            with pytest.raises(SandboxError, match="the guest failed at 'no such verb'") as raised:
                await sandbox._request({"verb": "no such verb"}, seconds=10)
            assert (raised.value.outside, raised.value.acted_in) == (False, acted)
        # The guest continues.
        assert (await sandbox.exec(["true"])).exit_code == 0


@pytest.mark.parametrize(("is_busy", "outside"), [(True, False), (False, True)])
async def test_the_programs_of_a_silent_sandbox_are_its_cause_if_they_are_busy(
    backend: DockerBackend, monkeypatch: pytest.MonkeyPatch, is_busy: bool, outside: bool
) -> None:
    monkeypatch.setattr(fate, "BUSY_SHARE", 0.02)
    async with Sandbox.open("python", backend=backend) as sandbox:
        sandbox.agent_acted = True
        # The host waits a tenth of a second, and the guest would answer after 60.
        monkeypatch.setattr(sandbox_module, "GRACE_SECONDS", -59.9)
        script = "while :; do :; done" if is_busy else "sleep 60"
        with pytest.raises(SandboxUnresponsive) as raised:
            await sandbox.exec(["sh", "-c", script], timeout=60)
        assert (raised.value.outside, raised.value.acted_in) == (outside, True)
        assert not sandbox.clean


async def test_an_answer_that_comes_while_its_delay_is_explained_counts(
    backend: DockerBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Sandbox.open("python", backend=backend) as sandbox:
        explain = backend.find_fate

        explained = threading.Event()

        def explain_later(container_id: str, *, silent: bool = False) -> Fate:
            explained.wait()
            return explain(container_id, silent=silent)

        monkeypatch.setattr(backend, "find_fate", explain_later)
        monkeypatch.setattr(sandbox_module, "GRACE_SECONDS", -59.9)
        try:
            result = await sandbox.exec(["sh", "-c", "sleep 1; echo late"], timeout=60)
        finally:
            explained.set()
        assert (str(result.stdout), sandbox.clean) == ("late\n", True)


async def test_an_answer_that_cannot_be_read_is_a_failure_of_the_sandbox(
    backend: DockerBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[dict[str, object]] = [{}, {"ended": []}, {"stdout": 1}, {"left": ["x"]}]
    async with Sandbox.open("python", backend=backend) as sandbox:
        sandbox.agent_acted = True
        for answer in answers:
            monkeypatch.setattr(sandbox, "_request", AsyncMock(return_value=(answer, b"")))
            error = await error_of(sandbox)
            assert (error.outside, error.acted_in) == (False, True), answer
            assert "cannot be read" in error.message, answer
