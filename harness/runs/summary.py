"""The summary of a run, computed from the results that the store keeps in memory."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, overload

from harness.core.scoring.metrics import (
    MAJORITY,
    Metric,
    clustered_interval,
    mean_pass_at_k,
    metric_summary,
    passes_by_majority,
)
from harness.core.types import AttemptRecord, MetricSummary, RateInterval, Status, Summary, Task
from harness.runs.attempt_index import AttemptIndex
from harness.runs.records import PlannedAttempt, to_json
from harness.runs.run_names import RunState
from harness.runs.stored_result import (
    Amounts,
    Replayed,
    ServerFigures,
    StoredResult,
    add_usage,
    sum_server_use,
    sum_up_replay,
    sum_usage,
)

if TYPE_CHECKING:
    from harness.benchmarks.benchmark import Benchmark, TaskResult

# The first field of `summary.json`.
HEADLINE = "headline"
# The version of the numbers in a summary. Version 1 has the rate of the first attempts as `rate`.
SUMMARY_VERSION = 2
# Version 1 of results has the rate of the first attempts as `summary.rate`.
RESULTS_VERSION = 2
# The tasks that are not built anew for each of their attempts.
_KEPT_TASKS = 10_000
# Most runs lack these fields.
_ONLY_SOME_RUNS = (
    "resolved_strict",
    "scores",
    "quarantined",
    "coverage",
    "model",
    "budget",
    "asking",
    "replay",
    "mcp",
    "superseded",
)


@dataclass(frozen=True, slots=True)
class ModelUse:
    """The use of a run's model that is in no record of an attempt."""

    # The requests that belong to no attempt, None without one.
    of_no_attempt: Amounts | None = None
    # The bound and the use of each limit of the run's budget, by its name.
    budget: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)


def summarize(
    plan: Sequence[PlannedAttempt],
    results: Mapping[tuple[str, int], StoredResult],
    ks: Sequence[int],
    metrics: Sequence[Metric] = (),
    *,
    benchmark: Benchmark | None = None,
    quarantined: Mapping[str, str] | None = None,
    has_samples: bool = False,
    model: ModelUse | None = None,
    cluster_by: str | None = None,
) -> Summary:
    """Return the summary of a run. Every planned task is in the denominator.

    Args:
        plan: the planned attempts. An attempt without a result counts as cancelled.
        results: the stored results by task id and attempt number.
        ks: each k of pass@k. Only attempts with a verdict count as n, so pass@k may be undefined.
        metrics: the metrics that the store keeps, in the order that it keeps them.
        benchmark: the benchmark, which may add its own scores.
        quarantined: the reason for each quarantined task, by id. Such a task counts only if it is planned.
        has_samples: whether the attempts submit samples from a file.
        model: the use of the model that no attempt has, None for a run without a model.
        cluster_by: the field of the tasks that names the clusters of the plan, None for the tasks themselves.
    """
    use = model or ModelUse()
    sums = _Sums(use.of_no_attempt, [[] for _ in metrics])
    for planned in plan:
        sums.add(planned, results.get(planned.key))
    tasks = sums.tasks
    return Summary(
        total=tasks.total,
        attempts=len(plan),
        resolved=sums.resolved,
        rate=tasks.rate,
        pass_at_k={k: mean_pass_at_k(tasks.verdicts, k) for k in sorted(set(ks))},
        statuses=dict(sums.statuses),
        by_category={
            name: _describe_category(shares, sums.firsts[name])
            for name, shares in sorted(sums.categories.items())
        },
        integrity=dict(sums.signs.most_common()),
        metrics=_sum_metrics(metrics, sums.columns) | _sum_majorities(sums.votes, tasks.total, len(plan)),
        resolved_strict=_count_strict(sums.strict),
        scores={} if benchmark is None else benchmark.scores(_list_results(benchmark, plan, results)),
        quarantined=dict(quarantined or {}),
        coverage=_count_samples(plan) if has_samples else {},
        model=sum_usage([sums.usage]),
        budget=use.budget,
        asking={} if model is None else {"attempts": sums.ended, "asked": sums.asked},
        replay=sum_up_replay(sums.replays),
        mcp=sum_server_use(sums.servers),
        superseded=sums.describe_superseded(),
        rate_interval=tasks.find_interval(cluster_by),
        first_attempt_rate=sums.resolved / tasks.total if tasks.total else 0.0,
    )


