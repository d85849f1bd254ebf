"""Requests and replies in the form of OpenAI's Responses API, without a conversation that the server keeps.

Source: https://platform.openai.com/docs/api-reference/responses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from harness.models.messages import (
    Choice,
    Finish,
    Generation,
    Message,
    ModelReply,
    ModelRequest,
    Reasoning,
    Role,
    ToolCall,
    Usage,
    keep_unknown,
)
from harness.models.server_errors import MalformedReplyError
from harness.models.wire import (
    MOST_CALLS,
    StreamedReply,
    join_parts,
    make_reply,
    mapping,
    mappings,
    name_call,
    read_arguments,
    read_parts,
    read_role,
    read_usage,
    repair_arguments,
    repair_name,
    short_text,
)

# A request can do without these. `stop`, `seed` and `n` do not exist in this API.
OPTIONAL_PARAMETERS = frozenset(
    (
        *("temperature", "top_p", "max_output_tokens", "reasoning", "include", "store"),
        *("parallel_tool_calls", "text"),
    )
)
MISSING_PARAMETERS = frozenset({"stop", "seed"})
DEFAULT_MAX_TOKENS: int | None = None
# The fields that this codec reads, and those that only describe a reply.
_MESSAGE_FIELDS = frozenset({"type", "id", "role", "status", "content"})
_CALL_FIELDS = frozenset({"type", "id", "status", "call_id", "name", "arguments"})
# The reason of a reply that a broken connection ended.
_ENDED_EARLY = "the stream ended early"
# The key of `Reasoning.fields` that keeps the server's items, each with the item that it precedes.
_ITEMS = "reasoning_items"
# The place of a reasoning item before the text of the message. Other places are the ids of calls.
_BEFORE_TEXT = ""
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}


def encode_parameters(generation: Generation, _max_tokens_field: str) -> dict[str, Any]:
    """Return the parameters of generation, None for each that is not set. The server keeps nothing."""
    effort = generation.reasoning_effort
    return {
        "temperature": generation.temperature,
        "top_p": generation.top_p,
        "max_output_tokens": generation.max_tokens,
        "store": False,
        "reasoning": None if effort is None else {"effort": effort},
    }


def encode_request(request: ModelRequest, max_tokens_field: str, replay_reasoning: bool) -> dict[str, Any]:
    """Return the JSON body of a request. Its `n`, `stop` and `seed` have no field in this API."""
    messages = request.messages
    instructions = messages[0].text if messages and messages[0].role is Role.SYSTEM else None
    body: dict[str, Any] = {
        "instructions": instructions,
        "input": [
            item
            for message in (messages if instructions is None else messages[1:])
            for item in _encode_message(message, replay_reasoning)
        ],
        **encode_parameters(request.generation, max_tokens_field),
        # The server keeps nothing, so it must send reasoning in a form that can be sent back.
        "include": ["reasoning.encrypted_content"],
    }
    if (schema := request.reply_schema) is not None:
        form = {"name": schema.name, "schema": dict(schema.schema), "strict": True}
        body["text"] = {"format": {"type": "json_schema", **form}}
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.parameters),
                # The strict mode refuses schemas with optional arguments.
                "strict": False,
            }
            for tool in request.tools
        ]
    return body


def decode_reply(raw: Any) -> ModelReply:
    """Return the reply in a server's JSON. Raises MalformedReplyError if it holds no output."""
    items = list(mappings(read_parts(raw, "output")))
    status = raw.get("status")
    if status in ("failed", "cancelled", "queued", "in_progress"):
        raise MalformedReplyError(f"the status of the reply is {status}")
    return make_reply(raw, (_decode_choice(items, raw),), decode_usage(raw.get("usage")))


def decode_usage(usage: Any) -> Usage:
    """Return the usage in a server's JSON, with None for each number that it lacks."""
    return read_usage(usage, "input", "output")


def _encode_message(message: Message, replay_reasoning: bool) -> Iterator[dict[str, Any]]:
    if message.role is Role.TOOL:
        yield {"type": "function_call_output", "call_id": message.tool_call_id or "", "output": message.text}
        return
    thoughts = _list_replayed(message) if replay_reasoning else []
    yield from (thought["item"] for thought in thoughts if thought["before"] == _BEFORE_TEXT)
    if message.text or not message.tool_calls:
        yield {**message.extra, "role": message.role.value, "content": message.text}
    for call in message.tool_calls:
        yield from (thought["item"] for thought in thoughts if thought["before"] == call.id)
        yield {
            **call.extra,
            "type": "function_call",
            "call_id": call.id,
            "name": repair_name(call.name),
            "arguments": repair_arguments(call.arguments),
        }


def _list_replayed(message: Message) -> list[dict[str, Any]]:
    """Return the reasoning items of a message. The agent may have built the message itself, in any form."""
    kept = None if message.reasoning is None else message.reasoning.fields.get(_ITEMS)
    listed = kept if isinstance(kept, list) else []
    return [each for each in listed if isinstance(each, dict) and each.keys() == {"before", "item"}]


