"""The sandboxes in which the programs of agents and servers run: their images, limits and settings."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from harness.core.errors import UsageError
from harness.environments.base import Environment
from harness.environments.sandbox_environment import SandboxEnvironment
from harness.environments.spec import EnvironmentSpec
from harness.environments.workspace import (
    WORKSPACE_IMAGE,
    WORKSPACE_LIMITS,
    OpenWorkspace,
    SandboxWorkspace,
    find_agent_folder,
    hold_workspace,
    name_image,
)
from harness.models.relay.mcp_servers.sandbox_process import ServerPlace
from harness.models.relay.mcp_servers.settings import McpServer
from harness.runs.agents.agent import WorkspaceNeeds
from harness.sandbox.limits import Limits
from harness.sandbox.pool import SandboxPool, SandboxSettings
from harness.sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from harness.environments.spec import EnvironmentSpec
    from harness.runs.attempt_settings import AttemptSettings


# The name of the limits of workspaces among the limits of environments.
WORKSPACE = "workspace"


def find_needs(agent: object) -> WorkspaceNeeds | None:
    """Return the workspace that an agent needs, None if it needs none."""
    needs: WorkspaceNeeds | None = getattr(agent, "workspace", None)
    return needs


@dataclass(frozen=True, slots=True)
class Workspaces:
    """The sandboxes of one kind of environment in which the programs of an agent and of servers run."""

    needs: WorkspaceNeeds | None
    # All servers of the config, also for a baseline, which starts none of them.
    servers: tuple[McpServer, ...]
    spec: EnvironmentSpec

    @property
    def agent_is_in_environment(self) -> bool:
        """Whether the agent's programs run in the sandbox of the environment."""
        return self.needs is not None and self.spec.is_workspace and not self.needs.is_apart

    def is_in_environment(self, server: McpServer) -> bool:
        """Return whether a server runs in the sandbox of the environment."""
        return server.where == "sandbox" and server.machine == "task" and self.spec.is_workspace

    def list_servers(self, *, apart: bool) -> list[McpServer]:
        """Return the servers in the sandbox of the environment, or those in sandboxes `apart` from it."""
        return [
            each
            for each in self.servers
            if each.where == "sandbox" and self.is_in_environment(each) is not apart
        ]

    def find_layer(self) -> str | None:
        """Return the prepared agent whose files the sandbox of the environment has, None for none.

        Raises UsageError if the programs in it need the files of two.
        """
        readers = {each.image: f"mcp_servers.{each.name}" for each in self.list_servers(apart=False)}
        if self.needs is not None and self.agent_is_in_environment:
            readers[self.needs.agent_image] = "the agent"
        wanted = sorted((image, reader) for image, reader in readers.items() if image is not None)
        if len(wanted) > 1:
            (image, reader), (other, other_reader), *_ = wanted
            raise UsageError(
                f"{reader} needs image '{image}', and {other_reader} needs image '{other}' in the same "
                "sandbox",
                hint="prepare one image with the files of both, or give the server `machine: own`",
            )
        return wanted[0][0] if wanted else None

    def list_images(self) -> set[str]:
        """Return the images of these sandboxes."""
        images = {name_image(WORKSPACE_IMAGE, each.image) for each in self.list_servers(apart=True)}
        if self.needs is not None and not self.agent_is_in_environment:
            images.add(name_image(WORKSPACE_IMAGE, self.needs.agent_image))
        if self.is_environment_used and self.spec.image is not None:
            images.add(name_image(self.spec.image, self.find_layer()))
        return images

    def without_servers_apart(self) -> Workspaces:
        """Return these sandboxes without those that a server has alone."""
        return replace(self, servers=tuple(self.list_servers(apart=False)))

    @property
    def is_environment_used(self) -> bool:
        """Whether programs of the agent, or servers, run in the sandbox of the environment."""
        return self.agent_is_in_environment or bool(self.list_servers(apart=False))

    def environment_settings(self, limits: Mapping[str, Limits]) -> SandboxSettings | None:
        """Return the settings of the environment's sandbox, None if no program of these runs there."""
        if not self.is_environment_used or self.spec.image is None:
            return None
        relays = self.needs is not None and self.agent_is_in_environment and self.needs.relays
        return SandboxSettings(
            name_image(self.spec.image, self.find_layer()),
            limits.get(self.spec.name, self.spec.limits),
            relay=relays or bool(self.list_servers(apart=False)),
        )


def make_apart_settings(layer: str | None, limits: Mapping[str, Limits], *, relay: bool) -> SandboxSettings:
    """Return the settings of a sandbox apart from the environment's."""
    image = name_image(WORKSPACE_IMAGE, layer)
    return SandboxSettings(image, limits.get(WORKSPACE, WORKSPACE_LIMITS), relay=relay)


def find_workspaces(
    agent: object, servers: Sequence[McpServer], environments: Iterable[EnvironmentSpec]
) -> list[Workspaces]:
    """Return the sandboxes of a run in which programs of its agent and of its servers run."""
    return [Workspaces(find_needs(agent), tuple(servers), spec) for spec in environments]


def add_workspace_limits(
    limits: dict[str, Limits], workspaces: Sequence[Workspaces], set_limits: Limits
) -> dict[str, Limits]:
    """Return the limits of environments, with those of workspaces if the run has any.

    `set_limits` are the limits of the config, of which only those that are set count.
    """
    if not any(each.needs is not None or each.list_servers(apart=True) for each in workspaces):
        return limits
    chosen = {**WORKSPACE_LIMITS.model_dump(), **set_limits.model_dump(exclude_unset=True)}
    return {**limits, WORKSPACE: Limits.model_validate(chosen)}


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
