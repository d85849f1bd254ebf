"""An episode: one attempt of a remote agent at a task, from its prompt to its verdict.

It is graded as in a run. The reference stays here, and so does the text that explains a verdict, because it
may quote the reference.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from harness.benchmarks import Benchmark
from harness.core.errors import SandboxError
from harness.core.tools import TextCall, TurnLimitReached
from harness.core.types import TEXT_FIELDS, Phase, Status, Submission, Task, Verdict
from harness.environments import environment_spec
from harness.environments.base import Environment, EnvironmentContext
from harness.environments.grading import (
    GradingContext,
    grade_submission,
    make_limit_verdict,
    make_timeout_verdict,
)
from harness.environments.spec import EnvironmentSpec, OpenEnvironment
from harness.runs.attempt_ends import is_caused_by_agent, lose_to_agent, stop_at_limit
from harness.sandbox.failures import SandboxLimitReached
from harness.sandbox.pool import SandboxSettings
from harness.service.errors import InvalidRequestError, ServiceError
from harness.service.operations import Call
from harness.service.service import Service
from harness.service.verdicts.samples import Deadline, Work, grade_work

# The time for which an episode may live, and the time that its start may wait.
MOST_SECONDS = 3600.0
_WAIT_SECONDS = 30.0
_GRADING_WAIT_SECONDS = 600.0
_LOST = "the environment was lost"


@dataclass(frozen=True, slots=True)
class Action:
    """An action of the agent: the call of a tool, or a text of one of the kinds of samples files."""

    tool: str | None
    arguments: Mapping[str, Any]
    field: str | None
    text: str


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a step: the text that the agent sees, and the verdict if the episode has ended."""

    text: str
    verdict: Verdict | None = None


