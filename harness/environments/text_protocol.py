"""The form in which a model without native tool calls writes its actions into the text of a reply.

An environment names its own form in `EnvironmentSpec.text_protocol`. Without one it has the form that
`GenericProtocol` makes from the schemas of its tools. Only the replies of the model are read, so that the
output of a tool cannot be taken for an action.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from harness.environments.tool import SUBMIT, Tool
from harness.environments.written_actions import Block, Reply, Unreadable, WrittenAction, read_actions

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
class TextCall:
    """The call of a tool that a reply contains. `advice` is for the model, "" for none."""

    tool: str
    arguments: Mapping[str, Any]
    advice: str = ""
    # False if the reply ends within the call. If the server cut the reply off, a part of the call is missing.
    is_complete: bool = True


@dataclass(frozen=True, slots=True)
class TextFault:
    """The reason why no call can be read from a reply. `advice` explains to the model how to recover."""

    name: str
    advice: str


class TextProtocol(Protocol):
    """The written form of the tool calls of one environment."""

    def instructions(self) -> str:
        """Return the text that explains to the model how to act. It follows the prompt of the task."""

    def read(self, reply: str) -> TextCall | TextFault:
        """Return the first call in a reply of the model, whose thoughts are ignored.

        The tool of the call exists. The environment checks the arguments when it is called.
        """

    def show(self, call: TextCall, observation: str) -> str:
        """Return the text that shows the model the observation of a call, and the call's advice."""


MakeTextProtocol = Callable[[Mapping[str, Tool]], TextProtocol]
"""Makes the protocol of an environment from its tools by name, with `submit`."""


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