def _sum_metrics(metrics: Sequence[Metric], columns: Sequence[Sequence[float]]) -> dict[str, MetricSummary]:
    """Return what the summary has of each metric, without those that have no value."""
    sums = ((each, metric_summary(each, column)) for each, column in zip(metrics, columns, strict=True))
    return {metric.name: mean for metric, mean in sums if mean is not None}


def _sum_majorities(
    votes: Mapping[str, Sequence[tuple[str | None, bool]]], tasks: int, attempts: int
) -> dict[str, MetricSummary]:
    """Return the share of tasks whose most frequent answer passed, as `maj@n`.

    It is {} for one attempt at each task, and if the tasks have different numbers of attempts.
    """
    if not votes or attempts <= tasks or attempts % tasks:
        return {}
    metric = Metric(f"{MAJORITY}{attempts // tasks}", "the most frequent answer passed")
    passed = [float(passes_by_majority(of_task)) for of_task in votes.values()]
    found = metric_summary(metric, passed + [0.0] * (tasks - len(passed)))
    return {} if found is None else {metric.name: found}


class TaskShares:
    """The share of attempts that passed at each task, and the rate that follows from them."""

    def __init__(self) -> None:
        # The attempts, those with a verdict, and those that passed, by task id. Tasks share equal counts.
        self._counts: dict[str, tuple[int, int, int]] = {}
        self._shared: dict[tuple[int, int, int], tuple[int, int, int]] = {}
        # The clusters of tasks that are not clusters of their own.
        self._clusters: dict[str, str] = {}

    def add(self, planned: PlannedAttempt, status: Status) -> None:
        """Add an attempt. One without a verdict counts as failed."""
        task_id = planned.task.id
        made, judged, passed = self._counts.get(task_id, (0, 0, 0))
        counts = made + 1, judged + status.has_score, passed + (status is Status.PASSED)
        self._counts[task_id] = self._shared.setdefault(counts, counts)
        if planned.cluster is not None:
            self._clusters[task_id] = sys.intern(planned.cluster)

    @property
    def total(self) -> int:
        """The number of tasks."""
        return len(self._counts)

    @property
    def verdicts(self) -> list[tuple[int, int]]:
        """The attempts with a verdict, and those that passed, of each task."""
        return [(judged, passed) for _, judged, passed in self._counts.values()]

    @property
    def rate(self) -> float:
        """The mean share, rounded once, so that it is the rate of a comparison. It is 0 without tasks."""
        kinds = Counter((passed, made) for made, _, passed in self._counts.values())
        shares = sum((Fraction(*kind) * number for kind, number in kinds.items()), Fraction())
        return float(shares / self.total) if self.total else 0.0

    def find_interval(self, cluster_by: str | None) -> RateInterval | None:
        """Return the interval of the rate, None without tasks. `cluster_by` names the clusters."""
        clusters: dict[str, tuple[float, int]] = {}
        shares: list[tuple[float, int]] = []
        for task_id, (made, _, passed) in self._counts.items():
            if (name := self._clusters.get(task_id)) is None:
                shares.append((passed / made, 1))
            else:
                share, size = clusters.get(name, (0.0, 0))
                clusters[name] = share + passed / made, size + 1
        shares += clusters.values()
        spread = clustered_interval(shares, attempts=sum(made for made, _, _ in self._counts.values()))
        return None if spread is None else RateInterval(*spread, len(shares), cluster_by or "task")


