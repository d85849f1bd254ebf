"""The attacks on the relay, the server that they reach, and the rules that it must see kept.

An attack is a program that runs in a sandbox while the relay of an attempt is open there. The server speaks
the three protocols as far as the relay needs, records every request, and obeys orders in the prompt to
misbehave.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gzip
import json
import re
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pydantic.dataclasses
from pydantic import ConfigDict

from harness.audit.attack import AttackFile, Kind, include_parts, read_class, read_part
from harness.core.text import shorten

# Each program begins with this part.
BEGINNING = "relay_client.py"
# Attacks write this word into everything that the relay withholds.
FORBIDDEN = "forbidden"
# The resources of the server that a program may reach, and the methods.
PATHS = frozenset({"/v1/chat/completions", "/v1/responses", "/v1/messages"})
# The types of tools that the program itself runs. Sources: the references of the three APIs.
OWN_TOOLS = re.compile(r"function|custom|local_shell|apply_patch|(bash|text_editor|memory)_20\d{6}")
# Texts that show a part of the host to the sandbox.
HOST_TEXTS = (b"Traceback (most recent call last)", b"site-packages", b"harness/models/relay", b"uvicorn")
_SHOWN = 200
MAX_BODY_BYTES = 128 << 20
_PIECE = "word " * 800
_ORDER = re.compile(
    r"(?P<order>write: (?P<size>\d+)|endless head|endless|stall|garbage|break off|error: (?P<status>\d+)"
    r"|redirect|echo headers|no usage|gzip)"
)


@pydantic.dataclasses.dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class RelayAttack:
    """A program that attacks the relay of its attempt.

    Attributes:
        may_ask: whether some of its requests are allowed, so that they may reach the server.
    """

    name: str
    kind: Kind
    description: str
    program: str
    may_ask: bool = True


@functools.cache
def list_relay_attacks() -> tuple[RelayAttack, ...]:
    """Return all attacks on the relay by name. Raises DataError, which names the file."""
    beginning = read_part(BEGINNING)

    def build(file: AttackFile, header: Mapping[str, Any]) -> RelayAttack:
        return RelayAttack(**header, program=f"{beginning}\n\n{include_parts(file.text)}\n")

    return read_class(Kind.RELAY, build)


def check_requests(
    requests: Iterable[ReceivedRequest], *, owner: str, mark: str, key: str, model: str
) -> list[str]:
    """Return how the requests that arrived at the server break the rules.

    Args:
        requests: all requests that arrived during an attack.
        owner: the first part of the URL of the attacker's attempt.
        mark: a word that every request of the attacker holds.
        key: the key that every request must have.
        model: the only model that a request may name.
    """
    broken = []
    for request in requests:
        first, _, rest = request.path.lstrip("/").partition("/")
        is_attack = mark.encode() in request.body
        if first != owner:
            if is_attack:
                broken.append(f"a request of the attacker counted for '{shorten(first, 50)}'")
            continue
        place = f"{request.method} /{shorten(rest, 80)}"
        broken += [f"{place}: {each}" for each in _check(request, rest, key, model)]
    return list(dict.fromkeys(broken))


def _check(request: ReceivedRequest, path: str, key: str, model: str) -> Iterator[str]:
    if f"/{path}" not in PATHS or request.method != "POST":
        yield "the relay leads to this resource"
    if FORBIDDEN in unquote(request.query.decode("latin-1")).lower():
        yield f"the query is {request.query[:_SHOWN]!r}"
    for name, value in request.headers:
        if FORBIDDEN in f"{name}: {value}".lower():
            yield f"the header '{name}' came from the sandbox"
    keys = {value for name, value in request.headers if name.lower() in ("authorization", "x-api-key")}
    if not keys or any(value.removeprefix("Bearer ") != key for value in keys):
        yield "the request does not have the key alone"
    text = request.body.decode("utf-8", "replace")
    if FORBIDDEN in text.lower():
        place = text.lower().index(FORBIDDEN)
        yield f"the body holds {text[max(0, place - 60) : place + 60]!r}"
    if not request.is_complete:
        # The server did nothing with it, because the program has gone meanwhile.
        return
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        yield "the body is not JSON"
        return
    if not isinstance(body, dict):
        yield "the body is not an object"
        return
    yield from _check_body(body, model)


def _check_body(body: dict[str, Any], model: str) -> Iterator[str]:
    if body.get("model") != model:
        yield f"it names the model {shorten(repr(body.get('model')), 50)}"
    if body.get("store") not in (None, False):
        yield "it is stored"
    if (body.get("n") or 1) != 1:
        yield f"it asks for {body['n']} choices"
    tools = body.get("tools") or []
    if not isinstance(tools, list):
        yield f"its tools are {type(tools).__name__}"
        return
    for tool in tools:
        # Messages needs no type for a tool of the program.
        kind = tool.get("type", "custom") if isinstance(tool, dict) else None
        if not isinstance(kind, str) or OWN_TOOLS.fullmatch(kind) is None:
            yield f"it has the tool {shorten(repr(tool), _SHOWN)}"


def check_end(requests: Sequence[ReceivedRequest], *, owner: str, ended_at: float) -> list[str]:
    """Return whether a request of the attacker arrived after its relay had ended."""
    late = [
        request
        for request in requests
        if request.path.lstrip("/").startswith(owner) and request.at > ended_at
    ]
    if not late:
        return []
    return [f"{len(late)} requests arrived after the end, the first {late[0].at - ended_at:.2f} s after it"]


def check_received(received: bytes, *, secrets: Sequence[str], host_paths: Sequence[str]) -> list[str]:
    """Return the secrets and the texts of the host among the bytes that came into the sandbox."""
    broken = ["a key came into the sandbox" for secret in secrets if secret.encode() in received]
    for text in (*HOST_TEXTS, *(path.encode() for path in host_paths)):
        if text in received:
            place = received.index(text)
            broken.append(f"the sandbox was shown {received[max(0, place - 60) : place + 60]!r}")
    return broken


Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


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
