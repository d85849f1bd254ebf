"""Hostile bytes on a connection to the relay: refused, bounded in size and time, and logged nowhere."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from case_checks import each_case
from model_server import ModelServer
from relay_fixtures import TOKEN, Relay, connect_to, exchange, open_relay
from starlette.types import Receive, Scope, Send
from streamed_events import stream_completion

from harness.models.relay import exchange as exchange_module
from harness.models.relay import serving
from harness.models.relay.app import make_relay_app
from harness.models.relay.exchange import Answer
from harness.models.relay.serving import serve_app

BODY = json.dumps({"model": "x", "messages": [{"role": "user", "content": "hello"}]}).encode()
KEY = f"Authorization: Bearer {TOKEN}\r\n"


def request(
    path: str = "/v1/chat/completions",
    *,
    method: str = "POST",
    version: str = "1.1",
    fields: str = KEY,
    body: bytes = BODY,
) -> bytes:
    """Return the bytes of a request that asks for the end of its connection."""
    head = f"{method} {path} HTTP/{version}\r\nHost: relay\r\nConnection: close\r\n"
    return f"{head}{fields}Content-Length: {len(body)}\r\n\r\n".encode() + body


def read_status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


@pytest.fixture
async def relay(server: ModelServer) -> AsyncIterator[Relay]:
    async with open_relay(server) as opened:
        yield opened


async def test_a_plain_request_over_a_socket_pair_is_answered(relay: Relay) -> None:
    answer = await exchange(relay.connect(), request())
    assert read_status(answer) == 200
    head = answer.partition(b"\r\n\r\n")[0].lower()
    assert b"server:" not in head
    assert b"date:" not in head


async def test_tricks_with_the_head_are_refused(
    relay: Relay, server: ModelServer, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    chunked = f"{KEY}Transfer-Encoding: chunked\r\n"
    tricks = {
        "two slashes": request("//v1/chat/completions"),
        "dots": request("/v1/x/../chat/completions"),
        "encoded": request("/v1/chat%2Fcompletions"),
        "encoded letter": request("/v1/chat/completion%73"),
        "absolute": request("http://api.openai.com/v1/chat/completions"),
        "assistants": request("/v1/assistants"),
        "files": request("/v1/files", method="GET"),
        "batches": request("/v1/batches"),
        "host": request("/proc/self/environ", method="GET"),
        "connect": request("api.openai.com:443", method="CONNECT"),
        "get": request(method="GET"),
        "http 1.0": request(version="1.0"),
        "websocket": request(fields=f"{KEY}Upgrade: websocket\r\nSec-WebSocket-Key: x\r\n"),
        "two tokens": request(fields=f"{KEY}Authorization: Bearer x\r\n"),
        "two kinds of token": request(fields=f"{KEY}x-api-key: x\r\n"),
        "no token": request(fields=""),
        "basic": request(fields=f"Authorization: Basic {TOKEN}\r\n"),
        "longer token": request(fields=f"Authorization: Bearer {TOKEN}x\r\n"),
        "foreign letters": request(fields="Authorization: Bearer \xe9\r\n"),
        "two hosts": request(fields=f"{KEY}Host: other\r\n"),
        "compressed": request(fields=f"{KEY}Content-Encoding: gzip\r\n"),
        "two lengths": request(fields=chunked),
        "garbage": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        "folded": request(fields=f"{KEY}X: a\r\n b\r\n").replace(b" HTTP/1.1", b"  HTTP/1.1", 1),
        "large head": request(fields=f"{KEY}X: {'a' * 100_000}\r\n"),
        "no json": request(body=b"{"),
        "nested": request(body=b"[" * 200_000),
        "no object": request(body=b"[]"),
        "other encoding": request(body=BODY.decode().encode("utf-16")),
        "not finite": request(body=BODY.replace(b'"x"', b"NaN")),
    }
    statuses = {name: read_status(await exchange(relay.connect(), each)) for name, each in tricks.items()}
    assert {name: status for name, status in statuses.items() if not 400 <= status < 500} == {}
    assert server.asked == []
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert capfd.readouterr().err == ""


async def test_a_body_that_is_announced_too_large_is_not_read(relay: Relay) -> None:
    head = request().replace(f"Content-Length: {len(BODY)}".encode(), b"Content-Length: 99999999999999999")
    assert read_status(await exchange(relay.connect(), head)) == 413


async def test_a_body_without_an_end_is_cut(
    relay: Relay, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange_module, "MAX_BODY_BYTES", 500_000)
    head = request(body=b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    endless = head + b"10000\r\n" + b"a" * 65536 + b"\r\n" + (b"10000\r\n" + b"a" * 65536 + b"\r\n") * 20
    assert read_status(await exchange(relay.connect(), endless)) == 413
    assert server.asked == []


async def test_bytes_of_all_bodies_together_are_bounded(
    relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.models.relay.app.MOST_BODY_BYTES", 1000)
    app = make_relay_app(TOKEN, model=relay.session, mcp=None)
    async with serve_app(app) as server:
        answer = await exchange(connect_to(server), request(body=BODY + b" " * 1000))
    assert read_status(answer) == 429


async def test_a_body_with_many_values_is_refused_before_its_end(
    relay: Relay, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.models.relay.app.MOST_BODY_BYTES", 100_000)
    app = make_relay_app(TOKEN, model=relay.session, mcp=None)
    async with serve_app(app) as served:
        ours = connect_to(served)
        # The body would end after twice as many bytes.
        answer = await exchange(ours, request(body=b"[" + b"[]," * 20_000)[:-30_000])
    assert read_status(answer) == 413
    assert b"too many values" in answer
    assert server.asked == []


@each_case("begun", [b"", b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nX: "])
async def test_a_head_that_does_not_end_is_cut_off(
    relay: Relay, monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(exchange_module, "HEAD_SECONDS", 0.05)
    assert await exchange(relay.connect(), begun) == b""


async def test_the_second_head_of_a_connection_must_end_too(
    relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange_module, "HEAD_SECONDS", 0.05)
    first = request().replace(b"Connection: close\r\n", b"")
    answer = await exchange(relay.connect(), first + b"POST /v1")
    assert answer.count(b"HTTP/1.1") == 1


async def test_a_body_that_stops_is_cut_off(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_module, "BODY_SECONDS", 0.05)
    assert read_status(await exchange(relay.connect(), request()[:-5])) == 408


async def test_a_client_that_takes_nothing_loses_its_connection(
    relay: Relay, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange_module, "SEND_SECONDS", 0.05)
    server.script = lambda asked: stream_completion(*["a" * 10_000] * 400)
    with relay.connect() as connected:
        body = BODY[:-1] + b', "stream": true}'
        await asyncio.get_running_loop().sock_sendall(connected, request(body=body))
        await relay.transcript.has_request.wait()
    assert relay.requests[0]["cut_off"]


async def test_a_client_that_leaves_while_it_waits_frees_its_place(relay: Relay, server: ModelServer) -> None:
    server.wait_seconds = 30
    with relay.connect() as connected:
        await asyncio.get_running_loop().sock_sendall(connected, request())
        await asyncio.to_thread(server.wait_until_asked)
    await relay.transcript.has_request.wait()
    assert relay.requests[0]["usage_is_estimated"]


async def test_nothing_answers_after_the_end_of_the_block(server: ModelServer) -> None:
    async with open_relay(server) as relay:
        server.wait_seconds = 30
        waiting, idle = relay.connect(), relay.connect()
        await asyncio.get_running_loop().sock_sendall(waiting, request())
        await asyncio.to_thread(server.wait_until_asked)
    assert await exchange(waiting, b"") == b""
    assert await exchange(idle, request()) == b""
    assert await exchange(relay.connect(), request()) == b""


async def test_connections_beyond_the_bound_are_closed(relay: Relay) -> None:
    app = make_relay_app(TOKEN, model=relay.session, mcp=None)
    async with serve_app(app, max_connections=2) as server:
        connections = [connect_to(server) for _ in range(3)]
        answers = [read_status(await exchange(each, request())) for each in reversed(connections)]
    assert answers == [0, 200, 200]


@each_case("begun", [b"", b"POST /v1"])
async def test_a_full_server_closes_the_connection_that_has_waited_longest(
    relay: Relay, monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(serving, "WAIT_IF_FULL_SECONDS", 0.0)
    app = make_relay_app(TOKEN, model=relay.session, mcp=None)
    loop = asyncio.get_running_loop()
    async with serve_app(app, max_connections=2) as server:
        waiting = []
        for _ in range(2):
            ours = connect_to(server)
            await loop.sock_sendall(ours, begun)
            waiting.append(ours)
        await asyncio.sleep(0.01)
        ours = connect_to(server)
        assert read_status(await exchange(ours, request())) == 200
        assert await exchange(waiting[0], b"") == b""
        assert read_status(await exchange(waiting[1], request()[len(begun) :])) == 200


async def test_a_defect_of_harness_shows_the_client_nothing_of_the_host(
    relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **named: Any) -> None:
        raise RuntimeError("/home/user/secret")

    monkeypatch.setattr(relay.session, "forward", fail)
    answer = await exchange(relay.connect(), request())
    assert read_status(answer) == 500
    assert b"secret" not in answer
    assert "/home/user/secret" in str(relay.transcript.entries)


async def test_the_tools_get_no_message_with_many_values(
    relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.models.relay.app.MAX_CALL_VALUES", 100)

    async def tools(scope: Scope, receive: Receive, send: Send) -> None:
        await Answer(send).send_whole(200, b"{}")

    app = make_relay_app(TOKEN, model=None, mcp=tools)
    async with serve_app(app) as served:
        answers = []
        for count in (50, 51):
            ours = connect_to(served)
            body = json.dumps(dict.fromkeys(map(str, range(count)), "[,")).encode()
            answers.append(await exchange(ours, request("/mcp", body=body)))
    assert list(map(read_status, answers)) == [200, 413]
    assert b"the body has more than 100 values" in answers[1]


async def test_the_tools_get_a_request_only_with_the_token(relay: Relay) -> None:
    reached: list[str] = []

    async def tools(scope: Scope, receive: Receive, send: Send) -> None:
        reached.append(scope["path"])
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    app = make_relay_app(TOKEN, model=None, mcp=tools)
    async with serve_app(app) as server:
        statuses = []
        for fields, path in ((KEY, "/mcp"), ("", "/mcp"), (KEY, "/mcp/x"), (KEY, "/v1/models")):
            ours = connect_to(server)
            statuses.append(read_status(await exchange(ours, request(path, fields=fields))))
    assert (statuses, reached) == ([200, 401, 404, 404], ["/mcp"])
