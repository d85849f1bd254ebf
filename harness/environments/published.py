"""The tools and texts of a published protocol, in the place of an environment's own.

The world, its limits of safety and its grader stay the same. A task names the protocol (`Task.protocol`), and
the environment of the task calls `Environment.publish` with its `Published`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import AfterValidator, Field, create_model, model_validator

from harness.core.scoring.answers import drop_thoughts
from harness.core.tools import SUBMIT, Arguments, LastObservation, TextCall, TextFault, Tool
from harness.environments.text_protocol import NO_ACTION, GenericProtocol

FUNCTION_CALLS = "fc"
"""AgentBench's function calls, as its main branch has had them since October 2025."""
LENIENT = "fc.lenient"
"""The same, with arguments that are taken by their places and not by their names, as upstream takes them."""
PROTOCOLS = (FUNCTION_CALLS, LENIENT)
NO_CALL = "No executable tool calls found. Please call a tool instead"


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
