"""The form in which a model without native tool calls writes its actions into the text of a reply.

An environment names its own form in `EnvironmentSpec.text_protocol`. Without one it has the form that
`GenericProtocol` makes from the schemas of its tools. Only the replies of the model are read, so that the
output of a tool cannot be taken for an action.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from harness.core.scoring.answers import MAX_REPLY_CHARACTERS, drop_thoughts
from harness.core.tools import SUBMIT, TextCall, TextFault, Tool

# Models decorate the line, for example `**Act:** bash`, `- Act:bash` or `### action: bash`. No quantifier
# gives back what it has matched, so that a long line takes linear time.
_ACTION = re.compile(
    r"[ \t>*_#`-]*+act(?:ion)?[ \t*_`]*+[:：][ \t*_`]*+(?:(?P<name>[\w.-]++)(?P<rest>.*))?",
    re.IGNORECASE | re.ASCII,
)
_OPENING = re.compile(r"(?P<indent>[ \t]*+)(?P<fence>`{3,}+|~{3,}+)[ \t]*+(?P<label>[^\s`]*+)[^`]*+\Z")
# A block may also begin at the end of the line of its action, or of a line such as `Final Answer:`.
_OPENING_AT_END = re.compile(r"(?P<indent>)(?P<fence>`{3,}|~{3,})[ \t]*(?P<label>[\w+#.-]*)[ \t]*\Z")
_LONGEST_OPENING = 100
_DECORATION = " \t*_`"


class Unreadable(Exception):
    """A reply from which no action can be read. `advice` explains to the model how to write one."""

    def __init__(self, name: str, advice: str) -> None:
        super().__init__(name)
        self.name = name
        self.advice = advice


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: the word after its opening fence, in lower case, and its lines."""

    label: str
    text: str
    # Whether the reply has its closing fence.
    is_closed: bool = True


@dataclass(slots=True)
class WrittenAction:
    """One action: its name as written, and the reply up to the next action."""

    name: str
    # The rest of the line after the name. Text in parentheses may extend over more lines.
    rest: str
    # The lines outside of blocks.
    lines: list[str] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)

    def find_in_parentheses(self) -> str | None:
        """Return the text from the first `(` after the name to the last `)`, None without both."""
        start, end = self.rest.find("("), self.rest.rfind(")")
        if start < 0 or end < start or self.rest[:start].strip(_DECORATION):
            return None
        return _unwrap_text(self.rest[start + 1 : end])

    @property
    def closes_parentheses(self) -> bool:
        """Return whether as many parentheses are closed as opened. A cut-off answer may lack some."""
        return self.rest.count("(") <= self.rest.count(")")


@dataclass(frozen=True, slots=True)
class Reply:
    """The actions of a reply, and the lines before the first one."""

    actions: list[WrittenAction]
    introduction: WrittenAction
    # Whether the model wrote the result of an action itself.
    has_result: bool = False


def read_actions(reply: str, *, result: str = "") -> Reply:
    """Return the actions of a reply, which may be none.

    The model's thoughts are dropped first. The text from a line after the first action that begins with
    `result` is ignored, because these words begin the results, which only the harness writes. A block without
    its end extends to the end of the reply. Raises Unreadable for an empty reply, for one that is too long,
    and if an action seems to follow in a block without its end, because its end is then unknown.
    """
    if len(reply) > MAX_REPLY_CHARACTERS:
        limit = f"more than {MAX_REPLY_CHARACTERS:,}"
        raise Unreadable("reply too long", f"Your reply has {len(reply):,} characters, {limit}. Be shorter.")
    text = drop_thoughts(reply)
    if not text.strip():
        raise Unreadable("empty reply", "Your reply is empty.")
    lines = text.split("\n")
    found = _split(lines, result)
    if not found.actions and (inner := _unwrap(lines)) is not None:
        found = _split(inner, result)
    return found


