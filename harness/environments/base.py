"""An environment: what an agent acts in, opened for one attempt, and the tools that it can call there.

It lives in a sandbox, where an agent runs programs, or on the host, as a world that answers texts. The state
and the target of such a world stay in this process, where no program of an agent runs. An agent only sends
the arguments of its tools. They are bounded here. The world compares them, and never evaluates them, formats
them into a query, or uses them as a path.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from pydantic import ValidationError

from harness.core.errors import HarnessError, UsageError
from harness.core.text import shorten
from harness.core.tools import (
    SUBMIT,
    ForeignTool,
    LastObservation,
    MakeTextProtocol,
    Observation,
    Tool,
    TurnLimitReached,
)
from harness.core.types import PlainData, Task, Transcript, Verdict
from harness.environments.text_protocol import (
    LENIENT,
    PROTOCOLS,
    GenericProtocol,
    Published,
    PublishedProtocol,
    take_by_place,
)
from harness.sandbox.backends.base import BuildRules
from harness.sandbox.failures import SandboxClosed
from harness.sandbox.sandbox import Sandbox
from harness.sandbox.streaming import Terminal

if TYPE_CHECKING:
    from harness.environments.container.seal import Level
    from harness.models.judge import EnvironmentJudge
    from harness.sandbox.pool import SandboxPool, SandboxSettings

# Each unknown argument would be a line of the error that the agent sees.
MAX_ARGUMENTS = 100
# The most characters of an argument's name that an error shows.
SHOWN_NAME = 100
# The most characters of the faults that an error shows.
MAX_ERROR_CHARACTERS = 4000
# More errors are counted only, because their list takes far more memory than the values.
MAX_LISTED_ERRORS = 1000
# The largest text that an agent may send as an argument of a tool, in characters.
MAX_ARGUMENT_CHARACTERS = 4096
# The largest arguments of a call in all, in characters of texts and names, and in values.
MAX_CALL_SIZE = 8 * MAX_ARGUMENT_CHARACTERS
# The transcript has this in the place of larger arguments, because it must not grow by megabytes with each
# call that is refused.
TOO_LARGE = {"too large": f"more than {MAX_CALL_SIZE:,} characters"}

OpenTerminal = Callable[..., AbstractAsyncContextManager[Terminal]]
State = TypeVar("State")
Handler = Callable[[Any], Awaitable[str | LastObservation]]
"""Carries out the call of a tool with its checked arguments, and returns the text that the agent sees."""
ForeignHandler = Callable[[dict[str, Any]], Awaitable["Observation"]]
"""Carries out the call of a tool of a user's server. It never raises, because the server may be broken."""


@dataclass(frozen=True, slots=True)
class MachineRules:
    """The rules of a run for machines that are made from images of tasks."""

    build: BuildRules = field(default_factory=BuildRules)
    # Whether the machine of an agent gets a network if its task wants one.
    allow_network: bool = False
    # Whether tasks that want a network run without one, instead of being refused.
    without_network: bool = False
    # The seal level of every task, None for the one that its reference proves.
    seal: Level | None = None
    # Whether the tests of a task get a network, where they install their tools themselves.
    grading_network: bool = False


@dataclass(frozen=True, slots=True)
class EnvironmentSnapshot:
    """The files of an environment at one moment. Others of its task start from them.

    It has neither processes nor the state of a shell. A grader of such an environment judges it as if its
    own agent had made the changes that an agent had made before.
    """

    # In the form of the environment, which alone reads them.
    files: Any = field(repr=False)
    size_bytes: int
    turns_used: int
    agent_acted: bool


