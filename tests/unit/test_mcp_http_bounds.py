"""Bounds on MCP servers by HTTP: the values and messages of a response, and the rate of reconnections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest
from case_checks import each_case
from mcp_http import EVENTS, RawServer, serve

from harness.models.relay.mcp_servers import host_process
from harness.models.relay.mcp_servers.connection import connect
from harness.models.relay.mcp_servers.host_process import BoundedTransport, ResponseBounds
from harness.models.relay.mcp_servers.settings import McpServer

BOUNDS = ResponseBounds(most_bytes=1000, most_values=10, most_events=3)
RESULT = b'{"jsonrpc": "2.0", "id": ID, "result": {"content": [{"type": "text", "text": "found"}]}}'
MANY_VALUES = b'{"jsonrpc": "2.0", "id": ID, "result": {"content": [' + b"{}," * 30_000 + b"{}]}}"


class Pieces(httpx2.AsyncByteStream):
    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


async def read(content: bytes, content_type: str = EVENTS, *, size: int = 7) -> bytes:
    """Return a response of these bytes, in pieces of this size, as the transport passes it on."""
    pieces = [content[start : start + size] for start in range(0, len(content), size)]

    async def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": content_type}, stream=Pieces(pieces))

    transport = BoundedTransport(httpx2.MockTransport(answer), BOUNDS)
    async with httpx2.AsyncClient(transport=transport) as client:
        response = await client.get("http://localhost/mcp")
    assert response.content == content
    return content


async def test_a_response_within_the_bounds_passes() -> None:
    await read(b'{"a": [1, 2, 3, 4, 5, 6]}', "application/json")
    await read(b": hello\r\nid: 1\r\ndata: [1, 2, 3, 4, 5, 6, 7]\r\n\r\n" * 3)


async def test_a_json_response_with_many_values_fails() -> None:
    with pytest.raises(httpx2.StreamError, match="more than 10 values"):
        await read(b"[1,2,3,4,5,6,7,8,9,10,11]", "application/json; charset=utf-8")


@each_case(
    "content",
    [
        b"data: [1,2,3,4,5,6,7,8,9,10,11]\n\n",
        b'x: "\ndata: [1,2,3,4,5,6,7,8,9,10,11]\n\n',
        b'id: "\rdata: [1,2,3,4,5,6\rdata: ,7,8,9,10,11]\r\r',
        b"data: [1,2,3,4,5,6\r\ndata: ,7,8,9,10,11]\r\n\r\n",
        b"data: [1,2,3,4,5,6,7,8,9,10,11]\r",
        b"data:\n" * 11 + b"\n",
    ],
    ids=["one line", "quote before", "CR", "CRLF", "no end", "lines"],
)
@each_case("size", [1, 7, 1000])
async def test_an_event_with_many_values_fails_however_it_is_cut(content: bytes, size: int) -> None:
    with pytest.raises(httpx2.SSEError, match="more than 10 values"):
        await read(content, size=size)


async def test_a_response_with_many_events_fails() -> None:
    with pytest.raises(httpx2.SSEError, match="more than 3 messages"):
        await read(b"data: 1\n\n" * 4)


async def test_a_response_with_many_bytes_fails() -> None:
    with pytest.raises(httpx2.SSEError, match="longer than 1,000 bytes"):
        await read(b": " + b"x" * 1000)


async def test_the_encoding_of_events_is_that_in_which_their_values_are_counted() -> None:
    async def answer(request: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": "text/event-stream; charset=cp037"}
        return httpx2.Response(200, headers=headers, stream=Pieces([b"data: 1\n\n"]))

    transport = BoundedTransport(httpx2.MockTransport(answer), BOUNDS)
    async with httpx2.AsyncClient(transport=transport) as client:
        assert (await client.get("http://localhost/mcp")).text == "data: 1\n\n"


@each_case(
    ("before", "content_type"), [(b"", "application/json"), (b"data: ", EVENTS)], ids=["JSON", "events"]
)
async def test_a_result_with_many_values_costs_its_call_alone(before: bytes, content_type: str) -> None:
    server = RawServer(before + MANY_VALUES + b"\n\n", content_type)
    with serve(server) as url:
        async with connect(McpServer(name="test", url=url)) as opened:
            failed = await opened.call("look", {})
            server.content = before + RESULT + b"\n\n"
            found = await opened.call("look", {})
    assert failed.is_error
    assert "a message has more than 50,000 values" in failed.text
    assert (found.text, found.is_error) == ("found", False)


async def test_a_server_cannot_make_harness_reconnect_without_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host_process, "FREE_RECONNECTIONS", 3)
    monkeypatch.setattr(host_process, "RECONNECTION_SECONDS", 3600.0)
    server = RawServer(b"retry: 0\nid: 1\ndata: \n\n")
    server.stream = server.content
    with serve(server) as url:
        async with connect(McpServer(name="test", url=url, tool_timeout_ms=200)) as opened:
            result = await opened.call("look", {})
    assert "did not answer within 0.2 s" in result.text
    assert 1 <= server.opened <= 3


async def test_reconnections_have_a_pause_only_after_many(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def note(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", note)
    pace = host_process._Pace(2, 100.0)
    for _ in range(4):
        await pace.wait()
    assert [round(each, -1) for each in waits] == [100, 200]
