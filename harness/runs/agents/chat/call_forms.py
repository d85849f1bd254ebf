"""Read a tool call in any of the forms that models write, from a place where one may begin.

The chat templates of models differ in the marks around a call more than in the call itself. It is JSON,
elements of XML, a name and JSON, a name and pairs, or a call of a Python function. So a call is read in any
of these forms after any mark. Nothing is carried out, and literals of Python are read by `ast.literal_eval`.

Models and servers also put a prefix before a name, encode arguments twice, and send a list for a text that
holds one. The environment would refuse such a call, although only one meaning is possible.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.core.tools import TextCall, Tool

# Python needs much memory for a deep expression, and no call has such a long one.
MOST_LITERAL_CHARACTERS = 50_000
_MOST_ENCODINGS = 3
_CALL_NUMBER = re.compile(r":\d{1,6}\Z")
_PREFIX = re.compile(r"\A.{0,200}[.:/]", re.DOTALL)
_TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
_CONSTANTS = {"true": True, "false": False, "null": None}
_DECODER = json.JSONDecoder(strict=False)
TOKEN = r"<[|｜][^<>|｜\n]{1,60}[|｜]>"
ELEMENT = r"(?:[\w-]{1,20}:|[|｜]DSML[|｜])?"
"""The start of a name in XML, such as `minimax:`."""
_WRAPPER = r"(?:tool_?calls?|function_?calls?)"
FRAME = rf"{TOKEN}|</?{ELEMENT}(?:{_WRAPPER}|function|invoke|tool)>|\[/?TOOL_CALLS\]"
"""The marks of templates around and between calls."""
# Between two calls, and between the marks of a list of calls and its first one.
_BETWEEN = re.compile(rf"(?:[\s;,]|{FRAME}){{0,200}}+", re.IGNORECASE)
# The marks that end a call, but not the element of a function, which may be one of several in a call.
_ENDING = re.compile(
    rf"</{ELEMENT}(?:{_WRAPPER}|tool)>|<[|｜][^<>|｜\n]{{0,60}}end[^<>|｜\n]{{0,60}}[|｜]>|\[/TOOL_CALLS\]",
    re.I,
)
_MARK = re.compile(rf"{FRAME}|functools|to=", re.IGNORECASE)
# Some models put the JSON after a mark into a block.
_FENCE = re.compile(r"\s*`{3,}\w{0,20}[ \t]*\n")
_FENCE_END = re.compile(r"\s*`{3,}")
_NAME_VALUE = r"[\"']?(?P<name>[\w.:/-]{1,200})[\"']?"
_FUNCTION = re.compile(
    rf"<{ELEMENT}(?:function(?:=|\s+name=)|invoke\s+name=){_NAME_VALUE}[^<>]{{0,100}}>", re.I
)
_FUNCTION_END = re.compile(rf"\s*</{ELEMENT}(?:function|invoke|tool_?call)", re.IGNORECASE)
_PARAMETER = re.compile(rf"\s*<{ELEMENT}parameter(?:=|\s+name=){_NAME_VALUE}[^<>]{{0,100}}>", re.IGNORECASE)
_PARAMETER_END = re.compile(rf"</{ELEMENT}parameter>", re.IGNORECASE)
_KEY = re.compile(r"\s*<arg_key>\s*(?P<name>[\w.:-]{1,200})\s*</arg_key>\s*<arg_value>")
_VALUE_END = "</arg_value>"
_NAME = re.compile(r"(?:function\s*<[|｜]tool[▁_]sep[|｜]>)?\s*(?P<name>[A-Za-z_][\w.:/-]{0,200}+)")
# Between a name and its arguments. gpt-oss names the form of the arguments, and DeepSeek puts a block there.
_BEFORE_JSON = re.compile(
    rf"(?:\s|{TOKEN}|\[CALL_ID\][\w-]{{1,100}}|\[ARGS\]|`{{3,}}(?:json)?[ \t]*\n"
    r"|(?:json|code|commentary)\b)*+"
)
_END = re.compile(rf"\s*(?:</|{TOKEN})")
_NAMES, _ARGUMENTS = ("name", "tool_name", "tool"), ("arguments", "parameters", "args", "input")
_PIECES = re.compile(r"\"(?:\\.|[^\"\\])*+\"|'(?:\\.|[^'\\])*+'|[\[\](){}]", re.DOTALL)
_OPENING_BRACKETS = frozenset("[({")
Read = tuple[list[TextCall], int]
"""The calls that were read, and the position after them."""


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


@dataclass(frozen=True, slots=True)
class Group:
    """Calls that follow each other in one form, and the position after them."""

    calls: list[TextCall]
    end: int
    # The last mark before a call, and the kind of text in it.
    form: tuple[str, str] = ("", "")


def read_calls(text: str, start: int, tools: Mapping[str, Tool], mark: str = "") -> Group:
    """Return the calls that follow each other in one form at `start`, right behind the text `mark`."""
    calls: list[TextCall] = []
    fence = _FENCE.match(text, start)
    end = start if fence is None else fence.end()
    form = ("", "")
    while True:
        found = _BETWEEN.match(text, end)
        position = end if found is None else found.end()
        between = text[end:position]
        opener = _find_opener(between) or ("" if calls and _ENDING.search(between) else form[0])
        here = (opener if calls else opener or _find_opener(mark), _find_kind(text, position))
        if calls and here != form:
            break
        read = _read_call(text, position, tools)
        if read is None:
            break
        more, end = read
        if not more:
            break
        form = here
        calls += more
    if fence is not None and (closing := _FENCE_END.match(text, end)):
        end = closing.end()
    return Group(calls, end, form)


def _find_opener(marks: str) -> str:
    """Return the last mark that ends nothing."""
    found = [each.lower() for each in _MARK.findall(marks) if each[:2] != "</" and not _ENDING.match(each)]
    return found[-1] if found else ""


def _find_kind(text: str, position: int) -> str:
    if text[position : position + 1] in ("{", "["):
        return "json"
    return "elements" if _FUNCTION.match(text, position) else "name"


def read_expression(text: str, tools: Mapping[str, Tool]) -> list[TextCall]:
    """Return the calls in a text that is one expression of Python as a whole, else nothing."""
    try:
        tree = parse_expression(text)
        # A comment behind the expression is a text behind the call.
        last = text.strip().split("\n")[(tree.end_lineno or 1) - 1 :]
        if len(last) != 1 or last[0].encode()[tree.end_col_offset or 0 :].strip():
            return []
        nodes = tree.elts if isinstance(tree, ast.List | ast.Tuple) else [tree]
        return [_read_node(node, tools) for node in nodes]
    except ValueError:
        return []


def _read_call(text: str, position: int, tools: Mapping[str, Tool]) -> Read | None:
    if text[position : position + 1] in ("{", "["):
        return _read_json(text, position, tools)
    if function := _FUNCTION.match(text, position):
        return _read_elements(text, function, tools)
    named = _NAME.match(text, position)
    if named is None:
        return None
    if text[named.end() : named.end() + 1] == "(":
        return _read_python(text, position, tools)
    tool = find_tool_name(named["name"], tools)
    if tool not in tools:
        return None
    if _KEY.match(text, named.end()):
        return _read_pairs(text, named.end(), tool, tools)
    before = _BEFORE_JSON.match(text, named.end())
    start = named.end() if before is None else before.end()
    if text[start : start + 1] == "{":
        read = _read_value(text, start)
        if read is None or not isinstance(read[0], dict):
            return None
        end = _skip_fence_end(text, read[1], text[named.end() : start])
        return [TextCall(tool, fit_arguments(read[0], tools[tool]))], end
    return ([TextCall(tool, {})], named.end()) if _END.match(text, named.end()) else None


def _skip_fence_end(text: str, position: int, before: str) -> int:
    """Return the position after the fence that closes one in the text before a call's arguments."""
    closing = _FENCE_END.match(text, position) if "```" in before else None
    return position if closing is None else closing.end()


