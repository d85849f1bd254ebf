"""Compare two agents, models or settings by the same tasks, from the folders of their runs."""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import TypeVar

from harness.core.errors import UsageError, unknown_name
from harness.core.scoring.metrics import (
    bootstrap_clusters,
    bootstrap_interval,
    clustered_interval,
    mcnemar_p_value,
)
from harness.core.types import RateInterval, Status
from harness.runs.compared_run import ComparedRun, TaskOutcome, read_compared_run
from harness.runs.manifest import GRADING_VERSION, Difference, list_differences, read_grading_version
from harness.runs.stored_result import USAGE, sum_usage

TASK, CATEGORY = "task", "category"
DEFAULT_RESAMPLES = 10_000
MIN_RESAMPLES, MAX_RESAMPLES = 40, 1_000_000
# Every pair of runs of one side is compared.
MAX_RUNS = 100
_NUMBER = re.compile("([0-9]+)")
_MISSING = TaskOutcome(1, 0, False, 0.0)
_Number = TypeVar("_Number", Fraction, float)


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """The differences between repeated runs of one side, which are due to chance."""

    # The rate of each run.
    rates: tuple[float, ...]
    # The highest rate less the lowest.
    spread: float
    standard_deviation: float
    # The tasks whose first attempt has another outcome, as a mean over all pairs of runs and at most.
    mean_flips: float
    most_flips: int


@dataclass(frozen=True, slots=True)
class Side:
    """The baseline or the candidate: one run, or several that repeat it. The first of them is named first."""

    runs: tuple[ComparedRun, ...]
    # The mean over the tasks of the share of attempts that passed, as a mean over the runs, and its interval.
    rate: float
    interval: RateInterval
    # The tasks whose first attempt in the first run passed.
    resolved: int
    # The mean score, computed as the rate is.
    score: float
    # The compared tasks that at least one of the runs has no attempt at, and that count as failed there.
    missing: tuple[str, ...]
    # The attempts of all runs that have no verdict, and that count as failed.
    without_verdict: int
    # The sums of the runs: attempts by status, the use of a model, and the durations.
    attempts: int
    statuses: Mapping[Status, int]
    usage: Mapping[str, int | float | None]
    attempt_seconds: float
    duration_seconds: float | None
    # None for a single run.
    noise: NoiseFloor | None


