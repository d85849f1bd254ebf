"""The host's end of a relay: each connection to a port inside a sandbox becomes a socket on the host."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.core.errors import SandboxError
from harness.core.shield import complete
from harness.sandbox.connection import Connection, ConnectionLost, Exchange
from harness.sandbox.guest.frames import FrameError
from harness.sandbox.guest_calls import GuestCaller
from harness.sandbox.time_factor import extend_wait

if TYPE_CHECKING:
    from harness.sandbox.guest.messages import OpenRelay, Relayed

# Each side sends at most this many bytes of a connection that the other has not acknowledged, and so holds at
# most this many.
WINDOW_BYTES = 1 << 18
# Fewer bytes are not acknowledged, because the guest still has most of its window.
ACKNOWLEDGED_BYTES = WINDOW_BYTES // 4
# The bytes of one frame, so that many busy connections delay other requests only a little.
CHUNK_BYTES = 1 << 14
# The kernel's buffer of each direction of a pair. The kernel doubles it.
BUFFER_BYTES = 1 << 16
OPEN_SECONDS = 30.0
CLOSE_SECONDS = 10.0
HIGHEST_PORT = 65535

Accept = Callable[[socket.socket], None]


@dataclass(frozen=True, slots=True)
class RelayListener:
    """A port of the sandbox, on its address 127.0.0.1. No other sandbox can reach it."""

    port: int


class Relay:
    """Carries the connections of one relay. It checks each event, because the guest may break the format."""

    def __init__(self, accept: Accept, max_connections: int) -> None:
        self._accept = accept
        self._most = max_connections
        self._last_number = 0
        self._carried: dict[int, CarriedConnection] = {}
        # Connections that the guest has closed, and whose last bytes the host's program has not read yet.
        self._ending: set[CarriedConnection] = set()
        # The tasks of all connections, those that have been dropped included.
        self._tasks: set[asyncio.Task[None]] = set()
        self._exchange: Exchange | None = None
        self._closed = False
        self.port: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def start(self, exchange: Exchange) -> None:
        """Send the events of this relay by `exchange`, and close the relay once the guest ends it."""
        self._exchange = exchange
        exchange.answer.add_done_callback(lambda _answer: self.close())

    def receive(self, _exchange: Exchange, header: dict[str, Any], body: bytes) -> None:
        """Handle an event of the guest. Raises FrameError."""
        if self._closed:
            return
        event, number, size = header.get("event"), header.get("connection"), header.get("bytes", 0)
        if event == "listening":
            self._set_port(header.get("port"))
            return
        if type(number) is not int or type(size) is not int:
            raise FrameError("an event of a relay has no number of its connection, or of its bytes")
        if event == "open":
            self._open(number)
            return
        if number > self._last_number:
            raise FrameError("it reported on a connection that it had not announced")
        connection = self._carried.get(number)
        if connection is None:
            return  # the host has given it up meanwhile
        if event == "data":
            connection.add(body)
        elif event == "seen":
            connection.extend_room(size)
        elif event == "end":
            connection.end()
        elif event == "close":
            del self._carried[number]
            self._let_end(connection)
        else:
            raise FrameError(f"a relay has no event {event!r:.40}")

    def send(self, number: int, event: Any, size: int = 0, data: bytes = b"") -> None:
        """Send an event of a connection to the guest."""
        if self._exchange is None or self._closed:
            return
        relayed: Relayed = {"connection": number, "event": event}
        if size:
            relayed["bytes"] = size
        self._exchange.send({"verb": "relayed", **relayed}, data)

    async def drain(self) -> None:
        """Wait until the stream has taken most of what was sent, so that other requests get their turn."""
        if self._exchange is not None:
            await self._exchange.drain()

    def start_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task of a connection, which `wait_closed` waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def wait_closed(self) -> None:
        """Close the relay, and wait until the sockets of all connections are closed."""
        self.close()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def close(self) -> None:
        """Drop every connection and accept no other. No byte passes from then on."""
        self._closed = True
        for connection in (*self._carried.values(), *self._ending):
            connection.drop()
        self._carried.clear()
        self._ending.clear()

    def _set_port(self, port: object) -> None:
        if type(port) is not int or not 0 < port <= HIGHEST_PORT or self.port.done():
            raise FrameError("a relay did not report one port")
        self.port.set_result(port)

    def _open(self, number: int) -> None:
        if number <= self._last_number or len(self._carried) >= self._most:
            raise FrameError("it announced more connections than the host had asked for")
        self._last_number = number
        try:
            ours, theirs = socket.socketpair()
        except OSError:  # no descriptors are left
            self.send(number, "close")
            return
        for end in (ours, theirs):
            end.setblocking(False)
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                end.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
        try:
            self._accept(theirs)
        except Exception as error:  # a failure of the caller's code must not end the stream of the sandbox
            ours.close()
            theirs.close()
            self.send(number, "close")
            report = {"message": "a connection of a relay was not accepted", "exception": error}
            asyncio.get_running_loop().call_exception_handler(report)
            return
        self._carried[number] = CarriedConnection(self, number, ours)

    def _let_end(self, connection: CarriedConnection) -> None:
        """Let the host's program read the rest of a connection that ended in order, and drop any other."""
        if not connection.delivers or len(self._ending) >= self._most:
            connection.drop()
            return
        self._ending.add(connection)
        connection.on_delivered(lambda: self._forget(connection))

    def _forget(self, connection: CarriedConnection) -> None:
        self._ending.discard(connection)
        connection.drop()


