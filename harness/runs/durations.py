"""The durations of tasks in an earlier run. A plan starts the longest tasks first by them."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING

from harness.core.errors import UsageError
from harness.core.inputs.files import MAX_LINE_BYTES
from harness.core.types import Status
from harness.runs.attempt_index import ATTEMPTS, MAX_ATTEMPTS_BYTES
from harness.runs.planned_attempt import PlannedAttempt
from harness.runs.run_files import open_run_file
from harness.runs.run_names import find_run
from harness.runs.store import UNFINISHED, read_records
from harness.runs.stored_result import SUPERSEDED_STATUS

if TYPE_CHECKING:
    from harness.runs.settings import RunConfig


def read_durations(folder: Path) -> dict[str, float]:
    """Return the seconds of the longest attempt at each task of a run, by task id. Raises UsageError."""
    durations: dict[str, float] = {}
    for record, _size in read_records(folder / ATTEMPTS):
        durations[record.task_id] = max(record.duration_seconds, durations.get(record.task_id, 0.0))
    return durations


def find_durations(config: RunConfig) -> tuple[RunConfig, dict[str, float]]:
    """Return the config with an absolute path as `durations_from`, and the durations of that run.

    Raises UsageError for a run that does not exist or cannot be read.
    """
    if config.durations_from is None:
        return config, {}
    folder = find_run(config.durations_from, Path(config.output_dir)).absolute()
    return config.model_copy(update={"durations_from": str(folder)}), read_durations(folder)


def order_by_duration(
    plan: Sequence[PlannedAttempt], durations: Mapping[str, float]
) -> Sequence[PlannedAttempt]:
    """Return a plan with the longest tasks first, so that no long task keeps a run going at its end.

    Tasks without a known duration come before all others, because each of them may be the longest. The
    attempts at one task stay together.
    """
    if not durations:
        return plan
    return sorted(plan, key=lambda planned: -durations.get(planned.task.id, float("inf")))


def describe_unknown(
    plan: Sequence[PlannedAttempt], durations: Mapping[str, float], notify: Callable[[str], None]
) -> None:
    """Report how many tasks of a plan have no known duration. Raises UsageError if none has one."""
    tasks = {planned.task.id for planned in plan}
    unknown = tasks.difference(durations)
    if tasks and len(unknown) == len(tasks):
        raise UsageError(
            "the run that --durations-from names has no attempt at any of the selected tasks",
            hint="name a run of the same benchmark, or leave it out",
        )
    if unknown:
        notify(f"tasks without a known duration, which start first: {len(unknown):,} of {len(tasks):,}")


# `json.dumps` writes it before every text of the agent, and escapes quotes there.
_STATUS = b'"status": "'
_SUPERSEDED = f'"metrics": {{"{SUPERSEDED_STATUS}": "'.encode()
_NAMES = {status.value.encode(): status for status in Status}
# The lines between two looks at the clock.
_LINES = 1000


class FinishedCount:
    """The count of one `attempts.jsonl`, which follows the file while it grows. Threads may share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._start_again()

    def _start_again(self) -> None:
        self._identity: tuple[int, int] | None = None
        self._end = 0
        self._statuses: Counter[Status] = Counter()
        self._superseded = 0

    def read(self, seconds: float | None = None) -> int | None:
        """Return the number of attempts that have a verdict, after a look at the new part of the file.

        Args:
            seconds: about the longest time to read, None for no limit. The next call reads on.

        Returns:
            None if the file has more lines than there was time for.

        Raises OSError if the file cannot be read.
        """
        until = None if seconds is None else time.monotonic() + seconds
        with self._lock:
            try:
                stream = open_run_file(self._folder, ATTEMPTS, max_bytes=MAX_ATTEMPTS_BYTES)
            except FileNotFoundError:  # the run was killed before its first attempt
                self._start_again()
                return 0
            with stream:
                self._watch(stream)
                if not self._read_on(stream, until):
                    return None
            without = sum(self._statuses[status] for status in UNFINISHED)
            # An attempt is repeated only without a verdict, or after a record that supersedes its verdict.
            return self._statuses.total() - without - self._superseded

    def _watch(self, stream: BufferedReader) -> None:
        """Start again if the file is another one, or no longer has a line that ends where the count does."""
        facts = os.fstat(stream.fileno())
        identity = facts.st_dev, facts.st_ino
        # A run that cannot write a record cuts the file, and writes again from there.
        is_cut = self._end and os.pread(stream.fileno(), 1, self._end - 1) != b"\n"
        if is_cut or identity != self._identity:
            self._start_again()
        self._identity = identity

    def _read_on(self, stream: BufferedReader, until: float | None) -> bool:
        """Count the new lines, and return whether all are counted. A last line without its end is not one."""
        stream.seek(self._end)
        lines = 0
        while line := stream.readline(MAX_LINE_BYTES + 1):
            if len(line) > MAX_LINE_BYTES:
                text = f"has a line that is longer than {MAX_LINE_BYTES:,} bytes"
                raise OSError(errno.EFBIG, text, str(self._folder / ATTEMPTS))
            if not line.endswith(b"\n"):
                break
            self._end += len(line)
            self._add(line)
            lines += 1
            if (
                until is not None
                and (lines % _LINES == 0 or len(line) > 1 << 16)
                and time.monotonic() > until
            ):
                return False
        return True

    def _add(self, line: bytes) -> None:
        status = _NAMES.get(line.partition(_STATUS)[2][:32].partition(b'"')[0])
        if status is None:  # the line is not a record
            return
        self._statuses[status] += 1
        self._superseded += status is Status.CANCELLED and _SUPERSEDED in line
