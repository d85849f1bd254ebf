"""A Linux machine where the agent is root and has a persistent shell."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import Field

from harness.core.errors import DataError, SandboxError, UsageError
from harness.core.tools import SUBMIT, Arguments, LastObservation, TextCall, TextFault, Tool
from harness.core.types import Task
from harness.environments.base import EnvironmentContext, SandboxEnvironment
from harness.environments.os.file_entries import CopyPlan, FileEntry, Snapshot, UnreadableFiles
from harness.environments.os.machine_files import (
    IDLE_SHELLS,
    MAX_USERS_BYTES,
    SHELLS,
    USERS,
    behind_links,
    changed_tools,
    commands_of_checks,
    login_shells,
    mentioned_names,
    named_tool_paths,
    paths_to_describe,
    plan_copy,
    plan_tools,
)
from harness.environments.os.root_sandbox import RootSandbox, ShellEnd, ShellResult, list_ahead
from harness.environments.os.scripts import Script, run_script
from harness.environments.text_protocol import (
    HOW_TO_ACT,
    LONGER_FENCE,
    Published,
    TextForm,
    make_tool,
    read_parentheses,
    read_tool_call,
)
from harness.environments.written_actions import Block, WrittenReply
from harness.sandbox.failures import build_fault
from harness.sandbox.limits import Limits
from harness.sandbox.pool import SandboxSettings
from harness.sandbox.sandbox import Sandbox

COMMAND_SECONDS = 30
MOST_COMMAND_SECONDS = 120
SETUP_SECONDS = 60.0
START_SECONDS = 10.0
KEEP_BYTES = 12_000
LIMITS = Limits(
    memory_mb=1024,
    processes=256,
    disk_mb=512,
    file_mb=256,
    # The number that a login gets on Debian. Open files use memory of the kernel and slots in limits of the
    # machine.
    open_files=1024,
    cpu_seconds=60,
    wall_seconds=60,
)


@dataclass(frozen=True, slots=True)
class OsSetup:
    """The set-up of a machine before an agent acts: scripts, and a line that is typed into its shell."""

    inits: tuple[Script, ...] = ()
    start: str | None = None

    @property
    def changes_files(self) -> bool:
        return bool(self.inits) or self.start is not None


class Command(Arguments):
    """A command for the shell."""

    command: str = Field(description="The command. It may have several lines.")
    timeout_seconds: int = Field(
        default=COMMAND_SECONDS,
        ge=1,
        le=MOST_COMMAND_SECONDS,
        description="The time after which the command is interrupted.",
    )


BASH = Tool(
    "bash",
    "Run a command in a bash session, as root. The session persists: its folder, variables and background "
    "jobs are available to the next command. Standard input is empty. There is no terminal and no network. "
    "The output contains stdout and stderr; the middle of a long output is left out.",
    Command,
)
SCRIPT = make_tool(
    "bash_action",
    "Execute bash code to perform an operation in the Linux environment.",
    script=(str, "The bash script to be executed."),
)
_FINISHED = make_tool(
    "finish_action",
    "Indicate that the task has been finished or need some additional information to be finished.",
    thought=(str, "The thought or reason indicating the task is finished."),
)
_ANSWERED = make_tool(
    "answer_action", "Provide the answer to the question.", answer=(str, "The answer to the question.")
)
# Upstream cuts an output of more characters than the first number to the second.
_MOST_SHOWN, _SHOWN = 800, 780
SCRIPT_OUTPUT = "The output of the OS:\n\n"
FINISH, ANSWER = "finish", "answer"
DONE = "done"
_SHELLS = ("bash", "sh", "shell")
_INSTRUCTIONS = f"""\
{HOW_TO_ACT}

`bash`: {BASH.description}

Think: YOUR THOUGHTS

Act: bash

```bash
COMMAND
```

`submit` with an answer. It is in parentheses, and has quotes only if they belong to it:

Think: YOUR THOUGHTS

Act: answer(ANSWER)

`submit` with `{DONE}`, when you were not asked for an answer:

Think: YOUR THOUGHTS

Act: finish

A command that needs more time than usual goes into a block of JSON instead:

Act: bash

```json
{{"command": COMMAND, "timeout_seconds": SECONDS}}
```