class CarriedConnection:
    """One connection on the host: two tasks that move bytes between a socket and the stream."""

    def __init__(self, relay: Relay, number: int, ours: socket.socket) -> None:
        self._relay = relay
        self._number = number
        self._socket = ours
        self._loop = asyncio.get_running_loop()
        # The bytes that the guest accepts.
        self._room = WINDOW_BYTES
        self._room_grew = asyncio.Event()
        # The bytes of the client that the host's program has not taken, the number of those that it has taken
        # since the last acknowledgement, and the number of all that are not acknowledged.
        self._waiting = bytearray()
        self._taken = 0
        self._unacknowledged = 0
        self._arrived = asyncio.Event()
        self._client_ended = False
        self._to_guest = relay.start_task(self._send_to_guest())
        self._to_program = relay.start_task(self._send_to_program())

    @property
    def delivers(self) -> bool:
        """Whether the client has ended in order, and the host's program has not taken all of its bytes."""
        return self._client_ended and not self._to_program.done()

    def on_delivered(self, call: Callable[[], None]) -> None:
        """Call `call` once the host's program has taken all bytes, or has closed its end."""
        self._to_program.add_done_callback(lambda _task: call())

    def add(self, data: bytes) -> None:
        """Store bytes of the client until the host's program takes them. Raises FrameError for too many."""
        self._unacknowledged += len(data)
        if self._client_ended or self._unacknowledged > WINDOW_BYTES:
            raise FrameError("it sent more bytes of a connection than the host had asked for")
        # One buffer, because the client may send single bytes.
        self._waiting += data
        self._arrived.set()

    def extend_room(self, size: int) -> None:
        """Record that the client has taken `size` bytes. Raises FrameError for more than it was sent."""
        if not 0 < size <= WINDOW_BYTES - self._room:
            raise FrameError("it acknowledged more bytes of a connection than it was sent")
        self._room += size
        self._room_grew.set()

    def end(self) -> None:
        """Record that the client sends no more. Raises FrameError if it has ended before."""
        if self._client_ended:
            raise FrameError("it ended a connection twice")
        self._client_ended = True
        self._arrived.set()

    def drop(self) -> None:
        """Stop both directions, and close the socket once nothing of the loop's waits for it."""
        for task in (self._to_guest, self._to_program):
            task.cancel()
        closing = [self._to_guest, self._to_program]

        def close_after_both(_task: asyncio.Task[None]) -> None:
            if all(task.done() for task in closing):
                self._socket.close()

        for task in closing:
            task.add_done_callback(close_after_both)

    async def _send_to_guest(self) -> None:
        try:
            while data := await self._loop.sock_recv(self._socket, min(CHUNK_BYTES, self._room)):
                self._room -= len(data)
                self._relay.send(self._number, "data", data=data)
                # This makes connections take turns, with each other and with other requests.
                await self._relay.drain()
                while self._room == 0:
                    self._room_grew.clear()
                    await self._room_grew.wait()
        except OSError:
            self._relay.send(self._number, "close")
            return
        self._relay.send(self._number, "close" if _is_closed(self._socket) else "end")

    async def _send_to_program(self) -> None:
        try:
            while await self._find_waiting():
                data = bytes(self._waiting[:CHUNK_BYTES])
                del self._waiting[:CHUNK_BYTES]
                await self._loop.sock_sendall(self._socket, data)
                self._taken += len(data)
                if self._taken >= ACKNOWLEDGED_BYTES:
                    self._relay.send(self._number, "seen", self._taken)
                    self._unacknowledged -= self._taken
                    self._taken = 0
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            # The host's program has closed its end. The other task sends what was written before, and then
            # closes the connection, unless it has ended already.
            if self._to_guest.done():
                self._relay.send(self._number, "close")

    async def _find_waiting(self) -> bool:
        """Wait for bytes of the client and return True, or False once none will come."""
        while not self._waiting and not self._client_ended:
            self._arrived.clear()
            await self._arrived.wait()
        return bool(self._waiting)


