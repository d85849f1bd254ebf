"""The verdicts on attempts that ended before their grading."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.core.errors import EngineUnavailableError, ImageMissingError, SandboxError
from harness.core.text import escape_terminal
from harness.core.tools import TurnLimitReached
from harness.core.types import Phase, Status, Submission, Task, Transcript, Verdict
from harness.environments.base import Environment
from harness.models.server_errors import ModelError, ModelRefusedError, UnknownSpendingError
from harness.models.spending import BudgetReached
from harness.runs.agents import AgentError, AttemptContext
from harness.runs.agents.agent import AgentUnusableError, RepeatedEnd
from harness.runs.run_files import StorageError
from harness.sandbox.failures import SandboxUnresponsive

if TYPE_CHECKING:
    from harness.models.judge import Judge
    from harness.models.session import ModelSession
    from harness.runs.attempt_settings import AttemptSettings
    from harness.runs.recorded_judge import RecordedJudge


# The sign of tampering that is recorded if a sandbox dies after the agent has acted in it.
LOST_SANDBOX = "lost the sandbox that it acted in"
_ERROR_CHARACTERS = 500


def repeat_end(end: RepeatedEnd) -> Verdict:
    """Return the verdict on an attempt whose agent repeats a recorded end."""
    evidence = escape_terminal(str(end), _ERROR_CHARACTERS)
    return Verdict(end.status, 0.0, evidence=evidence, phase=Phase.AGENT, limit=end.limit)


def stop_at_limit(reached: TurnLimitReached | BudgetReached) -> Verdict:
    """Return the verdict on an attempt that has reached a limit of its turns or its budget."""
    return Verdict(
        Status.LIMIT_REACHED,
        0.0,
        evidence=str(reached),
        phase=Phase.AGENT,
        limit=reached.limit,
        limit_value=reached.allowed,
    )


def blame_agent(
    message: str, details: str | None, transcript: Transcript, tampering: str | None = None
) -> Verdict:
    """Return the verdict on an attempt whose agent failed, and write a traceback to the transcript."""
    short = escape_terminal(message, _ERROR_CHARACTERS)
    if details is not None:
        transcript.write({"error": short, "traceback": details}, is_end=True)
    return Verdict(Status.AGENT_ERROR, 0.0, evidence=short, phase=Phase.AGENT, tampering=tampering)


def is_caused_by_agent(error: SandboxError, environment: Environment) -> bool:
    """Return whether the agent is responsible for a failure.

    It is if it has acted and nothing else explains the failure. Such an attempt is not retried, because an
    agent must not gain a second chance by destroying its sandbox.
    """
    return environment.agent_acted and not error.outside and error.acted_in is not False


def lose_to_agent(error: SandboxError, phase: Phase) -> Verdict:
    """Return the verdict on an attempt whose agent has cost its sandbox."""
    evidence = escape_terminal(error.message)
    if isinstance(error, SandboxUnresponsive):
        return Verdict(
            Status.TIMEOUT,
            0.0,
            evidence=evidence,
            phase=phase,
            limit="timeout_seconds",
            tampering=LOST_SANDBOX,
        )
    return Verdict(Status.CRASHED, 0.0, evidence=evidence, phase=phase, tampering=LOST_SANDBOX)


def give_up(error: SandboxError | ImageMissingError, tried: int, phase: Phase) -> Verdict:
    """Return the verdict on an attempt whose sandbox failed in each of several tries."""
    metrics = {"tries": tried}
    if isinstance(error, SandboxUnresponsive) and not error.outside:
        # After several tries, only the program in the sandbox explains that PID 1 does not respond.
        return Verdict(Status.TIMEOUT, 0.0, metrics, error.message, phase, "timeout_seconds")
    return Verdict(Status.INFRA_ERROR, None, metrics, error.message, phase)


# If an agent raises one of these, the infrastructure or the run's settings failed, and not the agent.
NOT_OF_AGENT = (
    AgentUnusableError,
    SandboxError,
    ImageMissingError,
    EngineUnavailableError,
    StorageError,
    ModelError,
    ModelRefusedError,
    UnknownSpendingError,
)


async def call_agent(
    settings: AttemptSettings,
    context: AttemptContext,
    models: Sequence[ModelSession | Judge | RecordedJudge | None],
) -> Submission:
    """Return the submission of the run's agent.

    Raises a failure of a model that the agent has caught, because its submission is worth nothing then.
    """
    try:
        with settings.faults.watch_start():
            submission = await settings.agent.attempt(context)
    except (AgentError, TurnLimitReached) as error:
        if (failure := find_failure(models)) is None:
            raise
        raise failure from error
    if (failure := find_failure(models)) is not None:
        raise failure
    return submission


def find_failure(models: Sequence[ModelSession | Judge | RecordedJudge | None]) -> Exception | None:
    failures = (model.failure for model in models if model is not None)
    return next((failure for failure in failures if failure is not None), None)


def mention_turns(task: Task, turns: int | None) -> Task:
    """Return the task with a prompt that names the number of turns in this run."""
    if turns is None:
        return task
    line = f"You have {turns} rounds. Every tool call uses one round, including `submit`."
    return replace(task, prompt=f"{task.prompt.rstrip()}\n\n{line}\n")


# The longest time for which the limit of one attempt stands still. A sandbox in use lives that much longer.
MOST_PAUSE_SECONDS = 2 * 3600.0


class WorkingTime:
    """The rest of an agent's time.

    A run may have more attempts under way than the server of its model takes requests. The time that a
    request waits for a place, or between two tries, must not count against the agent.
    """

    def __init__(self, timeout: asyncio.Timeout) -> None:
        self._timeout = timeout
        self._pauses = 0
        self._paused_at = 0.0
        self._pause_left = MOST_PAUSE_SECONDS

    @property
    def is_over(self) -> bool:
        return self._timeout.expired()

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Stop the time during the block. Blocks may overlap."""
        loop = asyncio.get_running_loop()
        self._pauses += 1
        if self._pauses == 1:
            self._paused_at = loop.time()
            self._extend(self._pause_left)
        try:
            yield
        finally:
            self._pauses -= 1
            if self._pauses == 0:
                unused = max(self._pause_left - (loop.time() - self._paused_at), 0.0)
                self._pause_left = unused
                self._extend(-unused)

    def _extend(self, seconds: float) -> None:
        when = self._timeout.when()
        if when is None or self._timeout.expired():
            return
        # A block that has ended, or that is about to be cancelled, has no limit to change.
        with contextlib.suppress(RuntimeError):
            self._timeout.reschedule(when + seconds)


@contextlib.asynccontextmanager
async def limit_working_time(seconds: float) -> AsyncIterator[WorkingTime]:
    """Bound the working time of the block. Raises TimeoutError when the time is over."""
    async with asyncio.timeout(seconds) as timeout:
        yield WorkingTime(timeout)
