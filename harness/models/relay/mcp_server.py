"""The tools of an environment as a server of the Model Context Protocol, by the official package.

Clients of 2025-11-25, which shake hands, and of 2026-07-28, which do not, are served alike. The client is
the agent, so nothing of the host but the text of observations reaches it. Only some users need the package
`mcp`, and it takes most of a second to import.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from harness.core.errors import UsageError, describe_installation
from harness.core.text import shorten
from harness.core.tools import SUBMIT, AgentEnvironment, Observation, TurnLimitReached
from harness.core.version import __version__
from harness.sandbox.failures import SandboxClosed

if TYPE_CHECKING:
    from mcp.server import Server
    from starlette.types import ASGIApp, Receive, Scope, Send

T = TypeVar("T")
# The largest message that either side of the protocol may send, in bytes.
MAX_MESSAGE_BYTES = 4 * 1024 * 1024
# The most values in the JSON of a message. The package checks each of them while all attempts of the run
# wait, and keeps up to five errors for each.
MAX_MESSAGE_VALUES = 50_000
# The same for a message of an agent's program, whose calls hold few values.
MAX_CALL_VALUES = 5_000
# A larger message is read in a thread, so that the other attempts of the run go on.
THREAD_BYTES = 256 * 1024
SERVER_NAME = "harness"
PATH = "/mcp"
# The most calls that wait for each other, because the environment carries out one at a time.
MAX_CALLS = 64
TASK_PROMPT = "task"
TASK_URI = "harness://task"
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_OVER = "the attempt is over, so that nothing more can be done"
_FAILED = "the environment failed, and the attempt is over"
HOW_TO_ACT = "Solve the task below with the tools of this server."
HOW_TO_SUBMIT = f"{HOW_TO_ACT} When it is done, call `{SUBMIT.name}`."


def load_library() -> None:
    """Import the package mcp. Raises UsageError if it is not installed."""
    try:
        import mcp  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"the Model Context Protocol needs the package mcp: {error}", hint=describe_installation("mcp")
        ) from error
    # Without a handler, Python prints the warnings of the package, which quote bytes of the other side.
    logger = logging.getLogger("mcp")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())


@contextlib.asynccontextmanager
async def keep_open(resource: contextlib.AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
    """Open a resource of the package on a task apart, and yield it.

    The package opens task groups. One around the block would wrap an exception of the block in a group, and
    cancel the block when the other side breaks the protocol.
    """
    opened: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    ending = asyncio.Event()

    async def hold() -> None:
        try:
            async with resource as value:
                opened.set_result(value)
                await ending.wait()
        except BaseException as error:
            if opened.done():
                raise
            opened.set_exception(error)

    holder = asyncio.create_task(hold())
    try:
        # The holder's exception arrives by the future.
        yield await asyncio.shield(opened)
    finally:
        ending.set()
        if not opened.done():
            holder.cancel()
        await _wait_for_end(holder, opened)


async def _wait_for_end(holder: asyncio.Task[None], opened: asyncio.Future[T]) -> None:
    """Wait until the resource is closed, also if the caller is cancelled meanwhile."""
    cancelled = False
    while not holder.done():
        try:
            await asyncio.wait([holder])
        except asyncio.CancelledError:
            cancelled = True
            holder.cancel()
    if not holder.cancelled():
        # A fault while the resource closes concerns the other side alone, which is gone.
        holder.exception()
    if opened.done() and not opened.cancelled():
        opened.exception()
    if cancelled:
        raise asyncio.CancelledError


class EnvironmentTools:
    """The tools of one environment, as requests of clients see them.

    A call runs to its end even if its client leaves, so that no second call can begin beside it. An
    exception that ends the attempt, such as TurnLimitReached, reaches the client as an error without
    details, and the attempt by `wait_until_over`.
    """

    def __init__(self, environment: AgentEnvironment, *, task_prompt: str | None = None) -> None:
        self.task_prompt = task_prompt
        self._environment = environment
        self._over = asyncio.Event()
        self._failure: Exception | None = None
        self._calls: set[asyncio.Task[Observation]] = set()

    async def wait_until_over(self) -> None:
        """Wait until an answer is submitted. Raises the exception that ended the environment."""
        await self._over.wait()
        self.raise_failure()

    @property
    def is_over(self) -> bool:
        """Whether an answer was submitted, or the environment has ended by an exception."""
        return self._over.is_set()

    def raise_failure(self) -> None:
        """Raise the exception of a call that ended the environment, if there was one."""
        if self._failure is not None:
            raise self._failure

    async def call(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        """Return the text of an observation, and whether the call is an error."""
        if self._failure is not None:
            return _describe_failure(self._failure), True
        if len(self._calls) >= MAX_CALLS:
            return f"more than {MAX_CALLS} calls wait already; wait for their results", True
        call = asyncio.create_task(self._environment.call(name, arguments))
        self._calls.add(call)
        call.add_done_callback(self._end_call)
        try:
            observation = await asyncio.shield(call)
        except Exception as error:
            return _describe_failure(error), True
        return observation.text, observation.refused

    def _end_call(self, call: asyncio.Task[Observation]) -> None:
        self._calls.discard(call)
        if not call.cancelled() and (error := call.exception()) is not None and self._failure is None:
            self._failure = error if isinstance(error, Exception) else SandboxClosed()
        if self._failure is not None or self._environment.submitted is not None:
            self._over.set()

    async def end(self) -> None:
        """Cancel the calls under way, and wait for their end."""
        calls = list(self._calls)
        for call in calls:
            call.cancel()
        if calls:
            await asyncio.wait(calls)

    def make_server(self) -> Server[Any]:
        """Return the server of the tools, and of the task's prompt if there is one."""
        import mcp_types as types
        from mcp.server import Server

        tools = [
            types.Tool(name=tool.name, description=tool.description, input_schema=tool.parameters)
            for tool in self._environment.tools.values()
        ]

        async def list_tools(_context: Any, _page: Any) -> types.ListToolsResult:
            return types.ListToolsResult(tools=tools)

        async def call_tool(_context: Any, asked: types.CallToolRequestParams) -> types.CallToolResult:
            text, is_error = await self.call(asked.name, asked.arguments or {})
            # JSON cannot hold a lone surrogate, which a program may print.
            text = text.encode("utf-8", "backslashreplace").decode()
            return types.CallToolResult(content=[types.TextContent(text=text)], is_error=is_error)

        if self.task_prompt is None:
            return Server(SERVER_NAME, version=__version__, on_list_tools=list_tools, on_call_tool=call_tool)
        prompt = self.task_prompt

        async def list_prompts(_context: Any, _page: Any) -> types.ListPromptsResult:
            about = types.Prompt(name=TASK_PROMPT, description="The task to solve with the tools.")
            return types.ListPromptsResult(prompts=[about])

        async def get_prompt(_context: Any, asked: types.GetPromptRequestParams) -> types.GetPromptResult:
            if asked.name != TASK_PROMPT:
                raise _refuse(f"there is no prompt '{shorten(asked.name, 100)}', only '{TASK_PROMPT}'")
            message = types.PromptMessage(role="user", content=types.TextContent(text=prompt))
            return types.GetPromptResult(messages=[message])

        async def list_resources(_context: Any, _page: Any) -> types.ListResourcesResult:
            about = types.Resource(name=TASK_PROMPT, uri=TASK_URI, mime_type="text/plain")
            return types.ListResourcesResult(resources=[about])

        async def read_resource(
            _context: Any, asked: types.ReadResourceRequestParams
        ) -> types.ReadResourceResult:
            if str(asked.uri) != TASK_URI:
                raise _refuse(f"there is no resource '{shorten(str(asked.uri), 100)}', only '{TASK_URI}'")
            content = types.TextResourceContents(uri=TASK_URI, mime_type="text/plain", text=prompt)
            return types.ReadResourceResult(contents=[content])

        # A published protocol may end a task by another tool.
        how_to_act = HOW_TO_SUBMIT if SUBMIT.name in self._environment.tools else HOW_TO_ACT
        return Server(
            SERVER_NAME,
            version=__version__,
            instructions=f"{how_to_act}\n\n{prompt}",
            on_list_tools=list_tools,
            on_call_tool=call_tool,
            on_list_prompts=list_prompts,
            on_get_prompt=get_prompt,
            on_list_resources=list_resources,
            on_read_resource=read_resource,
        )


