"""Read a run folder back."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from harness.core.errors import UsageError, unknown_task
from harness.core.invalid_values import describe_first_error
from harness.core.types import AttemptRecord, DataSource, Status, Summary
from harness.reports.figures import count
from harness.reports.recorded_attempts import WallTime, list_offsets, read_time
from harness.reports.stored_summary import read_stored_summary
from harness.runs.attempt_index import ATTEMPTS, AttemptIndex
from harness.runs.followed_index import read_index
from harness.runs.run_files import has_run_file
from harness.runs.run_names import RunState, count_statuses, find_state, is_running
from harness.runs.spending_log import read_spending
from harness.runs.store import (
    MANIFEST,
    SUMMARY,
    read_duration,
    read_manifest,
    read_records,
    read_records_at,
)
from harness.runs.summary import HEADLINE, ModelUse, describe_rate, summarize_records, summary_json
from harness.runs.trust import describe_resume

# The attempts of a task that an error names.
_NAMED_NUMBERS = 20


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A finished or interrupted run, or one under way, read from its folder.

    A run that was killed or is under way has no `summary.json`, or one of an earlier interruption. Then the
    summary is computed from the attempts, and `unfinished` reports how many there are.
    """

    folder: Path
    manifest: dict[str, Any]
    summary: Summary
    duration_seconds: float
    summary_values: Mapping[str, Any]
    """All of `summary.json` about the run's result as plain data, for the JSON document.

    While the run is under way, the attempts without a verdict are `to_come`, and the rate is None.
    """
    offsets: Sequence[int]
    """Where the last record of each attempt is in `attempts.jsonl`, in the order of the plan."""
    unfinished: str | None = None
    is_running: bool = False

    @property
    def state(self) -> RunState:
        return find_state(self.summary, is_running=self.is_running)

    @property
    def source(self) -> DataSource:
        return DataSource(**self.manifest["data"])

    def attempts(self, *, whole: bool = False) -> Iterator[AttemptRecord]:
        """Yield the stored attempts in the order of the plan, the last try of each.

        The records have their whole texts only if `whole` is true.
        """
        return read_records_at(self.folder / ATTEMPTS, self.offsets, whole=whole)


def read_attempts(folder: Path) -> Iterator[AttemptRecord]:
    """Yield the attempts in a run folder in the order of the plan, the last try of each.

    The run may still be active. Raises UsageError if the folder has no readable attempts.
    """
    yield from read_records_at(folder / ATTEMPTS, _find_attempts(folder, read_manifest(folder)))


def _find_attempts(folder: Path, manifest: Mapping[str, Any]) -> Sequence[int]:
    """Return the offset of the last record of each attempt, in the order of the plan.

    Raises UsageError if the folder has no readable attempts.
    """
    return list_offsets(read_index(folder), manifest)


def read_attempt(folder: Path, task_id: str, attempt: int) -> AttemptRecord:
    """Return the last try of one attempt in a run folder, with its whole texts.

    Raises UsageError if there is no such attempt or the folder cannot be read.
    """
    found: AttemptRecord | None = None
    path = folder / ATTEMPTS
    # Few of perhaps a million lines hold the id as we write it.
    written = json.dumps(task_id).encode("ascii")
    for record, _ in read_records(path, whole=True, containing=written):
        if (record.task_id, record.attempt) == (task_id, attempt):
            found = record
    if found is not None:
        return found
    # A line that was changed by hand may hold it in another form.
    known: dict[str, None] = {}
    numbers: set[int] = set()
    for record, _ in read_records(path, whole=True):
        known[record.task_id] = None
        if record.task_id == task_id:
            numbers.add(record.attempt)
            found = record if record.attempt == attempt else found
    if found is not None:
        return found
    if task_id not in known:
        raise unknown_task(task_id, known, place=f"the run in {folder}", which="with an attempt")
    which = ", ".join(map(str, sorted(numbers)[:_NAMED_NUMBERS]))
    which += ", ..." if len(numbers) > _NAMED_NUMBERS else ""
    raise UsageError(f"{task_id} has no attempt {attempt} in this run", hint=f"its attempts: {which}")


