"""An object of another class crosses as plain data with a mark, and gets a class of ours there."""

# mypy: disable-error-code="comparison-overlap"

from __future__ import annotations

import json
import struct
from collections import UserDict, UserList, UserString, defaultdict, deque
from typing import Any, cast

import pytest
from case_checks import each_case

from harness.environments.python.guest import call_tests, changes, conversation, evidence, plain, values
from harness.environments.python.guest.assert_calls import Driver, Left
from harness.environments.python.guest.decoding import Decoder
from harness.environments.python.guest.encoding import Encoder
from harness.environments.python.guest.peer import Candidate, CandidateLost
from harness.environments.python.guest.plain import (
    LOOKALIKE,
    SUBCLASS,
    Lookalike,
    ValueRefused,
    base_of,
    convert,
)
from harness.environments.python.guest.values import LimitReached


class List(list[Any]): ...


class Int(int): ...


class Queue(deque[Any]): ...


def refuse(value: object) -> tuple[int, int, object]:
    raise ValueRefused(f"{type(value).__name__} is not plain data")


def no_handle(_kind: int, _number: int, _description: object) -> object:
    return object()


def encoded(value: object, *, marks: bool = True) -> bytes:
    return Encoder(refuse, marks=marks).encode(value)


def crossed(value: object) -> Any:
    return Decoder(no_handle).decode(encoded(value))


@each_case(
    "value",
    [Int(5), List([1]), List(range(99)), Queue([1], 3), UserList([1]), UserString("ab"), UserDict(a=1)],
    ids=lambda value: type(value).__name__,
)
def test_the_result_of_a_program_goes_back_to_it_as_plain_data(value: object) -> None:
    got = crossed(value)
    assert issubclass(type(got), plain.Converted)
    assert got == value
    back = Decoder(no_handle).decode(encoded(got, marks=False))
    assert type(back) is base_of(type(got))
    assert back == value


def test_plain_data_carries_no_mark() -> None:
    value = [1, "a", (2.5, None), {"k": {3}}, [True] * 20, defaultdict(None, a=1), deque([1])]
    assert encoded(value) == encoded(value, marks=False)


def test_aliases_and_cycles_of_marked_containers_survive() -> None:
    inner, users = List([1]), UserList[Any]([1])
    inner.append(inner)
    users.append(users)
    first, second, (third,), fourth, fifth = crossed([inner, inner, (inner,), users, users])
    assert first is second is third is first[1]
    assert fourth is fifth is fourth[1]


def test_changes_reach_the_container_in_a_lookalike() -> None:
    encoder = Encoder(refuse, marks=True)
    data = encoder.encode((UserList([1]), List([1])))
    decoder = Decoder(no_handle)
    looks, sub = decoder.decode(data)
    for container in decoder.containers:
        changes.restore(container, (1, 2))
    assert looks == [1, 2] == sub
    assert changes.snapshot(decoder.containers) == ((1, 2), (1, 2))


@each_case(
    "data",
    [
        pytest.param(b"x", id="nothing behind it"),
        pytest.param(b"x?" + encoded(1), id="unknown relation"),
        pytest.param(b"xsT", id="subclass of bool"),
        pytest.param(b"xsN", id="subclass of None"),
        pytest.param(b"xlE", id="lookalike of an ellipsis"),
        pytest.param(b"xlxl" + encoded(1), id="mark on a mark"),
        pytest.param(b"xl" * 5000 + encoded(1), id="many marks"),
        pytest.param(b"xlH" + struct.pack(">BI", 2, 0), id="lookalike of a handle"),
        pytest.param(b"xs" + encoded(range(3)), id="subclass of range"),
        pytest.param(b"xsr\0\0\0\0", id="subclass of a reference to nothing"),
        pytest.param(b"xlr\0\0\0\0", id="lookalike of a reference to nothing"),
        pytest.param(b"t\0\0\0\2" + encoded([]) + b"xsr\0\0\0\0", id="subclass of an earlier container"),
        pytest.param(b"R" + b"xs" + encoded(1) + encoded(2) + encoded(3), id="range of a subclass"),
        pytest.param(b"S\0\0\0\1xl" + encoded([]), id="lookalike of a list as an element"),
    ],
)
def test_malformed_marks_are_refused(data: bytes) -> None:
    with pytest.raises(ValueRefused):
        Decoder(no_handle).decode(data)


def test_shared_containers_in_lookalikes_are_weighed() -> None:
    value: Any = [1]
    for _ in range(60):
        value = convert(LOOKALIKE, [value, value])
    with pytest.raises(LimitReached):
        values.check_weight(value)
    with pytest.raises(LimitReached):
        Decoder(no_handle).decode(encoded(value))


def test_deep_lookalikes_compare_like_any_deep_value() -> None:
    nested = [Decoder(no_handle).decode(b"xll\0\0\0\1" * 20_000 + encoded(1)) for _ in range(2)]
    with pytest.raises(RecursionError):
        assert nested[0] == nested[1]


def test_a_lookalike_shows_as_its_data() -> None:
    values = [
        convert(LOOKALIKE, {"a": 1}),
        convert(SUBCLASS, 5),
        convert(SUBCLASS, (1,)),
        convert(LOOKALIKE, "x"),
    ]
    assert evidence.show(values) == "[{'a': 1}, 5, (1,), 'x']"


@each_case("mark", [SUBCLASS, LOOKALIKE])
@each_case("lazy", [False, True])
def test_no_class_of_a_result_switches_the_deferral_off(mark: bytes, lazy: bool) -> None:
    class Peer:
        has_lazy_objects = lazy

    apply = Driver(cast("Candidate", Peer())).apply
    number, items = convert(mark, 5), convert(mark, [2, 1])
    given: list[Any] = [number] if lazy else [number, items]
    assert all(type(apply(function, value)) is Left for function in (isinstance, str) for value in given)
    if not lazy:
        assert type(apply(items.count, 2)) is Left
        later = apply(sorted, items)
        items.append(0)
        assert later.do() == [1, 2]
        assert type(apply(type(items), [1])) is Left
        assert apply(items.append, 3) is None


@each_case(
    "result",
    [
        convert(SUBCLASS, (1, 2)),
        convert(LOOKALIKE, [1, 2]),
        [convert(LOOKALIKE, 1), convert(SUBCLASS, 2)],
        convert(SUBCLASS, [1, convert(LOOKALIKE, 2)]),
    ],
)
def test_a_function_call_is_judged_by_the_data(result: object) -> None:
    assert call_tests._Test([], json.dumps([1, 2]).encode()).difference(result) is None


def test_an_exception_with_marks_breaks_the_protocol() -> None:
    description: Any = (("ValueError",), (Int(-1),), "x", {}, None, None, False, None)

    class Link:
        def send(self, *_message: object) -> Any:
            return type("Turn", (), {"lent_as": (), "number": 0})

        def receive(self) -> tuple[bytes, bytes]:
            return conversation.RAISED, encoded(description)

    candidate = Candidate(cast("Any", Link()), {})
    with pytest.raises(CandidateLost):
        candidate.load("")
    assert "other classes" in (candidate.breach or "")


def test_a_lookalike_is_not_an_instance_of_its_datas_class() -> None:
    for data in (True, 5, 2.5, 1j, "a", b"a", [1], {"a": 1}, frozenset({1})):
        value = convert(LOOKALIKE, data)
        assert not isinstance(value, base_of(type(value)))
        assert isinstance(value, Lookalike)
        assert value == data
        assert data == value
        assert bool(value) is bool(data)
        assert repr(value) == repr(data)
