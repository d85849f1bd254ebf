"""The operations of the service: routes of FastAPI that keep its bounds, and the bodies of requests.

An operation is a function with a decorator of a `make_router`. FastAPI describes its parameters and its reply
in OpenAPI. The bounds on a request are ours, because FastAPI would read a body of any size, and would not end
a function whose client has gone. A body is bounded in bytes, values and time, alone and together with all
others.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from harness.core.inputs.json_text import MAX_DIGITS, BrokenJSONError, ValueCounter, parse_json
from harness.core.invalid_values import describe_first_error
from harness.core.logger import get_logger
from harness.service.errors import (
    DrainingError,
    InvalidRequestError,
    ServiceError,
    explain_error,
    make_error_response,
)
from harness.service.settings import ServiceLimits

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from harness.service.service import Service

Model = TypeVar("Model", bound=BaseModel)
_LOGGER = get_logger(__name__)
T = TypeVar("T")
# How long after the longest request a client may take its reply.
_MARGIN_SECONDS = 60.0
# With the memory of its values. A body of this size is parsed within 5 ms.
_LARGE_BODY_BYTES = 256 * 1024
# Marks an operation that a request without a token may enter. Such an operation must show nothing of clients.
PUBLIC: dict[str, Any] = {"security": []}


class HeldBody:
    """The body of a request. Its memory counts, with the values in its JSON, until `release`."""

    def __init__(self, bodies: Bodies, client: str) -> None:
        self._bodies = bodies
        self._client = client
        # The bytes that count, with the values in its JSON.
        self.size = 0
        self.content = b""

    def release(self) -> None:
        """Count the memory no more. A second call does nothing."""
        self._bodies.release(self._client, self.size)
        self.size = 0

    def hold(self, size: int) -> None:
        """Count more memory. Raises ServiceError if the requests under way have too much."""
        self.size += size
        self._bodies.hold(self._client, size)


class Bodies:
    """Reads the bodies of all requests of a service, and bounds their memory together."""

    def __init__(self, limits: ServiceLimits) -> None:
        self._limits = limits
        self._held = 0
        self._held_by: Counter[str] = Counter()

    async def read(
        self, headers: Mapping[str, str], receive: Receive, *, client: str, is_json: bool = True
    ) -> HeldBody:
        """Return the body of a request. Release it after its last use.

        Raises ServiceError as soon as the body breaks a bound, so that the rest of it is not read.
        """
        most = self._limits.body_bytes
        announced = headers.get("content-length", "0")
        if not announced.isascii() or not announced.isdigit() or int(announced[:20]) > most:
            raise _refuse_size(most)
        if headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise InvalidRequestError("the service takes no compressed body", status=415)
        body = HeldBody(self, client)
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                body.content = await self._read(receive, body, ValueCounter() if is_json else None)
        except BaseException as error:
            body.release()
            if isinstance(error, TimeoutError):
                seconds = self._limits.body_seconds
                raise InvalidRequestError(
                    f"the body of the request took longer than {seconds:g} s", status=408
                ) from None
            raise
        return body

    async def _read(self, receive: Receive, body: HeldBody, values: ValueCounter | None) -> bytes:
        """Return the content of a body, and hold its memory meanwhile."""
        most = self._limits.body_bytes
        pieces: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise InvalidRequestError("the body of the request ended early")
            piece = message.get("body", b"")
            size += len(piece)
            if size > most:
                raise _refuse_size(most)
            more = len(piece)
            if values is not None:
                before = values.memory_bytes
                values.add(piece)
                if values.structures > self._limits.body_structures:
                    raise _refuse_structures(self._limits.body_structures)
                more += values.memory_bytes - before
            body.hold(more)
            pieces.append(piece)
            if not message.get("more_body", False):
                return b"".join(pieces)

    def release(self, client: str, size: int) -> None:
        """Count memory of a client no more."""
        self._held -= size
        self._held_by[client] -= size
        # Otherwise the counter would keep every address that ever came.
        if not self._held_by[client]:
            del self._held_by[client]

    def hold(self, client: str, size: int) -> None:
        """Count more memory of a client. Raises ServiceError if there is too much."""
        self._held += size
        self._held_by[client] += size
        limits = self._limits
        share = max(2 * limits.body_bytes, int(limits.all_bodies_bytes * limits.client_bodies_share))
        if self._held > limits.all_bodies_bytes or self._held_by[client] > share:
            raise ServiceError(
                429,
                "too_many_bytes",
                "the requests under way are too large together; send fewer at a time",
                retry_seconds=1.0,
            )


def read_json(model: type[Model], body: bytes) -> Model:
    """Return the request in a body. Raises ServiceError that names the first fault and its place."""
    if not body:
        raise InvalidRequestError("the body is empty; send a JSON object, such as {}", code="invalid_json")
    try:
        values: Any = parse_json(body, max_digits=getattr(model, "max_digits", MAX_DIGITS))
    except BrokenJSONError as error:
        raise InvalidRequestError(f"the body is not JSON: {error}", code="invalid_json") from None
    try:
        return model.model_validate(values)
    except ValidationError as error:
        fault = describe_first_error(error, values)
        raise InvalidRequestError(
            fault if isinstance(values, dict) else f"the body {fault}", status=422
        ) from None


def encode_reply(reply: BaseModel) -> bytes:
    """Return a reply as JSON in UTF-8, whatever a client or an untrusted program has sent.

    JSON can escape half of a surrogate pair, so a request can hold one, and a reply may repeat it. UTF-8 has
    no form for it, so the JSON of such a reply is ASCII.
    """
    try:
        return reply.model_dump_json().encode()
    except (PydanticSerializationError, UnicodeEncodeError):
        return json.dumps(reply.model_dump(), default=str).encode()


def _refuse_size(most: int) -> ServiceError:
    return InvalidRequestError(
        f"the body of a request may have {most:,} bytes; send several smaller ones",
        code="body_too_large",
        status=413,
    )


def _refuse_structures(most: int) -> ServiceError:
    return InvalidRequestError(
        f"the body of a request may have {most:,} objects, lists and named fields; send several "
        "smaller ones, or give a program its data as text on standard input",
        code="body_too_large",
        status=413,
    )


def require_own_origin(headers: Mapping[str, str]) -> None:
    """Raise ServiceError for a WebSocket that a page of another site opens.

    Browsers let every page open a WebSocket to any address, and name the page's origin. Other clients send
    none.
    """
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2] != headers.get("host"):
        raise ServiceError(403, "foreign_origin", "pages of other sites may not open a WebSocket here")


@dataclass(frozen=True, slots=True)
class Call:
    """One request that was admitted."""

    service: Service
    # The client whose share of the service the request uses.
    client: str
    # The headers, with names in lower case.
    headers: dict[str, str] = field(default_factory=dict)


def find_call(request: Request) -> Call:
    """Return the call of a request that the gate has let in."""
    state = request.scope["state"]
    return Call(state["service"], state["client"], state["headers"])


Called = Annotated[Call, Depends(find_call)]
"""The parameter `call` of an operation."""


class ReplyParts(Protocol):
    """The parts of a streamed reply, such as an asynchronous generator."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Return the iterator over the parts."""

    def aclose(self) -> Awaitable[None]:
        """End the work behind the parts."""


