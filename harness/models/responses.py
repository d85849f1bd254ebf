"""Requests and replies in the form of OpenAI's Responses API, without a conversation that the server keeps.

Source: https://platform.openai.com/docs/api-reference/responses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from harness.models.chat_completions import (
    MOST_CALLS,
    name_call,
    read_arguments,
    repair_arguments,
    repair_name,
)
from harness.models.messages import (
    Choice,
    Finish,
    Message,
    ModelReply,
    ModelRequest,
    Reasoning,
    Role,
    ToolCall,
    Usage,
    keep_unknown,
    read_count,
)
from harness.models.server_errors import MalformedReplyError

# A request can do without these. `stop`, `seed` and `n` do not exist in this API.
OPTIONAL_PARAMETERS = frozenset(
    {
        "temperature",
        "top_p",
        "max_output_tokens",
        "reasoning",
        "include",
        "store",
        "parallel_tool_calls",
        "text",
    }
)
# The fields that this codec reads, and those that only describe a reply.
_MESSAGE_FIELDS = frozenset({"type", "id", "role", "status", "content"})
_CALL_FIELDS = frozenset({"type", "id", "status", "call_id", "name", "arguments"})
# The reason of a reply that a broken connection ended.
ENDED_EARLY = "the stream ended early"
# The key of `Reasoning.fields` that keeps the server's items, each with the item that it precedes.
_ITEMS = "reasoning_items"
# The place of a reasoning item before the text of the message. Other places are the ids of calls.
_BEFORE_TEXT = ""


def encode_request(
    request: ModelRequest,
    *,
    model: str,
    left_out: frozenset[str] = frozenset(),
    replay_reasoning: bool = True,
) -> dict[str, Any]:
    """Return the JSON body of a request.

    Args:
        request: the request. Its `n`, `stop` and `seed` have no field in this API.
        model: the name of the model at the server.
        left_out: parameters that the server has refused.
        replay_reasoning: whether reasoning items are sent back.
    """
    generation, messages = request.generation, request.messages
    instructions = messages[0].text if messages and messages[0].role is Role.SYSTEM else None
    body: dict[str, Any] = {
        "model": model,
        "instructions": instructions,
        "input": [
            item
            for message in (messages if instructions is None else messages[1:])
            for item in _encode_message(message, replay_reasoning)
        ],
        "temperature": generation.temperature,
        "top_p": generation.top_p,
        "max_output_tokens": generation.max_tokens,
        "reasoning": None if generation.reasoning_effort is None else {"effort": generation.reasoning_effort},
        # The server keeps nothing, so it must send reasoning in a form that can be sent back.
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    if request.reply_schema is not None:
        body["text"] = {
            "format": {
                "type": "json_schema",
                "name": request.reply_schema.name,
                "schema": dict(request.reply_schema.schema),
                "strict": True,
            }
        }
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
    return {name: value for name, value in body.items() if value is not None and name not in left_out}


def decode_reply(raw: Any) -> ModelReply:
    """Return the reply in a server's JSON. Raises MalformedReplyError if it holds no output."""
    if not isinstance(raw, Mapping):
        raise MalformedReplyError(f"the reply is a JSON {type(raw).__name__}, not an object")
    items = raw.get("output")
    if not isinstance(items, list):
        raise MalformedReplyError(f"the reply has no output, only: {', '.join(sorted(map(str, raw)))}")
    status = raw.get("status")
    if status in ("failed", "cancelled", "queued", "in_progress"):
        raise MalformedReplyError(f"the status of the reply is {status}")
    model = raw.get("model")
    return ModelReply(
        (_decode_choice([item for item in items if isinstance(item, Mapping)], raw),),
        decode_usage(raw.get("usage")),
        model if isinstance(model, str) else "",
        raw,
    )


def _encode_message(message: Message, replay_reasoning: bool) -> Iterator[dict[str, Any]]:
    if message.role is Role.TOOL:
        yield {
            "type": "function_call_output",
            "call_id": message.tool_call_id or "",
            "output": message.text,
        }
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
    if reason != ENDED_EARLY and (reason is not None or raw.get("status") == "incomplete"):
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


def decode_usage(usage: Any) -> Usage:
    """Return the usage in a server\'s JSON, with None for each number that it lacks."""
    if not isinstance(usage, Mapping):
        return Usage()
    output, prompt = usage.get("output_tokens_details"), usage.get("input_tokens_details")
    return Usage(
        read_count(usage.get("input_tokens")),
        read_count(usage.get("output_tokens")),
        read_count(output.get("reasoning_tokens")) if isinstance(output, Mapping) else None,
        read_count(prompt.get("cached_tokens")) if isinstance(prompt, Mapping) else None,
    )
