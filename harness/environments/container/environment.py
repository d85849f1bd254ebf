"""The machine of a task folder, opened for an agent: image, health check, shell, and the oracle in it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from harness.core.errors import DataError, SandboxError, UsageError, describe_requirement
from harness.core.logger import get_logger
from harness.core.tools import Arguments, Tool
from harness.core.types import Submission, Task
from harness.environments.base import EnvironmentContext, MachineRules
from harness.environments.container.machine import (
    ContainerSandbox,
    Machine,
    describe_failure,
    open_machine,
)
from harness.environments.container.seal import Level
from harness.environments.container.target import TaskFolderSetup
from harness.environments.container.task_folder import (
    DOCKERFILE,
    ENVIRONMENT,
    SOLUTION,
    SOLVE_SCRIPT,
    TaskFolder,
    list_included_files,
    read_task_folder,
    resolve_env,
)
from harness.environments.container.task_toml import CollectHook, EnvironmentTable, Healthcheck, NetworkMode
from harness.environments.os.environment import KEEP_BYTES, format_result
from harness.environments.os.root_sandbox import UnreadableFiles
from harness.environments.sandbox_environment import SandboxEnvironment
from harness.sandbox.backends.base import BuiltImage, RunsForeignImages
from harness.sandbox.limits import Limits

COMMAND_SECONDS = 120
MOST_COMMAND_SECONDS = 3600
ORACLE_VARIABLES = {"DEBIAN_FRONTEND": "noninteractive"}
# Folders that a task may expect, which every user can write.
LOGS = ("/logs/agent", "/logs/artifacts", "/logs/verifier")
SHOWN_BYTES = 64 * 1024

_LOGGER = get_logger(__name__)


class Command(Arguments):
    """A command for the shell."""

    command: str = Field(description="The command. It may have several lines.")
    timeout_seconds: int = Field(
        default=COMMAND_SECONDS,
        ge=1,
        le=MOST_COMMAND_SECONDS,
        description="The time after which the command is interrupted.",
    )


class ContainerEnvironment(SandboxEnvironment):
    """The environment of a task folder: the machine where an agent acts.

    Its files stay readable after `end_acting`, until the block of `open_container` ends.
    """

    sandbox: ContainerSandbox

    def __init__(
        self,
        machine: Machine,
        context: EnvironmentContext,
        *,
        folder: TaskFolder,
        setup: TaskFolderSetup,
        image: BuiltImage,
        facts: Mapping[str, Any],
        bash: Tool,
        shell: str,
        tests_seconds: float | None,
    ) -> None:
        super().__init__(
            machine.sandbox,
            {bash: functools.partial(run_bash, machine.sandbox)},
            context,
            end=machine.kill_processes,
            terminal=functools.partial(machine.sandbox.terminal, (shell, "-i")),
        )
        self.machine = machine
        self.folder = folder
        self.setup = setup
        self.image = image
        # The differences from the published machine, for the metrics of the attempt.
        self.facts = facts
        # The limit of the tests, None for the folder's own.
        self.tests_seconds = tests_seconds
        # The seal level of the grading, None if none is proven.
        self.seal_level: Level | None = "work"
        # Whether a reward counts only if the tests report each of their parts.
        self.checks_reports = True
        # The collect hook that failed, with its end.
        self.failed_hook: str | None = None
        self._has_collected = False

    async def end_processes(self) -> None:
        """Run the collect hooks of the task beside the agent's processes, then end all processes.

        At the level `live` they go on, because the tests look at them. Every report calls that unsealed.
        """
        if not self._has_collected:
            self._has_collected = True
            for hook in self.folder.toml.verifier.collect:
                await self._collect(hook)
        if self.seal_level != "live":
            await super().end_processes()

    async def _collect(self, hook: CollectHook) -> None:
        result = await self.machine.exec(hook.command, user=_name_user(hook.user), timeout=hook.timeout_sec)
        if result.exit_code != 0 or result.limit is not None:
            self.failed_hook = str(describe_failure(hook.command, result))


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
    is_public = choose_network(folder, rules)
    image = await find_image(context, folder, table, Path(folder.path, ENVIRONMENT))
    facts = describe_differences(folder, image, is_public=is_public)
    async with open_machine(
        context.pool,
        image.id,
        seconds=context.seconds,
        settings=context.workspace or context.settings,
        limits=choose_limits(context.settings.limits, table, folder),
        user=_name_user(folder.toml.agent.user),
        cwd=table.workdir,
        env=resolve_env(table.env, setup.pass_env, place="environment.env"),
        network=is_public,
    ) as machine:
        try:
            async with context.pool.gate:
                await machine.make_folders(LOGS, mode=0o777)
                if table.healthcheck is not None:
                    await wait_until_healthy(machine, table.healthcheck)
                shell = await machine.open_shell()
        except (UsageError, UnreadableFiles) as error:
            # The other tasks of the run go on.
            raise SandboxError(f"task {folder.name} cannot run: {error}", acted_in=False) from error
        yield ContainerEnvironment(
            *(machine, context),
            folder=folder,
            setup=setup,
            image=image,
            facts=facts,
            bash=describe_bash(machine, shell, is_public=is_public),
            shell=shell,
            tests_seconds=task.tests_seconds,
        )


def read_folder(setup: TaskFolderSetup) -> TaskFolder:
    """Return the task folder of a set-up. Raises DataError if it has changed since the task was loaded."""
    folder = read_task_folder(setup.folder)
    if folder.digest != setup.digest:
        raise DataError("has changed since the run has read it", path=setup.folder, hint="start a new run")
    if folder.compose is not None:
        raise DataError(
            "needs several machines, which cannot run yet", path=Path(folder.path, folder.compose)
        )
    return folder


def choose_network(folder: TaskFolder, rules: MachineRules) -> bool:
    """Return whether the agent's machine has a network.

    A task that says nothing has none, unless the run allows it. Raises UsageError for a task that asks for a
    network which the run does not allow.
    """
    agent, table = folder.toml.agent, folder.toml.environment
    asked = agent.network_mode or table.network_mode
    if asked is NetworkMode.NONE or rules.without_network:
        return False
    if rules.allow_network and asked is not NetworkMode.ALLOWLIST:
        return True
    if asked is None:
        return False
    raise UsageError(
        f"task {folder.name} asks for network_mode = '{asked}'"
        + (", which is not supported yet" if asked is NetworkMode.ALLOWLIST else ""),
        hint=("" if asked is NetworkMode.ALLOWLIST else "allow it: --allow-network; or ")
        + "run such tasks without a network: --network none",
    )


async def find_image(
    context: EnvironmentContext, folder: TaskFolder, table: EnvironmentTable, build: Path
) -> BuiltImage:
    """Return the image of a machine: the one that its table names, else one built from the folder `build`.

    Raises UsageError, DataError, and SandboxError for a build that fails.
    """
    backend = context.pool.backend
    if not isinstance(backend, RunsForeignImages):
        raise UsageError("the backend of this run cannot start images of task folders", hint="use Docker")
    rules = (context.machine_rules or MachineRules()).build
    with contextlib.ExitStack() as stack:
        if table.docker_image is not None:
            build = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            (build / DOCKERFILE).write_text(f"FROM {table.docker_image}\n", encoding="utf-8")
            rules = replace(rules, ca_file=None)
        async with context.pool.gate:
            return await asyncio.to_thread(
                functools.partial(
                    *(backend.build_image, build, rules),
                    name=folder.name,
                    seconds=table.build_timeout_sec,
                    notify=lambda line: _LOGGER.info("%s: %s", folder.name, line),
                )
            )


def choose_limits(limits: Limits, table: EnvironmentTable, folder: TaskFolder) -> Limits:
    """Return the limits of a machine: the task's own, and `limits` where it names none. Raises DataError."""
    own = {"memory_mb": table.memory_mb, "cpus": table.cpus, "disk_mb": table.storage_mb}
    own = {name: value for name, value in own.items() if value is not None}
    try:
        return Limits.model_validate(
            {**limits.model_dump(), "file_mb": own.get("disk_mb", limits.file_mb), **own}
        )
    except ValidationError as error:
        problem = error.errors()[0]
        raise DataError(
            f"{problem['loc'][0]} {describe_requirement(problem)}", path=Path(folder.path, "task.toml")
        ) from error


