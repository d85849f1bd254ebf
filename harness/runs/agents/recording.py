"""A recorded run as the agent `replay` sees it, and its steps and judgements as its transcripts hold them.

All texts come from the run folder, whose agent may have been hostile. They are data.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from harness.core.errors import DataError
from harness.core.text import shorten
from harness.core.types import Phase, Status, Submission
from harness.runs.transcripts import read_numbered_entries

_SHOWN_TYPE = 100


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A call of a tool, and its observation."""

    # The number of the call, from 1.
    round: int
    tool: str
    arguments: Mapping[str, Any]
    observation: str
    refused: bool
    # The type of the exception that ended the call before its observation, None if the call has one.
    ended: str | None = None
    # Whether a server of the user's carried it out, rather than the environment.
    is_foreign: bool = False


@dataclass(frozen=True, slots=True)
class RecordedReference:
    """A text of the reference that the oracle ran outside of the tools, and the observation."""

    text: str
    observation: str


@dataclass(frozen=True, slots=True)
class RecordedJudgement:
    """A request to the judge of the environment, as pairs of role and text, and the reply."""

    messages: tuple[tuple[str, str], ...]
    reply: str


RecordedStep = RecordedCall | RecordedReference


@dataclass(frozen=True, slots=True)
class RecordedAttempt:
    """The end of a recorded attempt."""

    status: Status
    score: float | None
    # The part of the attempt where it ended, None if the record does not report it.
    phase: Phase | None
    # The limit behind the status.
    limit: str | None
    error: str | None
    # None if the agent handed nothing in.
    submission: Submission | None


class Recording(Protocol):
    """A recorded run."""

    @property
    def name(self) -> str:
        """The path of the run folder, for messages."""

    def read_attempt(self, task_id: str, number: int) -> RecordedAttempt:
        """Return the end of an attempt. Raises DataError, with file and line."""

    def open_steps(
        self, task_id: str, number: int
    ) -> AbstractContextManager[Callable[[], RecordedStep | None]]:
        """Open the steps of an attempt. Each call returns the next step, None after the last.

        A call raises DataError, with file and line, for a transcript that is damaged, incomplete, or of
        something that no replay can repeat.
        """

    def read_judgements(self, task_id: str, number: int) -> Generator[RecordedJudgement, None, None]:
        """Yield the judgements in an attempt in order. Raises DataError, with file and line."""


def read_steps(path: Path, rounds: int | None, is_oracle: bool) -> Generator[RecordedStep, None, None]:
    """Yield the steps in a transcript, in order. Raises DataError, with file and line.

    Args:
        path: the transcript.
        rounds: the number of calls that the record counts, None if it does not.
        is_oracle: whether the agent was the oracle, which alone runs a text of the reference.
    """
    calls = line = 0
    with closing(read_numbered_entries(path)) as entries:
        for line, entry in entries:
            # An agent of the user's own may write any entry, and it must not pass for one of harness.
            if entry.get("by") == "agent":
                continue
            kind = entry.get("kind")
            if kind == "terminal":
                raise DataError(
                    "is a terminal where a person typed, whose keys no transcript has",
                    path=path,
                    line=line,
                )
            if kind == "step":
                raise DataError(
                    "is a step of a task with several prompts, and a replay repeats tasks with one",
                    path=path,
                    line=line,
                )
            if kind == "program" and entry.get("is_in_task") is True:
                raise DataError(
                    "is a program that acted in the machine itself, and no transcript has its actions",
                    path=path,
                    line=line,
                )
            if kind == "reference":
                if not is_oracle:
                    raise DataError("is a reference, which only the oracle runs", path=path, line=line)
                yield RecordedReference(
                    _text(entry, "text", path, line), _text(entry, "observation", path, line)
                )
            elif kind is None and "tool" in entry:
                call = _read_call(entry, path, line)
                if call.round != calls + 1:
                    raise DataError(
                        f"is call {call.round}, but call {calls + 1} is missing before it",
                        path=path,
                        line=line,
                    )
                calls += 1
                yield call
    if rounds is not None and rounds != calls:
        raise DataError(
            f"the transcript ends after call {calls:,}, but its record counts {rounds:,} calls",
            path=path,
            line=line,
        )


def _read_call(entry: Mapping[str, Any], path: Path, line: int) -> RecordedCall:
    number, arguments, refused = entry.get("round"), entry.get("arguments"), entry.get("refused")
    ended = entry.get("ended")
    if type(number) is not int or not isinstance(arguments, dict) or type(refused) is not bool:
        raise DataError("is not a call of a tool", path=path, line=line)
    if ended is not None and not isinstance(ended, str):
        raise DataError("'ended' is not a text", path=path, line=line)
    return RecordedCall(
        number,
        _text(entry, "tool", path, line),
        arguments,
        _text(entry, "observation", path, line),
        refused,
        None if ended is None else shorten(ended, _SHOWN_TYPE),
        entry.get("is_foreign") is True,
    )


def _text(entry: Mapping[str, Any], field: str, path: Path, line: int) -> str:
    text = entry.get(field)
    if not isinstance(text, str):
        raise DataError("is not a text", path=path, line=line, field=field)
    return text


def read_judgements(path: Path) -> Generator[RecordedJudgement, None, None]:
    """Yield each request to the judge in a transcript, with all its messages. Raises DataError.

    An entry has only the messages that its request adds to the one before, unless it has `changed`.
    """
    known: tuple[tuple[str, str], ...] = ()
    with closing(read_numbered_entries(path)) as entries:
        for line, entry in entries:
            if entry.get("kind") != "judge" or entry.get("by") == "agent":
                continue
            added, reply = entry.get("messages"), entry.get("reply")
            if not isinstance(added, list) or not isinstance(reply, dict):
                raise DataError("is not a request to a judge", path=path, line=line)
            messages = tuple(_read_message(each, path, line) for each in added)
            if not entry.get("changed"):
                messages = (*known, *messages)
            text = reply.get("text")
            if not isinstance(text, str):
                raise DataError("is not a reply of a judge", path=path, line=line)
            yield RecordedJudgement(messages, text)
            known = (*messages, ("assistant", text))


def _read_message(message: Any, path: Path, line: int) -> tuple[str, str]:
    if not isinstance(message, Mapping):
        raise DataError("has a message that is not an object", path=path, line=line)
    role, text = message.get("role"), message.get("text")
    if not isinstance(role, str) or not isinstance(text, str):
        raise DataError("has a message without role and text", path=path, line=line)
    return role, text
