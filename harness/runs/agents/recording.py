"""A recorded run as the agent `replay` sees it. `harness.runs.recorded_run` reads it from its folder.

All texts come from the run folder, whose agent may have been hostile. They are data.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from harness.core.types import Phase, Status, Submission


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
    # The part of the attempt in which it ended, None if the record does not report it.
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
