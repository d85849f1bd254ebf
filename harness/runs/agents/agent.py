"""The agent protocol: one method, which makes one attempt at a task and returns the submission."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from harness.benchmarks.benchmark import Benchmark
from harness.core.discovery import find_declared, list_declared
from harness.core.errors import UsageError
from harness.core.tools import AgentEnvironment, Tool
from harness.core.types import Status, Submission, Task, Transcript
from harness.environments import environment_spec
from harness.environments.workspace import OpenWorkspace
from harness.models.endpoint import Endpoint
from harness.models.messages import Generation, Message, ModelReply, ToolSchema
from harness.runs.settings.agents import CommandSettings

if TYPE_CHECKING:
    from harness.runs.agents.recording import Recording

# An agent alone causes these ends, so no action of it can bring them about again.
REPEATABLE_ENDS = (Status.TIMEOUT, Status.LIMIT_REACHED, Status.AGENT_ERROR)


class AgentError(Exception):
    """The agent gave up or broke its protocol, so the attempt ends as `agent_error`.

    `traceback` is written to the transcript, if the agent failed by an exception of another type. `tampering`
    is a sign of tampering, if the agent has shown one.
    """

    def __init__(
        self, message: str = "", traceback: str | None = None, *, tampering: str | None = None
    ) -> None:
        super().__init__(message)
        self.traceback = traceback
        self.tampering = tampering


class AgentNotStarted(AgentError):
    """The agent failed before it did anything. A run stops if this happens in all of its first attempts."""


class AgentUnusableError(UsageError):
    """The settings of the agent fit no attempt, so the run ends."""


class RepeatedEnd(Exception):
    """The agent repeats the end of a recorded attempt that handed nothing in.

    The attempt ends with `status`, one of REPEATABLE_ENDS, and with the recorded `limit`.
    """

    def __init__(self, status: Status, message: str, limit: str | None) -> None:
        if status not in REPEATABLE_ENDS:
            raise ValueError(f"no agent can repeat the end '{status}'")
        super().__init__(message)
        self.status = status
        self.limit = limit


class AgentModel(Protocol):
    """The model of an attempt as its agent sees it."""

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint, without its key."""

    async def find_tool_mode(self) -> Literal["native", "text"]:
        """Return whether the model calls tools by the protocol of the API, or in its text."""

    async def ask(
        self,
        messages: str | Sequence[Message],
        *,
        tools: Sequence[ToolSchema | Tool] = (),
        generation: Generation | None = None,
    ) -> ModelReply:
        """Return the model's reply, as `harness.models.session.ModelSession.ask` does."""


@dataclass(frozen=True, slots=True)
class WorkspaceNeeds:
    """The workspace that an agent needs."""

    # The name of the prepared agent whose files are in the sandbox, None for none.
    agent_image: str | None = None
    # Whether programs reach the host through `Workspace.relay`.
    relays: bool = False
    # Whether it is another sandbox than the environment's even if agents run programs there.
    is_apart: bool = False


@dataclass(frozen=True, slots=True)
class AttemptContext:
    """One attempt at one task, as the agent sees it."""

    task: Task
    # The number of the attempt at the task, from 0.
    number: int
    # Follows from the run's seed, the task and the number, so a repeated attempt has the same seed.
    seed: int
    # The line of the sample in the samples file, from 1, or None without one.
    sample: int | None
    # The environment where the agent acts, or None if it only answers.
    environment: AgentEnvironment | None
    # Entries that the agent writes here are kept in the run folder.
    transcript: Transcript
    # The model of the run, None if the run has none. Its key is not here.
    model: AgentModel | None = None
    # The seconds of the agent's time, which stops while a request waits for a place at the model. None
    # if an agent is called without a run.
    seconds: float | None = None
    # Yields the workspace, for an agent that has `workspace`. It was opened before the agent's time.
    open_workspace: OpenWorkspace | None = None


