"""The verdicts on attempts that ended before their grading."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from dataclasses import replace

from harness.core.errors import EngineUnavailableError, HarnessError, ImageMissingError, SandboxError
from harness.core.text import escape_terminal
from harness.core.tools import TurnLimitReached
from harness.core.types import Phase, Status, Task, Transcript, Verdict
from harness.environments.grading import make_limit_verdict, make_timeout_verdict
from harness.environments.workspace import WorkspaceLost
from harness.host.retries import Retries, RunStopped, RunStoppedError, lose_to_agent, stop_at_limit
from harness.models.server_errors import ModelError, ModelRefusedError, UnknownSpendingError
from harness.models.spending import BudgetReached
from harness.runs.agents.agent import AgentError, AgentUnusableError, RepeatedEnd
from harness.runs.attempt_parts import TimeIsOver
from harness.runs.run_files import StorageError
from harness.sandbox.failures import SandboxLimitReached, build_fault

_ERROR_CHARACTERS = 500
# If one of these ends the acting, the infrastructure or the run's settings failed, and not the agent.
NOT_OF_AGENT = (
    AgentUnusableError,
    SandboxError,
    ImageMissingError,
    EngineUnavailableError,
    StorageError,
    ModelError,
    ModelRefusedError,
    UnknownSpendingError,
    RunStopped,
)
# The ends of an agent's acting that decide the attempt, whoever notices them.
_ENDS = (TurnLimitReached, BudgetReached, TimeIsOver, WorkspaceLost, RepeatedEnd, AgentError)


def _blame_agent(
    message: str, details: str | None, transcript: Transcript, tampering: str | None = None
) -> Verdict:
    """Return the verdict on an attempt whose agent failed, and write a traceback to the transcript."""
    short = escape_terminal(message, _ERROR_CHARACTERS)
    if details is not None:
        transcript.write({"error": short, "traceback": details}, is_end=True)
    return Verdict(Status.AGENT_ERROR, 0.0, evidence=short, phase=Phase.AGENT, tampering=tampering)


def give_up_on_model(error: ModelError, faults: Retries) -> Verdict:
    """Return the verdict on an attempt whose model, or judge, has failed.

    Raises RunStopped if the server failed all requests meanwhile, and not this one alone.
    """
    if error.is_outage:
        hint = "when the server is back, finish the run with --resume"
        faults.stop(RunStoppedError(error.message, hint=hint))
        raise RunStopped from error
    return Verdict(Status.INFRA_ERROR, None, evidence=escape_terminal(error.message))


@contextlib.contextmanager
def catch_defects() -> Iterator[None]:
    """Raise SandboxError for a defect of harness in the block, so that it is retried and blames no agent."""
    try:
        yield
    except (HarnessError, *NOT_OF_AGENT):
        raise
    except Exception as error:
        raise build_fault(_describe_defect(error)) from error


def _describe_defect(error: Exception) -> str:
    return f"a defect of harness: {type(error).__name__}: {error}"


def blame(error: Exception, transcript: Transcript, *, has_begun: bool, is_acting: bool) -> Verdict:
    """Return the verdict on an attempt whose acting ended with `error`, if the agent is to blame.

    Args:
        error: the exception that left the parts of the attempt.
        transcript: gets the traceback of an agent that failed.
        has_begun: whether the agent had begun to act.
        is_acting: whether the agent itself had raised an exception.

    Raises `error` if the agent is not to blame, as `catch_defects` does. A defect after the agent has acted
    is an `infra_error` at once, because the agent may have provoked it to be tried again.
    """
    if has_begun and not is_acting and not isinstance(error, (*NOT_OF_AGENT, *_ENDS)):
        transcript.write({"error": (told := escape_terminal(_describe_defect(error), _ERROR_CHARACTERS))})
        return Verdict(Status.INFRA_ERROR, None, evidence=told, phase=Phase.AGENT)
    if not is_acting and not isinstance(error, _ENDS):
        with catch_defects():
            raise error
    match error:
        case TurnLimitReached() | BudgetReached():
            return stop_at_limit(error)
        case TimeIsOver():
            return make_timeout_verdict(Phase.AGENT, error.seconds)
        case SandboxLimitReached():
            return make_limit_verdict(error, Phase.AGENT)
        case WorkspaceLost():
            return lose_to_agent(error.failure, Phase.AGENT)
        case RepeatedEnd():
            told = escape_terminal(str(error), _ERROR_CHARACTERS)
            return Verdict(error.status, 0.0, evidence=told, phase=Phase.AGENT, limit=error.limit)
        case AgentError():
            return _blame_agent(str(error), error.traceback, transcript, error.tampering)
    if isinstance(error, NOT_OF_AGENT):
        raise error
    details = "".join(traceback.format_exception(error))
    return _blame_agent(f"{type(error).__name__}: {error}", details, transcript)


def mention_turns(task: Task, turns: int | None) -> Task:
    """Return the task with a prompt that names the number of turns in this run."""
    if turns is None:
        return task
    # A published protocol does not list `submit`.
    including = ", including `submit`" if task.protocol is None else ""
    line = f"You have {turns} rounds. Every tool call uses one round{including}."
    return replace(task, prompt=f"{task.prompt.rstrip()}\n\n{line}\n")
