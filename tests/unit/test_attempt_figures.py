from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from attempt_records import make_record
from case_checks import each_case

from harness.core.types import AttemptRecord, Status
from harness.reports.attempt_figures import MOST_BARS, MOST_POINTS, AttemptFigures

RECORD = make_record(duration_seconds=1.0)
BEGAN = datetime(2026, 8, 1, 9, 30, tzinfo=UTC)


def at(start: float, seconds: float, **changes: object) -> AttemptRecord:
    moment = (BEGAN + timedelta(seconds=start)).isoformat(timespec="milliseconds")
    return replace(RECORD, started_at=moment, duration_seconds=seconds, **changes)  # type: ignore[arg-type]


def attempts(task_id: str, outcomes: str) -> list[AttemptRecord]:
    """Return an attempt for each letter: `p` passed, `f` failed, `x` met an infra error."""
    statuses = {"p": Status.PASSED, "f": Status.FAILED, "x": Status.INFRA_ERROR}
    return [
        replace(RECORD, task_id=task_id, attempt=number, status=statuses[each], resolved=each == "p")
        for number, each in enumerate(outcomes)
    ]


def watch(records: list[AttemptRecord]) -> AttemptFigures:
    figures = AttemptFigures(several_attempts=True)
    assert [*figures.watch(records)] == records
    return figures


def test_the_curve_has_the_unbiased_estimate_for_each_k() -> None:
    figures = watch(attempts("a", "pf") + attempts("b", "ff"))
    assert figures.pass_curve(2) == [(1, 0.25), (2, 0.5)]


def test_the_curve_ends_where_a_task_has_no_more_attempts_with_a_verdict() -> None:
    figures = watch(attempts("a", "pff") + attempts("b", "ffx"))
    assert [k for k, _ in figures.pass_curve(2)] == [1, 2]


@each_case(
    ("records", "tasks"), [([], 0), (attempts("a", "p"), 1), (attempts("a", "pp") + attempts("b", "xx"), 2)]
)
def test_there_is_no_curve_without_two_verdicts_for_each_task(
    records: list[AttemptRecord], tasks: int
) -> None:
    assert watch(records).pass_curve(tasks) == []


def test_a_long_curve_has_few_points_with_both_ends() -> None:
    ks = [k for k, _ in watch(attempts("a", "pf" * 500)).pass_curve(1)]
    assert (ks[0], ks[-1]) == (1, 1000)
    assert len(ks) <= MOST_POINTS


def test_the_curve_never_falls() -> None:
    values = [value for _, value in watch(attempts("a", "pffff") + attempts("b", "ppfff")).pass_curve(2)]
    assert values == sorted(values)


def test_durations_have_a_median_and_bins_without_a_gap() -> None:
    figures = watch([at(0, seconds) for seconds in (0.05, 1.5, 1.7, 8, 9, 9, 9, 9, 9, 4000)])
    found = figures.durations()
    assert found is not None
    assert (found.median, found.ninetieth, found.longest) == (9, 9, 4000)
    assert sum(number for _, _, number in found.bins) == 10
    assert found.bins[0] == (0.0, 0.1, 1)
    assert found.bins[-1] == (3600, None, 1)
    assert all(one[1] == other[0] for one, other in zip(found.bins, found.bins[1:], strict=False))


def test_attempts_that_overlap_have_lanes_and_later_ones_reuse_them() -> None:
    timeline = watch([at(0, 10), at(1, 2), at(4, 3), at(10, 1)]).timeline()
    assert timeline is not None
    assert [(bar.lane, bar.start) for bar in timeline.bars] == [(0, 0), (1, 1), (1, 4), (0, 10)]
    assert (timeline.lanes, timeline.seconds, timeline.began) == (2, 11, BEGAN)


def test_the_busy_places_add_up_to_the_time_of_all_attempts() -> None:
    records = [at(start / 7, 1 + start % 3) for start in range(100)]
    timeline = watch(records).timeline()
    assert timeline is not None
    width = timeline.seconds / len(timeline.busy)
    assert sum(timeline.busy) * width == pytest.approx(sum(each.duration_seconds for each in records))


def test_a_timeline_of_many_attempts_shows_only_how_many_were_under_way() -> None:
    timeline = watch([at(start, 2) for start in range(MOST_BARS + 1)]).timeline()
    assert timeline is not None
    assert timeline.bars == []
    assert max(timeline.busy) == pytest.approx(2)


@each_case("text", [None, "", "yesterday", "0001-01-01T00:00:00+23:59"])
def test_a_record_without_a_time_is_not_in_the_timeline(text: str | None) -> None:
    assert watch([replace(RECORD, started_at=text)]).timeline() is None
