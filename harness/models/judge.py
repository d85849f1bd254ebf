"""A model that judges for an environment. Its requests, its cost and its time are not the agent's."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from harness.core.errors import HarnessError
from harness.core.types import Transcript
from harness.models.access import ModelAccess
from harness.models.concurrency import Waiting
from harness.models.messages import Message, ReplySchema, Role
from harness.models.server_errors import ContextTooLongError, InvalidRequestError, ModelError
from harness.models.session import ModelSession

Judgement = TypeVar("Judgement")
# A judge that writes no valid reply so often has a fault, and the agent must not pay for it.
MOST_REPLIES = 3


class EnvironmentJudge(Protocol):
    """A judge as an environment sees it: a model, or the recorded replies of one."""

    async def ask(
        self, messages: Sequence[Message], schema: ReplySchema | None, read: Callable[[str], Judgement]
    ) -> Judgement:
        """Return the judgement that `read` finds in a reply, as `Judge.ask` does."""


class Judge:
    """The judge as the environment of one attempt sees it."""

    def __init__(
        self,
        access: ModelAccess,
        *,
        number: int,
        seed: int,
        transcript: Transcript,
        pause: Waiting,
        asking: Waiting = contextlib.nullcontext,
        earlier: Judge | None = None,
    ) -> None:
        """Ask for one attempt.

        Args:
            access: the model, which all attempts of the run share.
            number: the number of the attempt at its task.
            seed: the seed that is sent with each request.
            transcript: each request is written here, as an entry of the kind `judge`.
            pause: returns a context that pauses the agent's time.
            asking: returns a context that surrounds each request, with all of its tries.
            earlier: the judge of an earlier try of the attempt, whose requests count as well.
        """
        self._session: ModelSession = access.open_session(
            number=number,
            seed=seed,
            transcript=_JudgeTranscript(transcript),
            asking=asking,
            earlier=None if earlier is None else earlier._session,
        )
        self._pause = pause
        # The failure that ended the last request. An agent may catch it and submit something, but the
        # submission would count as its own.
        self.failure: Exception | None = None

    @property
    def metrics(self) -> dict[str, Any]:
        """The use of the model so far, under names that begin with `judge_`. Empty before a request."""
        return {f"judge_{name.removeprefix('model_')}": each for name, each in self._session.metrics.items()}

    async def ask(
        self, messages: Sequence[Message], schema: ReplySchema | None, read: Callable[[str], Judgement]
    ) -> Judgement:
        """Return the judgement that `read` finds in the model's reply. The agent's time is paused.

        Args:
            messages: the whole request.
            schema: the form of the reply, None for free text.
            read: returns the judgement in a reply, and raises ValueError for a malformed one. The model then
                gets another chance.

        Raises:
            ModelError: if the server fails, or the model writes no valid reply.
            ModelRefusedError: if the server refuses every request.
        """
        if self.failure is not None:
            raise self.failure
        try:
            with self._pause():
                return await self._ask(messages, schema, read)
        except (ContextTooLongError, InvalidRequestError) as error:
            self.failure = ModelError(f"the judge refuses a request: {error}")
            raise self.failure from error
        except HarnessError as error:
            self.failure = error
            raise

    async def _ask(
        self, messages: Sequence[Message], schema: ReplySchema | None, read: Callable[[str], Judgement]
    ) -> Judgement:
        async def ask(asked: Sequence[Message]) -> Message:
            return (await self._session.ask(asked, reply_schema=schema)).choices[0].message

        return await ask_until_valid(ask, messages, read, schema, name=self._session.endpoint.model)


async def ask_until_valid(
    ask: Callable[[Sequence[Message]], Awaitable[Message]],
    messages: Sequence[Message],
    read: Callable[[str], Judgement],
    schema: ReplySchema | None,
    *,
    name: str,
) -> Judgement:
    """Return the judgement in the first valid reply. Raises ModelError if MOST_REPLIES are not valid.

    Args:
        ask: returns the reply to a whole request.
        messages: the first request.
        read: returns the judgement in a reply, and raises ValueError for a malformed one.
        schema: the form of the reply, None for free text.
        name: the name of the judge, for messages.
    """
    asked = list(messages)
    advice = "Reply again." if schema is None else "Reply with the object alone."
    for _ in range(MOST_REPLIES):
        reply = await ask(asked)
        try:
            return read(reply.text)
        except ValueError as error:
            fault = str(error)
        # An equal request would get an equal reply at temperature 0.
        asked.append(reply)
        asked.append(Message(Role.USER, f"Your reply is not valid: {fault}. {advice}"))
    raise ModelError(
        f"the judge '{name}' wrote {MOST_REPLIES} replies that are not valid; the last time: {fault}",
        hint="choose a model that follows a JSON schema",
    )


class _JudgeTranscript:
    """A transcript that tells the requests to the judge from the agent's own."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript

    def write(self, entry: Mapping[str, Any], *, is_end: bool = False) -> None:
        is_request = entry.get("kind") == "model"
        self._transcript.write({**entry, "kind": "judge"} if is_request else entry, is_end=is_end)
