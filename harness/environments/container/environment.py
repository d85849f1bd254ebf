"""The machine of a task folder, opened for an agent: image, health check, shell, and the oracle in it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

from pydantic import Field

from harness.core.errors import DataError, SandboxError, UsageError
from harness.core.tools import Arguments, Tool
from harness.core.types import Submission, Task
from harness.environments.base import EnvironmentContext, MachineRules, SandboxEnvironment
from harness.environments.container.compose import read_services
from harness.environments.container.images import choose_limits, find_main_image
from harness.environments.container.machine import ContainerSandbox, Machine, describe_failure, open_machine
from harness.environments.container.proxy import read_allowed_hosts
from harness.environments.container.seal import Level
from harness.environments.container.services import Group, Services, find_services, give_proxy, open_group
from harness.environments.container.target import TaskFolderSetup
from harness.environments.container.task_folder import (
    SOLVE_SCRIPT,
    TaskFolder,
    list_included_files,
    read_task_folder,
    resolve_env,
)
from harness.environments.container.task_toml import (
    MAIN,
    CollectHook,
    EnvironmentTable,
    Healthcheck,
    NetworkMode,
)
from harness.environments.os.environment import run_bash
from harness.environments.os.file_entries import Snapshot, UnreadableFiles
from harness.sandbox.backends.base import BuiltImage
from harness.sandbox.limits import Limits

COMMAND_SECONDS = 120
MOST_COMMAND_SECONDS = 3600
ORACLE_VARIABLES = {"DEBIAN_FRONTEND": "noninteractive"}
# Folders that a task may expect, which every user can write.
LOGS = ("/logs/agent", "/logs/artifacts", "/logs/verifier")
SHOWN_BYTES = 64 * 1024


class Command(Arguments):
    """A command for the shell."""

    command: str = Field(description="The command. It may have several lines.")
    timeout_seconds: int = Field(
        default=COMMAND_SECONDS,
        ge=1,
        le=MOST_COMMAND_SECONDS,
        description="The time after which the command is interrupted.",
    )


class MachineEnvironment(SandboxEnvironment):
    """The machine of any image, where an agent acts in a shell.

    Its files stay readable after `end_acting`, until the block of the function that opened it ends.
    """

    def __init__(
        self,
        machine: Machine,
        context: EnvironmentContext,
        *,
        image: BuiltImage,
        network: str,
        shell: str,
        tests_seconds: float | None,
    ) -> None:
        super().__init__(
            machine.sandbox,
            {describe_bash(machine, shell, network): functools.partial(run_bash, machine.sandbox)},
            context,
            end=machine.kill_processes,
            terminal=functools.partial(machine.sandbox.terminal, (shell, "-i")),
        )
        self.machine = machine
        self.image = image
        # The limit of the tests, None for the task's own.
        self.tests_seconds = tests_seconds
        # The differences from the published machine, for the metrics of the attempt.
        self.facts: dict[str, Any] = {"image": image.id}
        if image.replaced:
            self.facts["replaced_images"] = dict(image.replaced)

    async def keep_files(self) -> tuple[Snapshot, int]:
        files = await self.machine.sandbox.keep_files()
        return files, files.size_bytes


class ContainerEnvironment(MachineEnvironment):
    """The environment of a task folder."""

    sandbox: ContainerSandbox

    def __init__(
        self,
        group: Group,
        context: EnvironmentContext,
        *,
        services: Services | None,
        folder: TaskFolder,
        setup: TaskFolderSetup,
        image: BuiltImage,
        network: NetworkMode,
        shell: str,
        tests_seconds: float | None,
    ) -> None:
        table = folder.toml.environment
        about = describe_network(folder, network, group.services) + describe_offers(table)
        super().__init__(
            group.main, context, image=image, network=about, shell=shell, tests_seconds=tests_seconds
        )
        asked = folder.toml.agent.network_mode or table.network
        if asked is not NetworkMode.NONE and network is NetworkMode.NONE:
            self.facts["without_network"] = str(asked)
        replaced = [pair for each in services.images.values() for pair in each.replaced] if services else []
        if replaced:
            self.facts["replaced_images"] = {**self.facts.get("replaced_images", {}), **dict(replaced)}
        # The machines of the services beside it, and how they start again for the tests.
        self.beside = group.services
        self.place = group.place
        self.services = services
        self.folder = folder
        self.setup = setup
        # The seal level of the grading, None if none is proven.
        self.seal_level: Level | None = "work"
        # Whether a reward counts only if the tests report each of their parts. None: if their script asks
        # for reports.
        self.checks_reports: bool | None = None
        # Whether the reference has passed in such machines, so that the tools of the tests start there.
        self.tools_start = False
        # The names that objects of the agent have at the level `proxied`, None for every name.
        self.object_names: tuple[str, ...] | None = None
        # The collect hook that failed, with its end.
        self.failed_hook: str | None = None
        self._has_collected = False
        # Keeps the artifacts of the task at this moment, for the step of this name if it has steps.
        self.keep_artifacts: Callable[[str | None], Awaitable[None]] = _keep_nothing

    def note_acting(self) -> None:
        # An agent may end a service too.
        for machine in (self.machine, *self.beside.values()):
            machine.sandbox.agent_acted = True

    async def end_processes(self) -> None:
        """Run the collect hooks of the task beside the agent's processes, then end all processes.

        At the level `live` only the agent's shell ends. The services that it has started go on, because the
        tests look at them. Every report calls that unsealed. At the level `attached` they go on too, unless
        the task declares its services. The steps of a task were graded before.
        """
        if not self._has_collected and self.steps is None:
            self._has_collected = True
            await self.collect()
        if not self.keeps_processes or self.steps is not None:
            await super().end_processes()
        else:
            await self.machine.sandbox.end_shell()

    async def keep_files(self) -> tuple[Snapshot, int]:
        if self.services is not None:
            raise UsageError(
                f"task {self.folder.name} has services beside its machine, whose files belong to its state",
                hint="open its environment for each attempt",
            )
        return await super().keep_files()

    async def collect(self) -> None:
        """Run the collect hooks beside the agent's processes."""
        self.failed_hook = None
        for hook in self.folder.toml.verifier.collect:
            await self._collect(hook)

    @property
    def keeps_processes(self) -> bool:
        """Whether the agent's processes live on while the tests run."""
        return self.seal_level == "live" or (self.seal_level == "attached" and self.services is None)

    async def _collect(self, hook: CollectHook) -> None:
        machine = self.machine if hook.service == MAIN else self.beside.get(hook.service)
        if machine is None:
            self.failed_hook = f"{hook.command}: there is no service '{hook.service}'"
            return
        result = await machine.exec(hook.command, user=_name_user(hook.user), timeout=hook.timeout_sec)
        if result.exit_code != 0 or result.limit is not None:
            self.failed_hook = str(describe_failure(hook.command, result))


