"""Listen on a loopback port in the sandbox, and carry each connection over the stream to the host.

Each side sends at most a window of bytes of a connection that the other has not acknowledged, so a slow
reader stops its own connection alone, and the memory of both sides is bounded. The guest also bounds the rate
of events, because programs could otherwise keep the host busy with single bytes and short connections.
"""

from __future__ import annotations

# The module `socket` would take several milliseconds to import.
import _socket
import struct
import time

from .jobs import KILLED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .loop import Loop, Timer
    from .messages import OpenRelay, RelayPiece, RelayReply

ADDRESS = "127.0.0.1"
# Clients that the kernel connects before the relay accepts them.
BACKLOG = 256
# One callback moves at most this much, so that many busy connections delay other requests only a little.
CHUNK_BYTES = 1 << 14
# Less than this part of the window is not acknowledged, because the other side still has most of it.
ACKNOWLEDGED_PART = 4
# A relay may send this many events at once, and this many in each second after that. Data beyond that rate
# are gathered in the kernel, and come in larger pieces. A new connection makes the host as much work as
# ACCEPT_COST events.
BURST_EVENTS = 8000
EVENTS_A_SECOND = 2000
ACCEPT_COST = 20
# The wait for the pace, or for a descriptor or memory that the kernel did not have.
PAUSE_SECONDS = 0.01
# How long a client may take no further bytes after the host has closed the connection.
LINGER_SECONDS = 5.0
# Makes `close` drop the connection, and all bytes that are under way.
ABORT = struct.pack("ii", 1, 0)


class Pace:
    """The number of events that may be sent now, which grows with time."""

    def __init__(self) -> None:
        self._events = float(BURST_EVENTS)
        self._time = time.monotonic()

    def spend(self, events: int) -> None:
        """Count events that are sent."""
        self._events -= events

    def allows(self) -> bool:
        """Return whether further events may be sent."""
        now = time.monotonic()
        self._events = min(BURST_EVENTS, self._events + (now - self._time) * EVENTS_A_SECOND)
        self._time = now
        return self._events > 0


class RelayJob:
    """Accepts connections until the host kills its request."""

    def __init__(
        self,
        loop: Loop,
        request: dict[str, Any],
        send: Callable[[RelayPiece, bytes], None],
        finished: Callable[[RelayReply], None],
    ) -> None:
        asked: OpenRelay = request  # type: ignore[assignment]
        self._loop = loop
        self._most = asked["connections"]
        self.window = asked["window_bytes"]
        self._send = send
        self._finished = finished
        self._connections: dict[int, Connection] = {}
        self._accepted = 0
        self._accepting = False
        self._pace = Pace()
        # The connections that are not read until the pace allows it.
        self._paused: set[Connection] = set()
        self._resuming = False
        self._open = True
        self._listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM, _socket.IPPROTO_TCP)
        try:
            self._listener.setblocking(False)
            self._listener.bind((ADDRESS, 0))
            self._listener.listen(BACKLOG)
            port = self._listener.getsockname()[1]
        except OSError:
            self._listener.close()
            raise
        self._accept_further()
        send({"more": True, "event": "listening", "port": port}, b"")

    def stop(self, reason: str) -> None:
        """Close the port and all connections if the host asks for it.

        A limit that a program has reached ends the program, and not the relay.
        """
        if reason != KILLED or not self._open:
            return
        self._open = False
        self._loop.unwatch(self._listener.fileno())
        self._listener.close()
        for connection in list(self._connections.values()):
            connection.abort()
        self._finished({"ended": reason})

    def receive(self, fields: dict[str, Any], body: bytes) -> None:
        """Handle an event from the host. Its connection may have ended meanwhile."""
        connection = self._connections.get(fields["connection"])
        if connection is None:
            return
        event = fields["event"]
        if event == "data":
            connection.add(body)
        elif event == "seen":
            connection.acknowledge(fields["bytes"])
        else:
            connection.end(close=event == "close")

    def report(self, number: int, event: Any, size: int = 0, data: bytes = b"") -> None:
        """Send an event of connection `number` to the host, which after `close` forgets the connection."""
        if event == "close":
            del self._connections[number]
            if not self._open:
                return
            self._accept_further()
        self._pace.spend(1)
        piece: RelayPiece = {"more": True, "connection": number, "event": event}
        if size:
            piece["bytes"] = size
        self._send(piece, data)

    def may_read(self, connection: Connection) -> bool:
        """Return whether a connection may be read. If not, it is read later."""
        if self._pace.allows():
            return True
        connection.stop_reading()
        self._paused.add(connection)
        self._resume_later()
        return False

    def _resume_later(self) -> None:
        if not self._resuming:
            self._resuming = True
            self._loop.after(PAUSE_SECONDS, self._resume)

    def _resume(self) -> None:
        """Accept and read again. A connection that has closed meanwhile stays closed."""
        self._resuming = False
        paused, self._paused = self._paused, set()
        for connection in paused:
            connection.read_further()
        self._accept_further()

    def _accept_further(self) -> None:
        """Accept connections again. Those beyond the bound wait in the kernel."""
        if self._open and not self._accepting:
            self._accepting = True
            self._loop.watch(self._listener.fileno(), self._accept)

    def _stop_accepting(self) -> None:
        self._accepting = False
        self._loop.unwatch(self._listener.fileno())

    def _accept(self) -> None:
        if len(self._connections) >= self._most:
            self._stop_accepting()
            return
        if not self._pace.allows():
            self._stop_accepting()
            self._resume_later()
            return
        try:
            descriptor, _address = self._listener._accept()  # type: ignore[attr-defined]
        except BlockingIOError:
            return
        except (OSError, MemoryError):
            self._stop_accepting()
            self._resume_later()
            return
        link = _socket.socket(fileno=descriptor)
        try:
            link.setblocking(False)
            link.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        except OSError:
            link.close()
            return
        self._pace.spend(ACCEPT_COST)
        self._accepted += 1
        number = self._accepted
        self._send({"more": True, "connection": number, "event": "open"}, b"")
        self._connections[number] = Connection(self._loop, self, number, link)


