"""The form of the actions that a model without native tool calls writes into the text of a reply.

An environment names its own form in `EnvironmentSpec.text_protocol`, a table of AgentBench's spellings.
Without one it has the form that `GenericProtocol` makes from the schemas of its tools.

A task may name a published protocol (`Task.protocol`). Its tools and texts then take the place of the
environment's own, which calls `Environment.publish`. The world, its limits of safety and its grader stay the
same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import AfterValidator, Field, create_model, model_validator

from harness.core.scoring.answers import drop_thoughts
from harness.core.tools import (
    SUBMIT,
    Arguments,
    LastObservation,
    TextCall,
    TextFault,
    TextProtocol,
    Tool,
)
from harness.environments.written_actions import Block, Unreadable, WrittenAction, WrittenReply, read_actions

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
FUNCTION_CALLS = "fc"
"""AgentBench's function calls, as its main branch has had them since October 2025."""
LENIENT = "fc.lenient"
"""The same, with arguments that are taken by their places and not by their names, as upstream takes them."""
PROTOCOLS = (FUNCTION_CALLS, LENIENT)
NO_CALL = "No executable tool calls found. Please call a tool instead"
_SHOWN_NAME = 50
_RESULT = "The result of"


@dataclass(frozen=True, slots=True)
class GenericProtocol:
    """`Act: TOOL`, and a block with the tool's text or with a JSON object of its arguments."""

    tools: Mapping[str, Tool]

    def instructions(self) -> str:
        return "\n\n".join([HOW_TO_ACT, *(describe_tool(tool) for tool in self.tools.values()), LONGER_FENCE])

    def read(self, reply: str) -> TextCall | TextFault:
        advice = f"Write a line `Act: TOOL`, where TOOL is one of: {', '.join(self.tools)}."
        form = TextForm(instructions="", tools=(), advice=advice, result=_RESULT, otherwise=read_named)
        return _FormProtocol(form, self.tools).read(reply)

    def show(self, call: TextCall, observation: str) -> str:
        return _show(f"{_RESULT} `{call.tool}`:\n\n{observation}", call)


