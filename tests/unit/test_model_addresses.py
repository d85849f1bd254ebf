"""A model server that is down, an address that is wrong, and a proxy in between: each is named at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from model_server import ModelServer, RawReply, completion, error

from harness.models import client as client_module
from harness.models import concurrency
from harness.models.client import open_client
from harness.models.endpoint import Endpoint, describe_page, describe_proxy, list_likely_urls
from harness.models.messages import Message, ModelReply, ModelRequest, Role
from harness.models.server_errors import ModelError, ModelRefusedError

HELLO = ModelRequest((Message(Role.USER, "hello"),))
PAGE = "<!DOCTYPE html>\n<html><head><title>Open WebUI</title></head><body></body></html>"
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "FIRST_BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr(concurrency, "SHORT_FAULT_SECONDS", 0.0)


async def ask(url: str, **settings: Any) -> ModelReply:
    async with open_client(Endpoint(model="scripted", base_url=url, **settings)) as client:
        return await client.ask(HELLO)


@contextlib.contextmanager
def closed_port() -> Iterator[int]:
    """Yield a port without a listener."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        yield listener.getsockname()[1]


PAGES = [
    RawReply(200, PAGE, {"content-type": "text/html"}),
    RawReply(200, "\n<html lang='en'><body>hi</body></html>", {"content-type": "text/html"}),
    RawReply(200, f"<!-- build 7 -->\n{PAGE}"),
    RawReply(200, f"\ufeff{PAGE}"),
    RawReply(400, PAGE),
    RawReply(404, PAGE),
    RawReply(405, PAGE),
    RawReply(405, {"detail": "Method Not Allowed"}),
    RawReply(501, "<!DOCTYPE HTML>\n<html><head><title>Error response</title></head></html>"),
    RawReply(403, PAGE),
    RawReply(404, {"detail": "Not Found"}),
    RawReply(404, "404 page not found"),
]


async def test_an_address_that_is_not_that_of_an_api_ends_the_run_at_the_first_request(
    server: ModelServer,
) -> None:
    offenders: list[Any] = []
    for page in PAGES:
        server.asked.clear()
        server.script = lambda asked, page=page: page  # type: ignore[misc]
        try:
            await ask(server.url)
        except ModelRefusedError as refused:
            is_page = str(page.body).lstrip("\ufeff\n")[:1] == "<"
            is_right = not is_page or ("a web page" in str(refused) and "/api/v1" in (refused.hint or ""))
            if len(server.asked) != 1 or not is_right:
                offenders.append((page, len(server.asked), str(refused), refused.hint))
        else:
            offenders.append(page)
    assert offenders == []


async def test_a_page_of_a_server_that_has_answered_before_is_retried(
    server: ModelServer, fast: None
) -> None:
    server.script = lambda asked: RawReply(200, PAGE) if asked.number == 1 else completion("hi")
    async with open_client(Endpoint(model="scripted", base_url=server.url)) as client:
        await client.ask(HELLO)
        assert (await client.ask(HELLO)).retries == 1