def _split(lines: list[str], result: str) -> Reply:
    actions: list[WrittenAction] = []
    current = introduction = WrittenAction("", "")
    position = 0
    while position < len(lines):
        line = lines[position]
        position += 1
        if result and actions and result in line and line.lstrip(_DECORATION).startswith(result):
            return Reply(actions, introduction, has_result=True)
        action = _find_action(line)
        if action is not None:
            current = WrittenAction(action["name"] or "", action["rest"] or "")
            actions.append(current)
            end = _find_parenthesis(lines, position, current.rest)
            if end is not None:
                current.rest = "\n".join([current.rest, *lines[position:end]])
                position = end
                continue
        opening = _find_opening(line, is_action=action is not None)
        if opening is None:
            if action is None:
                current.lines.append(line)
            continue
        if action is not None:
            current.rest = current.rest.removesuffix(opening.group())
        elif before := line.removesuffix(opening.group()):
            current.lines.append(before)
        block, position = _read_block(lines, position, opening)
        current.blocks.append(block)
    return Reply(actions, introduction)


def _find_action(line: str) -> re.Match[str] | None:
    # Most lines have no colon, and a reply may have a million lines.
    return _ACTION.match(line) if ":" in line or "：" in line else None


def _find_opening(line: str, *, is_action: bool) -> re.Match[str] | None:
    if "```" not in line and "~~~" not in line:
        return None
    if found := _OPENING.match(line):
        return found
    found = _OPENING_AT_END.search(line[-_LONGEST_OPENING:])
    if found is None or not (is_action or line.removesuffix(found.group()).rstrip(_DECORATION).endswith(":")):
        return None
    return found


def _read_block(lines: list[str], position: int, opening: re.Match[str]) -> tuple[Block, int]:
    """Return the block whose lines start at `position`, and the position after it.

    As in Markdown, the closing fence is at least as long as the opening one. Some models write it at the end
    of the last line of the block.
    """
    fence = opening["fence"]
    for end in range(position, len(lines)):
        stripped = lines[end].rstrip()
        if stripped.endswith(fence):
            last = stripped.rstrip(fence[0])
            return _make_block([*lines[position:end], *([last] if last.strip() else [])], opening), end + 1
    if any(_find_action(line) for line in lines[position:]):
        advice = f"A block in your reply has no end. End it with a line that holds only `{fence}`."
        raise Unreadable("block without its end", advice)
    return _make_block(lines[position:], opening, is_closed=False), len(lines)


def _make_block(lines: list[str], opening: re.Match[str], *, is_closed: bool = True) -> Block:
    # A block in a list is indented as a whole.
    indent = len(opening["indent"])
    texts = (line[min(indent, len(line) - len(line.lstrip(" \t"))) :] for line in lines)
    return Block(opening["label"].lower(), "\n".join(texts), is_closed)


def _find_parenthesis(lines: list[str], position: int, rest: str) -> int | None:
    """Return the position after the line that ends the text in parentheses, None if it begins on no line.

    The text ends with the first line that ends with `)`, if as many are closed by then as were opened. No
    such line before the next action gives None as well.
    """
    if not rest.lstrip(_DECORATION).startswith("(") or ")" in rest:
        return None
    depth = rest.count("(")
    for end in range(position, len(lines)):
        line = lines[end]
        if _find_action(line):
            return None
        depth += line.count("(") - line.count(")")
        if depth <= 0 and line.rstrip(_DECORATION).endswith(")"):
            return end + 1
    return None


def _unwrap(lines: list[str]) -> list[str] | None:
    """Return the lines of a reply that is one block as a whole, None for any other reply."""
    start = next(number for number, line in enumerate(lines) if line.strip())
    if _OPENING.match(lines[start]) is None:
        return None
    inner = lines[start + 1 :]
    while inner and not inner[-1].strip():
        inner.pop()
    if inner and not inner[-1].strip("`~ \t"):
        inner.pop()
    return inner


