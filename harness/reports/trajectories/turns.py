"""Read a transcript as a conversation: the prompt, each reply of a model, and the calls that followed it.

The entries come from a file that untrusted programs have filled. So each value is checked for its type here,
and the exports rely on the types of these classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.core.inputs.json_text import BrokenJSONError, parse_json
from harness.reports.recorded_attempts import list_objects, read_count, read_seconds, read_text

Role = Literal["system", "user", "assistant", "tool"]
_ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool, as the model wrote it or as the agent made it."""

    id: str
    name: str
    # An argument that is not a JSON object is under the name `input`.
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as the request offered it to the model."""

    name: str
    # None in a run of an earlier version, which stored the name alone.
    description: str | None = None
    # The JSON schema of the arguments.
    parameters: Mapping[str, Any] | None = None

    def as_function(self) -> dict[str, Any]:
        """Return the fields of the tool without those that are unknown."""
        known = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {name: value for name, value in known.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a conversation with a model."""

    role: Role
    text: str
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    # The id of the call that a message of the role `tool` answers.
    answers: str | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """The result of a call."""

    call: ToolCall
    # Whether the call is one of the reply. Otherwise the model wrote it in its text, or no model wrote it.
    is_written: bool
    # None if the call ended without an observation.
    text: str | None
    refused: bool
    # The reason why there is no observation.
    ended: str | None
    seconds: float
    # When the call ended, in seconds since 1970. None in a run of an earlier version.
    time: float | None


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one request. None is unknown."""

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    reasoning: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the model of the agent, without its reply."""

    number: int | None
    # The messages that the request adds to the one before, or all of them if `replaces` is true.
    messages: tuple[Message, ...]
    replaces: bool
    tokens: Tokens
    seconds: float
    time: float | None
    finish: str | None
    cached: bool
    retries: int
    refusal: str = ""
    # The tools that the model could call. Only the first request of an attempt has them.
    tools: tuple[ToolDefinition, ...] = ()
    # The API of a request of a program. None for one that harness has made, which has the API of the server.
    api: str | None = None


@dataclass(slots=True)
class Turn:
    """A reply of the agent or its model, and the calls that followed it."""

    reply: Message
    # None if no model wrote the reply.
    request: Request | None
    observations: list[Observation] = field(default_factory=list)
    time: float | None = None

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls of the reply, and those that were made without one of them."""
        return (*self.reply.calls, *(each.call for each in self.observations if not each.is_written))


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt of the task, the first entry of a transcript."""

    text: str
    time: float | None


@dataclass(frozen=True, slots=True)
class Note:
    """An entry that is not part of the conversation, such as the end of a program or a request to a judge."""

    kind: str
    data: Mapping[str, Any]
    time: float | None


Part = Prompt | Turn | Note


def read_parts(entries: Iterable[Mapping[str, Any]], clean: Callable[[Any], Any]) -> Iterator[Part]:
    """Yield the parts of a conversation in order. Memory holds one turn at a time.

    Args:
        entries: the entries of a transcript.
        clean: removes secrets from an entry. It gets the arguments of calls as values, because a text of JSON
            can hide a secret behind escapes.
    """
    reader = _Reader()
    for entry in entries:
        yield from reader.add(clean(_parse_arguments(entry)))
    yield from reader.end()


