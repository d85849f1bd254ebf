"""The rules for requests of Chat Completions.

Source: https://platform.openai.com/docs/api-reference/chat/create.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.models.chat_completions import REASONING_FIELDS
from harness.models.relay.rules import (
    Notes,
    is_file_data,
    is_inline,
    keep_fields,
    list_objects,
    name_tool,
    require_list,
)

_TOP = ("parallel_tool_calls", "response_format", "function_call")
_FUNCTION = ("name", "description", "parameters", "strict")
# The program does these calls itself.
_TOOLS = {"function": _FUNCTION, "custom": ("name", "description", "format")}
_MESSAGE = (
    "role",
    "content",
    "name",
    "tool_calls",
    "tool_call_id",
    "function_call",
    "refusal",
    *REASONING_FIELDS,
)
_PARTS = {
    "text": ("type", "text", "cache_control"),
    "refusal": ("type", "refusal"),
    "image_url": ("type", "image_url"),
    "input_audio": ("type", "input_audio"),
    "file": ("type", "file"),
}
_INSIDE = {
    "image_url": ("url", "detail"),
    "input_audio": ("data", "format"),
    "file": ("file_data", "filename"),
}


def rewrite_completion(body: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    """Return the part of a request that may pass. Raises RelayError for a request without messages."""
    kept: dict[str, Any] = {
        "messages": [
            _rewrite_message(message, notes)
            for message in list_objects(require_list(body, "messages"), notes, "messages")
        ]
    }
    kept |= {name: body[name] for name in _TOP if body.get(name) is not None}
    functions = [
        keep_fields(each, _FUNCTION, notes, "functions")
        for each in list_objects(body.get("functions"), notes, "functions")
    ]
    if functions:
        kept["functions"] = functions
    tools = []
    for tool in list_objects(body.get("tools"), notes, "tools"):
        kind = str(tool.get("type"))
        inside = tool.get(kind)
        if kind not in _TOOLS or not isinstance(inside, dict):
            notes.withhold(f"tool {name_tool(tool)}")
            continue
        keep_fields(tool, ("type", kind), notes, "tools")
        tools.append({"type": kind, kind: keep_fields(inside, _TOOLS[kind], notes, "tools")})
    if tools:
        kept["tools"] = tools
    choice = body.get("tool_choice")
    if isinstance(choice, str) or (isinstance(choice, dict) and str(choice.get("type")) in _TOOLS):
        kept["tool_choice"] = choice
    elif choice is not None:
        notes.withhold("tool_choice")
    if not tools:
        kept.pop("tool_choice", None)
        kept.pop("parallel_tool_calls", None)
    return kept


def _rewrite_message(message: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    kept = keep_fields(message, _MESSAGE, notes, "messages")
    if isinstance(kept.get("content"), list):
        kept["content"] = [
            _rewrite_part(part, notes) for part in list_objects(kept["content"], notes, "content")
        ]
    elif not isinstance(kept.get("content"), str | None):
        del kept["content"]
        notes.withhold("messages.content")
    return kept


def _rewrite_part(part: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    kind = str(part.get("type"))
    kept = keep_fields(part, _PARTS.get(kind, ()), notes, "content") if kind in _PARTS else None
    if kept is not None and kind in _INSIDE:
        inside = kept.get(kind)
        inside = keep_fields(inside, _INSIDE[kind], notes, kind) if isinstance(inside, dict) else {}
        # Some servers fetch an address in any of these places.
        place = inside.get("url") if kind == "image_url" else inside.get("file_data")
        if kind == "input_audio":
            place = inside.get("data")
        if not (is_inline(place) if kind == "image_url" else is_file_data(place)):
            kept = None
        else:
            kept[kind] = inside
    if kept is None:
        notes.withhold(f"content: {kind}")
        # A message may not be empty, and the model should know that something is missing.
        return {"type": "text", "text": f"[withheld: {kind[:40]}]"}
    return kept
