"""A streamed reply, put together from its events: its usage so far, and at its end the whole JSON.

The events go to the client as they come. This copy is for the budgets, the transcript and the counts, so it
keeps a bounded part of the texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from harness.models import anthropic_messages, chat_completions, responses
from harness.models.endpoint import Api
from harness.models.messages import Usage

# The rest of a longer reply is in no transcript.
MOST_KEPT_CHARACTERS = 1024 * 1024
_MOST_PARTS = 1000


class StreamedReply(Protocol):
    """A reply of one API, as far as it has come."""

    # The usage that the server has reported so far.
    usage: Usage
    # Whether the server has ended the reply, rather than the connection.
    is_complete: bool

    @property
    def text_bytes(self) -> int:
        """The bytes of text that the model has written so far."""

    def add(self, data: Mapping[str, Any]) -> None:
        """Add the JSON of an event."""

    def build(self) -> dict[str, Any]:
        """Return the JSON of the reply as the API sends it to a client that asks for no stream."""


def begin_streamed_reply(api: Api) -> StreamedReply:
    """Return a reply of which nothing has come yet."""
    kinds: dict[Api, type[StreamedReply]] = {
        "chat": _StreamedCompletion,
        "responses": _StreamedResponse,
        "messages": _StreamedMessage,
    }
    return kinds[api]()


class _Texts:
    """Texts that arrive in pieces, by a key. All together have a bound."""

    def __init__(self) -> None:
        self.bytes = 0
        self._pieces: dict[Any, list[str]] = {}
        self._kept = 0

    def add(self, key: Any, piece: Any) -> None:
        if not isinstance(piece, str) or not piece:
            return
        self.bytes += len(piece.encode("utf-8", "replace"))
        room = MOST_KEPT_CHARACTERS - self._kept
        if room > 0 and (key in self._pieces or len(self._pieces) < _MOST_PARTS):
            kept = piece[:room]
            # An entry of a list costs more memory than a short text.
            self._kept += len(kept) + 64
            self._pieces.setdefault(key, []).append(kept)

    def join(self, key: Any) -> str:
        return "".join(self._pieces.get(key, ()))


class _StreamedCompletion:
    def __init__(self) -> None:
        self.usage = Usage()
        self.is_complete = False
        self._texts = _Texts()
        self._calls: dict[int, dict[str, str]] = {}
        self._finish: str | None = None
        self._usage: Any = None
        self._model = ""

    @property
    def text_bytes(self) -> int:
        return self._texts.bytes

    def add(self, data: Mapping[str, Any]) -> None:
        if isinstance(data.get("usage"), Mapping):
            self._usage = data["usage"]
            self.usage = chat_completions.decode_usage(self._usage)
        if isinstance(data.get("model"), str):
            self._model = data["model"][:200]
        choice = _first(data.get("choices"))
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish:
            self._finish, self.is_complete = finish[:100], True
        delta = _mapping(choice.get("delta"))
        for name in ("content", "refusal", "reasoning", "reasoning_content"):
            self._texts.add(name, delta.get(name))
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            self._add_call(_mapping(call))

    def _add_call(self, call: Mapping[str, Any]) -> None:
        index, function = call.get("index", 0), _mapping(call.get("function"))
        if not isinstance(index, int) or (index not in self._calls and len(self._calls) >= _MOST_PARTS):
            return
        known = self._calls.setdefault(index, {"id": "", "name": ""})
        for name, value in (("id", call.get("id")), ("name", function.get("name"))):
            if isinstance(value, str) and not known[name]:
                known[name] = value[:200]
        self._texts.add(index, function.get("arguments"))

    def build(self) -> dict[str, Any]:
        join = self._texts.join
        message: dict[str, Any] = {"role": "assistant", "content": join("content") or None}
        for name in ("refusal", "reasoning", "reasoning_content"):
            if join(name):
                message[name] = join(name)
        if self._calls:
            message["tool_calls"] = [
                {
                    "id": call["id"],
                    "type": "function",
                    "function": {"name": call["name"], "arguments": join(index)},
                }
                for index, call in sorted(self._calls.items())
            ]
        reply: dict[str, Any] = {
            "model": self._model,
            "choices": [{"index": 0, "message": message, "finish_reason": self._finish}],
        }
        return reply if self._usage is None else {**reply, "usage": self._usage}


class _StreamedResponse:
    def __init__(self) -> None:
        self.usage = Usage()
        self.is_complete = False
        self._texts = _Texts()
        self._items: list[Any] = []
        self._whole: Mapping[str, Any] | None = None

    @property
    def text_bytes(self) -> int:
        return self._texts.bytes

    def add(self, data: Mapping[str, Any]) -> None:
        kind = data.get("type")
        if kind in ("response.completed", "response.incomplete", "response.failed"):
            self._whole, self.is_complete = _mapping(data.get("response")), True
            self.usage = responses.decode_usage(self._whole.get("usage"))
        elif kind == "error":
            self.is_complete = True
        elif isinstance(kind, str) and kind.endswith(".delta"):
            self._texts.add("text" if kind == "response.output_text.delta" else "other", data.get("delta"))

    def build(self) -> dict[str, Any]:
        if self._whole is not None and isinstance(self._whole.get("output"), list):
            kept = ("model", "output", "status", "incomplete_details", "usage")
            return {name: self._whole[name] for name in kept if name in self._whole}
        part = {"type": "output_text", "text": self._texts.join("text")}
        return {
            "status": "incomplete",
            "incomplete_details": {"reason": responses.ENDED_EARLY},
            "output": [{"type": "message", "role": "assistant", "content": [part]}],
        }


class _StreamedMessage:
    def __init__(self) -> None:
        self.usage = Usage()
        self.is_complete = False
        self._texts = _Texts()
        self._blocks: dict[int, dict[str, Any]] = {}
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}

    @property
    def text_bytes(self) -> int:
        return self._texts.bytes

    def add(self, data: Mapping[str, Any]) -> None:
        index = data.get("index")
        match data.get("type"):
            case "message_start":
                message = _mapping(data.get("message"))
                self._message["model"] = message.get("model")
                self._add_usage(message.get("usage"))
            case "content_block_start" if isinstance(index, int) and len(self._blocks) < _MOST_PARTS:
                block = _mapping(data.get("content_block"))
                self._blocks[index] = {name: str(block.get(name))[:200] for name in ("type", "id", "name")}
                self._texts.add((index, "text"), block.get("text"))
            case "content_block_delta" if isinstance(index, int):
                delta = _mapping(data.get("delta"))
                for name in ("text", "thinking", "partial_json"):
                    self._texts.add((index, name), delta.get(name))
            case "message_delta":
                self._message["stop_reason"] = _mapping(data.get("delta")).get("stop_reason")
                self._add_usage(data.get("usage"))
            case "message_stop" | "error":
                self.is_complete = True

    def _add_usage(self, usage: Any) -> None:
        self._usage |= {name: value for name, value in _mapping(usage).items() if value is not None}
        self.usage = anthropic_messages.decode_usage(self._usage)

    def build(self) -> dict[str, Any]:
        join = self._texts.join
        content: list[dict[str, Any]] = []
        for index, block in sorted(self._blocks.items()):
            match block["type"]:
                case "text":
                    content.append({"type": "text", "text": join((index, "text"))})
                case "thinking":
                    content.append({"type": "thinking", "thinking": join((index, "thinking"))})
                case "tool_use":
                    arguments = anthropic_messages.read_input(join((index, "partial_json")))
                    content.append({**block, "input": arguments})
        return {**self._message, "content": content, "usage": self._usage}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _first(values: Any) -> Mapping[str, Any]:
    return _mapping(values[0]) if isinstance(values, list) and values else {}