async def _keep_nothing(_step: str | None) -> None:
    pass


@contextlib.asynccontextmanager
async def open_container(task: Task, context: EnvironmentContext) -> AsyncIterator[ContainerEnvironment]:
    """Open the machine of a task folder, ready for an agent.

    Raises DataError and UsageError for a folder that cannot run here, and SandboxError.
    """
    setup = task.setup
    if not isinstance(setup, TaskFolderSetup):
        raise DataError(f"task {task.id} has the set-up of another environment: {type(setup).__name__}")
    folder = await asyncio.to_thread(read_folder, setup)
    rules = context.machine_rules or MachineRules()
    table = folder.toml.environment
    first = folder.at_step(0) if folder.steps else folder
    network = choose_network(first, rules)
    hosts = read_allowed_hosts(list_allowed_hosts(first)) if network is NetworkMode.ALLOWLIST else None
    compose = await asyncio.to_thread(read_services, folder, setup.pass_env)
    image = await find_main_image(context, folder, compose)
    main = functools.partial(
        open_machine,
        context.pool,
        image.id,
        seconds=context.seconds,
        settings=context.workspace or context.settings,
        limits=choose_limits(context.settings.limits, table, folder),
        user=_name_user(first.toml.agent.user),
        cwd=table.workdir,
        start=context.start,
        env={
            **({} if compose is None else compose.main.environment),
            **resolve_env(table.env, setup.pass_env, place="environment.env"),
        },
    )
    async with contextlib.AsyncExitStack() as stack:
        services = None
        if compose is None:
            group = Group(await stack.enter_async_context(main(network=network is NetworkMode.PUBLIC)))
            if hosts is not None:
                await give_proxy(stack, group.main, hosts)
        else:
            services = await find_services(
                *(context, folder, compose, main.keywords["limits"]),
                is_public=network is NetworkMode.PUBLIC,
                hosts=hosts,
            )
            opening = open_group(
                *(context.pool, services, main), settings=context.settings, seconds=context.seconds
            )
            group = await stack.enter_async_context(opening)
        machine = group.main
        try:
            async with context.pool.gate:
                await machine.make_folders(LOGS, mode=0o777)
                if table.healthcheck is not None:
                    await wait_until_healthy(machine, table.healthcheck)
                shell = await machine.open_shell()
        except (UsageError, UnreadableFiles) as error:
            # The other tasks of the run go on.
            message = f"task {folder.name} cannot run: {error}"
            raise SandboxError(message, acted_in=False, lasting=True) from error
        yield ContainerEnvironment(
            *(group, context),
            services=services,
            folder=folder,
            setup=setup,
            image=image,
            network=network,
            shell=shell,
            tests_seconds=task.tests_seconds,
        )


def read_folder(setup: TaskFolderSetup) -> TaskFolder:
    """Return the task folder of a set-up. Raises DataError if it has changed since the task was loaded."""
    folder = read_task_folder(setup.folder)
    if folder.digest != setup.digest:
        raise DataError("has changed since the run has read it", path=setup.folder, hint="start a new run")
    return folder


