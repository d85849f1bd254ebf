"""Connections from a port in a sandbox to the host: bytes, ends, slow readers, many and hostile clients."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from harness.core.errors import SandboxError, UsageError
from harness.environments.os.root_sandbox import RootSandbox
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.backends.hardening import MOST_SOCKETS
from harness.sandbox.limits import MIB, Limits
from harness.sandbox.relay import BUFFER_BYTES, WINDOW_BYTES, RelayListener
from harness.sandbox.results import ExecResult
from harness.sandbox.sandbox import Sandbox

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]
SECONDS = 60.0
LIMITS = Limits(cpu_seconds=60, wall_seconds=SECONDS, open_files=2048)
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
# The start of each program: a connection, and the bytes until the other side's end.
CLIENT = """
import hashlib, os, socket, struct, sys, threading, time
PORT = int(sys.argv[1])
def connect():
    return socket.create_connection(("127.0.0.1", PORT))
def rest(link):
    data = bytearray()
    while piece := link.recv(65536):
        data += piece
    return bytes(data)
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    async with Sandbox.open("python", relay=True, limits=LIMITS, backend=backend) as sandbox:
        yield sandbox


class Server:
    """Serves the sockets of a relay by a handler, as asyncio's streams."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.served: list[asyncio.Task[None]] = []
        self.now = self.most = 0
        self._arrivals = asyncio.Semaphore(0)

    def accept(self, link: socket.socket) -> None:
        self.served.append(asyncio.ensure_future(self._serve(link)))

    async def wait_for(self, number: int) -> None:
        """Wait until that many further connections have arrived."""
        for _ in range(number):
            await self._arrivals.acquire()

    async def _serve(self, link: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=link)
        self.now += 1
        self.most = max(self.most, self.now)
        self._arrivals.release()
        try:
            with contextlib.suppress(ConnectionError):
                await self._handler(reader, writer)
        finally:
            self.now -= 1
            writer.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


async def answer_digest(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer with the digest of all bytes, once the client has ended."""
    writer.write(hashlib.sha256(await reader.read()).hexdigest().encode())
    await writer.drain()


@contextlib.asynccontextmanager
async def relay(
    sandbox: Sandbox, handler: Handler = echo, **options: Any
) -> AsyncIterator[tuple[RelayListener, Server]]:
    server = Server(handler)
    async with asyncio.timeout(SECONDS):
        async with sandbox.relay(server.accept, **options) as listener:
            yield listener, server
        await asyncio.gather(*server.served)


async def run(sandbox: Sandbox, port: int, program: str) -> ExecResult:
    return await sandbox.exec(["python3", "-c", CLIENT + program, str(port)], timeout=SECONDS)


async def output(sandbox: Sandbox, port: int, program: str) -> str:
    result = await run(sandbox, port, program)
    assert (result.exit_code, str(result.stderr)) == (0, "")
    return str(result.stdout).strip()


async def is_refused(sandbox: Sandbox, port: int) -> bool:
    return "ConnectionRefusedError" in str((await run(sandbox, port, "connect()")).stderr)


async def test_bytes_pass_both_ways_and_each_direction_ends_separately(sandbox: Sandbox) -> None:
    program = """
link = connect()
link.sendall(bytes(range(256)))
link.shutdown(socket.SHUT_WR)
print(rest(link).decode() == hashlib.sha256(bytes(range(256))).hexdigest())
"""
    async with relay(sandbox, answer_digest) as (listener, _):
        assert await output(sandbox, listener.port, program) == "True"


async def test_large_bodies_pass_both_ways_at_once(sandbox: Sandbox) -> None:
    program = """
link = connect()
sent = os.urandom(6 << 20)
thread = threading.Thread(target=lambda: (link.sendall(sent), link.shutdown(socket.SHUT_WR)))
thread.start()
print(rest(link) == sent)
"""
    async with relay(sandbox) as (listener, _):
        assert await output(sandbox, listener.port, program) == "True"


async def test_a_slow_reader_on_the_host_stops_its_own_connection_alone(sandbox: Sandbox) -> None:
    go_on = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.readexactly(4) == b"slow":
            await go_on.wait()
        await answer_digest(reader, writer)

    slow = "link = connect(); link.sendall(b'slow' + bytes(4 << 20)); link.shutdown(1); print(rest(link))"
    fast = "link = connect(); link.sendall(b'fast' + bytes(4 << 20)); link.shutdown(1); print(rest(link))"
    expected = repr(hashlib.sha256(bytes(4 * MIB)).hexdigest().encode())
    async with relay(sandbox, handle) as (listener, server):
        waiting = asyncio.create_task(output(sandbox, listener.port, slow))
        assert await output(sandbox, listener.port, fast) == expected
        assert not waiting.done()
        go_on.set()
        assert await waiting == expected
        assert len(server.served) == 2


