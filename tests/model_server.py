"""A local server that speaks Chat Completions and Responses, with the faults that real servers have.

A script decides each reply. The server validates the replies that it makes against the types of the `openai`
package, so that no test relies on a protocol that does not exist.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route


@dataclass(frozen=True)
class Asked:
    """A request that reached the server. `number` counts the requests from 0."""

    number: int
    body: dict[str, Any]
    headers: Mapping[str, str]
    path: str = "/v1/chat/completions"

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list(self.body["messages"])


@dataclass(frozen=True)
class RawReply:
    """A reply that is sent as it is, for everything that breaks the protocol."""

    status: int = 200
    body: bytes | str | Mapping[str, Any] = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    # The announced length of the body, if it is to be wrong.
    announced_bytes: int | None = None
    # The time until the reply begins.
    wait_seconds: float = 0.0
    # The time between two bytes of the body, for a body that trickles.
    seconds_between_bytes: float = 0.0


Script = Callable[[Asked], "Mapping[str, Any] | RawReply"]


def completion(
    text: str | None = None,
    *,
    calls: Sequence[tuple[str, Any]] = (),
    finish: str | None = None,
    usage: tuple[int, int] | None = (10, 5),
    n: int = 1,
    **message: Any,
) -> dict[str, Any]:
    """Return a reply of the protocol, validated. `calls` are names and arguments of tool calls."""
    from openai.types.chat import ChatCompletion

    body: dict[str, Any] = {"role": "assistant", "content": text, **message}
    if calls:
        body["tool_calls"] = [
            {
                "id": f"call_{number}_{name}",
                "type": "function",
                "function": {"name": name, "arguments": _encode(arguments)},
            }
            for number, (name, arguments) in enumerate(calls)
        ]
    reply: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "scripted",
        "choices": [
            {
                "index": index,
                "message": body,
                "finish_reason": finish or ("tool_calls" if calls else "stop"),
                "logprobs": None,
            }
            for index in range(n)
        ],
    }
    if usage is not None:
        prompt, output = usage
        reply["usage"] = {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "total_tokens": prompt + output,
        }
    ChatCompletion.model_validate(reply)
    return reply


def response(
    *items: Mapping[str, Any],
    status: str = "completed",
    incomplete: str | None = None,
    usage: tuple[int, int] | None = (10, 5),
) -> dict[str, Any]:
    """Return a reply of the Responses API, validated. `items` are its output."""
    from openai.types.responses import Response as ResponsesReply

    reply: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": "scripted",
        "status": status,
        "error": None,
        "incomplete_details": None if incomplete is None else {"reason": incomplete},
        "output": list(items),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    if usage is not None:
        prompt, output = usage
        reply["usage"] = {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 0},
            "output_tokens": output,
            "output_tokens_details": {"reasoning_tokens": 3},
            "total_tokens": prompt + output,
        }
    ResponsesReply.model_validate(reply)
    return reply


def text_item(text: str) -> dict[str, Any]:
    """Return a message of a response."""
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}


def call_item(name: str, arguments: Any, call_id: str = "call_1") -> dict[str, Any]:
    """Return a call of a tool of a response."""
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": name,
        "arguments": _encode(arguments),
        "status": "completed",
    }


def reasoning_item(summary: str, *, encrypted: str | None = None, identity: str = "rs_1") -> dict[str, Any]:
    """Return a reasoning item of a response."""
    parts = [{"type": "summary_text", "text": summary}]
    return {
        "type": "reasoning",
        "id": identity,
        "summary": parts,
        "content": None,
        "encrypted_content": encrypted,
        "status": "completed",
    }


def error(
    status: int, message: str, *, code: str | None = None, param: str | None = None, **headers: str
) -> RawReply:
    """Return an error reply in OpenAI's form. Underscores in the names of headers stand for hyphens."""
    body = {"error": {"message": message, "type": "error", "code": code, "param": param}}
    return RawReply(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


class ModelServer:
    """The server while it runs. `asked` are the requests so far, `script` makes the next reply."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[Asked] = []
        self.most_at_once = 0
        # The time until each regular reply begins.
        self.wait_seconds = 0.0
        self._at_once = 0
        self._lock = threading.Lock()
        self._was_asked = threading.Event()
        self.url = ""

    def wait_until_asked(self) -> None:
        """Wait for the first request since the server started, or since `asked` was cleared."""
        while not self.asked:
            self._was_asked.wait(60)
            self._was_asked.clear()

    async def answer(self, request: Request) -> Response:
        with self._lock:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            body = await request.json()
            with self._lock:
                asked = Asked(len(self.asked), body, dict(request.headers), request.url.path)
                self.asked.append(asked)
                self._was_asked.set()
            reply = self.script(asked)
            if not isinstance(reply, RawReply):
                await asyncio.sleep(self.wait_seconds)
                return Response(json.dumps(reply), media_type="application/json")
            await asyncio.sleep(reply.wait_seconds)
            return _send_raw(reply)
        finally:
            with self._lock:
                self._at_once -= 1


@contextlib.contextmanager
def serve_model(script: Script) -> Iterator[ModelServer]:
    """Yield a server on a free port of this machine, whose replies `script` makes."""
    server = ModelServer(script)
    paths = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
    app = Starlette(routes=[Route(path, server.answer, methods=["POST"]) for path in paths])
    # asyncio turns off Nagle's algorithm only if the socket names its protocol. With the algorithm, each
    # reply waits 40 ms for the client's delayed acknowledgement, because headers and body are two packets.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(2048)
    server.url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    running = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off", backlog=2048))
    thread = threading.Thread(target=running.run, args=([listener],), name="model-server", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        running.should_exit = running.force_exit = True
        thread.join(10)
        listener.close()


def _encode(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _send_raw(reply: RawReply) -> Response:
    body = reply.body
    if isinstance(body, Mapping):
        body = json.dumps(body)
    data = body.encode() if isinstance(body, str) else body
    headers = {"content-type": "application/json", **reply.headers}
    if reply.announced_bytes is not None:
        headers["content-length"] = str(reply.announced_bytes)
    elif not reply.seconds_between_bytes:
        return Response(data, reply.status, headers)

    async def pieces() -> AsyncIterator[bytes]:
        if not reply.seconds_between_bytes:
            yield data
            return
        for byte in data:
            yield bytes([byte])
            await asyncio.sleep(reply.seconds_between_bytes)

    return StreamingResponse(pieces(), reply.status, headers)
