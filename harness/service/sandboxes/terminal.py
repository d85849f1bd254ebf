"""`/v1/sandboxes/ID/terminal`: a terminal in a sandbox over a WebSocket.

Binary messages are keys from the client, and the screen from the service. Text messages are JSON: `{"type":
"resize", "rows": R, "columns": C}` from the client, and `{"type": "exit", ...}` from the service at the end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from harness.core.invalid_values import describe_first_error
from harness.core.logger import get_logger
from harness.sandbox.streaming import Terminal
from harness.service.errors import (
    DrainingError,
    InvalidRequestError,
    ServiceError,
    encode_error,
    explain_error,
    make_error_response,
)
from harness.service.operations import read_json
from harness.service.service import Service

_LOGGER = get_logger(__name__)
# Codes from 4000 on are for applications (RFC 6455, section 7.4.2). This plus the status of HTTP is ours.
CLOSE_CODE = 4000
_OPENED = 101

Serve = Callable[[WebSocket, Service], Awaitable[None]]
"""Serves a WebSocket, which it accepts. It may raise ServiceError and HarnessError at any time."""
PATH = "/v1/sandboxes/{id}/terminal"
# The guest keeps no more keys than this for a program that does not read.
_KEY_BYTES = 16 * 1024
_SHELL = ("/bin/bash", "--login")


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


class TerminalSize(BaseModel):
    """The size of a screen, in characters."""

    model_config = ConfigDict(extra="forbid")

    rows: int = Field(default=24, ge=1, le=1000)
    columns: int = Field(default=80, ge=1, le=1000)


class TerminalQuery(TerminalSize):
    """The parameters of a terminal."""

    timeout_seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class ResizeMessage(TerminalSize):
    """The message that changes the size of the screen."""

    type: Literal["resize"]


async def serve_terminal(websocket: WebSocket, service: Service) -> None:
    """Serve a terminal until its program ends, its client goes away, or its sandbox ends.

    Raises ServiceError, and WebSocketDisconnect once the client is gone.
    """
    given = {name: value for name, value in websocket.query_params.items() if name != "argv"}
    try:
        asked = TerminalQuery.model_validate(given)
    except ValidationError as error:
        raise InvalidRequestError(describe_first_error(error), status=422) from None
    argv = websocket.query_params.getlist("argv") or list(_SHELL)
    if not argv[0].startswith("/"):
        raise InvalidRequestError("'argv' must begin with the absolute path of a program", status=422)
    async with service.sessions.use(websocket.path_params["id"]) as session:
        if not session.request.terminals:
            message = "the sandbox has no terminals; open it with 'terminals': true"
            raise InvalidRequestError(message, code="no_terminals", status=422)
        left = max(0.001, session.deadline - time.monotonic())
        timeout = left if asked.timeout_seconds is None else min(left, asked.timeout_seconds)
        opening = session.sandbox.terminal(argv, rows=asked.rows, columns=asked.columns, timeout=timeout)
        async with opening as terminal:
            await websocket.accept()
            await _connect(websocket, terminal)
            end = await terminal.end()
        await websocket.send_json({"type": "exit", "exit_code": end.exit_code, "ended": end.ended})
        await websocket.close()


async def _connect(websocket: WebSocket, terminal: Terminal) -> None:
    """Pass keys and the screen on until the program has ended. Raises as `serve_terminal` does."""
    typing = asyncio.create_task(_pass_keys(websocket, terminal))
    showing = asyncio.create_task(_pass_screen(websocket, terminal))
    try:
        await asyncio.wait((typing, showing), return_when=asyncio.FIRST_COMPLETED)
        if not showing.done():
            typing.result()
        showing.result()
    finally:
        for task in (typing, showing):
            task.cancel()
        await asyncio.gather(typing, showing, return_exceptions=True)


async def _pass_keys(websocket: WebSocket, terminal: Terminal) -> None:
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1005))
        keys = message.get("bytes")
        if keys is None:
            text = message.get("text") or ""
            size = read_json(ResizeMessage, text.encode("utf-8", "surrogatepass"))
            terminal.resize(size.rows, size.columns)
            continue
        for start in range(0, len(keys), _KEY_BYTES):
            terminal.type(keys[start : start + _KEY_BYTES])
            await terminal.drain()


async def _pass_screen(websocket: WebSocket, terminal: Terminal) -> None:
    while data := await terminal.read():
        await websocket.send_bytes(data)
