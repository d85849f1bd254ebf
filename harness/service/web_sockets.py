"""WebSockets of the service: refused with a status before they open, or closed with a reason."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from harness.core.logger import get_logger
from harness.service.errors import (
    DrainingError,
    ServiceError,
    encode_error,
    explain_error,
    make_error_response,
)
from harness.service.service import Service

_LOGGER = get_logger(__name__)
# Codes from 4000 on are for applications (RFC 6455, section 7.4.2). This plus the status of HTTP is ours.
CLOSE_CODE = 4000
_OPENED = 101

Serve = Callable[[WebSocket, Service], Awaitable[None]]
"""Serves a WebSocket, which it accepts. It may raise ServiceError and HarnessError at any time."""


def make_socket_route(path: str, label: str, service: Service, serve: Serve) -> WebSocketRoute:
    """Return the route of a WebSocket.

    An error before the WebSocket is open is a reply of HTTP, as for every other operation. After that it is
    a text message with the same JSON, and the close code is 4000 plus its status.

    Args:
        path: the path, with open parts in braces.
        label: the name in metrics and logs.
        service: the open service.
        serve: serves one WebSocket.
    """

    async def endpoint(websocket: WebSocket) -> None:
        started = time.monotonic()
        status = _OPENED
        try:
            if service.draining.is_set():
                raise DrainingError
            await serve(websocket, service)
        except Exception as error:
            if not _is_gone(websocket, error):
                refusal = explain_error(error)
                status = refusal.status
                await _refuse(websocket, refusal)
        service.metrics.requests.labels(label, str(status)).inc()
        seconds = round(time.monotonic() - started, 4)
        _LOGGER.info("request", extra={"operation": label, "status": status, "seconds": seconds})

    return WebSocketRoute(path, endpoint)


def _is_gone(websocket: WebSocket, error: Exception) -> bool:
    """Return whether an error only means that the client has closed the WebSocket."""
    if isinstance(error, WebSocketDisconnect | OSError):
        return True
    # Starlette raises it for a message on a WebSocket that either side has closed.
    states = (websocket.client_state, websocket.application_state)
    return isinstance(error, RuntimeError) and WebSocketState.DISCONNECTED in states


async def _refuse(websocket: WebSocket, error: ServiceError) -> None:
    try:
        if websocket.application_state is WebSocketState.CONNECTING:
            if websocket.client_state is WebSocketState.CONNECTING:
                await websocket.receive()
            content = make_error_response(error)
            await websocket.send_denial_response(content)
        elif websocket.application_state is WebSocketState.CONNECTED:
            await websocket.send_text(encode_error(error).decode())
            await websocket.close(CLOSE_CODE + error.status, error.code)
    except Exception as failure:
        if not _is_gone(websocket, failure):
            raise
