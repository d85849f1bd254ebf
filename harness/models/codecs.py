"""The codec of each API: a request as the JSON for a server, and a reply from the JSON of a server."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from harness.models import anthropic_messages, chat_completions, responses
from harness.models.dialect import Dialect
from harness.models.endpoint import Api
from harness.models.failures import MalformedReplyError
from harness.models.messages import Generation, ModelReply, ModelRequest, drop_extra

# The most characters of a reply's text and of the arguments of its calls together. Both may hold JSON, whose
# values are not counted with those of the reply. No model writes as much.
MAX_CHARACTERS = 2 * 1024 * 1024
# The parameters without which a request still means the same.
OPTIONAL_PARAMETERS: Mapping[Api, frozenset[str]] = {
    "chat": chat_completions.OPTIONAL_PARAMETERS,
    "responses": responses.OPTIONAL_PARAMETERS,
    "messages": anthropic_messages.OPTIONAL_PARAMETERS,
}
# The bound of a reply that is sent without a setting, where an API requires one.
DEFAULT_MAX_TOKENS: Mapping[Api, int | None] = {
    "chat": None,
    "responses": None,
    "messages": anthropic_messages.DEFAULT_MAX_TOKENS,
}
# The parameters of generation for which an API has no field.
_MISSING: Mapping[Api, frozenset[str]] = {
    "chat": frozenset(),
    "responses": frozenset({"stop", "seed"}),
    "messages": frozenset({"seed"}),
}
# Sources: OpenAI's "The encrypted content ... could not be verified" and "Item with id 'rs_...' not found".
_REFUSED_ITEM = re.compile(r"encrypted.content|'rs_|reasoning", re.IGNORECASE)
# Sources: Anthropic's "Invalid `signature` in `thinking` block" and "`thinking` or `redacted_thinking` blocks
# in the latest assistant message cannot be modified", and the place that a validation error names.
_REFUSED_THINKING = re.compile(r"signature|thinking\W{0,2} blocks?|content\.\d+\.(redacted_)?thinking")
_MISSING_FIELD = re.compile(r"\b(missing|required|must have)\b", re.IGNORECASE)


def encode_request(api: Api, request: ModelRequest, *, model: str, dialect: Dialect) -> dict[str, Any]:
    """Return the JSON body of a request.

    Args:
        api: the API of the server.
        request: the request. A parameter that the API lacks is left out.
        model: the name of the model at the server.
        dialect: the form of the protocol that the server has shown.
    """
    left_out, replays = dialect.find_left_out(request), dialect.replays_reasoning
    if not dialect.replays_extra:
        request = replace(request, messages=tuple(map(drop_extra, request.messages)))
    match api:
        case "chat":
            return chat_completions.encode_request(
                request,
                model=model,
                max_tokens_field=dialect.choose_max_tokens_field(request),
                left_out=left_out,
                replay_reasoning=replays,
            )
        case "responses":
            return responses.encode_request(request, model=model, left_out=left_out, replay_reasoning=replays)
        case "messages":
            return anthropic_messages.encode_request(
                request, model=model, left_out=left_out, replay_reasoning=replays
            )


def decode_reply(api: Api, raw: Any) -> ModelReply:
    """Return the reply in a server's JSON. Raises MalformedReplyError."""
    match api:
        case "chat":
            reply = chat_completions.decode_reply(raw)
        case "responses":
            reply = responses.decode_reply(raw)
        case "messages":
            reply = anthropic_messages.decode_reply(raw)
    for choice in reply.choices:
        message = choice.message
        if len(message.text) + sum(len(call.arguments) for call in message.tool_calls) > MAX_CHARACTERS:
            raise MalformedReplyError(f"its text is longer than {MAX_CHARACTERS:,} characters")
    return reply


def list_unsent_parameters(
    api: Api, generation: Generation, dialect: Dialect, own: frozenset[str]
) -> list[str]:
    """Return the names of the parameters that are set, but that the API lacks or the server has refused.

    `own` are the names of those that an agent has chosen itself.
    """
    refused = dialect.list_refused_parameters(ModelRequest((), generation=generation, own_parameters=own))
    return sorted(generation.as_values().keys() & (_MISSING[api] | refused))


def find_refused_reasoning(message: str, body: Mapping[str, Any]) -> str | None:
    """Return the name of the replayed reasoning that an error's message refuses, None if it refuses none."""
    items = [item for item in (*body.get("messages", ()), *body.get("input", ())) if isinstance(item, dict)]
    if any(item.get("type") == "reasoning" for item in items):
        # A gateway may pass a request to another organization, which cannot decrypt the reasoning.
        return "reasoning items" if _REFUSED_ITEM.search(message) else None
    if any(str(block.get("type")).endswith("thinking") for block in _list_blocks(items)):
        return "thinking blocks" if _REFUSED_THINKING.search(message) else None
    replayed = {name for item in items for name in item if name in chat_completions.REASONING_FIELDS}
    # The longest name first, because `reasoning` is a part of the others.
    return next((name for name in sorted(replayed, key=len, reverse=True) if name in message), None)


def find_refused_extra(message: str, request: ModelRequest) -> str | None:
    """Return the name of a server's own field that an error refuses, None if it refuses none."""
    # A server that asks for a field names it too.
    if _MISSING_FIELD.search(message):
        return None
    names = {
        name
        for each in request.messages
        for extra in (each.extra, *(call.extra for call in each.tool_calls))
        for name in _list_names(extra)
    }
    return next((name for name in sorted(names, key=len, reverse=True) if _names(message, name)), None)


def _list_names(extra: Mapping[str, Any]) -> Iterator[str]:
    for name, value in extra.items():
        # The fields of a call's `function` are under its name.
        yield from value if name == "function" and isinstance(value, Mapping) else (name,)


def _names(message: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", message) is not None


def _list_blocks(items: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for item in items:
        content = item.get("content")
        yield from content if isinstance(content, list) else ()
