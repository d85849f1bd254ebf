"""A streamed reply, put together from its events: its usage so far, and at its end the whole JSON.

The events go to the client as they come. This copy is for the budgets, the transcript and the counts, so it
keeps a bounded part of the texts.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from harness.core.inputs.json_text import ValueCounter
from harness.models import anthropic_messages, chat_completions, responses
from harness.models.endpoint import Api
from harness.models.messages import Usage, map_texts, read_server_json

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
    """Return a reply before its first event."""
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


MAX_REPLY_BYTES = 16 * 1024 * 1024
# The most values in the JSON of a reply, or of one event of a stream. A reply of 4,096 tokens with the twenty
# best alternatives of each has fewer.
MAX_REPLY_VALUES = 1_000_000
# A larger text is read in a thread, so that the other requests of the run go on.
THREAD_BYTES = 256 * 1024


class ReplyTooLongError(Exception):
    """The reply is longer than a bound, or has too many values."""


async def receive_reply(pieces: AsyncIterator[bytes]) -> bytes:
    """Return the bytes of a reply. Raises ReplyTooLongError as soon as they break a bound."""
    received = bytearray()
    values = ValueCounter()
    async for piece in pieces:
        received += piece
        if len(received) > MAX_REPLY_BYTES:
            raise ReplyTooLongError(f"the reply is longer than {MAX_REPLY_BYTES:,} bytes")
        values.add(piece)
        if values.total > MAX_REPLY_VALUES:
            raise ReplyTooLongError(f"the reply has more than {MAX_REPLY_VALUES:,} values")
    return bytes(received)


async def read_reply(received: bytes, hide_key: Callable[[str], str]) -> Any:
    """Return the JSON of a reply without the key. Raises ValueError and RecursionError if it is not JSON."""

    def read() -> Any:
        # A server may cut a character in two. The rest of the reply is still of use.
        return map_texts(read_server_json(received.decode("utf-8-sig", "replace")), hide_key)

    return await asyncio.to_thread(read) if len(received) > THREAD_BYTES else read()


# The last event of a response repeats the whole reply, the instructions and the tools.
MAX_EVENT_BYTES = 8 * 1024 * 1024
# Servers send one or two lines for each event. A line takes more memory than its bytes.
MAX_EVENT_LINES = 10_000
# Events follow each other, so no more than one of them is in memory, but the whole stream is paid for.
MAX_STREAM_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `text` is safe to pass on, `data` is its JSON without the key, None if it has none."""

    text: bytes
    data: Any


@dataclass(frozen=True, slots=True)
class RawEvent:
    """One event as the server has sent it."""

    lines: list[bytes]
    size: int

    def decode(self, hide_key: Callable[[str], str]) -> Event:
        """Return the event without the key."""
        shown: list[str] = []
        data: list[str] = []
        for line in self.lines:
            # A server may cut a character in two. The rest of the event is still of use.
            text = line.decode("utf-8", "replace")
            if text.startswith("data:"):
                data.append(text.removeprefix("data:").removeprefix(" "))
            else:
                shown.append(hide_key(text))
        if not data:
            return Event(_join(shown), None)
        whole = "\n".join(data)
        try:
            value = map_texts(read_server_json(whole), hide_key)
        except (ValueError, RecursionError):
            shown.extend("data: " + hide_key(each) for each in data)
            return Event(_join(shown), None)
        # An escape sequence can hide a key from a search of the text, so such an event is written anew.
        is_plain = "\\" not in whole and hide_key(whole) == whole
        shown.extend("data: " + each for each in (data if is_plain else [json.dumps(value)]))
        return Event(_join(shown), value)


async def decode_event(event: RawEvent, hide_key: Callable[[str], str]) -> Event:
    """Return an event without the key, as `RawEvent.decode` does, from a thread if it is large."""
    if event.size > THREAD_BYTES:
        return await asyncio.to_thread(event.decode, hide_key)
    return event.decode(hide_key)


class EventReader:
    """Cuts the bytes of a stream into events."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._lines: list[bytes] = []
        self._values = ValueCounter()
        self._event_bytes = 0
        self._searched = 0
        self._whole_bytes = 0

    def read(self, piece: bytes) -> Iterator[RawEvent]:
        """Yield the events that a piece of the stream completes. Raises ReplyTooLongError."""
        self._whole_bytes += len(piece)
        if self._whole_bytes > MAX_STREAM_BYTES:
            raise ReplyTooLongError(f"the reply is longer than {MAX_STREAM_BYTES:,} bytes")
        self._rest += piece
        begin = 0
        while (end := self._rest.find(b"\n", max(begin, self._searched))) >= 0:
            line = bytes(self._rest[begin:end]).removesuffix(b"\r")
            begin = end + 1
            self._event_bytes += len(line) + 1
            if line:
                self._add_line(line)
            elif self._lines:
                yield self._end_event()
            if self._event_bytes > MAX_EVENT_BYTES:
                break
        del self._rest[:begin]
        self._searched = len(self._rest)
        if self._event_bytes + len(self._rest) > MAX_EVENT_BYTES:
            raise ReplyTooLongError(f"an event of the reply is longer than {MAX_EVENT_BYTES:,} bytes")

    def end(self) -> Iterator[RawEvent]:
        """Yield the event at the end of a stream that lacks its last empty line. Raises ReplyTooLongError."""
        if self._rest:
            self._event_bytes += len(self._rest)
            self._add_line(bytes(self._rest).removesuffix(b"\r"))
            self._rest.clear()
        if self._lines:
            yield self._end_event()

    def _add_line(self, line: bytes) -> None:
        self._lines.append(line)
        if len(self._lines) > MAX_EVENT_LINES:
            raise ReplyTooLongError(f"an event of the reply has more than {MAX_EVENT_LINES:,} lines")
        if line.startswith(b"data:"):
            self._values.add(line[len(b"data:") :])
        if self._values.total > MAX_REPLY_VALUES:
            raise ReplyTooLongError(f"an event of the reply has more than {MAX_REPLY_VALUES:,} values")

    def _end_event(self) -> RawEvent:
        event = RawEvent(self._lines, self._event_bytes)
        self._lines, self._values, self._event_bytes = [], ValueCounter(), 0
        return event


def _join(lines: list[str]) -> bytes:
    return ("\n".join(lines) + "\n\n").encode("utf-8", "replace")
