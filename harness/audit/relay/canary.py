"""The model server of the audit: it records every request, and obeys orders in the prompt to misbehave.

It speaks the three protocols as far as necessary for the relay, which passes replies on as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MAX_BODY_BYTES = 128 << 20
_PIECE = "word " * 800
_ORDER = re.compile(
    r"(?P<order>write: (?P<size>\d+)|endless head|endless|stall|garbage|break off|error: (?P<status>\d+)"
    r"|redirect|echo headers|no usage|gzip)"
)


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request as it arrived at the server. `at` is the monotonic time when its head was complete."""

    at: float
    method: str
    path: str
    query: bytes
    headers: tuple[tuple[str, str], ...]
    body: bytes
    # False if the client has gone before it had sent the whole body.
    is_complete: bool = True


@dataclass(slots=True)
class Canary:
    """The server. Each attempt has its own URL, whose first part is the name of the attempt."""

    received: list[ReceivedRequest] = field(default_factory=list)
    # The requests that a client still waits for.
    open_requests: int = 0
    _idle: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request of ASGI."""
        if scope["type"] == "lifespan":
            await _serve_lifespan(receive, send)
            return
        at = time.monotonic()
        body, is_complete = await _read_body(receive)
        raw = scope.get("raw_path") or scope["path"].encode()
        headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
        request = ReceivedRequest(
            at,
            scope["method"],
            raw.decode("latin-1"),
            scope.get("query_string", b""),
            headers,
            body,
            is_complete,
        )
        self.received.append(request)
        if not is_complete:
            return
        self.open_requests += 1
        self._idle.clear()
        try:
            await _until_gone(receive, _answer(request, send))
        finally:
            self.open_requests -= 1
            if not self.open_requests:
                self._idle.set()

    async def wait_until_idle(self, seconds: float) -> int:
        """Return the number of requests that are still open after some seconds at most."""
        if self.open_requests:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), seconds)
        return self.open_requests


async def _answer(request: ReceivedRequest, send: Send) -> None:
    text = request.body.decode("utf-8", "replace")
    found = _ORDER.search(text)
    order = "" if found is None else found["order"]
    is_stream = '"stream": true' in text or '"stream":true' in text
    if order == "stall":
        await asyncio.sleep(3600)
    elif order == "redirect":
        await _respond(send, 302, b"", [(b"location", b"http://127.0.0.1:1/elsewhere")])
    elif order == "endless head":
        await _respond(send, 200, b"{}", [(b"x-long", b"x" * 60_000)] * 20)
    elif found is not None and found["status"]:
        error = {"error": {"message": "an error of the server", "type": "server_error", "code": None}}
        await _respond(send, int(found["status"]), json.dumps(error).encode(), [])
    elif order == "garbage":
        await _respond(send, 200, b"\x00\xff" * 5000, [])
    elif order == "gzip":
        bomb = gzip.compress(b" " * (64 << 20))
        await _respond(send, 200, bomb, [(b"content-encoding", b"gzip")])
    elif is_stream or order in ("endless", "break off"):
        await _stream(request.path, order, found and found["size"], send)
    else:
        words = _PIECE * (int(found["size"]) // len(_PIECE) + 1) if found and found["size"] else "ready"
        if order == "echo headers":
            words = json.dumps(request.headers)
        reply = _make_reply(request.path, words, has_usage=order != "no usage")
        await _respond(send, 200, json.dumps(reply).encode(), [(b"x-request-id", b"req_1")])


async def _stream(path: str, order: str, size: str | None, send: Send) -> None:
    await _start(send, 200, [(b"content-type", b"text/event-stream")])
    count = int(size) // len(_PIECE) + 1 if size else 3
    while order == "endless" or count > 0:
        count -= 1
        # The server drops what it sends to a client that has gone, without a pause for other tasks.
        await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": _make_event(path, _PIECE), "more_body": True})
    if order == "break off":
        raise ConnectionResetError
    await send({"type": "http.response.body", "body": _make_last_events(path), "more_body": False})


def _make_reply(path: str, text: str, *, has_usage: bool) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    if path.endswith("/messages"):
        reply: dict[str, Any] = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "canary",
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
        }
        usage = {"input_tokens": 5, "output_tokens": 5}
    elif path.endswith("/responses"):
        content = [{"type": "output_text", "text": text, "annotations": []}]
        item = {"type": "message", "id": "msg_1", "role": "assistant", "content": content}
        item["status"] = "completed"
        reply = {"id": "resp_1", "object": "response", "model": "canary", "output": [item]}
        reply["status"] = "completed"
        usage = {"input_tokens": 5, "output_tokens": 5, "total_tokens": 10}
    else:
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        reply = {"id": "chat_1", "object": "chat.completion", "model": "canary", "choices": [choice]}
        usage = {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}
    return {**reply, "usage": usage} if has_usage else reply


def _make_event(path: str, text: str) -> bytes:
    if path.endswith("/messages"):
        delta = {"type": "text_delta", "text": text}
        return _encode_event({"type": "content_block_delta", "index": 0, "delta": delta}, named=True)
    if path.endswith("/responses"):
        event = {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "delta": text}
        return _encode_event(event, named=True)
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return _encode_event({"id": "chat_1", "object": "chat.completion.chunk", "choices": [choice]})


def _make_last_events(path: str) -> bytes:
    if path.endswith("/messages"):
        usage = {"output_tokens": 5}
        delta = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}
        return _encode_event(delta, named=True) + _encode_event({"type": "message_stop"}, named=True)
    if path.endswith("/responses"):
        response = _make_reply(path, "ready", has_usage=True)
        return _encode_event({"type": "response.completed", "response": response}, named=True)
    usage = {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}
    last = {"id": "chat_1", "object": "chat.completion.chunk", "choices": [], "usage": usage}
    return _encode_event(last) + b"data: [DONE]\n\n"


def _encode_event(event: dict[str, Any], *, named: bool = False) -> bytes:
    name = f"event: {event['type']}\n" if named else ""
    return f"{name}data: {json.dumps(event)}\n\n".encode()


async def _start(send: Send, status: int, headers: list[tuple[bytes, bytes]]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def _respond(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    length = (b"content-length", str(len(body)).encode())
    await _start(send, status, [(b"content-type", b"application/json"), length, *headers])
    await send({"type": "http.response.body", "body": body})


async def _read_body(receive: Receive) -> tuple[bytes, bool]:
    """Return the body of a request, and whether it is complete."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if message["type"] != "http.request" or len(body) > MAX_BODY_BYTES:
            return bytes(body), False
        if not message.get("more_body"):
            return bytes(body), True


async def _until_gone(receive: Receive, answer: Any) -> None:
    """Answer until the answer is complete or the client is gone."""
    answering = asyncio.create_task(answer)
    watching = asyncio.create_task(_watch(receive))
    try:
        await asyncio.wait([answering, watching], return_when=asyncio.FIRST_COMPLETED)
        if answering.done():
            answering.result()
    finally:
        for task in (answering, watching):
            task.cancel()
        await asyncio.wait([answering, watching])


async def _watch(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _serve_lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


@contextlib.asynccontextmanager
async def open_canary() -> AsyncIterator[tuple[Canary, str]]:
    """Yield the server and its URL, which ends with the port. It is open to this machine alone."""
    from harness.models.relay.serving import listen_on_loopback

    canary = Canary()
    async with listen_on_loopback(canary) as url:
        yield canary, url
