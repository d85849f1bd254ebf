"""The host's end of the stream, with a peer that speaks the engine's format or breaks it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import pytest_asyncio
from case_checks import each_case

from harness.sandbox.backends.base import StartedContainer
from harness.sandbox.backends.docker.container import MAX_PIECE_BYTES, PIECE, PieceSplitter
from harness.sandbox.connection import (
    KEPT_STDERR_BYTES,
    Connection,
    ConnectionLost,
    open_connection,
)
from harness.sandbox.guest.frames import (
    MAX_BODY_BYTES,
    MAX_HEADER_BYTES,
    PREFIX,
    FrameDecoder,
    FrameError,
    encode_frame,
)

pytestmark = pytest.mark.timeout(30)

PATIENCE_SECONDS = 10.0
STDOUT, STDERR = 1, 2


def container(stream: socket.socket) -> StartedContainer:
    """Return a container whose engine sends both outputs over one stream, as Docker does."""
    return StartedContainer("", stream, split=PieceSplitter().split)


def piece(data: bytes, stream: int = STDOUT) -> bytes:
    """Return a container's output in the format in which the engine forwards it."""
    return PIECE.pack(stream, len(data)) + data


def answer(number: object, body: bytes = b"", **fields: Any) -> bytes:
    return piece(encode_frame({"id": number, **fields}, body))


class Peer:
    """The other end, which reads requests and sends bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = FrameDecoder()
        self._heard: list[tuple[dict[str, Any], bytes]] = []

    async def hear(self) -> tuple[dict[str, Any], bytes]:
        while not self._heard:
            data = await self._reader.read(1 << 20)
            assert data, "the connection hung up"
            self._heard += self._decoder.feed(data)
        return self._heard.pop(0)

    async def say(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def hang_up(self) -> None:
        self._writer.transport.abort()


@pytest_asyncio.fixture
async def ends() -> AsyncIterator[tuple[Connection, Peer]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=theirs)
    peer = Peer(reader, writer)
    async with open_connection(container(ours)) as connection:
        yield connection, peer
        # Otherwise the connection waits a second for the guest's end.
        peer.hang_up()


async def ask(ends: tuple[Connection, Peer]) -> tuple[Peer, asyncio.Task[tuple[dict[str, Any], bytes]], int]:
    """Send a request, and return the peer that has heard it, the request, and its number."""
    connection, peer = ends
    request = asyncio.create_task(connection.request({"verb": "x"}))
    header, _ = await peer.hear()
    return peer, request, header["id"]


async def lost_by(connection: Connection, peer: Peer, said: bytes) -> ConnectionLost:
    """Send a request, let the peer send bytes that end the connection, and return the request's error."""
    request = asyncio.create_task(connection.request({"verb": "x"}))
    await peer.hear()
    await peer.say(said)
    with pytest.raises(ConnectionLost) as caught:
        await request
    return caught.value


async def test_a_request_gets_the_answer_of_its_number(ends: tuple[Connection, Peer]) -> None:
    connection, peer = ends
    request = asyncio.create_task(connection.request({"verb": "x", "value": 1}, b"question"))
    header, body = await peer.hear()
    await peer.say(answer(header["id"], b"reply", value=2))
    assert (header["verb"], header["value"], body) == ("x", 1, b"question")
    assert await request == ({"id": header["id"], "value": 2}, b"reply")


async def test_answers_in_another_order_reach_their_requests(ends: tuple[Connection, Peer]) -> None:
    connection, peer = ends
    requests = [asyncio.create_task(connection.request({"verb": "x", "value": n})) for n in range(20)]
    heard = [await peer.hear() for _ in requests]
    for header, _ in reversed(heard):
        await peer.say(answer(header["id"], value=header["value"]))
    assert [(await request)[0]["value"] for request in requests] == list(range(20))


async def test_an_answer_can_come_in_pieces_of_one_byte(ends: tuple[Connection, Peer]) -> None:
    peer, request, number = await ask(ends)
    for byte in encode_frame({"id": number}, b"body"):
        await peer.say(piece(bytes([byte])))
    assert (await request)[1] == b"body"


async def test_a_piece_can_be_cut_at_every_byte(ends: tuple[Connection, Peer]) -> None:
    peer, request, number = await ask(ends)
    for byte in answer(number, b"body"):
        await peer.say(bytes([byte]))
        await asyncio.sleep(0)
    assert (await request)[1] == b"body"


