"""The call of an agent: its prompt, its start, and a failure of a model even if the agent has caught it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.agents import AgentError, AttemptContext
from harness.agents.agent import AgentUnusableError
from harness.environments.base import TurnLimitReached
from harness.errors import EngineUnavailableError, ImageMissingError, SandboxError
from harness.evaluation.storage import StorageError
from harness.models.failures import ModelError, ModelRefusedError, UnknownSpendingError
from harness.types import Submission, Task

if TYPE_CHECKING:
    from harness.evaluation.attempt_settings import AttemptSettings
    from harness.evaluation.recorded_judge import RecordedJudge
    from harness.models.judge import Judge
    from harness.models.session import ModelSession

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
