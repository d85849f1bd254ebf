"""Objects become plain data exactly if Python finds them equal to it."""

from __future__ import annotations

import types
from array import array
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, UserString, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence, Set
from decimal import Decimal
from fractions import Fraction
from typing import Any

from case_checks import each_case

from harness.environments.python.guest import peer, plain


class Table(Mapping[int, int]):
    def __getitem__(self, key: int) -> int:
        return key * 2

    def __iter__(self) -> Iterator[int]:
        return iter((1, 2))

    def __len__(self) -> int:
        return 2


class Low(Set[int]):
    def __contains__(self, item: object) -> bool:
        return item in (1, 2)

    def __iter__(self) -> Iterator[int]:
        return iter((1, 2))

    def __len__(self) -> int:
        return 2


class Row(Sequence[int]):
    def __getitem__(self, place: Any) -> Any:
        return (1, 2)[place]

    def __len__(self) -> int:
        return 2


class Strict(tuple[int, ...]):
    """Equal to nothing but its own kind."""

    def __eq__(self, other: object) -> bool:
        return type(other) is Strict and tuple(self) == tuple(other)

    __hash__ = tuple.__hash__


class Folded(str):
    """Equal to text in any case."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.casefold() == other.casefold()

    __hash__ = None  # type: ignore[assignment]


class Unequal(dict[str, int]):
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")


class NotANumber(float):
    def __eq__(self, other: object) -> bool:
        return False


def subclass(kind: type) -> Any:
    return type(f"Own{kind.__name__}", (kind,), {})


@each_case(
    "value",
    [
        *(UserList([1, [2]]), UserString("a"), UserDict(a=1), subclass(UserDict)(a=1)),
        *(ChainMap({"a": 1}, {"a": 2, "b": 3}), types.MappingProxyType({"a": 1})),
        *(Table(), Low(), Folded("Ab")),
        *(subclass(Decimal)("1.10"), subclass(Fraction)(1, 3), subclass(deque)([1, 2], 3)),
        *(subclass(Counter)("aab"), subclass(OrderedDict)(b=1, a=2), subclass(defaultdict)(list, a=1)),
        *(subclass(array)("d", [1.5]), subclass(list)([1])),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_object_that_equals_plain_data_has_that_data_inside(value: Any) -> None:
    data = plain.inside(value, type(value))
    assert data is not None
    assert type(data) is not type(value)
    assert type(data).__module__ in ("builtins", "collections", "decimal", "fractions", "array")
    assert value == data
    assert data == value


@each_case(
    "value",
    [Row(), Strict((1,)), Unequal(a=1), object(), types.SimpleNamespace(a=1), {1: 2}.__iter__()],
    ids=lambda value: type(value).__name__,
)
def test_an_object_that_equals_no_plain_data_has_none_inside(value: Any) -> None:
    assert plain.inside(value, type(value)) is None


def test_not_a_number_is_one_inside_too() -> None:
    data = plain.inside(NotANumber("nan"), NotANumber)
    assert type(data) is float
    assert data != data


def test_the_list_inside_is_the_one_that_the_object_changes() -> None:
    value = UserList([1])
    assert plain.inside(value, UserList) is value.data


class CallableTable(dict[str, int]):
    def __call__(self) -> int:
        return 7


def test_a_callable_that_would_cross_as_data_crosses_as_its_method() -> None:
    assert plain.as_function(CallableTable())() == 7
    assert type(plain.as_function(CallableTable())) is types.MethodType


@each_case("value", [len, int, lambda: 1, None, "".join, Row])
def test_any_other_callable_crosses_as_itself(value: Any) -> None:
    assert plain.as_function(value) is value


def test_an_object_of_an_opaque_class_has_no_data_inside() -> None:
    objects: list[Any] = [test_any_other_callable_crosses_as_itself, len, type]
    # The stand-ins are examined by their classes alone, because an object of one asks the program.
    stand_ins = [object.__new__(kind) for kind in peer.OPAQUE - plain.OPAQUE]
    assert {type(value) for value in objects} == plain.OPAQUE
    assert [plain.inside(value, type(value)) for value in (*objects, *stand_ins)] == [None] * (
        len(objects) + len(stand_ins)
    )