def read_run(folder: Path) -> StoredRun:
    """Return the run in a folder. Raises UsageError if the folder is not a run folder."""
    # Look at the lock first, because a run that ends now has written all its files when it gives up the lock.
    running = is_running(folder)
    manifest = read_manifest(folder)
    path = folder / SUMMARY
    if not has_run_file(folder, SUMMARY) and "planned" in manifest:
        return _read_unfinished(folder, manifest, running=running)
    values, stored = read_stored_summary(folder)
    offsets = _find_attempts(folder, manifest)
    found = len(offsets)
    counted = sum(stored.statuses.values())
    # A stopped run counts the attempts that had not begun as cancelled, and these have no record.
    recorded = counted - stored.statuses.get(Status.CANCELLED, 0)
    if "planned" in manifest and (recorded < found <= counted or (running and recorded < counted)):
        # The run was resumed after it had written the summary, and was killed then or is under way.
        return _read_unfinished(folder, manifest, running=running)
    if not recorded <= found <= counted:
        raise UsageError(
            f"{folder / ATTEMPTS} holds {found:,} attempts, but {path} counts {counted:,}: "
            "one of the two files was changed"
        )
    summary = stored.summary()
    # Earlier versions wrote no headline, or another one.
    left_out = ("source", "duration_seconds", HEADLINE)
    of_summary = {HEADLINE: describe_rate(summary)}
    of_summary |= {name: value for name, value in values.items() if name not in left_out}
    return StoredRun(folder, manifest, summary, stored.duration_seconds, of_summary, offsets)


class _Planned(TypedDict):
    tasks: Annotated[int, Field(ge=0, le=2**53)]
    attempts: Annotated[int, Field(ge=0, le=2**53)]


class _UnfinishedManifest(BaseModel):
    """The fields of a manifest that the summary of an unfinished run needs."""

    model_config = ConfigDict(extra="ignore", strict=True)

    planned: _Planned
    config: Mapping[str, Any]

    def ks(self) -> list[int]:
        """Return each k of pass@k."""
        return TypeAdapter(list[Annotated[int, Field(ge=1)]]).validate_python(self.config.get("k", [1]))


def _read_unfinished(folder: Path, manifest: dict[str, Any], *, running: bool) -> StoredRun:
    """Return a run that has no summary, with the summary of its attempts so far. Raises UsageError."""
    try:
        facts = _UnfinishedManifest.model_validate(manifest)
        ks = facts.ks()
    except ValidationError as error:
        raise UsageError(f"{folder / MANIFEST}: is not a manifest: {describe_first_error(error)}") from error
    found, times = AttemptIndex(), WallTime()
    found.add_lines(times.watch(read_records(folder / ATTEMPTS)))
    planned = facts.planned
    summary = summarize_records(
        found,
        ks,
        tasks=planned["tasks"],
        attempts=planned["attempts"],
        has_samples=facts.config.get("samples") is not None,
        model=None if facts.config.get("model") is None else ModelUse(read_spending(folder).of_no_attempt),
        cluster_by=facts.config.get("cluster_by"),
    )
    offsets = list_offsets(found, manifest)
    progress = f"{len(offsets):,} of {count(summary.attempts, 'attempt')}"
    if running:
        unfinished = f"running: {progress} so far"
    else:
        unfinished = f"interrupted: {progress}; to finish it: {describe_resume(folder, manifest)}"
    values = summary_json(summary)
    if running and summary.statuses.get(Status.CANCELLED):
        # The tasks to come would count as failed.
        values["rate"] = values["first_attempt_rate"] = None
        values["statuses"] = {each.key: each.number for each in count_statuses(summary, is_running=True)}
    seconds = _measure_so_far(folder, manifest, times) if running else times.seconds
    return StoredRun(folder, manifest, summary, seconds, values, offsets, unfinished, running)


def _measure_so_far(folder: Path, manifest: Mapping[str, Any], times: WallTime) -> float:
    """Return the wall time of a run under way, without the time between an interruption and the resume."""
    now = time.time()
    try:
        interrupted = os.stat(folder / SUMMARY).st_mtime
    except OSError:
        started = read_time(manifest.get("started_at"))
        return times.seconds if started is None else max(now - started, times.seconds)
    resumed = times.find_start(interrupted)
    return read_duration(folder) + (0.0 if resumed is None else max(now - resumed, 0.0))
