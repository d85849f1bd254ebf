"""Broken handshakes, frames and messages are answered or closed, and never written to the log as a fault."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import struct
from base64 import b64encode
from collections.abc import Mapping
from urllib.parse import urlsplit

import pytest
from service_fixtures import TOKEN, Served, serve

from harness.benchmarks import load_benchmark

# An answer comes within milliseconds.
ANSWER_SECONDS = 20.0
CONTINUATION, TEXT, BINARY, CLOSE, PING = 0, 1, 2, 8, 9
MASK = b"\1\2\3\4"
DEEP = b'{"type": "reset", "data": {"seed": ' + b"[" * 40_000 + b"]" * 40_000 + b"}}"


def frame(
    kind: int,
    data: bytes = b"",
    *,
    is_last: bool = True,
    reserved: int = 0,
    masked: bool = True,
    length: int | None = None,
) -> bytes:
    """Return a frame of a WebSocket, whose stated length may be wrong."""
    size = len(data) if length is None else length
    mask = 0x80 if masked else 0
    head = bytes([0x80 * is_last | reserved | kind])
    if size < 126:
        head += bytes([mask | size])
    elif size < 1 << 16:
        head += bytes([mask | 126]) + struct.pack(">H", size)
    else:
        head += bytes([mask | 127]) + struct.pack(">Q", size)
    if masked:
        head += MASK
        data = bytes(byte ^ MASK[place % 4] for place, byte in enumerate(data))
    return head + data


# Each breaks the protocol, so that the service closes the WebSocket.
BROKEN_FRAMES = {
    "not UTF-8": frame(TEXT, b'{"type": "\xff\xfe"}'),
    "a surrogate in UTF-8": frame(TEXT, b'{"type": "\xed\xa0\x80"}'),
    "not UTF-8 in parts": frame(TEXT, b'"\xe2', is_last=False) + frame(CONTINUATION, b'\x28\xa1"'),
    "no mask": frame(TEXT, b"{}", masked=False),
    "an unknown kind": frame(3, b"{}"),
    "a reserved bit": frame(TEXT, b"{}", reserved=0x40),
    "a huge length": frame(TEXT, b"{}", length=1 << 40),
    "a negative length": frame(TEXT, b"{}", length=(1 << 63) + 5),
    "a part alone": frame(CONTINUATION, b"{}"),
    "a message within another": frame(TEXT, b"{", is_last=False) + frame(TEXT, b"}"),
    "a long ping": frame(PING, b"x" * 200),
    "a ping in parts": frame(PING, is_last=False),
    "a reserved close code": frame(CLOSE, struct.pack(">H", 1005)),
    "half a close code": frame(CLOSE, b"\3"),
    "a reason that is not UTF-8": frame(CLOSE, struct.pack(">H", 1000) + b"\xff"),
    "no frame": b"GET / HTTP/1.1\r\n\r\n",
}
# Each is a message of the protocol, and gets an answer.
BROKEN_MESSAGES = {
    "bytes": frame(BINARY, b"\0\xff\xfe"),
    "nothing": frame(TEXT),
    "half of JSON": frame(TEXT, b'{"type": '),
    "no object": frame(TEXT, b"[]"),
    "deep JSON": frame(TEXT, DEEP),
    "half of a surrogate pair": frame(TEXT, rb'{"type": "reset", "data": {"benchmark": "\ud800"}}'),
    "a key with half of a pair": frame(TEXT, rb'{"type": "step", "data": {"\ud800": "\udfff"}}'),
    "a name with half of a pair": frame(TEXT, rb'{"type": "reset", "data": {"episode_id": "\ud800"}}'),
    "control characters": frame(TEXT, rb'{"type": "\u0000\u001b[31m"}'),
    "a huge number": frame(TEXT, b'{"type": "reset", "data": {"seed": ' + b"9" * 20_000 + b"}}"),
    "not a number": frame(TEXT, b'{"type": "reset", "data": {"seed": NaN}}'),
    "an infinite number": frame(TEXT, b'{"type": "reset", "data": {"seed": 1e999}}'),
}
# The headers that a handshake has besides the usual ones.
BROKEN_HANDSHAKES = {
    "a body": b"content-length: 2\r\n\r\n{}",
    "a body in chunks": b"transfer-encoding: chunked\r\n\r\nzz\r\n",
    "many headers": b"".join(b"x-%d: 1\r\n" % number for number in range(300)) + b"\r\n",
    "a long header": b"x: " + b"a" * 9000 + b"\r\n\r\n",
    "a second key": b"sec-websocket-key: AAAA\r\n\r\n",
    "a protocol that is not text": b"sec-websocket-protocol: \xff\r\n\r\n",
    "an origin that is not text": b"origin: \xff\r\n\r\n",
    "a control character": b"x: a\x01b\r\n\r\n",
}


async def ask(served: Served, path: str, frames: bytes, *, headers: bytes = b"\r\n") -> bytes:
    """Return what the service sends after a handshake and these frames, up to its first answer."""
    url = urlsplit(served.url)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    key = b64encode(os.urandom(16)).decode()
    writer.write(
        f"GET /{TOKEN}{path} HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
        f"sec-websocket-key: {key}\r\nsec-websocket-version: 13\r\n".encode()
        + headers
    )
    received = b""
    async with asyncio.timeout(ANSWER_SECONDS):
        with contextlib.suppress(ConnectionError):
            while b"\r\n\r\n" not in received and (data := await reader.read(1 << 16)):
                received += data
            head, _, received = received.partition(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 101 "):
                writer.close()
                return head
            writer.write(frames)
            while b"}" not in received and (data := await reader.read(1 << 16)):
                received += data
    writer.close()
    return received


async def ask_all(
    served: Served, path: str, cases: Mapping[str, bytes], *, are_headers: bool = False
) -> dict[str, bytes]:
    asked = {
        name: ask(served, path, b"", headers=case) if are_headers else ask(served, path, case)
        for name, case in cases.items()
    }
    return dict(zip(asked, await asyncio.gather(*asked.values()), strict=True))


async def test_hostile_messages_are_answered_or_closed(caplog: pytest.LogCaptureFixture) -> None:
    benchmark = load_benchmark("humaneval", data="bundled")
    with caplog.at_level(logging.WARNING):
        async with serve(benchmarks=(benchmark,)) as served:
            opened = (await served.post("/v1/sandboxes", terminals=True)).json()
            terminal = f"/v1/sandboxes/{opened['id']}/terminal"
            broken = await ask_all(served, "/ws", BROKEN_FRAMES)
            on_terminal = await ask_all(served, terminal, BROKEN_FRAMES)
            answers = await ask_all(served, "/ws", BROKEN_MESSAGES)
            heads = await ask_all(served, "/ws", BROKEN_HANDSHAKES, are_headers=True)
            assert (await served.http.get("/health")).status_code == 200
    # The first byte of a frame that closes.
    assert {name: data for name, data in broken.items() if data[:1] != b"\x88"} == {}
    assert {name: data for name, data in on_terminal.items() if b"\x88" not in data} == {}
    assert {name: data for name, data in answers.items() if not is_error(data)} == {}
    assert {name: head for name, head in heads.items() if not head.startswith(b"HTTP/1.1 4")} == {}
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


def is_error(data: bytes) -> bool:
    """Return whether a text frame holds an error of the service."""
    answer = json.loads(data[data.index(b'{"') :])
    return answer["type"] == "error" and answer["data"]["code"] in (
        "INVALID_JSON",
        "UNKNOWN_TYPE",
        "VALIDATION_ERROR",
    )
