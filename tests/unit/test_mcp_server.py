"""The tools of an environment as an MCP server, for the clients of the official package."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from case_checks import each_case
from contexts import no_context

from harness.core.errors import SandboxError
from harness.core.tools import Arguments, Tool, TurnLimitReached
from harness.environments.base import HostEnvironment
from harness.models.relay.mcp_server import MAX_CALLS, McpApp, make_mcp_app
from harness.sandbox.failures import SandboxClosed

if TYPE_CHECKING:
    from mcp import Client

URL = "http://127.0.0.1:8000/mcp"
BOTH_ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


class Words(Arguments):
    words: str


LOOK = Tool("look", "Look for words.", Words)
Look = Callable[[Words], Awaitable[str]]


async def show(arguments: Words) -> str:
    return f"found {arguments.words}"


def world(look: Look = show, *, turns: int | None = None) -> HostEnvironment[None]:
    return HostEnvironment(None, {LOOK: look}, no_context(turns=turns))


@contextlib.asynccontextmanager
async def connect(app: McpApp, mode: str = "auto") -> AsyncIterator[Client]:
    """Connect an unmodified client to the app, without a port."""
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    transport = httpx2.ASGITransport(app)
    async with (
        httpx2.AsyncClient(transport=transport) as http,
        Client(streamable_http_client(URL, http_client=http), mode=mode) as client,
    ):
        yield client


async def post(app: McpApp, headers: dict[str, str], **body: Any) -> int:
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app)) as http:
        return (await http.post(URL, headers={**HEADERS, **headers}, **body)).status_code


async def text_of(client: Client, words: object) -> tuple[str, bool]:
    result = await client.call_tool("look", {"words": words})
    [content] = result.content
    assert content.type == "text"
    return content.text, result.is_error


@BOTH_ERAS
async def test_a_client_lists_the_tools_and_completes_a_task(mode: str) -> None:
    environment = world()
    async with make_mcp_app(environment) as app, connect(app, mode) as client:
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == ["look", "submit"]
        assert listed[0].input_schema == LOOK.parameters
        assert await text_of(client, "a") == ("found a", False)
        done = await client.call_tool("submit", {"answer": "42"})
        assert not done.is_error
        await app.wait_until_over()
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
    assert environment.submitted == "42"


@BOTH_ERAS
async def test_wrong_arguments_are_an_error_with_the_observation(mode: str) -> None:
    async with make_mcp_app(world()) as app, connect(app, mode) as client:
        text, is_error = await text_of(client, 7)
        assert is_error
        assert text.startswith("wrong arguments for 'look': words")
        unknown = await client.call_tool("fly", {})
        assert unknown.is_error
        assert not app.tools.is_over


@BOTH_ERAS
async def test_the_turn_limit_reaches_the_client_and_the_attempt(mode: str) -> None:
    environment = world(turns=1)
    async with make_mcp_app(environment) as app, connect(app, mode) as client:
        await text_of(client, "a")
        text, is_error = await text_of(client, "b")
        assert is_error
        assert "all its 1 turns" in text
        with pytest.raises(TurnLimitReached):
            await app.wait_until_over()
        assert await text_of(client, "c") == (text, True)


async def test_a_fault_of_the_sandbox_reaches_the_attempt_and_hides_its_text() -> None:
    async def fail(_: Words) -> str:
        raise SandboxError("the engine at /var/run/secret.sock failed")

    async with make_mcp_app(world(fail)) as app, connect(app) as client:
        text, is_error = await text_of(client, "a")
        assert is_error
        assert "secret" not in text
        with pytest.raises(SandboxError, match=r"secret\.sock"):
            await app.wait_until_over()


async def test_no_call_is_carried_out_after_the_end_of_acting() -> None:
    environment = world()
    async with make_mcp_app(environment) as app, connect(app) as client:
        await environment.end_acting()
        assert await text_of(client, "a") == ("the attempt is over, so that nothing more can be done", True)
        with pytest.raises(SandboxClosed):
            await app.wait_until_over()


async def test_an_exception_of_the_block_is_not_wrapped_in_a_group() -> None:
    with pytest.raises(TurnLimitReached):
        async with make_mcp_app(world()):
            raise TurnLimitReached(3)


async def test_a_call_ends_although_its_client_has_left() -> None:
    begun, go, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def look(arguments: Words) -> str:
        begun.set()
        await go.wait()
        ended.set()
        return arguments.words

    environment = world(look)
    async with make_mcp_app(environment) as app:
        leaving = asyncio.create_task(app.tools.call("look", {"words": "a"}))
        await begun.wait()
        leaving.cancel()
        second = asyncio.create_task(app.tools.call("submit", {"answer": "b"}))
        with contextlib.suppress(asyncio.CancelledError):
            await leaving
        go.set()
        await second
    assert ended.is_set()
    assert environment.turns_used == 2


async def test_calls_beyond_the_bound_are_refused() -> None:
    go = asyncio.Event()

    async def look(arguments: Words) -> str:
        await go.wait()
        return arguments.words

    environment = world(look)
    async with make_mcp_app(environment) as app:
        calls = [asyncio.create_task(app.tools.call("look", {"words": "a"})) for _ in range(MAX_CALLS + 5)]
        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        go.set()
        results = [await call for call in calls]
    assert sum(is_error for _, is_error in results) == 5
    assert environment.turns_used == MAX_CALLS


async def test_calls_under_way_end_with_the_block() -> None:
    begun = asyncio.Event()

    async def look(_: Words) -> str:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async with make_mcp_app(world(look)) as app:
        call = asyncio.create_task(app.tools.call("look", {"words": "a"}))
        await begun.wait()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_an_observation_that_json_cannot_hold_is_escaped() -> None:
    async def look(_: Words) -> str:
        return "a\udcffb"

    async with make_mcp_app(world(look)) as app, connect(app) as client:
        assert await text_of(client, "a") == ("a\\udcffb", False)


@each_case(
    ("headers", "status"),
    [
        ({"host": "attacker.example"}, 421),
        ({"host": "127.0.0.1.attacker.example"}, 421),
        ({"origin": "http://attacker.example"}, 403),
        ({"origin": "null"}, 403),
        ({"host": "localhost:4000", "origin": "http://localhost:4000"}, 200),
        ({"host": "127.0.0.1"}, 200),
    ],
)
async def test_only_names_of_this_machine_are_served(headers: dict[str, str], status: int) -> None:
    async with make_mcp_app(world()) as app:
        assert await post(app, headers, json=LIST) == status


async def test_a_request_that_is_too_large_is_refused() -> None:
    environment = world()
    async with make_mcp_app(environment) as app:
        assert await post(app, {}, content=b"[" * (5 * 1024 * 1024)) == 413
    assert environment.turns_used == 0


@BOTH_ERAS
async def test_the_task_is_offered_as_instructions_prompt_and_resource(mode: str) -> None:
    from mcp.shared.exceptions import MCPError

    async with make_mcp_app(world(), task_prompt="Find the cat.") as app, connect(app, mode) as client:
        assert (client.instructions or "").endswith("Find the cat.")
        [message] = (await client.get_prompt("task")).messages
        assert getattr(message.content, "text", None) == "Find the cat."
        [content] = (await client.read_resource("harness://task")).contents
        assert getattr(content, "text", None) == "Find the cat."
        with pytest.raises(MCPError, match="there is no prompt 'other'"):
            await client.get_prompt("other")
