"""One attempt at one task: the agent acts, its processes end, and a grader grades.

A fault of the infrastructure is retried, and never counts against the agent. Everything else that happens in
an attempt is a part (`AttemptPart`), whose name this file does not know.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import Any

from harness.core.errors import DataError, SandboxError, UsageError
from harness.core.tools import TurnLimitReached
from harness.core.types import Phase, Submission, Task, Verdict
from harness.environments import environment_spec
from harness.environments.base import Environment, EnvironmentContext, open_without_world
from harness.environments.grading import make_limit_verdict
from harness.host.blame import is_caused_by_agent, lose_to_agent
from harness.host.retries import Fault, RunStopped
from harness.models.server_errors import ModelError
from harness.runs.agents.agent import AttemptContext
from harness.runs.attempt_ends import (
    blame,
    catch_defects,
    give_up_on_model,
    mention_turns,
)
from harness.runs.attempt_parts import SandboxTime, Try
from harness.runs.attempt_settings import AttemptSettings
from harness.runs.planned_attempt import PlannedAttempt
from harness.runs.progress import ActiveAttempt, Stage
from harness.runs.transcript_file import begin_transcript
from harness.sandbox.failures import SandboxLimitReached
from harness.sandbox.pool import SandboxSettings

# How long an attempt may wait for grading while it holds the sandbox where its agent acted.
WAIT_SECONDS = 1200.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict on an attempt, and the submission if the agent handed one in."""

    verdict: Verdict
    submission: Submission | None = None


async def make_attempt(settings: AttemptSettings, planned: PlannedAttempt, active: ActiveAttempt) -> Outcome:
    """Run an attempt and return its outcome. `active` gets the stages of the attempt.

    A fault of the infrastructure is retried. If the agent only answered, its answer is graded again. If it
    acted in an environment, the whole attempt is repeated. Raises RunStopped and StorageError.
    """
    attempt = _Attempt(settings, planned, active)
    verdict = await attempt.make()
    return Outcome(verdict, attempt.submission)