async def test_several_answers_can_come_in_one_piece(ends: tuple[Connection, Peer]) -> None:
    connection, peer = ends
    requests = [asyncio.create_task(connection.request({"verb": "x"})) for _ in range(3)]
    numbers = [(await peer.hear())[0]["id"] for _ in requests]
    await peer.say(piece(b"".join(encode_frame({"id": number}) for number in numbers)))
    assert [(await request)[0]["id"] for request in requests] == numbers


async def test_a_large_answer_arrives_whole(ends: tuple[Connection, Peer]) -> None:
    connection, peer = ends
    body = bytes(range(256)) * 40_000
    request = asyncio.create_task(connection.request({"verb": "x"}))
    header, _ = await peer.hear()
    frame = encode_frame({"id": header["id"]}, body)
    for start in range(0, len(frame), 100_000):
        await peer.say(piece(frame[start : start + 100_000]))
    assert (await request)[1] == body


async def test_stderr_of_the_guest_is_kept_apart_from_the_answers(
    ends: tuple[Connection, Peer],
) -> None:
    peer, request, number = await ask(ends)
    connection, _ = ends
    await peer.say(piece(b"trace\xff", STDERR) + answer(number))
    await request
    assert connection.stderr == "trace\\xff"


async def test_of_a_flood_on_stderr_only_the_end_is_kept(ends: tuple[Connection, Peer]) -> None:
    peer, request, number = await ask(ends)
    connection, _ = ends
    for _ in range(40):
        await peer.say(piece(b"x" * 4096, STDERR))
    await peer.say(piece(b"the end", STDERR) + answer(number))
    await request
    assert len(connection.stderr) == KEPT_STDERR_BYTES
    assert connection.stderr.endswith("the end")


@pytest.fixture
def plain() -> Iterator[tuple[StartedContainer, socket.socket, socket.socket]]:
    """Yield a container with plain streams, and the other ends of its stream and its stderr."""
    ours, theirs = socket.socketpair()
    our_stderr, their_stderr = socket.socketpair()
    for end in (ours, our_stderr, theirs):
        end.setblocking(False)
    with theirs, their_stderr, contextlib.closing(StartedContainer("", ours, our_stderr)) as started:
        yield started, theirs, their_stderr


async def test_plain_streams_need_no_format_of_an_engine(
    plain: tuple[StartedContainer, socket.socket, socket.socket],
) -> None:
    started, theirs, their_stderr = plain
    peer = Peer(*await asyncio.open_connection(sock=theirs))
    async with open_connection(started) as connection:
        request = asyncio.create_task(connection.request({"verb": "x"}))
        header, _ = await peer.hear()
        their_stderr.sendall(b"trace\xff")
        await peer.say(encode_frame({"id": header["id"]}, b"body"))
        assert (await request)[1] == b"body"
        assert connection.stderr == "trace\\xff"
    peer.hang_up()


async def test_a_full_separate_stderr_is_read_although_nobody_asks_for_it(
    plain: tuple[StartedContainer, socket.socket, socket.socket],
) -> None:
    started, _, their_stderr = plain
    async with asyncio.timeout(PATIENCE_SECONDS), open_connection(started) as connection:
        await asyncio.to_thread(their_stderr.sendall, b"x" * 4_000_000 + b"the end")
        assert connection.stderr == "x" * (KEPT_STDERR_BYTES - 7) + "the end"


async def test_stderr_at_the_end_of_a_connection_is_kept(
    plain: tuple[StartedContainer, socket.socket, socket.socket],
) -> None:
    started, theirs, their_stderr = plain
    async with open_connection(started) as connection:
        their_stderr.sendall(b"last words")
        their_stderr.close()
        theirs.close()
        with pytest.raises(ConnectionLost):
            await connection.request({"verb": "x"})
        assert connection.stderr == "last words"


@each_case("other", [0, 999, -1, "1", None, 1.5, "missing"])
async def test_an_answer_to_no_request_is_skipped(ends: tuple[Connection, Peer], other: object) -> None:
    peer, request, number = await ask(ends)
    stray = piece(encode_frame({})) if other == "missing" else answer(other)
    await peer.say(stray + answer(number, b"mine"))
    assert (await request)[1] == b"mine"


@each_case("other", [[], {}, [1]], ids=repr)
async def test_an_answer_with_a_malformed_number_does_not_stop_the_reader(
    ends: tuple[Connection, Peer], other: object
) -> None:
    peer, request, number = await ask(ends)
    await peer.say(answer(other) + answer(number, b"mine"))
    async with asyncio.timeout(60):
        with contextlib.suppress(ConnectionLost):  # A breach is also a correct outcome.
            assert (await request)[1] == b"mine"