def _parse_arguments(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an entry with the arguments of each call that a model wrote as an object."""
    if entry.get("kind") != "model":
        return entry

    def parse(message: Mapping[str, Any]) -> Mapping[str, Any]:
        calls = [
            {**call, "arguments": _read_arguments(call.get("arguments"))}
            for call in list_objects(message.get("tool_calls"))
        ]
        return {**message, "tool_calls": calls}

    reply = entry.get("reply")
    messages = [parse(each) for each in list_objects(entry.get("messages"))]
    return {**entry, "messages": messages, "reply": parse(reply) if isinstance(reply, Mapping) else {}}


class _Reader:
    def __init__(self) -> None:
        self._turn: Turn | None = None
        # Notes that were written during the turn. They follow it.
        self._notes: list[Note] = []
        self._last_reply: str | None = None
        self._calls = 0

    def add(self, entry: Mapping[str, Any]) -> Iterator[Part]:
        time = read_seconds(entry.get("time"))
        kind = entry.get("kind")
        # An agent of the user's own may write any entry, and it must not pass for one of harness.
        if entry.get("by") == "agent":
            self._notes.append(Note("agent", entry, time))
        elif kind == "model":
            yield from self.end()
            self._turn = _read_turn(entry, time)
            self._last_reply = self._turn.reply.text
        elif kind is None and "tool" in entry:
            if self._turn is None:
                self._turn = Turn(Message("assistant", ""), None, time=time)
            self._calls += 1
            _add_call(self._turn, entry, self._calls, time)
        elif "prompt" in entry and (kind is None or (kind == "step" and entry.get("number") != 1)):
            # The first step has the prompt of the task, which is there already.
            yield from self.end()
            yield Prompt(read_text(entry["prompt"]), time)
        elif kind is None and "output" in entry:
            yield from self.end()
            # The agents that ask a model submit its last reply, which is there already.
            if read_text(entry["output"]) != self._last_reply:
                yield Turn(Message("assistant", read_text(entry["output"])), None, time=time)
        elif kind == "reference":
            yield from self.end()
            self._calls += 1
            call = ToolCall(f"call-{self._calls}", "reference", {"text": read_text(entry.get("text"))})
            seen = Observation(call, False, read_text(entry.get("observation")), False, None, 0.0, time)
            yield Turn(Message("assistant", ""), None, [seen], time)
        else:
            name = "error" if kind is None and "error" in entry else read_text(kind) or "entry"
            self._notes.append(Note(name, entry, time))
        if self._turn is None:
            yield from self.end()

    def end(self) -> Iterator[Part]:
        turn, self._turn = self._turn, None
        if turn is not None:
            yield turn
        yield from self._notes
        self._notes = []


def _read_turn(entry: Mapping[str, Any], time: float | None) -> Turn:
    reply = entry.get("reply")
    values = reply if isinstance(reply, Mapping) else {}
    usage = entry.get("usage")
    request = Request(
        number=read_count(entry.get("request")),
        messages=tuple(_read_message(each) for each in list_objects(entry.get("messages"))),
        replaces=entry.get("changed") is True,
        tokens=_read_tokens(usage if isinstance(usage, Mapping) else {}),
        seconds=read_seconds(entry.get("seconds")) or 0.0,
        time=time,
        finish=values["finish"] if isinstance(values.get("finish"), str) else None,
        cached=entry.get("cached") is True,
        retries=read_count(entry.get("retries")) or 0,
        refusal=read_text(values.get("refusal")),
        tools=tuple(_read_tools(entry)),
        api=entry["api"] if isinstance(entry.get("api"), str) else None,
    )
    return Turn(_read_message({**values, "role": "assistant"}), request, time=time)


def _read_tokens(usage: Mapping[str, Any]) -> Tokens:
    names = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
    return Tokens(*(read_count(usage.get(name)) for name in names))


def _read_tools(entry: Mapping[str, Any]) -> Iterator[ToolDefinition]:
    defined = list_objects(entry.get("tool_definitions"))
    for each in defined:
        parameters = each.get("parameters")
        yield ToolDefinition(
            read_text(each.get("name")) or "unknown",
            read_text(each.get("description")),
            parameters if isinstance(parameters, Mapping) else {},
        )
    names = entry.get("tools")
    if not defined and isinstance(names, list):
        yield from (ToolDefinition(name) for name in names if isinstance(name, str) and name)


def _read_message(values: Mapping[str, Any]) -> Message:
    calls = []
    for place, call in enumerate(list_objects(values.get("tool_calls"))):
        name = read_text(call.get("name")) or "unknown"
        id_ = read_text(call.get("id")) or f"{name}-{place}"
        calls.append(ToolCall(id_, name, _read_arguments(call.get("arguments"))))
    answers = values.get("tool_call_id")
    return Message(
        role=_ROLES.get(read_text(values.get("role")), "user"),
        text=read_text(values.get("text")),
        reasoning=read_text(values.get("reasoning")),
        calls=tuple(calls),
        answers=answers if isinstance(answers, str) else None,
    )


def _read_arguments(value: Any) -> Mapping[str, Any]:
    """Return the arguments of a call as an object. A model may write anything in their place."""
    if isinstance(value, str):
        try:
            read = parse_json(value)
        except BrokenJSONError:
            return {"input": value}
        return read if isinstance(read, dict) else {"input": value}
    if isinstance(value, Mapping):
        return value
    return {} if value is None else {"input": value}


def _add_call(turn: Turn, entry: Mapping[str, Any], number: int, time: float | None) -> None:
    """Add a call that was made to a turn, as the first call of the model that is still open, if one is."""
    name = read_text(entry.get("tool"))
    answered = {each.call.id for each in turn.observations}
    call = next((each for each in turn.reply.calls if each.name == name and each.id not in answered), None)
    is_written = call is not None
    if call is None:
        call = ToolCall(f"call-{number}", name or "unknown", _read_arguments(entry.get("arguments")))
    ended = entry.get("ended")
    turn.observations.append(
        Observation(
            call,
            is_written,
            None if ended is not None else read_text(entry.get("observation")),
            entry.get("refused") is True,
            None if ended is None else read_text(ended),
            read_seconds(entry.get("seconds")) or 0.0,
            time,
        )
    )
