"""The rules for requests of the Responses API.

Source: https://platform.openai.com/docs/api-reference/responses/create.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.models.relay.errors import RelayError
from harness.models.relay.rules import (
    Notes,
    PartFields,
    is_file_data,
    is_inline,
    keep_fields,
    list_objects,
    name_tool,
)

# The program does these calls itself.
_TOOLS = {
    "function": ("type", "name", "description", "parameters", "strict"),
    "custom": ("type", "name", "description", "format"),
    "local_shell": ("type",),
    "apply_patch": ("type",),
}
# A group of functions and custom tools, such as the tools of one of the program's MCP servers.
_NAMESPACE = ("type", "name", "description", "tools")
_GROUPED = ("function", "custom")
_CALL = ("type", "id", "call_id", "status")
_ITEMS = {
    "message": ("type", "id", "role", "content", "status", "phase"),
    "function_call": (*_CALL, "name", "namespace", "arguments"),
    "function_call_output": (*_CALL, "output"),
    "custom_tool_call": (*_CALL, "name", "namespace", "input"),
    "custom_tool_call_output": (*_CALL, "output"),
    "local_shell_call": (*_CALL, "action"),
    "local_shell_call_output": (*_CALL, "output"),
    "apply_patch_call": (*_CALL, "operation"),
    "apply_patch_call_output": (*_CALL, "output"),
    "reasoning": ("type", "id", "summary", "content", "encrypted_content", "status"),
}
_PARTS = {
    "input_text": ("type", "text"),
    # Annotations name files and addresses of the server.
    "output_text": ("type", "text"),
    "text": ("type", "text"),
    "refusal": ("type", "refusal"),
    "summary_text": ("type", "text"),
    "reasoning_text": ("type", "text"),
    "input_image": ("type", "image_url", "detail"),
    "input_file": ("type", "filename", "file_data"),
}
# Without it, reasoning cannot be sent back to a server that keeps nothing.
_INCLUDED = "reasoning.encrypted_content"


def rewrite_response(body: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    """Return the part of a request that may pass. Raises RelayError for a request without input."""
    given = body.get("input")
    if not isinstance(given, str | list) or not given:
        raise RelayError(400, "invalid_request", "'input' must be a text or a list that is not empty")
    kept: dict[str, Any] = {
        "input": given if isinstance(given, str) else list(_rewrite_items(given, notes)),
    }
    if isinstance(body.get("instructions"), str):
        kept["instructions"] = body["instructions"]
    text = body.get("text")
    if isinstance(text, dict) and text.get("format") is not None:
        kept["text"] = {"format": text["format"]}
    included = body.get("include")
    for each in included if isinstance(included, list) else ():
        if each == _INCLUDED:
            kept["include"] = [_INCLUDED]
        else:
            notes.withhold(f"include {each}")
    tools = list(_rewrite_tools(body.get("tools"), _TOOLS, notes))
    if not tools:
        return kept
    kept["tools"] = tools
    if isinstance(body.get("parallel_tool_calls"), bool):
        kept["parallel_tool_calls"] = body["parallel_tool_calls"]
    choice = body.get("tool_choice")
    if isinstance(choice, str) or (isinstance(choice, dict) and str(choice.get("type")) in _TOOLS):
        kept["tool_choice"] = choice
    elif choice is not None:
        notes.withhold("tool_choice")
    return kept


def _rewrite_tools(tools: Any, allowed: PartFields, notes: Notes) -> Iterator[dict[str, Any]]:
    for tool in list_objects(tools, notes, "tools"):
        kind = str(tool.get("type"))
        if kind in allowed:
            yield keep_fields(tool, allowed[kind], notes, "tools")
            continue
        grouped: list[dict[str, Any]] = []
        if kind == "namespace" and allowed is _TOOLS:
            # No group is in a group, and a tool of the provider does not pass in one either.
            inside = {name: _TOOLS[name] for name in _GROUPED}
            grouped = list(_rewrite_tools(tool.get("tools"), inside, notes))
        if grouped:
            yield {**keep_fields(tool, _NAMESPACE, notes, "tools"), "tools": grouped}
        else:
            notes.withhold(f"tool {tool.get('type')}: {name_tool(tool)}")


def _rewrite_items(items: list[Any], notes: Notes) -> Iterator[dict[str, Any]]:
    for item in list_objects(items, notes, "input"):
        kind = str(item.get("type") or "message")
        allowed = _ITEMS.get(kind)
        if allowed is None:
            notes.withhold(f"input: {kind}")
            continue
        kept = keep_fields(item, allowed, notes, "input")
        for name in ("content", "output", "summary"):
            value = kept.get(name)
            if isinstance(value, list):
                kept[name] = [_rewrite_part(part, notes) for part in list_objects(value, notes, name)]
            elif not isinstance(value, str | None):
                # Another form could hold an address that the rules do not find.
                del kept[name]
                notes.withhold(f"input.{name}: a {type(value).__name__}")
        yield kept


def _rewrite_part(part: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    kind = str(part.get("type"))
    kept = {name: value for name, value in part.items() if name in _PARTS.get(kind, ())}
    # The server repeats its own parts with empty lists, which the notes need not have.
    lost = sorted(name for name in part.keys() - kept.keys() if part[name] not in (None, [], {}))
    data = kept.get("image_url" if kind == "input_image" else "file_data")
    is_remote = (kind == "input_image" and not is_inline(data)) or (
        kind == "input_file" and not is_file_data(data)
    )
    if is_remote or not kept:
        notes.withhold(f"content: {kind}")
        return {"type": "input_text", "text": f"[withheld: {kind[:40]}]"}
    for name in lost:
        notes.withhold(f"{kind}.{name}")
    return {**kept, "annotations": []} if kind == "output_text" else kept
