"""A run checks references that are SQL before it starts, and finds those that cannot decide a verdict."""

from __future__ import annotations

from case_checks import each_case

from harness.environments.db.category import why_unsound
from harness.environments.db.client import Table, TableUnreadable
from harness.environments.db.environment import make_table
from harness.environments.db.grader import DatabaseState, table_hash

BEFORE = make_table("t", ["a"], [["1"], ["2"]])
MADE = make_table("t", ["a"], [["1"], ["3"]])
OTHER = make_table("t", ["a"], [["9"]])


def state(published: Table | None) -> DatabaseState:
    return DatabaseState(
        (BEFORE,), "t", "UPDATE t SET a = 3 WHERE a = 2", table_hash(published.rows) if published else None
    )


@each_case("published", [None, MADE, OTHER])
def test_a_reference_whose_sql_changes_the_table_is_sound(published: Table | None) -> None:
    assert why_unsound(state(published), MADE) is None


def test_a_reference_whose_sql_fails_is_not_sound() -> None:
    reason = why_unsound(state(None), TableUnreadable("no such column: b"))
    assert reason == "its reference's own SQL fails: no such column: b"


def test_a_published_hash_of_the_unchanged_table_shows_that_the_sql_failed_there() -> None:
    assert "hash belongs to the unchanged table" in str(why_unsound(state(BEFORE), MADE))


def test_a_reference_that_rightly_changes_nothing_is_sound() -> None:
    assert why_unsound(state(BEFORE), BEFORE) is None
