"""Connections to MCP servers of the user: real ones by the official package, and broken ones."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from case_checks import each_case
from effort import THOROUGH
from mcp_http import serve, take_lifespan
from starlette.responses import Response

from harness.models.relay.mcp_servers import connection
from harness.models.relay.mcp_servers.connection import (
    MAX_RESULT_CHARACTERS,
    ServerConnection,
    ServerError,
    connect,
)
from harness.models.relay.mcp_servers.settings import McpServer
from harness.models.relay.mcp_servers.tool_names import name_tools

SERVERS = Path(__file__).parents[1] / "mcp_servers"


@pytest.fixture(autouse=True)
def shorten_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait hardly for a program to exit by itself, because most broken servers here never do."""
    monkeypatch.setattr("harness.models.relay.mcp_servers.host_process.GRACE_SECONDS", 0.05)


def settings(file: str, *arguments: str, **changes: Any) -> McpServer:
    """Return the settings of a server in the folder of this test."""
    given = {"name": "test", "command": sys.executable, "args": [str(SERVERS / file), *arguments]}
    return McpServer.model_validate({**given, **changes})


@contextlib.asynccontextmanager
async def broken(how: str, **changes: Any) -> AsyncIterator[ServerConnection]:
    async with connect(settings("broken.py", how, **changes)) as opened:
        yield opened


async def read_fault(how: str, **changes: Any) -> str:
    """Return the reason why a server gives no tools."""
    with pytest.raises(ServerError) as caught:
        async with broken(how, **changes):
            raise AssertionError("it has given tools")
    return str(caught.value)


async def wait_for_end(*numbers: int) -> None:
    """Wait until no process runs. A zombie does not run, and init may take a second to remove it."""
    while any(map(is_running, numbers)):  # noqa: ASYNC110
        await asyncio.sleep(0.005)


