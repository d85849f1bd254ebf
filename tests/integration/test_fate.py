"""The engine reports the end of a sandbox, and the report becomes the right error."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest
from docker import APIClient

from harness.errors import SandboxError
from harness.sandbox import sandbox as sandbox_module
from harness.sandbox.backends.base import Cause, Fate
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.backends.docker.fate import find_fate, is_disturbed
from harness.sandbox.failures import SandboxOutOfMemory, SandboxUnresponsive
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
async def test_an_end_that_somebody_outside_causes_is_from_outside(
    client: APIClient, backend: DockerBackend, end: Callable[[APIClient, str], None]
) -> None:
    async with Sandbox.open("python", backend=backend) as sandbox:
        sandbox.agent_acted = True
        await asyncio.to_thread(end, client, sandbox.container_id)
        fate = await asyncio.to_thread(find_fate, client, sandbox.container_id)
        assert fate.cause is Cause.OUTSIDE
        assert (await error_of(sandbox)).outside


async def test_an_end_that_the_guest_causes_is_from_inside(client: APIClient, backend: DockerBackend) -> None:
    async with Sandbox.open("python", backend=backend, deadline_seconds=0.1) as sandbox:
        sandbox.agent_acted = True
        error = await error_of(sandbox)
        assert (error.outside, error.acted_in) == (False, True)
        assert find_fate(client, sandbox.container_id) == Fate(Cause.INSIDE, 3)


async def test_a_guest_that_is_killed_for_memory_is_out_of_memory(backend: DockerBackend) -> None:
    limits = Limits(memory_mb=64, disk_mb=64)
    async with Sandbox.open("python", backend=backend, limits=limits) as sandbox:
        with pytest.raises(SandboxOutOfMemory):
            # PID 1 allocates more memory than there is.
            await sandbox.write_file("file", bytes(60 << 20))


async def test_a_stream_that_was_closed_from_outside_is_no_fault_of_the_guest(
    client: APIClient, backend: DockerBackend
) -> None:
    async with Sandbox.open("python", backend=backend) as sandbox:
        sandbox.agent_acted = True
        transport = sandbox._connection._transport
        assert transport is not None
        transport.get_extra_info("socket").shutdown(socket.SHUT_WR)
        assert (await error_of(sandbox)).outside
        assert find_fate(client, sandbox.container_id) == Fate(Cause.OUTSIDE, 0)


async def test_a_running_sandbox_is_distinguished_from_a_paused_one(
    client: APIClient, backend: DockerBackend
) -> None:
    async with Sandbox.open("python", backend=backend) as sandbox:
        assert not is_disturbed(client, sandbox.container_id)
        client.pause(sandbox.container_id)
        assert is_disturbed(client, sandbox.container_id)


@pytest.mark.parametrize("acted", [False, True])
async def test_the_error_of_a_guest_reports_whether_an_agent_acted(
    backend: DockerBackend, acted: bool
) -> None:
    async with Sandbox.open("python", backend=backend) as sandbox:
        sandbox.agent_acted = acted
        with pytest.raises(SandboxError, match="the guest failed at 'no such verb'") as raised:
            await sandbox._request({"verb": "no such verb"}, seconds=10)
        assert (raised.value.outside, raised.value.acted_in) == (False, acted)
        # The guest continues.
        assert (await sandbox.exec(["true"])).exit_code == 0


async def test_a_silent_guest_is_its_own_cause(
    backend: DockerBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Sandbox.open("python", backend=backend) as sandbox:
        sandbox.agent_acted = True
        # The host waits a tenth of a second, and the guest would answer after 60.
        monkeypatch.setattr(sandbox_module, "GRACE_SECONDS", -59.9)
        with pytest.raises(SandboxUnresponsive) as raised:
            await sandbox.exec(["sleep", "60"], timeout=60)
        assert (raised.value.outside, raised.value.acted_in) == (False, True)
        assert not sandbox.clean


@pytest.mark.parametrize("answer", [{}, {"ended": []}, {"stdout": 1}, {"left": ["x"]}])
async def test_an_answer_that_cannot_be_read_is_a_failure_of_the_sandbox(
    backend: DockerBackend, monkeypatch: pytest.MonkeyPatch, answer: dict[str, object]
) -> None:
    async with Sandbox.open("python", backend=backend) as sandbox:
        sandbox.agent_acted = True

        async def answered(*_arguments: object, **_options: object) -> tuple[dict[str, object], bytes]:
            return answer, b""

        monkeypatch.setattr(sandbox, "_request", answered)
        error = await error_of(sandbox)
        assert (error.outside, error.acted_in) == (False, True)
        assert "cannot be read" in error.message
