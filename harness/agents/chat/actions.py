"""The actions in a model's reply: calls of tools, in the form of the API or in the model's text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from harness.agents.chat.arguments import decode_arguments, find_tool_name, fit_arguments
from harness.agents.chat.text_calls import find_text_calls
from harness.environments.base import AgentEnvironment, Observation
from harness.environments.text_protocol import NO_ACTION, ONLY_FIRST, TextCall, add_advice
from harness.environments.tool import Tool
from harness.models.messages import Choice, Finish, Message, Role, ToolCall, ToolSchema
from harness.text import shorten

NO_CALL = "Your reply called no tool. Call one of the tools: {tools}. When the task is done, call `submit`."


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
    """The form in which a model calls tools."""

    def describe_tools(self, environment: AgentEnvironment) -> tuple[str, tuple[ToolSchema, ...]]:
        """Return instructions to put after the task ("" for none), and the tools to send with requests."""

    def read(self, choice: Choice, environment: AgentEnvironment) -> list[Action | FormatError]:
        """Return the actions in a reply in order, with at least one item."""

    def observe(self, item: Action | FormatError, text: str, environment: AgentEnvironment) -> Message:
        """Return the message that shows the model the result of an action."""


class NativeCalls:
    """Calls by the protocol of the API.

    A call that the model wrote into its text counts, too. A server whose parser misses some of its model's
    calls returns them so.
    """

    def describe_tools(self, environment: AgentEnvironment) -> tuple[str, tuple[ToolSchema, ...]]:
        schemas = (
            ToolSchema(tool.name, tool.description, tool.parameters) for tool in environment.tools.values()
        )
        return "", tuple(schemas)

    def read(self, choice: Choice, environment: AgentEnvironment) -> list[Action | FormatError]:
        if choice.message.tool_calls:
            return [_read_call(call, choice.finish, environment.tools) for call in choice.message.tool_calls]
        found = find_text_calls(choice.message.text, environment.tools)
        if found:
            return [Action(call.tool, call.arguments) for call in found]
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
            # A command of which the server cut off the end may mean something else, so it is not run.
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
    """Return why a reply is no answer to a task, None if it is one."""
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
