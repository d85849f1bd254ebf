"""The service as a server of the Model Context Protocol: an agent gets the tools of a sandbox.

At `/mcp` each session of the protocol has a sandbox, which its first call opens. At `/v1/sandboxes/ID/mcp`
the tools act in a sandbox that a client has opened before.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from pydantic import Field, ValidationError
from starlette.routing import Route

from harness.core.errors import HarnessError, UsageError
from harness.core.invalid_values import describe_first_error
from harness.core.logger import get_logger
from harness.core.tools import Arguments, Tool
from harness.core.version import __version__
from harness.models.relay.mcp_server import MAX_MESSAGE_BYTES, keep_open, load_library
from harness.sandbox.results import ExecResult
from harness.sandbox.sandbox import Sandbox
from harness.service.errors import (
    DrainingError,
    InvalidRequestError,
    ServiceError,
    ShareUsedError,
    make_error_response,
)
from harness.service.operations import require_own_origin
from harness.service.sandboxes.models import CreateSandboxRequest
from harness.service.sandboxes.sessions import SandboxSession
from harness.service.service import Service

if TYPE_CHECKING:
    from mcp.server import Server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.requests import Request
    from starlette.types import Message, Receive, Scope, Send

_RETRY_SECONDS = 60.0
_LOGGER = get_logger(__name__)
SESSION_PATH = "/mcp"
SANDBOX_PATH = "/v1/sandboxes/{id}/mcp"
_SESSION_HEADER = "mcp-session-id"
_VERSION_HEADER = "mcp-protocol-version"
# The output of a command that an agent sees. More would only fill the context of its model.
_SHOWN_BYTES = 32 * 1024
# The kernel takes arguments of up to 128 KiB.
_SCRIPT_BYTES = 100_000
_READ_BYTES = 256 * 1024
_TIMEOUT = Field(
    default=60.0, gt=0, le=600, allow_inf_nan=False, description="Seconds after which it is ended."
)
# An agent may wait this long for its model between two calls.
_IDLE_SECONDS = 1800.0
# The sessions of the protocol that one client may have.
_CLIENT_SESSIONS = 1024
# The sessions after which those that have ended are forgotten.
_MOST_REMEMBERED = 1024


class BashArguments(Arguments):
    """The arguments of `bash`."""

    command: str = Field(description="The script. Each call is a new shell in the home folder.")
    timeout_seconds: float = _TIMEOUT


class PythonArguments(Arguments):
    """The arguments of `python`."""

    code: str = Field(description="The program. Each call is a new process in the home folder.")
    timeout_seconds: float = _TIMEOUT


class ReadFileArguments(Arguments):
    """The arguments of `read_file`."""

    path: str = Field(description="The path, relative to the home folder or absolute.")


class WriteFileArguments(Arguments):
    """The arguments of `write_file`."""

    path: str = Field(description="The path, relative to the home folder or absolute.")
    content: str = Field(description="The whole content, as text.")


Act = Callable[[Sandbox, Any], Awaitable[str]]


async def _run_bash(sandbox: Sandbox, asked: BashArguments) -> str:
    # A script on standard input would be read by its own commands.
    script = asked.command
    if len(script.encode("utf-8", "surrogatepass")) > _SCRIPT_BYTES:
        raise UsageError(
            f"the script is longer than {_SCRIPT_BYTES:,} bytes; write it to a file with write_file first"
        )
    return await _run(sandbox, ["/bin/bash", "-c", script], "", asked.timeout_seconds)


async def _run_python(sandbox: Sandbox, asked: PythonArguments) -> str:
    return await _run(sandbox, ["python3", "-"], asked.code, asked.timeout_seconds)


async def _run(sandbox: Sandbox, command: list[str], script: str, seconds: float) -> str:
    result = await sandbox.exec(
        command, stdin=script.encode("utf-8", "surrogatepass"), timeout=seconds, keep_bytes=_SHOWN_BYTES
    )
    return _describe(result, seconds)


def _describe(result: ExecResult, seconds: float) -> str:
    parts = [result.stdout.data.decode("utf-8", "replace")]
    if result.stderr.total:
        parts.append(f"[stderr]\n{result.stderr.data.decode('utf-8', 'replace')}")
    if result.limit == "wall_seconds":
        parts.append(f"[ended after {seconds:g} s, the timeout]")
    elif result.limit is not None:
        parts.append(f"[ended at the limit {result.limit}]")
    elif result.exit_code:
        parts.append(f"[exit code {result.exit_code}]")
    return "\n".join(part.rstrip("\n") for part in parts if part) or "[no output]"


async def _read_file(sandbox: Sandbox, asked: ReadFileArguments) -> str:
    return (await sandbox.read_file(asked.path, limit=_READ_BYTES)).decode("utf-8", "replace")


async def _write_file(sandbox: Sandbox, asked: WriteFileArguments) -> str:
    content = asked.content.encode("utf-8", "surrogatepass")
    await sandbox.write_file(asked.path, content)
    return f"wrote {len(content):,} bytes to {asked.path}"


_TOOLS: dict[Tool, Act] = {
    Tool("bash", "Run a script in bash and return its output.", BashArguments): _run_bash,
    Tool("python", "Run a program in Python and return its output.", PythonArguments): _run_python,
    Tool("read_file", "Return the content of a text file.", ReadFileArguments): _read_file,
    Tool("write_file", "Write a text file. Missing folders are created.", WriteFileArguments): _write_file,
}
TOOLS = {tool.name: tool for tool in _TOOLS}


async def call_tool(sandbox: Sandbox, name: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the text for the agent, and whether the call was wrong. Raises SandboxError."""
    tool = TOOLS.get(name)
    if tool is None:
        return f"there is no tool '{name[:100]}'; the tools are: {', '.join(TOOLS)}", True
    try:
        return await _TOOLS[tool](sandbox, tool.arguments.model_validate(dict(arguments))), False
    except ValidationError as error:
        return f"wrong arguments for '{name}': {describe_first_error(error)}", True
    except UsageError as error:
        return error.message, True


