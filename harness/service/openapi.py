"""The description of the service in OpenAPI 3.1, built from its operations, and a page that shows it.

Source: https://spec.openapis.org/oas/v3.1.0.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from harness.core.version import __version__
from harness.service.operations import Call, Operation, RawReply

_PLACE = "#/components/schemas/{model}"
# The schema of each model, as it comes in or goes out.
_Schemas: TypeAlias = Mapping[tuple[Any, JsonSchemaMode], dict[str, Any]]
_OPEN_PART = re.compile(r"\{(\w+)(:\w+)?\}")


def describe_operations(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return the OpenAPI document of operations."""
    models: dict[tuple[type[BaseModel], JsonSchemaMode], None] = {}
    for each in operations:
        if each.request is not None:
            models[each.request, "validation"] = None
        if each.reply is not None:
            models[each.reply, "serialization"] = None
    schemas, definitions = models_json_schema(list(models), ref_template=_PLACE)
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        path = _OPEN_PART.sub(r"{\1}", each.path)
        paths.setdefault(path, {})[each.method.lower()] = _describe_operation(each, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "harness serve", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": definitions.get("$defs", {}),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _describe_operation(operation: Operation, schemas: _Schemas) -> dict[str, Any]:
    described: dict[str, Any] = {
        "summary": operation.summary,
        "operationId": f"{operation.method} {operation.path}",
    }
    names = [match.group(1) for match in _OPEN_PART.finditer(operation.path)]
    text = {"schema": {"type": "string"}}
    parameters = [{"name": name, "in": "path", "required": True, **text} for name in names]
    parameters += [
        {"name": name, "in": "query", "description": meaning, **text}
        for name, meaning in operation.query.items()
    ]
    if parameters:
        described["parameters"] = parameters
    if operation.request is not None:
        schema = schemas[(operation.request, "validation")]
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    elif operation.takes_bytes:
        described["requestBody"] = {"required": True, "content": {"application/octet-stream": {}}}
    reply = {} if operation.reply is None else schemas[(operation.reply, "serialization")]
    content = {operation.media_type: {"schema": reply} if reply else {}}
    if operation.stream_type is not None:
        content[operation.stream_type] = {}
    described["responses"] = {
        str(operation.status): {"description": "the reply", "content": content},
        "default": {"description": "an error: {error: {code, message}}"},
    }
    if operation.is_public:
        described["security"] = []
    return described


def make_description_operations(described: Sequence[Operation]) -> tuple[Operation, ...]:
    """Return the operations that describe these operations, as JSON and as a page."""
    document = describe_operations(described)
    text = json.dumps(document, indent=1).encode()
    page = _render_page(document).encode()

    async def send_document(_request: None, _call: Call) -> RawReply:
        return RawReply(text, "application/json")

    async def send_page(_request: None, _call: Call) -> RawReply:
        headers = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'"}
        return RawReply(page, "text/html; charset=utf-8", headers=headers)

    summary, name = "Show the operations on a page.", "docs"
    return (
        Operation("GET", "/openapi.json", "Describe the service in OpenAPI 3.1.", send_document),
        # The printed URL leads to the page.
        *(
            Operation("GET", path, summary, send_page, media_type="text/html", name=name)
            for path in ("/", "/docs")
        ),
    )


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
