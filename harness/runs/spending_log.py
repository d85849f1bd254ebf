"""The spending of a run on its model, a line for each request.

An attempt has a record only after its end. The log also has the requests of attempts that a budget, an
interruption or a kill has ended without a record, because they were also paid for. The run itself makes a few
requests that belong to no attempt.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from harness.core.errors import UsageError
from harness.core.inputs.files import MAX_LINE_BYTES, read_whole_lines
from harness.core.inputs.json_text import parse_json
from harness.models.messages import NO_USAGE, Usage
from harness.models.spending import Spending
from harness.runs.attempt_index import ATTEMPTS, MAX_ATTEMPTS_BYTES
from harness.runs.run_files import (
    StorageError,
    advise_resume,
    append_to_run_file,
    has_run_file,
    open_run_file,
)
from harness.runs.store import read_records
from harness.runs.stored_result import USAGE, Amounts, add_usage, read_usage

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
        self._folder = folder
        self._path = folder / SPENDING
        self._spent = spent
        if has_run_file(folder, SPENDING):
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
        try:
            with open_run_file(self._folder, SPENDING, max_bytes=MAX_ATTEMPTS_BYTES) as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(size - 1, 0))
                is_cut = file.read(1) not in (b"", b"\n")
        except OSError as error:
            raise UsageError(f"{self._path}: cannot be read: {error.strerror}") from error
        if is_cut:
            self._write("\n")

    def _write(self, text: str) -> None:
        try:
            with os.fdopen(append_to_run_file(self._folder, SPENDING), "a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise StorageError(
                f"{self._path}: cannot be written: {error.strerror}",
                hint=advise_resume(self._folder, error),
            ) from error


def read_spending(folder: Path) -> RunSpending:
    """Return the spending of a run so far, from its log or else from its records. Raises UsageError."""
    path = folder / SPENDING
    if not has_run_file(folder, SPENDING):
        return RunSpending(_read_recorded_spending(folder))
    spent = RunSpending()
    try:
        with open_run_file(folder, SPENDING, max_bytes=MAX_ATTEMPTS_BYTES) as file:
            # A very long line, which is not a request, is read in parts.
            for values in map(_read_request, iter(partial(file.readline, MAX_LINE_BYTES), b"")):
                if values is None:
                    continue
                _add(spent.whole, values)
                if values.get(_OF_ATTEMPT) is False:
                    _count_of_no_attempt(spent, values)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    return spent


def copy_spending(sources: Iterable[Path], folder: Path) -> None:
    """Write the requests in the logs of several run folders, as far as they exist, to the log of another.

    Raises StorageError if a log cannot be read, or the new log cannot be written.
    """
    for source in sources:
        if not has_run_file(source, SPENDING):
            continue
        try:
            with (
                open_run_file(source, SPENDING, max_bytes=MAX_ATTEMPTS_BYTES) as stream,
                os.fdopen(append_to_run_file(folder, SPENDING), "ab") as file,
            ):
                # A line that is no request could be a hole of a sparse file, without end.
                file.writelines(
                    line
                    for _, line in read_whole_lines(stream, source / SPENDING)
                    if _read_request(line) is not None
                )
        except OSError as error:
            place = folder / SPENDING
            raise StorageError(
                f"{place}: cannot be copied from {source / SPENDING}: {error.strerror}"
            ) from error


def _read_request(line: bytes) -> dict[str, Any] | None:
    """Return the values of a line, None if it is no request."""
    try:
        values = parse_json(line)
    except ValueError:  # a kill or a full disk has cut the line
        return None
    return values if isinstance(values, dict) else None


def _count_of_no_attempt(spent: RunSpending, values: Mapping[str, Any]) -> None:
    used = read_usage({**dict.fromkeys(USAGE, 0), **values, "model_requests": 1})
    spent.of_no_attempt = add_usage(spent.of_no_attempt, used)


def _read_recorded_spending(folder: Path) -> Spending:
    spent = Spending()
    if has_run_file(folder, ATTEMPTS):
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