class Connection:
    """One accepted connection. Each direction ends separately."""

    def __init__(self, loop: Loop, relay: RelayJob, number: int, link: _socket.socket) -> None:
        self._loop = loop
        self._relay = relay
        self._number = number
        self._link = link
        self._descriptor = link.fileno()
        # Bytes of the client that the host has not acknowledged.
        self._unseen = 0
        # Bytes of the host that the client's socket has not taken, and those that it has taken since the last
        # acknowledgement.
        self._waiting = bytearray()
        self._taken = 0
        self._client_ended = False
        self._host_ended = False
        # The host has given the connection up, so that nothing more is reported of the client.
        self._host_closed = False
        self._patience: Timer | None = None
        self._closed = False
        self.read_further()

    def add(self, data: bytes) -> None:
        """Send bytes of the host to the client, as soon as its socket takes them."""
        if self._host_ended or len(self._waiting) + self._taken + len(data) > self._relay.window:
            raise ValueError("the host sent more bytes of a connection than the guest had asked for")
        was_idle = not self._waiting
        self._waiting += data
        if was_idle:
            self._write()

    def acknowledge(self, size: int) -> None:
        """Record that the host has taken `size` bytes, and read on if there is room again."""
        self._unseen -= size
        self.read_further()

    def read_further(self) -> None:
        """Read the client's bytes if there is room for them, or if they are dropped."""
        if not self._closed and not self._client_ended and self._room() > 0:
            self._loop.watch(self._descriptor, self._read)

    def stop_reading(self) -> None:
        """Leave the client's bytes in the kernel until `read_further`."""
        self._loop.unwatch(self._descriptor)

    def end(self, *, close: bool) -> None:
        """End the direction to the client after the bytes that wait; with `close`, end both."""
        if close and not self._host_closed:
            self._host_closed = True
            # A client that still sends must not lose the answer, so its bytes are read and dropped.
            self.read_further()
            self._wait_for_client()
        if not self._host_ended:
            self._host_ended = True
            if not self._waiting:
                self._end_writing()
        elif not self._waiting:
            self._close_if_over()

    def abort(self) -> None:
        """Drop the connection and all bytes that are under way."""
        try:
            self._link.setsockopt(_socket.SOL_SOCKET, _socket.SO_LINGER, ABORT)
        except OSError:
            pass
        self._close()

    def _room(self) -> int:
        """Return the number of bytes that may be read now."""
        return CHUNK_BYTES if self._host_closed else min(CHUNK_BYTES, self._relay.window - self._unseen)

    def _read(self) -> None:
        if not self._relay.may_read(self):
            return
        try:
            data = self._link.recv(self._room())
        except BlockingIOError:
            return
        except (OSError, MemoryError):
            self.abort()
            return
        if not data:
            self._client_ended = True
            self.stop_reading()
            if not self._host_closed:
                self._relay.report(self._number, "end")
            self._close_if_over()
        elif not self._host_closed:
            self._unseen += len(data)
            if self._room() <= 0:
                self.stop_reading()
            self._relay.report(self._number, "data", data=data)

    def _write(self) -> None:
        try:
            size = self._link.send(self._waiting[:CHUNK_BYTES])
        except BlockingIOError:
            size = 0
        except (OSError, MemoryError):
            self.abort()
            return
        del self._waiting[:size]
        if self._waiting:
            self._loop.watch_writing(self._descriptor, self._write)
        else:
            self._loop.unwatch_writing(self._descriptor)
        if self._host_closed and size:
            self._wait_for_client()
        self._taken += size
        if self._taken * ACKNOWLEDGED_PART >= self._relay.window and not self._host_ended:
            self._relay.report(self._number, "seen", self._taken)
            self._taken = 0
        if self._host_ended and not self._waiting:
            self._end_writing()

    def _end_writing(self) -> None:
        try:
            self._link.shutdown(_socket.SHUT_WR)
        except OSError:
            self.abort()
            return
        self._close_if_over()

    def _close_if_over(self) -> None:
        if self._client_ended and self._host_ended and not self._waiting:
            self._close()

    def _wait_for_client(self) -> None:
        """Give the client a while to take bytes or to end."""
        if self._patience is not None:
            self._patience.cancel()
        self._patience = self._loop.after(LINGER_SECONDS, self.abort)

    def _close(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
        self._closed = True
        self.stop_reading()
        self._loop.unwatch_writing(self._descriptor)
        self._link.close()
        self._relay.report(self._number, "close")
