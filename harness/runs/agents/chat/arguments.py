"""The tool and the arguments that a call means, from its name and its arguments as the model wrote them.

Models and servers put a prefix before a name, encode arguments twice, and send a list for a text that holds
one. The environment would refuse such a call, although only one meaning is possible.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from harness.core.tools import Tool

# Python needs much memory for a deep expression, and no call has such a long one.
MOST_LITERAL_CHARACTERS = 50_000
_MOST_ENCODINGS = 3
_CALL_NUMBER = re.compile(r":\d{1,6}\Z")
_PREFIX = re.compile(r"\A.{0,200}[.:/]", re.DOTALL)
_TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
_CONSTANTS = {"true": True, "false": False, "null": None}
_DECODER = json.JSONDecoder(strict=False)


def find_tool_name(name: str, tools: Iterable[str]) -> str:
    """Return the name of the tool that a call means, or the name unchanged if no tool matches.

    `functions.bash`, `functions.bash:0` and `default_api:bash` are forms of `bash`.
    """
    known = {each.casefold(): each for each in tools}
    name = name.strip()
    for each in (name, numberless := _CALL_NUMBER.sub("", name), _PREFIX.sub("", numberless)):
        if (found := known.get(each.casefold())) is not None:
            return found
    return name


def decode_arguments(arguments: Any) -> Any:
    """Return arguments from their JSON, also if it is the JSON of a text that holds JSON.

    Raises ValueError and RecursionError for a text that is not JSON.
    """
    for _ in range(_MOST_ENCODINGS):
        if not isinstance(arguments, str):
            break
        arguments = _DECODER.decode(arguments)
    return arguments


def fit_arguments(arguments: Mapping[str, Any], tool: Tool | None) -> dict[str, Any]:
    """Return arguments with the types of a tool's schema, where the value has another type.

    A list, an object, a number or a truth value for a text becomes its JSON. A text for one of these becomes
    its value, if it holds one of the right type. Any other value stays as it is for the environment to judge.
    """
    properties = {} if tool is None else tool.parameters.get("properties", {})
    return {name: _fit(value, properties.get(name)) for name, value in arguments.items()}


def read_literal(text: str) -> Any:
    """Return the value of a Python literal. `true`, `false` and `null` are read as in JSON.

    Nothing is carried out. Raises ValueError for any other text, and for a text that is too long.
    """
    return evaluate_literal(parse_expression(text))


def parse_expression(text: str) -> ast.expr:
    """Return the syntax tree of a short Python expression. Raises ValueError for any other text."""
    if len(text) > MOST_LITERAL_CHARACTERS:
        raise ValueError(f"longer than {MOST_LITERAL_CHARACTERS:,} characters")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"not an expression: {error}") from None


def evaluate_literal(node: ast.expr) -> Any:
    """Return the value of a literal in a syntax tree. Raises ValueError if it is anything else."""
    try:
        return ast.literal_eval(_Constants().visit(node))
    except (TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"not a literal: {error}") from None


class _Constants(ast.NodeTransformer):
    """Replaces the names of JSON's constants."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(_CONSTANTS[node.id]) if node.id in _CONSTANTS else node


def _fit(value: Any, schema: Any) -> Any:
    wanted = _list_types(schema)
    own = _TYPES.get(type(value))
    if not wanted or own is None or own in wanted or (own == "integer" and "number" in wanted):
        return value
    if "string" in wanted:
        try:
            return json.dumps(value, ensure_ascii=False)
        except (ValueError, TypeError, RecursionError):
            return value
    if not isinstance(value, str):
        return value
    for read in (_DECODER.decode, read_literal):
        try:
            found = read(value)
        except (ValueError, RecursionError):
            continue
        kind = _TYPES.get(type(found))
        if kind in wanted or (kind == "integer" and "number" in wanted):
            return found
    return value


def _list_types(schema: Any) -> set[str]:
    """Return the types that a schema allows, none if they are not plain."""
    if not isinstance(schema, Mapping):
        return set()
    types: set[str] = set()
    for each in (schema, *schema.get("anyOf", ()), *schema.get("oneOf", ())):
        named = each.get("type") if isinstance(each, Mapping) else None
        types.update([named] if isinstance(named, str) else named if isinstance(named, list) else ())
    return types
