"""The names that an agent sees for the tools of servers."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.core.inputs.json_text import count_values
from harness.core.text import shorten
from harness.core.tools import ForeignTool

MAX_SCHEMA_CHARACTERS = 64 * 1024
# The package jsonschema takes a tenth of a millisecond for each part of a schema, and compares the items of
# some lists each with each.
MAX_SCHEMA_VALUES = 5_000
MAX_LIST_ITEMS = 1_000
# The schemas whose faults are remembered, because each attempt lists the same ones.
_REMEMBERED_SCHEMAS = 1024
# The names that the APIs of models take.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_OTHER = re.compile(r"[^A-Za-z0-9_-]")
MAX_NAME = 64
# The longest name that a server may give a tool. Records and summaries have the names of tools as keys.
MAX_OWN_NAME = 200
MAX_DESCRIPTION = 8192


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool as its server lists it. `schema` is the schema of its arguments, or its fault as a text."""

    name: str
    description: str
    schema: dict[str, Any] | str


async def read_tools(tools: Sequence[Any]) -> list[ListedTool]:
    """Return tools of the package with their schemas checked, in a thread, because a check takes long.

    A cancelled call ends the thread after its present schema.
    """
    stop = threading.Event()
    try:
        return await asyncio.to_thread(_read_all, tools, stop)
    finally:
        stop.set()


def _read_all(tools: Iterable[Any], stop: threading.Event) -> list[ListedTool]:
    listed = []
    for tool in tools:
        if stop.is_set():
            break
        listed.append(ListedTool(tool.name, tool.description or "", clean_schema(tool.input_schema)))
    return listed


def clean_schema(schema: Any) -> dict[str, Any] | str:
    """Return a schema of arguments that every part of harness and every API can read, or its fault."""
    try:
        text = json.dumps(schema, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        return f"its schema is not valid: {shorten(str(error), 200)}"
    # A longer text is not remembered.
    if len(text) > MAX_SCHEMA_CHARACTERS:
        return f"its schema is longer than {MAX_SCHEMA_CHARACTERS:,} characters"
    fault = _find_fault(text)
    if fault is not None:
        return fault
    cleaned: dict[str, Any] = json.loads(text)
    # `true` is a schema, but no API of a model takes it for an argument.
    properties = {
        name: each if isinstance(each, dict) else {} for name, each in cleaned.get("properties", {}).items()
    }
    required = [name for name in cleaned.get("required", []) if name in properties]
    return {**cleaned, "type": "object", "properties": properties, "required": required}


@functools.lru_cache(maxsize=_REMEMBERED_SCHEMAS)
def _find_fault(text: str) -> str | None:
    """Return why a schema cannot be used, None if it can be."""
    from jsonschema import Draft202012Validator, SchemaError

    if count_values(text.encode()) > MAX_SCHEMA_VALUES:
        return f"its schema has more than {MAX_SCHEMA_VALUES:,} values"
    schema = json.loads(text)
    if _has_long_list(schema):
        return f"its schema has a list of more than {MAX_LIST_ITEMS:,} items"
    try:
        Draft202012Validator.check_schema(schema)
    except (SchemaError, RecursionError) as error:
        return f"its schema is not valid: {shorten(str(error).splitlines()[0], 200)}"
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return "its schema is not one of an object"
    return None


def _has_long_list(schema: Any) -> bool:
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list) and len(value) > MAX_LIST_ITEMS:
            return True
        waiting += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return False


@dataclass(frozen=True, slots=True)
class NamedTool:
    """A tool of a server, and the tool as the agent sees it."""

    server: str
    name: str
    tool: ForeignTool


def prefix_name(server: str, name: str) -> str:
    """Return the name `mcp__SERVER__TOOL`, which every API of a model takes."""
    full = _OTHER.sub("_", f"mcp__{server}__{name}")
    if len(full) <= MAX_NAME:
        return full
    return f"{full[: MAX_NAME - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def name_tools(
    listed: Mapping[str, Sequence[ListedTool]], taken: Collection[str]
) -> tuple[list[NamedTool], list[tuple[str, str, str]]]:
    """Return the tools as an agent sees them, and (server, tool, reason) of each that is left out.

    A tool keeps its name unless the environment or another server also has it, or no API takes it.

    Args:
        listed: the tools of each server by its name, as the servers list them.
        taken: the names of the environment's own tools.
    """
    counts = Counter(tool.name for tools in listed.values() for tool in tools)
    used = set(taken)
    named: list[NamedTool] = []
    left_out: list[tuple[str, str, str]] = []
    for server, tools in listed.items():
        for tool in tools:
            keeps = counts[tool.name] == 1 and tool.name not in taken and _NAME.fullmatch(tool.name)
            name = tool.name if keeps else prefix_name(server, tool.name)
            if name in used:
                left_out.append((server, shorten(tool.name, 100), "another tool has its name"))
            elif len(tool.name) > MAX_OWN_NAME:
                reason = f"its name is longer than {MAX_OWN_NAME} characters"
                left_out.append((server, shorten(tool.name, 100), reason))
            elif isinstance(tool.schema, str):
                left_out.append((server, shorten(tool.name, 100), tool.schema))
            else:
                used.add(name)
                encodable = tool.description.encode("utf-8", "backslashreplace").decode()
                description = shorten(encodable, MAX_DESCRIPTION)
                named.append(NamedTool(server, tool.name, ForeignTool.make(name, description, tool.schema)))
    return named, left_out


def name_aliases(named: Sequence[NamedTool], taken: Collection[str]) -> dict[str, str]:
    """Return the long names of tools that have a short one, and the short name of each.

    A long name that two tools share leads to neither, such as the name of `b__find` of the server `a`,
    which `find` of the server `a__b` also has. `taken` has the names that lead to other tools.
    """
    longs = [(prefix_name(each.server, each.name), each.tool.name) for each in named]
    counts = Counter(alias for alias, _ in longs)
    used = {*taken, *(each.tool.name for each in named)}
    return {alias: name for alias, name in longs if counts[alias] == 1 and alias not in used}
