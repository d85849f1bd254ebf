"""Requests and replies in the form of Anthropic's Messages API, which other servers also speak.

Source: https://platform.claude.com/docs/en/api/messages, of the version 2023-06-01.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
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

# A request can do without these. `seed` and `n` do not exist in this API.
OPTIONAL_PARAMETERS = frozenset({"temperature", "top_p", "stop_sequences", "output_config"})
# The API has no default for the largest number of tokens. All models of Anthropic that can still be asked
# allow this one, and its library asks for a stream from 21,334 tokens on.
DEFAULT_MAX_TOKENS = 16_384
# The API refuses an empty message. Agents send one if a program printed nothing.
NO_CONTENT = "(no content)"
# The key of `Reasoning.fields` that keeps the blocks of a reply with thoughts, in their order.
_BLOCKS = "thinking_blocks"
_THINKING = frozenset({"thinking", "redacted_thinking"})
_FINISHES = {
    # Gateways pass on the words of the API behind them.
    **dict.fromkeys(("max_tokens", "length", "max_output_tokens"), Finish.LENGTH),
    "model_context_window_exceeded": Finish.LENGTH,
    "tool_use": Finish.TOOL_CALLS,
    "refusal": Finish.REFUSAL,
}
# The fields that this codec reads, and those that only describe a reply.
_TEXT_FIELDS = frozenset({"type", "text", "citations"})
_CALL_FIELDS = frozenset({"type", "id", "name", "input"})
_INPUT_COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def encode_request(
    request: ModelRequest,
    *,
    model: str,
    left_out: frozenset[str] = frozenset(),
    replay_reasoning: bool = True,
) -> dict[str, Any]:
    """Return the JSON body of a request.

    Args:
        request: the request. Its `n` and `seed` have no field in this API. Without `max_tokens` it gets
            DEFAULT_MAX_TOKENS.
        model: the name of the model at the server.
        left_out: parameters that the server has refused.
        replay_reasoning: whether thoughts are sent back.
    """
    generation, messages = request.generation, request.messages
    instructions = [each.text for each in takewhile(lambda each: each.role is Role.SYSTEM, messages)]
    config: dict[str, Any] = {}
    if generation.reasoning_effort is not None:
        config["effort"] = generation.reasoning_effort
    if request.reply_schema is not None:
        config["format"] = {"type": "json_schema", "schema": dict(request.reply_schema.schema)}
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": DEFAULT_MAX_TOKENS if generation.max_tokens is None else generation.max_tokens,
        "system": "\n\n".join(filter(str.strip, instructions)) or None,
        "messages": _encode_turns(messages[len(instructions) :], replay_reasoning),
        "temperature": generation.temperature,
        "top_p": generation.top_p,
        "stop_sequences": list(generation.stop) or None,
        "output_config": config or None,
    }
    if request.tools:
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}
            for tool in request.tools
        ]
    return {name: value for name, value in body.items() if value is not None and name not in left_out}


def decode_reply(raw: Any) -> ModelReply:
    """Return the reply in a server's JSON. Raises MalformedReplyError if it holds no content."""
    if not isinstance(raw, Mapping):
        raise MalformedReplyError(f"the reply is a JSON {type(raw).__name__}, not an object")
    blocks = raw.get("content")
    if not isinstance(blocks, list):
        raise MalformedReplyError(f"the reply has no content, only: {', '.join(sorted(map(str, raw)))}")
    model = raw.get("model")
    return ModelReply(
        (_decode_choice([block for block in blocks if isinstance(block, Mapping)], raw),),
        decode_usage(raw.get("usage")),
        model if isinstance(model, str) else "",
        raw,
    )


def decode_usage(usage: Any) -> Usage:
    """Return the usage in a server's JSON, with None for each number that it lacks."""
    if not isinstance(usage, Mapping):
        return Usage()
    fresh, *others = (read_count(usage.get(name)) for name in _INPUT_COUNTS)
    details = usage.get("output_tokens_details")
    return Usage(
        None if fresh is None else fresh + sum(count or 0 for count in others),
        read_count(usage.get("output_tokens")),
        read_count(details.get("thinking_tokens")) if isinstance(details, Mapping) else None,
        others[1],
    )


def read_input(text: str) -> Any:
    """Return the arguments of a call that arrived in pieces: an object, or the text if it is not JSON."""
    try:
        return json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return text


def _encode_turns(messages: Iterable[Message], replay_reasoning: bool) -> list[dict[str, Any]]:
    """Return the messages as turns of the user and the assistant that alternate.

    The results of parallel calls must be in one turn, and in front of its other blocks. A system message
    between other messages becomes a part of the user's turn, because few servers take one there.
    """
    turns: list[dict[str, Any]] = []
    for message in messages:
        is_assistant = message.role is Role.ASSISTANT
        blocks = _encode_reply(message, replay_reasoning) if is_assistant else [_encode_input(message)]
        role = "assistant" if is_assistant else "user"
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    for turn in turns:
        blocks = turn["content"]
        if turn["role"] == "user":
            blocks.sort(key=lambda block: block["type"] != "tool_result")
        if len(blocks) == 1 and blocks[0].keys() == {"type", "text"}:
            turn["content"] = blocks[0]["text"]
    return turns


