"""The conversation of an attempt in its transcript, and the requests that a client has written itself.

The client may send anything. A value that is not text of a known form is named by its type or left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.core.types import Transcript
from harness.models.codecs import CODECS, Dialect
from harness.models.endpoint import Api
from harness.models.messages import Generation, Message, ModelReply, ModelRequest, Role, Usage
from harness.models.settings import describe_message, describe_reply, describe_tool
from harness.models.wire import RawRequest


def read_conversation(api: Api, body: Mapping[str, Any]) -> tuple[Message, ...]:
    """Return the messages in the JSON of a request."""
    return tuple(_join_assistant(CODECS[api].read_conversation(body)))


def _join_assistant(messages: Iterator[Message]) -> Iterator[Message]:
    """Yield the messages, with those joined that were one reply of the model."""
    pending: Message | None = None
    for message in messages:
        if pending is not None and message.role is Role.ASSISTANT:
            calls = (*pending.tool_calls, *message.tool_calls)
            pending = Message(Role.ASSISTANT, pending.text + message.text, calls)
            continue
        if pending is not None:
            yield pending
        pending = message if message.role is Role.ASSISTANT else None
        if pending is None:
            yield message
    if pending is not None:
        yield pending


def list_optional_parameters(api: Api) -> frozenset[str]:
    """Return the parameters that a server may refuse, and without which a request still means the same."""
    return CODECS[api].OPTIONAL_PARAMETERS | ({"stream_options"} if api == "chat" else set())


def encode_raw_request(
    request: RawRequest,
    generation: Generation,
    dialect: Dialect,
    *,
    own: frozenset[str],
    model: str,
    extra: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the whole JSON of a request.

    Args:
        request: the request.
        generation: the parameters that it gets.
        dialect: the form of the protocol that the server has shown.
        own: the names of the parameters that the client has chosen.
        model: the name of the model at the server.
        extra: the fields of the endpoint.
    """
    shown = ModelRequest((), generation=generation, own_parameters=own)
    field = dialect.choose_max_tokens_field(shown)
    found = CODECS[request.api].encode_parameters(generation, field)
    parameters = {name: value for name, value in found.items() if value is not None}
    left_out = dialect.find_left_out(shown)
    body = {**request.body, **_merge(request.body, parameters)}
    if request.is_stream:
        body["stream"] = True
        if request.api == "chat":
            # Without the usage no budget can be kept.
            body["stream_options"] = {"include_usage": True}
    body = {name: value for name, value in body.items() if value is not None and name not in left_out}
    return {**body, **extra, "model": model}


def _merge(body: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters, each joined with the field of the same name that holds more than a parameter."""
    return {
        name: {**body[name], **value}
        if isinstance(value, dict) and isinstance(body.get(name), dict)
        else value
        for name, value in parameters.items()
    }


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
        """Expect the last reply without its reasoning in the next request, as most programs send it back."""
        *before, last = self._last
        self._last = (*before, Message(last.role, last.text, last.tool_calls, last.tool_call_id))

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