async def test_a_second_answer_to_a_request_is_skipped(ends: tuple[Connection, Peer]) -> None:
    peer, request, number = await ask(ends)
    await peer.say(answer(number, b"first") + answer(number, b"second"))
    assert (await request)[1] == b"first"


async def test_a_cancelled_request_leaves_the_others_alone(ends: tuple[Connection, Peer]) -> None:
    connection, peer = ends
    given_up, kept = (asyncio.create_task(connection.request({"verb": "x"})) for _ in range(2))
    numbers = [(await peer.hear())[0]["id"] for _ in range(2)]
    given_up.cancel()
    await asyncio.wait([given_up])
    await peer.say(answer(numbers[0], b"late") + answer(numbers[1], b"mine"))
    assert (await kept)[1] == b"mine"


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(piece(b"\xff" * 100), id="garbage in a frame"),
        pytest.param(piece(PREFIX.pack(MAX_HEADER_BYTES + 1, 0)), id="header too long"),
        pytest.param(piece(PREFIX.pack(2, MAX_BODY_BYTES + 1)), id="body too long"),
        pytest.param(piece(PREFIX.pack(2, 0) + b"[]"), id="no object"),
        pytest.param(piece(PREFIX.pack(20_000, 0) + b"[" * 20_000), id="nested too deep"),
        pytest.param(PIECE.pack(STDOUT, MAX_PIECE_BYTES + 1), id="piece too long"),
        pytest.param(b"\xff" * 8, id="garbage instead of a piece"),
    ],
)
async def test_a_broken_format_ends_the_connection_as_a_breach(
    ends: tuple[Connection, Peer], said: bytes
) -> None:
    assert (await lost_by(*ends, said)).breach


async def test_an_end_of_the_stream_is_no_breach(ends: tuple[Connection, Peer]) -> None:
    connection, peer = ends
    request = asyncio.create_task(connection.request({"verb": "x"}))
    await peer.hear()
    peer.hang_up()
    with pytest.raises(ConnectionLost) as caught:
        await request
    assert not caught.value.breach


async def test_an_end_of_the_stream_ends_every_waiting_request(ends: tuple[Connection, Peer]) -> None:
    connection, peer = ends
    requests = [asyncio.create_task(connection.request({"verb": "x"})) for _ in range(5)]
    for _ in requests:
        await peer.hear()
    peer.hang_up()
    results = await asyncio.gather(*requests, return_exceptions=True)
    assert [type(result) for result in results] == [ConnectionLost] * 5


async def test_an_end_in_the_middle_of_an_answer_is_no_breach(ends: tuple[Connection, Peer]) -> None:
    peer, request, number = await ask(ends)
    await peer.say(answer(number, b"body")[:-1])
    peer.hang_up()
    with pytest.raises(ConnectionLost):
        await request


async def test_a_request_after_the_end_fails_at_once(ends: tuple[Connection, Peer]) -> None:
    connection, peer = ends
    await lost_by(connection, peer, b"\xff" * 8)
    with pytest.raises(ConnectionLost):
        await connection.request({"verb": "x"})


@each_case("make", [lambda: ({"x": "y" * MAX_HEADER_BYTES}, b""), lambda: ({}, bytes(MAX_BODY_BYTES + 1))])
async def test_a_request_over_the_bound_is_refused_and_the_next_one_works(
    ends: tuple[Connection, Peer], make: Callable[[], tuple[dict[str, Any], bytes]]
) -> None:
    connection, peer = ends
    header, body = make()
    with pytest.raises(FrameError):
        await connection.request(header, body)
    request = asyncio.create_task(connection.request({"verb": "x"}))
    heard, _ = await peer.hear()
    await peer.say(answer(heard["id"]))
    assert (await request)[0] == {"id": heard["id"]}


async def test_leaving_the_block_hangs_up() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with theirs:
        async with open_connection(container(ours)):
            pass
        theirs.settimeout(PATIENCE_SECONDS)
        with theirs.makefile("rb") as stream:
            ((header, _body),) = FrameDecoder().feed(await asyncio.to_thread(stream.read))
    # A guest that does not end itself at this word loses its stream.
    assert header["verb"] == "bye"


async def test_leaving_the_block_does_not_wait_for_a_peer_that_does_not_read() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with theirs:
        async with asyncio.timeout(PATIENCE_SECONDS):
            async with open_connection(container(ours)) as connection:
                request = asyncio.create_task(connection.request({"verb": "x"}, bytes(8 * 1024 * 1024)))
                await asyncio.sleep(0)
            request.cancel()
            await asyncio.wait([request])
    assert request.cancelled()