@dataclass(frozen=True, slots=True)
class ChangedTask:
    """A task whose first attempt passed on one side only, and the attempts in all runs of both sides."""

    task_id: str
    baseline_passed: int
    baseline_attempts: int
    candidate_passed: int
    candidate_attempts: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of a candidate with a baseline, paired by task."""

    benchmark: str
    baseline: Side
    candidate: Side
    # The number of compared tasks, which is the denominator of both rates.
    tasks: int
    # The part of `tasks` that some run has selected and none has recorded, so that they have no name.
    unnamed_tasks: int
    # The tasks that were left out because a run lacks them, None if no task may be left out.
    left_out_tasks: int | None
    # The rate of the candidate less that of the baseline, and its 95 % interval.
    difference: float
    interval: tuple[float, float]
    # The units that the bootstrap draws, and their name: `task`, or the field that clusters the tasks.
    clusters: int
    cluster_by: str
    # The difference of the mean scores, and its 95 % interval. None if a score only repeats the status.
    score_difference: float | None
    score_interval: tuple[float, float] | None
    resamples: int
    seed: int
    gained: tuple[ChangedTask, ...]
    lost: tuple[ChangedTask, ...]
    # The exact two-sided p-value of McNemar's test of `gained` and `lost`.
    p_value: float
    differences: tuple[Difference, ...]
    regression_threshold: float | None
    # Whether the rate has fallen by more than the threshold, None without one.
    is_regression: bool | None

    @property
    def without_verdict(self) -> int:
        return self.baseline.without_verdict + self.candidate.without_verdict

    @property
    def noise_spread(self) -> float | None:
        """The largest spread of repeated runs, None if no run was repeated."""
        spreads = [side.noise.spread for side in (self.baseline, self.candidate) if side.noise is not None]
        return max(spreads, default=None)

    @property
    def noise_flips(self) -> int | None:
        """The largest number of tasks that changed between repeated runs, None if no run was repeated."""
        flips = [side.noise.most_flips for side in (self.baseline, self.candidate) if side.noise is not None]
        return max(flips, default=None)

    @property
    def exceeds_noise(self) -> bool | None:
        """Whether the difference exceeds the spread of repeated runs, None if no run was repeated."""
        return None if self.noise_spread is None else abs(self.difference) > self.noise_spread


def compare_runs(
    baseline: Sequence[Path],
    candidate: Sequence[Path],
    *,
    only_common_tasks: bool = False,
    cluster_by: str | None = None,
    resamples: int = DEFAULT_RESAMPLES,
    seed: int = 0,
    regression_threshold: float | None = None,
    accept: Collection[str] = (),
) -> Comparison:
    """Return the comparison of two runs, or of two groups of repeated runs.

    Args:
        baseline: the folders of the runs to compare with. The first decides which tasks were gained and lost.
        candidate: the folders of the runs that are compared with them.
        only_common_tasks: whether to leave out the tasks that a run has no attempt at. Otherwise they count
            as failed there. All figures are then those of the tasks that are left.
        cluster_by: the field whose values cluster the tasks: `category`, or the field that clustered the
            tasks of all runs. None for this field, and for the tasks themselves without it.
        resamples: the number of resamples for the intervals.
        seed: the seed of the resamples.
        regression_threshold: the fall of the rate, from 0 to 1, that is no regression yet.
        accept: `grading_version` to compare runs whose verdicts come from different gradings.

    Raises:
        UsageError: for a folder that cannot be read, a run that has no attempt or is named twice, runs of
            different benchmarks or gradings, and a number out of its range.
    """
    _require_range("the number of resamples", resamples, MIN_RESAMPLES, MAX_RESAMPLES)
    _require_range("the seed of the resamples", seed, 0, 2**63 - 1)
    if regression_threshold is not None:
        _require_range("the regression threshold", regression_threshold, 0, 1)
    before, after = _read_sides(baseline, candidate, accept)
    ids, left_out = _list_tasks((*before, *after)), None
    if only_common_tasks:
        (before, after), ids, left_out = _keep_common_tasks(before, after, ids)
    runs = (*before, *after)
    # A stopped run has selected tasks that it has no record of, and so has a run of other tasks.
    unnamed = 0 if only_common_tasks else max(0, *(run.planned_tasks - len(ids) for run in runs))
    total = len(ids) + unnamed
    shares = [_list_shares(side, ids) for side in (before, after)]
    fall = (_sum(shares[0]) - _sum(shares[1])) / total
    none = [0.0] * unnamed
    clusters = _find_clusters(runs, ids, unnamed, cluster_by)
    interval = _find_interval([*_subtract(*shares), *none], clusters, seed=seed, resamples=resamples)
    score_interval = None
    if any(run.has_partial_scores for run in runs):
        scores = [_list_scores(side, ids) for side in (before, after)]
        score_interval = _find_interval(
            [*_subtract(*scores), *none], clusters, seed=seed, resamples=resamples
        )
    sides = [_describe_side(side, ids, total, clusters) for side in (before, after)]
    gained = tuple(_list_changed(before, after, ids, passed_after=True))
    lost = tuple(_list_changed(before, after, ids, passed_after=False))
    return Comparison(
        benchmark=str(before[0].manifest["benchmark"]),
        baseline=sides[0],
        candidate=sides[1],
        tasks=total,
        unnamed_tasks=unnamed,
        left_out_tasks=left_out,
        difference=float(-fall),
        interval=interval,
        clusters=clusters.number,
        cluster_by=clusters.name,
        score_difference=None if score_interval is None else sides[1].score - sides[0].score,
        score_interval=score_interval,
        resamples=resamples,
        seed=seed,
        gained=gained,
        lost=lost,
        p_value=mcnemar_p_value(len(gained), len(lost)),
        differences=tuple(list_differences(*([run.manifest for run in side] for side in (before, after)))),
        regression_threshold=regression_threshold,
        is_regression=None if regression_threshold is None else _exceeds(fall, regression_threshold),
    )


_Side = tuple[ComparedRun, ...]


def _read_sides(
    baseline: Sequence[Path], candidate: Sequence[Path], accept: Collection[str]
) -> tuple[_Side, _Side]:
    """Return the runs of both sides. Raises UsageError as `compare_runs` does."""
    for name, folders in (
        ("the number of baseline runs", baseline),
        ("the number of candidate runs", candidate),
    ):
        _require_range(name, len(folders), 1, MAX_RUNS)
    _require_distinct([*baseline, *candidate])
    before, after = (tuple(map(read_compared_run, folders)) for folders in (baseline, candidate))
    _require_comparable((*before, *after))
    _require_one_grading((*before, *after), accept)
    return before, after


def _list_tasks(runs: _Side) -> list[str]:
    """Return the tasks of all runs. Attempts end in another order in each run, which decides nothing."""
    return sorted({task_id for run in runs for task_id in run.tasks}, key=_split_numbers)


def _keep_common_tasks(
    before: _Side, after: _Side, ids: Sequence[str]
) -> tuple[tuple[_Side, _Side], list[str], int]:
    """Return both sides with the tasks of all runs alone, these tasks, and how many others there are."""
    common = [task_id for task_id in ids if all(task_id in run.tasks for run in (*before, *after))]
    if not common:
        raise UsageError("the runs have no task in common", hint="leave out --only-common-tasks")
    if len(common) < len(ids):
        kept = frozenset(common)
        before, after = (
            tuple(read_compared_run(run.folder, only=kept) for run in side) for side in (before, after)
        )
    return (before, after), common, len(ids) - len(common)


def _split_numbers(task_id: str) -> tuple[list[str], list[tuple[int, str]], str]:
    """Return a key by which x/2 comes before x/10."""
    found = _NUMBER.split(task_id)
    # The digits are compared as texts, because an id may have more of them than `int` takes.
    digits = [number.lstrip("0") for number in found[1::2]]
    return found[::2], [(len(number), number) for number in digits], task_id


def _exceeds(fall: Fraction, threshold: float) -> bool:
    """Return whether a rate fell by more than the decimal that a user wrote.

    Both are fractions, because 0.8 - 0.7 is more than 0.1 as floats.
    """
    return fall > Fraction(repr(float(threshold)))


def _require_range(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise UsageError(f"{name} must be from {low:,} to {high:,}, not {value}")


def _require_distinct(folders: Sequence[Path]) -> None:
    """Raise UsageError for a folder that is named twice, because a run is no repetition of itself."""
    named: set[Path] = set()
    for folder in folders:
        if folder.resolve() in named:
            raise UsageError(f"{folder}: is named twice", hint="name each run once, on one side")
        named.add(folder.resolve())


def _require_comparable(runs: Sequence[ComparedRun]) -> None:
    """Raise UsageError for runs of different benchmarks, and for copies of one run."""
    first = runs[0]
    found: dict[str, ComparedRun] = {}
    for run in runs:
        if run.manifest["benchmark"] != first.manifest["benchmark"]:
            raise UsageError(
                f"{run.folder}: is a run of {run.manifest['benchmark']}, but {first.folder} is one of "
                f"{first.manifest['benchmark']}",
                hint="compare runs of one benchmark",
            )
        same = found.setdefault(run.manifest["run_id"], run)
        if same is not run:
            raise UsageError(
                f"{run.folder}: is a copy of {same.folder}, with the same run_id",
                hint="name each run once, on one side",
            )


def _require_one_grading(runs: Sequence[ComparedRun], accept: Collection[str]) -> None:
    """Raise UsageError for runs whose verdicts come from different gradings, unless that is accepted."""
    for name in accept:
        if name != GRADING_VERSION:
            raise unknown_name("field for --accept", name, [GRADING_VERSION])
    first = read_grading_version(runs[0].manifest)
    for run in runs:
        if (version := read_grading_version(run.manifest)) != first and not accept:
            raise UsageError(
                f"{run.folder}: has verdicts of grading version {version} of {run.manifest['benchmark']}, "
                f"but {runs[0].folder} has version {first}",
                hint="grade the older one again: harness grade --run RUN, or add: --accept grading_version",
            )


def _list_shares(side: Sequence[ComparedRun], ids: Sequence[str]) -> list[Fraction]:
    """Return the share of attempts that passed at each task, as a mean over the runs."""
    found = ([run.tasks.get(task_id, _MISSING) for run in side] for task_id in ids)
    return [_find_mean([_divide(each.passed, each.attempts) for each in task]) for task in found]


@lru_cache(maxsize=4096)
def _divide(passed: int, attempts: int) -> Fraction:
    return Fraction(passed, attempts)


def _find_mean(values: Sequence[Fraction]) -> Fraction:
    return values[0] if len(values) == 1 else sum(values, Fraction()) / len(values)


def _sum(shares: Iterable[Fraction]) -> Fraction:
    """Return the sum of many fractions, few of them different."""
    return sum((share * number for share, number in Counter(shares).items()), Fraction())


def _list_scores(side: Sequence[ComparedRun], ids: Sequence[str]) -> list[float]:
    """Return the mean score at each task, as a mean over the runs."""
    found = [[run.tasks.get(task_id, _MISSING) for run in side] for task_id in ids]
    return [math.fsum(each.score / each.attempts for each in task) / len(task) for task in found]


def _subtract(before: Sequence[_Number], after: Sequence[_Number]) -> list[float]:
    return [float(new - old) for old, new in zip(before, after, strict=True)]


@dataclass(frozen=True, slots=True)
class _Clusters:
    """The cluster of each compared task, those without a name included."""

    name: str
    # The number of each task's cluster, None if each task is its own.
    places: Sequence[int] | None
    number: int

    def add_up(self, values: Sequence[float]) -> list[tuple[float, int]]:
        """Return the sum of the values in each cluster, and the number of its tasks."""
        if self.places is None:
            return [(value, 1) for value in values]
        sums: dict[int, tuple[float, int]] = {}
        for place, value in zip(self.places, values, strict=True):
            total, size = sums.get(place, (0.0, 0))
            sums[place] = total + value, size + 1
        return [*sums.values()]


def _find_clusters(
    runs: Sequence[ComparedRun], ids: Sequence[str], unnamed: int, cluster_by: str | None
) -> _Clusters:
    """Return the clusters of the tasks. Raises UsageError for a field that the runs have not recorded."""
    recorded = {run.manifest["config"].get("cluster_by") for run in runs}
    shared = recorded.pop() if len(recorded) == 1 else None
    field = cluster_by or shared
    if field is None:
        return _Clusters(TASK, None, len(ids) + unnamed)
    if field not in (shared, CATEGORY):
        raise UsageError(
            f"--cluster-by {field}: the runs have not recorded this field of their tasks",
            hint=f"make both runs with --cluster-by {field}, or use --cluster-by {CATEGORY}",
        )
    numbers: dict[str, int] = {}
    places: list[int] = []
    for task_id in ids:
        outcome = next(run.tasks[task_id] for run in runs if task_id in run.tasks)
        name = outcome.cluster if field == shared else outcome.category
        # A task without a value is a cluster of its own.
        places.append(numbers.setdefault(f"={name}" if name is not None else f"#{task_id}", len(numbers)))
    places += range(len(numbers), len(numbers) + unnamed)
    return _Clusters(field, places, len(numbers) + unnamed)


def _find_interval(
    values: Sequence[float], clusters: _Clusters, *, seed: int, resamples: int
) -> tuple[float, float]:
    if clusters.places is None:
        interval = bootstrap_interval(values, seed=seed, resamples=resamples)
    else:
        interval = bootstrap_clusters(clusters.add_up(values), seed=seed, resamples=resamples)
    if interval is None:
        raise ValueError("a comparison needs a task")
    return interval


def _list_changed(
    before: Sequence[ComparedRun], after: Sequence[ComparedRun], ids: Sequence[str], *, passed_after: bool
) -> Iterator[ChangedTask]:
    """Yield the tasks whose first attempt in the first run passed on one side only.

    Only the first attempts are compared, because a vote over more attempts on one side than on the other
    would find changes between equal agents.
    """
    first = _list_passed(before[0], ids)
    second = _list_passed(after[0], ids)
    for task_id, old, new in zip(ids, first, second, strict=True):
        if old is not new and new is passed_after:
            yield ChangedTask(task_id, *_count_attempts(before, task_id), *_count_attempts(after, task_id))


def _list_passed(run: ComparedRun, ids: Sequence[str]) -> list[bool]:
    return [run.tasks.get(task_id, _MISSING).first_passed for task_id in ids]


def _count_attempts(side: Sequence[ComparedRun], task_id: str) -> tuple[int, int]:
    """Return the attempts at a task that passed, and all of them, in the runs that have the task."""
    found = [run.tasks[task_id] for run in side if task_id in run.tasks]
    return sum(each.passed for each in found), sum(each.attempts for each in found)


def _describe_side(
    runs: tuple[ComparedRun, ...], ids: Sequence[str], total: int, clusters: _Clusters
) -> Side:
    shares = [*map(float, _list_shares(runs, ids)), *[0.0] * (total - len(ids))]
    attempts = sum(run.tasks[task_id].attempts for run in runs for task_id in ids if task_id in run.tasks)
    spread = clustered_interval(clusters.add_up(shares), attempts=attempts)
    if spread is None:
        raise ValueError("a comparison needs a task")
    rates = [_sum(_list_shares([run], ids)) / total for run in runs]
    statuses: Counter[Status] = Counter()
    for run in runs:
        statuses.update(run.statuses)
    durations = [run.duration_seconds for run in runs]
    known = [seconds for seconds in durations if seconds is not None]
    return Side(
        runs=runs,
        rate=float(_find_mean(rates)),
        interval=RateInterval(*spread, clusters.number, clusters.name),
        resolved=sum(_list_passed(runs[0], ids)),
        score=math.fsum(_list_scores(runs, ids)) / total,
        missing=tuple(task_id for task_id in ids if any(task_id not in run.tasks for run in runs)),
        without_verdict=sum(run.without_verdict for run in runs),
        attempts=sum(run.recorded_attempts for run in runs),
        statuses=statuses,
        usage=_add_usage([run.usage for run in runs]),
        attempt_seconds=math.fsum(run.attempt_seconds for run in runs),
        duration_seconds=math.fsum(known) if len(known) == len(durations) else None,
        noise=_measure_noise(runs, rates, ids) if len(runs) > 1 else None,
    )


def _add_usage(parts: Sequence[Mapping[str, int | float | None]]) -> Mapping[str, int | float | None]:
    """Return the sums of the runs that asked a model, {} if none did. A sum that lacks a part is None."""
    asked = [part for part in parts if part]
    return sum_usage(tuple(part[name] for name in USAGE) for part in asked)


def _measure_noise(runs: Sequence[ComparedRun], rates: Sequence[Fraction], ids: Sequence[str]) -> NoiseFloor:
    import numpy

    passed = [numpy.array(_list_passed(run, ids), dtype=bool) for run in runs]
    flips = [int(numpy.count_nonzero(one != other)) for one, other in combinations(passed, 2)]
    return NoiseFloor(
        rates=tuple(map(float, rates)),
        spread=float(max(rates) - min(rates)),
        standard_deviation=statistics.stdev(map(float, rates)),
        mean_flips=statistics.fmean(flips),
        most_flips=max(flips),
    )