@dataclass(frozen=True, slots=True)
class EnvironmentContext:
    """The parts of the harness that an environment uses."""

    pool: SandboxPool
    # The environment leases its sandboxes from `pool` with these settings.
    settings: SandboxSettings
    # The longest time that a lease may take.
    seconds: float
    # Each call of a tool is written here.
    transcript: Transcript
    # The largest number of calls of tools, None for no limit.
    turns: int | None = None
    # The written form of tool calls, which `EnvironmentSpec.text_protocol` names.
    text_protocol: MakeTextProtocol = GenericProtocol
    # The target of the task's reference. Only an environment on the host gets it, because its tools answer
    # from it. It is None for an environment in a sandbox.
    target: PlainData | None = None
    # For environments that draw random numbers. It differs from the seed that the agent gets, because an
    # agent with this one could compute what the environment hides or draws next.
    seed: int = 0
    # Answers the environment's questions, None if the benchmark names no judge.
    judge: EnvironmentJudge | None = None
    # Attempts with this key may act in one sandbox, one after the other, if nothing of an attempt can be left
    # there. None if each attempt needs a new sandbox.
    key: Hashable = None
    # The settings of the sandbox where the agent acts, if its programs run there. Graders use `settings`.
    workspace: SandboxSettings | None = None
    # For environments whose machines are made from images of tasks.
    machine_rules: MachineRules | None = None
    # The files that the environment starts from, None for the task's own. No grader reads this.
    start: EnvironmentSnapshot | None = None


class NoTranscript:
    """Keeps nothing. Implements `Transcript`."""

    def write(self, entry: Mapping[str, Any], *, is_end: bool = False) -> None:
        """Drop an entry."""


@dataclass(frozen=True, slots=True)
class Step:
    """A part of a task with a prompt and a grading of its own. `seconds` is its share of the agent's time."""

    name: str
    prompt: str
    seconds: float


class Steps(Protocol):
    """The steps of a task, which an agent makes one after the other in one environment."""

    def plan(self) -> Sequence[Step]:
        """Return the steps, in order."""

    async def begin(self, number: int) -> bool:
        """Prepare a step, from 0, and return whether the agent may begin. Raises SandboxError."""

    async def end(self) -> bool:
        """Grade the step under way, and return whether the next one begins. Raises SandboxError."""

    def judge(self, pass_at: float) -> Verdict:
        """Return the verdict on the task by the steps that were graded."""


