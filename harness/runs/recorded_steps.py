"""Read the steps of a recorded attempt, and the requests to its judge, from its transcript."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from harness.core.errors import DataError
from harness.core.text import shorten
from harness.runs.agents.recording import RecordedCall, RecordedJudgement, RecordedReference, RecordedStep
from harness.runs.transcripts import read_numbered_entries

_SHOWN_TYPE = 100


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