@contextlib.asynccontextmanager
async def open_environment_tools(
    environment: AgentEnvironment, *, task_prompt: str | None = None
) -> AsyncIterator[EnvironmentTools]:
    """Yield the tools of an environment. Calls under way are cancelled at the end of the block."""
    tools = EnvironmentTools(environment, task_prompt=task_prompt)
    try:
        yield tools
    finally:
        await tools.end()


class McpApp:
    """The ASGI app that serves PATH by streamable HTTP, while the block of `make_mcp_app` is open."""

    def __init__(self, tools: EnvironmentTools, app: ASGIApp) -> None:
        self.tools = tools
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    async def wait_until_over(self) -> None:
        """Wait until an answer is submitted. Raises the exception that ended the environment."""
        await self.tools.wait_until_over()


@contextlib.asynccontextmanager
async def make_mcp_app(
    environment: AgentEnvironment, *, task_prompt: str | None = None
) -> AsyncIterator[McpApp]:
    """Yield the app that serves the tools of an environment, and close its connections at the end.

    The app checks Host and Origin, so that no page in a browser reaches it by a name that it owns. It checks
    no token. No session is kept between requests. Raises UsageError if the package is not installed.

    Args:
        environment: the environment of the attempt.
        task_prompt: the prompt of the task, which the server offers as well. None for tools alone.
    """
    load_library()
    from mcp.server.transport_security import TransportSecuritySettings

    hosts = [*_LOOPBACK, *(f"{host}:*" for host in _LOOPBACK)]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=[f"http://{host}" for host in hosts],
    )
    async with open_environment_tools(environment, task_prompt=task_prompt) as tools:
        server = tools.make_server()
        app = server.streamable_http_app(
            streamable_http_path=PATH,
            stateless_http=True,
            max_request_body_size=MAX_MESSAGE_BYTES,
            transport_security=security,
        )
        async with keep_open(server.session_manager.run()):
            yield McpApp(tools, app)


def _refuse(message: str) -> Exception:
    """Return the exception that answers a request with wrong parameters."""
    import mcp_types as types
    from mcp.shared.exceptions import MCPError

    return MCPError(types.INVALID_PARAMS, message)


def _describe_failure(error: Exception) -> str:
    """Return the text that a client sees. The text of other exceptions may name things of the host."""
    if isinstance(error, TurnLimitReached):
        return str(error)
    return _OVER if isinstance(error, SandboxClosed) else _FAILED