{LONGER_FENCE}"""
_ADVICE = (
    "Write a line `Act: bash` and the command in a block ```bash, or `Act: answer(ANSWER)`, or `Act: finish`."
)


class Machine(SandboxEnvironment):
    """The environment of one `os` task. It also opens the fresh machines that checks run in.

    `task_text` is the text of the task that the agent sees. `before` holds the files that the set-up changed,
    as they were at the time `began_ns`, before the agent acted.
    """

    sandbox: RootSandbox

    def __init__(
        self,
        sandbox: RootSandbox,
        context: EnvironmentContext,
        *,
        task_text: str,
        before: Snapshot,
        began_ns: int,
    ) -> None:
        super().__init__(
            sandbox,
            {BASH: functools.partial(run_bash, sandbox)},
            context,
            end=sandbox.end_all,
            terminal=sandbox.terminal,
        )
        self.task_text = task_text
        self.before = before
        self.began_ns = began_ns
        self._listing: asyncio.Task[list[FileEntry]] | None = None

    @contextlib.asynccontextmanager
    async def copy_before(self) -> AsyncIterator[RootSandbox]:
        """Open a fresh machine in the state of this one before the agent acted. Raises SandboxError."""
        async with self._lease_fresh() as copy:
            try:
                await copy.copy_files(self.before.plan(), self.before.read_ranges)
            except UnreadableFiles as error:
                # The agent has made none of these files, so the agent is not the cause.
                message = f"the files of the set-up cannot be copied: {error}"
                raise SandboxError(message, acted_in=False) from error
            yield copy

    @contextlib.asynccontextmanager
    async def copy_left(self, texts: Sequence[str]) -> AsyncIterator[Copy]:
        """Open a fresh machine with the files that the agent left. Every process of the agent must be dead.

        `texts` are the texts of the task that the agent did not see. Raises UnreadableFiles, SandboxError.
        """
        named = named_tool_paths((self.task_text, *texts))
        async with self._lease_fresh() as copy:
            left = await self.list_left_files()
            set_up = [entry.path for entry in self.before.entries]
            mentioned = mentioned_names((self.task_text, *texts))
            fresh = await copy.describe(paths_to_describe(named, set_up, mentioned))
            tools = plan_tools(self.before.entries)
            contents = self.before.contents.values()
            of_checks = commands_of_checks(left, self.task_text, texts, list(contents))
            plan = plan_copy(left, named, fresh, set_up, mentioned, of_checks)
            await self._refuse_strange_shells(plan, named, copy)
            await copy.copy_files(tools, self.before.read_ranges)
            copy.agent_acted = True
            await copy.copy_files(plan, self.sandbox.read_ranges)
            yield Copy(copy, tuple(changed_tools(left, plan, fresh, self.began_ns)))

    async def _refuse_strange_shells(self, plan: CopyPlan, named: Sequence[str], fresh: RootSandbox) -> None:
        """Raise UnreadableFiles if the agent gave a user a login shell that no check can trust.

        A check that acts as that user would trust the exit code of the agent's program, or of a program that
        runs no command. Users of the image and of the set-up may keep their shells, and a task may name one.
        """
        users = next((entry for entry in plan.entries if entry.path == USERS), None)
        if users is None:
            return
        if users.kind != "file" or users.size > MAX_USERS_BYTES:
            raise UnreadableFiles(f"{USERS} is a {users.kind} of {users.size} bytes")
        text = await self.sandbox.read_ranges([(USERS, 0, users.size)])
        of_set_up = set(login_shells(self.before.contents.get(USERS, b"")))
        kept = of_set_up.union(login_shells(await fresh.read_file(USERS)))
        known = {*SHELLS, *({shell for _, shell in of_set_up} - IDLE_SHELLS), *named}
        for user, shell in login_shells(text):
            if not known & {shell, behind_links(shell)} and (user, shell) not in kept:
                raise UnreadableFiles(
                    f"the login shell of {user} is {shell}, whose exit code no check can trust"
                )

    async def keep_files(self) -> tuple[MachineFiles, int]:
        left = await self.sandbox.keep_files(self.began_ns)
        return MachineFiles(self.before, left), self.before.size_bytes + left.size_bytes

    @contextlib.asynccontextmanager
    async def _lease_fresh(self) -> AsyncIterator[RootSandbox]:
        context = self.context
        settings = _settings(context.settings)
        async with context.pool.lease(settings, seconds=context.seconds, nested=True) as leased:
            yield _require_root(leased)

    async def is_changed(self) -> bool:
        """Return whether the agent changed any file. Raises UnreadableFiles."""
        return any(entry.ctime_ns >= self.began_ns for entry in await self.list_left_files())

    async def list_left_files(self) -> list[FileEntry]:
        """Return all files that were changed since this machine started. Raises UnreadableFiles."""
        if self._listing is None:
            self._listing = asyncio.create_task(self.sandbox.list_changed())
        return await self._listing

    @contextlib.asynccontextmanager
    async def list_ahead(self) -> AsyncIterator[None]:
        """List the files that the agent left while the block starts other machines."""
        async with list_ahead(self.sandbox.list_changed()) as self._listing:
            yield


@dataclass(frozen=True, slots=True)
class MachineFiles:
    """The files that the set-up of a machine changed, and those that were changed since then."""

    before: Snapshot
    left: Snapshot


@dataclass(frozen=True, slots=True)
class Copy:
    """A fresh machine with files of another one, and the tools that the agent changed in that one."""

    sandbox: RootSandbox
    changed_tools: tuple[str, ...]


async def set_up(sandbox: RootSandbox, setup: OsSetup) -> None:
    """Set up a fresh machine for its task: start the shell, run the scripts, type the line.

    The exit codes of the scripts do not count, because some scripts of AgentBench fail although their work is
    done. Raises SandboxError if a script reaches a limit, because no agent could solve the task then.
    """
    await sandbox.open_shell()
    for script in setup.inits:
        result = await run_script(sandbox, script, timeout=SETUP_SECONDS)
        if result.limit is not None:
            raise build_fault(f"a script that sets up the task reached the limit {result.limit}")
    if setup.start is not None:
        await sandbox.run(setup.start, timeout=START_SECONDS, typed=True)


@contextlib.asynccontextmanager
async def open_machine(task: Task, context: EnvironmentContext) -> AsyncIterator[Machine]:
    """Open the machine of a task after its set-up, ready for an agent. Raises SandboxError, DataError."""
    setup = OsSetup() if task.setup is None else task.setup
    if not isinstance(setup, OsSetup):
        raise DataError(f"task {task.id} has the set-up of another environment: {type(setup).__name__}")
    settings = _settings(context.workspace or context.settings)
    async with context.pool.lease(settings, seconds=context.seconds) as leased:
        sandbox, start = _require_root(leased), context.start
        async with context.pool.gate:
            # A start from other files needs this too, because it starts the shell and the processes.
            await set_up(sandbox, setup)
            if start is not None:
                before = start.files.before
                await sandbox.bring_files(before)
            else:
                before = await _snapshot(sandbox) if setup.changes_files else Snapshot()
        began_ns = await sandbox.begin()
        if start is not None:
            sandbox.agent_acted = start.agent_acted
            await sandbox.bring_files(start.files.left)
        machine = Machine(sandbox, context, task_text=task.prompt, before=before, began_ns=began_ns)
        machine.publish(task, make_published(sandbox))
        yield machine


async def _snapshot(sandbox: RootSandbox) -> Snapshot:
    try:
        return await sandbox.snapshot_files()
    except UnreadableFiles as error:
        raise SandboxError(f"the set-up of the task made files that cannot be copied: {error}") from error


def _settings(settings: SandboxSettings) -> SandboxSettings:
    return replace(settings, kind=RootSandbox)


def _require_root(sandbox: Sandbox) -> RootSandbox:
    if not isinstance(sandbox, RootSandbox):
        raise TypeError(f"the pool leased a {type(sandbox).__name__} instead of a RootSandbox")
    return sandbox


async def run_bash(sandbox: RootSandbox, arguments: Any) -> str:
    """Run a command of an agent in the shell of a machine, and return the text that the agent sees."""
    try:
        result = await sandbox.run(
            arguments.command, timeout=arguments.timeout_seconds, keep_bytes=KEEP_BYTES
        )
    except UsageError as error:
        return error.message
    return format_result(result, arguments.timeout_seconds)


def format_result(result: ShellResult, seconds: float) -> str:
    """Return the text that an agent sees of a command: its output, and in brackets how the command ended."""
    lines = []
    if result.renewed:
        lines.append(
            "[this is a new shell in /root, because the previous one has ended; its variables are gone]"
        )
    output = str(result.output)
    lines.append(output.removesuffix("\n") if output else "[no output]")
    lines.append(f"[{_describe_end(result, seconds)}]")
    if not result.shell_lives:
        lines.append("[the shell has ended; the next command gets a new one in /root]")
    if result.refused_forks:
        lines.append("[the limit on processes was reached]")
    return "\n".join(lines)


def _describe_end(result: ShellResult, seconds: float) -> str:
    match result.ended:
        case ShellEnd.WALL:
            return f"interrupted after {seconds:g} s"
        case ShellEnd.OUTPUT:
            return f"interrupted: it wrote {result.output.total} bytes"
        case ShellEnd.KILLED:
            return "interrupted"
        case ShellEnd.MEMORY:
            return "killed at the memory limit"
        case _ if result.exit_code < 0:
            return f"ended by signal {-result.exit_code}"
        case _:
            return f"exit code {result.exit_code}"


def make_published(sandbox: RootSandbox) -> Published:
    """Return AgentBench's function calls for a machine."""

    async def run(arguments: Any) -> str:
        try:
            result = await sandbox.run(arguments.script, timeout=MOST_COMMAND_SECONDS, keep_bytes=KEEP_BYTES)
        except UsageError as error:
            return error.message
        return show_script(result)

    async def answer(arguments: Any) -> LastObservation:
        return LastObservation("", arguments.answer)

    async def finish(_arguments: Any) -> LastObservation:
        return LastObservation("", DONE)

    return Published(
        handlers={SCRIPT: run, _FINISHED: finish, _ANSWERED: answer},
        submit=lambda text: (_ANSWERED.name, {"answer": text}),
        only_first=True,
    )


