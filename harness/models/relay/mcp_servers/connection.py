"""The connection to one MCP server: its tools, and calls of them, all within bounds.

The server is the user's program, but it may be broken. Whatever it does, a call returns a text, and no
message of it is read without a bound.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.core.text import escape_terminal, shorten
from harness.models.relay.mcp_server import MAX_MESSAGE_BYTES, MAX_MESSAGE_VALUES, keep_open
from harness.models.relay.mcp_servers.host_process import HostProcess, open_host_process
from harness.models.relay.mcp_servers.sandbox_process import SandboxProcess, ServerPlace, open_sandbox_process
from harness.models.relay.mcp_servers.settings import WORKDIR, McpServer, expand_url, expand_values
from harness.models.relay.mcp_servers.tool_names import ListedTool, read_tools
from harness.models.relay.mcp_streams import BrokenStreamError, open_message_streams

if TYPE_CHECKING:
    import httpx2
    import mcp_types as types
    from mcp import Client


# The most characters of a result. More of it would only fill the context of a model.
MAX_RESULT_CHARACTERS = 100_000
# A server with more tools gets none of them, because no API of a model takes more.
MAX_TOOLS = 128
MAX_PAGES = 100
# The most messages that answer nothing, and their bytes, between two that do. Over HTTP, the most messages of
# one response.
MAX_UNASKED = 10_000
MAX_UNASKED_BYTES = 16 * MAX_MESSAGE_BYTES
# The most bytes of one HTTP response.
MAX_RESPONSE_BYTES = 4 * MAX_MESSAGE_BYTES
HTTP_SECONDS = 30.0
_ERROR_CHARACTERS = 1000
# The most errors of a message that are listed to name the first of them.
_LISTED_ERRORS = 100
# The end of standard error in the reason of a failure. A traceback names its exception in its last line.
_LAST_WORDS = 400


def show_result(result: types.CallToolResult) -> str:
    """Return the text of a result. Images and sounds are named, and not shown."""
    text = "\n".join(_show_block(block) for block in result.content)
    if not text and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    return shorten(text, MAX_RESULT_CHARACTERS)


def _show_block(block: Any) -> str:
    if block.type == "text":
        return str(block.text)
    if block.type == "resource":
        held = getattr(block.resource, "text", None)
        return str(held) if held is not None else f"[binary resource {shorten(str(block.resource.uri), 200)}]"
    if block.type == "resource_link":
        return f"[resource {shorten(str(block.uri), 200)}]"
    return f"[{block.type}, {shorten(str(block.mime_type), 100)}, {len(block.data):,} characters of base64]"


Program = HostProcess | SandboxProcess
"""The program of a server, on the host or in a sandbox."""


class ServerError(Exception):
    """A server that gives no tools, or a call that gives no result, with a reason for people and models."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a call. `is_error` if the tool, or the server, failed."""

    text: str
    is_error: bool = False


class ServerConnection:
    """A server that has listed its tools."""

    def __init__(
        self, server: McpServer, client: Client, tools: list[ListedTool], program: Program | None
    ) -> None:
        self.server = server
        self.tools = tools
        self._client = client
        self._program = program

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Call a tool and return its result. A fault of the server is also a result."""
        import mcp_types as types

        seconds = self.server.tool_timeout_ms / 1000
        params = types.CallToolRequestParams(name=tool, arguments=dict(arguments))
        try:
            # `Client.call_tool` would check the result by the server's schema, whose patterns may take hours.
            async with asyncio.timeout(seconds):
                result = await self._client.session.send_request(
                    types.CallToolRequest(params=params),
                    types.CallToolResult,
                    # Later than this limit. Without it, the limit of the start would count.
                    request_read_timeout_seconds=2 * seconds,
                )
        except TimeoutError:
            return ToolResult(f"the tool did not answer within {seconds:g} s", is_error=True)
        except Exception as error:  # the package raises whatever a broken message causes
            reason = await explain(error, self._program)
            return ToolResult(f"the MCP server '{self.server.name}' failed: {reason}", is_error=True)
        return ToolResult(show_result(result), result.is_error)


@contextlib.asynccontextmanager
async def connect(
    server: McpServer, place: ServerPlace | None = None, *, note_unclean: Callable[[str], None] | None = None
) -> AsyncIterator[ServerConnection]:
    """Start a server or connect to it, and yield the connection. Its program ends with the block.

    On the host, the whole process tree of the program ends. In a sandbox, the owner of the sandbox ends it.

    Args:
        server: the settings of the server.
        place: the sandbox of a server that runs in one, None for any other.
        note_unclean: called with the fault of a program on the host whose end was not clean.

    Raises ServerError if the tools are not listed within the server's time limit.
    """
    async with contextlib.AsyncExitStack() as stack:
        seconds = server.startup_timeout_ms / 1000
        program: Program | None = None
        try:
            async with asyncio.timeout(seconds):
                if server.command is not None:
                    program = await stack.enter_async_context(
                        _open_program(server, server.command, place, note_unclean)
                    )
                client = await stack.enter_async_context(keep_open(_open_client(server, program)))
                tools = await read_tools(await _list_tools(client))
        except TimeoutError as error:
            late = TimeoutError(f"did not list its tools within {seconds:g} s")
            raise ServerError(await explain(late, program)) from error
        except ServerError:
            raise
        except Exception as error:  # the package raises whatever a broken message causes
            raise ServerError(await explain(error, program)) from error
        yield ServerConnection(server, client, tools, program)


def _open_program(
    server: McpServer, command: str, place: ServerPlace | None, note_unclean: Callable[[str], None] | None
) -> contextlib.AbstractAsyncContextManager[Program]:
    env = expand_values(server.env, os.environ, where=f"mcp_servers.{server.name}.env")
    if place is None:
        return open_host_process([command, *server.args], env=env, note_unclean=note_unclean)
    args = [argument.replace(WORKDIR, place.work_folder) for argument in server.args]
    return open_sandbox_process(place, [command, *args], env=env)


async def explain(error: BaseException, program: Program | None) -> str:
    """Return the reason for a failure, preferring a program's own last words."""
    if program is not None:
        await program.wait_for_reason()
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    reason = _describe(error)
    if program is not None and program.fault is not None:
        reason = program.fault
    elif program is not None and program.errors:
        reason = f"{reason}: {program.errors[-_LAST_WORDS:]}"
    return escape_terminal(reason, _ERROR_CHARACTERS)