def _read_json(text: str, position: int, tools: Mapping[str, Tool]) -> Read | None:
    read = _read_value(text, position)
    if read is not None:
        return list(_calls_in(read[0], tools)), read[1]
    return _read_python(text, position, tools) if text[position] == "[" else None


def _read_value(text: str, position: int) -> tuple[Any, int] | None:
    """Return the JSON value or Python literal that begins at a position, and the position after it."""
    try:
        return _DECODER.raw_decode(text, position)
    except (ValueError, RecursionError):
        pass
    end = _find_bracket(text, position)
    if end is None:
        return None
    try:
        return read_literal(text[position:end]), end
    except ValueError:
        return None


def _calls_in(value: Any, tools: Mapping[str, Tool]) -> Iterator[TextCall]:
    for each in value if isinstance(value, list) else [value]:
        if not isinstance(each, dict):
            continue
        # The form of the API has the name and the arguments inside of `function`.
        inner = each.get("function")
        call = inner if isinstance(inner, dict) else each
        name = next((call[key] for key in _NAMES if isinstance(call.get(key), str)), None)
        written = next((call[key] for key in _ARGUMENTS if key in call), None)
        if name is None or (tool := find_tool_name(name, tools)) not in tools:
            continue
        try:
            arguments = decode_arguments(written)
        except (ValueError, RecursionError):
            continue
        if isinstance(arguments, dict):
            yield TextCall(tool, fit_arguments(arguments, tools[tool]))


