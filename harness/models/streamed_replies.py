"""Read a server's reply within bounds: whole, or cut into the events of a stream. The key is in neither."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from harness.core.inputs.json_text import ValueCounter
from harness.models.messages import map_texts, read_server_json

MAX_REPLY_BYTES = 16 * 1024 * 1024
# The most values in the JSON of a reply, or of one event of a stream. A reply of 4,096 tokens with the twenty
# best alternatives of each has fewer.
MAX_REPLY_VALUES = 1_000_000
# A larger text is read in a thread, so that the other requests of the run go on.
THREAD_BYTES = 256 * 1024
# The last event of a response repeats the whole reply, the instructions and the tools.
MAX_EVENT_BYTES = 8 * 1024 * 1024
# Servers send one or two lines for each event. A line takes more memory than its bytes.
MAX_EVENT_LINES = 10_000
# Events follow each other, so no more than one of them is in memory, but the whole stream is paid for.
MAX_STREAM_BYTES = 64 * 1024 * 1024


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
