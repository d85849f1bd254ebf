"""One attempt at one task: the agent acts, its processes end, and a grader grades.

A fault of the infrastructure is retried, and never counts against the agent. Everything else that happens in
an attempt is a part (`AttemptPart`), whose name this file does not know.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from harness.benchmarks.benchmark import Benchmark
from harness.core.errors import DataError, SandboxError, UsageError
from harness.core.tools import TurnLimitReached
from harness.core.types import AttemptRecord, Phase, Submission, Task, Verdict
from harness.environments import environment_spec
from harness.environments.base import Environment, EnvironmentContext, open_without_world
from harness.environments.grading import SHARED, GradingContext, grade_submission, make_limit_verdict
from harness.environments.spec import EnvironmentSpec
from harness.host.retries import Fault, RunStopped, is_caused_by_agent, lose_to_agent
from harness.models.server_errors import ModelError
from harness.runs.agents.agent import Agent, AttemptContext
from harness.runs.attempt_ends import (
    blame,
    catch_defects,
    give_up_on_model,
    mention_turns,
)
from harness.runs.attempt_parts import SandboxTime, Try
from harness.runs.faults import Faults
from harness.runs.features import Features
from harness.runs.grading_service import GradingService, grade_at_service
from harness.runs.progress import ActiveAttempt, RunObserver, Stage
from harness.runs.records import PlannedAttempt, build_record
from harness.runs.transcripts import TRANSCRIPT_SCHEMA_VERSION, KeepsTranscripts
from harness.sandbox.failures import SandboxLimitReached
from harness.sandbox.limits import Isolation, Limits
from harness.sandbox.pool import AcrossTasks, SandboxPool, SandboxSettings

if TYPE_CHECKING:
    from harness.runs.selection import Selection

# How long an attempt may wait for grading while it holds the sandbox where its agent acted.
WAIT_SECONDS = 1200.0


@dataclass(frozen=True, slots=True)
class AttemptSettings:
    """The settings that all attempts of a run share."""

    benchmark: Benchmark
    agent: Agent
    transcripts: KeepsTranscripts
    observer: RunObserver
    faults: Faults
    pool: SandboxPool
    # The limits of sandboxes, by the name of their environment.
    limits: Mapping[str, Limits]
    # Applies once to the agent's work in one attempt, and once to its grading. None means the default of
    # the environment.
    timeout_seconds: float | None
    # The number of tool calls in an attempt. None stands for the default of the task or its environment.
    turns: int | None = None
    # The attempts that share a sandbox for grading.
    isolation: Isolation = "task"
    # Whether some task is attempted more than once.
    repeats: bool = False
    # The optional features, whose parts attach themselves to each attempt.
    features: Features = field(default_factory=Features)
    # Grades the submissions, None if sandboxes of `pool` do.
    service: GradingService | None = None

    @classmethod
    def of_selection(
        cls,
        selection: Selection,
        *,
        transcripts: KeepsTranscripts,
        observer: RunObserver,
        faults: Faults,
        pool: SandboxPool,
        features: Features | None = None,
        service: GradingService | None = None,
    ) -> AttemptSettings:
        """Return the settings of the attempts at the tasks of a selection."""
        return cls(
            *(selection.benchmark, selection.agent, transcripts, observer, faults, pool),
            limits=selection.all_limits,
            timeout_seconds=selection.timeout_seconds,
            turns=selection.config.rounds,
            isolation=selection.config.isolation,
            repeats=any(planned.number > 0 for planned in selection.plan),
            features=features or Features(),
            service=service,
        )

    def limits_of(self, spec: EnvironmentSpec) -> Limits:
        """Return the limits of an environment's sandboxes."""
        return self.limits.get(spec.name, spec.limits)

    def key(self, planned: PlannedAttempt) -> Hashable:
        """Return the key of the sandbox that ends with an attempt, or with the last attempt at its task."""
        return planned.key if self.is_isolated else planned.task.id

    @property
    def is_isolated(self) -> bool:
        """Whether every attempt gets its own sandboxes."""
        return self.isolation == "attempt"

    def acting_key(self, planned: PlannedAttempt) -> Hashable:
        """Return the key of the sandboxes where agents of several attempts may act, None if none may."""
        # A sandbox for one attempt alone needs no second one in which the reference runs.
        return None if self.is_isolated or not self.repeats else ("acting", planned.task.id)

    async def grade(
        self,
        planned: PlannedAttempt,
        spec: EnvironmentSpec,
        submission: Submission,
        environment: Environment | None,
        on_begin: Callable[[], None],
    ) -> Verdict:
        """Return the verdict on a submission, and on the environment where its agent has acted, if any.

        `on_begin` is called when the grader begins. Raises SandboxError and RunStopped.
        """
        seconds, task_id = spec.grading_seconds(planned.task, self.timeout_seconds), planned.task.id
        if self.service is not None:
            return await grade_at_service(
                self.service, self.faults, task_id, submission, seconds=seconds, on_begin=on_begin
            )
        key, target = self.key(planned), self.benchmark.references[task_id].target
        # The sandboxes that hold an agent's files end with its task.
        if environment is None and self.isolation == "run" and spec.grades_programs_alone:
            key = AcrossTasks(type(target))
        context = GradingContext(
            self.pool,
            seconds,
            fresh=spec.fresh_sandbox(self.limits_of(spec)),
            key=key,
            shared_key=key if self.is_isolated else SHARED,
            environment=environment,
            check_engine=self.faults.check_engine,
            on_begin=on_begin,
        )
        return await grade_submission(target, submission, context)


async def make_record(
    settings: AttemptSettings, planned: PlannedAttempt, active: ActiveAttempt
) -> AttemptRecord:
    """Make an attempt and return its record, which is not stored yet. `active` gets its stages.

    A fault of the infrastructure is retried. If the agent only answered, its answer is graded again. If it
    acted in an environment, the whole attempt is repeated. Raises RunStopped and StorageError.
    """
    started_at, started = time.time(), time.monotonic()
    attempt = _Attempt(settings, planned, active)
    verdict = await attempt.make()
    return build_record(
        planned,
        settings.benchmark.references[planned.task.id],
        settings.benchmark.add_metrics(verdict),
        submission=attempt.submission,
        duration_seconds=time.monotonic() - started,
        started_at=started_at,
    )


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
        """Return the verdict, with the metrics of all parts. Raises as `make_record` does."""
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
                if acts:
                    verdict = await self._act_and_grade(attempt)
                else:
                    ended = await self._act(attempt)
                    verdict = ended if isinstance(ended, Verdict) else await self._grade(ended)
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
        seconds = spec.agent_seconds(task, settings.timeout_seconds)
        grading_seconds = spec.grading_seconds(task, settings.timeout_seconds)
        pauses = max((part.most_pause_seconds for part in self._parts), default=0.0)
        has_terminals = spec.is_workspace and getattr(settings.agent, "uses_terminals", False)
        transcript = settings.transcripts.begin_transcript(task.id, planned.number)
        transcript.write({"schema_version": TRANSCRIPT_SCHEMA_VERSION, "prompt": task.prompt})
        environment = EnvironmentContext(
            settings.pool,
            SandboxSettings(spec.image or "", settings.limits_of(spec), terminals=has_terminals),
            seconds=seconds + grading_seconds + WAIT_SECONDS + pauses,
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
