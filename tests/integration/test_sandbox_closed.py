"""Calls on a sandbox after its block has ended."""

from __future__ import annotations

import asyncio

import pytest

from harness import Sandbox
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.failures import SandboxClosed

# Seconds, less than a call on a lost sandbox waits for an answer.
pytestmark = pytest.mark.timeout(30)


async def test_a_command_that_runs_when_the_block_is_left_is_ended_and_later_calls_are_refused(
    backend: DockerBackend,
) -> None:
    async with Sandbox.open(backend=backend) as sandbox:
        command = asyncio.create_task(sandbox.exec(["sleep", "600"], timeout=600))
        await sandbox.exec(["true"])
    for call in (
        command,
        sandbox.exec(["true"]),
        sandbox.write_file("file", b"data"),
        sandbox.read_file("file"),
    ):
        with pytest.raises(SandboxClosed):
            await call


@pytest.mark.usefixtures("docker_only")
async def test_a_large_request_that_is_sent_when_the_block_is_left_is_ended(backend: DockerBackend) -> None:
    async with Sandbox.open(backend=backend) as sandbox:
        # A stopped guest reads nothing, so the request waits for room in the stream.
        backend.client.pause(sandbox.container_id)
        request = asyncio.create_task(sandbox.write_file("file", bytes(32 << 20)))
        await asyncio.sleep(0.1)
    with pytest.raises(SandboxClosed):
        await request


async def test_a_terminal_whose_sandbox_is_closed_ends(backend: DockerBackend) -> None:
    async with Sandbox.open(backend=backend, terminals=True) as sandbox:
        opened = sandbox.terminal(rows=24, columns=80, timeout=600)
        terminal = await opened.__aenter__()
    with pytest.raises(SandboxClosed):
        await terminal.end()
