"""Replies of the scripted model server as streams of events, and replies of the Messages API.

Each event is validated against the types of the libraries, so that no test relies on an invented protocol.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from model_server import RawReply, completion, response
from pydantic import TypeAdapter

STREAM_HEADERS = {"content-type": "text/event-stream; charset=utf-8"}


def message(
    text: str | None = None,
    *,
    calls: Sequence[tuple[str, Any]] = (),
    blocks: Sequence[Mapping[str, Any]] = (),
    usage: tuple[int, int] = (10, 5),
    usage_fields: Mapping[str, Any] | None = None,
    stop: str | None = None,
    identity: str = "msg_1",
    **fields: Any,
) -> dict[str, Any]:
    """Return a reply of the Messages API.

    Its content are the `blocks`, the text, and the `calls`, which are names and arguments of tool calls.
    """
    content = [dict(block) for block in blocks]
    content += [] if text is None else [{"type": "text", "text": text}]
    content += [
        {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": arguments}
        for number, (name, arguments) in enumerate(calls)
    ]
    reply = {
        "id": identity,
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": content,
        "stop_reason": stop or ("tool_use" if calls else "end_turn"),
        "stop_sequence": None,
        "usage": usage_fields or {"input_tokens": usage[0], "output_tokens": usage[1]},
        **fields,
    }
    # The import takes a second, which tests of other APIs need not wait.
    from anthropic.types import Message

    Message.model_validate(reply)
    return reply


def message_error(status: int, kind: str, text: str, **headers: str) -> RawReply:
    """Return an error of the Messages API. Underscores in the names of headers stand for hyphens."""
    body = {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_1"}
    return RawReply(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


def stream_completion(*texts: str, usage: tuple[int, int] | None = (10, 5), ends: bool = True) -> RawReply:
    """Return the chunks of a reply of Chat Completions, one for each text."""
    from openai.types.chat import ChatCompletionChunk

    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": text} for text in texts]
    chunks = [{**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    if ends:
        chunks.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    if ends and usage is not None:
        chunks.append({**base, "choices": [], "usage": completion("", usage=usage)["usage"]})
    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk)
    return _reply([(None, chunk) for chunk in chunks], "data: [DONE]\n\n" if ends else "")


def stream_message(
    *texts: str,
    calls: Sequence[tuple[str, Any]] = (),
    usage: tuple[int, int] = (10, 5),
    ends: bool = True,
    number: int = 1,
) -> RawReply:
    """Return the events of a reply of the Messages API, with one delta for each text.

    `number` is that of the reply, because some clients take two replies with the same identities for one.
    """
    begun = {**message(usage=(usage[0], 1), identity=f"msg_{number}"), "stop_reason": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    ]
    for text in texts:
        delta = {"type": "text_delta", "text": text}
        events.append({"type": "content_block_delta", "index": 0, "delta": delta})
    events.append({"type": "content_block_stop", "index": 0})
    for index, (name, arguments) in enumerate(calls, 1):
        block = {"type": "tool_use", "id": f"toolu_{number}_{index}", "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        events += [
            {"type": "content_block_start", "index": index, "content_block": block},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    stop = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    if ends:
        events.append({"type": "message_delta", "delta": stop, "usage": {"output_tokens": usage[1]}})
        events.append({"type": "message_stop"})
    from anthropic.types import RawMessageStreamEvent

    adapter: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
    for event in events:
        adapter.validate_python(event)
    return _reply([(event["type"], event) for event in events])


def stream_response(*items: Mapping[str, Any], usage: tuple[int, int] | None = (10, 5)) -> RawReply:
    """Return the events of a reply of the Responses API, with the whole text of each item as one delta."""
    from openai.types.responses import ResponseStreamEvent

    whole = response(*items, usage=usage)
    begun = {**whole, "status": "in_progress", "output": []}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(items):
        events.append({"type": "response.output_item.added", "output_index": index, "item": {**item}})
        for part in item.get("content") or ():
            place = {"item_id": item["id"], "output_index": index, "content_index": 0}
            base = {"type": "response.content_part.added", "part": {**part, "text": ""}}
            events.append({**base, **place})
            delta = {"type": "response.output_text.delta", "delta": part["text"], "logprobs": []}
            events.append({**delta, **place})
        events.append({"type": "response.output_item.done", "output_index": index, "item": {**item}})
    events.append({"type": "response.completed", "response": whole})
    adapter: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    for number, event in enumerate(events):
        event["sequence_number"] = number
        adapter.validate_python(event)
    return _reply([(event["type"], event) for event in events])


def _reply(events: Sequence[tuple[str | None, Mapping[str, Any]]], ending: str = "") -> RawReply:
    texts = []
    for name, event in events:
        head = "" if name is None else f"event: {name}\n"
        texts.append(f"{head}data: {json.dumps(event)}\n\n")
    return RawReply(body="".join(texts) + ending, headers=STREAM_HEADERS)