@dataclass(frozen=True, slots=True)
class StreamedReply:
    """A reply that is sent while it is made. The service closes `parts` when the client goes away."""

    parts: ReplyParts
    media_type: str = "application/x-ndjson"


Reply = BaseModel | StreamedReply | Response | None
"""The reply of an operation: JSON, a stream, a response as it is, or nothing."""


class ClientGone(Exception):
    """The client closed its connection before it had the reply."""


class OperationRoute(APIRoute):
    """The route of one operation.

    The function is cancelled when the client goes away. It may raise ServiceError. Metrics and logs have the
    name of the route.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # The docstring is for developers, and clients have the summary.
        self.description = ""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that answers requests, in place of FastAPI's own."""
        return self.answer

    @property
    def is_public(self) -> bool:
        """Whether a request without a token may enter."""
        return self.openapi_extra == PUBLIC

    async def answer(self, request: Request) -> Response:
        """Return the reply to a request, or the reply that names its fault."""
        started = time.monotonic()
        call = find_call(request)
        call.service.begin_request()
        ended = False

        def end(status: int) -> None:
            nonlocal ended
            if not ended:
                ended = True
                call.service.end_request()
                self._count(call.service, status, time.monotonic() - started)

        try:
            response = await self._answer(request, call, end)
        except ClientGone:
            # Nobody gets it.
            response = Response(status_code=499)
        except asyncio.CancelledError:
            end(499)
            raise
        except Exception as error:
            response = make_error_response(explain_error(error))
        if not isinstance(response, _Streaming):
            end(response.status_code)
        return response

    async def _answer(self, request: Request, call: Call, end: Callable[[int], None]) -> Response:
        if call.service.draining.is_set() and not self.is_public:
            raise DrainingError
        body: HeldBody | None = None
        reply: Reply = None
        try:
            if self.dependant.body_params:
                is_json = self.dependant.body_params[0].field_info.annotation is not bytes
                body = await call.service.bodies.read(
                    call.headers, request.receive, client=call.client, is_json=is_json
                )
            reply = await _run_until_gone(request.scope, self._call_endpoint(request.scope, call, body))
        finally:
            # The memory of the body counts to the end of a stream.
            if body is not None and not isinstance(reply, StreamedReply):
                body.release()
        match reply:
            case StreamedReply():
                seconds = call.service.settings.limits.request_seconds + _MARGIN_SECONDS
                return _Streaming(reply, body, end, seconds)
            case Response():
                return reply
            case None:
                return Response(status_code=204)
            case _:
                status = self.status_code or 200
                return Response(encode_reply(reply), status, media_type="application/json")

    async def _call_endpoint(self, scope: Scope, call: Call, body: HeldBody | None) -> Reply:
        """Return the reply of the operation. Raises ServiceError for a body that does not fit."""
        arguments = {name: str(value) for name, value in scope.get("path_params", {}).items()}
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        arguments |= {each.name: query.get(each.name, each.default) for each in self.dependant.query_params}
        values: dict[str, Any] = {}
        if body is not None:
            parameter = self.dependant.body_params[0]
            model: Any = parameter.field_info.annotation
            values[parameter.name] = body.content if model is bytes else await _parse(model, body)
        reply: Reply = await self.endpoint(**arguments, **values, call=call)
        return reply

    def _count(self, service: Service, status: int, seconds: float) -> None:
        service.metrics.count_request(self.name, status, seconds)
        if _LOGGER.isEnabledFor(logging.INFO):
            _LOGGER.info(
                "request", extra={"operation": self.name, "status": status, "seconds": round(seconds, 4)}
            )


