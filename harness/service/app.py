"""The app of the service: it admits a request, reads it, runs its operation, and sends the reply."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute

from harness.core.errors import EngineUnavailableError, HarnessError, UsageError
from harness.core.logger import get_logger
from harness.service.access import admit, require_own_origin
from harness.service.body import HeldBody, read_json
from harness.service.encoding import encode_reply
from harness.service.errors import (
    BusyError,
    DrainingError,
    InvalidRequestError,
    ServiceError,
    encode_error,
    list_headers,
)
from harness.service.operations import Call, Operation, RawReply, Reply, StreamedReply
from harness.service.server import is_exhausted
from harness.service.service import Service

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Receive, Scope, Send
    from starlette.websockets import WebSocket

_LOGGER = get_logger(__name__)
# The time after the longest request in which a client must have taken its reply.
_MARGIN_SECONDS = 60.0
T = TypeVar("T")
# With the memory of its values. A body of this size is parsed within 5 ms.
_LARGE_BODY_BYTES = 256 * 1024


class ClientGone(Exception):
    """The client closed its connection before it had the reply."""


def make_service_app(
    service: Service, token: str, operations: Sequence[Operation], routes: Sequence[BaseRoute] = ()
) -> ASGIApp:
    """Return the app of a service.

    Args:
        service: the open service.
        token: the token that a client must send. Only public operations need none.
        operations: the operations over HTTP.
        routes: further routes, such as those of WebSockets. The app has checked the token before.
    """
    endpoints = [_Endpoint(service, each) for each in operations]
    listed: list[BaseRoute] = [
        Route(each.operation.path, each, methods=[each.operation.method]) for each in endpoints
    ]
    app = Starlette(
        routes=[*listed, *routes, WebSocketRoute("/{path:path}", _refuse_socket)],
        exception_handlers={404: _refuse_path, 405: _refuse_method},
    )
    # A redirect would name a path without the token, at the host that the client names.
    app.router.redirect_slashes = False
    return _Gate(app, token, endpoints)


async def _refuse_path(request: Request, _error: Exception) -> Response:
    error = InvalidRequestError(
        f"the service has no path {request.url.path!r}; /docs lists all",
        code="unknown_path",
        status=404,
    )
    return _make_error_response(error)


async def _refuse_method(request: Request, error: Exception) -> Response:
    refusal = InvalidRequestError(
        f"{request.url.path!r} takes no {request.method}; /docs lists its methods",
        code="unknown_method",
        status=405,
    )
    response = _make_error_response(refusal)
    # RFC 9110 (section 15.5.6) requires the header `Allow`.
    response.headers.update(getattr(error, "headers", None) or {})
    return response


async def _refuse_socket(websocket: WebSocket) -> None:
    error = InvalidRequestError(
        f"the service has no WebSocket at {websocket.url.path!r}; /docs lists all",
        code="unknown_path",
        status=404,
    )
    await _refuse(websocket.scope, websocket.receive, websocket.send, error)


def _make_error_response(error: ServiceError) -> Response:
    """Return the reply to a request that no operation gets. It also refuses a WebSocket."""
    return Response(encode_error(error), error.status, list_headers(error), "application/json")


class _Gate:
    """Lets in a request that has the token, and gives its app the path without it.

    Args:
        app: the app behind the gate.
        token: the token of the service.
        endpoints: the endpoints of all operations. A request whose path has no open part gets to its endpoint
            without a search through all routes, because most requests name one of a few paths.
    """

    def __init__(self, app: ASGIApp, token: str, endpoints: Iterable[_Endpoint]) -> None:
        operations = {each: each.operation for each in endpoints}
        self._app = app
        self._token = token
        self._public = {each.path for each in operations.values() if each.is_public}
        self._direct = {
            (each.method, each.path): endpoint
            for endpoint, each in operations.items()
            if "{" not in each.path
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        address = str((scope.get("client") or ("unknown", 0))[0])
        try:
            if scope["type"] == "websocket":
                require_own_origin(headers)
            admission = admit(self._token, scope["path"], headers, address)
        except ServiceError as error:
            if scope["path"] not in self._public or scope["type"] != "http":
                await _refuse(scope, receive, send, error)
                return
            path, client = scope["path"], address
        else:
            path, client = admission.path, admission.client
        if path.endswith("/") and (scope.get("method"), path.rstrip("/")) in self._direct:
            path = path.rstrip("/")
        # Nothing behind this place sees the token, so that no log and no error can show it.
        inner = {**scope, "path": path, "raw_path": path.encode("utf-8", "surrogatepass"), "root_path": ""}
        inner["headers"] = [pair for pair in scope["headers"] if pair[0] != b"authorization"]
        headers.pop("authorization", None)
        inner["state"] = {**scope.get("state", {}), "client": client, "headers": headers}
        app = self._direct.get((scope["method"], path), self._app) if scope["type"] == "http" else self._app
        await app(inner, receive, send)


async def _refuse(scope: Scope, receive: Receive, send: Send, error: ServiceError) -> None:
    if scope["type"] == "websocket":
        await receive()
        if "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008, "reason": error.code})
            return
    await _make_error_response(error)(scope, receive, send)


class _Endpoint:
    """Answers the requests for one operation. Implements the interface of an app."""

    def __init__(self, service: Service, operation: Operation) -> None:
        self.operation = operation
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.monotonic()
        self._service.begin_request()
        ended = False

        def end(status: int) -> None:
            nonlocal ended
            if not ended:
                ended = True
                self._service.end_request()
                self._count(status, time.monotonic() - started)

        try:
            response = await self._answer(scope, receive, end)
        except ClientGone:
            end(499)
            return
        except ServiceError as error:
            end(error.status)
            response = _make_error_reply(error)
        except UsageError as error:
            end(422)
            response = _make_error_reply(InvalidRequestError(error.message, status=422))
        except asyncio.CancelledError:
            end(499)
            raise
        except Exception as error:
            end(500)
            response = _make_error_reply(_explain_fault(error))
        if not isinstance(response, _Streaming):
            end(getattr(response, "status_code", 200))
        await response(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, end: Callable[[int], None]) -> ASGIApp:
        service, operation = self._service, self.operation
        if service.draining.is_set() and not operation.is_public:
            raise DrainingError
        query = scope["query_string"].decode("latin-1")
        call = Call(
            service,
            scope["state"]["client"],
            path={name: str(value) for name, value in scope.get("path_params", {}).items()},
            query=dict(parse_qsl(query, keep_blank_values=True)) if query else {},
            headers=scope["state"]["headers"],
        )
        body: HeldBody | None = None
        reply: Reply = None
        try:
            value: Any = None
            if operation.request is not None or operation.takes_bytes:
                is_json = operation.request is not None
                body = await service.bodies.read(call.headers, receive, client=call.client, is_json=is_json)
                value = body.content if operation.request is None else await _parse(operation.request, body)
            reply = await _run_until_gone(scope, operation.handle(value, call))
        finally:
            # The memory of the body counts to the end of a stream.
            if body is not None and not isinstance(reply, StreamedReply):
                body.release()
        match reply:
            case StreamedReply():
                seconds = service.settings.limits.request_seconds + _MARGIN_SECONDS
                return _Streaming(reply, body, end, seconds)
            case RawReply():
                return Response(reply.content, reply.status, reply.headers, reply.media_type)
            case None:
                return Response(status_code=204)
            case _:
                return _JSONReply(encode_reply(reply), operation.status)

    def _count(self, status: int, seconds: float) -> None:
        metrics, label = self._service.metrics, self.operation.label
        metrics.count_request(label, status, seconds)
        if _LOGGER.isEnabledFor(logging.INFO):
            _LOGGER.info(
                "request", extra={"operation": label, "status": status, "seconds": round(seconds, 4)}
            )


@dataclass(frozen=True, slots=True)
class _JSONReply:
    """A whole reply in JSON. Implements the interface of an app."""

    content: bytes
    status_code: int
    headers: Mapping[str, str] = field(default_factory=dict)

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(self.content)),
            *((name.encode(), value.encode()) for name, value in self.headers.items()),
        ]
        await send({"type": "http.response.start", "status": self.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": self.content})


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
        # Another cancellation than that for the client is the server's, and goes on.
        if gone and working.cancelling() == requested + 1:
            raise ClientGone from None
        raise
    finally:
        if gone:
            working.uncancel()


def _explain_fault(error: Exception) -> ServiceError:
    """Return the error of a reply after a fault of the service. The log has the details."""
    if isinstance(error, HarnessError):
        _LOGGER.error("fault: %s", error.message)
        unavailable = isinstance(error, EngineUnavailableError)
        code = "engine_unavailable" if unavailable else "sandbox_failed"
        return ServiceError(503, code, error.message, retry_seconds=1.0)
    if is_exhausted(error):
        message = "the service has reached its limit of open files, which its connections use up"
        _LOGGER.error("fault: %s", message)
        return BusyError(message, retry_seconds=1.0)
    _LOGGER.error("the service failed", exc_info=error)
    return ServiceError(500, "internal_error", "the service failed; its log has the details")


def _make_error_reply(error: ServiceError) -> _JSONReply:
    return _JSONReply(encode_error(error), error.status, list_headers(error))


class _Streaming:
    """Sends the parts of a reply, and ends their iterator when the client goes away."""

    def __init__(
        self,
        reply: StreamedReply,
        body: HeldBody | None,
        end: Callable[[int], None],
        seconds: float,
    ) -> None:
        self._reply = reply
        self._seconds = seconds
        self._body = body
        self._end = end
        self.status_code = 200

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
