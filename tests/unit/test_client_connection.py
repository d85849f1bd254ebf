"""The client's address of a service, and the requests that it sends again."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest
from case_checks import each_case

from harness import SandboxClosed, SandboxError, SandboxOutOfDisk, UsageError
from harness.client import ServiceBusyError, ServiceUnreachableError, connect
from harness.client import connection as client_connection
from harness.client.connection import Connection, Refusal, build_error, read_address
from harness.core.errors import HarnessError

TOKEN = "a-token-of-the-tests"


@each_case(
    ("url", "token", "expected"),
    [
        (f"http://127.0.0.1:8600/{TOKEN}", None, "http://127.0.0.1:8600"),
        (f"http://127.0.0.1:8600/{TOKEN}/", None, "http://127.0.0.1:8600"),
        (f"https://host/prefix/{TOKEN}", None, "https://host/prefix"),
        ("https://host/prefix/", TOKEN, "https://host/prefix"),
        (f"http://[::1]:8600/{TOKEN}", TOKEN, "http://[::1]:8600"),
    ],
)
def test_the_token_is_the_last_part_of_the_url_or_an_argument(
    url: str, token: str | None, expected: str
) -> None:
    address = read_address(url, token)
    assert (address.url, address.token.get_secret_value()) == (expected, TOKEN)


@each_case(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8600/", "a-token-of-the-environment"),
        (f"http://127.0.0.1:8600/{TOKEN}", TOKEN),
    ],
)
def test_a_url_without_a_path_has_the_token_of_the_environment(
    url: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_SERVE_TOKEN", "a-token-of-the-environment")
    assert read_address(url).token.get_secret_value() == expected


@each_case(
    "url",
    [
        "http://127.0.0.1:8600",
        "http://127.0.0.1:8600/",
        f"127.0.0.1:8600/{TOKEN}",
        f"ftp://host/{TOKEN}",
        f"http:///{TOKEN}",
        f"http://host:port/{TOKEN}",
        f"http://user:{TOKEN}@host/{TOKEN}",
        f"http://host/{TOKEN}?x=1",
        f"http://host/{TOKEN}%20",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_its_token(url: str) -> None:
    with pytest.raises(UsageError) as raised:
        connect(url)
    assert TOKEN not in raised.value.message


@each_case("seconds", [-1.0, float("inf"), float("nan")])
def test_a_wait_that_cannot_be_used_is_refused(seconds: float) -> None:
    with pytest.raises(UsageError, match="wait_seconds"):
        connect(f"http://host/{TOKEN}", wait_seconds=seconds)


@each_case(
    ("status", "code", "expected"),
    [
        (410, "sandbox_out_of_disk", SandboxOutOfDisk),
        (410, "sandbox_deleted", SandboxClosed),
        (410, "sandbox_expired", SandboxError),
        (404, "unreadable_file", UsageError),
        (422, "invalid_request", UsageError),
        (504, "busy", ServiceBusyError),
        (500, "internal_error", SandboxError),
        (502, "", ServiceUnreachableError),
    ],
)
def test_an_error_has_the_class_of_a_local_one(status: int, code: str, expected: type[HarnessError]) -> None:
    assert type(build_error(Refusal(status, code, "text"), "http://host")) is expected


async def send(answer: Callable[[int], httpx.Response], *, wait_seconds: float) -> tuple[bytes | None, int]:
    """Return the reply to a request, None if it fails, and the number of tries."""
    tries = 0

    def handle(_request: httpx.Request) -> httpx.Response:
        nonlocal tries
        tries += 1
        return answer(tries)

    address = read_address(f"http://host/{TOKEN}")
    async with httpx.AsyncClient(transport=httpx.MockTransport(handle)) as http:
        connection = Connection(address, http, wait_seconds=wait_seconds)
        try:
            return await connection.request("POST", "/v1/sandboxes/id/exec", values={}), tries
        except HarnessError:
            return None, tries


def refuse(status: int, code: str, **headers: str) -> httpx.Response:
    return httpx.Response(status, json={"error": {"code": code, "message": "text"}}, headers=headers)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_connection, "_FIRST_PAUSE_SECONDS", 0.0001)


@each_case(("status", "code"), [(504, "busy"), (429, "too_many_requests"), (503, "draining")])
async def test_a_request_that_was_refused_before_it_began_is_sent_again(status: int, code: str) -> None:
    def answer(tried: int) -> httpx.Response:
        return httpx.Response(200, content=b"done") if tried == 3 else refuse(status, code)

    assert await send(answer, wait_seconds=5) == (b"done", 3)


@each_case(
    "response",
    [
        refuse(500, "internal_error"),
        refuse(410, "sandbox_failed"),
        refuse(503, "engine_unavailable"),
        httpx.Response(504, text="a gateway, behind which the command may run"),
        httpx.Response(429, text="a proxy"),
        refuse(504, "busy", **{"retry-after": "6"}),
    ],
    ids=["fault", "lost", "engine", "gateway", "proxy", "later than the wait"],
)
async def test_no_other_request_is_sent_again(response: httpx.Response) -> None:
    assert await send(lambda _tried: response, wait_seconds=5) == (None, 1)


async def test_a_lost_connection_is_no_reason_to_send_a_command_again() -> None:
    def answer(_tried: int) -> httpx.Response:
        raise httpx.RemoteProtocolError("the server disconnected")

    assert await send(answer, wait_seconds=5) == (None, 1)