ReadAction = Callable[[Mapping[str, Tool], WrittenReply], "TextCall | TextFault"]
"""Reads the first action of a reply, by the tools of the environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextForm:
    """The form of an environment's own actions, as a table. Added tools are called in the generic form.

    The first action of a reply is carried out. A model writes further ones without the result of the first,
    so they are ignored, and the call says so.
    """

    # Explains the actions of `tools` to the model.
    instructions: str
    tools: tuple[Tool, ...]
    # Explains in a fault how to write an action.
    advice: str
    # The beginning of each result, which only the harness writes, and the text before the observation.
    result: str = ""
    separator: str = "\n\n"
    # The reader of each word that may follow `Act:`, in lower case.
    words: Mapping[str, ReadAction] = field(default_factory=dict)
    # The reader of any other word, None if such an action is a fault that lists the words `known`.
    otherwise: ReadAction | None = None
    known: tuple[str, ...] = ()
    # Makes a reply ready to be read.
    clean: Callable[[str], str] = lambda reply: reply
    # Reads a reply whose form has no lines `Act:`, or returns None to go on with these.
    read_whole: Callable[[str], TextCall | TextFault | None] = lambda _reply: None
    # Reads the text before the first action, and returns None to go on with the action.
    read_introduction: Callable[[WrittenAction], TextCall | None] = lambda _introduction: None
    # Reads a reply without an action, or returns None if it has none in any form.
    read_without_action: Callable[[str, WrittenAction], TextCall | None] = lambda _reply, _introduction: None
    # Returns whether an action has parts that its call leaves out.
    leaves_out: Callable[[TextCall, WrittenAction], bool] = lambda _call, _action: False

    def __call__(self, tools: Mapping[str, Tool]) -> TextProtocol:
        """Return the protocol for the tools of an environment. A task without its world has only `submit`."""
        if any(tool.name in tools for tool in self.tools):
            return _FormProtocol(self, tools)
        return GenericProtocol(tools)


@dataclass(frozen=True, slots=True)
class _FormProtocol:
    form: TextForm
    tools: Mapping[str, Tool]

    def instructions(self) -> str:
        added = (tool for name, tool in self.tools.items() if name not in self._own())
        return "\n\n".join([self.form.instructions, *map(describe_tool, added)])

    def read(self, reply: str) -> TextCall | TextFault:
        form = self.form
        if (whole := form.read_whole(reply)) is not None:
            return whole
        try:
            found = read_actions(form.clean(reply), result=form.result)
        except Unreadable as error:
            return TextFault(error.name, f"{error.advice} {form.advice}")
        if (call := form.read_introduction(found.introduction)) is not None:
            return add_advice(call, ONLY_FIRST) if found.actions else call
        read = self._read_action(found) if found.actions else None
        if read is None or (isinstance(read, TextFault) and read.name == NO_ACTION):
            call = form.read_without_action(reply, found.introduction)
            return call or read or TextFault(NO_ACTION, f"Your reply has no action. {form.advice}")
        if isinstance(read, TextCall) and (
            found.has_result or len(found.actions) > 1 or form.leaves_out(read, found.actions[0])
        ):
            return add_advice(read, ONLY_FIRST)
        return read

    def show(self, call: TextCall, observation: str) -> str:
        head = f"{self.form.result}{self.form.separator}" if self.form.result else ""
        return _show(f"{head}{observation}", call)

    def _own(self) -> tuple[str, ...]:
        return (*(tool.name for tool in self.form.tools), SUBMIT.name)

    def _read_action(self, found: WrittenReply) -> TextCall | TextFault:
        form, written = self.form, found.actions[0].name
        read = form.words.get(written.rstrip(".-").lower())
        tool = find_tool(self.tools, written)
        if read is None and tool is not None and tool.name not in self._own():
            read = read_named
        read = read or form.otherwise
        if read is None:
            added = (name for name in self.tools if name not in self._own())
            return unknown_action(written, dict.fromkeys([*form.known, *added]))
        return read(self.tools, found)


def read_named(tools: Mapping[str, Tool], reply: WrittenReply) -> TextCall | TextFault:
    """Return the call of the tool that the first action names, in the generic form."""
    return read_tool_call(tools, reply.actions[0])


def read_parentheses(action: WrittenAction) -> TextCall | None:
    """Return the call that submits the text in parentheses after an action, None if there are none."""
    text = action.find_in_parentheses()
    if text is None:
        return None
    return TextCall(SUBMIT.name, {"answer": text}, is_complete=action.closes_parentheses)


def read_tool_call(tools: Mapping[str, Tool], action: WrittenAction) -> TextCall | TextFault:
    """Return the call of the tool that an action names, with the arguments from its first block.

    A block of a tool with one required text is that text, unless it is marked as `json` and holds an object
    of arguments. A block of any other tool is such an object. The answer of `submit` may also be in
    parentheses.
    """
    tool = find_tool(tools, action.name)
    if tool is None:
        return unknown_action(action.name, tools)
    if tool.name == SUBMIT.name and (answer := read_parentheses(action)) is not None:
        return answer
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


def _show(text: str, call: TextCall) -> str:
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


@dataclass(frozen=True, slots=True)
class PublishedTool(Tool):
    """A tool whose schema is sent as it was published, without the titles that pydantic adds."""

    @property
    def parameters(self) -> dict[str, Any]:
        schema = self.arguments.model_json_schema()
        fields = {
            name: {key: value for key, value in each.items() if key != "title"}
            for name, each in schema["properties"].items()
        }
        return {
            "type": "object",
            "properties": fields,
            "required": schema["required"],
            "additionalProperties": False,
        }


def bound_text(least: int, most: int) -> Any:
    """Return the type of a text whose length is bounded, although the published schema says nothing of it."""

    def require(text: str) -> str:
        if not least <= len(text) <= most:
            raise ValueError(f"needs {least:,} to {most:,} characters, and has {len(text):,}")
        return text

    return Annotated[str, AfterValidator(require)]


def make_tool(name: str, description: str, **arguments: tuple[Any, str]) -> PublishedTool:
    """Return a tool whose arguments, all required, are given as (type, description)."""
    fields: dict[str, Any] = {
        each: (kind, Field(description=text)) for each, (kind, text) in arguments.items()
    }
    model: type[Arguments] = create_model(name, __base__=Arguments, **fields)
    return PublishedTool(name, description, model)


def take_by_place(tool: Tool) -> Tool:
    """Return a tool that takes its arguments by their places, whatever their names are."""
    names = list(tool.arguments.model_fields)

    def rename(values: Any) -> Any:
        # Upstream reads the first value, then the second, and ignores the rest.
        return dict(zip(names, values.values(), strict=False)) if isinstance(values, dict) else values

    validators: dict[str, Any] = {"rename": model_validator(mode="before")(rename)}
    return replace(
        tool, arguments=create_model(tool.name, __base__=tool.arguments, __validators__=validators)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The protocol of one environment."""

    # The tools with their handlers. `submit` is not among them.
    handlers: Mapping[Tool, Callable[[Any], Awaitable[str | LastObservation]]]
    # Returns the tool and the arguments that submit an answer, None if no tool does.
    submit: Callable[[str], tuple[str, dict[str, Any]]] | None = None
    # Whether of several calls in one reply only the first is carried out.
    only_first: bool = False
    # The text for a reply without a call.
    no_call: str = NO_CALL
    # The answer in a reply without a call, as its first group.
    answer: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True)
class PublishedProtocol(GenericProtocol):
    """The written form of the tools, and the rules for replies that call none."""

    rules: Published = field(default_factory=lambda: Published(handlers={}))

    def read(self, reply: str) -> TextCall | TextFault:
        found = GenericProtocol.read(self, reply)
        if isinstance(found, TextFault) and found.name == NO_ACTION:
            answer = self.read_without_call(drop_thoughts(reply))
            return answer if isinstance(answer, TextCall) else found
        return found

    def read_without_call(self, text: str) -> TextCall | str:
        """Return the answer that a reply without a call holds, or the text that the model gets for it."""
        found = None if self.rules.answer is None else self.rules.answer.search(text)
        return self.rules.no_call if found is None else TextCall(SUBMIT.name, {"answer": found[1]})