async def test_the_hint_names_the_address_at_which_the_api_answers() -> None:
    """The page of a web interface is at the root, and its API is below it."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readline()).split()[1]
        is_api = path == b"/openai/v1/models"
        body = b'{"data": []}' if is_api else PAGE.encode()
        kind = b"application/json" if is_api else b"text/html"
        head = b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        writer.write(head % (kind, len(body)) + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        with pytest.raises(ModelRefusedError, match=r"a web page \('Open WebUI'\)") as refused:
            await ask(f"http://127.0.0.1:{port}")
    assert refused.value.hint == (
        f"the right URL is likely to be --base-url http://127.0.0.1:{port}/openai/v1"
    )


def test_the_likeliest_url_is_the_first() -> None:
    likely = {
        "http://localhost:8000": "http://localhost:8000/v1",
        "http://localhost:8000/": "http://localhost:8000/v1",
        "http://localhost:8000/v1/chat/completions": "http://localhost:8000/v1",
        "http://localhost:8000/v1/models": "http://localhost:8000/v1",
        "http://localhost:3000/v1": "http://localhost:3000/api/v1",
        "https://openrouter.ai": "https://openrouter.ai/api/v1",
        "https://api.groq.com/v1": "https://api.groq.com/openai/v1",
        "https://generativelanguage.googleapis.com": (
            "https://generativelanguage.googleapis.com/v1beta/openai"
        ),
        "https://gateway.example/team": "https://gateway.example/team/v1",
    }
    assert {url: found for url, right in likely.items() if (found := list_likely_urls(url)[0]) != right} == {}
    secure = list_likely_urls("http://h:443/v1", "The plain HTTP request was sent to HTTPS port")
    assert secure[0] == "https://h:443/v1"


def test_only_a_web_page_is_one() -> None:
    others = ["", "{}", "<p>busy</p>", "error <html>", '{"text": "<html>"}', "x" * 100_000 + PAGE]
    assert [text for text in others if describe_page(text)] == []


async def test_a_server_that_is_down_is_reported_at_the_first_try_and_asked_again(
    caplog: pytest.LogCaptureFixture, fast: None
) -> None:
    with closed_port() as port, pytest.raises(ModelError):
        await ask(f"http://127.0.0.1:{port}/v1", request_seconds=0.1)
    (told,) = list_warnings(caplog)
    assert told.startswith(f"model 'scripted': the server at http://127.0.0.1:{port}/v1 does not answer: ")
    assert told.endswith("harness goes on trying")


async def test_a_server_that_drops_packets_is_reported_before_the_connection_times_out(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concurrency, "SILENT_SECONDS", 0.0)
    told = asyncio.Event()

    async def find_obstacle() -> str:
        told.set()
        return "no connection within 1.5 s"

    with concurrency.Outage(Endpoint(model="m", base_url="http://10.0.0.1/v1")).watch(find_obstacle):
        await told.wait()
        await asyncio.sleep(0)
    assert ["no connection within 1.5 s" in text for text in list_warnings(caplog)] == [True]


async def test_a_slow_server_is_not_reported(
    server: ModelServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concurrency, "SILENT_SECONDS", 0.0)
    server.script = lambda asked: RawReply(200, completion("late"), wait_seconds=0.3)
    assert (await ask(server.url)).text == "late"
    assert list_warnings(caplog) == []


async def test_an_outage_is_reported_once_and_so_is_its_end(
    server: ModelServer, caplog: pytest.LogCaptureFixture, fast: None
) -> None:
    server.script = lambda asked: error(503, "loading") if asked.number in (1, 2, 3) else completion("hi")
    async with open_client(Endpoint(model="scripted", base_url=server.url)) as client:
        for _ in range(3):
            await client.ask(HELLO)
    down, up = list_warnings(caplog)
    assert "does not answer: HTTP 503: loading" in down
    assert up == "model 'scripted': the server answers again"


async def test_a_limit_of_the_rate_is_no_outage(
    server: ModelServer, caplog: pytest.LogCaptureFixture, fast: None
) -> None:
    server.script = lambda asked: error(429, "slow down") if asked.number < 3 else completion("hi")
    await ask(server.url)
    assert list_warnings(caplog) == []


def list_warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_proxy_before_a_local_server_is_named(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fast: None
) -> None:
    with closed_port() as port:
        monkeypatch.setenv("HTTP_PROXY", f"http://user:secret@127.0.0.1:{port}")
        monkeypatch.setenv("http_proxy", f"http://user:secret@127.0.0.1:{port}")
        monkeypatch.setattr(client_module, "UNREACHED_SECONDS", 0.02)
        with pytest.raises(ModelRefusedError) as refused:
            await ask(server.url)
    words = f"go through the proxy http://127.0.0.1:{port} of http_proxy, although the server is a local one"
    assert words in (refused.value.hint or "")
    assert "set NO_PROXY=127.0.0.1" in (refused.value.hint or "")
    (told,) = list_warnings(caplog)
    assert words in told
    assert "secret" not in f"{told}{refused.value.hint}"


PROXY_CASES: list[tuple[dict[str, str], str, str | None]] = [
    ({"HTTP_PROXY": "http://p:3128"}, "http://localhost:8000/v1", "http://p:3128 of HTTP_PROXY, although"),
    ({"http_proxy": "p:3128"}, "http://192.168.1.7:8000/v1", "http://p:3128 of http_proxy, although"),
    ({"ALL_PROXY": "socks5://p:1080"}, "http://gpu-box:8000/v1", "socks5://p:1080 of ALL_PROXY, although"),
    ({"HTTPS_PROXY": "http://p:1"}, "https://[::1]:8000/v1", "http://p:1 of HTTPS_PROXY, although"),
    ({"HTTPS_PROXY": "http://p:1"}, "https://api.openai.com/v1", "http://p:1 of HTTPS_PROXY"),
    ({"HTTP_PROXY": "http://p:1", "NO_PROXY": "localhost"}, "http://localhost:8000/v1", None),
    ({"HTTP_PROXY": "http://p:1", "NO_PROXY": "*"}, "http://localhost:8000/v1", None),
    ({"HTTPS_PROXY": "http://p:1"}, "http://localhost:8000/v1", None),
    ({}, "http://localhost:8000/v1", None),
]


def test_the_proxy_of_the_environment_is_found() -> None:
    offenders = []
    for environment, url, words in PROXY_CASES:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            found = describe_proxy(url)
        is_local_named = found is None or ("although" in found) == ("although" in (words or ""))
        if (found is None) != (words is None) or (words or "") not in (found or "") or not is_local_named:
            offenders.append((environment, url, found))
    assert offenders == []
