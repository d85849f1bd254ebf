"""The accessors of a row, and their errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from case_checks import each_case

from harness.benchmarks.data.rows import Row, describe
from harness.core.errors import DataError

ROW = Row(
    {"name": "é", "empty": "", "n": 7, "yes": True, "list": ["a", "b"], "null": None}, "f.jsonl", line=3
)


def failure(call: Callable[[], Any]) -> DataError:
    with pytest.raises(DataError) as caught:
        call()
    return caught.value


def test_each_accessor_returns_its_type() -> None:
    assert ROW.text("name") == "é"
    assert ROW.text("empty") == ""
    assert ROW.integer("n") == 7
    assert ROW.texts("list") == ["a", "b"]
    assert ROW.optional_text("name") == "é"
    assert ROW.optional_text("null") is None
    assert ROW.optional_text("absent") is None


def test_wrong_type_names_file_line_field_and_both_types() -> None:
    error = failure(lambda: ROW.text("n"))
    assert str(error) == "f.jsonl:3: field 'n': needs a string, found an integer (7)"
    assert (error.path, error.line, error.field) == ("f.jsonl", 3, "n")
    assert "needs a string, found null" in str(failure(lambda: ROW.text("null")))
    assert "needs an integer, found a string ('é')" in str(failure(lambda: ROW.integer("name")))
    assert "needs an integer, found a boolean (true)" in str(failure(lambda: ROW.integer("yes")))
    assert "needs a list of strings, found a string" in str(failure(lambda: ROW.texts("name")))
    assert "needs a string, found an integer" in str(failure(lambda: ROW.optional_text("n")))


def test_wrong_element_names_its_place() -> None:
    error = failure(lambda: Row({"tests": ["a", 5]}, "f.json", item=2).texts("tests"))
    assert str(error) == "f.json: item 2: field 'tests[1]': needs a string, found an integer (5)"


def test_missing_field_lists_the_existing_fields_and_the_nearest() -> None:
    error = failure(lambda: Row({"task_id": 1, "promt": ""}, "f.jsonl", line=1).text("prompt"))
    assert str(error) == "f.jsonl:1: field 'prompt': missing, needs a string"
    assert error.hint == "did you mean 'promt'? the row has: promt, task_id"
    assert failure(lambda: Row({}, "f").integer("n")).hint == "the row has: nothing"


def test_hint_is_bounded_however_many_or_long_the_fields() -> None:
    wide = Row({f"{'x' * 1000}{n}": n for n in range(1000)}, "f")
    assert len(failure(lambda: wide.text("prompt")).hint or "") < 400


def test_own_errors_carry_the_place() -> None:
    error = ROW.error("no such thing", field="name", hint="look again")
    assert (str(error), error.hint) == ("f.jsonl:3: field 'name': no such thing", "look again")


@each_case(
    ("value", "said"),
    [
        (None, "null"),
        (False, "a boolean (false)"),
        (1.5, "a number (1.5)"),
        (float("nan"), "a number (nan)"),
        ([1, 2], "a list of 2"),
        ({"a": 1}, "an object of 1 fields"),
        (b"", "a bytes"),
        ("\x1b[2J\n", r"a string ('\x1b[2J\n')"),
    ],
)
def test_describe(value: Any, said: str) -> None:
    assert describe(value) == said


def test_describe_is_bounded() -> None:
    for value in ("x" * 10**6, 10**1000, [0] * 10**6, {str(n): n for n in range(10**5)}):
        assert len(describe(value)) < 100


def test_an_integer_that_python_will_not_print_is_still_described() -> None:
    assert describe(10**5000) == "a huge integer"
