"""The description of the service in OpenAPI 3.1, and a page that shows it.

Source: https://spec.openapis.org/oas/v3.1.0.
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from typing import Any, cast

from fastapi import Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse

from harness.core.version import __version__
from harness.service.operations import Called, OperationRoute, make_router


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
