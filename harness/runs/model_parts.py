"""The models in one attempt: the one that its agent asks, and the judge that its environment asks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from harness.core.errors import DataError
from harness.core.shield import complete
from harness.core.tools import TurnLimitReached
from harness.core.types import Verdict
from harness.host.retries import RunStopped, RunStoppedError
from harness.models.access import Judge
from harness.models.judge import ask_until_valid
from harness.models.messages import Message, ReplySchema, Role
from harness.models.spending import BudgetReached
from harness.runs.agents.agent import AgentError
from harness.runs.agents.recording import RecordedJudgement, Recording
from harness.runs.attempt_ends import NOT_OF_AGENT
from harness.runs.attempt_parts import MOST_PAUSE_SECONDS, AttemptPart, SandboxTime, Try

if TYPE_CHECKING:
    from harness.models.access import ModelAccess
    from harness.models.session import ModelSession

Judgement = TypeVar("Judgement")


class ModelPart(AttemptPart):
    """Gives the agent its session with the run's model."""

    most_pause_seconds = MOST_PAUSE_SECONDS

    def __init__(self, access: ModelAccess) -> None:
        self._access = access
        self._session: ModelSession | None = None
        self._sandbox_time = SandboxTime()

    @contextlib.asynccontextmanager
    async def enter(self, attempt: Try) -> AsyncIterator[None]:
        planned = attempt.planned
        self._sandbox_time = attempt.sandbox_time
        session = self._session = self._access.open_session(
            number=planned.number,
            seed=planned.seed,
            transcript=attempt.transcript,
            waiting=attempt.pause,
            asking=attempt.active.ask_model,
            # In an environment, attempts at one task begin at different times.
            group=planned.task.id if attempt.environment is None else None,
            earlier=self._session,
        )
        attempt.agent_context = replace(attempt.agent_context, model=session)
        try:
            try:
                yield
            except (AgentError, TurnLimitReached) as error:
                if session.failure is None:
                    raise
                raise session.failure from error
            # A submission after a failure that the agent has caught is worth nothing.
            if session.failure is not None:
                raise session.failure
        except BudgetReached as reached:
            if not reached.is_of_run:
                raise
            hint = f"raise it: harness run --resume RUN --run-budget {reached.limit}=NUMBER"
            attempt.settings.faults.stop(RunStoppedError(str(reached), hint=hint))
            raise RunStopped from reached

    def metrics(self, verdict: Verdict) -> Mapping[str, Any]:
        used = {} if self._session is None else self._session.metrics
        return {**used, "sandbox_seconds": round(self._sandbox_time.seconds, 3)} if used else {}


class JudgePart(AttemptPart):
    """Gives the environment its judge, a model."""

    most_pause_seconds = MOST_PAUSE_SECONDS

    def __init__(self, access: ModelAccess) -> None:
        self._access = access
        self._judge: Judge | None = None

    async def prepare(self, attempt: Try) -> None:
        self._judge = Judge(
            self._access,
            number=attempt.planned.number,
            seed=attempt.planned.seed,
            transcript=attempt.transcript,
            pause=attempt.pause,
            asking=attempt.active.ask_model,
            earlier=self._judge,
        )
        attempt.environment_context = replace(attempt.environment_context, judge=self._judge)

    @contextlib.asynccontextmanager
    async def enter(self, attempt: Try) -> AsyncIterator[None]:
        """Raise a failure that the agent has caught, because its environment could not answer."""
        assert self._judge is not None, "it was prepared"  # noqa: S101
        try:
            yield
        except NOT_OF_AGENT:
            raise
        except Exception as error:
            if self._judge.failure is None:
                raise
            raise self._judge.failure from error
        if self._judge.failure is not None:
            raise self._judge.failure

    def metrics(self, verdict: Verdict) -> Mapping[str, Any]:
        return {} if self._judge is None else self._judge.metrics


@dataclass(slots=True)
class RecordedJudgePart(AttemptPart):
    """Gives the environment of a replay the recorded replies of a judge, so that no model is asked."""

    recording: Recording

    async def prepare(self, attempt: Try) -> None:
        judge = RecordedJudge(self.recording, *attempt.planned.key)
        attempt.environment_context = replace(attempt.environment_context, judge=judge)


class RecordedJudge:
    """Answers each request of an environment with the recorded reply to the same request."""

    def __init__(self, recording: Recording, task_id: str, number: int) -> None:
        self._recording = recording
        self._key = task_id, number
        self._asked = 0

    async def ask(
        self, messages: Sequence[Message], schema: ReplySchema | None, read: Callable[[str], Judgement]
    ) -> Judgement:
        """Return the judgement in the recorded reply.

        Raises AgentError for a request that the recorded run did not make, because its answer is unknown.
        """
        return await ask_until_valid(self._find_reply, messages, read, schema, name="of the recorded run")

    async def _find_reply(self, messages: Sequence[Message]) -> Message:
        try:
            recorded = await complete(asyncio.to_thread(self._read_next))
        except DataError as error:
            raise AgentError(f"the recorded attempt cannot be repeated: {error.message}") from error
        asked = tuple((message.role.value, message.text) for message in messages)
        if recorded is None or recorded.messages != asked:
            raise AgentError(
                f"request {self._asked + 1} to the judge is not in the recorded attempt, "
                "and a replay asks no model"
            )
        self._asked += 1
        return Message(Role.ASSISTANT, recorded.reply)

    def _read_next(self) -> RecordedJudgement | None:
        """Return the next recorded judgement. The file is read again, so that none stays open."""
        with closing(self._recording.read_judgements(*self._key)) as judgements:
            return next(islice(judgements, self._asked, None), None)
