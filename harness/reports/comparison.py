"""The texts of a comparison that all its formats for people show."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from harness.core.types import Status
from harness.reports.attempt_figures import UNKNOWN, describe_cost
from harness.reports.figures import count, describe_range, duration, percent
from harness.runs.comparison import ChangedTask, Comparison, Side

# A list of all names may be longer than a reader, or the comment of a pull request, takes.
_SHOWN, _SHOWN_RUNS = 50, 20
# The conditions that a warning names.
_SHOWN_CONDITIONS = 5
_PLAIN = re.compile(r"[A-Za-z0-9_.-]{1,60}")
_MODEL_FIGURES = {
    "model_requests": "requests",
    "input_tokens": "tokens in",
    "output_tokens": "tokens out",
    "cost": "cost",
    # A side whose replies end at the token limit loses tasks by its settings, and not by its model.
    "cut_replies": "replies cut off",
    "context_truncated": "contexts cut by the server",
}
_SHOWN_IF_ANY = {"cut_replies", "context_truncated"}


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of both sides. Its texts must be escaped where they are shown if `is_text` is true."""

    label: str
    baseline: str
    candidate: str
    change: str = ""
    # Whether the values come from a user or a run. All other texts are ours.
    is_text: bool = False


@dataclass(frozen=True, slots=True)
class ShownDifference:
    """A difference between the manifests, with the values of each side in one text."""

    name: str
    baseline: str
    candidate: str
    is_unfair: bool


def count_unshown(number: int) -> int:
    """Return how many of `number` names or rows are left out for people. Only JSON has all of them."""
    return max(number - _SHOWN, 0)


def list_figures(comparison: Comparison) -> Iterator[Figure]:
    """Yield the figures of both sides, the names of the runs first."""
    sides = comparison.baseline, comparison.candidate
    yield _show("run", sides, lambda side: side.runs[0].folder.name, is_text=True)
    longest = max(len(side.runs) for side in sides)
    for place in range(1, min(longest, _SHOWN_RUNS)):
        yield _show("repeated by", sides, partial(_name_repetition, place=place), is_text=True)
    if longest > _SHOWN_RUNS:
        yield _show("runs", sides, lambda side: f"{len(side.runs):,}")
    yield _show("agent", sides, lambda side: str(side.runs[0].manifest["agent"]), is_text=True)
    if any(side.runs[0].model for side in sides):
        yield _show("model", sides, lambda side: side.runs[0].model or "none", is_text=True)
    yield _show("attempts", sides, lambda side: f"{side.attempts:,}")
    unnamed = comparison.unnamed_tasks
    if unnamed or any(side.missing for side in sides):
        yield _show("tasks missing", sides, lambda side: f"{len(side.missing) + unnamed:,}")
    if comparison.without_verdict:
        yield _show("without verdict", sides, lambda side: f"{side.without_verdict:,}")
    yield _show("rate", sides, _describe_rate, points(comparison.difference))
    if comparison.score_difference is not None:
        change = points(comparison.score_difference)
        yield _show("mean score", sides, lambda side: percent(side.score), change)
    change = f"{sides[1].resolved - sides[0].resolved:+,}"
    label = "first attempt" if _has_several_attempts(comparison) else "resolved"
    yield _show(label, sides, lambda side: f"{side.resolved:,}/{comparison.tasks:,}", change)
    for status in Status:
        if any(side.statuses.get(status) for side in sides):
            label = status.value.replace("_", " ")
            yield _show(label, sides, partial(_count_status, status=status))
    yield from _list_costs(*sides)


def _show(
    label: str,
    sides: tuple[Side, Side],
    describe: Callable[[Side], str],
    change: str = "",
    *,
    is_text: bool = False,
) -> Figure:
    return Figure(label, describe(sides[0]), describe(sides[1]), change, is_text)


def _describe_rate(side: Side) -> str:
    return f"{percent(side.rate)} ({describe_range(side.interval.low, side.interval.high)})"


def _has_several_attempts(comparison: Comparison) -> bool:
    """Return whether a task has several attempts, so that the first ones do not decide the rate."""
    return any(
        side.attempts > len(side.runs[0].tasks) for side in (comparison.baseline, comparison.candidate)
    )