def show_script(result: ShellResult) -> str:
    """Return the text of a script's output in upstream's words, and how it ended if it was interrupted."""
    output = str(result.output)
    if len(output) > _MOST_SHOWN:
        output = f"{output[:_SHOWN]}\n[truncated because the output is too long]"
    text = f"{SCRIPT_OUTPUT}{output}" if output else "The output of the OS is empty."
    if result.ended in (ShellEnd.WALL, ShellEnd.OUTPUT, ShellEnd.KILLED, ShellEnd.MEMORY):
        text += f"\n[{_describe_end(result, MOST_COMMAND_SECONDS)}]"
    return text


def _read_command(tools: Mapping[str, Tool], reply: WrittenReply) -> TextCall | TextFault:
    action = reply.actions[0]
    blocks = action.blocks or [each for each in reply.introduction.blocks if each.label in _SHELLS]
    if not blocks:
        return TextFault("missing block", f"There is no command for `bash`. {_ADVICE}")
    return read_tool_call(tools, replace(action, blocks=[_join_commands(blocks)]))


def _read_answer(_tools: Mapping[str, Tool], reply: WrittenReply) -> TextCall | TextFault:
    action = reply.actions[0]
    if (answer := read_parentheses(action)) is not None:
        return answer
    if action.blocks:
        block = action.blocks[0]
        return TextCall(SUBMIT.name, {"answer": block.text}, is_complete=block.is_closed)
    advice = "Write the answer in parentheses on the same line: `Act: answer(ANSWER)`."
    return TextFault("missing answer", f"There is no answer. {advice}")