async def test_a_slow_reader_in_the_sandbox_bounds_the_bytes_under_way(sandbox: Sandbox) -> None:
    links: asyncio.Queue[socket.socket] = asyncio.Queue()
    async with sandbox.relay(links.put_nowait) as listener:
        program = "link = connect(); link.sendall(b'x'); time.sleep(600)"
        waiting = asyncio.create_task(run(sandbox, listener.port, program))
        async with asyncio.timeout(SECONDS):
            link = await links.get()
            loop = asyncio.get_running_loop()
            assert await loop.sock_recv(link, 10) == b"x"
            sent = 0
            with contextlib.suppress(TimeoutError):
                while True:
                    # Nothing more is taken once a socket stays full for this long.
                    async with asyncio.timeout(1.0):
                        await loop.sock_sendall(link, bytes(4096))
                        sent += 4096
        # The window, the buffers of the pair, and those of the two sockets in the sandbox.
        assert WINDOW_BYTES < sent < WINDOW_BYTES + 10 * BUFFER_BYTES
        assert str((await sandbox.exec(["echo", "alive"])).stdout) == "alive\n"
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
    link.close()


async def test_two_hundred_clients_at_once_complete(sandbox: Sandbox) -> None:
    program = """
links = [connect() for _ in range(200)]
for number, link in enumerate(links):
    link.sendall(str(number).encode())
    link.shutdown(socket.SHUT_WR)
print([rest(link) for link in links] == [str(number).encode() for number in range(200)])
"""
    async with relay(sandbox, max_connections=32) as (listener, server):
        assert await output(sandbox, listener.port, program) == "True"
    assert (len(server.served), server.most <= 32) == (200, True)


async def test_an_early_answer_reaches_a_client_that_still_sends(sandbox: Sandbox) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        writer.write(b"too large" * 20_000)
        await writer.drain()

    program = """
link = connect()
threading.Thread(target=lambda: [link.sendall(bytes(4096)) for _ in range(40)]).start()
print(rest(link) == b"too large" * 20_000)
"""
    async with relay(sandbox, refuse) as (listener, _):
        assert await output(sandbox, listener.port, program) == "True"


async def test_a_client_that_is_killed_ends_its_connection_on_the_host(sandbox: Sandbox) -> None:
    ended = asyncio.Event()

    async def wait_for_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.read()
        ended.set()

    async with relay(sandbox, wait_for_end) as (listener, _):
        await run(sandbox, listener.port, "link = connect(); link.sendall(b'x'); os.kill(os.getpid(), 9)")
        await ended.wait()


async def test_a_reset_ends_a_connection_and_no_other(sandbox: Sandbox) -> None:
    program = """
for _ in range(50):
    link = connect()
    link.sendall(bytes(30_000))
    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    link.close()
link = connect()
link.sendall(b"x")
print(link.recv(1))
"""
    async with relay(sandbox) as (listener, _):
        assert await output(sandbox, listener.port, program) == "b'x'"


async def test_nothing_is_left_of_a_relay_after_its_block(sandbox: Sandbox) -> None:
    program = """
link = connect()
try:
    print(rest(link))
except OSError as error:
    print(error.errno)
"""
    async with relay(sandbox) as (listener, server):
        client = asyncio.create_task(output(sandbox, listener.port, program))
        await server.wait_for(1)
    # ECONNRESET, and not an end in order, because an answer may have been cut off.
    assert await client == str(errno.ECONNRESET)
    assert await is_refused(sandbox, listener.port)
    # The kernel remembers ended connections (state 06) for a minute.
    left = await sandbox.exec(["sh", "-c", "tail -n +2 /proc/net/tcp | grep -v ' 06 '"])
    assert str(left.stdout) == ""


async def test_a_cancelled_block_closes_its_port(sandbox: Sandbox) -> None:
    opened: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def hold() -> None:
        async with sandbox.relay(lambda link: link.close()) as listener:
            opened.set_result(listener.port)
            await asyncio.sleep(600)

    holding = asyncio.create_task(hold())
    port = await opened
    holding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await holding
    assert await is_refused(sandbox, port)


