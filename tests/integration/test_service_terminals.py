"""Terminals in sandboxes of the service, with a real client of WebSockets."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
import pytest_asyncio
from case_checks import each_case
from service_fixtures import TOKEN, Served, share_service
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

BEARER = {"authorization": f"Bearer {TOKEN}"}
pytestmark = pytest.mark.asyncio(loop_scope="module")
served = share_service()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(served: Served) -> str:
    """The path of a sandbox that no test ends."""
    return await served.open_sandbox(terminals=True)


def open_terminal(served: Served, path: str, query: str = "", **options: Any) -> connect:
    url = served.url.replace("http", "ws", 1) + f"{path}/terminal?{query}"
    options.setdefault("additional_headers", BEARER)
    return connect(url, proxy=None, **options)


async def read_until(socket: ClientConnection, wanted: bytes) -> bytes:
    seen = b""
    while wanted not in seen:
        message = await socket.recv()
        assert isinstance(message, bytes), (message, seen)
        seen += message
    return seen


async def read_end(socket: ClientConnection) -> dict[str, Any]:
    """Return the last message, which is text."""
    while isinstance(message := await socket.recv(), bytes):
        pass
    end: dict[str, Any] = json.loads(message)
    return end


async def test_keys_reach_the_program_and_the_screen_comes_back(served: Served, sandbox: str) -> None:
    async with open_terminal(served, sandbox) as socket:
        await socket.send(b"echo $((6 * 7)); tty\n")
        await read_until(socket, b"42\r\n/dev/pts/")
        await socket.send(b"exit 3\n")
        assert await read_end(socket) == {"type": "exit", "exit_code": 3, "ended": "exited"}
        with pytest.raises(ConnectionClosed):
            await socket.recv()
    assert socket.close_code == 1000


async def test_the_size_of_the_screen_changes(served: Served, sandbox: str) -> None:
    async with open_terminal(served, sandbox, "rows=30&columns=100") as socket:
        await socket.send(b"stty size\n")
        await read_until(socket, b"\n30 100")
        await socket.send(json.dumps({"type": "resize", "rows": 12, "columns": 34}))
        await socket.send(b"stty size\n")
        await read_until(socket, b"\n12 34")


async def test_every_byte_survives(served: Served, sandbox: str) -> None:
    data = bytes(range(128, 256)) * 8
    query = "argv=/bin/bash&argv=-c&argv=stty+raw+-echo;echo+ready;head+-c+1024"
    async with open_terminal(served, sandbox, query) as socket:
        await read_until(socket, b"ready")
        await socket.send(data)
        assert data in await read_until(socket, data)


@each_case(
    ("options", "status"),
    [
        ({"additional_headers": {}}, 401),
        ({"origin": "https://elsewhere.example"}, 403),
        ({"origin": "null"}, 403),
    ],
    ids=["no token", "another site", "a file"],
)
async def test_a_stranger_gets_no_terminal(
    served: Served, sandbox: str, options: dict[str, Any], status: int
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        await open_terminal(served, sandbox, **options).__aenter__()
    assert refused.value.response.status_code == status


@each_case(
    ("path", "query", "status"),
    [
        ("/v1/sandboxes/wrong", "", 404),
        ("/nothing", "", 404),
        (None, "rows=0", 422),
        (None, "color=red", 422),
        (None, "argv=sleep&argv=1", 422),
    ],
)
async def test_a_terminal_that_cannot_be_opened_is_refused_with_a_status(
    served: Served,
    sandbox: str,
    path: str | None,
    query: str,
    status: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        await open_terminal(served, path or sandbox, query).__aenter__()
    assert refused.value.response.status_code == status
    assert json.loads(refused.value.response.body or b"")["error"]["message"]
    # A client must not be able to fill the log with errors.
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING] == []


async def test_a_sandbox_without_terminals_refuses_one(served: Served) -> None:
    path = await served.open_sandbox()
    with pytest.raises(InvalidStatus) as refused:
        await open_terminal(served, path).__aenter__()
    assert json.loads(refused.value.response.body or b"")["error"]["code"] == "no_terminals"
    await served.http.delete(path)


async def test_a_message_that_is_no_request_closes_the_terminal(served: Served, sandbox: str) -> None:
    async with open_terminal(served, sandbox) as socket:
        await socket.send("[" * 10_000)
        assert (await read_end(socket))["error"]["code"] == "invalid_json"
        with pytest.raises(ConnectionClosed):
            await socket.recv()
    assert socket.close_code == 4400


async def test_a_terminal_ends_with_its_deleted_sandbox(served: Served) -> None:
    path = await served.open_sandbox(terminals=True)
    async with open_terminal(served, path) as socket:
        await socket.send(b"echo ready\n")
        await read_until(socket, b"\nready")
        await served.http.delete(path)
        assert (await read_end(socket))["error"]["code"] == "sandbox_deleted"


async def test_a_client_that_leaves_ends_its_program(served: Served, sandbox: str) -> None:
    async with open_terminal(served, sandbox, "argv=/bin/sleep&argv=1000") as socket:
        while not (await served.http.get(sandbox)).json()["busy"]:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        socket.transport.abort()
    while (await served.http.get(sandbox)).json()["busy"]:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    script = "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep 'sleep 100[0]'"
    body = {"argv": ["/bin/bash", "-c", script]}
    while (await served.http.post(f"{sandbox}/exec", json=body)).json()["exit_code"] == 0:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
