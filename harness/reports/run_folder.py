"""Read a run folder back, and write the report that lies in it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NotRequired, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from typing_extensions import TypedDict

from harness.agents.recording import SHOWN_DIFFERENCE
from harness.errors import UsageError, describe_first_error, unknown_task
from harness.evaluation.result_table import ResultTable
from harness.evaluation.run import Run
from harness.evaluation.run_files import has_run_file, read_run_file
from harness.evaluation.run_names import is_running
from harness.evaluation.run_signature import describe_resume
from harness.evaluation.run_state import RunState, count_statuses, find_state
from harness.evaluation.spending_log import read_spending
from harness.evaluation.storage import replace_file
from harness.evaluation.store import (
    ATTEMPTS,
    MANIFEST,
    REPORT,
    SUMMARY,
    read_duration,
    read_manifest,
    read_records,
    read_records_at,
)
from harness.evaluation.summary import HEADLINE, ModelUse, describe_rate, summarize_records, summary_json
from harness.inputs.json_text import BrokenJSONError, parse_json
from harness.reports.figures import count
from harness.reports.recorded_attempts import AttemptOffsets, WallTime, read_time, sort_by_plan
from harness.types import AttemptRecord, DataSource, MetricSummary, Status, Summary


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A finished or interrupted run, or one under way, read from its folder.

    A run that was killed or is under way has no `summary.json`, or that of an earlier interruption. Then the
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


# The attempts of a task that an error names.
_NAMED_NUMBERS = 20
# Sums and intervals of larger counts would not be exact.
_Count = Annotated[int, Field(ge=0, le=2**53)]


class _Kind(TypedDict):
    score: float


class _Score(TypedDict):
    score: float | None
    measure: str
    kinds: NotRequired[dict[str, _Kind]]
    missing_kinds: NotRequired[list[str]]


class _Overall(TypedDict):
    score: float | None
    method: str
    missing: NotRequired[list[str]]


class _Scores(TypedDict, total=False):
    categories: dict[str, _Score]
    overall: _Overall | None


class _Strict(TypedDict):
    tasks: _Count
    resolved: _Count
    resolved_strict: _Count
    differ: _Count


class _Coverage(TypedDict):
    samples: _Count
    tasks: _Count
    missing: _Count


_Seconds = Annotated[float, Field(ge=0)] | None


class _Model(TypedDict, total=False):
    model_requests: _Count | None
    model_retries: _Count | None
    cached_replies: _Count | None
    input_tokens: _Count | None
    output_tokens: _Count | None
    reasoning_tokens: _Count | None
    cached_tokens: _Count | None
    cost: _Seconds
    model_seconds: _Seconds
    waiting_seconds: _Seconds
    sandbox_seconds: _Seconds
    context_truncated: _Count | None
    cut_replies: _Count | None


class _Asking(TypedDict):
    attempts: _Count
    asked: _Count


class _Difference(TypedDict):
    task_id: str
    attempt: _Count
    text: Annotated[str, Field(max_length=SHOWN_DIFFERENCE)]


class _Replay(TypedDict):
    attempts: _Count
    equal: _Count
    different: _Count
    incomplete: _Count
    observations: _Count
    observations_differing: _Count
    same_verdicts: _Count
    first_difference: _Difference | None


class _Superseded(TypedDict):
    attempts: _Count
    resolved: _Count


class _Limit(TypedDict):
    allowed: Annotated[float, Field(ge=0, le=2**53)]
    used: Annotated[float, Field(ge=0, le=2**53)] | None


class _Category(TypedDict):
    total: _Count
    resolved: _Count
    rate: float


class _StoredSummary(BaseModel):
    """The fields of `summary.json` that reports show, with the types that they rely on."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    duration_seconds: float
    total: _Count
    attempts: _Count
    resolved: _Count
    rate: float
    pass_at_k: dict[int, float | None]
    statuses: dict[Status, _Count]
    by_category: dict[str, _Category]
    integrity: dict[str, _Count] = Field(default_factory=dict)
    resolved_strict: _Strict | None = None
    scores: _Scores = Field(default_factory=_Scores)
    quarantined: dict[str, str] = Field(default_factory=dict)
    metrics: dict[str, MetricSummary] = Field(default_factory=dict)
    coverage: _Coverage | None = None
    model: _Model = Field(default_factory=_Model)
    budget: dict[str, _Limit] = Field(default_factory=dict)
    asking: _Asking | None = None
    replay: _Replay | None = None
    superseded: _Superseded | None = None

    @model_validator(mode="after")
    def _resolved_are_tasks(self) -> Self:
        if any(resolved > total for resolved, total in self._shares()):
            raise ValueError("more tasks are resolved than there are")
        return self

    def _shares(self) -> Iterator[tuple[int, int]]:
        yield self.resolved, self.total
        for row in self.by_category.values():
            yield row["resolved"], row["total"]

    def summary(self) -> Summary:
        """Return the fields as a `Summary`."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        del values["duration_seconds"]
        for name in ("resolved_strict", "coverage", "asking", "replay", "superseded"):
            values[name] = values[name] or {}
        return Summary(**values)


def write_report(run: Run) -> Path:
    """Write `report.html` into the run's folder and return its path. Raises StorageError."""
    # The templates take as long to load as a container to start, so they are loaded after the attempts.
    from harness.reports.html import generate_html

    parts = generate_html(
        manifest=run.manifest,
        summary=run.summary,
        attempts=run.records(whole=True),
        folder=run.folder,
        duration_seconds=run.duration_seconds,
    )
    with replace_file(run.folder / REPORT, resumed=run.folder) as file:
        file.writelines(parts)
    return run.folder / REPORT