def _decode_choice(items: list[Mapping[str, Any]], raw: Mapping[str, Any]) -> Choice:
    texts: list[str] = []
    refusals: list[str] = []
    thoughts: list[str] = []
    calls: dict[str, ToolCall] = {}
    replayed: list[dict[str, Any]] = []
    pending: list[dict[str, Any]] = []
    extra: dict[str, Any] = {}
    for item in items:
        place = None
        match item.get("type"):
            case "reasoning":
                thoughts.extend(_read_texts(item.get("summary")))
                thoughts.extend(_read_texts(item.get("content")))
                pending.extend(_keep_reasoning(item))
            case "message":
                texts.extend(_read_texts(item.get("content")))
                refusals.extend(_read_texts(item.get("content"), "refusal"))
                # GPT-5.3 and later want the `phase` of a message back.
                extra |= keep_unknown(item, _MESSAGE_FIELDS)
                place = _BEFORE_TEXT
            case "function_call" if len(calls) < MOST_CALLS:
                call = _decode_call(item, calls)
                calls[call.id] = call
                place = call.id
        if place is not None:
            # The API refuses a reasoning item that the item after it does not follow again.
            replayed.extend({"before": place, "item": thought} for thought in pending)
            pending = []
    reasoning = None
    if thoughts or replayed:
        reasoning = Reasoning("\n".join(thoughts), {_ITEMS: replayed} if replayed else {})
    message = Message(Role.ASSISTANT, "".join(texts), tuple(calls.values()), reasoning=reasoning, extra=extra)
    finish, refusal = _decode_finish(raw, refusals, bool(calls))
    return Choice(message, finish, refusal)


def _decode_finish(raw: Mapping[str, Any], refusals: list[str], has_calls: bool) -> tuple[Finish, str | None]:
    if refusals:
        return Finish.REFUSAL, "".join(refusals)
    details = raw.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, Mapping) else None
    if reason == "content_filter":
        return Finish.REFUSAL, "a content filter removed the answer"
    if reason != _ENDED_EARLY and (reason is not None or raw.get("status") == "incomplete"):
        return Finish.LENGTH, None
    return (Finish.TOOL_CALLS if has_calls else Finish.STOP), None


def _keep_reasoning(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the item in the form that a server takes back, or nothing if it cannot.

    OpenAI takes only encrypted reasoning, and refuses its plain text. Other servers send only plain text.
    """
    kept = {name: item[name] for name in ("type", "id") if item.get(name)}
    summary = item.get("summary")
    kept["summary"] = summary if isinstance(summary, list) else []
    for name in ("encrypted_content", "content"):
        if item.get(name):
            return [{**kept, name: item[name]}]
    return []


def _decode_call(item: Mapping[str, Any], earlier: Collection[str]) -> ToolCall:
    return ToolCall(
        name_call(item.get("call_id") or item.get("id"), len(earlier), earlier),
        str(item.get("name") or ""),
        read_arguments(item.get("arguments")),
        keep_unknown(item, _CALL_FIELDS),
    )


def _read_texts(parts: Any, name: str = "text") -> list[str]:
    if isinstance(parts, str):
        return [parts] if name == "text" else []
    if not isinstance(parts, list):
        return []
    texts = [part.get(name) for part in parts if isinstance(part, Mapping)]
    return [text for text in texts if isinstance(text, str)]


def read_conversation(body: Mapping[str, Any]) -> Iterator[Message]:
    """Yield the messages in the JSON of a client's request."""
    if isinstance(body.get("instructions"), str):
        yield Message(Role.SYSTEM, body["instructions"])
    if isinstance(body.get("input"), str):
        yield Message(Role.USER, body["input"])
    for item in mappings(body.get("input")):
        kind = short_text(item.get("type")) or "message"
        if kind == "message":
            yield Message(read_role(item), join_parts(item.get("content")))
        elif kind in _CALLS:
            arguments = read_arguments(item.get(_CALLS[kind]))
            call = ToolCall(short_text(item.get("call_id")), short_text(item.get("name")), arguments)
            yield Message(Role.ASSISTANT, tool_calls=(call,))
        elif kind.endswith("_output"):
            call_id = short_text(item.get("call_id"))
            yield Message(Role.TOOL, join_parts(item.get("output")), tool_call_id=call_id)
        elif kind != "reasoning":
            yield Message(Role.ASSISTANT, f"[{kind}]")


class Streamed(StreamedReply):
    """A streamed reply."""

    def __init__(self) -> None:
        super().__init__()
        self._items: list[Any] = []
        self._whole: Mapping[str, Any] | None = None

    def add(self, data: Mapping[str, Any]) -> None:
        kind = data.get("type")
        if kind in ("response.completed", "response.incomplete", "response.failed"):
            self._whole, self.is_complete = mapping(data.get("response")), True
            self.usage = decode_usage(self._whole.get("usage"))
        elif kind == "error":
            self.is_complete = True
        elif isinstance(kind, str) and kind.endswith(".delta"):
            self.texts.add("text" if kind == "response.output_text.delta" else "other", data.get("delta"))

    def build(self) -> dict[str, Any]:
        if self._whole is not None and isinstance(self._whole.get("output"), list):
            kept = ("model", "output", "status", "incomplete_details", "usage")
            return {name: self._whole[name] for name in kept if name in self._whole}
        part = {"type": "output_text", "text": self.texts.join("text")}
        return {
            "status": "incomplete",
            "incomplete_details": {"reason": _ENDED_EARLY},
            "output": [{"type": "message", "role": "assistant", "content": [part]}],
        }
