"""A conversation between an agent and a user whom a model plays, and its effects on a database."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, get_args

from harness.core.scoring.answers import drop_thoughts
from harness.environments.tau2.world import Call, Domain, Requestor, ToolError, World, make_tool, show
from harness.models.judge import EnvironmentJudge
from harness.models.messages import Message, Role

DomainName = Literal["mock", "airline", "retail", "telecom"]
DOMAINS: tuple[DomainName, ...] = get_args(DomainName)
Basis = Literal["DB", "ENV_ASSERTION", "COMMUNICATE", "ACTION", "NL_ASSERTION"]
GREETING = "Hi! How can I help you today?"
# Each message counts: of the agent, of the user, and each result of a call.
MAX_STEPS, MAX_ERRORS = 200, 10
# The agent's messages in all. More would overflow the context of the user's model, whose failure would be a
# fault of ours.
MAX_CHARACTERS = 100_000
# A user's message with one of these ends the conversation.
STOPS = ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###")
NOBODY = "[This run has no user, so nobody answers.]"


@dataclass(frozen=True, slots=True)
class Check:
    """A function over the database, and the value that it must return."""

    name: str
    arguments: Mapping[str, Any]
    value: bool = True


@dataclass(frozen=True, slots=True)
class ServiceTask:
    """A user's request, and what must be true after the conversation about it."""

    domain: DomainName
    # The database before the set-up. All tasks of a domain share it.
    database: Mapping[str, Any]
    # The calls that set up the database, with the calls of an earlier part of the conversation.
    setup: tuple[Call, ...]
    # The messages of that earlier part, each with its author.
    history: tuple[tuple[Requestor, str], ...]
    # The instructions to the model that plays the user.
    user_prompt: str
    # The calls that lead to the right database.
    actions: tuple[Call, ...]
    checks: tuple[Check, ...]
    # The texts that the agent must say.
    communicate: tuple[str, ...]
    # The statements about the conversation that a model judges.
    assertions: tuple[str, ...]
    # The score is the product over these.
    basis: tuple[Basis, ...]
    # Whether an agent that does and says nothing passes, as far as no model judges.
    needs_nothing: bool = False

    def open_world(self) -> World:
        """Return a new world where the set-up has been made."""
        world = World(load_domain(self.domain), self.database)
        world.call_all(self.setup, is_setup=True)
        return world


def load_domain(name: DomainName) -> Domain:
    """Return a domain. Each is imported when it is needed, because they are large."""
    domain: Domain = importlib.import_module(f"harness.environments.tau2.{name}").DOMAIN
    return domain


class End(StrEnum):
    """Why a conversation ended before the agent submitted. Only the user's end is graded."""

    USER = "the user ended the conversation"
    STEPS = f"the conversation reached its limit of {MAX_STEPS} steps"
    ERRORS = f"{MAX_ERRORS} calls of tools failed"
    CHARACTERS = f"the agent's messages have more than {MAX_CHARACTERS:,} characters"


@dataclass(slots=True)
class Conversation:
    """A conversation under way."""

    task: ServiceTask
    world: World
    messages: list[tuple[Requestor, str]]
    # All calls, with those that failed.
    calls: list[Call] = field(default_factory=list)
    # The model's own view of the conversation, after the instructions.
    seen_by_user: list[Message] = field(default_factory=list)
    steps: int = 0
    errors: int = 0
    characters: int = 0
    ended: End | None = None
    # Whether the agent has a message that the user has not answered, before the agent has acted.
    is_opening: bool = False

    @classmethod
    def begin(cls, task: ServiceTask) -> Conversation:
        """Return a new conversation, which goes on after the earlier part."""
        made = cls(task, task.open_world(), [])
        for author, text in task.history or (("assistant", GREETING),):
            made.say(author, text)
        made.is_opening = made.messages[-1][0] == "assistant"
        return made

    def say(self, author: Requestor, text: str) -> None:
        """Add a message."""
        self.messages.append((author, text))
        # The user is the assistant of its own model.
        self.seen_by_user.append(Message(Role.USER if author == "assistant" else Role.ASSISTANT, text))

    def call(self, call: Call) -> str:
        """Call a tool and return what its caller reads."""
        self.calls.append(call)
        self.count_steps(2)
        try:
            return show(self.world.call(call))
        except ToolError as error:
            self.note_error()
            return f"Error: {error}"

    def note_error(self) -> None:
        """Count a call that failed."""
        self.errors += 1
        if self.errors >= MAX_ERRORS and self.ended is None:
            self.ended = End.ERRORS

    def count_steps(self, number: int) -> None:
        """Count messages and results of calls."""
        self.steps += number
        if self.steps >= MAX_STEPS and self.ended is None:
            self.ended = End.STEPS

    async def respond(self, text: str, user: EnvironmentJudge | None) -> str:
        """Send a message to the user and return the observation of the agent.

        Raises ModelError and ModelRefusedError if the user's model fails.
        """
        notice = ""
        if self.is_opening:
            said = self.messages[-1][1]
            notice = "" if text.strip() == said else f"[Your message was not sent. You had said: {said}]\n"
            self.is_opening = False
        else:
            self.say("assistant", text)
            self.count_steps(1)
            self.characters += len(text)
            if self.characters > MAX_CHARACTERS and self.ended is None:
                self.ended = End.CHARACTERS
        if user is None:
            return f"{notice}{NOBODY}"
        while self.ended is None:
            reply = await user.ask(
                (Message(Role.SYSTEM, self.task.user_prompt), *self.seen_by_user), None, self.read_reply
            )
            if isinstance(reply, Call):
                written = json.dumps(
                    {"tool": reply.name, "arguments": dict(reply.arguments)}, ensure_ascii=False
                )
                self.seen_by_user.append(Message(Role.ASSISTANT, written))
                self.seen_by_user.append(Message(Role.USER, f"[{reply.name} returned] {self.call(reply)}"))
                continue
            self.count_steps(1)
            self.say("user", reply)
            if any(stop in reply for stop in STOPS):
                self.ended = End.USER
                break
            return f"{notice}{reply}"
        return f"{notice}[{self.ended.value}.]" if self.ended else notice

    def read_reply(self, text: str) -> str | Call:
        """Return the user's message, or the call of one of the user's tools. Raises ValueError."""
        reply = drop_thoughts(text).strip()
        if not reply:
            raise ValueError("it is empty")
        tools = load_domain(self.task.domain).user_tools
        if not tools or not reply.startswith("{"):
            return reply
        try:
            found = json.loads(reply)
        except (ValueError, RecursionError):
            raise ValueError("it begins like the call of a tool and is not one JSON object") from None
        if not isinstance(found.get("tool"), str) or not isinstance(found.get("arguments", {}), dict):
            raise ValueError('the call of a tool has the form {"tool": NAME, "arguments": {...}}')
        return Call("user", found["tool"], found.get("arguments", {}))


def describe_user_tools(domain: Domain) -> str:
    """Return the part of the user's instructions that lists the user's tools, "" without any."""
    if not domain.user_tools:
        return ""
    tools = [make_tool(function) for function in domain.user_tools]
    lines = [f"- {each.name}: {each.description} {json.dumps(each.parameters)}" for each in tools]
    return (
        "\n\n# Your tools\nTo use one, reply with one JSON object and nothing else: "
        '{"tool": NAME, "arguments": {...}}. You then get its result and reply again. '
        "Any other reply is a message to the agent.\n" + "\n".join(lines)
    )
