from __future__ import annotations

from collections import Counter
from dataclasses import replace

from attempt_records import make_record
from hypothesis import given
from hypothesis import strategies as st

from harness.core.types import AttemptRecord, Status
from harness.reports.console import FittingAttempts, fit_attempts

ATTEMPT = make_record()


def fit(sizes: list[tuple[Status, int]], room: int) -> tuple[FittingAttempts, int]:
    """Return the rows that fit, of attempts with rows of these sizes, and the number of rendered rows."""
    rendered = []

    def render(record: AttemptRecord) -> str:
        rendered.append(record)
        return f"{record.status[:1]}{record.attempt}".ljust(int(record.task_id))

    attempts = [
        replace(ATTEMPT, task_id=str(size), attempt=place, status=status)
        for place, (status, size) in enumerate(sizes)
    ]
    return fit_attempts(attempts, render, room=room), len(rendered)


def test_rows_that_fit_are_all_shown_the_unresolved_ones_first() -> None:
    fitting, _ = fit([(Status.PASSED, 10), (Status.FAILED, 10), (Status.PASSED, 10)], 30)
    assert "".join(fitting.rows).split() == ["f1", "p0", "p2"]
    assert fitting.shown == fitting.given == {Status.PASSED: 2, Status.FAILED: 1}


def test_a_status_with_few_attempts_keeps_them_all() -> None:
    many = [(Status.PASSED, 10)] * 500 + [(Status.INFRA_ERROR, 10)] * 3 + [(Status.FAILED, 10)] * 500
    fitting, _ = fit(many, 1000)
    assert fitting.shown == {Status.INFRA_ERROR: 3, Status.PASSED: 49, Status.FAILED: 48}
    assert fitting.given == {Status.INFRA_ERROR: 3, Status.PASSED: 500, Status.FAILED: 500}


def test_rows_that_cannot_be_shown_are_not_rendered() -> None:
    _, rendered = fit([(Status.PASSED, 10), (Status.FAILED, 10)] * 10_000, 1000)
    assert rendered <= 102


STATUSES = st.sampled_from([Status.PASSED, Status.FAILED, Status.TIMEOUT, Status.INFRA_ERROR])


@given(st.lists(st.tuples(STATUSES, st.integers(8, 40))), st.integers(0, 600))
def test_the_room_is_not_exceeded_and_the_first_of_each_status_are_shown(
    sizes: list[tuple[Status, int]], room: int
) -> None:
    fitting, _ = fit(sizes, room)
    assert sum(map(len, fitting.rows)) <= room
    assert fitting.given == Counter(status for status, _ in sizes)
    assert (fitting.shown == fitting.given) or sum(size for _, size in sizes) > room
    wanted = []
    left = fitting.shown.copy()
    in_order = sorted(enumerate(sizes), key=lambda each: each[1][0] is Status.PASSED)
    for place, (status, _) in in_order:
        if left[status] > 0:
            left[status] -= 1
            wanted.append(f"{status[:1]}{place}")
    assert "".join(fitting.rows).split() == wanted
