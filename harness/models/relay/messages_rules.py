"""The rules for requests of Anthropic's Messages API.

Source: https://docs.anthropic.com/en/api/messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from harness.models.relay.rules import Notes, keep_fields, list_objects, name_tool, require_list

_CUSTOM = ("type", "name", "description", "input_schema", "strict", "cache_control")
# The program does the calls of these tools itself, although the provider has defined them.
_CLIENT_TOOL = re.compile(r"(bash|text_editor|memory)_20\d{6}")
_CLIENT_FIELDS = ("type", "name", "cache_control", "max_characters")
_BLOCKS = {
    "text": ("type", "text", "cache_control"),
    "image": ("type", "source", "cache_control"),
    "document": ("type", "source", "title", "context", "cache_control"),
    "tool_use": ("type", "id", "name", "input", "cache_control"),
    "tool_result": ("type", "tool_use_id", "content", "is_error", "cache_control"),
    "thinking": ("type", "thinking", "signature"),
    "redacted_thinking": ("type", "data"),
}
# Other sources are addresses and files.
_SOURCES = {"base64": ("type", "media_type", "data"), "text": ("type", "media_type", "data")}
_CHOICES = ("auto", "any", "tool", "none")
_MOST_DEPTH = 3


def rewrite_messages(body: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    """Return the part of a request that may pass. Raises RelayError for a request without messages."""
    kept: dict[str, Any] = {
        "messages": [
            _rewrite_message(message, notes)
            for message in list_objects(require_list(body, "messages"), notes, "messages")
        ]
    }
    system = body.get("system")
    if isinstance(system, str):
        kept["system"] = system
    elif isinstance(system, list):
        kept["system"] = list(_rewrite_blocks(system, notes, 0))
    config = body.get("output_config")
    if isinstance(config, dict) and config.get("format") is not None:
        kept["output_config"] = {"format": config["format"]}
    tools = []
    for tool in list_objects(body.get("tools"), notes, "tools"):
        kind = str(tool.get("type") or "custom")
        if kind != "custom" and not _CLIENT_TOOL.fullmatch(kind):
            notes.withhold(f"tool {kind}: {name_tool(tool)}")
            continue
        tools.append(keep_fields(tool, _CUSTOM if kind == "custom" else _CLIENT_FIELDS, notes, "tools"))
    if not tools:
        return kept
    kept["tools"] = tools
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") in _CHOICES:
        kept["tool_choice"] = keep_fields(
            choice, ("type", "name", "disable_parallel_tool_use"), notes, "tool_choice"
        )
    elif choice is not None:
        notes.withhold("tool_choice")
    return kept


def _rewrite_message(message: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    kept = keep_fields(message, ("role", "content"), notes, "messages")
    _rewrite_content(kept, notes, 0)
    return kept


def _rewrite_content(kept: dict[str, Any], notes: Notes, depth: int) -> None:
    """Rewrite the content of a message or a block in its place. Only a text and a list of blocks may pass."""
    content = kept.get("content")
    if isinstance(content, list):
        kept["content"] = list(_rewrite_blocks(content, notes, depth))
    elif not isinstance(content, str | None):
        del kept["content"]
        notes.withhold(f"content: a {type(content).__name__}")


def _rewrite_blocks(blocks: list[Any], notes: Notes, depth: int) -> Iterator[dict[str, Any]]:
    for block in list_objects(blocks, notes, "content"):
        kind = str(block.get("type"))
        kept = keep_fields(block, _BLOCKS[kind], notes, kind) if kind in _BLOCKS else None
        if kept is not None and kind in ("image", "document"):
            source = kept.get("source")
            source = source if isinstance(source, dict) else {}
            allowed = _SOURCES.get(str(source.get("type")))
            kept = None if allowed is None else {**kept, "source": keep_fields(source, allowed, notes, kind)}
        if kept is not None and depth >= _MOST_DEPTH and isinstance(kept.get("content"), list):
            kept = None
        if kept is not None:
            _rewrite_content(kept, notes, depth + 1)
        if kept is None:
            notes.withhold(f"content: {kind}")
            kept = {"type": "text", "text": f"[withheld: {kind[:40]}]"}
        yield kept
