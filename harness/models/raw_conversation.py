"""The conversation in a request of a client, as the transcript shows it.

The client may send anything. A value that is not text of a known form is named by its type or left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.models import codecs
from harness.models.chat_completions import read_arguments
from harness.models.codecs import Dialect
from harness.models.endpoint import Api
from harness.models.messages import Generation, Message, ModelRequest, Role, ToolCall, ToolSchema

_ROLES = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "assistant": Role.ASSISTANT,
    "tool": Role.TOOL,
    "function": Role.TOOL,
}
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}


def read_conversation(api: Api, body: Mapping[str, Any]) -> tuple[Message, ...]:
    """Return the messages in the JSON of a request."""
    match api:
        case "chat":
            found = _read_completion(body)
        case "responses":
            found = _read_response(body)
        case "messages":
            found = _read_messages(body)
    return tuple(_join_assistant(found))


def drop_reasoning(message: Message) -> Message:
    """Return a message as a later request repeats it, because few clients send the reasoning back."""
    return Message(message.role, message.text, message.tool_calls, message.tool_call_id)


def _read_completion(body: Mapping[str, Any]) -> Iterator[Message]:
    for each in _mappings(body.get("messages")):
        calls = [
            ToolCall(
                _text(call.get("id")),
                _text(_mapping(call.get("function") or call.get("custom")).get("name")),
                read_arguments(
                    _mapping(call.get("function")).get("arguments", _mapping(call.get("custom")).get("input"))
                ),
            )
            for call in _mappings(each.get("tool_calls"))
        ]
        role = _ROLES.get(_text(each.get("role")), Role.USER)
        call_id = _text(each.get("tool_call_id")) if role is Role.TOOL else None
        yield Message(role, _join_parts(each.get("content")), tuple(calls), call_id)


def _read_response(body: Mapping[str, Any]) -> Iterator[Message]:
    if isinstance(body.get("instructions"), str):
        yield Message(Role.SYSTEM, body["instructions"])
    if isinstance(body.get("input"), str):
        yield Message(Role.USER, body["input"])
    for item in _mappings(body.get("input")):
        kind = _text(item.get("type")) or "message"
        if kind == "message":
            yield Message(_ROLES.get(_text(item.get("role")), Role.USER), _join_parts(item.get("content")))
        elif kind in _CALLS:
            arguments = read_arguments(item.get(_CALLS[kind]))
            call = ToolCall(_text(item.get("call_id")), _text(item.get("name")), arguments)
            yield Message(Role.ASSISTANT, tool_calls=(call,))
        elif kind.endswith("_output"):
            call_id = _text(item.get("call_id"))
            yield Message(Role.TOOL, _join_parts(item.get("output")), tool_call_id=call_id)
        elif kind != "reasoning":
            yield Message(Role.ASSISTANT, f"[{kind}]")


def _read_messages(body: Mapping[str, Any]) -> Iterator[Message]:
    if body.get("system"):
        yield Message(Role.SYSTEM, _join_parts(body["system"]))
    for each in _mappings(body.get("messages")):
        role = _ROLES.get(_text(each.get("role")), Role.USER)
        content = each.get("content")
        blocks = list(_mappings(content))
        for block in blocks:
            if block.get("type") == "tool_result":
                call_id = _text(block.get("tool_use_id"))
                yield Message(Role.TOOL, _join_parts(block.get("content")), tool_call_id=call_id)
        calls = [
            ToolCall(_text(block.get("id")), _text(block.get("name")), read_arguments(block.get("input")))
            for block in blocks
            if block.get("type") == "tool_use"
        ]
        hidden = ("tool_result", "tool_use", "thinking", "redacted_thinking")
        shown = [block for block in blocks if block.get("type") not in hidden]
        if isinstance(content, str) or shown or calls:
            yield Message(role, _join_parts(content if isinstance(content, str) else shown), tuple(calls))


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


def _join_parts(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = []
    for part in content if isinstance(content, list) else ():
        if isinstance(part, str):
            parts.append(part)
            continue
        text = _mapping(part).get("text", _mapping(part).get("refusal"))
        parts.append(text if isinstance(text, str) else f"[{_text(_mapping(part).get('type')) or 'part'}]")
    return "".join(parts)


def _mappings(values: Any) -> Iterator[Mapping[str, Any]]:
    return (value for value in values if isinstance(value, Mapping)) if isinstance(values, list) else iter(())


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return value[:200] if isinstance(value, str) else ""


# The parameters that a server may refuse, and without which a request still means the same.
OPTIONAL_PARAMETERS: Mapping[Api, frozenset[str]] = {
    **codecs.OPTIONAL_PARAMETERS,
    "chat": codecs.OPTIONAL_PARAMETERS["chat"] | {"stream_options"},
}


@dataclass(frozen=True, slots=True)
class RawRequest:
    """One request of a client."""

    api: Api
    # The JSON of the request without the model, the parameters of generation and the choice of a stream.
    body: Mapping[str, Any]
    # The same conversation as the transcript shows it, and its tools.
    messages: tuple[Message, ...] = ()
    tools: tuple[ToolSchema, ...] = ()
    is_stream: bool = False
    # Whether the client wants to know the usage at the end of a stream of Chat Completions.
    wants_usage: bool = False
    # The client's parameters of generation that override the run's.
    generation: Generation = field(default_factory=Generation)
    # The bound of the reply that the client has asked for. It counts where the run and the budget have none.
    fallback_max_tokens: int | None = None
    # Further fields of the entry in the transcript, such as parts that were withheld.
    notes: Mapping[str, Any] = field(default_factory=dict)


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
    parameters = _encode_parameters(request, generation, dialect.choose_max_tokens_field(shown))
    left_out = dialect.find_left_out(shown)
    body = {**request.body, **_merge(request.body, parameters)}
    if request.is_stream:
        body["stream"] = True
        if request.api == "chat":
            # Without the usage no budget can be kept.
            body["stream_options"] = {"include_usage": True}
    body = {name: value for name, value in body.items() if value is not None and name not in left_out}
    return {**body, **extra, "model": model}


def _encode_parameters(request: RawRequest, generation: Generation, max_tokens_field: str) -> dict[str, Any]:
    bound, effort = generation.max_tokens, generation.reasoning_effort
    values: dict[str, Any] = {"temperature": generation.temperature, "top_p": generation.top_p}
    stop = list(generation.stop) or None
    match request.api:
        case "chat":
            values |= {max_tokens_field: bound, "stop": stop, "seed": generation.seed}
            values["reasoning_effort"] = effort
        case "responses":
            # The API has neither `stop` nor `seed`.
            values |= {"max_output_tokens": bound, "store": False}
            values["reasoning"] = None if effort is None else {"effort": effort}
        case "messages":
            values |= {"max_tokens": bound, "stop_sequences": stop}
            values["output_config"] = None if effort is None else {"effort": effort}
    return {name: value for name, value in values.items() if value is not None}


def _merge(body: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters, each joined with the field of the same name that holds more than a parameter."""
    return {
        name: {**body[name], **value}
        if isinstance(value, dict) and isinstance(body.get(name), dict)
        else value
        for name, value in parameters.items()
    }
