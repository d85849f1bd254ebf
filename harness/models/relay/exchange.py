"""One request and its answer: bounds on all that the client sends, and time limits on both sides."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from harness.core.inputs.json_text import MAX_DEPTH, ValueCounter, require_shallow
from harness.models.endpoint import Api
from harness.models.messages import Generation, ToolSchema
from harness.models.raw_conversation import RawRequest, read_conversation
from harness.models.relay.errors import RelayError
from harness.models.relay.rules import (
    Notes,
    name_tool,
    refuse_stored_state,
    rewrite_completion,
    rewrite_messages,
    rewrite_response,
)

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send


MAX_HEAD_BYTES = 32 * 1024
MAX_BODY_BYTES = 16 * 1024 * 1024
BODY_SECONDS = 120.0
# How long a client may read nothing of its answer.
SEND_SECONDS = 120.0
# A repeated field could mean one thing to the relay and another to the app behind it.
_SINGLE = frozenset(
    {
        b"authorization",
        b"x-api-key",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"host",
        b"transfer-encoding",
    }
)
_RULES: Mapping[Api, Callable[[Mapping[str, Any], Notes], dict[str, Any]]] = {
    "chat": rewrite_completion,
    "responses": rewrite_response,
    "messages": rewrite_messages,
}
# The parameters of generation of each API. The run decides them.
_PARAMETERS: Mapping[Api, frozenset[str]] = {
    "chat": frozenset(
        {
            "temperature",
            "top_p",
            "max_tokens",
            "max_completion_tokens",
            "stop",
            "seed",
            "reasoning_effort",
            "frequency_penalty",
            "presence_penalty",
            "logit_bias",
            "logprobs",
            "top_logprobs",
            "verbosity",
            "prediction",
        }
    ),
    "responses": frozenset(
        {"temperature", "top_p", "max_output_tokens", "reasoning", "top_logprobs", "truncation"}
    ),
    "messages": frozenset({"temperature", "top_p", "top_k", "max_tokens", "stop_sequences", "thinking"}),
}
# The fields that the rules of an API read, or that the relay sets.
_READ: Mapping[Api, frozenset[str]] = {
    "chat": frozenset(
        {
            "messages",
            "tools",
            "tool_choice",
            "functions",
            "function_call",
            "parallel_tool_calls",
            "response_format",
            "stream_options",
        }
    ),
    "responses": frozenset(
        {"input", "instructions", "text", "include", "tools", "tool_choice", "parallel_tool_calls"}
    ),
    "messages": frozenset({"messages", "system", "tools", "tool_choice", "output_config"}),
}
_READ_ALWAYS = frozenset(
    {"model", "stream", "store", "background", "previous_response_id", "conversation", "n"}
)
# Anthropic's API needs a bound in each request. No reply is longer.
_MOST_FALLBACK_TOKENS = 128_000


def read_headers(scope: Scope) -> dict[str, str]:
    """Return the fields of a request's head. Raises RelayError for a head that could be read in two ways."""
    if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEAD_BYTES:
        text = f"the head of the request is longer than {MAX_HEAD_BYTES:,} bytes"
        raise RelayError(431, "invalid_head", text)
    names = [name for name, _ in scope["headers"]]
    twice = sorted(name.decode("latin-1") for name in _SINGLE if names.count(name) > 1)
    if twice:
        raise RelayError(400, "invalid_head", f"the field {twice[0]} appears twice in the request head")
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    if scope["http_version"] != "1.1":
        raise RelayError(400, "invalid_head", "the relay speaks HTTP/1.1 only")
    if "content-length" in headers and "transfer-encoding" in headers:
        raise RelayError(400, "invalid_head", "the head has both a length and a transfer encoding")
    if "upgrade" in headers:
        raise RelayError(400, "invalid_head", "the relay upgrades no connection")
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise RelayError(415, "compressed_body", "the relay accepts no compressed body")
    return headers


