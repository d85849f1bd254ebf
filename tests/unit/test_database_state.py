"""The state of a table: its verdict by its rows, AgentBench's hash of it, and the trial of references."""

from __future__ import annotations

import hashlib

import pytest
from case_checks import each_case

from harness.core.types import Verdict
from harness.environments.db.category import why_unsound
from harness.environments.db.client import Table, TableUnreadable
from harness.environments.db.environment import distinct_names, make_table
from harness.environments.db.grader import DatabaseState, grade_table, is_hash_of, table_hash

BEFORE = make_table("t", ["a", "b"], [["1", "x"], ["2", "y"]])
WANTED = make_table("t", ["a", "b"], [["1", "x"], ["2", "z"]])
NO_HASH = DatabaseState((BEFORE,), "t", "UPDATE t SET b = 'z' WHERE a = '2'")


def judge(
    left: Table, target: DatabaseState = NO_HASH, wanted: Table = WANTED, *, answered: bool = True
) -> Verdict:
    return grade_table(target, left, wanted, answered=answered)


def rows(*cells: tuple[str | None, ...]) -> Table:
    return Table("t", ("a", "b"), cells)


def test_the_expected_rows_pass_in_any_order_and_without_an_answer() -> None:
    assert judge(rows(("2", "z"), ("1", "x")), answered=False).resolved


@each_case(
    "left",
    [
        BEFORE,
        rows(),
        rows(("2", "z")),
        rows(("1", "x"), ("2", "z"), ("2", "z")),
        rows(("1", "x"), ("2", "Z")),
        rows(("1", "x"), ("2", "z ")),
        rows(("1", "x"), ("2", None)),
    ],
)
def test_other_rows_fail(left: Table) -> None:
    assert not judge(left).resolved


def test_other_columns_fail_even_with_the_expected_rows() -> None:
    assert not judge(Table("t", ("b", "a"), WANTED.rows)).resolved


def test_the_published_hash_is_a_metric_if_the_reference_agrees_with_it() -> None:
    target = DatabaseState((BEFORE,), "t", NO_HASH.sql, table_hash(WANTED.rows))
    assert judge(WANTED, target).metrics["published_hash_agrees"] is True
    # The hash leaves NULLs out, so a value in the wrong column gives the same hash.
    wanted = rows((None, "x"), ("2", "z"))
    moved = rows(("x", None), ("2", "z"))
    target = DatabaseState((BEFORE,), "t", NO_HASH.sql, table_hash(wanted.rows))
    verdict = judge(moved, target, wanted)
    assert verdict.metrics["published_hash_agrees"] is True
    assert not verdict.resolved


def test_the_published_hash_decides_if_the_reference_makes_another_table() -> None:
    mysqls = rows(("1", "x"), ("2", "z."))
    target = DatabaseState((BEFORE,), "t", NO_HASH.sql, table_hash(mysqls.rows))
    assert judge(mysqls, target).resolved
    assert not judge(WANTED, target).resolved
    assert judge(WANTED, target).metrics["judged_by"] == "published hash"


def test_an_agent_that_does_nothing_fails_even_if_nothing_should_change() -> None:
    assert not judge(BEFORE, wanted=BEFORE, answered=False).resolved
    assert judge(BEFORE, wanted=BEFORE, answered=True).resolved


def test_the_evidence_names_the_rows() -> None:
    evidence = judge(BEFORE).evidence
    assert evidence is not None
    assert "missing rows" in evidence
    assert "'z'" in evidence


def test_every_column_gets_a_distinct_name() -> None:
    names = distinct_names(["", "a", "A", "a_2", " ", "a"])
    assert names == ("column_1", "a", "A_3", "a_2", "column_5", "a_4")
    assert len({name.lower() for name in names}) == len(names)


@each_case(
    ("name", "columns", "cells", "complaint"),
    [
        ("", ["a"], [], "cannot have the name"),
        ("sqlite_master", ["a"], [], "cannot have the name"),
        ("t", [], [], "at least one column"),
        ("t", ["a"], [["1", "2"]], "row 0 has 2 cells"),
        ("t", ["a"], [["\0"]], "NUL"),
        ("t", ["\ud800"], [], "half of a surrogate"),
    ],
)
def test_a_table_that_no_database_can_hold_is_refused(
    name: str, columns: list[str], cells: list[list[str]], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        make_table(name, columns, cells)


def test_cells_become_texts_and_nulls() -> None:
    assert make_table("t", ["a", "b", "c"], [[7, None, 7.5]]).rows == (("7", None, "7.5"),)


ROWS = (("1", "a"), ("2", None), (None, "é"), ("3", ""))


def md5(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()


def test_the_hash_follows_the_recipe() -> None:
    digits = sorted(md5(text)[:5] for text in ("1,a", "2", "é", "3,"))
    assert table_hash(ROWS) == md5(",".join(digits))


def test_the_hash_of_many_rows_is_cut_as_mysql_cuts_it() -> None:
    rows = [(str(number),) for number in range(500)]
    digits = ",".join(sorted(md5(text)[:5] for (text,) in rows))
    assert table_hash(rows, cut=True) == md5(digits[:1024])


def test_either_way_of_hashing_is_recognised() -> None:
    rows = [(str(number),) for number in range(500)]
    assert is_hash_of(table_hash(rows), rows)
    assert is_hash_of(table_hash(rows, cut=True), rows)
    assert not is_hash_of(table_hash(rows), rows[1:])


def test_texts_that_are_not_utf8_have_a_hash() -> None:
    assert table_hash([("\udcff",)]) != table_hash([("?",)])


def state(published: Table | None) -> DatabaseState:
    return DatabaseState((BEFORE,), "t", NO_HASH.sql, table_hash(published.rows) if published else None)


@each_case("published", [None, WANTED, make_table("t", ["a", "b"], [["9", "x"]])])
def test_a_reference_whose_sql_changes_the_table_is_sound(published: Table | None) -> None:
    assert why_unsound(state(published), WANTED) is None


def test_a_reference_whose_sql_fails_is_not_sound() -> None:
    reason = why_unsound(state(None), TableUnreadable("no such column: b"))
    assert reason == "its reference's own SQL fails: no such column: b"


def test_a_published_hash_of_the_unchanged_table_shows_that_the_sql_failed_there() -> None:
    assert "hash belongs to the unchanged table" in str(why_unsound(state(BEFORE), WANTED))


def test_a_reference_that_rightly_changes_nothing_is_sound() -> None:
    assert why_unsound(state(BEFORE), BEFORE) is None
