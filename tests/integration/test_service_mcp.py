"""The service as an MCP server, with the client of the official package."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from case_checks import check_together, each_case
from effort import THOROUGH
from service_fixtures import TOKEN, Served, share_service

if TYPE_CHECKING:
    from mcp import Client


pytestmark = pytest.mark.asyncio(loop_scope="module")
served = share_service()
WRONG_CALLS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("bash", {"command": 5}, "'command' must be text"),
    ("bash", {}, "'command' is missing"),
    ("read_file", {"path": "missing"}, "cannot read missing"),
    ("write_file", {"path": "/etc/passwd", "content": ""}, "cannot write /etc/passwd"),
    ("remove", {}, "there is no tool 'remove'"),
    ("bash", {"command": "#" * 200_000}, "write_file first"),
    ("bash", {"command": "a\0b"}, "without NUL"),
)


@contextlib.asynccontextmanager
async def connect(served: Served, path: str = "/mcp", mode: str = "auto") -> AsyncIterator[Client]:
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async with (
        httpx2.AsyncClient(trust_env=False, timeout=60) as http,
        Client(streamable_http_client(f"{served.url}/{TOKEN}{path}", http_client=http), mode=mode) as client,
    ):
        yield client


async def call(client: Client, name: str, **arguments: Any) -> tuple[str, bool]:
    result = await client.call_tool(name, arguments)
    [content] = result.content
    assert content.type == "text"
    return content.text, bool(result.is_error)


@each_case("mode", ["legacy", "auto"])
async def test_a_session_has_a_sandbox_until_its_end(served: Served, mode: str) -> None:
    async with connect(served, mode=mode) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == ["bash", "python", "read_file", "write_file"]
        assert await served.read_metric("harness_sessions") == 0
        assert await call(client, "write_file", path="note", content="caf\u00e9\n") == (
            "wrote 6 bytes to note",
            False,
        )
        assert await call(client, "bash", command="cat note; exit 3") == ("caf\u00e9\n[exit code 3]", False)
        assert await call(client, "python", code="print(open('note').read().upper())") == ("CAF\u00c9", False)
        assert await call(client, "read_file", path="note") == ("caf\u00e9\n", False)
        assert await served.read_metric("harness_sessions") == 1
    assert await served.read_metric("harness_sessions") == 0


async def test_two_sessions_share_no_files(served: Served) -> None:
    async with connect(served) as first, connect(served) as second:
        await call(first, "write_file", path="note", content="x")
        assert (await call(second, "read_file", path="note"))[1]


@each_case("mode", ["legacy", "auto"] if THOROUGH else ["auto"])
async def test_a_sandbox_that_a_client_has_opened_has_tools(served: Served, mode: str) -> None:
    path = await served.open_sandbox()
    await served.http.put(f"{path}/files/note", content=b"from HTTP")
    async with connect(served, f"{path}/mcp", mode) as client:
        assert await call(client, "bash", command="cat note") == ("from HTTP", False)
    assert (await served.http.delete(path)).status_code == 204


async def test_a_wrong_call_is_an_error_that_names_the_fault(served: Served) -> None:
    async with connect(served) as client:

        async def check(case: tuple[str, dict[str, Any], str]) -> None:
            name, arguments, text = case
            shown, is_error = await call(client, name, **arguments)
            assert is_error
            assert text in shown

        await check_together(WRONG_CALLS, check, at_once=1)


async def test_a_command_does_not_read_the_rest_of_its_script(served: Served) -> None:
    async with connect(served) as client:
        assert await call(client, "bash", command="cat\necho second") == ("second", False)


async def test_a_slow_command_is_ended_and_its_output_shown(served: Served) -> None:
    async with connect(served) as client:
        shown = await call(client, "bash", command="echo early; sleep 60", timeout_seconds=0.5)
        assert shown == ("early\n[ended after 0.5 s, the timeout]", False)


async def test_an_agent_learns_that_its_sandbox_is_lost_and_gets_a_new_one(served: Served) -> None:
    async with connect(served) as client:
        await call(client, "bash", command="true")
        [listed] = (await served.http.get("/v1/sandboxes")).json()["sandboxes"]
        await served.http.delete(f"/v1/sandboxes/{listed['id']}")
        shown, is_error = await call(client, "bash", command="echo again")
        assert is_error
        assert "the next call begins in a new one" in shown
        assert await call(client, "bash", command="echo again") == ("again", False)


async def test_a_stranger_gets_no_session(served: Served) -> None:
    async with httpx2.AsyncClient(trust_env=False) as http:
        assert (await http.post(f"{served.url}/mcp", json={})).status_code == 401
        foreign = {"origin": "https://elsewhere.example"}
        response = await http.post(f"{served.url}/{TOKEN}/mcp", json={}, headers=foreign)
        assert response.status_code == 403


async def test_tools_of_an_unknown_sandbox_are_not_found(served: Served) -> None:
    response = await served.post("/v1/sandboxes/wrong/mcp")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "unknown_sandbox")