async def test_an_error_of_the_block_is_raised_after_the_port_is_closed(sandbox: Sandbox) -> None:
    with pytest.raises(KeyError):
        async with sandbox.relay(lambda link: link.close()) as listener:
            raise KeyError
    assert await is_refused(sandbox, listener.port)


async def test_a_caller_that_fails_to_accept_loses_that_connection_alone(sandbox: Sandbox) -> None:
    errors: list[object] = []
    server = Server(echo)

    def accept(link: socket.socket) -> None:
        if not errors:
            raise ValueError("refused")
        server.accept(link)

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: errors.append(context["exception"]))
    try:
        async with sandbox.relay(accept) as listener:
            assert await output(sandbox, listener.port, "print(rest(connect()))") == "b''"
            program = "link = connect(); link.sendall(b'x'); link.shutdown(1); print(rest(link))"
            assert await output(sandbox, listener.port, program) == "b'x'"
    finally:
        loop.set_exception_handler(None)
    assert [type(error) for error in errors] == [ValueError]


async def test_commands_and_their_end_get_through_a_flood(sandbox: Sandbox) -> None:
    async def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1 << 16):
            pass

    flood = """
def flood():
    link = connect()
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while True:
        link.send(bytes(50_000))
for _ in range(64):
    threading.Thread(target=flood).start()
"""
    async with relay(sandbox, ignore) as (listener, server):
        flooding = asyncio.create_task(run(sandbox, listener.port, flood))
        await server.wait_for(64)
        for number in range(3):
            assert str((await sandbox.exec(["echo", str(number)])).stdout) == f"{number}\n"
        flooding.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await flooding


async def test_a_relay_is_refused_where_programs_have_no_tcp(backend: DockerBackend) -> None:
    with pytest.raises(UsageError, match="seccomp='default'"):
        async with Sandbox.open("python", relay=True, seccomp="strict", backend=backend):
            pass
    async with Sandbox.open("python", backend=backend) as closed:
        with pytest.raises(UsageError, match="no relay"):
            closed.relay(lambda link: link.close())


@pytest.mark.parametrize("number", [0, -1, 65])
async def test_a_number_of_connections_out_of_range_is_refused(sandbox: Sandbox, number: int) -> None:
    with pytest.raises(UsageError, match="from 1 to 64"):
        sandbox.relay(lambda link: link.close(), max_connections=number)


async def test_root_can_neither_take_the_port_nor_answer_for_it(backend: DockerBackend) -> None:
    steal = """
for reuse in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
    for address in ("127.0.0.1", "0.0.0.0"):
        link = socket.socket()
        link.setsockopt(socket.SOL_SOCKET, reuse, 1)
        try:
            link.bind((address, PORT))
            link.listen()
            print("bound")
        except OSError as error:
            print(error.errno)
"""
    async with RootSandbox.open("os", relay=True, limits=LIMITS, backend=backend) as machine:
        async with relay(machine) as (listener, server):
            assert await output(machine, listener.port, steal) == "98\n98\n98\n98"
            await machine.exec(["sh", "-c", "kill -9 -1; kill -9 1; ss -K; ip link set lo down"])
            program = "link = connect(); link.sendall(b'x'); link.shutdown(1); print(rest(link))"
            assert await output(machine, listener.port, program) == "b'x'"
        # A program may listen there now, but nothing leads to the host any more.
        again = """
link = socket.create_server(("127.0.0.1", PORT))
connect().sendall(b"x")
print(link.accept()[0].recv(1))
"""
        assert await output(machine, listener.port, again) == "b'x'"
        assert server.now == 0


async def test_the_port_of_a_sandbox_is_closed_to_another_one(
    sandbox: Sandbox, backend: DockerBackend
) -> None:
    opening = Sandbox.open("python", relay=True, backend=backend)
    async with relay(sandbox) as (listener, _), opening as other:
        assert await is_refused(other, listener.port)


async def test_too_many_uncounted_sockets_end_the_sandbox(backend: DockerBackend) -> None:
    if backend.describe().engine["cgroup_version"] != 1:
        pytest.skip("the kernel counts the buffers of TCP in the memory of the sandbox")
    program = "link = [socket.socket() for _ in range(PORT)]; time.sleep(600)"
    async with Sandbox.open("python", relay=True, limits=LIMITS, backend=backend) as crowded:
        with pytest.raises(SandboxError, match=f"of {MOST_SOCKETS} that they may have"):
            await run(crowded, MOST_SOCKETS + 1, program)
