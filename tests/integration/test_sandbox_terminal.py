"""A person's terminal inside a sandbox: keys in, screen out, size, interrupts, end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from harness.core.errors import SandboxError
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.sandbox import Sandbox
from harness.sandbox.streaming import Terminal

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]
SECONDS = 30.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    async with Sandbox.open("python", terminals=True, backend=backend) as sandbox:
        yield sandbox


class Screen:
    """The output of a terminal, which a test reads until a text appears."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.text = ""

    async def until(self, wanted: str) -> None:
        async with asyncio.timeout(SECONDS):
            while wanted not in self.text:
                data = await self.terminal.read()
                assert data, f"it ended without {wanted!r}: {self.text!r}"
                self.text += data.decode("utf-8", "replace")

    async def rest(self) -> str:
        async with asyncio.timeout(SECONDS):
            while data := await self.terminal.read():
                self.text += data.decode("utf-8", "replace")
        return self.text


@contextlib.asynccontextmanager
async def shell(sandbox: Sandbox, script: str, timeout: float = SECONDS) -> AsyncIterator[Screen]:
    command = ("/bin/sh", "-c", script)
    async with sandbox.terminal(command, rows=24, columns=80, timeout=timeout) as terminal:
        yield Screen(terminal)


async def test_the_program_is_on_a_terminal(sandbox: Sandbox) -> None:
    async with shell(sandbox, "tty; test -t 0 && test -t 1 && test -t 2 && echo all three") as screen:
        assert "all three" in await screen.rest()


async def test_typed_keys_reach_the_program(sandbox: Sandbox) -> None:
    async with shell(sandbox, 'read line; echo "got <$line>"') as screen:
        screen.terminal.type(b"some words\n")
        assert "got <some words>" in await screen.rest()


async def test_the_terminal_has_the_size_with_which_it_was_opened(sandbox: Sandbox) -> None:
    async with shell(sandbox, "stty size") as screen:
        assert (await screen.rest()).split() == ["24", "80"]


async def test_a_change_of_size_is_passed_on(sandbox: Sandbox) -> None:
    async with shell(
        sandbox, "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.05; done"
    ) as screen:
        await screen.until("ready")
        screen.terminal.resize(50, 132)
        assert "50 132" in await screen.rest()


async def test_control_c_interrupts_the_foreground_program(sandbox: Sandbox) -> None:
    async with shell(
        sandbox, "trap 'echo interrupted; exit 3' INT; echo ready; while :; do sleep 0.05; done"
    ) as screen:
        await screen.until("ready")
        screen.terminal.type(b"\x03")
        assert "interrupted" in await screen.rest()
        assert (await screen.terminal.end()).exit_code == 3


async def test_the_exit_code_of_the_program_is_returned(sandbox: Sandbox) -> None:
    async with shell(sandbox, "exit 7") as screen:
        end = await screen.terminal.end()
        assert (end.exit_code, end.ended) == (7, "exited")


async def test_the_wall_limit_ends_the_program(sandbox: Sandbox) -> None:
    async with shell(sandbox, "trap '' HUP INT TERM; while :; do sleep 0.05; done", timeout=0.3) as screen:
        assert (await screen.terminal.end()).ended == "wall"


async def test_no_output_is_lost_however_slowly_it_is_read(sandbox: Sandbox) -> None:
    """The output is longer than the guest sends before it waits for the host."""
    async with shell(sandbox, "stty -opost; seq 200000; echo END") as screen:
        await asyncio.sleep(0.3)
        assert await screen.rest() == "".join(f"{number}\n" for number in range(1, 200_001)) + "END\n"


async def test_a_flood_that_nobody_reads_stops_no_other_job(sandbox: Sandbox) -> None:
    async with sandbox.terminal(("/usr/bin/yes",), rows=24, columns=80, timeout=SECONDS) as terminal:
        await terminal.read()
        result = await sandbox.exec(["echo", "still there"], timeout=SECONDS)
        assert bytes(result.stdout.data) == b"still there\n"


async def test_keys_that_nobody_reads_stop_no_other_job(sandbox: Sandbox) -> None:
    async with shell(sandbox, "stty -icanon; sleep 60") as screen:
        for _ in range(20):
            screen.terminal.type(b"x" * 65536)
        result = await sandbox.exec(["echo", "still there"], timeout=SECONDS)
        assert bytes(result.stdout.data) == b"still there\n"


async def test_leaving_the_block_ends_the_program(sandbox: Sandbox) -> None:
    async with shell(sandbox, "trap '' HUP; echo ready; while :; do sleep 0.05; done") as screen:
        await screen.until("ready")
    # The process has been killed by now, but may not have ended yet.
    script = "while grep -q [e]cho.ready /proc/[0-9]*/cmdline 2> /dev/null; do sleep 0.01; done"
    assert (await sandbox.exec(["sh", "-c", script], timeout=SECONDS)).exit_code == 0


async def test_a_missing_program_ends_at_once(sandbox: Sandbox) -> None:
    async with sandbox.terminal(("/no/such",), rows=24, columns=80, timeout=SECONDS) as terminal:
        assert (await terminal.end()).exit_code == 127


async def test_a_lost_sandbox_is_reported(backend: DockerBackend) -> None:
    async with (
        Sandbox.open("python", terminals=True, backend=backend, deadline_seconds=1.0) as short_lived,
        shell(short_lived, "sleep 60") as screen,
    ):
        with pytest.raises(SandboxError):
            await screen.terminal.end()