def _read_elements(text: str, function: re.Match[str], tools: Mapping[str, Tool]) -> Read | None:
    """Return the call in XML and the position after it. Its arguments are JSON, or an element each."""
    tool = find_tool_name(function["name"], tools)
    found = _BEFORE_JSON.match(text, function.end())
    start = function.end() if found is None else found.end()
    arguments: dict[str, Any] = {}
    if text[start : start + 1] == "{":
        read = _read_value(text, start)
        if read is None or not isinstance(read[0], dict):
            return None
        arguments, position = read[0], _skip_fence_end(text, read[1], text[function.end() : start])
    else:
        position = function.end()
        while parameter := _PARAMETER.match(text, position):
            end = _find_parameter_end(text, parameter.end())
            if end is None:
                return [], parameter.end()
            arguments[parameter["name"]] = _strip_lines(text[parameter.end() : end.start()])
            position = end.end()
        # A reply that was cut off may lack further arguments.
        if _FUNCTION_END.match(text, position) is None:
            return [], position
    return _make_call(tool, arguments, tools), position


def _find_parameter_end(text: str, position: int) -> re.Match[str] | None:
    # A search for the pattern would look at each character by itself.
    while (position := text.find("</", position)) >= 0:
        if found := _PARAMETER_END.match(text, position):
            return found
        position += 2
    return None


def _read_pairs(text: str, position: int, tool: str, tools: Mapping[str, Tool]) -> Read:
    arguments: dict[str, Any] = {}
    while pair := _KEY.match(text, position):
        end = text.find(_VALUE_END, pair.end())
        if end < 0:
            return [], pair.end()
        arguments[pair["name"]] = _strip_lines(text[pair.end() : end])
        position = end + len(_VALUE_END)
    return (_make_call(tool, arguments, tools) if _END.match(text, position) else []), position


def _read_python(text: str, position: int, tools: Mapping[str, Tool]) -> Read | None:
    end = _find_bracket(text, position)
    calls = [] if end is None else read_expression(text[position:end], tools)
    return None if end is None or not calls else (calls, end)


def _read_node(node: ast.expr, tools: Mapping[str, Tool]) -> TextCall:
    """Return the call that a node of a syntax tree is. Raises ValueError for any other node."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
        raise ValueError("not a call")
    name = ast.unparse(node.func)
    # Llama calls its own tools by a method, as in `bash.call(command="ls")`.
    tool = find_tool_name(name.removesuffix(".call"), tools)
    if tool not in tools:
        raise ValueError(f"no tool {name}")
    arguments: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise ValueError("unnamed arguments")
        arguments[keyword.arg] = evaluate_literal(keyword.value)
    names = list(tools[tool].parameters.get("properties", {}))
    if len(node.args) > len(names):
        raise ValueError("more arguments than the tool has")
    arguments = {
        **dict(zip(names, map(evaluate_literal, node.args), strict=False)),
        **arguments,
    }
    return TextCall(tool, fit_arguments(arguments, tools[tool]))


def _find_bracket(text: str, position: int) -> int | None:
    """Return the position after the bracket that closes the first one, None if it is too far away."""
    depth = 0
    for piece in _PIECES.finditer(text, position, position + MOST_LITERAL_CHARACTERS):
        if piece.group() in _OPENING_BRACKETS:
            depth += 1
        elif len(piece.group()) == 1:
            depth -= 1
            if depth <= 0:
                return piece.end()
    return None


def _make_call(tool: str, arguments: Mapping[str, Any], tools: Mapping[str, Tool]) -> list[TextCall]:
    return [TextCall(tool, fit_arguments(arguments, tools[tool]))] if tool in tools else []


def _strip_lines(written: str) -> str:
    return written.removeprefix("\n").removesuffix("\n")
