"""Requests and replies in the form of Anthropic's Messages API, which other servers also speak.

Source: https://platform.claude.com/docs/en/api/messages, of the version 2023-06-01.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
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
    read_count,
)
from harness.models.wire import (
    MOST_CALLS,
    MOST_PARTS,
    StreamedReply,
    join_parts,
    make_reply,
    mapping,
    mappings,
    name_call,
    read_arguments,
    read_parts,
    read_role,
    repair_arguments,
    repair_name,
    short_text,
)

# A request can do without these. `seed` and `n` do not exist in this API.
OPTIONAL_PARAMETERS = frozenset({"temperature", "top_p", "stop_sequences", "output_config"})
# The API has no default for the largest number of tokens. All models of Anthropic that can still be asked
# allow this one, and its library asks for a stream from 21,334 tokens on.
DEFAULT_MAX_TOKENS: int | None = 16_384
MISSING_PARAMETERS = frozenset({"seed"})
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


def encode_parameters(generation: Generation, _max_tokens_field: str) -> dict[str, Any]:
    """Return the parameters of generation, None for each that is not set."""
    effort = generation.reasoning_effort
    return {
        "temperature": generation.temperature,
        "top_p": generation.top_p,
        "max_tokens": generation.max_tokens,
        "stop_sequences": list(generation.stop) or None,
        "output_config": None if effort is None else {"effort": effort},
    }


def encode_request(request: ModelRequest, max_tokens_field: str, replay_reasoning: bool) -> dict[str, Any]:
    """Return the JSON body of a request. Its `n` and `seed` have no field in this API.

    Without `max_tokens` it gets DEFAULT_MAX_TOKENS.
    """
    messages = request.messages
    instructions = [each.text for each in takewhile(lambda each: each.role is Role.SYSTEM, messages)]
    body = encode_parameters(request.generation, max_tokens_field)
    body["max_tokens"] = DEFAULT_MAX_TOKENS if body["max_tokens"] is None else body["max_tokens"]
    body["system"] = "\n\n".join(filter(str.strip, instructions)) or None
    body["messages"] = _encode_turns(messages[len(instructions) :], replay_reasoning)
    if request.reply_schema is not None:
        form = {"type": "json_schema", "schema": dict(request.reply_schema.schema)}
        body["output_config"] = {**(body["output_config"] or {}), "format": form}
    if request.tools:
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}
            for tool in request.tools
        ]
    return body


def decode_reply(raw: Any) -> ModelReply:
    """Return the reply in a server's JSON. Raises MalformedReplyError if it holds no content."""
    blocks = list(mappings(read_parts(raw, "content")))
    return make_reply(raw, (_decode_choice(blocks, raw),), decode_usage(raw.get("usage")))


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


def read_conversation(body: Mapping[str, Any]) -> Iterator[Message]:
    """Yield the messages in the JSON of a client's request."""
    if body.get("system"):
        yield Message(Role.SYSTEM, join_parts(body["system"]))
    for each in mappings(body.get("messages")):
        role = read_role(each)
        content = each.get("content")
        blocks = list(mappings(content))
        for block in blocks:
            if block.get("type") == "tool_result":
                call_id = short_text(block.get("tool_use_id"))
                yield Message(Role.TOOL, join_parts(block.get("content")), tool_call_id=call_id)
        calls = [
            ToolCall(
                short_text(block.get("id")), short_text(block.get("name")), read_arguments(block.get("input"))
            )
            for block in blocks
            if block.get("type") == "tool_use"
        ]
        hidden = ("tool_result", "tool_use", "thinking", "redacted_thinking")
        shown = [block for block in blocks if block.get("type") not in hidden]
        if isinstance(content, str) or shown or calls:
            yield Message(role, join_parts(content if isinstance(content, str) else shown), tuple(calls))


class Streamed(StreamedReply):
    """A streamed reply."""

    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[int, dict[str, Any]] = {}
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}

    def add(self, data: Mapping[str, Any]) -> None:
        index = data.get("index")
        match data.get("type"):
            case "message_start":
                message = mapping(data.get("message"))
                self._message["model"] = message.get("model")
                self._add_usage(message.get("usage"))
            case "content_block_start" if isinstance(index, int) and len(self._blocks) < MOST_PARTS:
                block = mapping(data.get("content_block"))
                self._blocks[index] = {name: str(block.get(name))[:200] for name in ("type", "id", "name")}
                self.texts.add((index, "text"), block.get("text"))
            case "content_block_delta" if isinstance(index, int):
                delta = mapping(data.get("delta"))
                for name in ("text", "thinking", "partial_json"):
                    self.texts.add((index, name), delta.get(name))
            case "message_delta":
                self._message["stop_reason"] = mapping(data.get("delta")).get("stop_reason")
                self._add_usage(data.get("usage"))
            case "message_stop" | "error":
                self.is_complete = True

    def _add_usage(self, usage: Any) -> None:
        self._usage |= {name: value for name, value in mapping(usage).items() if value is not None}
        self.usage = decode_usage(self._usage)

    def build(self) -> dict[str, Any]:
        join = self.texts.join
        content: list[dict[str, Any]] = []
        for index, block in sorted(self._blocks.items()):
            match block["type"]:
                case "text":
                    content.append({"type": "text", "text": join((index, "text"))})
                case "thinking":
                    content.append({"type": "thinking", "thinking": join((index, "thinking"))})
                case "tool_use":
                    arguments = _read_input(join((index, "partial_json")))
                    content.append({**block, "input": arguments})
        return {**self._message, "content": content, "usage": self._usage}


def _read_input(text: str) -> Any:
    """Return the arguments of a call that arrived in pieces: an object, or the text if it is not JSON."""
    try:
        return json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return text
