"""Read a run folder for a comparison: the outcome of each task, and the sums over all attempts."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from typing_extensions import TypedDict

from harness.core.errors import UsageError
from harness.core.invalid_values import describe_first_error
from harness.core.types import Status
from harness.runs.attempt_index import ATTEMPTS
from harness.runs.manifest import read_model_name
from harness.runs.run_files import has_run_file
from harness.runs.run_names import is_running
from harness.runs.store import MANIFEST, SUMMARY, read_duration, read_manifest, read_records
from harness.runs.stored_result import StoredResult, reduce_record, sum_usage
from harness.runs.trust import describe_resume

# Sums of larger numbers would not be exact.
_LARGEST = 2**53
# A run may lack tasks that no file names, and a comparison counts each of them.
_MOST_TASKS = 1_000_000
# The scores of benchmarks are from 0 to 1. This bound only keeps sums finite.
_LARGEST_SCORE = 1e6


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The outcome of one task in one run."""

    # The attempts that the run planned, as far as it is known, and those that passed.
    attempts: int
    passed: int
    # Whether the attempt with number 0 passed.
    first_passed: bool
    # The sum of the scores. An attempt without a verdict adds 0.
    score: float
    category: str | None = None
    # The cluster that the run has recorded, None unless it clusters tasks by a field.
    cluster: str | None = None


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One run in a comparison. Its amounts are sums over all attempts, with those that a resume repeated."""

    folder: Path
    manifest: Mapping[str, Any]
    model: str | None
    tasks: Mapping[str, TaskOutcome]
    # The tasks that the run selected. Those of a stopped run may be more than `tasks` holds.
    planned_tasks: int
    # The attempts that the run planned, and those that have a record.
    planned_attempts: int
    recorded_attempts: int
    # The attempts by their status. A planned attempt without a record counts as cancelled.
    statuses: Mapping[Status, int]
    # The use of a model by the metrics of attempts, {} if none asked one. None is unknown.
    usage: Mapping[str, int | float | None]
    # The sum of the durations of all attempts.
    attempt_seconds: float
    # The wall time of the run, None if it has not finished, or if only a part of its tasks counts.
    duration_seconds: float | None
    # Whether a score differs from 1 for a passed attempt and 0 for every other.
    has_partial_scores: bool
    is_running: bool

    @property
    def without_verdict(self) -> int:
        """The number of attempts without a verdict."""
        return sum(number for status, number in self.statuses.items() if not status.has_score)


class _Planned(TypedDict):
    tasks: Annotated[int, Field(ge=0, le=_MOST_TASKS)]
    attempts: Annotated[int, Field(ge=0, le=_LARGEST)]


class _Config(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    samples: str | None = None
    n_samples: Annotated[int, Field(ge=1, le=_LARGEST)] = 1


class _Facts(BaseModel):
    """The fields of a manifest that decide how many attempts a run lacks."""

    model_config = ConfigDict(extra="ignore", strict=True)

    config: _Config
    # Manifests of earlier versions lack it.
    planned: _Planned | None = None


def read_compared_run(folder: Path, *, only: Collection[str] | None = None) -> ComparedRun:
    """Return a run of a folder, which may be under way. `only` are the tasks that count, None for all.

    Raises UsageError if the folder is not a run folder, if a file of it cannot be read, and if the run has no
    attempt yet.
    """
    # Look at the lock first, because a run that ends now has written all its files when it gives up the lock.
    running = is_running(folder)
    manifest = read_manifest(folder)
    try:
        facts = _Facts.model_validate(manifest)
    except ValidationError as error:
        raise UsageError(f"{folder / MANIFEST}: is not a manifest: {describe_first_error(error)}") from error
    results, seconds, has_partial_scores, clusters = _read_results(folder, only)
    if not results:
        hint = "wait for its first attempt" if running else f"make some: {describe_resume(folder, manifest)}"
        raise UsageError(f"{folder}: has no attempt that could be compared", hint=hint)
    planned_attempts = max(len(results), 0 if facts.planned is None else facts.planned["attempts"])
    unmade = planned_attempts - len(results)
    # Only an unfinished run lacks attempts, and samples may be more for one task than for another.
    expected = 1 if not unmade or facts.config.samples is not None else facts.config.n_samples
    planned_tasks = 0 if facts.planned is None else facts.planned["tasks"]
    is_whole = only is None or all(task_id in only for task_id, _ in results)
    if only is not None:
        results = {key: result for key, result in results.items() if key[0] in only}
    tasks = _group_by_task(results, expected, clusters)
    if only is not None:
        planned_tasks, planned_attempts = len(tasks), sum(task.attempts for task in tasks.values())
        unmade = planned_attempts - len(results)
    statuses = Counter(result.status for result in results.values())
    if unmade:
        statuses[Status.CANCELLED] += unmade
    usage = sum_usage(result.usage for result in results.values())
    _require_finite(folder, {**usage, "duration_seconds": seconds})
    finished = not unmade and not running and has_run_file(folder, SUMMARY)
    return ComparedRun(
        folder=folder,
        manifest=manifest,
        model=read_model_name(manifest["config"]),
        tasks=tasks,
        planned_tasks=max(len(tasks), planned_tasks),
        planned_attempts=planned_attempts,
        recorded_attempts=len(results),
        statuses=statuses,
        usage=usage,
        attempt_seconds=seconds,
        duration_seconds=read_duration(folder) if finished and is_whole else None,
        has_partial_scores=has_partial_scores,
        is_running=running,
    )


def _read_results(
    folder: Path, only: Collection[str] | None
) -> tuple[dict[tuple[str, int], StoredResult], float, bool, dict[str, str]]:
    """Return the last result of each attempt, the seconds of all, whether scores are partial, and clusters.

    The seconds and the scores are for the tasks in `only`.
    """
    path = folder / ATTEMPTS
    results: dict[tuple[str, int], StoredResult] = {}
    clusters: dict[str, str] = {}
    seconds, has_partial_scores = 0.0, False
    if not has_run_file(folder, ATTEMPTS):  # the run was killed before its first attempt
        return results, seconds, has_partial_scores, clusters
    for record, _ in read_records(path):
        key = sys.intern(record.task_id), record.attempt
        if record.score is not None and abs(record.score) > _LARGEST_SCORE:
            raise UsageError(f"{path}: attempt {key[1]} at {key[0]} has the score {record.score:g}")
        if record.cluster is not None:
            clusters[key[0]] = sys.intern(record.cluster)
        if only is None or record.task_id in only:
            has_partial_scores = has_partial_scores or record.score not in (None, float(record.resolved))
            seconds += record.duration_seconds
        results[key] = reduce_record(record, earlier=results.get(key))
    return results, seconds, has_partial_scores, clusters


def _group_by_task(
    results: Mapping[tuple[str, int], StoredResult], expected: int, clusters: Mapping[str, str]
) -> Mapping[str, TaskOutcome]:
    """Return the outcome of each task, in the order of the results.

    A task has at least `expected` attempts, because a stopped run has not made all of them.
    """
    counts: dict[str, list[int]] = {}
    scores: dict[str, float] = {}
    categories: dict[str, str | None] = {}
    for (task_id, number), result in results.items():
        count = counts.setdefault(task_id, [0, 0, 0])
        count[0] += 1
        count[1] += result.resolved
        count[2] |= result.resolved and number == 0
        scores[task_id] = scores.get(task_id, 0.0) + (result.score or 0.0)
        categories[task_id] = result.category
    return {
        task_id: TaskOutcome(
            max(attempts, expected),
            passed,
            bool(first),
            scores[task_id],
            categories[task_id],
            clusters.get(task_id),
        )
        for task_id, (attempts, passed, first) in counts.items()
    }


def _require_finite(folder: Path, amounts: Mapping[str, int | float | None]) -> None:
    for name, amount in amounts.items():
        if amount is not None and not (math.isfinite(amount) and 0 <= amount <= _LARGEST):
            raise UsageError(f"{folder / ATTEMPTS}: the sum of '{name}' over all attempts cannot be right")
