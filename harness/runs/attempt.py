"""One attempt at one task: the agent acts, and a grader grades its submission.

A fault of the infrastructure is retried, and never counts against the agent.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from harness.core.errors import ImageMissingError, SandboxError
from harness.core.text import escape_terminal
from harness.core.tools import TurnLimitReached
from harness.core.types import Phase, Status, Submission, Task, Transcript, Verdict
from harness.environments import environment_spec
from harness.environments.base import Environment, EnvironmentContext
from harness.environments.grading import (
    SHARED,
    GradingContext,
    grade_submission,
    make_limit_verdict,
    make_timeout_verdict,
)
from harness.environments.spec import OpenEnvironment
from harness.environments.workspace import WorkspaceLost
from harness.models.server_errors import ModelError
from harness.models.spending import BudgetReached
from harness.runs.agents import AgentError, AttemptContext
from harness.runs.agents.agent import MeasuresAttempts, RepeatedEnd
from harness.runs.answering import open_answering
from harness.runs.attempt_ends import (
    MOST_PAUSE_SECONDS,
    NOT_OF_AGENT,
    WorkingTime,
    blame_agent,
    call_agent,
    find_failure,
    give_up,
    is_caused_by_agent,
    limit_working_time,
    lose_to_agent,
    mention_turns,
    repeat_end,
    stop_at_limit,
)
from harness.runs.attempt_settings import AttemptSettings
from harness.runs.faults import RunStopped, RunStoppedError
from harness.runs.plan import PlannedAttempt
from harness.runs.progress import ActiveAttempt, Stage
from harness.runs.server_tools import ServerUse, open_servers
from harness.runs.sync_grader import grade_at_service
from harness.runs.transcript_file import TRANSCRIPT_SCHEMA_VERSION
from harness.runs.workspaces import Places, plan_places
from harness.sandbox.failures import SandboxLimitReached
from harness.sandbox.limits import Limits
from harness.sandbox.pool import SandboxSettings

if TYPE_CHECKING:
    from harness.models.judge import Judge
    from harness.models.session import ModelSession
    from harness.runs.recorded_judge import RecordedJudge

# How long an attempt may wait for grading while it holds the sandbox in which its agent acted.
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
        self.submission: Submission | None = None
        self.phase = Phase.AGENT
        self._session: ModelSession | None = None
        self._judge: Judge | RecordedJudge | None = None
        self._time_limit: WorkingTime | None = None
        self._sandbox_seconds = 0.0
        self._server_use = ServerUse()
        self._places = plan_places(settings, self._spec)

    async def make(self) -> Verdict:
        """Return the verdict, with the use of the model among its metrics. Raises as `make_attempt` does."""
        try:
            verdict = await self._try_until_graded()
        except ModelError as error:
            # The run stops if the server failed all requests meanwhile, and not this one alone.
            if error.is_outage:
                self._settings.faults.stop(
                    RunStoppedError(
                        error.message, hint="when the server is back, finish the run with --resume"
                    )
                )
                raise RunStopped from error
            verdict = Verdict(Status.INFRA_ERROR, None, evidence=escape_terminal(error.message))
        used: dict[str, Any] = {} if self._session is None else self._session.metrics
        if used:
            used["sandbox_seconds"] = round(self._sandbox_seconds, 3)
        if self._judge is not None:
            used |= self._judge.metrics
        if isinstance(self._settings.agent, MeasuresAttempts):
            measured = self._settings.agent.take_metrics(*self._planned.key)
            used |= measured if verdict.status.has_score else {}
        used |= self._server_use.metrics
        return replace(verdict, metrics={**verdict.metrics, **used}) if used else verdict

    async def _try_until_graded(self) -> Verdict:
        open_environment, faults = self._spec.open_environment, self._settings.faults
        try_once: Callable[[], Awaitable[Verdict]]
        if open_environment is not None:
            try_once = functools.partial(self._act_and_grade, open_environment)
        else:
            try_once = self._answer_and_grade
        for tried in itertools.count(1):
            try:
                return await try_once()
            except (SandboxError, ImageMissingError) as error:
                self._active.enter(Stage.QUEUED)
                if tried == 1 and faults.stopped is not None:
                    raise RunStopped from error
                if not await faults.prepare_retry(self._task.id, error, tried):
                    return give_up(error, tried, self.phase)
        raise AssertionError("unreachable: the loop ends by returning")

    async def _answer_and_grade(self) -> Verdict:
        """Return the verdict on an answer. The agent is asked once, unless it has not answered yet."""
        if self.submission is None:
            self.phase = Phase.AGENT
            transcript = self._begin_transcript(self._task)
            answering = open_answering(self._settings, transcript, turns=self._settings.turns)
            async with self._places.pair():
                ended = await self._act(self._task, answering, transcript)
            if isinstance(ended, Verdict):
                return ended
        assert self.submission is not None  # noqa: S101  because the agent has not ended otherwise
        return await self._grade(self.submission)

    async def _act_and_grade(self, open_environment: OpenEnvironment) -> Verdict:
        """Return the verdict on an attempt in a new environment. Raises SandboxError."""
        settings = self._settings
        self.submission, self.phase = None, Phase.AGENT
        turns = settings.turns or self._task.turns or self._spec.turns
        task = mention_turns(self._task, turns)
        transcript = self._begin_transcript(task)
        seconds = self._timeout_seconds
        asks_models = settings.model is not None or settings.judge is not None
        pause_seconds = MOST_PAUSE_SECONDS if asks_models else 0.0
        context = EnvironmentContext(
            settings.pool,
            SandboxSettings(self._spec.image or "", self._limits),
            seconds=2 * seconds + WAIT_SECONDS + pause_seconds,
            transcript=transcript,
            turns=turns,
            terminals=getattr(settings.agent, "uses_terminals", False),
            text_protocol=self._spec.text_protocol,
            target=settings.benchmark.references[task.id].target if self._spec.is_on_host else None,
            seed=self._planned.environment_seed,
            judge=self._open_judge(transcript),
            key=settings.acting_key(self._planned),
            workspace=self._places.environment_settings(),
        )
        verdict: Verdict | None = None
        try:
            async with (
                self._places.pair(),
                open_environment(task, context) as environment,
                self._count_sandbox_time(),
            ):
                begin_by = time.monotonic() + seconds + WAIT_SECONDS + pause_seconds
                verdict = await self._use(environment, task, transcript, begin_by)
        except SandboxError as error:
            # The verdict stands although the sandbox cannot be removed: a retry would be a second chance.
            if verdict is None:
                raise
            settings.observer.note(f"{task.id}: {error.message}")
        return verdict

    async def _use(
        self, environment: Environment, task: Task, transcript: Transcript, begin_by: float
    ) -> Verdict:
        """Return the verdict on an attempt in `environment`.

        Raises SandboxError for a failure that the agent did not cause.
        """
        try:
            submission = await self._act(task, environment, transcript)
            if isinstance(submission, Verdict):
                verdict = await self._score_progress(submission, environment, begin_by)
            else:
                verdict = await self._end_and_grade(submission, environment, begin_by)
        except SandboxError as error:
            if not is_caused_by_agent(error, environment):
                raise
            verdict = lose_to_agent(error, self.phase)
        return replace(verdict, metrics={**verdict.metrics, "rounds": environment.turns_used})

    async def _end_and_grade(
        self, submission: Submission, environment: Environment, begin_by: float
    ) -> Verdict:
        """Return the verdict, graded after all processes of the agent are dead. Raises SandboxError."""
        try:
            await environment.end_acting()
        except SandboxLimitReached as error:
            # A process that the agent left running exceeded the limit after the last turn.
            return make_limit_verdict(error, Phase.AGENT)
        return await self._grade(submission, environment, begin_by)

    async def _score_progress(self, ended: Verdict, environment: Environment, begin_by: float) -> Verdict:
        """Return the verdict on an attempt that ended without a submission, with the score of its state."""
        if not self._spec.scores_progress or not ended.status.has_score:
            return ended
        await environment.end_acting()
        graded = await self._grade(Submission("", agent_output=""), environment, begin_by)
        if graded.resolved:
            return graded
        return replace(
            ended,
            score=graded.score,
            metrics={**graded.metrics, **ended.metrics},
            tampering=ended.tampering or graded.tampering,
        )

    async def _grade(
        self,
        submission: Submission,
        environment: Environment | None = None,
        begin_by: float | None = None,
    ) -> Verdict:
        self.phase = Phase.EVALUATOR
        self._active.enter(Stage.QUEUED)
        settings = self._settings
        if settings.service is not None:
            async with self._count_sandbox_time():
                return await grade_at_service(
                    settings.service,
                    settings.faults,
                    self._task.id,
                    submission,
                    seconds=self._timeout_seconds,
                    on_begin=self._active.begin_grading,
                )
        # The sandboxes that hold an agent's files end with its task.
        key = (
            settings.grading_key(self._planned, self._spec)
            if environment is None
            else settings.key(self._planned)
        )
        context = GradingContext(
            settings.pool,
            self._timeout_seconds,
            fresh=self._spec.fresh_sandbox(self._limits),
            key=key,
            shared_key=key if settings.is_isolated else SHARED,
            environment=environment,
            begin_by=begin_by,
            check_engine=settings.faults.check_engine,
            on_begin=self._active.begin_grading,
        )
        reference = settings.benchmark.references[self._task.id]
        if environment is not None or self._spec.image is None:
            return await grade_submission(reference.target, submission, context)
        async with self._count_sandbox_time():
            return await grade_submission(reference.target, submission, context)

    @contextlib.asynccontextmanager
    async def _count_sandbox_time(self) -> AsyncIterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            if self._spec.image is not None:
                self._sandbox_seconds += time.monotonic() - started

    async def _act(
        self, task: Task, environment: Environment | None, transcript: Transcript
    ) -> Submission | Verdict:
        """Return the submission, or the verdict if the agent's phase has already decided the attempt.

        Raises SandboxError.
        """
        ended: Submission | Verdict | None = None
        try:
            seconds = self._timeout_seconds + MOST_PAUSE_SECONDS
            async with self._places.open(environment, seconds) as places:
                ended = await self._call_agent(task, environment, transcript, places)
        except SandboxError as error:
            # The submission stands although the workspace cannot be removed.
            if ended is None:
                raise
            self._settings.observer.note(f"{task.id}: {error.message}")
        return ended

    async def _call_agent(
        self,
        task: Task,
        environment: Environment | None,
        transcript: Transcript,
        places: Places,
    ) -> Submission | Verdict:
        planned, seconds = self._planned, self._timeout_seconds
        try:
            async with (
                open_servers(
                    self._settings.servers, places.servers, environment, transcript, self._server_use
                ),
                limit_working_time(seconds) as time_limit,
            ):
                self._time_limit = time_limit
                self._active.enter(Stage.ACTING)
                model = self._open_session(environment, transcript, time_limit)
                context = AttemptContext(
                    task,
                    planned.number,
                    planned.seed,
                    planned.sample_line,
                    environment,
                    transcript,
                    model,
                    seconds,
                    places.open_workspace,
                )
                submission = await call_agent(self._settings, context, [model, self._judge])
                self.submission = submission
        except TurnLimitReached as reached:
            # An agent that goes on after its submission has submitted nevertheless.
            answer = None if environment is None else environment.submitted
            if answer is not None:
                self.submission = Submission(answer, agent_output=answer)
                return self.submission
            return stop_at_limit(reached)
        except BudgetReached as reached:
            if reached.is_of_run:
                self._settings.faults.stop(
                    RunStoppedError(
                        str(reached),
                        hint=f"raise it: harness run --resume RUN --run-budget {reached.limit}=NUMBER",
                    )
                )
                raise RunStopped from reached
            return stop_at_limit(reached)
        except SandboxLimitReached as error:
            return make_limit_verdict(error, Phase.AGENT)
        except WorkspaceLost as lost:
            return lose_to_agent(lost.failure, Phase.AGENT)
        except RepeatedEnd as end:
            return repeat_end(end)
        except AgentError as error:
            return blame_agent(str(error), error.traceback, transcript, error.tampering)
        except NOT_OF_AGENT:
            raise
        except Exception as error:
            if (failure := find_failure([self._judge])) is not None:
                # The agent has caught the failure, and went on in an environment that cannot answer.
                raise failure from error
            if isinstance(error, TimeoutError) and time_limit.is_over:
                if environment is not None and not await self._settings.faults.check_engine():
                    message = "the Docker engine stopped responding while the agent acted"
                    raise SandboxError(message, outside=True) from error
                return make_timeout_verdict(Phase.AGENT, seconds)
            details = "".join(traceback.format_exception(error))
            return blame_agent(f"{type(error).__name__}: {error}", details, transcript)
        if environment is None:
            transcript.write({"output": submission.agent_output}, is_end=True)
        return submission

    def _open_session(
        self, environment: Environment | None, transcript: Transcript, time_limit: WorkingTime
    ) -> ModelSession | None:
        if self._settings.model is None:
            return None
        planned = self._planned
        self._session = self._settings.model.open_session(
            number=planned.number,
            seed=planned.seed,
            transcript=transcript,
            waiting=time_limit.pause,
            asking=self._active.ask_model,
            # In an environment, attempts at one task begin at different times.
            group=planned.task.id if environment is None else None,
            earlier=self._session,
        )
        return self._session

    def _open_judge(self, transcript: Transcript) -> Judge | RecordedJudge | None:
        if (recording := self._settings.recording) is not None:
            from harness.runs.recorded_judge import RecordedJudge

            self._judge = RecordedJudge(recording, *self._planned.key)
            return self._judge
        if self._settings.judge is None:
            return None
        from harness.models.judge import Judge  # most runs have none, and the client takes long to import

        planned = self._planned
        earlier = self._judge if isinstance(self._judge, Judge) else None
        self._judge = Judge(
            self._settings.judge,
            number=planned.number,
            seed=planned.seed,
            transcript=transcript,
            # The agent's time begins after its environment is open.
            pause=lambda: contextlib.nullcontext() if self._time_limit is None else self._time_limit.pause(),
            asking=self._active.ask_model,
            earlier=earlier,
        )
        return self._judge

    def _begin_transcript(self, task: Task) -> Transcript:
        transcript = self._settings.transcripts.begin_transcript(task.id, self._planned.number)
        transcript.write({"schema_version": TRANSCRIPT_SCHEMA_VERSION, "prompt": task.prompt})
        return transcript

    @property
    def _timeout_seconds(self) -> float:
        return self._settings.timeout_seconds or self._spec.timeout_seconds

    @property
    def _limits(self) -> Limits:
        return self._settings.limits.get(self._spec.name, self._spec.limits)
