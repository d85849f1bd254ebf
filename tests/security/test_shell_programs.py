"""Commands of the containment suite in a root shell: calls end in time, and the shell goes on."""

from __future__ import annotations

import base64
import contextlib

import pytest
from case_checks import check_together
from docker import APIClient
from effort import one_in_two
from security.hostile_programs import COMMANDS, LIMITS, TOOLS

from harness.core.errors import SandboxError
from harness.environments.os.root_sandbox import RootSandbox
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.failures import SandboxLimitReached

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

CALL_SECONDS = 0.5
# The programs that run side by side. Many wait for the end of their call.
LANES = 2
# Seconds for an interrupt, the end of all started processes and of the shell, on a busy machine.


class Grounds:
    """The sandbox of all tests, replaced if a program has ended it."""

    def __init__(self, client: APIClient) -> None:
        self._client = client
        self._stack = contextlib.AsyncExitStack()
        self._sandbox: RootSandbox | None = None

    async def get(self) -> RootSandbox:
        if self._sandbox is None:
            # Other tests write to the engine's disk too, and one of the programs stops the guest, whose files
            # nobody can count then.
            limits = LIMITS.model_copy(update={"disk_mb": 64})
            opening = RootSandbox.open("os", backend=DockerBackend(self._client), limits=limits)
            self._sandbox = await self._stack.enter_async_context(opening)
            await self._sandbox.open_shell()
        return self._sandbox

    async def drop(self) -> None:
        self._sandbox = None
        with contextlib.suppress(SandboxError):
            await self._stack.aclose()
        self._stack = contextlib.AsyncExitStack()


@pytest.mark.timeout(600)
async def test_no_hostile_program_costs_the_shell(client: APIClient) -> None:
    free = [Grounds(client) for _ in range(LANES)]

    async def check(name: str) -> None:
        grounds = free.pop()
        try:
            await require_shell(grounds, name)
        finally:
            free.append(grounds)

    try:
        await check_together(one_in_two([*COMMANDS], 0), check, at_once=LANES)
    finally:
        for grounds in free:
            await grounds.drop()


async def require_shell(grounds: Grounds, name: str) -> None:
    """Require that the shell goes on after a hostile program, or that its sandbox is over its limit."""
    program = base64.b64encode((TOOLS + COMMANDS[name].program).encode()).decode()
    sandbox = await grounds.get()
    try:
        await sandbox.run(
            f'cd /tmp && python3 -c "$(echo {program} | base64 -d)"',
            timeout=COMMANDS[name].seconds or CALL_SECONDS,
        )
        following = await sandbox.run("echo alive", timeout=60)
        await sandbox.end_all()
    except SandboxLimitReached:
        await grounds.drop()  # The program used up the sandbox. The error reports that, and blames the agent.
        return
    except BaseException:
        await grounds.drop()
        raise
    # Its processes may still write.
    assert b"alive\n" in following.output.data
    if COMMANDS[name].spoils or b"tmp" in following.output.data:
        await grounds.drop()
        return
    await sandbox.run("rm -rf /tmp/* /tmp/.[!.]* /dev/shm/*", timeout=60)
