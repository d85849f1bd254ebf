"""The actions in a model's reply: calls of tools, in the form of the API or in the model's text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from harness.core.scoring.answers import drop_thoughts
from harness.core.text import shorten
from harness.core.tools import AgentEnvironment, Observation, TextCall, Tool
from harness.environments.text_protocol import NO_ACTION, ONLY_FIRST, PublishedProtocol, add_advice
from harness.models.messages import Choice, Finish, Message, Role, ToolCall, ToolSchema
from harness.runs.agents.chat.call_forms import (
    ELEMENT,
    FRAME,
    Group,
    decode_arguments,
    find_tool_name,
    fit_arguments,
    read_calls,
    read_expression,
)

# `<tool_call>` (Hermes, Qwen, GLM) with its relatives, `<function=` (Qwen, Llama), `<invoke name=` (MiniMax,
# DeepSeek 3.2), the tokens of DeepSeek, Kimi, Llama, Granite, LFM and Cohere, `[TOOL_CALLS]` of Mistral,
# `functools[` of Phi, and the channels of gpt-oss.
_MARK = re.compile(
    r"(?:^|(?<=:)|(?<=: ))[ \t]*(?P<fence>`{3,}+|~{3,}+)[ \t]*(?P<label>[^`\n]{0,100})$"
    r"|<<-?(?:[ \t]*(?P<quote>['\"])(?P<quoted>\w{1,60})(?P=quote)|\\?(?P<word>\w{1,60})"
    r"|[ \t]+(?P<upper>(?-i:[A-Z]\w{0,60})))"
    r"(?=[ \t]*(?:[|>&;)\d][^\n`]{0,300})?$)"
    rf"|<{ELEMENT}(?:tool_?calls?|function_?calls?)>"
    rf"|(?=<{ELEMENT}(?:function(?:=|\s+name=)|invoke\s+name=))"
    r"|<[|｜](?=[^<>|｜\n]{0,60}(?:tool|function|python|action|plugin))(?![^<>|｜\n]{0,60}(?:end|sep|argument|"
    r"result|output|response))[^<>|｜\n]{1,60}[|｜]>"
    r"|\[TOOL_CALLS\]|\bfunctools(?=\[)"
    r"|(?:<\|start\|>)?(?:assistant)?(?:<\|channel\|>)?(?:assistant|commentary|analysis)\s{0,3}to=",
    re.MULTILINE | re.IGNORECASE,
)
_FRAME = re.compile(FRAME, re.IGNORECASE)
# Templates put these right behind the model's text, because they are single tokens.
_TOKEN_MARK = re.compile(r"<[|｜](?!DSML)|\[TOOL_CALLS\]|assistant(?:commentary|analysis)", re.IGNORECASE)
_QUOTE_LINE = re.compile(r"\s*>")
_INDENT = 4
_NOTHING = Group([], 0)
_QUOTES = frozenset("`'\"")
_CODE_LABELS = frozenset(
    {"", "json", "xml", "text", "tool_code", "tool_call", "tool_calls", "tool", "tool_use"}
)
# A reply with more marks is not a list of calls.
_MAX_MARKS = 100
NO_CALL = "Your reply called no tool. Call one of the tools: {tools}. When the task is done, call `submit`."


@dataclass(frozen=True, slots=True)
class _Found:
    """Calls in a part of the text. A part without calls is text that holds none."""

    group: Group
    start: int
    end: int


def find_text_calls(text: str, tools: Mapping[str, Tool]) -> list[TextCall]:
    """Return the calls at the end of the text of a reply in order, without those in the model's thoughts.

    Only a complete call of one of the tools counts. `tools` are the tools of the environment by name.
    """
    text = drop_thoughts(text)
    begun = len(text) - len(text.lstrip())
    if whole := read_expression(text, tools):
        return whole
    found: list[_Found] = []
    position = marks = 0
    if text[begun : begun + 1] in ("{", "["):
        group = read_calls(text, begun, tools)
        position = group.end
        if not _strip_frame(text[position:]):
            return group.calls
    while marks < _MAX_MARKS and (mark := _MARK.search(text, position)):
        marks += 1
        if mark["fence"]:
            part = _read_block(text, mark, tools)
        elif word := mark["quoted"] or mark["word"] or mark["upper"]:
            part = _skip_document(text, mark, word)
        else:
            group = read_calls(text, mark.end(), tools, mark.group())
            part = _Found(group, mark.start(), max(group.end, mark.end()))
        found.append(part if _is_in_place(text, mark) else _Found(_NOTHING, part.start, part.end))
        # A mark inside of a call that has been read is a part of its arguments.
        position = max(part.end, mark.end() + (mark.end() == mark.start()))
    return _take_last(text, found)


def _read_block(text: str, mark: re.Match[str], tools: Mapping[str, Tool]) -> _Found:
    fence = mark["fence"]
    closing = re.compile(rf"^[ \t]*{fence[0]}{{{len(fence)},}}[ \t]*$", re.MULTILINE)
    end = closing.search(text, mark.end())
    stop = len(text) if end is None else end.start()
    content = text[mark.end() : stop]
    calls: list[TextCall] = []
    if mark["label"].strip().lower() in _CODE_LABELS:
        group = read_calls(content, 0, tools)
        calls = read_expression(content, tools) if _strip_frame(content[group.end :]) else group.calls
    after = stop if end is None else end.end()
    return _Found(Group(calls, after, ("block", "")), mark.start(), after)


def _skip_document(text: str, mark: re.Match[str], word: str) -> _Found:
    """Return the part of the text that a here-document is."""
    end = re.compile(rf"^[ \t]*{word}[ \t]*$", re.MULTILINE).search(text, mark.end())
    return _Found(_NOTHING, mark.start(), len(text) if end is None else end.end())


def _is_in_place(text: str, mark: re.Match[str]) -> bool:
    """Return whether a template would put a mark here: at the start of a line, or a token behind a text."""
    start = mark.start()
    before = text[text.rfind("\n", 0, start) + 1 : start]
    line = before + (mark.group() if mark["fence"] else "")
    indent = line[: len(line) - len(line.lstrip(" \t"))]
    if len(indent.expandtabs(_INDENT)) >= _INDENT or _QUOTE_LINE.match(before) or before[-1:] in _QUOTES:
        return False
    return _TOKEN_MARK.match(text, start) is not None or not _strip_frame(before)


def _take_last(text: str, found: list[_Found]) -> list[TextCall]:
    """Return the calls at the end of a text that have the form of the last one."""
    kept: list[_Found] = []
    end = len(text)
    for part in reversed(found):
        if not part.group.calls:
            continue
        if _strip_frame(text[part.end : end]) or (kept and kept[-1].group.form != part.group.form):
            break
        kept.append(part)
        end = part.start
    return [call for part in reversed(kept) for call in part.group.calls]


def _strip_frame(text: str) -> str:
    """Return a text without the marks of a template and the blanks around it."""
    return _FRAME.sub("", text).strip()


@dataclass(frozen=True, slots=True)
class Action:
    """A call of a tool that the model wants."""

    tool: str
    arguments: Mapping[str, Any]
    # The call in the form of the API or of the text protocol, None for a native call in the model's text.
    call: ToolCall | TextCall | None = None


@dataclass(frozen=True, slots=True)
class FormatError:
    """A reply, or a call in it, that cannot be understood. `advice` tells the model how to recover."""

    name: str
    advice: str
    call: ToolCall | None = None


class ActionFormat(Protocol):
    """The form of a model's tool calls."""

    def describe_tools(self, environment: AgentEnvironment) -> tuple[str, tuple[ToolSchema, ...]]:
        """Return instructions to put after the task ("" for none), and the tools to send with requests."""

    def read(self, choice: Choice, environment: AgentEnvironment) -> list[Action | FormatError]:
        """Return the actions in a reply in order, with at least one item."""

    def observe(self, item: Action | FormatError, text: str, environment: AgentEnvironment) -> Message:
        """Return the message that shows the model the result of an action."""