class Episode:
    """One attempt at one task. `environment` is None for a task that a text answers."""

    def __init__(
        self,
        service: Service,
        client: str,
        benchmark: Benchmark,
        task: Task,
        environment: Environment | None,
        episode_id: str,
    ) -> None:
        self.id = episode_id
        self.benchmark = benchmark
        self.task = task
        self.environment = environment
        self.steps = 0
        self.verdict: Verdict | None = None
        self._service = service
        self._client = client
        self._spec = environment_spec(task.environment)
        # Only the time of tools counts, because the service does not see when the agent's model works.
        self._seconds_left = float(self._spec.timeout_seconds)
        self._ends = time.monotonic() + MOST_SECONDS

    async def step(self, action: Action) -> StepResult:
        """Carry out an action and return its result.

        Raises ServiceError if the action cannot be used, or if the episode has no verdict by a fault of the
        service. Raises SandboxError for a fault of a sandbox.
        """
        if self.verdict is not None:
            raise InvalidRequestError("the episode has ended; reset to begin another one")
        if time.monotonic() > self._ends:
            message = f"the episode has lasted for {MOST_SECONDS:g} s, its limit; reset to begin another one"
            raise InvalidRequestError(message, code="episode_expired", status=410)
        if self.environment is None:
            result = await self._answer(action)
        else:
            result = await self._act(self.environment, action)
        self.steps += 1
        if result.verdict is not None:
            if self.environment is not None:  # `grade_work` has counted the others
                self._service.metrics.verdicts.labels(result.verdict.status.value).inc()
            if not result.verdict.status.has_score:
                raise ServiceError(503, result.verdict.status.value, result.verdict.evidence or "no verdict")
            self.verdict = result.verdict
        return result

    async def _answer(self, action: Action) -> StepResult:
        if action.field is None:
            raise InvalidRequestError(f"the task takes a text: one of {', '.join(TEXT_FIELDS)}", status=422)
        submission = self.benchmark.submission(self.task, action.field, action.text)
        seconds = float(self._spec.timeout_seconds)
        target = self.benchmark.references[self.task.id].target
        call = Call(self._service, self._client)
        work = Work(target, submission, self.benchmark)
        verdict = await grade_work(work, call, Deadline.start(seconds + _WAIT_SECONDS, seconds))
        return StepResult("", verdict)

    async def _act(self, environment: Environment, action: Action) -> StepResult:
        called = self._read_call(environment, action)
        if isinstance(called, StepResult):
            return called
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._seconds_left) as limit:
                observation = await environment.call(called.tool, called.arguments)
        except TurnLimitReached as reached:
            return StepResult(str(reached), await self._end(environment, stop_at_limit(reached)))
        except SandboxLimitReached as error:
            return StepResult(error.message, make_limit_verdict(error, Phase.AGENT))
        except SandboxError as error:
            # The message may name things of the host.
            return StepResult(_LOST, self._blame(environment, error, Phase.AGENT))
        except TimeoutError:
            if not limit.expired():
                raise
            seconds = float(self._spec.timeout_seconds)
            verdict = await self._end(environment, make_timeout_verdict(Phase.AGENT, seconds))
            return StepResult("the time for acting is over", verdict)
        self._seconds_left -= time.monotonic() - started
        text = observation.text
        if action.tool is None:
            text = environment.text_protocol.show(called, text)
        if environment.submitted is None:
            return StepResult(text)
        return StepResult(text, await self._end(environment))

    def _read_call(self, environment: Environment, action: Action) -> TextCall | StepResult:
        if action.tool is not None:
            return TextCall(action.tool, action.arguments)
        if action.field != "reply":
            message = "the task takes a call: 'tool' with 'arguments', or the 'reply' of a model"
            raise InvalidRequestError(message, status=422)
        read = environment.text_protocol.read(action.text)
        return read if isinstance(read, TextCall) else StepResult(read.advice)

    async def _end(self, environment: Environment, ended: Verdict | None = None) -> Verdict:
        """Return the verdict, after every process of the agent is dead.

        `ended` is the verdict of an agent that was stopped. It keeps the score of the state that it left, if
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
        self._service.metrics.faults.inc()
        return Verdict(Status.INFRA_ERROR, None, evidence=error.message, phase=phase)

    async def _grade(self, environment: Environment, submission: Submission) -> Verdict:
        key = ("episode", self.id)
        context = GradingContext(
            self._service.pool,
            float(self._spec.timeout_seconds),
            fresh=self._spec.fresh_sandbox(),
            key=key,
            environment=environment,
        )
        try:
            # A wait in vain would cost the verdict, because the agent's processes are dead.
            async with self._service.work(self._client, wait_seconds=_GRADING_WAIT_SECONDS):
                target = self.benchmark.references[self.task.id].target
                return await grade_submission(target, submission, context)
        finally:
            await self._service.pool.discard(key)


@contextlib.asynccontextmanager
async def open_episode(
    service: Service,
    client: str,
    benchmark: Benchmark,
    task: Task,
    *,
    seed: int,
    episode_id: str | None = None,
) -> AsyncIterator[Episode]:
    """Yield an episode, whose environment is destroyed at the end of the block.

    Raises ServiceError if there is no room for its sandboxes, and HarnessError if it cannot be opened.
    """
    spec = environment_spec(task.environment)
    chosen = episode_id or secrets.token_urlsafe(12)
    async with contextlib.AsyncExitStack() as stack:
        environment = None
        if spec.open_environment is not None:
            sandboxes = 0 if spec.image is None else 1 + spec.nested_sandboxes
            limits = spec.limits
            holding = service.sessions.budget.hold(
                client, sandboxes * limits.memory_mb, sandboxes * limits.processes
            )
            stack.enter_context(holding)
            context = _make_context(service, benchmark, task, spec, seed)
            opening = _enter(stack, spec.open_environment, task, context)
            if spec.image is None:
                environment = await opening
            else:
                async with service.work(client, wait_seconds=_WAIT_SECONDS):
                    environment = await opening
        yield Episode(service, client, benchmark, task, environment, chosen)


def _enter(
    stack: contextlib.AsyncExitStack,
    open_environment: OpenEnvironment,
    task: Task,
    context: EnvironmentContext,
) -> Awaitable[Environment]:
    return stack.enter_async_context(open_environment(task, context))


def _make_context(
    service: Service, benchmark: Benchmark, task: Task, spec: EnvironmentSpec, seed: int
) -> EnvironmentContext:
    return EnvironmentContext(
        service.pool,
        SandboxSettings(spec.image or "", spec.limits),
        seconds=MOST_SECONDS + 2 * spec.timeout_seconds,
        transcript=_NoTranscript(),
        turns=task.turns or spec.turns,
        text_protocol=spec.text_protocol,
        target=benchmark.references[task.id].target if spec.is_on_host else None,
        seed=seed,
    )


class _NoTranscript:
    """Keeps nothing, because the client of an episode sees every call itself."""

    def write(self, entry: Mapping[str, Any], *, is_end: bool = False) -> None:
        """Drop an entry."""
