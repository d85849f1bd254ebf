from __future__ import annotations

from dataclasses import replace

from harness.core.types import AttemptRecord, Status
from harness.reports.failures import Cause, Causes
from harness.reports.html import draw_curve

FAILED = AttemptRecord("a", 0, None, None, False, Status.FAILED, 0.0, {}, "", "", 1.0, None)


def count(*records: AttemptRecord) -> list[Cause]:
    causes = Causes()
    assert [*causes.watch(records)] == [*records]
    return [*causes.list_most_frequent()]


def test_unresolved_attempts_are_grouped_by_status_and_exception() -> None:
    name = "test 1: assert f() == 1: NameError: name 'x' is not defined"
    assert count(
        replace(FAILED, task_id="slow", status=Status.TIMEOUT, error="the program used up its CPU time"),
        replace(FAILED, error=name),
        replace(FAILED, task_id="b", error=name),
        replace(FAILED, resolved=True, status=Status.PASSED),
    ) == [Cause(Status.FAILED, "NameError", 2, "a"), Cause(Status.TIMEOUT, "", 1, "slow")]


def test_missing_samples_come_after_failures_of_programs() -> None:
    causes = Causes(has_samples=True)
    missing = replace(FAILED, status=Status.AGENT_ERROR, error="s.jsonl has no sample for this task")
    failed = replace(FAILED, task_id="b", sample_line=1)
    assert len([*causes.watch([missing, missing, failed])]) == 3
    assert [cause.status for cause in causes.list_most_frequent()] == [Status.FAILED, Status.AGENT_ERROR]


def test_programs_with_ever_new_exceptions_fill_no_memory() -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    made = (f"X{a}{b}{c}Error" for a in letters for b in letters for c in letters[:3])
    causes = count(*(replace(FAILED, error=name) for name in made))
    assert causes[0] == Cause(Status.FAILED, "", 26 * 26 * 3 - 1000, causes[0].example)


def test_a_curve_of_two_points_is_not_drawn() -> None:
    assert draw_curve([(1, 0.25), (2, 0.5)]) is None
    assert draw_curve([(1, 0.25), (2, 0.5), (3, 0.75)]) is not None