def _unwrap_text(text: str) -> str:
    """Return the content of a text that is one block as a whole, else the text."""
    lines = text.strip().split("\n")
    opening = _OPENING.match(lines[0])
    if opening is None or len(lines) < 2 or lines[-1].strip() != opening["fence"]:
        return text
    return "\n".join(lines[1:-1])


NO_ACTION, UNKNOWN_ACTION = "no action", "unknown action"
ONLY_FIRST = (
    "[Only the first action of your reply was carried out, and the rest was ignored. "
    "Write one action in each reply, and wait for its result.]"
)
HOW_TO_ACT = (
    "You call a tool by writing it. In each reply, write your thoughts first, then exactly one action in one "
    "of the forms below, and then stop. The next message shows its result. Words in capitals stand for your "
    "own text."
)
LONGER_FENCE = "If a line of the text itself begins or ends with ```, put the block between ```` instead."
_SHOWN_NAME = 50
_RESULT = "The result of"


@dataclass(frozen=True, slots=True)
class GenericProtocol:
    """`Act: TOOL`, and a block with the tool's text or with a JSON object of its arguments."""

    tools: Mapping[str, Tool]

    def instructions(self) -> str:
        return "\n\n".join(
            [
                HOW_TO_ACT,
                *(describe_tool(tool) for tool in self.tools.values()),
                LONGER_FENCE,
            ]
        )

    def read(self, reply: str) -> TextCall | TextFault:
        return read_first_action(
            reply, lambda found: read_tool_call(self.tools, found.actions[0]), self._advise(), result=_RESULT
        )

    def show(self, call: TextCall, observation: str) -> str:
        return show_result(f"{_RESULT} `{call.tool}`:", call, observation)

    def _advise(self) -> str:
        return f"Write a line `Act: TOOL`, where TOOL is one of: {', '.join(self.tools)}."


def read_first_action(
    reply: str,
    read_action: Callable[[Reply], TextCall | TextFault],
    advice: str,
    *,
    result: str,
) -> TextCall | TextFault:
    """Return the first action of a reply, read by `read_action`.

    A model writes further actions without the result of the first one, so they are ignored, and the call says
    so. `advice` explains how to write an action, and `result` is the beginning of each result that is shown.
    """
    try:
        found = read_actions(reply, result=result)
    except Unreadable as error:
        return TextFault(error.name, f"{error.advice} {advice}")
    if not found.actions:
        return TextFault(NO_ACTION, f"Your reply has no action. {advice}")
    read = read_action(found)
    if isinstance(read, TextCall) and (found.has_result or len(found.actions) > 1):
        return add_advice(read, ONLY_FIRST)
    return read


def read_tool_call(tools: Mapping[str, Tool], action: WrittenAction) -> TextCall | TextFault:
    """Return the call of the tool that an action names, with the arguments from its first block.

    A block of a tool with one required text is that text, unless it is marked as `json` and holds an object
    of arguments. A block of any other tool is such an object. The answer of `submit` may also be in
    parentheses.
    """
    tool = find_tool(tools, action.name)
    if tool is None:
        return unknown_action(action.name, tools)
    if tool.name == SUBMIT.name and (answer := action.find_in_parentheses()) is not None:
        return TextCall(tool.name, {"answer": answer}, is_complete=action.closes_parentheses)
    text = find_text_argument(tool)
    if not action.blocks:
        if not tool.parameters.get("required"):
            return TextCall(tool.name, {})
        return TextFault("missing block", f"There is no block for `{tool.name}`. {describe_tool(tool)}")
    block = action.blocks[0]
    if text is None:
        return _read_object(tool, block)
    if block.label == "json":
        read = _read_object(tool, block)
        if isinstance(read, TextCall) and text in read.arguments:
            return read
    return TextCall(tool.name, {text: block.text}, is_complete=block.is_closed)