def _is_closed(end: socket.socket) -> bool:
    """Return whether the other end of a pair is closed, and not only shut down for writing."""
    poll = select.poll()
    poll.register(end, 0)
    return any(event & select.POLLHUP for _descriptor, event in poll.poll(0))


@contextlib.asynccontextmanager
async def open_relay(
    connection: Connection, accept: Accept, max_connections: int, caller: GuestCaller
) -> AsyncIterator[RelayListener]:
    """Open a port in the sandbox and yield it; close it, and each of its connections, at the block's end.

    Raises SandboxError.
    """
    request: OpenRelay = {"connections": max_connections, "window_bytes": WINDOW_BYTES}
    relay = Relay(accept, max_connections)
    try:
        async with connection.exchange({"verb": "relay", **request}, receive=relay.receive) as exchange:
            relay.start(exchange)
            try:
                yield RelayListener(await _find_port(relay, exchange, caller))
            except BaseException:
                # The error of the block is the one to raise.
                with contextlib.suppress(ConnectionLost, SandboxError):
                    await complete(_close(relay, exchange, caller))
                raise
            await complete(_close(relay, exchange, caller))
    except ConnectionLost as error:
        raise await caller.diagnose(error) from error


async def _find_port(relay: Relay, exchange: Exchange, caller: GuestCaller) -> int:
    """Return the port once the guest listens. Raises ConnectionLost, SandboxError."""
    waiting: list[asyncio.Future[Any]] = [relay.port, exchange.answer]
    await asyncio.wait(waiting, timeout=extend_wait(OPEN_SECONDS), return_when=asyncio.FIRST_COMPLETED)
    if relay.port.done():
        return relay.port.result()
    if not exchange.answer.done():
        raise await caller.destroy_silent("relay", extend_wait(OPEN_SECONDS))
    header, _ = exchange.answer.result()
    raise caller.build_failure(f"the guest could not open a relay: {str(header.get('error'))[:500]}")


async def _close(relay: Relay, exchange: Exchange, caller: GuestCaller) -> None:
    """Close the relay and wait until the guest confirms it. Raises ConnectionLost, SandboxError."""
    await relay.wait_closed()
    if not exchange.answer.done():
        exchange.send({"verb": "kill"})
        await asyncio.wait([exchange.answer], timeout=extend_wait(CLOSE_SECONDS))
        if not exchange.answer.done():
            raise await caller.destroy_silent("relay", extend_wait(CLOSE_SECONDS))
    header, _ = exchange.answer.result()
    if header.get("ended") != "killed":
        raise caller.build_failure(f"the guest's relay failed: {str(header.get('error'))[:500]}")
