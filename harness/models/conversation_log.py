"""The entries of a transcript for the requests of one attempt to the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.core.types import Transcript
from harness.models.messages import Message, ModelReply, ModelRequest, Usage
from harness.models.settings import describe_message, describe_reply, describe_tool


class ConversationLog:
    """Writes the requests of a conversation, each without the messages that an earlier entry holds."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        # The messages of the last request with its reply, and the input tokens that the server counted.
        self._last: tuple[Message, ...] = ()
        self._last_input: int | None = None

    def write(self, number: int, request: ModelRequest, reply: ModelReply, notes: Mapping[str, Any]) -> bool:
        """Write a request with its reply, and return whether the server has cut the context.

        Args:
            number: the number of the request, from 1.
            request: the request.
            reply: its reply.
            notes: further fields of the entry.
        """
        sent, known = request.messages, len(self._last)
        continues = sent[:known] == self._last
        is_cut = self._note_truncation(reply.usage, has_grown=continues and len(sent) > known > 0)
        entry: dict[str, Any] = {
            "kind": "model",
            "request": number,
            "messages": [describe_message(each) for each in (sent[known:] if continues else sent)],
            "reply": describe_reply(reply),
            "usage": None if reply.usage == Usage() else reply.usage.as_values(),
            "seconds": round(reply.seconds, 4),
            "waiting_seconds": round(reply.waiting_seconds, 4),
            "retries": reply.retries,
            "cached": reply.is_cached,
            **notes,
        }
        if number == 1:
            entry["parameters"] = request.generation.as_values()
            if reply.shared is not None:
                entry["n"], entry["parameters"]["seed"] = reply.shared.n, reply.shared.seed
            entry["tools"] = [tool.name for tool in request.tools]
            if request.tools:
                entry["tool_definitions"] = [describe_tool(tool) for tool in request.tools]
        if not continues:
            # The agent has changed earlier messages, so the entry holds all of them.
            entry["changed"] = True
        self._last = (*sent, reply.choices[0].message)
        self._transcript.write(entry)
        return is_cut

    def drop_last_reasoning(self) -> None:
        """Expect the last reply without its reasoning in the next request, as programs send it back."""
        *before, last = self._last
        self._last = (*before, _drop_reasoning(last))

    def _note_truncation(self, usage: Usage, *, has_grown: bool) -> bool:
        """Note a server that cuts the context silently: its input tokens shrink while the messages grow.

        Ollama does so. Source: its `num_ctx`, which is 4,096 tokens by default.
        """
        before, now = self._last_input, usage.input_tokens
        self._last_input = now
        if not has_grown or before is None or now is None or now >= before:
            return False
        text = f"the server cut the context: {now} input tokens after {before}, although it grew"
        self._transcript.write({"kind": "context", "text": text})
        return True


def _drop_reasoning(message: Message) -> Message:
    """Return a message as a later request repeats it, because few clients send the reasoning back."""
    return Message(message.role, message.text, message.tool_calls, message.tool_call_id)
