"""The order of failures on screen, and the command that shows the first one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.text import quote_argument
from harness.core.types import AttemptRecord, Status

_MAX_COMMAND = 4000
# An exception in the evidence of a verdict, such as `NameError`.
_EXCEPTION = re.compile(r"\b[A-Z][A-Za-z]{0,40}(?:Error|Exception)\b")
_READ_CHARACTERS = 4000
# Programs choose the names of their exceptions, so there may be any number of them.
_MOST_COUNTED, _MOST_SHOWN = 1000, 10


def rank_failure(record: AttemptRecord, *, has_samples: bool) -> int:
    """Return the place of an unresolved attempt in a list, the most instructive first.

    Verdicts lead, then errors of the agent, faults of the infrastructure, tasks without a sample, and
    attempts that were cancelled.

    Args:
        record: the record of the attempt.
        has_samples: whether the run grades samples, so that an attempt without one never had a chance.
    """
    if record.status is Status.CANCELLED:
        return 4
    if has_samples and record.sample_line is None:
        return 3
    if record.status in (Status.INFRA_ERROR, Status.GRADER_ERROR):
        return 2
    return int(record.status is Status.AGENT_ERROR)


def find_first_failure(records: Iterable[AttemptRecord], *, has_samples: bool) -> AttemptRecord | None:
    """Return the failure to look at first, None if no attempt failed."""
    failed = (record for record in records if not record.resolved and record.status is not Status.CANCELLED)
    return min(failed, key=lambda record: rank_failure(record, has_samples=has_samples), default=None)


@dataclass(frozen=True, slots=True)
class Unresolved:
    """The tasks of a run with an attempt that did not pass."""

    number: int
    # One attempt that did not pass of each of the first tasks. Infra errors lead, because they need a person.
    shown: Sequence[AttemptRecord]
    # The attempt to look at first, None if none failed.
    first: AttemptRecord | None
    # The attempts of each shown task that passed, and all of them.
    attempts: Mapping[str, tuple[int, int]]
    # Whether tasks have several attempts.
    several: bool = False

    @property
    def title(self) -> str:
        """The name of the tasks that are counted."""
        return "tasks with a failure" if self.several else "unresolved tasks"

    def describe_task(self, record: AttemptRecord) -> str:
        """Return the id of a shown task, with `(1 of 2)` if 1 of its 2 attempts passed."""
        passed, number = self.attempts[record.task_id]
        return record.task_id if number == 1 else f"{record.task_id} ({passed:,} of {number:,})"


def choose_unresolved(
    records: Iterable[AttemptRecord], most: int, *, has_samples: bool, several: bool = False
) -> Unresolved:
    """Return the tasks with an unresolved attempt, at most `most` of them.

    It holds no more than a few records at a time, because a run may have more than fit into memory. Of tasks
    with several attempts it also holds two counts each.

    Args:
        records: the records of all attempts.
        most: the largest number of tasks to show.
        has_samples: whether the run grades samples.
        several: whether a task has more than one attempt.
    """

    def order(record: AttemptRecord) -> tuple[bool, int]:
        needs_person = record.status in (Status.INFRA_ERROR, Status.GRADER_ERROR)
        return not needs_person, rank_failure(record, has_samples=has_samples)

    def choose(found: Sequence[AttemptRecord]) -> list[AttemptRecord]:
        ranked = sorted(found, key=order)
        if several:
            leading: dict[str, AttemptRecord] = {}
            for record in ranked:
                leading.setdefault(record.task_id, record)
            ranked = [*leading.values()]
        return ranked[:most]

    number, shown, first = 0, list[AttemptRecord](), None
    # The attempts of each task that passed, and all of them. Tasks share equal pairs.
    attempts: dict[str, tuple[int, int]] = {}
    pairs: dict[tuple[int, int], tuple[int, int]] = {}
    for record in records:
        passed, made = attempts.get(record.task_id, (0, 0))
        if several:
            pair = passed + record.resolved, made + 1
            attempts[record.task_id] = pairs.setdefault(pair, pair)
        if record.resolved:
            continue
        number += passed == made
        first = find_first_failure([*([first] if first else []), record], has_samples=has_samples)
        shown.append(record)
        if len(shown) >= 2 * most:
            shown = choose(shown)
    shown = choose(shown)
    counts = {each.task_id: attempts.get(each.task_id, (0, 1)) for each in shown}
    return Unresolved(number, shown, first, counts, several)


def write_show_command(folder: Path, record: AttemptRecord) -> str | None:
    """Return the command line that shows an attempt, ready to paste into a shell.

    Return None if no shell can pass on the task id, or if the line is too long to paste.
    """
    words = [str(folder), record.task_id]
    if any("\0" in word or re.search("[\ud800-\udfff]", word) for word in words):
        return None
    number = ["--attempt", str(record.attempt)] if record.attempt else []
    has_dash = any(word.startswith("-") for word in words)
    arguments = [*number, "--", *words] if has_dash else [*words, *number]
    line = " ".join(["harness", "show", *map(quote_argument, arguments)])
    return line if len(line) <= _MAX_COMMAND else None


@dataclass(frozen=True, slots=True)
class Cause:
    """Attempts that failed in the same way."""

    status: Status
    exception: str
    """The name of the first exception in the evidence, "" without one."""
    number: int
    example: str
    """The task of the first of these attempts."""


class Causes:
    """Counts unresolved attempts by their status and the exception in their evidence.

    Args:
        has_samples: whether the run grades samples, so that an attempt without one never had a chance.
    """

    def __init__(self, *, has_samples: bool = False) -> None:
        self._has_samples = has_samples
        self._ranks: dict[tuple[Status, str], int] = {}
        self._numbers: Counter[tuple[Status, str]] = Counter()
        self._examples: dict[tuple[Status, str], str] = {}

    def watch(self, records: Iterable[AttemptRecord]) -> Iterator[AttemptRecord]:
        """Yield the records, and count those that are unresolved."""
        for record in records:
            if not record.resolved:
                self._add(record)
            yield record

    def _add(self, record: AttemptRecord) -> None:
        found = _EXCEPTION.search((record.error or "")[:_READ_CHARACTERS])
        key = record.status, found[0] if found else ""
        if key not in self._numbers and len(self._numbers) >= _MOST_COUNTED:
            key = record.status, ""
        self._numbers[key] += 1
        self._examples.setdefault(key, record.task_id)
        rank = rank_failure(record, has_samples=self._has_samples)
        self._ranks[key] = min(rank, self._ranks.get(key, rank))

    def list_most_frequent(self) -> Sequence[Cause]:
        """Return the most frequent causes, failures of programs ahead of samples that are missing."""
        found = [
            Cause(*key, number, self._examples[key]) for key, number in self._numbers.most_common(_MOST_SHOWN)
        ]
        return sorted(found, key=lambda cause: self._ranks[cause.status, cause.exception])
