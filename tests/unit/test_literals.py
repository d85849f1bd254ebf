"""Literals in hostile text: nothing is evaluated, nothing hangs, and types count if they should."""

from __future__ import annotations

from typing import Any

import pytest
from case_checks import each_case
from hypothesis import given
from hypothesis import strategies as st

from harness.core.scoring.answers import MAX_ANSWER_CHARACTERS
from harness.core.scoring.literals import LiteralRefused, equal_literals, read_equated, read_literal

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
KEYS = st.integers() | st.text() | st.booleans()
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.sets(KEYS, min_size=1, max_size=3)
        | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=8,
)


def without_infinity(value: Any) -> bool:
    return "inf" not in repr(value)


@given(VALUES.filter(without_infinity))
def test_every_literal_is_read_as_its_value(value: Any) -> None:
    assert equal_literals(read_literal(f" {value!r}\n"), value, exact_types=True)
    assert equal_literals(read_equated(f"assert f(1) == {value!r}"), value, exact_types=True)


@each_case(
    "text",
    [
        "",
        "0 or True",
        "[0] * 3",
        "1 + 1",
        "f(1)",
        "__import__('os').system('true')",
        "f'{1}'",
        "x",
        "(lambda: 1)()",
        "1; 2",
        "1 if True else 2",
        "{[]}",
        "[1",
        "1\x00",
        "\ud800",
        "nan",
        "...  ...",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(LiteralRefused):
        read_literal(text)


@each_case(
    "text",
    [
        "[" * 9000,
        "-" * 90000 + "1",
        "not " * 20000 + "1",
        "1+" * 45000 + "1",
        "x" + "[0]" * 25000,
        "lambda:" * 10000 + "1",
        "9" * 5000,
        "a" + ".a" * 40000,
        "'" + "a" * MAX_ANSWER_CHARACTERS + "'",
    ],
    ids=lambda text: text[:8],
)
def test_a_literal_that_is_too_deep_or_too_long_is_refused(text: str) -> None:
    with pytest.raises(LiteralRefused):
        read_literal(text)
    with pytest.raises(LiteralRefused):
        read_equated(f"assert 1 == {text}")


@each_case(
    ("text", "value"),
    [
        ("assert f(1) == 2", 2),
        ("f([1, 2]) == [2, 1]", [2, 1]),
        ("assert f('==') == '=='", "=="),
        ("assert f(1) == 2, 'message'", 2),
        ("assert f(1) == 2, f'not {2}'", 2),
        ("assert f([]) == 'a' 'b'", "ab"),
        ("assert f([]) == set()", set()),
        ("assert Solution().f(n = 1) == -2.5", -2.5),
    ],
)
def test_right_side_of_an_assert_is_read(text: str, value: Any) -> None:
    assert read_equated(text) == value


@each_case(
    "text",
    [
        "assert 2",
        "assert f(1) != 2",
        "assert f(1) == 2 == 3",
        "assert f(1) == 2 == 2",
        "assert f(1) == 2 != 3",
        "assert 2 == f(1) == 2",
        "assert f(1) == 2 is 2",
        "assert f(1) == 2, 3",
        "assert 2 == 2",
        "assert x == 2",
        "assert f(1)[0] == 2",
        "assert f(1) + 0 == 2",
        "assert -f(1) == 2",
        "assert (lambda: 2) == 2",
        "assert f(1) == (x := 2)",
        "assert f(1) == [*[2]]",
        "assert f(1) == 2 or True",
        "assert (f(1) == 2, 3)",
        "x = 2",
        "import os",
        "assert f(1) == g(1)",
        "assert f(1) == 1 + 1",
        "assert f(1) ==",
        "assert 1 == 1; assert 1 == 2",
        "",
    ],
)
def test_any_other_statement_is_refused(text: str) -> None:
    with pytest.raises(LiteralRefused):
        read_equated(text)


@each_case(
    ("first", "second"),
    [
        (True, 1),
        (1, 1.0),
        ([1], (1,)),
        ([[True]], [[1]]),
        ({1}, {True}),
        ({1: 2}, {True: 2}),
        ({"a": 1}, {"a": 1.0}),
        ({(1, 2)}, {(True, 2)}),
        (0, False),
        (0, None),
        ("1", 1),
        (b"1", "1"),
    ],
)
def test_values_of_other_types_differ_if_types_count(first: Any, second: Any) -> None:
    assert not equal_literals(first, second, exact_types=True)
    assert equal_literals(first, second, exact_types=False) == (first == second)


@each_case(
    ("first", "second"),
    [({"a": 1, "b": 2}, {"b": 2, "a": 1}), ({1, 2}, {2, 1}), (0.0, -0.0), ([], []), ({}, {})],
)
def test_equal_values_are_equal_whatever_their_order(first: Any, second: Any) -> None:
    assert equal_literals(first, second, exact_types=True)


@each_case(("first", "second"), [(7, 7 + 0j), ([7], [7 + 0j]), ({7: 1}, {7 + 0j: 1})])
def test_complex_numbers_equal_no_others(first: Any, second: Any) -> None:
    assert not equal_literals(first, second, exact_types=False)
    assert equal_literals(second, second, exact_types=False)