def _name_repetition(side: Side, *, place: int) -> str:
    return side.runs[place].folder.name if place < len(side.runs) else "none"


def _count_status(side: Side, *, status: Status) -> str:
    return f"{side.statuses.get(status, 0):,}"


def _list_costs(before: Side, after: Side) -> Iterator[Figure]:
    """Yield the amounts, each as a sum and as a mean of an attempt, because sides may differ in length."""
    if before.usage or after.usage:
        for name, label in _MODEL_FIGURES.items():
            amounts = [side.usage.get(name) if side.usage else 0 for side in (before, after)]
            if name in _SHOWN_IF_ANY and not any(amounts):
                continue
            describe = describe_cost if name == "cost" else _describe_number
            yield _compare_amounts(label, amounts[0], amounts[1], before, after, describe)
    yield _compare_amounts(
        "time of attempts", before.attempt_seconds, after.attempt_seconds, before, after, duration
    )
    ended = (side.duration_seconds for side in (before, after))
    texts = [UNKNOWN if seconds is None else duration(seconds) for seconds in ended]
    yield Figure("duration", texts[0], texts[1])


def _compare_amounts(
    label: str,
    baseline: float | None,
    candidate: float | None,
    before: Side,
    after: Side,
    describe: Callable[[float], str],
) -> Figure:
    pairs = (baseline, before), (candidate, after)
    means = [None if amount is None else amount / side.attempts for amount, side in pairs]
    texts = [
        UNKNOWN if amount is None or mean is None else f"{describe(amount)} ({describe(mean)} each)"
        for (amount, _), mean in zip(pairs, means, strict=True)
    ]
    first, second = means
    change = "" if not first or second is None else f"{100 * (second / first - 1):+,.0f} % each"
    return Figure(label, texts[0], texts[1], change)