@dataclass(slots=True)
class _Sums:
    """The sums over the attempts of a run, in the order of its plan."""

    usage: Amounts | None
    # The values of each metric in the first attempts.
    columns: list[list[float]]
    statuses: Counter[Status] = field(default_factory=Counter)
    signs: Counter[str] = field(default_factory=Counter)
    tasks: TaskShares = field(default_factory=TaskShares)
    # The shares and the number of resolved tasks, by category.
    categories: dict[str, TaskShares] = field(default_factory=dict)
    firsts: Counter[str] = field(default_factory=Counter)
    resolved: int = 0
    strict: list[tuple[bool, bool]] = field(default_factory=list)
    # The attempts with a result, and those that asked a model.
    ended: int = 0
    asked: int = 0
    servers: list[ServerFigures] = field(default_factory=list)
    replays: list[tuple[str, int, Replayed | None]] = field(default_factory=list)
    superseded: Counter[bool] = field(default_factory=Counter)
    # The answer and the outcome of each attempt that has an answer, in order, by task id.
    votes: dict[str, list[tuple[str | None, bool]]] = field(default_factory=dict)

    def add(self, planned: PlannedAttempt, found: StoredResult | None) -> None:
        """Add an attempt. One without a result counts as cancelled."""
        task, status = planned.task, Status.CANCELLED if found is None else found.status
        self.statuses[status] += 1
        if found is not None:
            self._add_result(planned, found)
        self.tasks.add(planned, status)
        if task.category is not None:
            self.categories.setdefault(task.category, TaskShares()).add(planned, status)
        if planned.number == 0:
            is_resolved = found is not None and found.resolved
            self.resolved += is_resolved
            self.firsts[task.category or ""] += is_resolved
            for place, column in enumerate(self.columns):
                column.append(found.metrics[place] if found is not None else 0.0)
            if found is not None and found.resolved_strict is not None:
                self.strict.append((found.resolved, found.resolved_strict))

    def describe_superseded(self) -> dict[str, int]:
        """Return how many attempts replace an earlier verdict, and how many of them are resolved now."""
        numbers = self.superseded
        return {"attempts": numbers.total(), "resolved": numbers[True]} if numbers else {}

    def _add_result(self, planned: PlannedAttempt, found: StoredResult) -> None:
        self.ended += 1
        self.asked += found.usage is not None
        self.usage = add_usage(self.usage, found.usage)
        if found.integrity is not None:
            self.signs[found.integrity] += 1
        if found.mcp is not None:
            self.servers.append(found.mcp)
        if found.replayed is not None:
            self.replays.append((*planned.key, found.replayed))
        if found.superseded:
            self.superseded[found.resolved] += 1
        if found.answer is not None:
            self.votes.setdefault(planned.task.id, []).append((found.answer, found.resolved))


def _describe_category(shares: TaskShares, resolved: int) -> dict[str, float | int]:
    spread = shares.find_interval(None)
    low, high = (0.0, 0.0) if spread is None else (spread.low, spread.high)
    return {"total": shares.total, "resolved": resolved, "rate": shares.rate, "low": low, "high": high}


def _list_results(
    benchmark: Benchmark,
    plan: Iterable[PlannedAttempt],
    results: Mapping[tuple[str, int], StoredResult],
) -> dict[str, TaskResult]:
    """Return the result of each task's first attempt, by task id, with the counts of all its attempts."""
    from harness.benchmarks.benchmark import TaskResult  # here, because a list of runs needs no benchmark

    names = benchmark.definition.kept_metrics
    made = {}
    judged: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    for planned in plan:
        status = Status.CANCELLED if (found := results.get(planned.key)) is None else found.status
        judged[planned.task.id] += status.has_score
        passed[planned.task.id] += status is Status.PASSED
        if planned.number:
            continue
        resolved = found is not None and found.resolved
        score = 0.0 if found is None or found.score is None else found.score
        metrics = {} if found is None else dict(zip(names, found.metrics, strict=False))
        made[planned.task.id] = TaskResult(resolved, score, metrics)
    return {
        task_id: replace(result, judged=judged[task_id], passed=passed[task_id])
        for task_id, result in made.items()
    }


def summarize_records(
    results: AttemptIndex,
    ks: Sequence[int],
    *,
    tasks: int,
    attempts: int,
    has_samples: bool = False,
    model: ModelUse | None = None,
    cluster_by: str | None = None,
) -> Summary:
    """Return the summary of a run that wrote none, from its records. Attempts without a record are cancelled.

    The result lacks the metrics and scores of the benchmark, because only the benchmark can compute them.

    Args:
        results: the results of all records.
        ks: each k of pass@k.
        tasks: the number of tasks that the run selected.
        attempts: the number of attempts that the run planned.
        has_samples: whether the attempts submit samples from a file.
        model: the use of the model that no attempt has, None for a run without a model.
        cluster_by: the field of the tasks that names their clusters, None for the tasks themselves.
    """
    plan = _RecordedPlan(results)
    made = summarize(plan, results, ks, has_samples=has_samples, model=model, cluster_by=cluster_by)
    if len(plan) >= attempts:
        return made
    total = max(tasks, made.total)
    return replace(
        made,
        total=total,
        attempts=attempts,
        rate=made.rate * made.total / total,
        rate_interval=None,
        first_attempt_rate=made.resolved / total,
        pass_at_k=dict.fromkeys(made.pass_at_k),
        statuses={**made.statuses, Status.CANCELLED: attempts - len(plan)},
        by_category={},
        coverage={},
    )


