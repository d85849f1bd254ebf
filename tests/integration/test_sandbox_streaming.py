"""The output of a command as it comes."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from harness.core.errors import SandboxError, UsageError
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.limits import MIB, Limits
from harness.sandbox.results import WINDOW_BYTES
from harness.sandbox.sandbox import Sandbox
from harness.sandbox.selfcheck.cases import OTHERS
from harness.sandbox.streaming import OutputChunk

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    limits = Limits(cpu_seconds=60, wall_seconds=90, output_mb=16)
    async with Sandbox.open("python", limits=limits, backend=backend) as sandbox:
        yield sandbox


class Pieces:
    """The bytes of both streams, and an event for each text that a test waits for."""

    def __init__(self, wanted: bytes = b"") -> None:
        self.streams = {"stdout": bytearray(), "stderr": bytearray()}
        self.wanted = wanted
        self.found = asyncio.Event()

    def add(self, stream: str, data: bytes) -> None:
        self.streams[stream] += data
        if self.wanted in self.streams["stdout"]:
            self.found.set()


async def test_output_comes_before_the_command_ends(sandbox: Sandbox) -> None:
    pieces = Pieces(b"first\n")
    script = "echo first; until test -e /tmp/go; do sleep 0.02; done; echo last >&2"
    running = asyncio.create_task(sandbox.exec(["sh", "-c", script], on_output=pieces.add))
    await pieces.found.wait()
    assert not running.done()
    await sandbox.write_file("/tmp/go", b"")
    result = await running
    assert (result.stdout.data, result.stderr.data) == (b"first\n", b"last\n")
    assert pieces.streams == {"stdout": b"first\n", "stderr": b"last\n"}


async def test_all_bytes_come_although_the_result_keeps_a_few(sandbox: Sandbox) -> None:
    pieces = Pieces(b"never")
    program = "import os\nfor n in range(2048): os.write(1, bytes([n % 256]) * 4096)"
    result = await sandbox.exec(["python3", "-c", program], keep_bytes=10, on_output=pieces.add)
    expected = b"".join(bytes([n % 256]) * 4096 for n in range(2048))
    received = hashlib.sha256(pieces.streams["stdout"]).digest()
    assert received == hashlib.sha256(expected).digest()
    assert (result.stdout.total, result.stdout.truncated, len(expected)) == (8 * MIB, True, 8 * MIB)


async def test_a_limit_on_output_still_ends_the_command(sandbox: Sandbox) -> None:
    pieces = Pieces(b"never")
    result = await sandbox.exec(["sh", "-c", "cat /dev/zero"], on_output=pieces.add)
    assert result.limit == "output_mb"
    assert len(pieces.streams["stdout"]) == result.stdout.total


async def test_a_function_that_fails_ends_the_command_and_not_the_sandbox(sandbox: Sandbox) -> None:
    def fail(_stream: str, _data: bytes) -> None:
        raise KeyError("of the caller")

    with pytest.raises(KeyError, match="of the caller"):
        await sandbox.exec(["sh", "-c", "echo; exec sleep 600"], on_output=fail)
    assert str((await sandbox.exec(["echo", "alive"])).stdout) == "alive\n"


async def test_a_stream_yields_output_before_the_command_ends(sandbox: Sandbox) -> None:
    script = "echo first; until test -e /tmp/on; do sleep 0.02; done; echo last >&2; exit 3"
    async with sandbox.stream(["sh", "-c", script]) as stream:
        assert await stream.read() == OutputChunk("stdout", b"first\n")
        with pytest.raises(UsageError, match="the command has not ended"):
            _ = stream.result
        await sandbox.write_file("/tmp/on", b"")
        rest = [chunk async for chunk in stream]
        assert rest == [OutputChunk("stderr", b"last\n")]
        assert await stream.read() is None
    result = stream.result
    assert (result.exit_code, result.stdout.data, result.stderr.data) == (3, b"first\n", b"last\n")


async def test_a_stream_yields_every_byte_whatever_the_result_keeps(sandbox: Sandbox) -> None:
    program = "import os\nfor n in range(2048): os.write(1, bytes([n % 256]) * 4096)"
    received = hashlib.sha256()
    async with sandbox.stream(["python3", "-c", program], keep_bytes=0) as stream:
        async for chunk in stream:
            received.update(chunk.data)
    expected = b"".join(bytes([n % 256]) * 4096 for n in range(2048))
    assert received.digest() == hashlib.sha256(expected).digest()
    assert (stream.result.stdout.total, stream.result.stdout.head) == (8 * MIB, b"")


async def test_a_reader_who_takes_nothing_makes_the_command_wait(sandbox: Sandbox) -> None:
    # The program counts what it could write, in a file, until its writes have waited for a while.
    program = (
        "import os, select\nwritten = 0\n"
        "while select.select([], [1], [], 1)[1]:\n    written += os.write(1, bytes(4096))\n"
        "open('/tmp/written', 'w').write(str(written))\n"
    )
    async with sandbox.stream(["python3", "-c", program]) as stream:
        await sandbox.exec(["sh", "-c", "until test -s /tmp/written; do sleep 0.05; done"])
        written = int(await sandbox.read_file("/tmp/written"))
        received = sum([len(chunk.data) async for chunk in stream])
    assert received == written
    # The window, a piece, and the pipe.
    assert written <= WINDOW_BYTES + 3 * 65536


async def test_a_slow_reader_gets_all_of_it(sandbox: Sandbox) -> None:
    received = 0
    async with sandbox.stream(["head", "-c", "3000000", "/dev/zero"]) as stream:
        async for chunk in stream:
            await asyncio.sleep(0.002)
            received += len(chunk.data)
    assert (received, stream.result.exit_code) == (3_000_000, 0)


@pytest.mark.parametrize("command", ["echo started; exec sleep 600", "exec cat /dev/zero"])
async def test_leaving_a_stream_early_ends_the_command(sandbox: Sandbox, command: str) -> None:
    async with sandbox.stream(["sh", "-c", command]) as stream:
        async for _chunk in stream:
            break
    listed = await sandbox.exec(["python3", "-c", OTHERS])
    assert (str(listed.stdout), stream.result.exit_code, sandbox.clean) == ("", -9, True)


async def test_leaving_a_stream_before_any_output_ends_the_command(sandbox: Sandbox) -> None:
    async with sandbox.stream(["sleep", "600"]) as stream:
        pass
    listed = await sandbox.exec(["python3", "-c", OTHERS])
    result = stream.result
    assert (str(listed.stdout), result.exit_code, result.limit) == ("", -9, None)


async def test_an_error_of_the_block_ends_the_command_and_is_raised(sandbox: Sandbox) -> None:
    async def fail() -> None:
        async with sandbox.stream(["sh", "-c", "echo; exec sleep 600"]) as stream:
            async for _chunk in stream:
                raise KeyError("of the caller")

    with pytest.raises(KeyError, match="of the caller"):
        await fail()
    assert str((await sandbox.exec(["python3", "-c", OTHERS])).stdout) == ""


async def test_a_limit_ends_a_stream_and_is_in_its_result(sandbox: Sandbox) -> None:
    async with sandbox.stream(["sh", "-c", "echo early; exec sleep 600"], timeout=1) as stream:
        received = [chunk.data async for chunk in stream]
    assert (received, stream.result.limit) == ([b"early\n"], "wall_seconds")


async def test_two_streams_of_one_sandbox_do_not_mix(sandbox: Sandbox) -> None:
    async def collect(letter: str) -> bytes:
        async with sandbox.stream(["sh", "-c", f"yes {letter} | head -c 400000"]) as stream:
            return b"".join([chunk.data async for chunk in stream])

    received = await asyncio.gather(collect("a"), collect("b"))
    assert list(received) == [b"a\n" * 200_000, b"b\n" * 200_000]


@pytest.mark.parametrize("argv", ["echo", [], ["a\0b"]])
async def test_a_stream_refuses_what_exec_refuses(sandbox: Sandbox, argv: list[str]) -> None:
    with pytest.raises(UsageError, match="a command is a non-empty list of strings"):
        sandbox.stream(argv)


async def test_a_lost_sandbox_is_raised_by_its_stream(backend: DockerBackend) -> None:
    async def lose() -> None:
        async with (
            Sandbox.open("python", backend=backend) as sandbox,
            sandbox.stream(["sh", "-c", "echo; exec sleep 600"]) as stream,
        ):
            async for _chunk in stream:
                await asyncio.to_thread(backend.destroy, sandbox.container_id)

    with pytest.raises(SandboxError):
        await lose()


async def test_a_cancelled_stream_ends_its_command(sandbox: Sandbox) -> None:
    started = asyncio.Event()

    async def read() -> None:
        async with sandbox.stream(["sh", "-c", "echo; exec sleep 600"]) as stream:
            async for _chunk in stream:
                started.set()

    reading = asyncio.create_task(read())
    await started.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert str((await sandbox.exec(["python3", "-c", OTHERS])).stdout) == ""


async def test_a_cancelled_command_whose_output_is_sent_is_killed(sandbox: Sandbox) -> None:
    pieces = Pieces(b"started")
    command = ["sh", "-c", "echo started; exec sleep 600"]
    running = asyncio.create_task(sandbox.exec(command, on_output=pieces.add))
    await pieces.found.wait()
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    listed = await sandbox.exec(["python3", "-c", OTHERS])
    assert str(listed.stdout) == ""