class Agent(Protocol):
    """Acts on tasks. One object serves a whole run, with several attempts at once.

    An agent may have these optional attributes:

    - `waits`: False if it never waits for a model.
    - `max_concurrent`: the number of attempts that it can make at once.
    - `uses_terminals`: True if it opens terminals.
    - `workspace`: the `WorkspaceNeeds` of an agent that runs programs in a sandbox, else None.
    - `reads`: the keys of AGENT_SETTINGS that it reads. A run refuses the others. The default is `model`,
      `n_samples`, `agent_prompt`, `extract` and `mcp_servers`, because every agent finds the model, the
      prompt and the tools in the context of each attempt, and may return a reply. `model` means all of
      MODEL_SETTINGS.
    - `takes_server_prompts`: True if it adds the `server_prompts` of its settings to its prompt. An agent
      that reads `system_prompt` finds them there.
    - `needs_model`: True if it cannot act without a model.
    - `offers_model`: True if it runs programs that may ask a model, so that a run without one shows a notice.
    - `needs_environment`: True if it acts even on a task without an environment. It gets one whose only tool
      is `submit` then.
    - `needs_this_machine`: True if it can act only where the command runs, such as at its terminal.
    - `needs_solutions`: True if it submits the reference solution.
    - `recording`: the `Recording` of a run that it repeats. Its judgements are used, and no model is asked.
    - `close`: a function that the run calls at its end to release the resources of the agent. Further
      attempts may follow in a later run.
    """

    async def attempt(self, context: AttemptContext) -> Submission:
        """Act in the environment of the task, if it has one, and return the submission.

        An implementation raises AgentError to give up. It must not catch the exceptions of tool calls. Any
        other exception also ends the attempt as `agent_error`.
        """


class UserAgent(Protocol):
    """An agent that a user writes. It may have `reads`, `waits` and `max_concurrent`, as `Agent` has them."""

    async def attempt(self, context: AttemptContext) -> Submission | str:
        """Act on the task and return a submission, or the text of a reply. Raises AgentError to give up."""


@runtime_checkable
class ChoosesSamples(Protocol):
    """An agent that decides how many attempts each task gets. For other agents the config decides."""

    def samples(self, task: Task) -> Sequence[int | None]:
        """Return an entry for each attempt at `task`: the line in the samples file, or None."""


@runtime_checkable
class MeasuresAttempts(Protocol):
    """An agent of this package that measures its own attempts. A user's agent cannot add metrics."""

    def take_metrics(self, task_id: str, number: int) -> Mapping[str, Any]:
        """Return the metrics of an attempt that has ended, and forget them."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The settings that an agent is built from. They contain no references."""

    tasks: tuple[Task, ...]
    # Turns a text into the submission for a task. The second argument is the kind of the text, as in samples
    # files: the whole `reply` of a model, a `completion` of the prompt, a `solution` or an `answer`.
    submit: Callable[[Task, str, str], Submission]
    # The samples file that the user named.
    samples: Path | None = None
    # The first message of each conversation with a model.
    system_prompt: str | None = None
    # The additions of the user's MCP servers to the prompt, which `system_prompt` also holds.
    server_prompts: tuple[str, ...] = ()
    # The run whose attempts the agent does again.
    recording: Recording | None = None
    # The program that the agent runs.
    command: CommandSettings = field(default_factory=CommandSettings)


def settings_for(
    benchmark: Benchmark,
    *,
    samples: Path | None = None,
    system_prompt: str | None = None,
    server_prompts: tuple[str, ...] = (),
    recording: Recording | None = None,
    command: CommandSettings | None = None,
) -> AgentSettings:
    """Return the settings of an agent for a benchmark."""
    submit = benchmark.definition.submit
    return AgentSettings(
        benchmark.tasks,
        submit,
        samples,
        system_prompt,
        server_prompts,
        recording,
        command or CommandSettings(),
    )


def submit_answer(settings: AgentSettings, task: Task, answer: str) -> Submission:
    """Return the submission of an answer that was given by `submit`.

    An answer to a task without an environment is read as the reply of a model is.
    """
    if acts_in_environment(task):
        return Submission(answer, agent_output=answer)
    return settings.submit(task, "reply", answer)


def write_prompt(task: Task) -> str:
    """Return the prompt of a task for an agent that submits its answer by `submit`."""
    if acts_in_environment(task) or not task.instruction:
        return task.prompt
    return f"{task.instruction}\n\n{task.prompt}"


def acts_in_environment(task: Task) -> bool:
    """Return whether the environment of a task has more than an answer to submit."""
    return environment_spec(task.environment).open_environment is not None


@cache
def agents() -> dict[str, Callable[..., Agent]]:
    """Return every agent of this package, by name."""
    return dict(list_declared(__package__, "AGENTS"))


def is_built_in(name: str) -> bool:
    """Return whether an agent of this package has this name."""
    # The module of its name comes first, because an import of all agents takes longer.
    return name in dict(find_declared(__package__, "AGENTS", name)) or name in agents()
