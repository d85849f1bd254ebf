"""The places of an attempt: the workspace of its agent, and the sandboxes of MCP servers."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.environments.base import Environment
from harness.environments.sandbox_environment import SandboxEnvironment
from harness.environments.workspace import (
    OpenWorkspace,
    SandboxWorkspace,
    find_agent_folder,
    hold_workspace,
)
from harness.evaluation.workspaces import Workspaces, find_needs, make_apart_settings
from harness.mcp_settings import McpServer
from harness.relay.mcp_servers.sandbox_process import ServerPlace
from harness.sandbox.limits import Limits
from harness.sandbox.pool import SandboxPool, SandboxSettings
from harness.sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from harness.environments.spec import EnvironmentSpec
    from harness.evaluation.attempt_settings import AttemptSettings


@dataclass(frozen=True, slots=True)
class Places:
    """The open places of an attempt."""

    # Gives the workspace to the agent, None if the agent needs none.
    open_workspace: OpenWorkspace | None = None
    # The sandboxes of servers, by the names of the servers.
    servers: Mapping[str, ServerPlace] = field(default_factory=dict)


@dataclass(slots=True)
class AttemptPlaces:
    """Opens the places of one attempt.

    The sandbox of the environment is one of them if programs of agents run there. Every other sandbox is
    destroyed before anything is graded.
    """

    workspaces: Workspaces
    # The servers that the attempt starts.
    started: tuple[McpServer, ...]
    pool: SandboxPool
    limits: Mapping[str, Limits]
    # The number of sandboxes that the attempt holds now.
    _held: int = 0
    _pairing: contextlib.AsyncExitStack | None = None

    def environment_settings(self) -> SandboxSettings | None:
        """Return the settings of the environment's sandbox, None if no program of these runs there."""
        return self.workspaces.environment_settings(self.limits)

    @contextlib.asynccontextmanager
    async def pair(self) -> AsyncIterator[None]:
        """Keep other attempts from taking the first of several sandboxes until this one has all.

        The block opens the environment, if there is one, and then the places.
        """
        spec = self.workspaces.spec
        in_environment = int(spec.image is not None and spec.open_environment is not None)
        self._held, self._pairing = in_environment, None
        if in_environment + self._count_apart() < 2:
            yield
            return
        async with contextlib.AsyncExitStack() as self._pairing:
            await self._pairing.enter_async_context(self.pool.pairing)
            yield

    @contextlib.asynccontextmanager
    async def open(self, environment: Environment | None, seconds: float) -> AsyncIterator[Places]:
        """Yield the places for at most `seconds`. Call this in the block of `pair`.

        Raises SandboxError if a sandbox cannot start or cannot be removed.
        """
        async with contextlib.AsyncExitStack() as stack:
            open_workspace = await self._open_workspace(stack, environment, seconds)
            servers = {
                each.name: await self._open_server(stack, each, environment, seconds)
                for each in self.started
                if each.where == "sandbox"
            }
            if self._pairing is not None:
                await self._pairing.aclose()
            yield Places(open_workspace, servers)

    def _count_apart(self) -> int:
        own = self.workspaces.needs is not None and not self.workspaces.agent_is_in_environment
        servers = [each for each in self.started if each.where == "sandbox"]
        return own + sum(not self.workspaces.is_in_environment(each) for each in servers)

    async def _open_workspace(
        self, stack: contextlib.AsyncExitStack, environment: Environment | None, seconds: float
    ) -> OpenWorkspace | None:
        needs = self.workspaces.needs
        if needs is None:
            return None
        if self.workspaces.agent_is_in_environment and isinstance(environment, SandboxEnvironment):
            shared = SandboxWorkspace(environment.sandbox, environment.note_acting, is_in_environment=True)
            return lambda: hold_workspace(shared)
        settings = make_apart_settings(needs.agent_image, self.limits, relay=needs.relays)
        sandbox = await self._lease(stack, settings, seconds)

        def note_acting() -> None:
            sandbox.agent_acted = True

        own = SandboxWorkspace(sandbox, note_acting)
        return lambda: hold_workspace(own)

    async def _open_server(
        self,
        stack: contextlib.AsyncExitStack,
        server: McpServer,
        environment: Environment | None,
        seconds: float,
    ) -> ServerPlace:
        programs = None if server.image is None else f"{find_agent_folder(server.image)}/bin"
        if self.workspaces.is_in_environment(server) and isinstance(environment, SandboxEnvironment):
            return ServerPlace(environment.sandbox, seconds, programs, environment.note_acting)
        settings = make_apart_settings(server.image, self.limits, relay=True)
        return ServerPlace(await self._lease(stack, settings, seconds), seconds, programs)

    async def _lease(
        self, stack: contextlib.AsyncExitStack, settings: SandboxSettings, seconds: float
    ) -> Sandbox:
        leased = self.pool.lease(settings, seconds=seconds, held=self._held)
        sandbox = await stack.enter_async_context(leased)
        self._held += 1
        return sandbox


def plan_places(settings: AttemptSettings, spec: EnvironmentSpec) -> AttemptPlaces:
    """Return the places of an attempt in an environment of this kind. Nothing is opened yet."""
    servers = settings.servers
    configured, started = ((), ()) if servers is None else (servers.configured, servers.started)
    workspaces = Workspaces(find_needs(settings.agent), configured, spec)
    return AttemptPlaces(workspaces, started, settings.pool, settings.limits)
