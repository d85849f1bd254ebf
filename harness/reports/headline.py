"""The one number of a run, with its interval and its meaning, the same in every report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.reports.coverage import describe_coverage
from harness.reports.figures import count, interval, percent
from harness.scoring.intervals import wilson_interval
from harness.text import escape_terminal
from harness.types import Status, Summary

# The label of the headline's number wherever figures are listed.
RATE = "rate"


@dataclass(frozen=True, slots=True)
class Headline:
    """The number to read first, as texts of one line each."""

    figure: str
    """`71.2 % resolved`, or the progress of a run that has no rate yet."""
    interval: str
    """The 95 % interval and its method, "" if there is none."""
    meaning: str
    """The counts behind the number."""
    coverage: str = ""
    """The number of samples and of tasks without one, "" unless the run grades samples.

    A report shows it before the figure, because a task without a sample counts as failed.
    """

    def __str__(self) -> str:
        spread = f" ({self.interval})" if self.interval else ""
        coverage = f"; {self.coverage}" if self.coverage else ""
        return f"{self.figure}{spread}: {self.meaning}{coverage}"


def describe_headline(summary: Summary, *, is_running: bool = False) -> Headline:
    """Return the headline of a run.

    A stopped run has no rate, because the tasks that are left would count as failed.
    """
    unmade = summary.statuses.get(Status.CANCELLED, 0)
    if unmade:
        done = f"{summary.attempts - unmade:,} of {summary.attempts:,}"
        progress = f"running: {done} attempts" if is_running else f"stopped after {done}"
        return Headline(progress, "", f"{summary.statuses.get(Status.PASSED, 0):,} passed so far")
    if not summary.total:
        return Headline("no tasks", "", "the run has selected none")
    coverage = describe_coverage(summary) if summary.coverage else ""
    spread = describe_rate_interval(summary)
    if not has_several_attempts(summary):
        counts = f"{summary.resolved:,} of {count(summary.total, 'task')}, by one attempt at each"
        return Headline(f"{percent(summary.rate)} resolved", spread, counts, coverage)
    passed = f"{summary.statuses.get(Status.PASSED, 0):,} of {count(summary.attempts, 'attempt')} passed"
    meaning = f"pass@1: {passed}, as the mean over {count(summary.total, 'task')} of the share that passed"
    return Headline(f"{percent(summary.rate)} resolved", spread, meaning, coverage)


def describe_rate_interval(summary: Summary) -> str:
    """Return the 95 % interval of the rate as text, with its method and its clusters, "" without one."""
    spread = summary.rate_interval
    if spread is None:
        return ""
    by_task = spread.cluster_by == "task"
    is_plain = by_task and not has_several_attempts(summary)
    field = "task" if by_task else escape_terminal(spread.cluster_by, 100)
    method = "Wilson" if is_plain else f"Wilson, clustered by {field}"
    if not by_task:
        method += f", {count(spread.clusters, 'cluster')}"
    return f"95 % interval {describe_range(spread.low, spread.high)}, {method}"


def describe_range(low: float, high: float) -> str:
    """Return the ends of an interval as text: `30.1 % to 95.4 %`."""
    return f"{percent(low)} to {percent(high)}"


def find_category_interval(row: Mapping[str, float | int]) -> tuple[float, float]:
    """Return the 95 % interval of a category's rate. A category of an earlier version has Wilson's."""
    if "low" in row and "high" in row:
        return row["low"], row["high"]
    return wilson_interval(int(row["resolved"]), int(row["total"])) or (0.0, 1.0)


def has_several_attempts(summary: Summary) -> bool:
    """Return whether a task has more than one attempt, so that the rate is not that of the first ones."""
    return summary.attempts > summary.total


def describe_first_attempts(summary: Summary) -> str:
    """Return the rate of the first attempts alone as text."""
    share = percent(summary.first_attempt_rate)
    return f"{share}  ({summary.resolved:,} of {count(summary.total, 'task')})"


def list_scores(summary: Summary) -> Iterator[tuple[str, str]]:
    """Yield the rate, pass@k and the metrics of a finished run, each as a label and a text of one line."""
    several = has_several_attempts(summary)
    spread = describe_rate_interval(summary)
    yield RATE, percent(summary.rate) + (f"  ({spread})" if spread else "")
    if several:
        yield "first attempt", describe_first_attempts(summary)
    for k, value in sorted(summary.pass_at_k.items()):
        yield f"pass@{k}", describe_pass_at_k(summary, k, value)
    for name, metric in summary.metrics.items():
        # A benchmark's own metric is that of the first attempt at each task.
        of = ", first attempts" if several else ""
        yield name, f"{percent(metric.mean)}  ({interval(metric)}{of})"


def describe_pass_at_k(summary: Summary, k: int, value: float | None) -> str:
    """Return pass@k as text, with the reason where pass@1 differs from the rate."""
    if value is None:
        return f"undefined: needs n >= {k}"
    lost = sum(number for status, number in summary.statuses.items() if not status.has_score)
    differs = k == 1 and lost and value != summary.rate
    return percent(value) + ("  (without the attempts that have no verdict)" if differs else "")


def label_resolved(summary: Summary) -> str:
    """Return the heading of the resolved tasks, which the first attempts decide if there are several."""
    return "resolved first" if has_several_attempts(summary) else "resolved"
