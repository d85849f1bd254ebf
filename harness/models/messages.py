"""The messages, requests and replies of a conversation with a model, in the same form for each API."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

from harness.core.tools import Tool

# No request has more tokens, and no sum of such counts is too large for a float or for a record.
MOST_TOKENS = 10**12


class Role(StrEnum):
    """The author of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Finish(StrEnum):
    """Why a model stopped."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    # The model declined to answer, or a filter of the server removed the answer.
    REFUSAL = "refusal"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool in a model's reply.

    `arguments` is the text that the model wrote. It should be a JSON object, but may be anything.
    """

    id: str
    name: str
    arguments: str
    # The fields of the server's call that no codec knows, which the next request sends back.
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Reasoning:
    """The reasoning of a model, which is never part of its answer.

    `fields` are the fields of the server's message that held it, for servers that want them back. It is
    empty if the reasoning stood in the text, between `<think>` tags.
    """

    text: str
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: Role
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    # The call that a message of role TOOL answers.
    tool_call_id: str | None = None
    reasoning: Reasoning | None = None
    # The fields of the server's message that no codec knows, which the next request sends back.
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """A tool that a model may call. `parameters` is the JSON schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]


def describe_tool(tool: ToolSchema | Tool) -> ToolSchema:
    """Return the schema of a tool. A tool of an environment is one too, so that agents can pass it on."""
    return ToolSchema(tool.name, tool.description, tool.parameters) if isinstance(tool, Tool) else tool


@dataclass(frozen=True, slots=True)
class ReplySchema:
    """The JSON schema of a reply, which is one object. A server may ignore it, so the reply needs a check."""

    name: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Generation:
    """The parameters of generation. A parameter that is None is not sent."""

    temperature: float | None = None
    top_p: float | None = None
    # The largest number of tokens of one reply, reasoning included.
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    reasoning_effort: str | None = None

    def as_values(self) -> dict[str, Any]:
        """Return the parameters that are set, as JSON values."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
            if value not in (None, ())
        }


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request for `n` replies to the same messages."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSchema, ...] = ()
    generation: Generation = field(default_factory=Generation)
    n: int = 1
    # The form of the reply, None for any text.
    reply_schema: ReplySchema | None = None
    # The names of the parameters that an agent has set to other values than the run's.
    # They only show whom a refusal concerns, so requests that differ in nothing else are equal.
    own_parameters: frozenset[str] = field(default=frozenset(), compare=False)


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of a request as the server reports them. None is a number that it did not report."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    # Part of `output_tokens`.
    reasoning_tokens: int | None = None
    # Part of `input_tokens`.
    cached_tokens: int | None = None

    @property
    def total_tokens(self) -> int | None:
        """Input and output, None unless the server reported both."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        return self.input_tokens + self.output_tokens

    def as_values(self) -> dict[str, int | None]:
        """Return the numbers by their names."""
        return {name: getattr(self, name) for name in self.__slots__}

    def __add__(self, other: Usage) -> Usage:
        """Return the sum. A number that one of both does not know is unknown in the sum."""
        return Usage(
            _add(self.input_tokens, other.input_tokens),
            _add(self.output_tokens, other.output_tokens),
            _add(self.reasoning_tokens, other.reasoning_tokens),
            _add(self.cached_tokens, other.cached_tokens),
        )


NO_USAGE = Usage(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the replies to a request."""

    message: Message
    finish: Finish
    # The model's refusal, or the name of the filter.
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class SharedRequest:
    """The one request that got the replies of several attempts."""

    # The number of attempts that got a reply from it.
    n: int
    # The seed of the first of these attempts, which the request carried.
    seed: int | None
    # Whether the time of the request counts for this attempt. It counts for the first one alone.
    counts_time: bool


@dataclass(frozen=True, slots=True)
class ModelReply:
    """The answer to a request: one choice or more, in the server's order."""

    choices: tuple[Choice, ...]
    usage: Usage
    # The name of the model that the server reports.
    model: str
    # The JSON that the server sent.
    raw: Mapping[str, Any]
    # From the first try to the reply, with all waiting.
    seconds: float = 0.0
    # The part of `seconds` that the request waited for a place at the endpoint, or between two tries.
    waiting_seconds: float = 0.0
    retries: int = 0
    is_cached: bool = False
    # The request, if other attempts also got their replies from it.
    shared: SharedRequest | None = None

    @property
    def text(self) -> str:
        """The text of the first choice, without its reasoning."""
        return self.choices[0].message.text


def keep_unknown(sent: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return the fields of a server's JSON that a codec does not know and that hold anything.

    A server may need them back. Gemini, for example, refuses a call without the `thought_signature` that came
    with it.
    """
    return {name: value for name, value in sent.items() if name not in known and not _is_empty(value)}


def drop_extra(message: Message) -> Message:
    """Return a message without the fields that no codec knows."""
    calls = tuple(replace(call, extra={}) for call in message.tool_calls)
    return replace(message, tool_calls=calls, extra={})


def read_count(value: Any) -> int | None:
    """Return a count of tokens from a server's JSON, or None if the value is not a count."""
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | list | dict) and not value)


def _add(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def read_server_json(text: str) -> Any:
    """Return the JSON value in a server's text, with None for each number that is not finite.

    Python accepts `NaN`, `Infinity` and `1e999`, but no request could carry them back to the server. Raises
    ValueError and RecursionError.
    """
    return json.loads(text, parse_constant=lambda constant: None, parse_float=_read_finite)


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a copy of a JSON value after `change` has replaced each text, names of fields included.

    Raises RecursionError for a value that is nested too deeply.
    """
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {map_texts(name, change): map_texts(item, change) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [map_texts(item, change) for item in value]
    return value


def _read_finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


@dataclass(slots=True)
class Counts:
    """The use of the model in one attempt."""

    requests: int = 0
    retries: int = 0
    cached: int = 0
    usage: Usage = NO_USAGE
    cost: float | None = 0.0
    seconds: float = 0.0
    waiting_seconds: float = 0.0
    truncations: int = 0
    # The replies that ended at a limit of tokens, those from the cache as well.
    cut: int = 0

    def add(self, reply: ModelReply, cost: float | None) -> None:
        """Count a reply. One from the cache was paid for before, so its tokens do not count."""
        self.cut += reply.choices[0].finish is Finish.LENGTH
        if reply.is_cached:
            self.cached += 1
            return
        self.count_request(reply.usage, cost)
        self.retries += reply.retries
        if reply.shared is None or reply.shared.counts_time:
            self.seconds += reply.seconds
            self.waiting_seconds += reply.waiting_seconds

    def count_request(self, usage: Usage, cost: float | None) -> None:
        """Count a request that the server has answered, and its usage."""
        self.requests += 1
        self.usage += usage
        self.cost = None if self.cost is None or cost is None else self.cost + cost

    def metrics(self) -> dict[str, Any]:
        return {
            "model_requests": self.requests,
            "model_retries": self.retries,
            "cached_replies": self.cached,
            **self.usage.as_values(),
            "cost": self.cost,
            "model_seconds": round(self.seconds, 3),
            "waiting_seconds": round(self.waiting_seconds, 3),
            "context_truncated": self.truncations,
            "cut_replies": self.cut,
        }


def describe_request(value: Any) -> str:
    """Return the JSON of a value that holds requests, the same for equal requests."""
    return json.dumps(value, sort_keys=True, default=_list_fields)


def _list_fields(value: Any) -> dict[str, Any]:
    # `asdict` would copy the whole conversation.
    return {field.name: getattr(value, field.name) for field in fields(value) if field.compare}
