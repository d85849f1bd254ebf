"""A model that judges for an environment. Its requests, its cost and its time are not the agent's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from harness.models.messages import Message, ReplySchema, Role
from harness.models.server_errors import ModelError

Judgement = TypeVar("Judgement")
# A judge that writes no valid reply so often has a fault, and the agent must not pay for it.
MOST_REPLIES = 3


class EnvironmentJudge(Protocol):
    """A judge as an environment sees it: a model, or the recorded replies of one."""

    async def ask(
        self, messages: Sequence[Message], schema: ReplySchema | None, read: Callable[[str], Judgement]
    ) -> Judgement:
        """Return the judgement that `read` finds in a reply, as `Judge.ask` does."""


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
