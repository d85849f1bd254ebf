"""The parts of a request that may pass, as tables for each API: what no table names is withheld and recorded.

A provider offers tools, files and addresses that could lead a model to the references of a benchmark. New
ones come each month, so the tables list what passes.

Sources: https://platform.openai.com/docs/api-reference/chat/create,
https://platform.openai.com/docs/api-reference/responses/create, https://docs.anthropic.com/en/api/messages.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.models.chat_completions import REASONING_FIELDS
from harness.models.relay.errors import RelayError

MOST_NOTES = 50
_NOTE_CHARACTERS = 120
Fields = Collection[str]
PartFields = Mapping[str, Fields]
_CHAT_FIELDS = ("parallel_tool_calls", "response_format", "function_call")
_CHAT_FUNCTION = ("name", "description", "parameters", "strict")
# The program does these calls itself.
_CHAT_TOOLS = {"function": _CHAT_FUNCTION, "custom": ("name", "description", "format")}
_CHAT_MESSAGE = (
    "role",
    "content",
    "name",
    "tool_calls",
    "tool_call_id",
    "function_call",
    "refusal",
    *REASONING_FIELDS,
)
_CHAT_PARTS = {
    "text": ("type", "text", "cache_control"),
    "refusal": ("type", "refusal"),
    "image_url": ("type", "image_url"),
    "input_audio": ("type", "input_audio"),
    "file": ("type", "file"),
}
_CHAT_INSIDE = {
    "image_url": ("url", "detail"),
    "input_audio": ("data", "format"),
    "file": ("file_data", "filename"),
}
# The program does these calls itself.
_RESPONSES_TOOLS = {
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
_ITEM_PARTS = {
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
_MESSAGES_TOOL = ("type", "name", "description", "input_schema", "strict", "cache_control")
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
_BLOCK_SOURCES = {"base64": ("type", "media_type", "data"), "text": ("type", "media_type", "data")}
_TOOL_CHOICES = ("auto", "any", "tool", "none")
_MOST_DEPTH = 3


@dataclass(slots=True)
class Notes:
    """All that was taken out of a request, for the transcript."""

    withheld: list[str] = field(default_factory=list)
    # Parameters of generation with their values.
    dropped: dict[str, Any] = field(default_factory=dict)

    def withhold(self, text: str) -> None:
        """Note a part that does not pass."""
        shown = text[:_NOTE_CHARACTERS]
        if len(self.withheld) < MOST_NOTES and shown not in self.withheld:
            self.withheld.append(shown)

    def drop(self, name: str, value: Any) -> None:
        """Note a parameter of generation that the run decides."""
        is_short = value is None or isinstance(value, bool | int | float)
        self.dropped[name] = value if is_short else str(value)[:_NOTE_CHARACTERS]


def keep_fields(value: Mapping[str, Any], allowed: Fields, notes: Notes, place: str) -> dict[str, Any]:
    """Return the fields of an object that may pass. A null counts as a missing field."""
    kept = {}
    for name, each in value.items():
        if name in allowed:
            kept[name] = each
        elif each is not None:
            notes.withhold(f"{place}.{name}")
    return kept


def is_inline(url: Any) -> bool:
    """Return whether a URL holds its data itself, so that no server fetches anything."""
    return isinstance(url, str) and url[:5].lower() == "data:"


def is_file_data(data: Any) -> bool:
    """Return whether a text holds a file itself. Base64 has no colon, and every address has one."""
    return isinstance(data, str) and (is_inline(data) or ":" not in data)


def require_list(body: Mapping[str, Any], name: str) -> list[Any]:
    """Return the list in a field. Raises RelayError."""
    value = body.get(name)
    if not isinstance(value, list) or not value:
        raise RelayError(400, "invalid_request", f"'{name}' must be a list that is not empty")
    return value


def list_objects(values: Any, notes: Notes, place: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a list. Everything else is withheld."""
    for value in values if isinstance(values, list) else ():
        if isinstance(value, dict):
            yield value
        else:
            notes.withhold(f"{place}: a {type(value).__name__}")


def refuse_stored_state(body: Mapping[str, Any]) -> None:
    """Raise RelayError for a request that needs a state of the server, or that goes on by itself."""
    if body.get("store") not in (None, False):
        raise _refuse("store", "the server must keep nothing of an attempt; send `store: false`")
    if body.get("background") not in (None, False):
        raise _refuse("background", "a request must end with its attempt; leave it out")
    for name in ("previous_response_id", "conversation"):
        if body.get(name) is not None:
            text = "the server keeps no conversation of an attempt; send all messages with each request"
            raise _refuse(name, text)
    if body.get("n") not in (None, 1):
        raise _refuse("n", "each request gets one reply; send several requests")


def name_tool(tool: Mapping[str, Any]) -> str:
    """Return the name of a tool for the notes."""
    name = tool.get("name", tool.get("type"))
    return name if isinstance(name, str) else "?"


