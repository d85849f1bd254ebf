"""Hostile descriptions of exceptions cost little, read nothing, and run nothing."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from case_checks import each_case

from harness.environments.python.guest import decoding, encoding, exceptions, plain, values


def described(
    *classes: object, args: object = (), text: str = "", cause: object = None, members: object = None
) -> tuple[object, ...]:
    return classes, args, text, {}, cause, None, False, members


@each_case(
    ("name", "args"),
    [
        ("UnicodeDecodeError", ("utf-8", b"abc", -64, -63, "")),
        ("UnicodeEncodeError", ("utf-8", "abc", -64, -63, "")),
        ("UnicodeTranslateError", ("abc", -64, -63, "")),
    ],
)
@each_case("own", [(), (("Own", (0,), 1, None),)], ids=["built in", "derived"])
def test_no_place_before_the_text_of_a_unicode_error_is_read(
    name: str, args: tuple[object, ...], own: tuple[object, ...]
) -> None:
    error = exceptions.rebuild(described(name, *own, args=args, text="its text"), {})
    assert error.args == ("its text",)
    assert str(error) == "its text"


def test_a_unicode_error_whose_places_lie_behind_its_bytes_keeps_its_arguments() -> None:
    own = UnicodeDecodeError("utf-8", b"", 0, 1, "bad")
    error = exceptions.rebuild(exceptions.describe(own), {})
    assert (type(error), error.args, str(error)) == (UnicodeDecodeError, own.args, str(own))


def test_all_classes_of_a_program_together_are_limited() -> None:
    known: Any = {}
    for number in range(exceptions.MAX_KNOWN):
        exceptions.build_class(("Exception", ("Own", (0,), number, None)), known)
    with pytest.raises(values.LimitReached, match="classes of exceptions"):
        exceptions.build_class(("Exception", ("Own", (0,), 1 << 20, None)), known)
    assert len(known) == exceptions.MAX_KNOWN


def test_the_ancestors_of_a_class_are_limited_over_all_messages() -> None:
    known: Any = {}
    chain = [("Own", (place,), place, None) for place in range(60)]
    exceptions.build_class(("Exception", *chain), known)
    last = ("Own", (0,), 59, None)
    longer = [("Own", (place + 1,), 60 + place, None) for place in range(60)]
    with pytest.raises(values.LimitReached, match="ancestors"):
        exceptions.build_class(("Exception", last, *longer), known)


@each_case("number", [-1, 1 << 32, 1 << 4000])
def test_a_class_has_the_number_of_an_object(number: int) -> None:
    with pytest.raises(plain.ValueRefused, match="number"):
        exceptions.build_class(("Exception", ("Own", (0,), number, None)), {})


@each_case("classes", [("ValueError",), ("Exception", ("Own", (0,), None, None))])
def test_a_class_is_made_once_for_all_exceptions_with_other_texts(classes: tuple[object, ...]) -> None:
    known: Any = {}
    errors = [exceptions.rebuild(described(*classes, text=text), known) for text in ("a", "b")]
    assert list(map(str, errors)) == ["a", "b"]
    assert type(errors[0]) is type(errors[1])
    assert len(known) == 1


def test_the_exceptions_in_one_description_are_limited() -> None:
    group = described("ExceptionGroup", args=("",), members=(described("ValueError"),) * 100)
    with pytest.raises(values.LimitReached, match="holds more than"):
        exceptions.rebuild(described("ExceptionGroup", args=("",), members=(group,) * 100), {})


def test_a_group_within_the_limit_arrives_whole() -> None:
    group = ExceptionGroup("several", [ValueError(number) for number in range(100)])
    error = exceptions.rebuild(exceptions.describe(group), {})
    assert isinstance(error, ExceptionGroup)
    assert [each.args for each in error.exceptions] == [each.args for each in group.exceptions]


def test_what_a_slice_holds_counts() -> None:
    value: Any = []
    for _ in range(40):
        value = [slice(value, value, value)]
    with pytest.raises(values.LimitReached):
        values.check_weight(value)
    data = encoding.Encoder(lambda _value: (values.OPAQUE, 0, None)).encode(value)
    with pytest.raises(values.LimitReached):
        decoding.Decoder(lambda _kind, _number, _description: None).decode(data)


class Shown:
    """An object of the program, whose text the program makes."""

    def __call__(self) -> None: ...

    def __repr__(self) -> str:
        raise AssertionError("it was asked for its text")


@each_case("holder", [defaultdict(Shown()), slice(Shown()), [slice(None, Shown())]])
def test_no_argument_of_an_exception_holds_an_object_of_the_program(holder: object) -> None:
    error = exceptions.rebuild(described("ValueError", args=(holder,), text="its text"), {})
    assert error.args == ("its text",)


def test_a_default_factory_that_is_a_type_is_plain_data() -> None:
    values.check_weight(defaultdict(list), handles=False)