def _encode_input(message: Message) -> dict[str, Any]:
    """Return the block of a message that the model has not written."""
    if message.role is Role.TOOL:
        identity = _repair_id(message.tool_call_id or "")
        return {"type": "tool_result", "tool_use_id": identity, "content": message.text}
    return _encode_text(message.text)


def _encode_reply(message: Message, replay_reasoning: bool) -> list[dict[str, Any]]:
    """Return the blocks of a reply, with each thought in front of the block that followed it.

    The API refuses thoughts in another order, and a thought at the end.
    """
    unsent = {call.id: call for call in message.tool_calls}
    blocks: list[dict[str, Any]] = []
    thoughts: list[dict[str, Any]] = []
    for kept in _list_kept_blocks(message, replay_reasoning):
        if kept["type"] in _THINKING:
            thoughts.append(kept)
        elif kept["type"] == "text":
            if kept["text"].strip():
                blocks += [*thoughts, {**message.extra, **_encode_text(kept["text"])}]
                thoughts = []
        else:
            # An agent that may make only one call drops the others, and their thoughts must go with them.
            call = unsent.pop(kept["id"], None)
            blocks += [] if call is None else [*thoughts, _encode_call(call)]
            thoughts = []
    blocks += map(_encode_call, unsent.values())
    return blocks or [_encode_text("")]


def _list_kept_blocks(message: Message, replay_reasoning: bool) -> list[dict[str, Any]]:
    """Return the blocks of the server's reply, with the text of the message if the agent has changed it.

    The agent may have built the message itself, in any form.
    """
    fields: Mapping[str, Any] = message.reasoning.fields if message.reasoning and replay_reasoning else {}
    found = fields.get(_BLOCKS)
    kept = [block for block in found if _is_kept_block(block)] if isinstance(found, list) else []
    if "".join(block["text"] for block in kept if block["type"] == "text") == message.text:
        return kept
    first = next((place for place, each in enumerate(kept) if each["type"] not in _THINKING), len(kept))
    rest = (block for block in kept[first:] if block["type"] != "text")
    return [*kept[:first], {"type": "text", "text": message.text}, *rest]


def _is_kept_block(block: Any) -> bool:
    if not isinstance(block, dict):
        return False
    needed = {"text": "text", "tool_use": "id", "thinking": "signature", "redacted_thinking": "data"}
    return isinstance(block.get(needed.get(str(block.get("type")), "")), str)


def _encode_text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text if text.strip() else NO_CONTENT}


def _encode_call(call: ToolCall) -> dict[str, Any]:
    return {
        **call.extra,
        "type": "tool_use",
        "id": _repair_id(call.id),
        "name": repair_name(call.name),
        "input": json.loads(repair_arguments(call.arguments)),
    }


def _repair_id(identity: str) -> str:
    """Return the id of a call in a form that the API takes, because an agent may have chosen it."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", identity) or "unknown"


def _decode_choice(blocks: Sequence[Mapping[str, Any]], raw: Mapping[str, Any]) -> Choice:
    texts: list[str] = []
    thoughts: list[str] = []
    calls: dict[str, ToolCall] = {}
    kept: list[dict[str, Any]] = []
    extra: dict[str, Any] = {}
    for block in blocks:
        match block.get("type"):
            case "text":
                texts.append(_read_text(block.get("text")))
                kept.append({"type": "text", "text": texts[-1]})
                extra |= keep_unknown(block, _TEXT_FIELDS)
            case "thinking":
                thoughts.append(_read_text(block.get("thinking")))
                # Servers that do not sign their thoughts take none back.
                kept += [dict(block)] if block.get("signature") else []
            case "redacted_thinking":
                kept.append(dict(block))
            case "tool_use" if len(calls) < MOST_CALLS:
                identity = name_call(block.get("id"), len(calls), calls)
                arguments = read_arguments(block.get("input"))
                unknown = keep_unknown(block, _CALL_FIELDS)
                calls[identity] = ToolCall(identity, _read_text(block.get("name")), arguments, unknown)
                kept.append({"type": "tool_use", "id": identity})
    reasoning = None
    can_replay = any(block["type"] in _THINKING for block in kept)
    if thoughts or can_replay:
        reasoning = Reasoning("\n".join(filter(None, thoughts)), {_BLOCKS: kept} if can_replay else {})
    message = Message(Role.ASSISTANT, "".join(texts), tuple(calls.values()), reasoning=reasoning, extra=extra)
    finish = _FINISHES.get(str(raw.get("stop_reason")).lower(), Finish.STOP)
    return Choice(message, finish, _read_refusal(raw) if finish is Finish.REFUSAL else None)


def _read_refusal(raw: Mapping[str, Any]) -> str:
    details = raw.get("stop_details")
    explanation = _read_text(details.get("explanation")) if isinstance(details, Mapping) else ""
    return explanation or "the model declined"


def _read_text(value: Any) -> str:
    return value if isinstance(value, str) else ""