def _refuse(name: str, text: str) -> RelayError:
    return RelayError(400, f"{name}_refused", f"the relay refuses `{name}`: {text}")


def rewrite_completion(body: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    """Return the part of a request that may pass. Raises RelayError for a request without messages."""
    kept: dict[str, Any] = {
        "messages": [
            _rewrite_chat_message(message, notes)
            for message in list_objects(require_list(body, "messages"), notes, "messages")
        ]
    }
    kept |= {name: body[name] for name in _CHAT_FIELDS if body.get(name) is not None}
    functions = [
        keep_fields(each, _CHAT_FUNCTION, notes, "functions")
        for each in list_objects(body.get("functions"), notes, "functions")
    ]
    if functions:
        kept["functions"] = functions
    tools = []
    for tool in list_objects(body.get("tools"), notes, "tools"):
        kind = str(tool.get("type"))
        inside = tool.get(kind)
        if kind not in _CHAT_TOOLS or not isinstance(inside, dict):
            notes.withhold(f"tool {name_tool(tool)}")
            continue
        keep_fields(tool, ("type", kind), notes, "tools")
        tools.append({"type": kind, kind: keep_fields(inside, _CHAT_TOOLS[kind], notes, "tools")})
    if tools:
        kept["tools"] = tools
    choice = body.get("tool_choice")
    if isinstance(choice, str) or (isinstance(choice, dict) and str(choice.get("type")) in _CHAT_TOOLS):
        kept["tool_choice"] = choice
    elif choice is not None:
        notes.withhold("tool_choice")
    if not tools:
        kept.pop("tool_choice", None)
        kept.pop("parallel_tool_calls", None)
    return kept


def _rewrite_chat_message(message: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    kept = keep_fields(message, _CHAT_MESSAGE, notes, "messages")
    if isinstance(kept.get("content"), list):
        kept["content"] = [
            _rewrite_chat_part(part, notes) for part in list_objects(kept["content"], notes, "content")
        ]
    elif not isinstance(kept.get("content"), str | None):
        del kept["content"]
        notes.withhold("messages.content")
    return kept


def _rewrite_chat_part(part: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    kind = str(part.get("type"))
    kept = keep_fields(part, _CHAT_PARTS.get(kind, ()), notes, "content") if kind in _CHAT_PARTS else None
    if kept is not None and kind in _CHAT_INSIDE:
        inside = kept.get(kind)
        inside = keep_fields(inside, _CHAT_INSIDE[kind], notes, kind) if isinstance(inside, dict) else {}
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


def rewrite_response(body: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    """Return the part of a request that may pass. Raises RelayError for a request without input."""
    given = body.get("input")
    if not isinstance(given, str | list) or not given:
        raise RelayError(400, "invalid_request", "'input' must be a text or a list that is not empty")
    kept: dict[str, Any] = {"input": given if isinstance(given, str) else list(_rewrite_items(given, notes))}
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
    tools = list(_rewrite_tools(body.get("tools"), _RESPONSES_TOOLS, notes))
    if not tools:
        return kept
    kept["tools"] = tools
    if isinstance(body.get("parallel_tool_calls"), bool):
        kept["parallel_tool_calls"] = body["parallel_tool_calls"]
    choice = body.get("tool_choice")
    if isinstance(choice, str) or (isinstance(choice, dict) and str(choice.get("type")) in _RESPONSES_TOOLS):
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
        if kind == "namespace" and allowed is _RESPONSES_TOOLS:
            # No group is in a group, and a tool of the provider does not pass in one either.
            inside = {name: _RESPONSES_TOOLS[name] for name in _GROUPED}
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
                kept[name] = [_rewrite_item_part(part, notes) for part in list_objects(value, notes, name)]
            elif not isinstance(value, str | None):
                # Another form could hold an address that the rules do not find.
                del kept[name]
                notes.withhold(f"input.{name}: a {type(value).__name__}")
        yield kept


def _rewrite_item_part(part: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    kind = str(part.get("type"))
    kept = {name: value for name, value in part.items() if name in _ITEM_PARTS.get(kind, ())}
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
        tools.append(
            keep_fields(tool, _MESSAGES_TOOL if kind == "custom" else _CLIENT_FIELDS, notes, "tools")
        )
    if not tools:
        return kept
    kept["tools"] = tools
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") in _TOOL_CHOICES:
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
            allowed = _BLOCK_SOURCES.get(str(source.get("type")))
            kept = None if allowed is None else {**kept, "source": keep_fields(source, allowed, notes, kind)}
        if kept is not None and depth >= _MOST_DEPTH and isinstance(kept.get("content"), list):
            kept = None
        if kept is not None:
            _rewrite_content(kept, notes, depth + 1)
        if kept is None:
            notes.withhold(f"content: {kind}")
            kept = {"type": "text", "text": f"[withheld: {kind[:40]}]"}
        yield kept
