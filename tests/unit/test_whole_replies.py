"""The bounds of a reply that is not a stream, and the thread that reads a large one."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator

import pytest
from case_checks import each_case

from harness.models import streamed_replies
from harness.models.streamed_replies import ReplyTooLongError, read_reply, receive_reply


async def test_the_rest_of_a_reply_with_too_many_values_is_not_received(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streamed_replies, "MAX_REPLY_VALUES", 100)
    sent = 0

    async def send() -> AsyncIterator[bytes]:
        nonlocal sent
        for sent in range(100):  # noqa: B007
            yield b"[],[],[],[],[],"

    with pytest.raises(ReplyTooLongError, match="more than 100 values"):
        await receive_reply(send())
    assert sent == 10


@each_case(("size", "is_here"), [(10, True), (200, False)])
async def test_a_large_reply_is_read_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, size: int, is_here: bool
) -> None:
    monkeypatch.setattr(streamed_replies, "THREAD_BYTES", 100)
    threads: list[int] = []

    def note_thread(text: str) -> str:
        threads.append(threading.get_ident())
        return text

    text = "x" * size
    assert await read_reply(f'"{text}"'.encode(), note_thread) == text
    assert (threads == [threading.get_ident()]) == is_here