@dataclass(slots=True)
class _Session:
    client: str
    last_used: float
    # The requests under way.
    busy: int = 0


class McpSessions:
    """Bounds the sessions of each client. A session costs memory until it was idle for long.

    Args:
        most: the sessions of one client.
        idle_seconds: the time without a request after which the library ends a session.
        clock: returns a time in seconds that never goes back.
    """

    def __init__(self, most: int, idle_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._idle_seconds = idle_seconds
        self._clock = clock
        # By id.
        self._sessions: dict[str, _Session] = {}
        self._opening: dict[str, int] = {}

    @contextlib.contextmanager
    def use(self, key: str) -> Iterator[None]:
        """Note a request of a session, so that the session counts as alive. Ignores unknown ids."""
        session = self._sessions.get(key)
        if session is None:
            yield
            return
        session.busy += 1
        try:
            yield
        finally:
            session.busy -= 1
            session.last_used = self._clock()

    @contextlib.contextmanager
    def open(self, client: str) -> Iterator[Callable[[str], None]]:
        """Yield the function that gets the id of the session that a request opens.

        Raises ShareUsedError if the client has too many.
        """
        self._forget_idle()
        own = sum(each.client == client for each in self._sessions.values()) + self._opening.get(client, 0)
        if own >= self._most:
            raise ShareUsedError(
                f"this client has {self._most:,} sessions of the protocol, which is its share; end some with "
                f"DELETE, or wait until they were idle for {self._idle_seconds:g} s",
                retry_seconds=_RETRY_SECONDS,
            )
        self._opening[client] = self._opening.get(client, 0) + 1

        def note(key: str) -> None:
            self._sessions[key] = _Session(client, self._clock())

        try:
            yield note
        finally:
            self._opening[client] -= 1
            if not self._opening[client]:
                del self._opening[client]

    def end(self, key: str) -> None:
        """Forget a session that its client has ended."""
        self._sessions.pop(key, None)

    def _forget_idle(self) -> None:
        since = self._clock() - self._idle_seconds
        for key, each in list(self._sessions.items()):
            if not each.busy and each.last_used < since:
                del self._sessions[key]


def watch_session_id(send: Send, header: str, note: Callable[[str], None]) -> Send:
    """Return a `send` that passes the id of the session in the head of a reply to `note`."""
    name = header.encode()

    async def watch(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] < 300:
            for key, value in message.get("headers", ()):
                if key.lower() == name:
                    note(value.decode("latin-1"))
        await send(message)

    return watch


FindSession = Callable[["Request"], Awaitable[SandboxSession]]
"""Returns the live sandbox of a request. Raises ServiceError and HarnessError."""


class McpEndpoints:
    """The endpoints of the protocol. The package of the protocol is loaded by the first request."""

    def __init__(self, service: Service, stack: contextlib.AsyncExitStack) -> None:
        self._service = service
        self._stack = stack
        self._starting = asyncio.Lock()
        self._managers: dict[str, StreamableHTTPSessionManager] = {}
        # The ids of sandboxes by the ids of sessions of the protocol, and a lock for each that opens one.
        self._sandboxes: dict[str, str] = {}
        self._opening: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._sessions = McpSessions(_CLIENT_SESSIONS, _IDLE_SECONDS)

    def list_routes(self) -> list[Route]:
        """Return the routes."""
        return [Route(SESSION_PATH, _App(self, SESSION_PATH)), Route(SANDBOX_PATH, _App(self, SANDBOX_PATH))]

    async def serve(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request at one of the two paths."""
        service = self._service
        if service.draining.is_set():
            raise DrainingError
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        require_own_origin(headers)
        manager = await self._start(path)
        client = scope["state"]["client"]
        async with contextlib.AsyncExitStack() as stack:
            # A stream that a client keeps open without a request must not hold up the end of the service.
            if scope["method"] == "POST":
                service.begin_request()
                stack.callback(service.end_request)
                body = await service.bodies.read(headers, receive, client=client)
                stack.callback(body.release)
                receive = _send_again(body.content, receive)
            if path == SANDBOX_PATH:
                service.sessions.find(scope["path_params"]["id"])
            else:
                _require_handshake(headers)
                key = headers.get(_SESSION_HEADER, "")
                if scope["method"] == "DELETE":
                    self._sessions.end(key)
                    await self._end(key)
                elif key:
                    stack.enter_context(self._sessions.use(key))
                else:
                    note = stack.enter_context(self._sessions.open(client))
                    send = watch_session_id(send, _SESSION_HEADER, note)
            await manager.handle_request(scope, receive, send)

    async def _start(self, path: str) -> StreamableHTTPSessionManager:
        async with self._starting:
            if path not in self._managers:
                try:
                    await asyncio.to_thread(load_library)
                except UsageError as error:
                    raise ServiceError(501, "no_mcp", f"{error.message}; {error.hint}") from error
                from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

                of_session = path == SESSION_PATH
                manager = StreamableHTTPSessionManager(
                    _make_server(self._find_own if of_session else self._find_named, self._service),
                    stateless=not of_session,
                    session_idle_timeout=_IDLE_SECONDS if of_session else None,
                    max_request_body_size=MAX_MESSAGE_BYTES,
                )
                await self._stack.enter_async_context(keep_open(manager.run()))
                self._managers[path] = manager
            return self._managers[path]

    async def _find_named(self, request: Request) -> SandboxSession:
        return self._service.sessions.find(request.path_params["id"])

    async def _find_own(self, request: Request) -> SandboxSession:
        """Return the sandbox of the request's session, and open it for the first call."""
        key = request.headers[_SESSION_HEADER]
        async with self._opening.setdefault(key, asyncio.Lock()):
            known = self._sandboxes.get(key)
            if known is not None:
                try:
                    return self._service.sessions.find(known)
                except ServiceError as error:
                    del self._sandboxes[key]
                    message = f"{error}; its files are lost, and the next call begins in a new one"
                    raise ServiceError(error.status, error.code, message) from error
            limits = self._service.settings.limits
            asked = CreateSandboxRequest(
                image=request.query_params.get("image", "python"),
                deadline_seconds=limits.session_seconds,
                idle_seconds=_IDLE_SECONDS,
            )
            session = await self._service.open_sandbox(request.state.client, asked)
            if len(self._sandboxes) >= _MOST_REMEMBERED:
                self._forget_ended()
            self._sandboxes[key] = session.id
            return session

    def _forget_ended(self) -> None:
        """Forget sandboxes whose sessions have ended without a word."""
        for key, sandbox_id in list(self._sandboxes.items()):
            try:
                self._service.sessions.find(sandbox_id)
            except ServiceError:
                del self._sandboxes[key]

    async def _end(self, key: str) -> None:
        """Delete the sandbox of a session of the protocol that its client has ended."""
        sandbox_id = self._sandboxes.pop(key, None)
        if sandbox_id is not None:
            with contextlib.suppress(ServiceError):  # it may have ended before
                await self._service.sessions.delete(sandbox_id)


class _App:
    """The app of one path. Starlette takes an object for an app that gets every method."""

    def __init__(self, endpoints: McpEndpoints, path: str) -> None:
        self._endpoints = endpoints
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._endpoints.serve(self._path, scope, receive, send)
        except ServiceError as error:
            response = make_error_response(error)
            await response(scope, receive, send)


def _send_again(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that yields a body that was read, and then what comes after it."""
    rest = [body]

    async def receive_again() -> Message:
        if rest:
            return {"type": "http.request", "body": rest.pop(), "more_body": False}
        return await receive()

    return receive_again


def _require_handshake(headers: Mapping[str, str]) -> None:
    """Raise ServiceError for a version of the protocol that has no sessions.

    A client of several versions then falls back to one with a handshake.
    """
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

    version = headers.get(_VERSION_HEADER, "")
    if version and version not in HANDSHAKE_PROTOCOL_VERSIONS:
        raise InvalidRequestError(
            f"version {version[:40]!r} of the protocol has no sessions; open a sandbox at /v1/sandboxes, and "
            "use its path /v1/sandboxes/ID/mcp",
            code="no_sessions",
        )


def _make_server(find: FindSession, service: Service) -> Server[Any]:
    import mcp_types as types
    from mcp.server import Server

    tools = [
        types.Tool(name=tool.name, description=tool.description, input_schema=tool.parameters)
        for tool in TOOLS.values()
    ]

    async def list_tools(_context: Any, _page: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call(context: Any, asked: types.CallToolRequestParams) -> types.CallToolResult:
        text, is_error = await _call(find, service, context.request, asked.name, asked.arguments or {})
        return types.CallToolResult(content=[types.TextContent(text=text)], is_error=is_error)

    return Server("harness", version=__version__, on_list_tools=list_tools, on_call_tool=call)


async def _call(
    find: FindSession, service: Service, request: Request, name: str, arguments: dict[str, Any]
) -> tuple[str, bool]:
    try:
        session = await find(request)
        async with service.sessions.use(session.id):
            return await call_tool(session.sandbox, name, arguments)
    except ServiceError as error:
        return str(error), True
    except HarnessError as error:
        service.metrics.faults.inc()
        _LOGGER.error("fault: %s", error.message)
        # The message may name things of the host, which are not for an agent.
        return "the sandbox could not be opened; the log of the service has the details", True


@contextlib.asynccontextmanager
async def open_mcp_endpoints(service: Service) -> AsyncIterator[McpEndpoints]:
    """Yield the endpoints. The end of the block closes their connections."""
    async with contextlib.AsyncExitStack() as stack:
        yield McpEndpoints(service, stack)