class BodyBudget:
    """Bounds the memory of all bodies that the requests of one app hold at the same time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0

    @contextlib.asynccontextmanager
    async def read(
        self,
        headers: Mapping[str, str],
        receive: Receive,
        *,
        most: int | None = None,
        most_values: int | None = None,
    ) -> AsyncIterator[bytes]:
        """Yield the body of a request, whose memory counts in the block.

        Args:
            headers: the head of the request.
            receive: receives its body.
            most: the most bytes of the body, by default MAX_BODY_BYTES.
            most_values: the most values in its JSON. Without it, their memory alone is bounded.

        Raises RelayError as soon as the body breaks a bound, so that the rest of it is not read.
        """
        most = MAX_BODY_BYTES if most is None else most
        announced = headers.get("content-length", "0")
        if not announced.isascii() or not announced.isdigit() or int(announced[:20]) > most:
            raise _refuse_size(most)
        body = bytearray()
        values = ValueCounter()
        held = 0
        try:
            try:
                async with asyncio.timeout(BODY_SECONDS):
                    while True:
                        message = await receive()
                        if message["type"] != "http.request":
                            raise RelayError(400, "cut_body", "the body of the request ended early")
                        piece = message.get("body", b"")
                        if len(body) + len(piece) > most:
                            raise _refuse_size(most)
                        weight = values.memory_bytes
                        values.add(piece)
                        if values.memory_bytes > self._most:
                            raise RelayError(413, "body_too_large", "the body has too many values")
                        if most_values is not None and values.total > most_values:
                            text = f"the body has more than {most_values:,} values"
                            raise RelayError(413, "body_too_large", text)
                        more = len(piece) + values.memory_bytes - weight
                        held += more
                        self._hold(more)
                        body += piece
                        if not message.get("more_body", False):
                            break
            except TimeoutError:
                text = f"the body of the request took longer than {BODY_SECONDS:g} s"
                raise RelayError(408, "slow_body", text) from None
            yield bytes(body)
        finally:
            self._held -= held

    def _hold(self, size: int) -> None:
        self._held += size
        if self._held > self._most:
            text = "the requests under way are too large together; send fewer at a time"
            raise RelayError(429, "too_many_bytes", text)


def repeat_body(content: bytes, receive: Receive) -> Receive:
    """Return `receive` for an app that reads the body once more."""
    has_read = False

    async def receive_again() -> Message:
        nonlocal has_read
        if has_read:
            return await receive()
        has_read = True
        return {"type": "http.request", "body": content, "more_body": False}

    return receive_again


class Answer:
    """The answer to one request. Raises TimeoutError if the client takes nothing of it for too long."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False

    async def begin(
        self, status: int, content_type: str, headers: Iterable[tuple[bytes, bytes]] = ()
    ) -> None:
        """Send the head."""
        fields = [(b"content-type", content_type.encode("latin-1")), *headers]
        await self.pass_on({"type": "http.response.start", "status": status, "headers": fields})

    async def write(self, data: bytes, *, is_last: bool = False) -> None:
        """Send a piece of the body."""
        await self.pass_on({"type": "http.response.body", "body": data, "more_body": not is_last})

    async def send_whole(self, status: int, data: bytes, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """Send an answer in JSON."""
        length = (b"content-length", str(len(data)).encode())
        await self.begin(status, "application/json", [length, *headers])
        await self.write(data, is_last=True)

    async def pass_on(self, message: Message) -> None:
        """Send a message of the app."""
        self.has_begun = True
        async with asyncio.timeout(SEND_SECONDS):
            await self._send(message)


async def work_while_connected(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Do the work of a request whose body is read, and cancel it as soon as the client has gone."""
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_wait_for_disconnect(receive))
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
    finally:
        watching.cancel()
        if not working.done():
            working.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)
    if not working.cancelled() and (error := working.exception()) is not None:
        raise error


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _refuse_size(most: int) -> RelayError:
    return RelayError(413, "body_too_large", f"the body is larger than {most:,} bytes")


def parse_body(content: bytes) -> dict[str, Any]:
    """Return the object in a body. Raises RelayError."""
    try:
        # Python would also accept UTF-16, but the values of a UTF-16 body cannot be counted.
        text = content.decode("utf-8-sig", "surrogatepass")
        body = json.loads(text, parse_constant=_refuse_constant)
        # Deeper values could be read here, and not be written later, which would seem a defect of ours.
        require_shallow(body)
    except RecursionError:
        reason = f"the body of the request is nested too deeply, more than {MAX_DEPTH} levels"
        raise RelayError(400, "invalid_json", reason) from None
    except ValueError:
        raise RelayError(400, "invalid_json", "the body of the request is not valid JSON") from None
    if not isinstance(body, dict):
        raise RelayError(400, "invalid_json", "the body of the request is not a JSON object")
    return body


def rewrite_request(
    api: Api, body: Mapping[str, Any], *, keeps_parameters: bool, marks: Mapping[str, Any]
) -> RawRequest:
    """Return the request that goes on. Raises RelayError for one that the relay refuses.

    Args:
        api: the API of the request.
        body: the JSON of the client.
        keeps_parameters: whether the client's parameters of generation override the run's.
        marks: further fields of the entry in the transcript.
    """
    is_stream = body.get("stream")
    if not isinstance(is_stream, bool | None):
        raise RelayError(400, "invalid_request", "'stream' must be true or false")
    refuse_stored_state(body)
    notes = Notes()
    kept = _RULES[api](body, notes)
    bound = _read_count(body.get("max_tokens")) if api == "messages" else None
    if api == "messages" and bound is None:
        raise RelayError(400, "invalid_request", "'max_tokens' must be a positive number")
    generation = _read_parameters(api, body) if keeps_parameters else Generation()
    for name, value in body.items():
        if value is None or name in _READ[api] | _READ_ALWAYS:
            continue
        if name not in _PARAMETERS[api]:
            notes.withhold(name)
        elif not keeps_parameters:
            notes.drop(name, value)
    options = body.get("stream_options")
    return RawRequest(
        api,
        kept,
        read_conversation(api, kept),
        tuple(_list_tools(api, kept.get("tools", ()))),
        bool(is_stream),
        isinstance(options, dict) and options.get("include_usage") is True,
        generation,
        None if bound is None else min(bound, _MOST_FALLBACK_TOKENS),
        {**marks, **_describe_notes(notes)},
    )


def _list_tools(api: Api, tools: Iterable[Mapping[str, Any]]) -> Iterator[ToolSchema]:
    """Yield the tools for the transcript. The name of a tool in a group follows the group's name."""
    for tool in tools:
        if api == "responses" and tool["type"] == "namespace":
            for each in tool["tools"]:
                yield _read_tool(each, f"{name_tool(tool)}.{name_tool(each)}")
        else:
            inside = tool.get(tool["type"], tool) if api == "chat" else tool
            yield _read_tool(inside, name_tool(inside))


def _read_tool(tool: Mapping[str, Any], name: str) -> ToolSchema:
    description = tool.get("description")
    parameters = tool.get("input_schema", tool.get("parameters"))
    return ToolSchema(
        name,
        description if isinstance(description, str) else "",
        parameters if isinstance(parameters, dict) else {},
    )


def _describe_notes(notes: Notes) -> dict[str, Any]:
    described: dict[str, Any] = {}
    if notes.withheld:
        described["withheld"] = notes.withheld
    if notes.dropped:
        described["dropped"] = notes.dropped
    return described


def _read_parameters(api: Api, body: Mapping[str, Any]) -> Generation:
    """Return the client's parameters that a run can also have."""
    stop = body.get("stop_sequences" if api == "messages" else "stop")
    texts = [stop] if isinstance(stop, str) else stop if isinstance(stop, list) else []
    effort = body.get("reasoning_effort")
    reasoning = body.get("reasoning" if api == "responses" else "output_config")
    if api != "chat" and isinstance(reasoning, dict):
        effort = reasoning.get("effort")
    bounds = [body.get(name) for name in ("max_completion_tokens", "max_output_tokens", "max_tokens")]
    counts = [count for count in map(_read_count, bounds) if count is not None]
    seed = body.get("seed")
    return Generation(
        _read_number(body.get("temperature"), 5.0),
        _read_number(body.get("top_p"), 1.0),
        counts[0] if counts else None,
        tuple(text for text in texts if isinstance(text, str))[:16],
        seed if type(seed) is int and abs(seed) < 2**63 else None,
        effort if isinstance(effort, str) and len(effort) <= 32 else None,
    )


def _read_number(value: Any, most: float) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= most else None


def _read_count(value: Any) -> int | None:
    return value if type(value) is int and 0 < value < 10**9 else None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