def _join_commands(blocks: list[Block]) -> Block:
    """Return the command of an action: its blocks marked as a shell's, joined, or else its first block."""
    marked = [block for block in blocks if block.label in _SHELLS]
    if blocks[0].label == "json" or not marked:
        return blocks[0]
    return Block(_SHELLS[0], "\n\n".join(block.text for block in marked), marked[-1].is_closed)


TEXT_FORM = TextForm(
    instructions=_INSTRUCTIONS,
    tools=(BASH,),
    advice=_ADVICE,
    # Upstream begins every result so, and models know the words from AgentBench's examples.
    result="The output of the OS:",
    words={
        BASH.name: _read_command,
        ANSWER: _read_answer,
        SUBMIT.name: _read_answer,
        FINISH: lambda _tools, _reply: TextCall(SUBMIT.name, {"answer": DONE}),
    },
    known=(BASH.name, ANSWER, FINISH),
)
"""AgentBench's form: `Act: bash`, `Act: finish` and `Act: answer(...)`.

Upstream carries out the last action of a reply. Here it is the first, because a model that writes several has
not seen the result of the first one. As upstream does, the form joins all blocks marked as `bash`, and takes
those before the action if none follows it.
Source: the task `os_interaction` of AgentBench (Liu et al. 2023, arXiv 2308.03688).
"""
