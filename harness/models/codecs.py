"""The codec of each API: a request as the JSON for a server, and a reply from the JSON of a server."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

from harness.models import anthropic_messages, chat_completions, responses
from harness.models.endpoint import Api
from harness.models.messages import Generation, Message, ModelReply, ModelRequest, drop_extra
from harness.models.server_errors import MalformedReplyError
from harness.models.wire import StreamedReply

MAX_TOKENS_FIELDS = ("max_tokens", "max_completion_tokens")
# An agent may choose another value for each request. If a server has refused this many values of one
# parameter, it is likely to refuse all that the agent chooses.
MOST_REFUSED_VALUES = 8
# The names of a parameter in a request, if they differ from its name in Generation.
_GENERATION_NAMES = {
    **dict.fromkeys((*MAX_TOKENS_FIELDS, "max_output_tokens"), "max_tokens"),
    "reasoning": "reasoning_effort",
    "stop_sequences": "stop",
    "output_config": "reasoning_effort",
}
# The most characters of a reply's text and of the arguments of its calls together. Both may hold JSON, whose
# values are not counted with the reply's. No model writes as much.
MAX_CHARACTERS = 2 * 1024 * 1024
# Sources: OpenAI's "The encrypted content ... could not be verified" and "Item with id 'rs_...' not found".
_REFUSED_ITEM = re.compile(r"encrypted.content|'rs_|reasoning", re.IGNORECASE)
# Sources: Anthropic's "Invalid `signature` in `thinking` block" and "`thinking` or `redacted_thinking` blocks
# in the latest assistant message cannot be modified", and the place that a validation error names.
_REFUSED_THINKING = re.compile(r"signature|thinking\W{0,2} blocks?|content\.\d+\.(redacted_)?thinking")
_MISSING_FIELD = re.compile(r"\b(missing|required|must have)\b", re.IGNORECASE)
CODECS: Mapping[Api, Codec] = {
    "chat": chat_completions,
    "responses": responses,
    "messages": anthropic_messages,
}


@dataclass(frozen=True, slots=True)
class Dialect:
    """All that a server has shown of its form of the protocol, so that no later request violates it."""

    # The field for the largest number of tokens.
    max_tokens_field: str
    # Whether the server decides between the two names of that field.
    tries_both_fields: bool = False
    # The parameters that the server has refused. Each has its value if an agent has chosen the value itself,
    # else None. So a value of one agent changes no request that does not have it.
    refused: frozenset[tuple[str, object]] = frozenset()
    # Whether the server accepts the fields that it sends reasoning in.
    replays_reasoning: bool = True
    # Whether the server takes back the fields of its replies that no codec knows.
    replays_extra: bool = True
    # Whether a request for several choices gets as many. None until one was sent.
    returns_n: bool | None = None

    @property
    def left_out(self) -> frozenset[str]:
        """The refused parameters of the run, which no request has."""
        return frozenset(name for name, value in self.refused if value is None)

    def find_left_out(self, request: ModelRequest) -> frozenset[str]:
        """Return the parameters that the server has refused for requests like this one."""
        names = Counter(name for name, value in self.refused if value is not None)
        return frozenset(
            name
            for name, _ in self.refused
            if (key := _identify(name, request)) in self.refused
            or (key[1] is not None and names[name] >= MOST_REFUSED_VALUES)
        )

    def list_refused_parameters(self, request: ModelRequest) -> frozenset[str]:
        """Return the parameters of generation that the server has refused for requests like this one."""
        names = self.find_left_out(request)
        if self.tries_both_fields and not names.issuperset(MAX_TOKENS_FIELDS):
            names = names.difference(MAX_TOKENS_FIELDS)
        return frozenset(_GENERATION_NAMES.get(name, name) for name in names)

    def choose_max_tokens_field(self, request: ModelRequest) -> str:
        """Return the name of the field for the largest number of tokens in a request."""
        field = self.max_tokens_field
        is_refused = self.tries_both_fields and field in self.find_left_out(request)
        return _find_other(field) if is_refused else field

    def refuse(self, name: str, request: ModelRequest) -> Self:
        """Return the dialect of a server that refuses a parameter of this request."""
        refusing = replace(self, refused=self.refused | {_identify(name, request)})
        if name == "n":
            return replace(refusing, returns_n=False)
        if name == self.max_tokens_field and self.tries_both_fields and name in refusing.left_out:
            other = _find_other(name)
            return replace(refusing, max_tokens_field=name if other in refusing.left_out else other)
        return refusing


def _identify(name: str, request: ModelRequest) -> tuple[str, object]:
    field = _GENERATION_NAMES.get(name, name)
    return name, getattr(request.generation, field) if field in request.own_parameters else None


def _find_other(field: str) -> str:
    first, second = MAX_TOKENS_FIELDS
    return second if field == first else first


class Codec(Protocol):
    """The module of an API."""

    # The parameters without which a request still means the same.
    OPTIONAL_PARAMETERS: frozenset[str]
    # The parameters of generation that the API has no field for.
    MISSING_PARAMETERS: frozenset[str]
    # The bound of a reply that is sent without a setting, if the API requires one.
    DEFAULT_MAX_TOKENS: int | None

    def encode_parameters(self, generation: Generation, max_tokens_field: str, /) -> dict[str, Any]:
        """Return the parameters of generation, None for each that is not set."""

    def encode_request(
        self, request: ModelRequest, max_tokens_field: str, replay_reasoning: bool, /
    ) -> dict[str, Any]:
        """Return the JSON body of a request but for its model. A field that is None is not sent."""

    def decode_reply(self, raw: Any, /) -> ModelReply:
        """Return the reply in a server's JSON. Raises MalformedReplyError."""

    def Streamed(self) -> StreamedReply:
        """Return a streamed reply before its first event."""

    def read_conversation(self, body: Mapping[str, Any], /) -> Iterator[Message]:
        """Yield the messages in the JSON of a client's request."""


def encode_request(api: Api, request: ModelRequest, *, model: str, dialect: Dialect) -> dict[str, Any]:
    """Return the JSON body of a request.

    Args:
        api: the API of the server.
        request: the request. A parameter that the API lacks is left out.
        model: the name of the model at the server.
        dialect: the form of the protocol that the server has shown.
    """
    left_out, field = dialect.find_left_out(request), dialect.choose_max_tokens_field(request)
    if not dialect.replays_extra:
        request = replace(request, messages=tuple(map(drop_extra, request.messages)))
    body = {"model": model, **CODECS[api].encode_request(request, field, dialect.replays_reasoning)}
    return {name: value for name, value in body.items() if value is not None and name not in left_out}


def decode_reply(api: Api, raw: Any) -> ModelReply:
    """Return the reply in a server's JSON. Raises MalformedReplyError."""
    reply = CODECS[api].decode_reply(raw)
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
    return sorted(generation.as_values().keys() & (CODECS[api].MISSING_PARAMETERS | refused))


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