def choose_network(folder: TaskFolder, rules: MachineRules) -> NetworkMode:
    """Return the network of the agent's machine.

    A task that says nothing has none, unless the run allows it. Raises UsageError for a task that asks for a
    network which the run does not allow.
    """
    asked = folder.toml.agent.network_mode or folder.toml.environment.network_mode
    if asked is NetworkMode.NONE or rules.without_network:
        return NetworkMode.NONE
    if rules.allow_network:
        return asked or NetworkMode.PUBLIC
    if asked is None:
        return NetworkMode.NONE
    raise UsageError(
        f"task {folder.name} asks for network_mode = '{asked}'",
        hint="allow it: --allow-network; or run such tasks without a network: --network none",
    )


def list_allowed_hosts(folder: TaskFolder) -> tuple[str, ...]:
    """Return the `allowed_hosts` of the agent, which are the environment's unless it names its own."""
    own = folder.toml.agent.allowed_hosts
    return (folder.toml.environment.allowed_hosts if own is None else own) or ()


def describe_network(folder: TaskFolder, network: NetworkMode, beside: Iterable[str] = ()) -> str:
    """Return sentences for the agent about the network of its machine, and the services `beside` it."""
    reached = "".join(f"The machine reaches {name} by this name. " for name in beside)
    if network is NetworkMode.PUBLIC:
        return f"{reached}The machine has a network."
    if network is NetworkMode.NONE:
        return f"{reached}There is no other network." if reached else "There is no network."
    listed = ", ".join(list_allowed_hosts(folder)) or "no host"
    return (
        f"{reached}The variables http_proxy and https_proxy name a proxy that reaches {listed}. "
        "There is no other network."
    )


def describe_offers(table: EnvironmentTable) -> str:
    """Return sentences for the agent about the skills and the MCP servers of its task."""
    servers = (
        f"{each.name} ({each.transport}, {each.url or ' '.join((each.command or '', *each.args))})"
        for each in table.mcp_servers
    )
    listed = ", ".join(servers)
    skills = f" The folder {table.skills_dir} has instructions for the task." if table.skills_dir else ""
    return skills + (f" The machine reaches these MCP servers: {listed}." if listed else "")


def find_limits(task: Task, limits: Limits) -> Limits:
    """Return the limits of the machine of a task. Raises DataError."""
    if not isinstance(task.setup, TaskFolderSetup):
        return limits
    folder = read_task_folder(task.setup.folder)
    return choose_limits(limits, folder.toml.environment, folder)


async def wait_until_healthy(machine: Machine, check: Healthcheck) -> None:
    """Wait until the health check of a task succeeds. Raises SandboxError after too many failures."""
    began, failures = time.monotonic(), 0
    while True:
        result = await machine.exec(check.command, timeout=check.timeout_sec)
        if result.exit_code == 0 and result.limit is None:
            return
        is_starting = time.monotonic() - began < check.start_period_sec
        failures += not is_starting
        if failures >= check.retries:
            raise describe_failure(f"the health check of the task, {check.command!r},", result)
        await asyncio.sleep(check.start_interval_sec if is_starting else check.interval_sec)


def describe_bash(machine: Machine, shell: str, network: str) -> Tool:
    """Return the tool of a machine's shell."""
    name = shell.rpartition("/")[2]
    user = machine.user or "root"
    return Tool(
        "bash",
        f"Run a command in a {name} session, as {user}, in the folder {machine.cwd}. The session persists: "
        "its folder, variables and background jobs are available to the next command. Standard input is "
        f"empty. There is no terminal. {network} The output contains stdout and stderr; the middle of a long "
        "output is left out.",
        Command,
    )


async def solve(environment: ContainerEnvironment) -> Submission:
    """Run the reference solution of a task in its machine, as the oracle does, and return its output.

    Nothing of `solution/` is in the machine before. Raises UsageError for a task without a solution.
    """
    folder, machine = environment.folder, environment.machine
    if not folder.has_solution:
        raise UsageError(f"task {folder.name} has no {folder.solution}/{SOLVE_SCRIPT}")
    environment.note_acting()
    source = Path(folder.path, folder.solution)
    names = list_included_files(folder.path, folder.solution)
    await machine.put_files(source, "/solution", names=names, fresh=True, executable=[SOLVE_SCRIPT])
    given = folder.toml.solution.env
    result = await machine.exec(
        f"exec /solution/{SOLVE_SCRIPT}",
        env={**ORACLE_VARIABLES, **resolve_env(given, environment.setup.pass_env, place="solution.env")},
        timeout=min(folder.toml.agent.timeout_sec or environment.seconds_left, environment.seconds_left),
        keep_bytes=SHOWN_BYTES,
    )
    output = str(result.stdout) + str(result.stderr)
    environment.context.transcript.write(
        {"kind": "solution", "output": output, "exit_code": result.exit_code, "limit": result.limit}
    )
    return Submission("", agent_output=output)


def _name_user(user: str | int | None) -> str | None:
    return None if user is None else str(user)