def make_router() -> APIRouter:
    """Return a router whose routes are operations."""
    return APIRouter(
        route_class=OperationRoute,
        responses={"default": {"description": "an error: {error: {code, message}}"}},
        generate_unique_id_function=lambda route: f"{next(iter(route.methods or ()))} {route.path}",
    )


async def _parse(model: type[BaseModel], body: HeldBody) -> BaseModel:
    """Return the request in a body. Raises ServiceError."""
    if body.size <= _LARGE_BODY_BYTES:
        return read_json(model, body.content)
    # A thread, because the parser of a large body would keep the loop from all other clients.
    return await asyncio.to_thread(read_json, model, body.content)


async def _run_until_gone(scope: Scope, work: Awaitable[T]) -> T:
    """Return the result of `work`. Cancel it when the client goes away, and raise ClientGone.

    The work runs in this task, so that the sandbox of cancelled work is destroyed before its place is free
    again.
    """
    working = asyncio.current_task()
    assert working is not None  # noqa: S101  because a coroutine of asyncio runs in a task
    gone = False

    def leave() -> None:
        nonlocal gone
        if not gone:
            gone = True
            working.cancel()

    requested = working.cancelling()
    # The method of `BoundedConnection`.
    watch: Callable[[Callable[[], None]], contextlib.AbstractContextManager[None]]
    watch = scope["state"]["watch_client"]
    try:
        with watch(leave):
            return await work
    except asyncio.CancelledError:
        # The server's own cancellation goes on.
        if gone and working.cancelling() == requested + 1:
            raise ClientGone from None
        raise
    finally:
        if gone:
            working.uncancel()


class _Streaming(Response):
    """Sends the parts of a reply, and ends their iterator when the client goes away."""

    def __init__(
        self, reply: StreamedReply, body: HeldBody | None, end: Callable[[int], None], seconds: float
    ) -> None:
        self._reply = reply
        self._seconds = seconds
        self._body = body
        self._end = end
        self.status_code = 200
        self.background = None

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        status = 499
        try:
            # Close the parts here, because the task that sends them may be cancelled before it starts.
            async with contextlib.aclosing(self._reply.parts):
                # A client that takes its reply too slowly must not hold a place for ever.
                async with asyncio.timeout(self._seconds):
                    await _run_until_gone(scope, self._send(send))
                status = 200
        except (ClientGone, TimeoutError):
            pass
        finally:
            if self._body is not None:
                self._body.release()
            self._end(status)

    async def _send(self, send: Send) -> None:
        media_type = self._reply.media_type.encode()
        headers = [(b"content-type", media_type), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for part in self._reply.parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
