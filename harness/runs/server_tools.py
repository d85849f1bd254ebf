"""The user's MCP servers in one attempt: started for it, joined to its environment, counted, and ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from harness.core.errors import UsageError
from harness.core.text import escape_terminal, shorten
from harness.core.tools import Observation
from harness.core.types import Transcript, Verdict
from harness.environments.base import Environment
from harness.models.relay.mcp_servers.settings import McpServer, expand_values
from harness.runs.attempt_parts import AttemptPart, Try
from harness.runs.stored_result import CALLS, ERRORS, FAILED_STARTS, METRIC, SECONDS, START_ERROR

if TYPE_CHECKING:
    from harness.models.relay.mcp_servers.connection import ServerConnection
    from harness.models.relay.mcp_servers.sandbox_process import ServerPlace
    from harness.models.relay.mcp_servers.tool_names import NamedTool
    from harness.runs.settings import RunConfig
    from harness.runs.workspaces import PlacesPart

_ERROR_CHARACTERS = 2000
# The most characters of the reason of a failed start in the metrics.
_START_ERROR_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class ServerTools:
    """The servers of a run. Each attempt starts its own processes of them."""

    configured: tuple[McpServer, ...]
    # A baseline starts none of them. Its attempts differ from those with servers in nothing else.
    is_baseline: bool = False

    @property
    def started(self) -> tuple[McpServer, ...]:
        """The servers that each attempt starts."""
        return () if self.is_baseline else self.configured


@dataclass(slots=True)
class ToolUse:
    """The calls of one tool."""

    calls: int = 0
    errors: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class ServerUse:
    """The use of one server in one attempt, with all its tries."""

    tools: dict[str, ToolUse] = field(default_factory=dict)
    failed_starts: int = 0
    # The reason of the first failed start, None without one.
    start_error: str | None = None

    def describe(self) -> dict[str, Any]:
        """Return the value of the server in the metric `mcp`."""
        reason = {} if self.start_error is None else {START_ERROR: self.start_error}
        tools = {
            name: {CALLS: use.calls, ERRORS: use.errors, SECONDS: round(use.seconds, 3)}
            for name, use in self.tools.items()
        }
        return {FAILED_STARTS: self.failed_starts, **reason, "tools": tools}


async def prepare_servers(config: RunConfig, note: Callable[[str], None]) -> ServerTools | None:
    """Run each `setup_command`, try each server on the host once, and return the servers of a run.

    Return None if the config names none. A server that cannot start costs its own tools alone, but a notice
    names it before the agent spends anything.

    Args:
        config: the config of the run.
        note: called with a notice for the user.

    Raises:
        UsageError: for a program that is not there, a variable that is not set, or a `setup_command` that
            fails.
    """
    if not config.mcp_servers:
        return None
    if config.baseline:
        return ServerTools(tuple(config.mcp_servers), is_baseline=True)
    from harness.models.relay.mcp_server import load_library

    load_library()
    for server in config.mcp_servers:
        _require_usable(server)
    await _run_all(_set_up(server) for server in config.mcp_servers if server.setup_command)
    # A sandbox for a trial would take the place of an attempt's.
    await _run_all(_try(server, note) for server in config.mcp_servers if server.where == "host")
    return ServerTools(tuple(config.mcp_servers))


def _require_usable(server: McpServer) -> None:
    where = f"mcp_servers.{server.name}"
    expand_values(server.env, os.environ, where=f"{where}.env")
    expand_values(server.headers, os.environ, where=f"{where}.headers")
    if (missing := describe_missing_command(server)) is not None:
        raise UsageError(f"{where}: {missing}", hint="install it, or name its path")


def describe_missing_command(server: McpServer) -> str | None:
    """Return a text if the command of a server on this machine does not exist here, None otherwise."""
    if server.where != "host" or server.command is None or shutil.which(server.command) is not None:
        return None
    return f"the command '{server.command}' is not there"


class ServersPart(AttemptPart):
    """Starts the servers of one attempt, and adds their tools to its environment.

    A server that fails costs its own tools, and nothing else.
    """

    def __init__(self, servers: Sequence[McpServer], places: PlacesPart) -> None:
        """Start `servers`, those in sandboxes at `places`, which is entered before."""
        self._servers = servers
        self._places = places
        # By the names of the servers.
        self._use: dict[str, ServerUse] = defaultdict(ServerUse)

    async def prepare(self, attempt: Try) -> None:
        attempt.needs_environment = True

    @contextlib.asynccontextmanager
    async def enter(self, attempt: Try) -> AsyncIterator[None]:
        environment, transcript = attempt.environment, attempt.transcript
        assert environment is not None, "it is needed"  # noqa: S101
        places = self._places.servers
        async with contextlib.AsyncExitStack() as stack:
            started = await asyncio.gather(
                *(
                    _start(each, places.get(each.name), stack, partial(_record_unclean, transcript, each))
                    for each in self._servers
                )
            )
            for each in started:
                self._note_start(each)
                transcript.write({"kind": "mcp_server", **each.as_values()})
            connections = [each.connection for each in started if each.connection is not None]
            _add_tools(connections, environment, transcript, self._use)
            yield

    def metrics(self, verdict: Verdict) -> Mapping[str, Any]:
        return {METRIC: {name: use.describe() for name, use in self._use.items()}} if self._use else {}

    def _note_start(self, start: _Start) -> None:
        use = self._use[start.server]
        if start.error is not None:
            use.failed_starts += 1
            use.start_error = use.start_error or shorten(start.error, _START_ERROR_CHARACTERS)


@dataclass(frozen=True, slots=True)
class _Start:
    """The start of a server: its connection, or the reason why there is none."""

    server: str
    seconds: float
    connection: ServerConnection | None = None
    error: str | None = None

    def as_values(self) -> dict[str, Any]:
        result = {"error": self.error} if self.connection is None else {"tools": len(self.connection.tools)}
        return {"server": self.server, **result, "seconds": round(self.seconds, 3)}


def _record_unclean(transcript: Transcript, server: McpServer, fault: str) -> None:
    transcript.write({"kind": "mcp_server", "server": server.name, "unclean_end": fault}, is_end=True)


async def _start(
    server: McpServer,
    place: ServerPlace | None,
    stack: contextlib.AsyncExitStack,
    note_unclean: Callable[[str], None],
) -> _Start:
    from harness.models.relay.mcp_servers.connection import ServerError, connect

    began = time.monotonic()
    try:
        connection = await stack.enter_async_context(connect(server, place, note_unclean=note_unclean))
    except ServerError as error:
        return _Start(server.name, time.monotonic() - began, error=str(error))
    return _Start(server.name, time.monotonic() - began, connection)


def _add_tools(
    connections: Sequence[ServerConnection],
    environment: Environment,
    transcript: Transcript,
    use: Mapping[str, ServerUse],
) -> None:
    by_name = {connection.server.name: connection for connection in connections}
    named: list[NamedTool] = []
    aliases: dict[str, str] = {}
    if by_name:
        from harness.models.relay.mcp_servers.tool_names import name_aliases, name_tools

        listed = {name: connection.tools for name, connection in by_name.items()}
        named, left_out = name_tools(listed, environment.tools)
        for server, tool, reason in left_out:
            transcript.write({"kind": "mcp_server", "server": server, "tool": tool, "left_out": reason})
        # Prompts that were written for other tools name them so.
        aliases = name_aliases(named, environment.tools)
    handlers = {each.tool: _make_handler(by_name[each.server], each.name, use[each.server]) for each in named}
    environment.add_foreign_tools(handlers, aliases)


def _make_handler(
    connection: ServerConnection, tool: str, use: ServerUse
) -> Callable[[dict[str, Any]], Awaitable[Observation]]:
    counted = use.tools.setdefault(tool, ToolUse())

    async def call(arguments: dict[str, Any]) -> Observation:
        began = time.monotonic()
        counted.calls += 1
        try:
            result = await connection.call(tool, arguments)
        finally:
            counted.seconds += time.monotonic() - began
        counted.errors += result.is_error
        return Observation(f"error: {result.text}" if result.is_error else result.text)

    return call


async def _run_all(steps: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run steps side by side. The first that fails ends the others, and its error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for step in steps:
                group.create_task(step)
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def _try(server: McpServer, note: Callable[[str], None]) -> None:
    """Start a server and end it. Give a notice if it does not list its tools, or does not end cleanly."""

    def note_unclean(fault: str) -> None:
        note(f"mcp_servers.{server.name}: the server {fault}")

    async with contextlib.AsyncExitStack() as stack:
        started = await _start(server, None, stack, note_unclean)
    if started.error is not None:
        note(
            f"mcp_servers.{server.name}: the server cannot be used, so its tools are missing: {started.error}"
        )


async def _set_up(server: McpServer) -> None:
    """Run the set-up command of a server. Raises UsageError if it fails."""
    from harness.models.relay.mcp_servers.host_process import open_host_process
    from harness.sandbox.host_programs.program import CannotSuperviseError

    where = f"mcp_servers.{server.name}: setup_command"
    env = expand_values(server.env, os.environ, where=f"mcp_servers.{server.name}.env")
    command = ["/bin/sh", "-c", str(server.setup_command)]
    seconds = server.setup_timeout_ms / 1000
    try:
        async with open_host_process(command, env=env) as program, asyncio.timeout(seconds):
            program.stdin.close()
            while await program.stdout.read(64 * 1024):
                pass
            end = await program.wait()
    except TimeoutError:
        raise UsageError(f"{where} did not end within {seconds:g} s") from None
    except CannotSuperviseError as error:
        raise UsageError(f"{where} was not started: {error}") from error
    if end.exit_code != 0:
        how = f"exit code {end.exit_code}" if end.fault is None else f"a fault: it {end.fault}"
        errors = escape_terminal(program.errors, _ERROR_CHARACTERS, multiline=True)
        raise UsageError(f"{where} failed with {how}: {errors or 'it printed no reason'}")