class Environment:
    """A live environment, opened for one attempt. Each call of a tool is a turn, even if it is refused.

    It is a `SandboxEnvironment` or a `HostEnvironment`.
    """

    def __init__(self, handlers: Mapping[Tool, Handler], context: EnvironmentContext) -> None:
        self.context = context
        self.tools = {tool.name: tool for tool in (*handlers, SUBMIT)}
        self.text_protocol = context.text_protocol(self.tools)
        self.turns = context.turns
        self.turns_used = 0 if context.start is None else context.start.turns_used
        self.submitted: str | None = None
        # None for a task with one prompt.
        self.steps: Steps | None = None
        self._handlers = {tool.name: handler for tool, handler in handlers.items()}
        # The tools of the user's servers, and the further names that an agent may call them by.
        self._foreign: Mapping[str, ForeignHandler] = {}
        self._aliases: Mapping[str, str] = {}
        # A tool runs alone, and none runs once the environment is graded.
        self._calling = asyncio.Lock()
        self._is_over = False
        self._acted = False
        # Returns the call that submits an answer, if a published protocol has a tool for that.
        self._submission: Callable[[str], tuple[str, dict[str, Any]]] | None = None

    def publish(self, task: Task, rules: Published) -> None:
        """Show the agent the tools of a published protocol, if the task names one. It has not acted yet."""
        if task.protocol not in PROTOCOLS:
            return
        handlers = {
            take_by_place(tool) if task.protocol == LENIENT else tool: handler
            for tool, handler in rules.handlers.items()
        }
        self.tools = {tool.name: tool for tool in handlers}
        self._handlers = {tool.name: handler for tool, handler in handlers.items()}
        self._submission = rules.submit
        self.text_protocol = PublishedProtocol(self.tools, rules)

    @property
    def agent_acted(self) -> bool:
        """Return whether the agent has run anything here, so that it answers for a loss."""
        return self._acted

    def note_acting(self) -> None:
        """Note that the agent acts now. It is called before the handler of a tool runs."""
        self._acted = True

    def add_foreign_tools(
        self, handlers: Mapping[ForeignTool, ForeignHandler], aliases: Mapping[str, str]
    ) -> None:
        """Add tools that the user's servers carry out. Call this before the agent acts.

        A call of one is a turn as well. Models without native calls write all calls in the generic form then,
        because the form of an environment has words for its own tools alone.
        """
        added = {tool.name: tool for tool in handlers}
        self._foreign = {tool.name: handler for tool, handler in handlers.items()}
        self._aliases = aliases
        own = {name: tool for name, tool in self.tools.items() if name != SUBMIT.name}
        self.tools = {**own, **added, SUBMIT.name: SUBMIT}
        self.text_protocol = GenericProtocol(self.tools)

    async def end_processes(self) -> None:
        """End every process of the agent, or raise SandboxError."""

    async def keep_files(self) -> tuple[Any, int]:
        """Return the files that another environment of the task can start from, and their bytes.

        No call is under way. Raises UsageError if there are none, or too many, and SandboxError.
        """
        raise UsageError("this environment has no files, so that no other one can start from it")

    async def snapshot(self) -> EnvironmentSnapshot:
        """Return the files of this environment, which lives on. A call under way ends first.

        Raises UsageError if it has ended, or its files cannot be kept, and SandboxError.
        """
        async with self._calling:
            if self._is_over or self.submitted is not None:
                raise UsageError("the environment has ended", hint="take the snapshot before its agent ends")
            if self.steps is not None:
                raise UsageError("a task with several prompts has a state beside its files")
            files, size_bytes = await self.keep_files()
            return EnvironmentSnapshot(files, size_bytes, self.turns_used, self.agent_acted)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Observation:
        """Call a tool and return its observation, as `AgentEnvironment.call` does."""
        async with self._calling:
            return await self._take_turn(self._aliases.get(name, name), arguments)

    async def _take_turn(self, name: str, arguments: Mapping[str, Any]) -> Observation:
        if self._is_over:
            raise SandboxClosed()
        if self.turns is not None and self.turns_used >= self.turns:
            raise TurnLimitReached(self.turns)
        self.turns_used += 1
        started = time.monotonic()
        foreign = self._foreign.get(name) if self.submitted is None else None
        try:
            observation = (
                await self._run_tool(name, arguments) if foreign is None else await foreign(dict(arguments))
            )
        except BaseException as error:
            # A replay repeats this call too. The failure of the call matters more than one of this write.
            with contextlib.suppress(HarnessError):
                self._write_call(name, arguments, Observation(""), started, ended=type(error).__name__)
            raise
        self._write_call(name, arguments, observation, started)
        return observation

    def _write_call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        observation: Observation,
        started: float,
        *,
        ended: str | None = None,
    ) -> None:
        """Write a call to the transcript. `ended` is the type of the exception that ended it."""
        entry = {
            "round": self.turns_used,
            "tool": name if name in self.tools else shorten(name, 100),
            "arguments": self._show_arguments(name, arguments),
            "observation": observation.text,
            "refused": observation.refused,
            "seconds": round(time.monotonic() - started, 4),
        }
        if name in self._foreign:
            entry["is_foreign"] = True
        self.context.transcript.write(entry if ended is None else {**entry, "ended": ended})

    def _show_arguments(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call as the transcript has them."""
        return dict(arguments)

    async def submit(self, answer: str) -> None:
        """Submit the answer, as `AgentEnvironment.submit` does."""
        await self.call(
            *((SUBMIT.name, {"answer": answer}) if self._submission is None else self._submission(answer))
        )

    async def end_acting(self) -> None:
        """End every process of the agent, and refuse all further calls of tools.

        A call under way ends first, by its own limit, because an agent may leave a task behind that still
        acts. Raises SandboxError unless all processes are known to be dead.
        """
        self._is_over = True
        async with self._calling:
            await self.end_processes()

    async def _run_tool(self, name: str, arguments: Mapping[str, Any]) -> Observation:
        # A published protocol need not list it.
        tool = SUBMIT if name == SUBMIT.name else self.tools.get(name)
        if tool is None:
            return Observation(
                f"there is no tool '{shorten(name, 100)}'; the tools are: {', '.join(self.tools)}",
                refused=True,
            )
        if self.submitted is not None:
            return Observation("the task has ended, so that nothing more can be done", refused=True)
        if len(arguments) > MAX_ARGUMENTS:
            return Observation(f"'{name}' has {len(arguments):,} arguments, too many to check", refused=True)
        try:
            given = tool.arguments.model_validate(dict(arguments), strict=True)
        except ValidationError as error:
            return Observation(_describe_errors(tool, error), refused=True)
        if name == SUBMIT.name:
            self.submitted = given.answer  # type: ignore[attr-defined]
            return Observation("answer submitted")
        self.note_acting()
        result = await self._handlers[name](given)
        if isinstance(result, LastObservation):
            self.submitted = result.answer
            return Observation(result.text)
        return Observation(result)


def _describe_errors(tool: Tool, error: ValidationError) -> str:
    if error.error_count() > MAX_LISTED_ERRORS:
        return f"wrong arguments for '{tool.name}': {error.error_count():,} of their values do not fit"
    faults = "; ".join(
        f"{shorten('.'.join(str(part) for part in each['loc']) or 'arguments', SHOWN_NAME)}: {each['msg']}"
        for each in error.errors(include_url=False, include_context=False, include_input=False)
    )
    return f"wrong arguments for '{tool.name}': {shorten(faults, MAX_ERROR_CHARACTERS)}"


class SandboxEnvironment(Environment):
    """A live environment in a sandbox.

    `end` ends every process of the agent, or raises SandboxError. `terminal` takes rows, columns and a
    timeout in seconds and opens a terminal for a person. It is None if the environment has no terminals.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        handlers: Mapping[Tool, Handler],
        context: EnvironmentContext,
        *,
        end: Callable[[], Awaitable[None]],
        terminal: OpenTerminal | None = None,
    ) -> None:
        super().__init__(handlers, context)
        self.sandbox = sandbox
        self.terminal = None if terminal is None else functools.partial(self._open_terminal, terminal)
        self._end = end
        self._ends = time.monotonic() + context.seconds

    @property
    def seconds_left(self) -> float:
        """How long the sandbox still lives."""
        return self._ends - time.monotonic()

    @property
    def agent_acted(self) -> bool:
        return self.sandbox.agent_acted

    def note_acting(self) -> None:
        self.sandbox.agent_acted = True

    async def end_processes(self) -> None:
        await self._end()

    def _open_terminal(
        self, open_terminal: OpenTerminal, **arguments: Any
    ) -> AbstractAsyncContextManager[Terminal]:
        if self._is_over:
            raise SandboxClosed()
        self.note_acting()
        # No transcript has the keys that a person presses, so a replay must know of them.
        self.context.transcript.write({"kind": "terminal"})
        return open_terminal(**arguments)