def read_attempts(folder: Path) -> Iterator[AttemptRecord]:
    """Yield the attempts in a run folder in the order of the plan, the last try of each.

    The run may still be active. Raises UsageError if the folder has no readable attempts.
    """
    yield from read_records_at(folder / ATTEMPTS, _find_attempts(folder, read_manifest(folder)))


def _find_attempts(folder: Path, manifest: Mapping[str, Any]) -> Sequence[int]:
    """Return the offset of the last record of each attempt, in the order of the plan.

    Raises UsageError if the folder has no readable attempts.
    """
    found = AttemptOffsets()
    for record, size in read_records(folder / ATTEMPTS):
        found.add(record, size)
    return found.sort_by_plan(manifest)


def read_attempt(folder: Path, task_id: str, attempt: int) -> AttemptRecord:
    """Return the last try of one attempt in a run folder, with its whole texts.

    Raises UsageError if there is no such attempt or the folder cannot be read.
    """
    found: AttemptRecord | None = None
    path = folder / ATTEMPTS
    # Few of perhaps a million lines hold the id in the form in which we write it.
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
    values, stored = _read_stored_summary(folder)
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
    # Earlier versions wrote no headline, and another person's file may hold any.
    left_out = ("source", "duration_seconds", HEADLINE)
    of_summary = {HEADLINE: describe_rate(summary)}
    of_summary |= {name: value for name, value in values.items() if name not in left_out}
    return StoredRun(folder, manifest, summary, stored.duration_seconds, of_summary, offsets)


# The hint for a summary that cannot be read.
_COMPUTE = f"remove the file; the numbers are then computed from {ATTEMPTS}"


def read_summary(folder: Path) -> Summary:
    """Return the summary that a finished run has written. Raises UsageError if it cannot be read."""
    return _read_stored_summary(folder)[1].summary()


def _read_stored_summary(folder: Path) -> tuple[dict[str, Any], _StoredSummary]:
    path = folder / SUMMARY
    try:
        values = parse_json(read_run_file(folder, SUMMARY))
        return values, _StoredSummary.model_validate(values)
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror}",
            hint=f"the run did not finish; to finish it: {describe_resume(folder, read_manifest(folder))}",
        ) from error
    except BrokenJSONError as error:
        raise UsageError(f"{path}:{error.line}: is not JSON: {error}", hint=_COMPUTE) from error
    except ValidationError as error:
        reason = f"{path}: is not the summary of a run: {describe_first_error(error)}"
        raise UsageError(reason, hint=_COMPUTE) from error


class _Planned(TypedDict):
    tasks: _Count
    attempts: _Count


class _UnfinishedManifest(BaseModel):
    """The fields of a manifest from which the summary of an unfinished run is computed."""

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
    found, times = ResultTable(), WallTime()

    def read() -> Iterator[AttemptRecord]:
        end = 0
        for record, size in read_records(folder / ATTEMPTS):
            times.add(record)
            found.add(record, end)
            end += size
            yield record

    planned = facts.planned
    summary = summarize_records(
        read(),
        ks,
        tasks=planned["tasks"],
        attempts=planned["attempts"],
        has_samples=facts.config.get("samples") is not None,
        model=None if facts.config.get("model") is None else ModelUse(read_spending(folder).of_no_attempt),
        results=found,
    )
    offsets = sort_by_plan(found, found.offsets, manifest)
    progress = f"{len(offsets):,} of {count(summary.attempts, 'attempt')}"
    if running:
        unfinished = f"running: {progress} so far"
    else:
        unfinished = f"interrupted: {progress}; to finish it: {describe_resume(folder, manifest)}"
    values = summary_json(summary)
    if running and summary.statuses.get(Status.CANCELLED):
        # The tasks to come would count as failed.
        values["rate"] = None
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


def render_stored_run(run: StoredRun) -> Iterator[str]:
    """Yield the parts of the report of a stored run as a complete HTML document."""
    from harness.reports.html import generate_html

    return generate_html(
        manifest=run.manifest,
        summary=run.summary,
        attempts=run.attempts(whole=True),
        is_running=run.is_running,
        folder=run.folder,
        duration_seconds=run.duration_seconds,
    )


def rewrite_report(run: StoredRun) -> Path:
    """Replace the `report.html` of a stored run and return its path. Raises StorageError."""
    with replace_file(run.folder / REPORT) as file:
        file.writelines(render_stored_run(run))
    return run.folder / REPORT
