"""The routes of the relay that lead to the model."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from harness.models.endpoint import Api
from harness.models.forwarding import BYTES_PER_TOKEN
from harness.models.raw_conversation import RawRequest
from harness.models.relay.errors import RelayError, encode_error, encode_error_event, explain_failure
from harness.models.relay.exchange import (
    Answer,
    BodyBudget,
    parse_body,
    rewrite_request,
    work_while_connected,
)

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