class _Attempt:
    """An attempt under way. `phase` is the phase that a failure at this moment belongs to."""

    def __init__(self, settings: AttemptSettings, planned: PlannedAttempt, active: ActiveAttempt) -> None:
        self._settings = settings
        self._planned = planned
        self._active = active
        self._task = planned.task
        self._spec = environment_spec(planned.task.environment)
        self._parts = settings.features.make_parts(settings, planned, self._spec)
        self._sandbox_time = SandboxTime()
        self.submission: Submission | None = None
        self.phase = Phase.AGENT

    async def make(self) -> Verdict:
        """Return the verdict, with the metrics of all parts. Raises as `make_attempt` does."""
        try:
            verdict = await self._settings.faults.repeat(
                self._task.id, self._try, on_fault=self._note_fault, find_phase=lambda: self.phase
            )
        except ModelError as error:
            verdict = give_up_on_model(error, self._settings.faults)
        used: dict[str, Any] = {}
        for part in self._parts:
            used |= part.metrics(verdict)
        return replace(verdict, metrics={**verdict.metrics, **used}) if used else verdict

    def _note_fault(self, error: Fault, tried: int) -> None:
        self._active.enter(Stage.QUEUED)
        refused = error.__cause__ if isinstance(error, SandboxError) and error.lasting else None
        if isinstance(refused, UsageError | DataError) and self._settings.faults.has_one_attempt:
            raise refused
        if tried == 1 and self._settings.faults.stopped is not None:
            raise RunStopped from error

    async def _try(self) -> Verdict:
        """Return the verdict on one try. Raises SandboxError and ImageMissingError."""
        acts = self._spec.open_environment is not None
        if self.submission is not None and not acts:
            # An agent that only answers is asked once.
            return await self._grade(self.submission)
        self.submission, self.phase = None, Phase.AGENT
        verdict: Verdict | None = None
        try:
            async with contextlib.AsyncExitStack() as stack:
                attempt = await self._open(stack)
                verdict = await (self._act_and_grade(attempt) if acts else self._answer_and_grade(attempt))
        except SandboxError as error:
            # The verdict stands although the sandbox cannot be removed: a retry would be a second chance.
            if verdict is None:
                raise
            self._settings.observer.note(f"{self._task.id}: {error.message}")
        return verdict

    async def _open(self, stack: contextlib.AsyncExitStack) -> Try:
        """Return a new try with its open environment, if it has one. The end of `stack` closes it."""
        spec, open_environment = self._spec, self._spec.open_environment
        turns, task = self._settings.turns, self._task
        if open_environment is not None:
            turns = turns or task.turns or spec.turns
            task = mention_turns(task, turns)
        attempt = self._begin(task, turns, stack)
        for part in self._parts:
            with catch_defects():
                await part.prepare(attempt)
        if open_environment is not None:
            opening = open_environment(task, attempt.environment_context)
            attempt.environment = await stack.enter_async_context(opening)
            stack.enter_context(self._count_sandbox_time())
        elif attempt.needs_environment:
            attempt.environment = open_without_world(attempt.environment_context)
        attempt.agent_context = replace(attempt.agent_context, environment=attempt.environment)
        return attempt

    def _begin(self, task: Task, turns: int | None, stack: contextlib.AsyncExitStack) -> Try:
        settings, planned, spec = self._settings, self._planned, self._spec
        seconds = settings.seconds(spec, task)
        pauses = max((part.most_pause_seconds for part in self._parts), default=0.0)
        has_terminals = spec.is_workspace and getattr(settings.agent, "uses_terminals", False)
        transcript = begin_transcript(settings.transcripts, task, planned.number)
        environment = EnvironmentContext(
            settings.pool,
            SandboxSettings(spec.image or "", settings.limits_of(spec), terminals=has_terminals),
            seconds=seconds + settings.grading_seconds(spec, task) + WAIT_SECONDS + pauses,
            transcript=transcript,
            turns=turns,
            text_protocol=spec.text_protocol,
            target=settings.benchmark.references[task.id].target if spec.is_on_host else None,
            seed=planned.environment_seed,
            key=settings.acting_key(planned),
        )
        agent = AttemptContext(
            *(task, planned.number, planned.seed, planned.sample_line, None, transcript), seconds=seconds
        )
        return Try(
            *(settings, planned, spec, self._active, self._sandbox_time, seconds, stack, environment, agent),
            act=settings.agent.attempt,
            needs_environment=getattr(settings.agent, "needs_environment", False),
        )

    async def _answer_and_grade(self, attempt: Try) -> Verdict:
        ended = await self._act(attempt)
        return ended if isinstance(ended, Verdict) else await self._grade(ended)

    async def _act_and_grade(self, attempt: Try) -> Verdict:
        """Return the verdict on an attempt in its environment.

        Raises SandboxError for a failure that the agent did not cause.
        """
        environment = attempt.environment
        assert environment is not None, "it is open"  # noqa: S101
        try:
            ended = await self._act(attempt)
            if isinstance(ended, Verdict):
                verdict = await self._score_progress(ended, environment)
            else:
                verdict = await self._end_and_grade(ended, environment)
        except SandboxError as error:
            if not is_caused_by_agent(error, environment):
                raise
            verdict = lose_to_agent(error, self.phase)
        return replace(verdict, metrics={**verdict.metrics, "rounds": environment.turns_used})

    async def _act(self, attempt: Try) -> Submission | Verdict:
        """Return the submission, or the verdict if the agent's phase has already decided the attempt.

        Raises SandboxError.
        """
        environment, has_begun, is_acting = attempt.environment, False, False
        try:
            async with contextlib.AsyncExitStack() as stack:
                for part in self._parts:
                    await stack.enter_async_context(part.enter(attempt))
                self._active.enter(Stage.ACTING)
                with self._settings.faults.watch_start():
                    has_begun = is_acting = True
                    submission = await attempt.act(attempt.agent_context)
                    is_acting = False
        except Exception as error:
            answer = None if environment is None else environment.submitted
            if not isinstance(error, TurnLimitReached) or answer is None:
                return blame(error, attempt.transcript, has_begun=has_begun, is_acting=is_acting)
            # An agent that goes on after its submission has submitted nevertheless.
            submission = Submission(answer, agent_output=answer)
        if environment is None:
            attempt.transcript.write({"output": submission.agent_output}, is_end=True)
        self.submission = submission
        return submission

    async def _end_and_grade(self, submission: Submission, environment: Environment) -> Verdict:
        """Return the verdict, graded after all processes of the agent are dead. Raises SandboxError."""
        try:
            await environment.end_acting()
        except SandboxLimitReached as error:
            # A process that the agent left running exceeded the limit after the last turn.
            return make_limit_verdict(error, Phase.AGENT)
        return await self._grade(submission, environment)

    async def _score_progress(self, ended: Verdict, environment: Environment) -> Verdict:
        """Return the verdict on an attempt that ended without a submission, with the score of its state."""
        if not self._spec.scores_progress or not ended.status.has_score:
            return ended
        await environment.end_acting()
        graded = await self._grade(Submission("", agent_output=""), environment)
        if graded.resolved:
            return graded
        return replace(
            ended,
            score=graded.score,
            metrics={**graded.metrics, **ended.metrics},
            tampering=ended.tampering or graded.tampering,
        )

    async def _grade(self, submission: Submission, environment: Environment | None = None) -> Verdict:
        self.phase = Phase.EVALUATOR
        self._active.enter(Stage.QUEUED)
        # The time in the environment is counted already.
        with contextlib.nullcontext() if environment is not None else self._count_sandbox_time():
            return await self._settings.grade(
                self._planned, self._spec, submission, environment, self._active.begin_grading
            )

    def _count_sandbox_time(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self._spec.image is None else self._sandbox_time.count()