def find_limits(task: Task, limits: Limits) -> Limits:
    """Return the limits of the machine of a task. Raises DataError."""
    if not isinstance(task.setup, TaskFolderSetup):
        return limits
    folder = read_task_folder(task.setup.folder)
    return choose_limits(limits, folder.toml.environment, folder)


def describe_differences(folder: TaskFolder, image: BuiltImage, *, is_public: bool) -> dict[str, Any]:
    """Return the differences of a machine from the published one, which the metrics of an attempt show."""
    facts: dict[str, Any] = {"image": image.id}
    if image.replaced:
        facts["replaced_images"] = dict(image.replaced)
    asked = folder.toml.agent.network_mode or folder.toml.environment.network
    if asked is not NetworkMode.NONE and not is_public:
        facts["without_network"] = str(asked)
    return facts


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


def describe_bash(machine: Machine, shell: str, *, is_public: bool) -> Tool:
    """Return the tool of a machine's shell."""
    name = shell.rpartition("/")[2]
    user = machine.user or "root"
    network = "The machine has a network." if is_public else "There is no network."
    return Tool(
        "bash",
        f"Run a command in a {name} session, as {user}, in the folder {machine.cwd}. The session persists: "
        "its folder, variables and background jobs are available to the next command. Standard input is "
        f"empty. There is no terminal. {network} The output contains stdout and stderr; the middle of a long "
        "output is left out.",
        Command,
    )


async def run_bash(sandbox: ContainerSandbox, arguments: Command) -> str:
    """Run a command of an agent in the shell of a machine, and return the text that the agent sees."""
    try:
        result = await sandbox.run(
            arguments.command, timeout=arguments.timeout_seconds, keep_bytes=KEEP_BYTES
        )
    except UsageError as error:
        return error.message
    return format_result(result, arguments.timeout_seconds)


async def solve(environment: ContainerEnvironment) -> Submission:
    """Run the reference solution of a task in its machine, as the oracle does, and return its output.

    Nothing of `solution/` is in the machine before. Raises UsageError for a task without a solution.
    """
    folder, machine = environment.folder, environment.machine
    if not folder.has_solution:
        raise UsageError(f"task {folder.name} has no {SOLUTION}/{SOLVE_SCRIPT}")
    environment.note_acting()
    source = Path(folder.path, SOLUTION)
    names = list_included_files(folder.path, SOLUTION)
    await machine.put_files(source, "/solution", names=names, fresh=True, executable=[SOLVE_SCRIPT])
    given = folder.toml.solution.env
    result = await machine.exec(
        f"exec /solution/{SOLVE_SCRIPT}",
        env={
            **ORACLE_VARIABLES,
            **resolve_env(given, environment.setup.pass_env, place="solution.env"),
        },
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
