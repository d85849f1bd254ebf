"""The episodes of OpenEnv clients: an attempt of a remote agent at a task.

The text that explains a verdict stays here, because it may quote the reference.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from harness.benchmarks.benchmark import Benchmark
from harness.core.logger import get_logger
from harness.core.types import TEXT_FIELDS, Status, Task, Verdict
from harness.environments import environment_spec
from harness.host.episode import Episode, EpisodeSnapshot, bound_life
from harness.service.errors import InvalidRequestError, ServiceError
from harness.service.operations import Call
from harness.service.service import Service
from harness.service.verdicts.samples import Deadline, Work, grade_work

_LOGGER = get_logger(__name__)
# How long the start of an episode may wait, and its grading.
_WAIT_SECONDS = 30.0
_GRADING_WAIT_SECONDS = 600.0


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


class ServedEpisode:
    """An episode of a client. Its gradings take places in the queue of the service."""

    def __init__(self, service: Service, client: str, episode: Episode, episode_id: str) -> None:
        self.id = episode_id
        self.episode = episode
        self.steps = 0
        self.verdict: Verdict | None = None
        self._service = service
        self._client = client

    async def step(self, action: Action) -> StepResult:
        """Carry out an action and return its result.

        Raises ServiceError if the action cannot be used, or if the episode has no verdict by a fault of the
        service. Raises SandboxError for a fault of a sandbox.
        """
        if self.verdict is not None:
            raise InvalidRequestError("the episode has ended; reset to begin another one")
        if self.episode.is_expired:
            seconds = bound_life(self.episode.task)
            message = f"the episode has lasted for {seconds:g} s, its limit; reset to begin another one"
            raise InvalidRequestError(message, code="episode_expired", status=410)
        if self.episode.environment is None:
            result = await self._answer(action)
        else:
            result = await self._act(action)
        self.steps += 1
        if result.verdict is not None:
            if self.episode.environment is not None:  # `grade_work` has counted the others
                self._service.metrics.verdicts.labels(result.verdict.status.value).inc()
            if not result.verdict.status.has_score:
                raise ServiceError(503, result.verdict.status.value, self._explain(result.verdict))
            self.verdict = result.verdict
        return result

    def _explain(self, verdict: Verdict) -> str:
        """Return why an episode has no score. The output of a task's own tests stays in the log."""
        if verdict.status is not Status.GRADER_ERROR:
            return verdict.evidence or "no verdict"
        _LOGGER.warning("no reward for %s: %s", self.episode.task.id, verdict.evidence)
        return "the tests of the task gave no reward; the log of the service has the reason"

    async def _answer(self, action: Action) -> StepResult:
        if action.field is None:
            raise InvalidRequestError(f"the task takes a text: one of {', '.join(TEXT_FIELDS)}", status=422)
        benchmark, task = self.episode.benchmark, self.episode.task
        seconds = float(environment_spec(task.environment).timeout_seconds)
        submission = benchmark.submission(task, action.field, action.text)
        work = Work(benchmark.references[task.id].target, submission, benchmark)
        call = Call(self._service, self._client)
        verdict = await grade_work(work, call, Deadline.start(seconds + _WAIT_SECONDS, seconds))
        return StepResult("", verdict)

    async def _act(self, action: Action) -> StepResult:
        if action.tool is not None:
            observation = await self.episode.call(action.tool, action.arguments)
        elif action.field != "reply":
            message = "the task takes a call: 'tool' with 'arguments', or the 'reply' of a model"
            raise InvalidRequestError(message, status=422)
        else:
            observation = await self.episode.reply(action.text)
        return StepResult(observation.text, self.episode.verdict)


@contextlib.asynccontextmanager
async def open_episode(
    service: Service,
    client: str,
    benchmark: Benchmark,
    task: Task,
    *,
    seed: int,
    episode_id: str | None = None,
    start: EpisodeSnapshot | None = None,
) -> AsyncIterator[ServedEpisode]:
    """Yield an episode, whose environment is destroyed at the end of the block.

    It starts from the state `start` of another one, by default from the task's.

    Raises ServiceError if there is no room for its sandboxes, and HarnessError if it cannot be opened.
    """
    spec = environment_spec(task.environment)
    async with contextlib.AsyncExitStack() as stack:
        if spec.open_environment is not None:
            sandboxes = 0 if spec.image is None else 1 + spec.nested_sandboxes
            limits = await asyncio.to_thread(spec.find_limits, task, spec.limits)
            holding = service.sessions.budget.hold(
                client, sandboxes * limits.memory_mb, sandboxes * limits.processes
            )
            stack.enter_context(holding)
        # A wait in vain would cost the verdict, because the agent's processes are dead.
        waiting = partial(service.work, client, wait_seconds=_GRADING_WAIT_SECONDS)
        opening = service.host.environment(
            *(benchmark, task.id),
            seed=seed,
            machine_rules=service.settings.machine_rules,
            before_grading=waiting,
            start=start,
        )
        needs_place = spec.open_environment is not None and spec.image is not None
        async with service.work(client, wait_seconds=_WAIT_SECONDS) if needs_place else nullcontext():
            episode = await stack.enter_async_context(opening)
        yield ServedEpisode(service, client, episode, episode_id or secrets.token_urlsafe(12))
