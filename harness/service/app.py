"""The app of the service: it admits a request, reads it, runs its operation, and sends the reply."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from harness.errors import EngineUnavailableError, HarnessError, UsageError
from harness.logger import get_logger
from harness.service.access import admit, require_own_origin
from harness.service.body import read_json
from harness.service.encoding import encode_reply
from harness.service.errors import (
    DrainingError,
    InvalidRequestError,
    ServiceError,
    encode_error,
    list_headers,
)
from harness.service.operations import Call, Operation, RawReply, Reply, StreamedReply
from harness.service.service import Service

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Receive, Scope, Send
    from starlette.websockets import WebSocket

_LOGGER = get_logger(__name__)
# The time after the longest request in which a client must have taken its reply.
_MARGIN_SECONDS = 60.0
T = TypeVar("T")
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
    from starlette.applications import Starlette
    from starlette.routing import Route, WebSocketRoute

    endpoints = _Endpoints(service)
    listed: list[BaseRoute] = [
        Route(each.path, endpoints.make(each), methods=[each.method]) for each in operations
    ]
    app = Starlette(
        routes=[*listed, *routes, WebSocketRoute("/{path:path}", _refuse_socket)],
        exception_handlers={404: _refuse_path, 405: _refuse_method},
    )
    # A redirect would name a path without the token, at the host that the client names.
    app.router.redirect_slashes = False
    return _Gate(app, token, {each.path for each in operations if each.is_public})


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


class _Gate:
    """Lets in a request that has the token, and gives its app the path without it."""

    def __init__(self, app: ASGIApp, token: str, public: set[str]) -> None:
        self._app = app
        self._token = token
        self._public = public

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
        # Nothing behind this place sees the token, so that no log and no error can show it.
        inner = {**scope, "path": path, "raw_path": path.encode("utf-8", "surrogatepass"), "root_path": ""}
        inner["state"] = {**scope.get("state", {}), "client": client}
        inner["headers"] = [pair for pair in scope["headers"] if pair[0] != b"authorization"]
        await self._app(inner, receive, send)


async def _refuse(scope: Scope, receive: Receive, send: Send, error: ServiceError) -> None:
    if scope["type"] == "websocket":
        await receive()
        if "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008, "reason": error.code})
            return
    await _make_error_response(error)(scope, receive, send)


class _Endpoints:
    """Makes an endpoint of Starlette from each operation."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def make(self, operation: Operation) -> Callable[[Request], Awaitable[ASGIApp]]:
        async def endpoint(request: Request) -> ASGIApp:
            started = time.monotonic()
            self._service.begin_request()
            ended = False

            def end(status: int) -> None:
                nonlocal ended
                if not ended:
                    ended = True
                    self._service.end_request()
                    self._count(operation, status, time.monotonic() - started)

            try:
                response = await self._answer(operation, request, end)
            except ClientGone:
                end(499)
                return _reply_nothing
            except ServiceError as error:
                end(error.status)
                return _make_error_response(error)
            except UsageError as error:
                end(422)
                return _make_error_response(InvalidRequestError(error.message, status=422))
            except asyncio.CancelledError:
                end(499)
                raise
            except Exception as error:
                end(500)
                return _make_error_response(_explain_fault(error))
            if not isinstance(response, _Streaming):
                end(getattr(response, "status_code", 200))
            return response

        return endpoint

    async def _answer(self, operation: Operation, request: Request, end: Callable[[int], None]) -> ASGIApp:
        from starlette.responses import Response

        service = self._service
        if service.draining.is_set() and not operation.is_public:
            raise DrainingError
        headers = dict(request.headers)
        call = Call(
            service,
            request.state.client,
            path={name: str(value) for name, value in request.path_params.items()},
            query=dict(request.query_params),
            headers=headers,
        )
        async with contextlib.AsyncExitStack() as stack:
            value: Any = None
            if operation.request is not None or operation.takes_bytes:
                reading = service.bodies.read(
                    headers,
                    request.receive,
                    client=call.client,
                    is_json=operation.request is not None,
                )
                body = await stack.enter_async_context(reading)
                value = body if operation.request is None else await _parse(operation.request, body)
            reply: Reply = await _run_until_gone(request.receive, operation.handle(value, call))
            match reply:
                case StreamedReply():
                    # The memory of the body counts to the end of the stream.
                    seconds = service.settings.limits.request_seconds + _MARGIN_SECONDS
                    return _Streaming(reply, stack.pop_all(), end, seconds)
                case RawReply():
                    return Response(reply.content, reply.status, reply.headers, reply.media_type)
                case None:
                    return Response(status_code=204)
                case _:
                    return Response(encode_reply(reply), operation.status, media_type="application/json")

    def _count(self, operation: Operation, status: int, seconds: float) -> None:
        metrics = self._service.metrics
        metrics.requests.labels(operation.label, str(status)).inc()
        metrics.request_seconds.labels(operation.label).observe(seconds)
        _LOGGER.info(
            "request", extra={"operation": operation.label, "status": status, "seconds": round(seconds, 4)}
        )


async def _parse(model: type[BaseModel], body: bytes) -> BaseModel:
    """Return the request in a body. Raises ServiceError."""
    if len(body) <= _LARGE_BODY_BYTES:
        return read_json(model, body)
    # A thread, because the parser of a large body would keep the loop from all other clients.
    return await asyncio.to_thread(read_json, model, body)


async def _run_until_gone(receive: Receive, work: Coroutine[Any, Any, T] | Awaitable[T]) -> T:
    """Return the result of `work`. Cancel it when the client goes away, and raise ClientGone."""

    async def wait_until_gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(wait_until_gone())
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientGone
        return working.result()
    finally:
        for task in (working, watching):
            task.cancel()
        # The sandbox of cancelled work is destroyed before its place is free again.
        await asyncio.gather(working, watching, return_exceptions=True)


def _explain_fault(error: Exception) -> ServiceError:
    """Return the error of a reply after a fault of the service. The log has the details."""
    if isinstance(error, HarnessError):
        _LOGGER.error("fault: %s", error.message)
        unavailable = isinstance(error, EngineUnavailableError)
        code = "engine_unavailable" if unavailable else "sandbox_failed"
        return ServiceError(503, code, error.message, retry_seconds=1.0)
    _LOGGER.error("the service failed", exc_info=error)
    return ServiceError(500, "internal_error", "the service failed; its log has the details")


def _make_error_response(error: ServiceError) -> Response:
    from starlette.responses import Response

    return Response(encode_error(error), error.status, list_headers(error), "application/json")


async def _reply_nothing(scope: Scope, receive: Receive, send: Send) -> None:
    """Send nothing, because the client is gone."""


class _Streaming:
    """Sends the parts of a reply, and ends their iterator when the client goes away."""

    def __init__(
        self,
        reply: StreamedReply,
        held: contextlib.AsyncExitStack,
        end: Callable[[int], None],
        seconds: float,
    ) -> None:
        self._reply = reply
        self._seconds = seconds
        self._held = held
        self._end = end
        self.status_code = 200

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = 499
        try:
            # Close the parts here, because the task that sends them may be cancelled before it starts.
            async with self._held, contextlib.aclosing(self._reply.parts):  # type: ignore[type-var]
                # A client that takes its reply too slowly must not hold a place for ever.
                async with asyncio.timeout(self._seconds):
                    await _run_until_gone(receive, self._send(send))
                status = 200
        except (ClientGone, TimeoutError):
            pass
        finally:
            self._end(status)

    async def _send(self, send: Send) -> None:
        media_type = self._reply.media_type.encode()
        headers = [(b"content-type", media_type), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for part in self._reply.parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
