"""The app of the service: it lets a request in, leads it to its operation, and describes all operations.

A client sends the token as a header, or as the first part of the path. The description is OpenAPI 3.1, with a
page that shows it. Source: https://spec.openapis.org/oas/v3.1.0.
"""

from __future__ import annotations

import hmac
import html
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse
from starlette.routing import WebSocketRoute

from harness.core.errors import UsageError
from harness.core.version import __version__
from harness.service.errors import InvalidRequestError, ServiceError, make_error_response
from harness.service.operations import Called, OperationRoute, make_router, require_own_origin
from harness.service.service import Service

if TYPE_CHECKING:
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Receive, Scope, Send
    from starlette.websockets import WebSocket

MIN_TOKEN_CHARACTERS = 16
# The characters that need no escape in a URL (RFC 3986, section 2.3).
_USABLE = re.compile(r"[A-Za-z0-9._~-]+")
# The paths that OpenAPI cannot describe.
_OTHER_PATHS = (
    ("/v1/sandboxes/{id}/terminal", "A terminal in a sandbox, over a WebSocket."),
    ("/v1/sandboxes/{id}/mcp", "The tools of a sandbox, over the Model Context Protocol."),
    ("/mcp", "A sandbox for each session of the Model Context Protocol."),
    ("/ws", "A task of a loaded benchmark, over a WebSocket in the protocol of OpenEnv."),
)
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "code,pre{font:14px/1.45 ui-monospace,monospace}pre{overflow:auto;padding:.75rem;background:#8881}"
    "summary{cursor:pointer}@media(prefers-color-scheme:dark){body{background:#111;color:#eee}}"
)


def make_token() -> str:
    """Return a random token, which needs no escape in a URL."""
    return secrets.token_urlsafe(32)


@dataclass(frozen=True, slots=True)
class Admission:
    """A request that may enter: the path behind the token, and whose share of the service it uses."""

    path: str
    client: str


def admit(token: str, path: str, headers: Mapping[str, str], address: str) -> Admission:
    """Return the admission of a request.

    Several clients of code sandboxes take a URL and send no header, so the token may also be the first part
    of the path: `/TOKEN/run_code`. Further slashes before the token and behind it do not count, because a
    base URL with a slash at its end is common, and clients take a 404 for a wrong answer. Each comparison
    takes the same time for every wrong token.

    Args:
        token: the token of the service.
        path: the path of the request.
        headers: its headers, with names in lower case.
        address: the address of the client.

    Raises:
        ServiceError: 401 for a request without the token.
    """
    path = f"/{path.lstrip('/')}"
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and _is_same(bearer.strip(), token):
        first, _, rest = path.removeprefix("/").partition("/")
        # A client may be configured with both.
        return Admission(f"/{rest.lstrip('/')}" if _is_same(first, token) else path, address)
    first, _, rest = path.removeprefix("/").partition("/")
    if _is_same(first, token):
        return Admission(f"/{rest.lstrip('/')}", address)
    raise ServiceError(
        401,
        "unauthorized",
        "the token of the service is missing or wrong: send 'Authorization: Bearer TOKEN', or put the token "
        "before the path, as in /TOKEN/run_code",
    )


def _is_same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), token.encode())


def require_usable_token(token: str) -> None:
    """Raise UsageError for a token that is easy to guess, or that cannot be part of a URL."""
    if len(token) < MIN_TOKEN_CHARACTERS:
        raise UsageError(
            f"the token has {len(token)} characters, and needs at least {MIN_TOKEN_CHARACTERS}",
            hint="leave --token and HARNESS_SERVE_TOKEN out to get a random one",
        )
    if not _USABLE.fullmatch(token):
        raise UsageError(
            "the token has characters that a URL cannot have",
            hint="use letters, digits, and the characters - . _ ~",
        )


def describe_operations(operations: Sequence[OperationRoute]) -> dict[str, Any]:
    """Return the OpenAPI document of operations."""
    document = get_openapi(title="harness serve", version=__version__, routes=operations)
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"token": []}]
    return document


def describe(operations: Sequence[OperationRoute]) -> list[OperationRoute]:
    """Return the operations that describe these operations, as JSON and as a page."""
    document = describe_operations(operations)
    text = json.dumps(document, indent=1)
    page = _render_page(document)
    router = make_router()

    @router.get("/openapi.json", response_model=None, name="openapi.json")
    async def send_document(call: Called) -> Response:
        return Response(text, media_type="application/json")

    # The printed URL leads to the page.
    @router.get("/", response_model=None, name="docs")
    @router.get("/docs", response_model=None, name="docs")
    async def send_page(call: Called) -> Response:
        headers = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'"}
        return HTMLResponse(page, headers=headers)

    return [cast(OperationRoute, each) for each in router.routes]


