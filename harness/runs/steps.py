"""The part of attempts at tasks with several steps: the agent gets one prompt after the other."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.core.types import Submission
from harness.runs.attempt_ends import NOT_OF_AGENT, mention_turns
from harness.runs.attempt_parts import AttemptPart, Try
from harness.runs.settings.attempts import MAX_TASK_SECONDS
from harness.runs.working_time import MOST_PAUSE_SECONDS, TimeIsOver, limit_agent

if TYPE_CHECKING:
    from harness.core.types import Task
    from harness.environments.base import Steps
    from harness.runs.agents.agent import AttemptContext

    Act = Callable[[AttemptContext], Awaitable[Submission]]


class StepsPart(AttemptPart):
    """Lets the agent make each step of a task that has steps, each in its own time.

    The agent's time stops while a step is graded. An agent whose time is over, or that fails, is judged by
    what it has left. After a failure no further step begins.
    """

    def __init__(self, task: Task) -> None:
        self.most_pause_seconds = MOST_PAUSE_SECONDS + 2 * (task.tests_seconds or 0.0)

    @contextlib.asynccontextmanager
    async def enter(self, attempt: Try) -> AsyncIterator[None]:
        if attempt.environment is not None and attempt.environment.steps is not None:
            steps, seconds = attempt.environment.steps, attempt.seconds
            attempt.act = functools.partial(_make_steps, attempt, steps, seconds, attempt.act)
            # Each step has a clock of its own, and the whole must not end the gradings between them.
            attempt.seconds += self.most_pause_seconds
        yield


async def _make_steps(
    attempt: Try, steps: Steps, seconds: float, act: Act, context: AttemptContext
) -> Submission:
    """Return the submission of the last step. Raises as the agent does, and TimeIsOver."""
    submission, late = Submission("", agent_output=""), None
    plan = steps.plan()
    # The run may have changed the limit of the whole task.
    share = seconds / min(sum(step.seconds for step in plan), MAX_TASK_SECONDS)
    turns = None if attempt.environment is None else attempt.environment.turns
    for number, step in enumerate(plan):
        if not await steps.begin(number):
            break
        task = mention_turns(replace(context.task, prompt=step.prompt), turns)
        own_seconds = step.seconds * share
        try:
            async with limit_agent(attempt, own_seconds):
                submission = await act(replace(context, task=task, seconds=own_seconds))
        except TimeIsOver as error:
            late = error
        except NOT_OF_AGENT:
            raise
        except Exception:
            await steps.end()
            raise
        if not await steps.end():
            break
    if late is not None:
        raise late
    return submission