class NativeCalls:
    """Calls by the protocol of the API.

    A call that the model wrote into its text also counts. A server whose parser misses some of its model's
    calls returns them so.
    """

    def describe_tools(self, environment: AgentEnvironment) -> tuple[str, tuple[ToolSchema, ...]]:
        schemas = (
            ToolSchema(tool.name, tool.description, tool.parameters) for tool in environment.tools.values()
        )
        return "", tuple(schemas)

    def read(self, choice: Choice, environment: AgentEnvironment) -> list[Action | FormatError]:
        published = environment.text_protocol
        rules = published.rules if isinstance(published, PublishedProtocol) else None
        if calls := choice.message.tool_calls:
            read = [_read_call(call, choice.finish, environment.tools) for call in calls]
            if rules is None or not rules.only_first:
                return read
            # An API wants a result for every call.
            return [read[0], *(FormatError("further call", ONLY_FIRST, call) for call in calls[1:])]
        found = find_text_calls(choice.message.text, environment.tools)
        if found:
            found = found[:1] if rules is not None and rules.only_first else found
            return [Action(call.tool, call.arguments) for call in found]
        if isinstance(published, PublishedProtocol):
            answer = published.read_without_call(choice.message.text)
            if isinstance(answer, TextCall):
                return [Action(answer.tool, answer.arguments)]
            return [_explain_missing_call(choice, answer)]
        return [_explain_missing_call(choice, _list_tools(environment))]

    def observe(self, item: Action | FormatError, text: str, environment: AgentEnvironment) -> Message:
        if isinstance(item.call, ToolCall):
            return Message(Role.TOOL, text, tool_call_id=item.call.id)
        return Message(Role.USER, text)