def _render_page(document: dict[str, Any]) -> str:
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        '<meta name=viewport content="width=device-width"><title>harness serve</title>',
        f"<style>{_STYLE}</style><h1>harness serve {html.escape(__version__)}</h1>",
        "<p>Send the token as <code>Authorization: Bearer TOKEN</code>, or put it before the path. "
        "<code>/openapi.json</code> describes the operations for programs.</p>",
    ]
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            parts.append(f"<h2><code>{method.upper()} {html.escape(path)}</code></h2>")
            parts.append(f"<p>{html.escape(described['summary'])}</p>")
            reply = next(iter(described["responses"].values()))
            for title, part in (("Request", described.get("requestBody", {})), ("Reply", reply)):
                for content in part.get("content", {}).values():
                    if "schema" in content:
                        parts.append(_render_details(title, _resolve(content["schema"], document)))
    for path, summary in _OTHER_PATHS:
        parts.append(f"<h2><code>{html.escape(path)}</code></h2><p>{html.escape(summary)}</p>")
    # A request names the types of its fields by `$ref`.
    parts.append("<h2>Types</h2>")
    for name, schema in document["components"]["schemas"].items():
        parts.append(_render_details(name, schema))
    return "".join(parts)


def _render_details(title: str, schema: Any) -> str:
    text = html.escape(json.dumps(schema, indent=1))
    return f"<details><summary>{html.escape(title)}</summary><pre>{text}</pre></details>"


def _resolve(schema: dict[str, Any], document: dict[str, Any]) -> Any:
    name = schema.get("$ref", "").rpartition("/")[2]
    return document["components"]["schemas"].get(name, schema)


def make_service_app(
    service: Service, token: str, operations: Sequence[OperationRoute], routes: Sequence[BaseRoute] = ()
) -> ASGIApp:
    """Return the app of a service.

    Args:
        service: the open service.
        token: the token that a client must send. Only public operations need none.
        operations: the operations over HTTP.
        routes: further routes, such as WebSockets. The app has checked the token before.
    """
    app = FastAPI(
        routes=[*operations, *routes, WebSocketRoute("/{path:path}", _refuse_socket)],
        # The operations describe themselves, and a redirect would name a path without the token, at the host
        # that the client names.
        openapi_url=None,
        redirect_slashes=False,
        exception_handlers={404: _refuse_path, 405: _refuse_method},
    )
    return _Gate(app, service, token, operations)


async def _refuse_path(request: Request, _error: Exception) -> Response:
    error = InvalidRequestError(
        f"the service has no path {request.url.path!r}; /docs lists all", code="unknown_path", status=404
    )
    return make_error_response(error)


async def _refuse_method(request: Request, error: Exception) -> Response:
    refusal = InvalidRequestError(
        f"{request.url.path!r} takes no {request.method}; /docs lists its methods",
        code="unknown_method",
        status=405,
    )
    response = make_error_response(refusal)
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
    """Lets in a request that has the token, and gives its app the path without it.

    Args:
        app: the app behind the gate.
        service: the open service.
        token: the token of the service.
        operations: all operations. A request whose path has no open part gets to its operation without a
            search through all routes, because most requests name one of a few paths.
    """

    def __init__(
        self, app: ASGIApp, service: Service, token: str, operations: Sequence[OperationRoute]
    ) -> None:
        self._app = app
        self._service = service
        self._token = token
        self._public = {each.path for each in operations if each.is_public}
        self._direct = {
            (method, each.path): each.answer
            for each in operations
            for method in each.methods or ()
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
        method = scope.get("method", "")
        if path.endswith("/") and (method, path.rstrip("/")) in self._direct:
            path = path.rstrip("/")
        # Nothing behind this place sees the token, so that no log and no error can show it.
        inner = {**scope, "path": path, "raw_path": path.encode("utf-8", "surrogatepass"), "root_path": ""}
        inner["headers"] = [pair for pair in scope["headers"] if pair[0] != b"authorization"]
        headers.pop("authorization", None)
        state = {"service": self._service, "client": client, "headers": headers}
        inner["state"] = {**scope.get("state", {}), **state}
        answer = self._direct.get((method, path))
        app = self._app if answer is None else await answer(Request(inner, receive))
        await app(inner, receive, send)


async def _refuse(scope: Scope, receive: Receive, send: Send, error: ServiceError) -> None:
    if scope["type"] == "websocket":
        await receive()
        if "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008, "reason": error.code})
            return
    await make_error_response(error)(scope, receive, send)
