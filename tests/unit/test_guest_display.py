"""Evidence shows any value with little work, whatever it holds and whatever its class does."""

# mypy: disable-error-code="misc, override"
# Objects that raise when they are inspected break the rules of their base classes on purpose.

from __future__ import annotations

import datetime
import sys
from array import array
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

from case_checks import each_case
from hypothesis import given
from hypothesis import strategies as st

from harness.environments.python.guest.evidence import MAX_TEXT, show
from harness.environments.python.guest.peer import Candidate
from harness.environments.python.guest.remote import RemoteInstance

Point = namedtuple("Point", ["x", "y"])
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**60), 10**60) | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


def shared(levels: int) -> list[Any]:
    nest: list[Any] = [1]
    for _ in range(levels):
        nest = [nest, nest]
    return nest


def deep(levels: int) -> list[Any]:
    nest: list[Any] = []
    for _ in range(levels):
        nest = [nest]
    return nest


CIRCULAR: list[Any] = [1]
CIRCULAR.append(CIRCULAR)


@given(PLAIN)
def test_plain_data_is_shown_as_python_shows_it(value: Any) -> None:
    assert show(value, 100_000) == repr(value)


@each_case(
    "value",
    [
        *(..., b"a\x00'\"", bytearray(b"a"), set(), {1}, frozenset(), frozenset({2})),
        *((), (1,), int, CIRCULAR),
        *({"a": 1}.keys(), {"a": 1}.values(), {"a": 1}.items(), deque([1, 2]), array("i", [1, 2])),
        *(Fraction(1, 3), Decimal("1.50"), Decimal("-Infinity"), datetime.date(2020, 1, 2)),
        datetime.datetime(2020, 1, 2, 3, tzinfo=datetime.timezone.utc),  # noqa: UP017 - 3.9's way
        datetime.timedelta(1, 2),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_values_of_the_standard_library_are_shown_as_python_shows_them(value: object) -> None:
    assert show(value) == repr(value)


@each_case(
    ("value", "text"),
    [
        (Counter("aab"), "Counter({'a': 2, 'b': 1})"),
        (OrderedDict(a=1), "OrderedDict({'a': 1})"),
        (defaultdict(int, a=1), "defaultdict({'a': 1})"),
        (range(3), "range(0, 3)"),
        (Point(1, 2), "Point(1, 2)"),
        (len, "<function len>"),
        (ValueError("no", 2), "ValueError('no', 2)"),
        (object(), "<object object>"),
        (Decimal("sNaN"), "Decimal('NaN')"),
        (10**1000, "<an integer of about 1,001 digits>"),
        (-(10**1000), "<a negative integer of about 1,001 digits>"),
        (Decimal("1." + "3" * 200), f"Decimal('1.{'3' * 99}...')"),
    ],
    ids=lambda value: str(type(value).__name__),
)
def test_other_values_have_a_neutral_text(value: object, text: str) -> None:
    assert show(value) == text


class Hostile:
    def __repr__(self) -> str:
        raise AssertionError("the repr of an object was called")

    __str__ = __format__ = __iter__ = __len__ = __getitem__ = __hash__ = __repr__  # type: ignore[assignment]

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"the attribute {name} of an object was read")


class HostileType(type):
    @property
    def __name__(cls) -> str:
        raise AssertionError("the name of a class was read")

    def __repr__(cls) -> str:
        raise AssertionError("the repr of a class was called")


def hostile(kind: type, *arguments: Any) -> Any:
    """Return an object of a hostile subclass of a type."""
    return type(f"Hostile{kind.__name__.title()}", (Hostile, kind), {})(*arguments)


@each_case(
    ("make", "text"),
    [
        (Hostile, "<Hostile object>"),
        (lambda: hostile(list, [1]), "HostileList(1)"),
        (lambda: hostile(tuple, (1,)), "HostileTuple(1)"),
        (lambda: hostile(dict, {1: 2}), "HostileDict({1: 2})"),
        (lambda: hostile(int, 3), "<HostileInt object>"),
        (lambda: hostile(Exception, "x"), "HostileException('x')"),
        (lambda: HostileType("Sly", (), {}), "<class 'Sly'>"),
        (lambda: HostileType("Sly", (), {})(), "<Sly object>"),
    ],
)
def test_no_method_of_an_objects_class_is_called(make: Any, text: str) -> None:
    assert show([make()]) == f"[{text}]"


@each_case(
    "value",
    [
        *(shared(30), deep(100_000), [0] * 10**5, 1 << 3_300_000),
        *("x" * 10**6, "\x00" * 10**6, b"\x00" * 10**6),
        *(Decimal("2." + "0" * 10**6), Decimal("1E+999999999"), Fraction(10 ** (10**5), 3)),
        *({"k": shared(30), "l": [shared(30)]}, dict.fromkeys(range(10**5)), [Exception(shared(30))]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_costly_value_is_shown_in_a_bounded_text_and_few_steps(value: object) -> None:
    steps = 0

    def count(_frame: object, _event: str, _argument: object) -> None:
        nonlocal steps
        steps += 1

    sys.setprofile(count)
    try:
        text = show(value)
    finally:
        sys.setprofile(None)
    assert len(text) <= MAX_TEXT
    assert steps < 5_000


def test_text_that_is_left_out_is_marked() -> None:
    assert show([1, 2, 3], 11) == "[1, 2, 3]"[:7] + " ..."


def test_an_object_of_the_program_is_shown_without_calling_the_program() -> None:
    nobody = Candidate(cast(Any, None), {"Point": ["__repr__", "__str__"]})
    assert show(RemoteInstance(nobody, 7)) == "<an object of the program's, number 7>"