class _RecordedPlan(Sequence[PlannedAttempt]):
    """The attempts that have a record, each built when it is used, because a run may have very many."""

    def __init__(self, results: AttemptIndex) -> None:
        self._results = results
        self._make_task = lru_cache(maxsize=_KEPT_TASKS)(_make_task)

    def __len__(self) -> int:
        return len(self._results)

    def __iter__(self) -> Iterator[PlannedAttempt]:
        for task_id, number, category, line, cluster in self._results.scan(
            "task, number, category, line, cluster"
        ):
            yield PlannedAttempt(self._make_task(task_id, category), number, line, cluster=cluster)

    @overload
    def __getitem__(self, place: int) -> PlannedAttempt: ...

    @overload
    def __getitem__(self, place: slice) -> list[PlannedAttempt]: ...

    def __getitem__(self, place: int | slice) -> PlannedAttempt | list[PlannedAttempt]:
        return list(self)[place]


def _make_task(task_id: str, category: str | None) -> Task:
    """Return a task of which only the facts in its records are known."""
    return Task(task_id, "", "", "", category=category)


def _count_samples(plan: Sequence[PlannedAttempt]) -> dict[str, int]:
    """Return the counts of samples, of the tasks that have one, and of the tasks that are missing one."""
    sampled = [planned.task.id for planned in plan if planned.sample_line is not None]
    tasks = len({planned.task.id for planned in plan})
    return {"samples": len(sampled), "tasks": len(set(sampled)), "missing": tasks - len(set(sampled))}


def _count_strict(verdicts: Sequence[tuple[bool, bool]]) -> dict[str, int]:
    """Return the counts of tasks that have a strict verdict next to the published one, {} without any."""
    if not verdicts:
        return {}
    return {
        "tasks": len(verdicts),
        "resolved": sum(resolved for resolved, _ in verdicts),
        "resolved_strict": sum(strict for _, strict in verdicts),
        "differ": sum(resolved is not strict for resolved, strict in verdicts),
    }


def describe_rate(summary: Summary) -> dict[str, Any]:
    """Return the number to read first, as JSON values: the rate with its 95 % interval and its meaning.

    A stopped run has none, because the tasks that are left would count as failed.
    """
    is_whole = summary.total > 0 and not summary.statuses.get(Status.CANCELLED)
    spread = summary.rate_interval if is_whole else None
    return {
        "value": summary.rate if is_whole else None,
        "low": None if spread is None else spread.low,
        "high": None if spread is None else spread.high,
        "interval": "wilson",
        "confidence": 0.95,
        "clusters": None if spread is None else spread.clusters,
        "clustered_by": None if spread is None else spread.cluster_by,
        "meaning": "the mean over all selected tasks of the share of attempts that passed (pass@1)",
    }


def summary_json(summary: Summary) -> dict[str, Any]:
    """Return a summary as JSON values, in the form of `summary.json`."""
    values = {HEADLINE: describe_rate(summary), **asdict(summary), "schema_version": SUMMARY_VERSION}
    del values["rate_interval"]  # the headline has it
    values["pass_at_k"] = {str(k): value for k, value in summary.pass_at_k.items()}
    values["statuses"] = {status.value: count for status, count in summary.statuses.items()}
    for name in _ONLY_SOME_RUNS:
        if not values[name]:
            del values[name]
    return values


def write_results(
    file: TextIO,
    *,
    manifest: Mapping[str, Any],
    folder: Path,
    state: RunState,
    duration_seconds: float,
    summary: Mapping[str, Any],
    attempts: Iterable[AttemptRecord],
) -> None:
    """Write `results.json` to `file`, one attempt at a time and each on its own line.

    Args:
        file: An open text file.
        manifest: The manifest of the run.
        folder: The run folder.
        state: Whether the run goes on.
        duration_seconds: The duration of the run.
        summary: The summary as plain data.
        attempts: The attempts in the order that they are written.
    """
    run = {key: value for key, value in manifest.items() if key != "schema_version"}
    of_folder = {
        "folder": str(folder),
        "state": state.value,
        "duration_seconds": round(duration_seconds, 3),
    }
    head = {
        "schema_version": RESULTS_VERSION,
        "run": {**run, **of_folder},
        "summary": summary,
    }
    file.write(json.dumps(head, indent=2).removesuffix("\n}"))
    file.write(',\n  "attempts": [')
    for number, record in enumerate(attempts):
        file.write(f"{',' if number else ''}\n    {to_json(record)}")
    file.write("\n  ]\n}\n")
