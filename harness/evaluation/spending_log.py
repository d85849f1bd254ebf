"""The spending of a run on its model, a line for each request.

An attempt has a record only after its end. The log also has the requests of attempts that a budget, an
interruption or a kill has ended without a record, because they were paid for, too. The run itself makes a few
requests that belong to no attempt.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.evaluation.store import (
    ATTEMPTS,
    MAX_ATTEMPTS_BYTES,
    StorageError,
    advise_resume,
    read_records,
)
from harness.evaluation.usage import USAGE, Amounts, add_usage, read_usage
from harness.inputs.files import open_input, read_whole_lines
from harness.inputs.json_text import parse_json
from harness.models.messages import NO_USAGE, Usage
from harness.models.spending import Spending

SPENDING = "spending.jsonl"
# The key of a line whose request belongs to no attempt.
_OF_ATTEMPT = "of_attempt"


@dataclass(slots=True)
class RunSpending:
    """The spending of a run, which grows while the run goes on."""

    whole: Spending = field(default_factory=Spending)
    # The use of the model by requests that belong to no attempt, None without one.
    of_no_attempt: Amounts | None = None


class SpendingLog:
    """Appends to the log of a run folder. `spent` is the spending before a resumed run goes on."""

    def __init__(self, folder: Path, spent: RunSpending) -> None:
        self._path = folder / SPENDING
        self._spent = spent
        if self._path.exists():
            self._end_cut_line()
        elif spent.whole.usage != NO_USAGE:
            # The folder was made from records alone, so its log begins with their sum.
            self.append(spent.whole.usage, spent.whole.cost, True)

    def append(self, usage: Usage, cost: float | None, of_attempt: bool) -> None:
        """Append a request. It outlives this process, but not a loss of power. Raises StorageError."""
        values: dict[str, Any] = {**usage.as_values(), "cost": cost}
        if not of_attempt:
            values[_OF_ATTEMPT] = False
            _count_of_no_attempt(self._spent, values)
        self._write(json.dumps(values) + "\n")

    def _end_cut_line(self) -> None:
        with open_input(self._path, max_bytes=MAX_ATTEMPTS_BYTES) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 1, 0))
            is_cut = file.read(1) not in (b"", b"\n")
        if is_cut:
            self._write("\n")

    def _write(self, text: str) -> None:
        try:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise StorageError(
                f"{self._path}: cannot be written: {error.strerror}",
                hint=advise_resume(self._path.parent, error),
            ) from error


def read_spending(folder: Path) -> RunSpending:
    """Return the spending of a run so far, from its log or else from its records. Raises UsageError."""
    path = folder / SPENDING
    if not path.exists():
        return RunSpending(_read_recorded_spending(folder))
    spent = RunSpending()
    try:
        with open_input(path, max_bytes=MAX_ATTEMPTS_BYTES) as file:
            for line in file:
                _add_line(spent, line)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    return spent


def copy_spending(sources: Iterable[Path], place: Path) -> None:
    """Write the lines of several logs, as far as they exist, to one log.

    Raises StorageError if a log cannot be read, or the new log cannot be written.
    """
    for source in sources:
        if not source.exists():
            continue
        try:
            with open_input(source, max_bytes=MAX_ATTEMPTS_BYTES) as stream, open(place, "ab") as file:
                file.writelines(line for _, line in read_whole_lines(stream, source))
        except OSError as error:
            raise StorageError(f"{place}: cannot be copied from {source}: {error.strerror}") from error


def _add_line(spent: RunSpending, line: bytes) -> None:
    try:
        values = parse_json(line)
    except ValueError:  # a kill or a full disk has cut the line
        return
    if isinstance(values, dict):
        _add(spent.whole, values)
        if values.get(_OF_ATTEMPT) is False:
            _count_of_no_attempt(spent, values)


def _count_of_no_attempt(spent: RunSpending, values: Mapping[str, Any]) -> None:
    used = read_usage({**dict.fromkeys(USAGE, 0), **values, "model_requests": 1})
    spent.of_no_attempt = add_usage(spent.of_no_attempt, used)


def _read_recorded_spending(folder: Path) -> Spending:
    spent = Spending()
    if (folder / ATTEMPTS).exists():
        for record, _ in read_records(folder / ATTEMPTS):
            if record.metrics.get("model_requests"):
                _add(spent, record.metrics)
    return spent


def _add(spent: Spending, values: Mapping[str, Any]) -> None:
    spent.usage += Usage(*(_read_number(values.get(name)) for name in Usage.__slots__))
    cost = _read_number(values.get("cost"))
    spent.cost = None if spent.cost is None or cost is None else spent.cost + cost


def _read_number(value: Any) -> Any:
    """Return a number from a file, None for anything else."""
    return value if type(value) in (int, float) and value >= 0 else None
