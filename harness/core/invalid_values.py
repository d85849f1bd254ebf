"""Describe values that violate a requirement, in words of our own and without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.core.secret_forms import hide_url_secrets, names_secret

if TYPE_CHECKING:
    from pydantic import ValidationError

# A message quotes at most this many characters of a value that somebody else wrote.
QUOTED_CHARACTERS = 200
# The problems of one value that pydantic lists within a few hundredths of a second.
_MOST_LISTED = 5000
# Our own wording, because pydantic's messages name types and functions of Python.
_REQUIREMENTS = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "finite_number": "must be a finite number",
    "literal_error": "must be {expected}",
    "string_too_short": "must not be empty",
    "string_pattern_mismatch": "must match {pattern}",
    "value_error": "{error}",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(("list_type", "tuple_type"), "must be a list, such as [a, b]"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "must be keys and values"),
    "string_type": "must be text",
    "too_short": "has too few entries, and needs at least {min_length}",
    "too_long": "has too many entries, and may have at most {max_length}",
    "union_tag_invalid": "needs {expected_tags} as {discriminator}",
    "union_tag_not_found": "lacks {discriminator}",
    "extra_forbidden": "is not a known field",
    "missing": "is missing",
}
# The value says nothing more, or is not the fault.
_WITHOUT_VALUE = frozenset(
    (
        *("missing", "value_error", "string_too_short", "extra_forbidden", "too_short", "too_long"),
        *("union_tag_invalid", "union_tag_not_found"),
    )
)


def describe_requirement(error: Mapping[str, Any]) -> str:
    """Return the requirement that a value violates, and the value: `must be at least 1, not 0`.

    `error` is one of pydantic's `ValidationError.errors()`.
    """
    pattern = _REQUIREMENTS.get(error["type"])
    limits = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in error.get("ctx", {}).items()
    }
    text = error["msg"] if pattern is None else pattern.format(**limits)
    try:
        if error["type"] in _WITHOUT_VALUE or _may_be_secret(error):
            return text
        return f"{text}, not {quote_value(error['input'])}"
    except ValueError:  # Python writes no integer of more than 4,300 digits.
        return f"{text}, not a value with an integer of thousands of digits"


def _may_be_secret(error: Mapping[str, Any]) -> bool:
    """Return whether a value must not be quoted, by its name or those in it."""
    names = [str(part) for part in error.get("loc", ())]
    if any(names_secret(name) or name in ("env", "headers") for name in names):
        return True
    # A group of settings may hold one whose name says so.
    return isinstance(error["input"], dict | list | tuple) and names_secret(str(error["input"]))


def quote_value(value: Any) -> str:
    """Return a value as JSON without the secrets of URLs, or the start and the length of a long one."""
    import json  # here, because `harness --help` loads this file and needs no JSON

    text = hide_url_secrets(json.dumps(value, ensure_ascii=False, default=str))
    if len(text) <= QUOTED_CHARACTERS:
        return text
    return f"{text[:QUOTED_CHARACTERS]}... ({len(text):,} characters in all)"


def describe_first_error(error: ValidationError, values: object = None) -> str:
    """Return the first requirement that the validated data violate, with its place, in one line.

    An unknown field comes first, together with a missing one, because that may be its right name. With
    `values`, the data themselves, the place has only their keys. Without them it also has the kinds by which
    pydantic has chosen a model. It names none of very many problems, because pydantic can only list all of
    them, which would take seconds.
    """
    if error.error_count() > _MOST_LISTED:
        return f"{error.error_count():,} values do not fit, too many to name one"
    problems = [{**each, "loc": _drop_kinds(each["loc"], values)} for each in error.errors()]
    first = next((each for each in problems if each["type"] == "extra_forbidden"), None)
    if first is None:
        return _describe_problem(problems[0])
    missing = [_describe_problem(each) for each in problems if each["type"] == "missing"]
    return ", and ".join([_describe_problem(first), *missing[:1]])


def _drop_kinds(place: tuple[int | str, ...], values: object) -> tuple[int | str, ...]:
    """Return a place without the parts that are not keys of the data. The last part may be missing there."""
    kept: list[int | str] = []
    for number, part in enumerate(place):
        if isinstance(values, Mapping):
            if part not in values and number + 1 < len(place):
                continue
            values = values.get(part)
        elif isinstance(values, list) and isinstance(part, int) and part < len(values):
            values = values[part]
        kept.append(part)
    return tuple(kept)


def _describe_problem(problem: Mapping[str, Any]) -> str:
    place = ".".join(map(str, problem["loc"]))
    return f"'{place}' {describe_requirement(problem)}" if place else describe_requirement(problem)
