"""The two ends of a relay lose no bytes, hold no more than a window, and check each other."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from case_checks import each_case
from hypothesis import given
from hypothesis import strategies as st

from harness.sandbox.guest import relay as guest
from harness.sandbox.guest.frames import FrameError
from harness.sandbox.relay import CHUNK_BYTES, WINDOW_BYTES, Relay

WINDOW = 64


class Watched:
    """Stands in for the loop of PID 1: the test makes the calls of ready descriptors."""

    def __init__(self) -> None:
        self.readers: dict[int, Callable[[], None]] = {}
        self.writers: dict[int, Callable[[], None]] = {}
        self.timers: list[Callable[[], None]] = []
        self.watch = self.readers.__setitem__
        self.watch_writing = self.writers.__setitem__

    def unwatch(self, descriptor: int) -> None:
        self.readers.pop(descriptor, None)

    def unwatch_writing(self, descriptor: int) -> None:
        self.writers.pop(descriptor, None)

    def after(self, _seconds: float, call: Callable[[], None]) -> Any:
        self.timers.append(call)
        return self

    def cancel(self) -> None:
        self.timers.clear()


class GuestEnd:
    """A relay of the guest with one client, both in this process."""

    def __init__(self, connections: int = 1) -> None:
        self.loop = Watched()
        self.events: list[tuple[dict[str, Any], bytes]] = []
        self.ends: list[Any] = []
        request = {"connections": connections, "window_bytes": WINDOW}
        loop: Any = self.loop
        self.job = guest.RelayJob(
            loop, request, lambda piece, body: self.events.append((dict(piece), body)), self.ends.append
        )
        self.port = self.events.pop()[0]["port"]
        (self.accept,) = self.loop.readers.values()

    def connect(self) -> socket.socket:
        client = socket.create_connection((guest.ADDRESS, self.port))
        client.settimeout(5)
        self.accept()
        return client

    def tell(self, event: str, body: bytes = b"", **fields: int) -> None:
        self.job.receive({"connection": 1, "event": event, **fields}, body)

    def take(self, event: str) -> list[tuple[dict[str, Any], bytes]]:
        """Return and forget the events of this kind."""
        taken = [(piece, body) for piece, body in self.events if piece["event"] == event]
        self.events = [item for item in self.events if item not in taken]
        return taken

    def serve(self) -> None:
        for ready in (*list(self.loop.readers.values()), *list(self.loop.writers.values())):
            ready()


@contextlib.contextmanager
def guest_end(connections: int = 1) -> Iterator[GuestEnd]:
    end = GuestEnd(connections)
    try:
        yield end
    finally:
        end.job.stop("killed")


@given(st.lists(st.tuples(st.sampled_from(["send", "acknowledge", "answer", "read"]), st.integers(1, 100))))
def test_the_guest_holds_no_more_than_a_window_and_loses_nothing(steps: list[tuple[str, int]]) -> None:
    with guest_end() as end, end.connect() as client:
        end.take("open")
        client.setblocking(False)
        sent = passed = answered = read = unseen = 0
        room = WINDOW
        for step, size in steps:
            if step == "send":
                sent += client.send(bytes(size))
            elif step == "acknowledge" and unseen:
                end.tell("seen", bytes=min(size, unseen))
                unseen -= min(size, unseen)
            elif step == "answer" and room:
                end.tell("data", bytes(min(size, room)))
                answered += min(size, room)
                room -= min(size, room)
            elif step == "read":
                with contextlib.suppress(BlockingIOError):
                    read += len(client.recv(size))
            end.serve()
            for _piece, body in end.take("data"):
                passed += len(body)
                unseen += len(body)
            room += sum(piece["bytes"] for piece, _body in end.take("seen"))
            assert unseen <= WINDOW
        while passed < sent:
            end.tell("seen", bytes=unseen)
            end.serve()
            unseen = sum(len(body) for _piece, body in end.take("data"))
            passed += unseen
        client.setblocking(True)
        while read < answered:
            read += len(client.recv(answered - read))
        assert (passed, read) == (sent, answered)


def test_the_guest_keeps_the_order_of_bytes_ends_and_closes() -> None:
    with guest_end() as end, end.connect() as client:
        client.sendall(b"question")
        client.shutdown(socket.SHUT_WR)
        while not any(piece["event"] == "end" for piece, _body in end.events):
            end.serve()
        end.tell("data", b"answer")
        end.tell("close")
        assert client.recv(100) == b"answer"
        assert client.recv(100) == b""
        assert [(piece["event"], body) for piece, body in end.events] == [
            ("open", b""),
            ("data", b"question"),
            ("end", b""),
            ("close", b""),
        ]


def test_a_client_that_never_ends_is_dropped_a_while_after_the_host_has_closed() -> None:
    with guest_end() as end, end.connect() as client:
        client.sendall(bytes(1000))
        end.tell("close")
        assert client.recv(1) == b""
        assert end.take("close") == []
        (drop,) = end.loop.timers
        drop()
        assert len(end.take("close")) == 1


def test_clients_beyond_the_bound_wait_until_one_has_ended() -> None:
    with guest_end(1) as end, end.connect() as first, end.connect() as second:
        assert len(end.take("open")) == 1
        first.close()
        end.serve()
        end.tell("end")
        assert len(end.take("close")) == 1
        end.accept()
        assert [piece["connection"] for piece, _body in end.take("open")] == [2]
        assert second.fileno() > 0


@each_case("number", [errno.EMFILE, errno.ENOBUFS, errno.ECONNABORTED])
def test_a_kernel_that_cannot_accept_is_asked_again_later(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        def __init__(self, listener: Any) -> None:
            self._listener = listener

        def _accept(self) -> None:
            raise OSError(number, "full")

        def __getattr__(self, name: str) -> Any:
            return getattr(self._listener, name)

    with guest_end() as end:
        monkeypatch.setattr(end.job, "_listener", Full(end.job._listener))
        end.accept()
        assert end.loop.readers == {}
        (again,) = end.loop.timers
        again()
        assert len(end.loop.readers) == 1


def test_events_beyond_the_rate_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(guest, "time", SimpleNamespace(monotonic=lambda: now))
    with guest_end() as end, end.connect() as client:
        end.job._pace.spend(guest.BURST_EVENTS)
        client.sendall(b"x")
        end.serve()
        assert end.take("data") == []
        now += 1.0
        (resume,) = end.loop.timers
        resume()
        end.serve()
        assert [body for _piece, body in end.take("data")] == [b"x"]


def test_only_a_kill_stops_a_relay() -> None:
    with guest_end() as end, end.connect() as client:
        for reason in ("memory", "processes"):
            end.job.stop(reason)
        assert end.ends == []
        end.job.stop("killed")
        assert (end.ends, end.loop.readers) == ([{"ended": "killed"}], {})
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_the_guest_refuses_more_bytes_than_its_window() -> None:
    with guest_end() as end, end.connect(), pytest.raises(ValueError, match="more bytes"):
        end.tell("data", bytes(WINDOW + 1))


class Frames:
    """Stands in for the exchange with the guest: it keeps what the host sends."""

    def __init__(self) -> None:
        self.sent: list[tuple[dict[str, Any], bytes]] = []
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._more = asyncio.Event()

    def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        self.sent.append((header, body))
        self._more.set()

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not holds():
                self._more.clear()
                await self._more.wait()

    async def drain(self) -> None:
        await asyncio.sleep(0)


class HostEnd:
    """A relay of the host whose guest is the test."""

    def __init__(self, most: int = 2) -> None:
        self.links: list[socket.socket] = []
        self.relay = Relay(self.links.append, most)
        self.frames = Frames()
        self.exchange: Any = cast("Any", self.frames)
        self.relay.start(self.exchange)

    def report(self, event: object, number: object = 1, body: bytes = b"", **fields: object) -> None:
        self.relay.receive(
            self.exchange, {"more": True, "event": event, "connection": number, **fields}, body
        )

    async def wait_for(self, event: str) -> dict[str, Any]:
        await self.frames.wait_until(lambda: bool(self._find(event)))
        return self._find(event)[0]

    def _find(self, event: str) -> list[dict[str, Any]]:
        return [header for header, _body in self.frames.sent if header["event"] == event]


@contextlib.asynccontextmanager
async def host_end(most: int = 2) -> Any:
    end = HostEnd(most)
    try:
        yield end
    finally:
        await end.relay.wait_closed()
        for link in end.links:
            link.close()


BREACHES: dict[str, list[dict[str, Any]]] = {
    "unannounced": [{"event": "data", "number": 3}],
    "number used twice": [{"event": "open"}],
    "too many": [{"event": "open", "number": 2}, {"event": "open", "number": 3}],
    "not a number": [{"event": "open", "number": "2"}],
    "a truth value": [{"event": "open", "number": True}],
    "no number": [{"event": "end", "number": None}],
    "too many bytes": [{"event": "data", "body": bytes(WINDOW_BYTES)}, {"event": "data", "body": b"x"}],
    "bytes after the end": [{"event": "end"}, {"event": "data", "body": b"x"}],
    "two ends": [{"event": "end"}, {"event": "end"}],
    "acknowledged too much": [{"event": "seen", "bytes": 1}],
    "acknowledged less than nothing": [{"event": "seen", "bytes": -1}],
    "unknown event": [{"event": "reopen"}],
    "no event": [{"event": None}],
    "no port": [{"event": "listening", "port": 0}],
    "a port that is none": [{"event": "listening", "port": 70_000}],
    "two ports": [{"event": "listening", "port": 1}, {"event": "listening", "port": 2}],
}


@each_case("name", BREACHES)
async def test_a_guest_that_breaks_a_rule_breaks_the_stream(name: str) -> None:
    async with host_end() as end:
        end.report("open")
        *before, breach = BREACHES[name]
        for fields in before:
            end.report(**fields)
        with pytest.raises(FrameError):
            end.report(**breach)


async def test_the_host_sends_no_more_than_the_guest_accepts() -> None:
    async with host_end() as end:
        end.report("open")
        sending = asyncio.ensure_future(
            asyncio.get_running_loop().sock_sendall(end.links[0], bytes(2 * WINDOW_BYTES))
        )
        for _ in range(2):
            await end.frames.wait_until(lambda: sum(len(body) for _, body in end.frames.sent) >= WINDOW_BYTES)
            sizes = [len(body) for _header, body in end.frames.sent]
            assert (sum(sizes), max(sizes) <= CHUNK_BYTES) == (WINDOW_BYTES, True)
            end.frames.sent.clear()
            end.report("seen", bytes=WINDOW_BYTES)
        await sending


async def test_the_host_acknowledges_what_its_program_has_taken_and_no_more() -> None:
    async with host_end() as end:
        end.report("open")
        end.report("data", body=bytes(WINDOW_BYTES))
        loop = asyncio.get_running_loop()
        taken = 0
        while taken < WINDOW_BYTES:
            taken += len(await loop.sock_recv(end.links[0], 1 << 16))
        await end.wait_for("seen")
        for _ in range(20):
            await asyncio.sleep(0)
        acknowledged = sum(header.get("bytes", 0) for header, _body in end.frames.sent)
        assert acknowledged == WINDOW_BYTES
        end.report("data", body=bytes(WINDOW_BYTES))


async def test_the_end_of_the_guests_bytes_is_the_end_of_the_programs_input() -> None:
    async with host_end() as end:
        end.report("open")
        end.report("data", body=b"last")
        end.report("end")
        # The guest has closed the connection before the program has read the rest.
        end.report("close")
        loop = asyncio.get_running_loop()
        assert await loop.sock_recv(end.links[0], 10) == b"last"
        assert await loop.sock_recv(end.links[0], 10) == b""


async def test_a_program_that_shuts_down_ends_one_direction_and_one_that_closes_both() -> None:
    async with host_end() as end:
        end.report("open")
        end.links[0].shutdown(socket.SHUT_WR)
        await end.wait_for("end")
        end.report("data", body=b"further")
        assert await asyncio.get_running_loop().sock_recv(end.links[0], 10) == b"further"
        end.report("open", 2)
        end.links[1].close()
        assert (await end.wait_for("close"))["connection"] == 2


async def test_nothing_passes_after_the_relay_is_closed() -> None:
    async with host_end() as end:
        end.report("open")
        await end.relay.wait_closed()
        before = list(end.frames.sent)
        end.report("data", body=b"late")
        end.report("open", 2)
        with pytest.raises(BrokenPipeError):
            end.links[0].send(b"late")
        assert (len(end.links), end.frames.sent) == (1, before)


async def test_a_host_without_descriptors_refuses_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError(errno.EMFILE, "too many open files")

    async with host_end() as end:
        monkeypatch.setattr(socket, "socketpair", fail)
        end.report("open")
        assert (await end.wait_for("close"))["connection"] == 1
        monkeypatch.undo()
        end.report("open", 2)
        assert len(end.links) == 1
