"""The routes of the relay that lead to the model, and the requests that go on to it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from harness.models.endpoint import Api
from harness.models.messages import Generation, ToolSchema
from harness.models.raw_conversation import read_conversation
from harness.models.relay.errors import RelayError, encode_error, encode_error_event, explain_failure
from harness.models.relay.exchange import (
    Answer,
    BodyBudget,
    parse_body,
    work_while_connected,
)
from harness.models.relay.rules import (
    Notes,
    name_tool,
    refuse_stored_state,
    rewrite_completion,
    rewrite_messages,
    rewrite_response,
)
from harness.models.wire import BYTES_PER_TOKEN, RawRequest

if TYPE_CHECKING:
    from starlette.types import Receive

    from harness.models.session import ModelSession

T = TypeVar("T")
# Some libraries expect the version in the base URL, and others add it themselves.
_PATHS: Mapping[str, Api] = {"/chat/completions": "chat", "/responses": "responses", "/messages": "messages"}
_COUNT_PATHS = frozenset({"/v1/messages/count_tokens", "/messages/count_tokens"})
_MODEL_PATH = re.compile(r"(/v1)?/models(/[\w.:@%~-]{1,200}(/[\w.:@%~-]{1,200})?)?", re.ASCII)
API_OF_PATH: Mapping[str, Api] = {
    **{f"{version}{path}": api for version in ("", "/v1") for path, api in _PATHS.items()},
    **dict.fromkeys(_COUNT_PATHS, "messages"),
}
# A larger body is read in a thread, so that the other requests of the run go on.
_THREAD_BYTES = 256 * 1024
# The requests among which the retry of a library is looked for.
_MOST_REMEMBERED = 64
_MOST_NOTES = 1000
_RULES: Mapping[Api, Callable[[Mapping[str, Any], Notes], dict[str, Any]]] = {
    "chat": rewrite_completion,
    "responses": rewrite_response,
    "messages": rewrite_messages,
}
# The parameters of generation of each API. The run decides them.
_PARAMETERS: Mapping[Api, frozenset[str]] = {
    "chat": frozenset(
        (
            *("temperature", "top_p", "max_tokens", "max_completion_tokens", "stop", "seed"),
            *("reasoning_effort", "frequency_penalty", "presence_penalty", "logit_bias"),
            *("logprobs", "top_logprobs", "verbosity", "prediction"),
        )
    ),
    "responses": frozenset(
        {"temperature", "top_p", "max_output_tokens", "reasoning", "top_logprobs", "truncation"}
    ),
    "messages": frozenset({"temperature", "top_p", "top_k", "max_tokens", "stop_sequences", "thinking"}),
}
# The fields that the rules of an API read, or that the relay sets.
_READ: Mapping[Api, frozenset[str]] = {
    "chat": frozenset(
        (
            *("messages", "tools", "tool_choice", "functions", "function_call"),
            *("parallel_tool_calls", "response_format", "stream_options"),
        )
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


class ModelRoutes:
    """Answers the requests of one attempt's programs to its model."""

    def __init__(self, model: ModelSession, bodies: BodyBudget) -> None:
        self._model = model
        self._bodies = bodies
        self._seen: deque[bytes] = deque(maxlen=_MOST_REMEMBERED)
        self._notes_left = _MOST_NOTES

    def has(self, path: str) -> bool:
        """Return whether a path is one of these routes."""
        return path in API_OF_PATH or _MODEL_PATH.fullmatch(path) is not None

    def note_defect(self, error: Exception) -> None:
        """Write a defect of ours to the transcript, because its client must learn nothing of it."""
        self._note(f"a defect of harness: {type(error).__name__}: {error}")

    async def answer(
        self, method: str, path: str, headers: Mapping[str, str], receive: Receive, answer: Answer
    ) -> None:
        """Answer one request. Raises RelayError until the answer begins."""
        api = API_OF_PATH.get(path)
        if method != ("GET" if api is None else "POST"):
            raise RelayError(405, "wrong_method", f"the path {path} takes no {method[:20]}")
        if api is None:
            await answer.send_whole(200, self._describe_models(path))
            return
        async with self._bodies.read(headers, receive) as content:
            if path in _COUNT_PATHS:
                await _run_apart(content, lambda: parse_body(content))
                count = len(content) // BYTES_PER_TOKEN + 1
                await answer.send_whole(200, json.dumps({"input_tokens": count}).encode())
                return
            try:
                request = await self._rewrite(api, headers, content)
            except RelayError as error:
                self._note(f"refused: {error}")
                raise
            await work_while_connected(receive, self._forward(request, answer))

    async def _rewrite(self, api: Api, headers: Mapping[str, str], content: bytes) -> RawRequest:
        marks = self._find_marks(headers, content)
        keeps = self._model.keeps_client_generation

        def rewrite() -> RawRequest:
            return rewrite_request(api, parse_body(content), keeps_parameters=keeps, marks=marks)

        return await _run_apart(content, rewrite)

    def _find_marks(self, headers: Mapping[str, str], content: bytes) -> dict[str, Any]:
        """Return whether a request is the retry of a library, by its head and by its body."""
        identity = hashlib.sha256(content).digest()
        count = headers.get("x-stainless-retry-count", "0")[:6]
        is_number = count.isascii() and count.isdigit()
        is_retry = identity in self._seen and is_number and int(count) > 0
        self._seen.append(identity)
        return {"library_retry": int(count)} if is_retry else {}

    async def _forward(self, request: RawRequest, answer: Answer) -> None:
        try:
            async with self._model.forward(request) as reply:
                if request.is_stream:
                    await answer.begin(200, reply.content_type, [(b"cache-control", b"no-cache")])
                    async for piece in reply.pieces:
                        await answer.write(piece)
                else:
                    whole = b"".join([piece async for piece in reply.pieces])
            # The budget knows of the reply before its client can ask for the next one.
            if request.is_stream:
                await answer.write(b"", is_last=True)
            else:
                await answer.send_whole(200, whole)
        except Exception as error:
            await self._answer_failure(request, answer, error)

    async def _answer_failure(self, request: RawRequest, answer: Answer, error: Exception) -> None:
        if isinstance(error, TimeoutError):
            # The client has taken nothing for too long.
            raise error
        shown = explain_failure(error)
        if shown.code == "internal_error":
            self.note_defect(error)
            self._model.fail_by_defect(error)
        if not answer.has_begun:
            # The model layer has retried already, so the client's library should not.
            headers = [(b"x-should-retry", b"false")]
            await answer.send_whole(shown.status, encode_error(request.api, shown), headers)
        else:
            await answer.write(encode_error_event(request.api, shown), is_last=True)

    def _describe_models(self, path: str) -> bytes:
        """Return the JSON of the only model, or of its list, in the forms of both libraries."""
        name = self._model.endpoint.model
        model = {
            "id": name,
            "object": "model",
            "type": "model",
            "created": 0,
            "created_at": "1970-01-01T00:00:00Z",
            "display_name": name,
            "owned_by": "harness",
        }
        if not path.endswith("/models"):
            return json.dumps(model).encode()
        listed = {"object": "list", "data": [model], "has_more": False, "first_id": name, "last_id": name}
        return json.dumps(listed).encode()

    def _note(self, text: str) -> None:
        """Write to the transcript, unless a program has filled it with its mistakes."""
        self._notes_left -= 1
        if self._notes_left >= 0:
            self._model.note(text[:500])


async def _run_apart(content: bytes, read: Callable[[], T]) -> T:
    """Return what `read` makes of a body, from a thread if the body is large."""
    return await asyncio.to_thread(read) if len(content) > _THREAD_BYTES else read()


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
