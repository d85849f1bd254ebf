"""The events of a streamed reply: cut anywhere, within bounds, and without the key."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from case_checks import each_case

from harness.models import streamed_replies
from harness.models.streamed_replies import Event, EventReader, RawEvent, ReplyTooLongError, decode_event


def hide(text: str) -> str:
    return text.replace("secret", "[key]")


def read_all(content: bytes, *, size: int = 1000) -> list[Event]:
    reader = EventReader()
    pieces = (content[start : start + size] for start in range(0, len(content), size))
    raw = [event for piece in pieces for event in reader.read(piece)]
    return [event.decode(hide) for event in (*raw, *reader.end())]


@each_case("size", [1, 3, 1000])
def test_events_are_the_same_however_the_stream_is_cut(size: int) -> None:
    content = b'event: a\r\ndata: {"x": "secret"}\r\n\r\n: pause\n\ndata: [DONE]'
    assert read_all(content, size=size) == [
        Event(b'event: a\ndata: {"x": "[key]"}\n\n', {"x": "[key]"}),
        Event(b": pause\n\n", None),
        Event(b"data: [DONE]\n\n", None),
    ]


def test_an_event_with_many_lines_fails_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed_replies, "MAX_EVENT_LINES", 3)
    assert len(read_all(b"data: 1\n\n" * 10)) == 10
    with pytest.raises(ReplyTooLongError, match="more than 3 lines"):
        list(EventReader().read(b"a\n" * 4))


def test_an_event_with_many_values_fails_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed_replies, "MAX_REPLY_VALUES", 10)
    assert len(read_all(b'data: ["[,,,", 2, 3, 4]\n\n' * 10)) == 10
    for content in (b"data: [" + b"[]," * 6 + b"\n", b'id: "\ndata: [1,2,3,4,5\ndata: ,6,7,8,9,10,11]\n'):
        with pytest.raises(ReplyTooLongError, match="more than 10 values"):
            list(EventReader().read(content))


def test_a_last_event_without_an_end_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed_replies, "MAX_REPLY_VALUES", 10)
    reader = EventReader()
    assert list(reader.read(b"data: [" + b"[]," * 6)) == []
    with pytest.raises(ReplyTooLongError, match="more than 10 values"):
        list(reader.end())


async def test_a_large_event_is_decoded_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed_replies, "THREAD_BYTES", 20)
    threads: list[int] = []

    def note_thread(text: str) -> str:
        threads.append(threading.get_ident())
        return text

    async def decode(data: Any) -> bool:
        threads.clear()
        line = b'data: {"text": "%s"}' % data
        await decode_event(RawEvent([line], len(line)), note_thread)
        return threads[0] == threading.get_ident()

    assert await decode(b"")
    assert not await decode(b"x" * 20)
