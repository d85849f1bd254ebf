"""The bounds on connections: heads, connections without a request, replies that nobody reads, WebSockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import os
from base64 import b64encode
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
from case_checks import each_case
from service_fixtures import TOKEN, Served, serve, share_service

from harness.service import connections

OTHER = "127.0.0.2"
MIB = 1024 * 1024
CHUNKED = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nhost: a\r\n\r\n"
SLEEP = "import time; time.sleep(600)"
pytestmark = pytest.mark.asyncio(loop_scope="module")
served = share_service()


@contextlib.asynccontextmanager
async def connect(
    served: Served, source: str = "127.0.0.1"
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    url = urlsplit(served.url)
    # The reader keeps little, so that a test decides how much of a reply is taken.
    reader, writer = await asyncio.open_connection(
        url.hostname, url.port, local_addr=(source, 0), limit=64 * 1024
    )
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def encode_request(path: str, *headers: str, content: bytes = b"", version: str = "1.1") -> bytes:
    first = f"{'POST' if content else 'GET'} /{TOKEN}{path} HTTP/{version}"
    lines = (first, "host: a", f"content-length: {len(content)}", *headers, "", "")
    return "\r\n".join(lines).encode() + content


def encode_program(code: str, *headers: str, version: str = "1.1") -> bytes:
    """Return a request that runs a program, whose own limit ends no test."""
    body = json.dumps({"code": code, "language": "python", "run_timeout": 600}).encode()
    return encode_request("/run_code", *headers, content=body, version=version)


async def wait_for_work(served: Served, requests: int) -> None:
    """Wait until so many requests work. The time limit of the test ends a wait in vain."""
    while await served.read_metric("harness_working") != requests:  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def send_until_closed(writer: asyncio.StreamWriter, piece: bytes, most: int) -> int:
    """Return how many bytes the service took before it closed the connection."""
    sent = 0
    with contextlib.suppress(OSError):
        while sent < most:
            writer.write(piece)
            await writer.drain()
            sent += len(piece)
    return sent


async def read_all(reader: asyncio.StreamReader) -> bytes:
    """Return what comes until the service closes the connection."""
    received = b""
    with contextlib.suppress(OSError):
        while part := await reader.read(65536):
            received += part
    return received


@each_case(
    ("start", "piece"),
    [
        (b"GET /", b"a" * 100_000),
        (b"GET / HTTP/1.1\r\nhost: a\r\n", b"x-name: value\r\n" * 7000),
        (b"GET / HTTP/1.1\r\nhost: a\r\nx-name: ", b"a" * 100_000),
        (CHUNKED + b"0\r\n", b"x-name: value\r\n" * 7000),
        (CHUNKED + b"1;a=", b"a" * 100_000),
    ],
    ids=["path", "headers", "header", "trailers", "chunk"],
)
async def test_a_head_without_end_is_not_kept(served: Served, start: bytes, piece: bytes) -> None:
    async with connect(served) as (_, writer):
        writer.write(start)
        assert await send_until_closed(writer, piece, 64 * MIB) < 64 * MIB


async def test_a_head_that_is_too_large_is_refused_with_a_status(served: Served) -> None:
    async with connect(served) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nhost: a\r\nx-name: " + b"a" * (connections.HEAD_BYTES + 1))
        assert (await reader.readline()).startswith(b"HTTP/1.1 431 ")


async def test_a_body_may_be_larger_than_a_head(served: Served) -> None:
    code = "#" * (2 * connections.HEAD_BYTES) + "\nprint(1)"

    async def send_in_small_pieces() -> AsyncIterator[bytes]:
        body = json.dumps({"language": "python", "code": code}).encode()
        for start in range(0, len(body), 100):
            yield body[start : start + 100]

    response = await served.http.post("/run_code", content=send_in_small_pieces())
    assert response.json()["run_result"]["stdout"] == "1\n"


@each_case("start", [b"", b"GET /health HTTP/1.1\r\n"], ids=["nothing", "half a head"])
async def test_a_connection_without_a_request_ends(
    served: Served, monkeypatch: pytest.MonkeyPatch, start: bytes
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
    async with connect(served) as (reader, writer):
        writer.write(start)
        assert await read_all(reader) == b""


async def test_a_body_behind_a_reply_ends_with_its_connection(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
    async with connect(served) as (reader, writer):
        writer.write(b"GET /health HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        sending = asyncio.create_task(send_slowly(writer))
        await read_all(reader)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def send_slowly(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"x")
        await asyncio.sleep(0.02)


async def test_a_client_cannot_take_the_connections_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CLIENT_CONNECTIONS", 2)
    async with serve() as served, connect(served) as (first, one), connect(served) as (second, two):
        for reader, writer in ((first, one), (second, two)):
            writer.write(HEALTH)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        async with connect(served) as (reader, _):
            assert (await reader.readline()).startswith(b"HTTP/1.1 429 ")
        async with connect(served, OTHER) as (reader, writer):
            writer.write(HEALTH)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")


async def test_a_refused_web_socket_leaves_the_share_of_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CLIENT_CONNECTIONS", 2)
    offer = b"GET /ws HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n"
    async with serve() as served:
        for _ in range(3):
            async with connect(served) as (reader, writer):
                writer.write(offer)
                assert (await read_all(reader)).startswith(b"HTTP/1.1 400 ")


async def test_requests_that_wait_on_one_connection_are_bounded(served: Served) -> None:
    async with connect(served) as (reader, writer):
        writer.write(encode_program(SLEEP) + HEALTH * 10_000)
        assert (await reader.readline()).startswith(b"HTTP/1.1 429 ")
    await wait_for_work(served, 0)


async def test_a_reply_that_nobody_takes_ends(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "STALLED_SECONDS", 0.3)
    path = await open_sandbox_with_a_large_file(served)
    async with connect(served) as (_, writer):
        writer.write(encode_request(f"{path}/files/large"))
        await wait_until(served, path, busy=1)
        await wait_until(served, path, busy=0)
    await served.http.delete(path)


async def open_sandbox_with_a_large_file(served: Served) -> str:
    """Return the path of the sandbox."""
    path = await served.open_sandbox()
    await served.http.put(f"{path}/files/large", content=bytes(16 * MIB))
    return path


async def wait_until(served: Served, path: str, *, busy: int) -> None:
    """Wait until so many requests use a sandbox. The time limit of the test ends a wait in vain."""
    while (await served.http.get(path)).json()["busy"] != busy:  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def test_a_client_that_takes_no_file_delays_no_other_client() -> None:
    async with serve(file_replies=2, client_file_replies=1) as served, contextlib.AsyncExitStack() as stack:
        path = await open_sandbox_with_a_large_file(served)
        for _ in range(3):
            _, writer = await stack.enter_async_context(connect(served))
            writer.write(encode_request(f"{path}/files/large"))
        await wait_until(served, path, busy=3)
        await served.http.put(f"{path}/files/small", content=b"small")
        reader, writer = await stack.enter_async_context(connect(served, OTHER))
        writer.write(encode_request(f"{path}/files/small", "connection: close"))
        assert b"small" in await read_all(reader)


async def test_a_client_that_sends_no_end_of_its_bodies_delays_no_other_client() -> None:
    async with (
        serve(body_bytes=100_000, all_bodies_bytes=400_000) as served,
        contextlib.AsyncExitStack() as stack,
    ):
        head = f"POST /{TOKEN}/run_code HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n".encode()
        readers = []
        for _ in range(4):
            reader, writer = await stack.enter_async_context(connect(served))
            writer.write(head + b'"' + b"a" * 90_000)
            readers.append(reader)
        done, waiting = await asyncio.wait(
            [asyncio.create_task(each.readline()) for each in readers], timeout=1
        )
        assert [each.result().startswith(b"HTTP/1.1 429 ") for each in done] == [True, True]
        for each in waiting:
            each.cancel()
        reader, writer = await stack.enter_async_context(connect(served, OTHER))
        writer.write(encode_program("print(6 * 7)" + " " * 90_000, "connection: close"))
        assert b"42" in await read_all(reader)


async def test_a_broken_body_behind_a_reply_ends_the_connection_without_a_word(
    served: Served,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with connect(served) as (reader, writer):
        writer.write(CHUNKED)
        assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")
        writer.write(b"no length\r\n")
        assert b"HTTP/1.1 400" not in await read_all(reader)
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING] == []


async def test_an_mcp_message_must_end_in_time() -> None:
    async with serve(body_seconds=0.3) as served, connect(served) as (reader, writer):
        writer.write(encode_request("/mcp", "content-type: application/json", content=b" " * 1000)[:-1])
        assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")


def make_frame(code: int, content: bytes = b"", *, is_last: bool = True) -> bytes:
    """Return a frame of a WebSocket from a client, of at most 125 bytes of content."""
    return bytes([0x80 * is_last | code, 0x80 | len(content)]) + bytes(4) + content


@each_case(
    ("first", "frame"),
    [
        (b"", make_frame(9, b"p" * 125)),
        (b"", make_frame(2)),
        (make_frame(2, is_last=False), make_frame(0, is_last=False)),
    ],
    ids=["pings", "empty messages", "empty parts"],
)
async def test_a_flood_of_a_web_socket_ends_it(served: Served, first: bytes, frame: bytes) -> None:
    path = await served.open_sandbox(terminals=True)
    key = f"sec-websocket-key: {b64encode(os.urandom(16)).decode()}"
    async with connect(served) as (reader, writer):
        offer = ("upgrade: websocket", "connection: upgrade", "sec-websocket-version: 13", key)
        writer.write(encode_request(f"{path}/terminal", *offer))
        assert b" 101 " in await reader.readline()
        writer.write(first)
        assert await send_until_closed(writer, frame * 10_000, 128 * MIB) < 128 * MIB
    await served.http.delete(path)


@each_case("chunked", [False, True])
async def test_an_offer_of_another_protocol_is_ignored(served: Served, chunked: bool) -> None:
    body = json.dumps({"code": "print(6 * 7)", "language": "python"}).encode()
    framing = b"transfer-encoding: chunked" if chunked else b"content-length: %d" % len(body)
    content = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if chunked else body
    # As `curl --http2` and the client of Java send it.
    offer = b"connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n"
    head = f"POST /{TOKEN}/run_code HTTP/1.1\r\nhost: a\r\n".encode()
    first = head + framing + b"\r\n" + offer + b"\r\n" + content
    second = b"GET /health HTTP/1.1\r\nhost: a\r\nconnection: close, upgrade\r\nupgrade: h2c\r\n\r\n"
    async with connect(served) as (reader, writer):
        for piece in (first[:30], first[30:-5], first[-5:] + second):
            writer.write(piece)
            await writer.drain()
            # The service must not depend on getting a request at once.
            await served.http.get("/health")
        reply = await read_all(reader)
    assert reply.count(b"HTTP/1.1 200 ") == 2
    assert b"42" in reply


@each_case("path", ["/docs/more/", "/docs/run_code"])
async def test_a_slash_too_many_is_an_unknown_path_and_no_redirect(served: Served, path: str) -> None:
    response = await served.http.get(path)
    assert (response.status_code, response.json()["error"]["code"]) == (404, "unknown_path")


async def test_a_slash_at_the_end_of_a_path_leads_to_the_same_page(served: Served) -> None:
    with_slash, without = await served.http.get("/docs/"), await served.http.get("/docs")
    assert (with_slash.status_code, with_slash.text) == (200, without.text)


async def test_a_client_that_ends_its_side_gets_the_replies_to_all_of_its_requests(served: Served) -> None:
    async with connect(served) as (reader, writer):
        writer.write(encode_program("print(6 * 7)") + encode_program("print(6 * 8)"))
        writer.write_eof()
        reply = await read_all(reader)
    assert reply.startswith(b"HTTP/1.1 100 ")
    assert reply.count(b"HTTP/1.1 200 ") == 2
    assert b"42" in reply
    assert b"48" in reply


@each_case("waiting", [0, 1], ids=["one request", "and one that waits"])
async def test_a_client_that_closes_after_its_request_frees_its_sandbox(
    served: Served, monkeypatch: pytest.MonkeyPatch, waiting: int
) -> None:
    # The write of a second interim reply would notice it, too.
    monkeypatch.setattr(connections, "INTERIM_SECONDS", math.inf)
    async with connect(served) as (_, writer):
        writer.write(encode_program(SLEEP) * (1 + waiting))
        await wait_for_work(served, 1)
    await wait_for_work(served, 0)


async def test_a_client_that_reads_the_interim_reply_and_goes_frees_its_sandbox(
    served: Served,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "INTERIM_SECONDS", 0.1)
    async with connect(served) as (reader, writer):
        writer.write(encode_program(SLEEP))
        writer.write_eof()
        assert (await reader.readline()).startswith(b"HTTP/1.1 100 ")
    await wait_for_work(served, 0)


async def test_the_end_of_the_stream_ends_a_request_of_http_1_0(served: Served) -> None:
    async with connect(served) as (reader, writer):
        writer.write(encode_program(SLEEP, version="1.0"))
        await wait_for_work(served, 1)
        writer.write_eof()
        assert await read_all(reader) == b""
        await wait_for_work(served, 0)


async def test_the_end_of_the_stream_within_a_body_closes_the_connection(served: Served) -> None:
    async with connect(served) as (reader, writer):
        writer.write(encode_program("print(1)")[:-1])
        writer.write_eof()
        assert await read_all(reader) == b""
