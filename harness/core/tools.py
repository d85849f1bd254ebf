"""The tools that an agent can call, and what it sees of its environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict


class Arguments(BaseModel):
    """The arguments of a tool. The agent sees the fields and their descriptions."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as an agent sees it. The live `Environment` has its handler."""

    name: str
    description: str
    arguments: type[Arguments]

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the JSON schema of the arguments, in the form that model APIs require."""
        return self.arguments.model_json_schema()


class Answer(Arguments):
    """The arguments of `submit`, which ends an attempt."""

    answer: str


SUBMIT = Tool(
    "submit", "Submit the answer and end the attempt. Call this once, when the task is done.", Answer
)


class ForeignArguments(Arguments):
    """Arguments that the server of a tool checks, and not harness."""

    model_config = ConfigDict(extra="allow", frozen=True)


@dataclass(frozen=True, slots=True)
class ForeignTool(Tool):
    """A tool that a server of the user's carries out, with the schema that the server names."""

    # It cannot be hashed, and two tools of one name are never compared.
    schema: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @classmethod
    def make(cls, name: str, description: str, schema: Mapping[str, Any]) -> ForeignTool:
        """Return the tool with this schema of its arguments."""
        return cls(name, description, ForeignArguments, schema)

    @property
    def parameters(self) -> dict[str, Any]:
        return dict(self.schema)


@dataclass(frozen=True, slots=True)
class LastObservation:
    """The observation of a call that ends the task, as `submit` does. `answer` is what it submits."""

    text: str
    answer: str = ""


class TurnLimitReached(Exception):
    """The agent has used all its turns and has not submitted an answer."""

    def __init__(self, turns: int) -> None:
        super().__init__(f"the agent used all its {turns} turns before it submitted an answer")
        self.limit, self.allowed = "rounds", turns


@dataclass(frozen=True, slots=True)
class Observation:
    """The result of a tool call. `refused` if the tool or its arguments were wrong, so that nothing ran."""

    text: str
    refused: bool = False


class AgentEnvironment(Protocol):
    """The environment of an attempt as its agent sees it."""

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The tools by name, with `submit`. Each has a description and the JSON schema of its arguments."""

    @property
    def turns(self) -> int | None:
        """The number of tool calls that the attempt may make, None for no limit."""

    @property
    def turns_used(self) -> int:
        """The number of tool calls so far."""

    @property
    def submitted(self) -> str | None:
        """The submitted answer, None if there is none yet."""

    @property
    def text_protocol(self) -> TextProtocol:
        """The written form of tool calls, for a model without native ones."""

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Observation:
        """Call a tool and return its observation. Calls at the same time run one after the other.

        Raises TurnLimitReached if no turn is left, SandboxClosed once the agent's time is over, and
        SandboxError.
        """

    async def submit(self, answer: str) -> None:
        """Submit the answer, which takes a turn. Raises as `call` does."""


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