def _describe_number(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 100 or amount == int(amount) else f"{amount:.1f}"


def points(difference: float) -> str:
    """Return a difference of rates in points of per cent, with its sign. It is never rounded to 0."""
    if difference == 0:
        return "0.0 points"
    small = abs(difference) < 0.0005
    return f"{100 * difference:+.1g} points" if small else f"{100 * difference:+.1f} points"


def _span(low: float, high: float) -> str:
    return f"{points(low).removesuffix(' points')} to {points(high)}"


def conclude(comparison: Comparison) -> Iterator[str]:
    """Yield the conclusions, each in one line. They hold no text of a run."""
    low, high = comparison.interval
    yield (
        f"rate {points(comparison.difference)} (95 % interval {_span(low, high)}, "
        f"bootstrap over {_describe_drawn(comparison)})"
    )
    if comparison.score_difference is not None and comparison.score_interval is not None:
        low, high = comparison.score_interval
        yield (f"mean score {points(comparison.score_difference)} (95 % interval {_span(low, high)})")
    by = " by the first attempt" if _has_several_attempts(comparison) else ""
    yield (
        f"gained {count(len(comparison.gained), 'task')}, lost {len(comparison.lost):,}{by} "
        f"(exact McNemar p = {_describe_p(comparison.p_value)})"
    )
    for name, side in (("baseline", comparison.baseline), ("candidate", comparison.candidate)):
        if side.noise is not None:
            rates = [percent(rate) for rate in (min(side.noise.rates), max(side.noise.rates))]
            yield (
                f"noise of {count(len(side.runs), f'{name} run')}: rates {rates[0]} to {rates[1]}, standard "
                f"deviation {points(side.noise.standard_deviation).lstrip('+')}, tasks that changed between "
                f"two runs {side.noise.mean_flips:.1f} on average, {side.noise.most_flips:,} at most"
            )
    yield from _judge(comparison)


def _describe_drawn(comparison: Comparison) -> str:
    tasks = count(comparison.tasks, "task")
    if comparison.cluster_by == "task":
        return tasks
    return f"{count(comparison.clusters, 'cluster')} of {tasks}"


def _judge(comparison: Comparison) -> Iterator[str]:
    spread = comparison.noise_spread
    if spread is not None:
        verb = "exceeds" if comparison.exceeds_noise else "does not exceed"
        yield f"the difference {verb} the spread of repeated runs, {points(spread).lstrip('+')}"
    threshold = comparison.regression_threshold
    if threshold is not None:
        result = "regression" if comparison.is_regression else "no regression"
        yield f"{result}: the threshold is a fall of {points(threshold).lstrip('+')}"


def _describe_p(p_value: float) -> str:
    return f"{p_value:.3f}" if p_value >= 0.001 else f"{p_value:.1e}"


def uses_bundled_sample(comparison: Comparison) -> bool:
    """Return whether a run of a comparison has run on the bundled sample."""
    runs = (*comparison.baseline.runs, *comparison.candidate.runs)
    return any(run.manifest["source"] == "bundled" for run in runs)


def list_warnings(comparison: Comparison) -> Iterator[str]:
    """Yield the reasons for doubt, each in one line. They hold no text of a run."""
    unfair = sum(each.is_unfair for each in comparison.differences)
    if unfair:
        fields = f"{count(unfair, 'condition')} {'differs' if unfair == 1 else 'differ'}"
        named = f" ({', '.join(names)})" if (names := _name_unfair(comparison)) else ""
        yield f"{fields} between the runs{named}, so that the difference may have other causes; see the list"
    for name, side in (("baseline", comparison.baseline), ("candidate", comparison.candidate)):
        unfinished = [run for run in side.runs if run.recorded_attempts < run.planned_attempts]
        if unfinished:
            made = sum(run.recorded_attempts for run in unfinished)
            planned = sum(run.planned_attempts for run in unfinished)
            state = "running" if any(run.is_running for run in unfinished) else "interrupted"
            yield (
                f"the {name} is {state}: {made:,} of {count(planned, 'attempt')}; the others count as failed"
            )
        if side.missing:
            yield f"{count(len(side.missing), 'task')} missing in the {name} count as failed there"
        faults = side.statuses.get(Status.INFRA_ERROR, 0)
        if faults:
            yield f"{count(faults, 'attempt')} of the {name} ended in an infra error and count as failed"
        if broken := side.statuses.get(Status.GRADER_ERROR, 0):
            yield f"{count(broken, 'attempt')} of the {name} met broken tests and count as failed"
    if comparison.unnamed_tasks:
        tasks = count(comparison.unnamed_tasks, "selected task")
        yield f"{tasks} that no run has reached count as failed on both sides"
    if comparison.left_out_tasks:
        yield f"{count(comparison.left_out_tasks, 'task')} that a run lacks are left out"


def _name_unfair(comparison: Comparison) -> list[str]:
    """Return the first conditions that differ. A run may choose a name, so only plain ones are shown."""
    names = [each.name for each in comparison.differences if each.is_unfair]
    shown = [name.removeprefix("config.") for name in names[:_SHOWN_CONDITIONS] if _PLAIN.fullmatch(name)]
    return [*shown, "..."] if shown and len(shown) < len(names) else shown


def list_names(comparison: Comparison) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Yield each list of tasks that is not empty: its label, the tasks, and a style. The tasks are raw."""
    for label, names, style in (
        ("gained", _describe_tasks(comparison, comparison.gained), "green"),
        ("lost", _describe_tasks(comparison, comparison.lost), "red"),
        ("missing in the baseline", comparison.baseline.missing, "yellow"),
        ("missing in the candidate", comparison.candidate.missing, "yellow"),
    ):
        if names:
            yield label, names, style


def _describe_tasks(comparison: Comparison, tasks: tuple[ChangedTask, ...]) -> tuple[str, ...]:
    if not _has_several_attempts(comparison):
        return tuple(task.task_id for task in tasks)
    return tuple(
        f"{task.baseline_passed}/{task.baseline_attempts} -> {task.candidate_passed}/"
        f"{task.candidate_attempts}  {task.task_id}"
        for task in tasks
    )


def list_shown_differences(comparison: Comparison) -> Iterator[ShownDifference]:
    """Yield the differences between the manifests that are shown, those that are unfair first."""
    for each in comparison.differences[:_SHOWN]:
        mark = " (!)" if each.is_unfair else ""
        before, after = " or ".join(each.baseline), " or ".join(each.candidate)
        yield ShownDifference(f"{each.name}{mark}", before, after, each.is_unfair)
