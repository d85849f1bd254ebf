"""The sandboxes where the programs of agents and servers run: their images, limits and settings."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.benchmarks.benchmark import Benchmark
from harness.core.errors import SandboxError, UsageError
from harness.core.types import Task
from harness.environments import environment_spec, grader_of
from harness.environments.base import Environment, SandboxEnvironment
from harness.environments.spec import EnvironmentSpec, SandboxGrader
from harness.environments.workspace import (
    WORKSPACE_IMAGE,
    WORKSPACE_LIMITS,
    OpenWorkspace,
    Workspace,
    find_agent_folder,
    hold_workspace,
    name_image,
)
from harness.models.relay.mcp_servers.sandbox_process import ServerPlace
from harness.models.relay.mcp_servers.settings import McpServer
from harness.runs.agents.agent import WorkspaceNeeds
from harness.runs.attempt_parts import MOST_PAUSE_SECONDS, AttemptPart, Try
from harness.sandbox.limits import Limits
from harness.sandbox.pool import SandboxPool, SandboxSettings
from harness.sandbox.sandbox import Sandbox

# The name of the limits of workspaces among the limits of environments.
WORKSPACE = "workspace"


def find_needs(agent: object) -> WorkspaceNeeds | None:
    """Return the workspace that an agent needs, None if it needs none."""
    needs: WorkspaceNeeds | None = getattr(agent, "workspace", None)
    return needs


@dataclass(frozen=True, slots=True)
class Workspaces:
    """The sandboxes of one kind of environment where the programs of an agent and of servers run."""

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
    """Return the sandboxes of a run where programs of its agent and of its servers run."""
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


class PlacesPart(AttemptPart):
    """Opens the sandboxes where programs of one attempt's agent and servers run.

    The sandbox of the environment is one of them if programs of agents run there. Every other sandbox is
    destroyed before anything is graded.
    """

    def __init__(
        self,
        workspaces: Workspaces,
        started: Sequence[McpServer],
        pool: SandboxPool,
        limits: Mapping[str, Limits],
    ) -> None:
        """Plan the sandboxes. `started` are the servers that the attempt starts."""
        # The sandboxes of servers while they are open, by the names of the servers.
        self.servers: Mapping[str, ServerPlace] = {}
        self._workspaces = workspaces
        self._started = [each for each in started if each.where == "sandbox"]
        self._pool = pool
        self._limits = limits
        # The number of sandboxes that the attempt holds now.
        self._held = 0
        self._pairing = contextlib.AsyncExitStack()

    async def prepare(self, attempt: Try) -> None:
        """Keep other attempts from taking the first of several sandboxes until this one has all."""
        context, spec = attempt.environment_context, self._workspaces.spec
        if (settings := self._workspaces.environment_settings(self._limits)) is not None:
            settings = replace(settings, terminals=context.settings.terminals)
            attempt.environment_context = replace(context, workspace=settings)
        self._held = int(spec.image is not None and spec.open_environment is not None)
        self._pairing = await attempt.stack.enter_async_context(contextlib.AsyncExitStack())
        if self._held + self._count_apart() >= 2:
            await self._pairing.enter_async_context(self._pool.pairing)

    @contextlib.asynccontextmanager
    async def enter(self, attempt: Try) -> AsyncIterator[None]:
        seconds = attempt.seconds + MOST_PAUSE_SECONDS
        stack = contextlib.AsyncExitStack()
        try:
            open_workspace = await self._open_workspace(stack, attempt.environment, seconds)
            self.servers = {
                each.name: await self._open_server(stack, each, attempt.environment, seconds)
                for each in self._started
            }
            await self._pairing.aclose()
            attempt.agent_context = replace(attempt.agent_context, open_workspace=open_workspace)
            yield
        finally:
            try:
                await stack.aclose()
            except SandboxError as error:
                # The end of the attempt counts although a sandbox cannot be removed.
                attempt.settings.observer.note(f"{attempt.task.id}: {error.message}")

    def _count_apart(self) -> int:
        own = self._workspaces.needs is not None and not self._workspaces.agent_is_in_environment
        return own + sum(not self._workspaces.is_in_environment(each) for each in self._started)

    async def _open_workspace(
        self, stack: contextlib.AsyncExitStack, environment: Environment | None, seconds: float
    ) -> OpenWorkspace | None:
        needs = self._workspaces.needs
        if needs is None:
            return None
        if self._workspaces.agent_is_in_environment and isinstance(environment, SandboxEnvironment):
            shared = environment.sandbox, environment.note_acting
            return lambda: hold_workspace(Workspace(*shared, is_in_environment=True))
        settings = make_apart_settings(needs.agent_image, self._limits, relay=needs.relays)
        sandbox = await self._lease(stack, settings, seconds)

        def note_acting() -> None:
            sandbox.agent_acted = True

        return lambda: hold_workspace(Workspace(sandbox, note_acting))

    async def _open_server(
        self,
        stack: contextlib.AsyncExitStack,
        server: McpServer,
        environment: Environment | None,
        seconds: float,
    ) -> ServerPlace:
        programs = None if server.image is None else f"{find_agent_folder(server.image)}/bin"
        if self._workspaces.is_in_environment(server) and isinstance(environment, SandboxEnvironment):
            return ServerPlace(environment.sandbox, seconds, programs, environment.note_acting)
        settings = make_apart_settings(server.image, self._limits, relay=True)
        return ServerPlace(await self._lease(stack, settings, seconds), seconds, programs)

    async def _lease(
        self, stack: contextlib.AsyncExitStack, settings: SandboxSettings, seconds: float
    ) -> Sandbox:
        leased = self._pool.lease(settings, seconds=seconds, held=self._held)
        sandbox = await stack.enter_async_context(leased)
        self._held += 1
        return sandbox


def list_shared_images(benchmark: Benchmark, tasks: Iterable[Task]) -> list[str]:
    """Return the images of the graders that grade many tasks in one sandbox, or in one of another image."""
    targets = [benchmark.references[task.id].target for task in tasks]
    graders = [(each, target) for target in targets if isinstance(each := grader_of(target), SandboxGrader)]
    images = {each.image or each.choose_image(target) for each, target in graders}
    return sorted(image for image in images if image)


def list_images(
    benchmark: Benchmark, tasks: Iterable[Task], workspaces: Sequence[Workspaces] = ()
) -> list[str]:
    """Return every image that the tasks and the programs in `workspaces` need.

    Tasks that need none need no engine either.
    """
    chosen = list(tasks)
    specs = [environment_spec(name) for name in {task.environment for task in chosen}]
    own = {spec.image for spec in specs if spec.image is not None}
    shared = list_shared_images(benchmark, chosen)
    programs = {image for each in workspaces for image in each.list_images()}
    return sorted(own | {*shared} | programs)