class HostEnvironment(Environment, Generic[State]):
    """A live environment on the host. Its grader reads `state`, which the handlers of its tools change."""

    def __init__(self, state: State, handlers: Mapping[Tool, Handler], context: EnvironmentContext) -> None:
        super().__init__(handlers, context)
        self.state = state

    async def _run_tool(self, name: str, arguments: Mapping[str, Any]) -> Observation:
        if name != SUBMIT.name:
            if not _is_small(arguments):
                return Observation(
                    f"the arguments are larger than {MAX_CALL_SIZE:,} characters in all", refused=True
                )
            for argument, value in arguments.items():
                if isinstance(value, str) and len(value) > MAX_ARGUMENT_CHARACTERS:
                    return Observation(
                        f"'{argument[:100]}' has {len(value):,} characters; the limit is "
                        f"{MAX_ARGUMENT_CHARACTERS:,}",
                        refused=True,
                    )
        return await super()._run_tool(name, arguments)

    def _show_arguments(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if name != SUBMIT.name and not _is_small(arguments):
            return dict(TOO_LARGE)
        return super()._show_arguments(name, arguments)


def make_too_large() -> dict[str, str]:
    """Return arguments that are refused as too large, to repeat a call whose arguments were left out."""
    return {"too large": "-" * (MAX_CALL_SIZE + 1)}


def _is_small(arguments: Mapping[str, Any]) -> bool:
    """Return whether arguments are within MAX_CALL_SIZE. No more of them is looked at than fits."""
    left = MAX_CALL_SIZE
    waiting: list[Any] = [arguments]
    while waiting:
        value = waiting.pop()
        # A digit of an integer has more than three bits.
        size = value.bit_length() // 3 if isinstance(value, int) else 1
        left -= len(value) if isinstance(value, str | bytes | Mapping | list | tuple) else size
        if left < 0:
            return False
        if isinstance(value, Mapping):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple):
            waiting += value
    return True


def open_without_world(context: EnvironmentContext) -> HostEnvironment[None]:
    """Return an environment whose only tool is `submit`, for a task that is graded by its answer alone."""
    return HostEnvironment(None, {}, context)