def find_tool(tools: Mapping[str, Tool], name: str) -> Tool | None:
    """Return the tool that a model named, in any case of letters and with or without a full stop."""
    name = name.rstrip(".-")
    folded = {known.casefold(): tool for known, tool in tools.items()}
    return tools.get(name) or folded.get(name.casefold())


def find_text_argument(tool: Tool) -> str | None:
    """Return the name of the only required argument of a tool if it is a text, else None."""
    schema = tool.parameters
    required = schema.get("required", [])
    if len(required) != 1 or schema["properties"][required[0]].get("type") != "string":
        return None
    name: str = required[0]
    return name


def describe_tool(tool: Tool) -> str:
    """Return the text that explains how to write a call of a tool in the generic form."""
    schema = tool.parameters
    properties: Mapping[str, Mapping[str, Any]] = schema.get("properties", {})
    text = find_text_argument(tool)
    head = f"`{tool.name}`: {tool.description}"
    if not properties:
        return f"{head}\n\nAct: {tool.name}"
    required = schema.get("required", [])
    if text is not None:
        parts = [f"{head}\n\nAct: {tool.name}\n```\n{text.upper()}\n```"]
        about = properties[text].get("description")
        if about:
            parts.append(f"\n{text.upper()}: {about}")
        if len(properties) > 1:
            others = [name for name in properties if name != text]
            parts.append(
                f"\nTo set {', '.join(f'`{name}`' for name in others)} as well, write all arguments as an "
                f"object in a block that begins with ```json: {_show_example(properties)}"
            )
            parts.extend(_describe_argument(name, properties[name], required) for name in others)
        return "\n".join(parts)
    lines = [f"{head}\n\nAct: {tool.name}\n```json\n{_show_example(properties)}\n```\n"]
    lines.extend(_describe_argument(name, schema, required) for name, schema in properties.items())
    if "$defs" in schema:
        lines.append(f"- definitions: {json.dumps(schema['$defs'])}")
    return "\n".join(lines)


def unknown_action(name: str, known: Mapping[str, Any]) -> TextFault:
    """Return the fault of an action that does not exist."""
    shown = f"There is no action `{name[:_SHOWN_NAME]}`." if name else "The action has no name."
    return TextFault(UNKNOWN_ACTION, f"{shown} The actions are: {', '.join(known)}.")


def add_advice(call: TextCall, advice: str) -> TextCall:
    """Return the call with one more advice."""
    return replace(call, advice=f"{call.advice}\n{advice}" if call.advice else advice)


def show_result(head: str, call: TextCall, observation: str) -> str:
    """Return an observation under its head, followed by the advice of the call."""
    text = f"{head}\n\n{observation}"
    return f"{text}\n\n{call.advice}" if call.advice else text


def _read_object(tool: Tool, block: Block) -> TextCall | TextFault:
    try:
        # Models write line ends into their strings as they are.
        arguments = json.loads(block.text, strict=False)
    except (ValueError, RecursionError) as error:
        problem = f"The block of `{tool.name}` is not JSON ({error})."
    else:
        if isinstance(arguments, dict):
            return TextCall(tool.name, arguments, is_complete=block.is_closed)
        problem = f"The block of `{tool.name}` must be a JSON object, not {type(arguments).__name__}."
    return TextFault("malformed arguments", f"{problem} {describe_tool(tool)}")


def _show_example(properties: Mapping[str, Mapping[str, Any]]) -> str:
    return "{" + ", ".join(f'"{name}": {name.upper()}' for name in properties) + "}"


def _describe_argument(name: str, schema: Mapping[str, Any], required: list[str]) -> str:
    hidden = ("title", "description", "default")
    kind = json.dumps({key: value for key, value in schema.items() if key not in hidden})
    default = f", default {json.dumps(schema['default'])}" if "default" in schema else ""
    need = "required" if name in required else f"optional{default}"
    about = f": {schema['description']}" if "description" in schema else ""
    return f"- `{name}` ({need}, {kind}){about}"