def _describe(error: BaseException) -> str:
    """Return the text of an exception, in few words for one that quotes what the server has sent."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return str(error) or type(error).__name__
    # Its own text quotes the message once for each error, and each value may cause five errors.
    count = error.error_count()
    if count > _LISTED_ERRORS:
        return f"the result breaks the protocol in {count:,} places"
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(each) for each in first["loc"])
    return f"the result breaks the protocol at '{shorten(place, 100)}': {first['msg']}"


@contextlib.asynccontextmanager
async def _open_client(server: McpServer, program: Program | None) -> AsyncIterator[Client]:
    from mcp import Client

    transport = _open_pipes(program) if program is not None else _open_http(server)
    async with Client(transport, cache=None, read_timeout_seconds=server.startup_timeout_ms / 1000) as client:
        yield client


@contextlib.asynccontextmanager
async def _open_pipes(program: Program) -> AsyncIterator[Any]:
    async with open_message_streams(
        program.stdout, program.stdin, accept=_Filter().accept, on_fault=program.note_fault
    ) as streams:
        yield streams.read, streams.write


@contextlib.asynccontextmanager
async def _open_http(server: McpServer) -> AsyncIterator[Any]:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    from harness.models.relay.mcp_servers.host_process import BoundedTransport, ResponseBounds

    headers = expand_values(server.headers, os.environ, where=f"mcp_servers.{server.name}.headers")
    url = expand_url(str(server.url), os.environ, where=f"mcp_servers.{server.name}.url")
    timeout = httpx2.Timeout(HTTP_SECONDS, read=server.tool_timeout_ms / 1000)
    bounds = ResponseBounds(MAX_RESPONSE_BYTES, MAX_MESSAGE_VALUES, MAX_UNASKED)
    bounded: httpx2.AsyncBaseTransport = BoundedTransport(httpx2.AsyncHTTPTransport(), bounds)
    # A proxy of the environment is not for servers on this machine, and its variables may hold secrets.
    async with httpx2.AsyncClient(
        transport=bounded,
        headers={**headers, "accept-encoding": "identity"},
        timeout=timeout,
        trust_env=False,
    ) as http:
        opened = streamable_http_client(
            url, http_client=http, terminate_on_close=False, max_sse_event_size=MAX_MESSAGE_BYTES
        )
        async with opened as streams:
            yield streams


async def _list_tools(client: Client) -> list[types.Tool]:
    import mcp_types as types

    tools: list[types.Tool] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        params = types.PaginatedRequestParams(cursor=cursor) if cursor is not None else None
        page = await client.session.list_tools(params=params)
        tools += page.tools
        cursor = page.next_cursor
        if len(tools) > MAX_TOOLS:
            raise ServerError(f"offers more than {MAX_TOOLS} tools")
        if cursor is None:
            return tools
    raise ServerError(f"lists its tools on more than {MAX_PAGES} pages")


class _Filter:
    """Passes on the responses and requests of a server, and counts all that answers nothing."""

    def __init__(self) -> None:
        self._unasked = 0
        self._bytes = 0

    def accept(self, message: Any, size: int, answers: bool) -> bool:
        """Return whether the package gets a message. Raises BrokenStreamError for a flood."""
        import mcp_types as types

        if answers:
            self._unasked = self._bytes = 0
            return True
        self._unasked += 1
        self._bytes += size
        if self._unasked > MAX_UNASKED:
            raise BrokenStreamError(f"sent more than {MAX_UNASKED:,} messages that answer nothing")
        if self._bytes > MAX_UNASKED_BYTES:
            raise BrokenStreamError(f"sent more than {MAX_UNASKED_BYTES:,} bytes that answer nothing")
        return isinstance(message, types.JSONRPCRequest)