class TextCalls:
    """Calls in the model's text, by the environment's own protocol.

    A model may write the form that it was trained on instead. Then its first call counts.
    """

    def describe_tools(self, environment: AgentEnvironment) -> tuple[str, tuple[ToolSchema, ...]]:
        return environment.text_protocol.instructions(), ()

    def read(self, choice: Choice, environment: AgentEnvironment) -> list[Action | FormatError]:
        read = environment.text_protocol.read(choice.message.text)
        if isinstance(read, TextCall):
            # A command may mean something else without the end that the server cut off, so it is not run.
            if choice.finish is Finish.LENGTH and not read.is_complete:
                return [_explain_missing_call(choice, read.advice)]
            return [Action(read.tool, read.arguments, read)]
        if read.name == NO_ACTION and (found := find_text_calls(choice.message.text, environment.tools)):
            call = found[0] if len(found) == 1 else add_advice(found[0], ONLY_FIRST)
            return [Action(call.tool, call.arguments, call)]
        if choice.finish in (Finish.REFUSAL, Finish.LENGTH) or not choice.message.text.strip():
            return [_explain_missing_call(choice, read.advice)]
        return [FormatError(read.name, read.advice)]

    def observe(self, item: Action | FormatError, text: str, environment: AgentEnvironment) -> Message:
        if isinstance(item.call, TextCall):
            text = environment.text_protocol.show(item.call, text)
        return Message(Role.USER, text)


def show_observation(observation: Observation) -> str:
    """Return the text of an observation as the model sees it."""
    return observation.text if observation.text else "[no output]"


def explain_missing_answer(choice: Choice) -> FormatError | None:
    """Return why a reply is not an answer to a task, None if it is one."""
    if choice.finish is Finish.REFUSAL:
        return FormatError("refusal", f"You declined: {choice.refusal}. Answer the task.")
    if choice.message.text.strip():
        return None
    if choice.finish is Finish.LENGTH:
        return FormatError("reply cut off", "Your reply was cut off before the answer. Be shorter.")
    return FormatError("empty reply", "Your reply was empty. Answer the task.")


def _read_call(call: ToolCall, finish: Finish, tools: Mapping[str, Tool]) -> Action | FormatError:
    name = shorten(call.name, 100)
    try:
        arguments = decode_arguments(call.arguments or "{}")
    except (ValueError, RecursionError) as error:
        if finish is Finish.LENGTH:
            advice = f"Your reply was cut off in the arguments of `{name}`. Be shorter."
            return FormatError("reply cut off", advice, call)
        advice = f"The arguments of `{name}` are not JSON ({error}). Send them as a JSON object."
        return FormatError("malformed arguments", advice, call)
    if not isinstance(arguments, dict):
        advice = f"The arguments of `{name}` must be a JSON object, not {type(arguments).__name__}."
        return FormatError("malformed arguments", advice, call)
    tool = find_tool_name(call.name, tools)
    return Action(tool, fit_arguments(arguments, tools.get(tool)), call)


def _explain_missing_call(choice: Choice, advice: str) -> FormatError:
    if choice.finish is Finish.REFUSAL:
        return FormatError("refusal", f"You declined: {choice.refusal}. {advice}")
    if choice.finish is Finish.LENGTH:
        return FormatError("reply cut off", f"Your reply was cut off. Be shorter. {advice}")
    name = "no tool call" if choice.message.text.strip() else "empty reply"
    return FormatError(name, advice)


def _list_tools(environment: AgentEnvironment) -> str:
    return NO_CALL.format(tools=", ".join(f"`{name}`" for name in environment.tools))
