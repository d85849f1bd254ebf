"""An episode: one attempt of an agent of the caller at a task, from its prompt to its verdict.

It is graded as in a run. The reference stays on the host.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from harness.core.errors import SandboxError, UsageError
from harness.core.tools import Observation, TextCall, Tool, TurnLimitReached
from harness.core.types import Phase, Reference, Status, Submission, Task, Verdict
from harness.environments import environment_spec
from harness.environments.base import Environment, EnvironmentSnapshot, MachineRules
from harness.environments.grading import (
    GradingContext,
    grade_submission,
    make_limit_verdict,
    make_timeout_verdict,
)
from harness.host.retries import is_caused_by_agent, lose_to_agent, stop_at_limit
from harness.sandbox.failures import SandboxLimitReached
from harness.sandbox.pool import SandboxPool

# How long an episode may live, unless its task gives its agent more time.
MOST_SECONDS = 3600.0
# The memory that a snapshot may take while it is made.
MOST_SNAPSHOT_BYTES = 256 << 20
_LOST = "the environment was lost"


class TaskSource(Protocol):
    """The tasks of a benchmark with their references, as `load_benchmark` returns them."""

    @property
    def name(self) -> str: ...

    @property
    def tasks(self) -> Sequence[Task]: ...

    @property
    def references(self) -> Mapping[str, Reference]: ...

    def submission(self, task: Task, field: str, text: str) -> Submission: ...

    def add_metrics(self, verdict: Verdict) -> Verdict: ...


def bound_life(task: Task) -> float:
    """Return how long an episode at a task may live, in seconds."""
    return max(MOST_SECONDS, environment_spec(task.environment).agent_seconds(task))


@dataclass(frozen=True, slots=True)
class EpisodeSnapshot:
    """The state of an episode at one moment. A host opens further ones from it by `fork`.

    It has the files of the environment, the calls that were made, and the agent's time that is left.
    """

    benchmark: TaskSource
    task_id: str
    environment: EnvironmentSnapshot
    seed: int
    machine_rules: MachineRules | None
    seconds_left: float

    @property
    def size_bytes(self) -> int:
        """The memory that its files take."""
        return self.environment.size_bytes


class Episode:
    """One attempt at one task. Make it with the `environment` of a host.

    `verdict` is there once the episode has ended: by a submission, by the environment, or by a limit. Then no
    further call is possible.
    """

    def __init__(
        self,
        benchmark: TaskSource,
        task: Task,
        environment: Environment | None,
        pool: SandboxPool,
        *,
        grade_text: Callable[[str, str], Awaitable[Verdict]],
        before_grading: Callable[[], contextlib.AbstractAsyncContextManager[Any]],
        on_fault: Callable[[], None],
        start: EpisodeSnapshot | None = None,
    ) -> None:
        """Attempt `task` in `environment`, which is None for a task that a text answers.

        Args:
            benchmark: the benchmark of the task.
            task: the task.
            environment: the environment, which the caller opens and closes.
            pool: lends the sandboxes of graders.
            grade_text: returns the verdict on a text of a kind, the kind first.
            before_grading: returns a context manager to hold while the state of the environment is graded.
            on_fault: is called for each fault of the infrastructure.
            start: the state that `environment` was opened from, None for the task's.
        """
        self.benchmark = benchmark
        self.task = task
        self.environment = environment
        self.verdict: Verdict | None = None
        self._pool = pool
        self._grade_text = grade_text
        self._before_grading = before_grading
        self._on_fault = on_fault
        self._spec = environment_spec(task.environment)
        # Only the time of tools counts, because the host does not see when the agent's model works.
        self._seconds_left = self._spec.agent_seconds(task) if start is None else start.seconds_left
        self._ends = time.monotonic() + bound_life(task)

    @property
    def prompt(self) -> str:
        """The prompt of the task."""
        return self.task.prompt

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The tools by name, none for a task that a text answers."""
        return {} if self.environment is None else self.environment.tools

    @property
    def turns(self) -> int | None:
        """The number of tool calls that the episode may make, None for no limit."""
        return None if self.environment is None else self.environment.turns

    @property
    def is_expired(self) -> bool:
        """Whether the episode has lasted for too long."""
        return time.monotonic() > self._ends

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, show: Callable[[str], str] = str
    ) -> Observation:
        """Call a tool and return its observation. `show` puts the text of an observation into another form.

        Raises UsageError if the episode has ended, or the task has no tools.
        """
        self._require_open()
        if self.environment is None:
            raise UsageError("the task has no tools", hint="answer it with submit")
        environment, started = self.environment, time.monotonic()
        try:
            async with asyncio.timeout(self._seconds_left) as limit:
                observation = await environment.call(tool, arguments)
        except TurnLimitReached as reached:
            self.verdict = await self._end(environment, stop_at_limit(reached))
            return Observation(str(reached))
        except SandboxLimitReached as error:
            self.verdict = make_limit_verdict(error, Phase.AGENT)
            return Observation(error.message)
        except SandboxError as error:
            # The message may name things of the host.
            self.verdict = self._blame(environment, error, Phase.AGENT)
            return Observation(_LOST)
        except TimeoutError:
            if not limit.expired():
                raise
            ended = make_timeout_verdict(Phase.AGENT, self._spec.agent_seconds(self.task))
            self.verdict = await self._end(environment, ended)
            return Observation("the time for acting is over")
        self._seconds_left -= time.monotonic() - started
        if environment.submitted is not None:
            self.verdict = await self._end(environment)
        return replace(observation, text=show(observation.text))

    async def snapshot(self) -> EpisodeSnapshot:
        """Return the state of the episode, which goes on. `fork` of a host opens further ones from it.

        It has the files of the environment, and neither processes nor the state of a shell: the processes of
        the task start again. Raises UsageError if the episode has ended or its environment keeps no files,
        and SandboxError.
        """
        self._require_open()
        if self.environment is None:
            raise UsageError("a task that a text answers has no state", hint="open its environment again")
        context = self.environment.context
        return EpisodeSnapshot(
            self.benchmark,
            self.task.id,
            await self.environment.snapshot(),
            context.seed,
            context.machine_rules,
            self._seconds_left,
        )

    @property
    def instructions(self) -> str:
        """How a model without native tool calls writes an action, or how it answers a task without tools."""
        if self.environment is None:
            return self.task.instruction
        return self.environment.text_protocol.instructions()

    async def reply(self, text: str) -> Observation:
        """Carry out the action in the reply of a model, and return its observation, or advice without one.

        A task without tools is answered by the reply. Raises UsageError if the episode has ended.
        """
        if self.environment is None:
            await self.submit(text, field="reply")
            return Observation("")
        self._require_open()
        protocol = self.environment.text_protocol
        called = protocol.read(text)
        if not isinstance(called, TextCall):
            return Observation(called.advice, refused=True)
        return await self.call(called.tool, called.arguments, show=partial(protocol.show, called))

    async def submit(self, text: str, *, field: str = "solution") -> Verdict:
        """Submit an answer and return the verdict, which may have no score.

        `field` is the kind of the text, for a task that a text answers, as in samples files. Raises
        UsageError if the episode has ended.
        """
        self._require_open()
        if self.environment is None:
            self.verdict = await self._grade_text(field, text)
        else:
            await self.call("submit", {"answer": text})
        assert self.verdict is not None, "a submission ends an episode"  # noqa: S101
        return self.verdict

    def _require_open(self) -> None:
        if self.verdict is not None or self.is_expired:
            raise UsageError("the episode has ended", hint="open another one")

    async def _end(self, environment: Environment, ended: Verdict | None = None) -> Verdict:
        """Return the verdict, after every process of the agent is dead.

        `ended` is the verdict on an agent that was stopped. It keeps the score of the state that it left, if
        the environment scores progress.
        """
        answer = environment.submitted or ""
        if ended is not None and not self._spec.scores_progress:
            return ended
        try:
            await environment.end_acting()
            graded = await self._grade(environment, Submission(answer, agent_output=answer))
        except SandboxLimitReached as error:
            return make_limit_verdict(error, Phase.AGENT)
        except SandboxError as error:
            return self._blame(environment, error, Phase.EVALUATOR)
        graded = self.benchmark.add_metrics(graded)
        if ended is None or graded.resolved:
            return graded
        return replace(ended, score=graded.score, metrics={**graded.metrics, **ended.metrics})

    def _blame(self, environment: Environment, error: SandboxError, phase: Phase) -> Verdict:
        if is_caused_by_agent(error, environment):
            return lose_to_agent(error, phase)
        self._on_fault()
        return Verdict(Status.INFRA_ERROR, None, evidence=error.message, phase=phase)

    async def _grade(self, environment: Environment, submission: Submission) -> Verdict:
        # Its own, because no other episode may share a sandbox with it.
        key = object()
        context = GradingContext(
            self._pool,
            self._spec.grading_seconds(self.task),
            fresh=self._spec.fresh_sandbox(),
            key=key,
            environment=environment,
        )
        try:
            async with self._before_grading():
                target = self.benchmark.references[self.task.id].target
                return await grade_submission(target, submission, context)
        finally:
            self._pool.discard(key)