def is_running(number: int) -> bool:
    try:
        return bool(psutil.Process(number).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


async def test_tools_of_a_server_are_listed_and_called() -> None:
    async with connect(settings("tools.py")) as opened:
        assert [tool.name for tool in opened.tools] == ["add", "fail", "fill", "submit"]
        result = await opened.call("add", {"a": 2, "b": 3})
        assert (result.text, result.is_error) == ("5", False)
        assert (await opened.call("add", {"a": "two", "b": 3})).is_error
        failed = await opened.call("fail", {"reason": "no such page"})
        assert failed.is_error
        assert "no such page" in failed.text
        long = await opened.call("fill", {"characters": 3 * MAX_RESULT_CHARACTERS})
        assert len(long.text) == MAX_RESULT_CHARACTERS
        assert "characters in all" in long.text[-60:]


async def test_a_server_gets_the_named_variables_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("DATABASE_URL", "postgres://")
    env = {"PLACE": "${DATABASE_URL}", "MODE": "fast", "SIZE": "${SIZE_OF_NOTHING:-4}"}
    async with broken("variables", env=env) as opened:
        found = json.loads((await opened.call("look", {})).text)
    assert [found[name] for name in env] == ["postgres://", "fast", "4"]
    assert "PATH" in found
    assert not {"OPENAI_API_KEY", "DATABASE_URL"} & found.keys()


async def test_a_server_that_died_stays_an_error() -> None:
    async with broken("die") as opened:
        first = await opened.call("look", {})
        assert "the MCP server 'test' failed" in first.text
        assert (await opened.call("look", {})).is_error


@each_case(
    ("how", "reason"),
    [
        ("flood", "sent more than 10,000 messages that answer nothing"),
        *(
            (how, "sent more than 10,000 messages that answer nothing")
            for how in ("flood-of-garbage", "flood-of-responses")
            if THOROUGH
        ),
        ("flood-of-large-messages", "sent more than 67,108,864 bytes that answer nothing"),
        ("endless-line", "a message is longer than 4,194,304 bytes"),
        ("many-values", "a message has more than 50,000 values"),
        ("wrong-result", "the result breaks the protocol at 'content'"),
        ("wrong-blocks", "the result breaks the protocol in "),
        ("wrong-id", "the tool did not answer within 0.05 s"),
        ("hang", "the tool did not answer within 0.05 s"),
        ("large", "a message is longer than 4,194,304 bytes"),
        ("die", "out of licences"),
    ],
)
async def test_a_broken_call_is_an_error(how: str, reason: str) -> None:
    limit = 50 if how in ("wrong-id", "hang") else 60_000
    async with broken(how, tool_timeout_ms=limit) as opened:
        result = await opened.call("look", {})
    assert result.is_error
    assert reason in result.text


async def test_a_server_that_cannot_be_used_gives_its_reason() -> None:
    exited, thousands, pages, late, none = await asyncio.gather(
        read_fault("exit-at-start"),
        read_fault("thousands"),
        read_fault("endless-pages"),
        read_fault("hang-at-start", startup_timeout_ms=50),
        read_fault("no-tools"),
    )
    assert "there is no licence for this server" in exited
    assert "more than 128 tools" in thousands
    assert "on more than 100 pages" in pages
    assert "did not list its tools within 0.05 s" in late
    assert "tools" in none
    with pytest.raises(ServerError, match="cannot be started"):
        async with connect(McpServer(name="gone", command="/nowhere/server")):
            pass


async def test_only_tools_with_a_sound_schema_are_shown() -> None:
    async with broken("invalid-schemas") as opened:
        named, left_out = name_tools({"test": opened.tools}, ["submit"])
    assert [each.name for each in named] == ["loose", "right"]
    assert named[0].tool.parameters["properties"] == {"a": {}}
    assert named[0].tool.parameters["required"] == ["a"]
    assert [tool for _, tool, _ in left_out] == ["wrong0", "wrong1", "wrong2"]


async def test_a_daemon_of_a_server_ends_with_the_block() -> None:
    async with broken("daemon") as opened:
        numbers = [int(number) for number in (await opened.call("look", {})).text.split()]
        below = [child.pid for child in psutil.Process(numbers[1]).children(recursive=True)]
        assert all(map(is_running, [*numbers, *below]))
    await wait_for_end(*numbers, *below)


async def test_a_deaf_server_is_killed() -> None:
    before = set(psutil.Process().children(recursive=True))
    async with broken("deaf"):
        started = [child.pid for child in set(psutil.Process().children(recursive=True)) - before]
        assert len(started) == 2  # the server, and the process that ends it
    await wait_for_end(*started)


async def test_a_cancelled_block_ends_the_server() -> None:
    opened: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def use() -> None:
        async with broken("variables") as server:
            found = json.loads((await server.call("look", {})).text)
            opened.set_result(int(found["TEST_PROCESS"]))
            await asyncio.Event().wait()

    using = asyncio.create_task(use())
    number = await opened
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using
    await wait_for_end(number)


CALLER = """
import asyncio, sys
from harness.models.relay.mcp_servers.settings import McpServer
from harness.models.relay.mcp_servers.connection import connect

async def main():
    server = McpServer(name="test", command=sys.executable, args=sys.argv[1:])
    async with connect(server) as opened:
        print((await opened.call("look", {})).text, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def test_nothing_of_a_server_outlives_a_killed_harness() -> None:
    program = [sys.executable, "-c", CALLER, str(SERVERS / "broken.py"), "daemon"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdout is not None
        numbers = [int(number) for number in caller.stdout.readline().split()]
        assert len(numbers) == 2
        caller.kill()
    asyncio.run(wait_for_end(*numbers))


async def test_a_server_by_url_is_called_with_its_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    from mcp.server import MCPServer

    monkeypatch.setenv("TOKEN_OF_TEST", "abc")
    server = MCPServer("test")
    asked: list[str | None] = []

    @server.tool()
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    inner = server.streamable_http_app()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            asked.append(dict(scope["headers"]).get(b"authorization", b"").decode())
        await inner(scope, receive, send)

    with serve(app) as url:
        headers = {"Authorization": "Bearer ${TOKEN_OF_TEST}"}
        async with connect(McpServer(name="test", url=url, headers=headers)) as opened:
            assert (await opened.call("double", {"number": 21})).text == "42"
    assert set(asked) == {"Bearer abc"}


@each_case(
    "response",
    [
        Response(b'{"jsonrpc": "2.0", "id": 1, "x": "' + b"x" * 2_000_000, media_type="application/json"),
        Response(b"x", headers={"content-encoding": "gzip"}, media_type="application/json"),
        Response(b"<html>", media_type="text/html"),
        Response(b"", status_code=500),
        Response(b"", status_code=307, headers={"location": "http://attacker.example/mcp"}),
    ],
    ids=["endless", "compressed", "page", "error", "elsewhere"],
)
async def test_a_broken_http_server_gives_its_reason(
    monkeypatch: pytest.MonkeyPatch, response: Response
) -> None:
    monkeypatch.setattr(connection, "MAX_RESPONSE_BYTES", 100_000)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await take_lifespan(receive, send)
        else:
            await response(scope, receive, send)

    with serve(app) as url, pytest.raises(ServerError):
        async with connect(McpServer(name="test", url=url, startup_timeout_ms=5000)):
            raise AssertionError("it has given tools")
