"""The judge of a replay: the recorded replies of a judge stand for the model, which is not asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import islice
from typing import Any, TypeVar

from harness.core.errors import DataError
from harness.core.shield import complete
from harness.models.judge import ask_until_valid
from harness.models.messages import Message, ReplySchema, Role
from harness.runs.agents.agent import AgentError
from harness.runs.agents.recording import RecordedJudgement, Recording

Judgement = TypeVar("Judgement")


class RecordedJudge:
    """Answers each request of an environment with the recorded reply to the same request."""

    # A recorded reply costs nothing, and no server can fail.
    failure: Exception | None = None

    def __init__(self, recording: Recording, task_id: str, number: int) -> None:
        self._recording = recording
        self._key = task_id, number
        self._asked = 0

    @property
    def metrics(self) -> dict[str, Any]:
        return {}

    async def ask(
        self, messages: Sequence[Message], schema: ReplySchema, read: Callable[[str], Judgement]
    ) -> Judgement:
        """Return the judgement in the recorded reply.

        Raises AgentError for a request that the recorded run did not make, because its answer is unknown.
        """
        return await ask_until_valid(self._find_reply, messages, read, name="of the recorded run")

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
