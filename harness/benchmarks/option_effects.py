"""The effects of a benchmark's options outside of sandboxes, which need the user's consent.

An option whose values are free text declares its effect in its annotation, as an `OptionEffect` or as
`NO_EFFECT`. An option that declares neither counts as one with an effect.
"""

from __future__ import annotations

import datetime
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from harness.benchmarks.options import Options

# A value of these types chooses among things that the benchmark knows. It cannot name a server or a file.
_CLOSED = (bool, int, float, datetime.date, Enum, type(None))
_COLLECTIONS = (list, tuple, set, frozenset)


@dataclass(frozen=True, slots=True)
class OptionEffect:
    """The effect of an option outside of sandboxes."""

    action: str
    """The effect as a clause before the value: `send requests to`."""


NO_EFFECT: Final = OptionEffect("")
"""Declares that no value of the option has an effect outside of sandboxes."""


def list_option_effects(
    model: type[Options] | None, values: Mapping[str, Any], prefix: str = ""
) -> Iterator[str]:
    """Yield the effects of options outside of sandboxes, each with the name and the value of its option.

    Args:
        model: the model of the options, None for a benchmark that checks them itself.
        values: the values by the names of the options. They need not be valid.
        prefix: the part of the names before these, such as `kg.`.
    """
    for key, value in values.items():
        name = f"{prefix}{key}"
        field = None if model is None else model.model_fields.get(key)
        inner = None if field is None else field.annotation
        if field is not None and value == field.default:
            continue
        group = _find_group(model, key)
        if group is not None and isinstance(value, Mapping):
            yield from list_option_effects(group, value, f"{name}.")
            continue
        declared = None if field is None else _find_declared(field.metadata)
        if declared is None and not _is_closed(inner):
            declared = OptionEffect("use the value")
        if declared is not None and declared.action:
            yield f"{declared.action} {value}, as option {name} says"


def drop_option_effects(model: type[Options] | None, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that have no effect outside of sandboxes.

    The definition for these can be made without consent, while that for all may read a file or ask a server.
    """
    kept: dict[str, Any] = {}
    for key, value in values.items():
        if not any(list_option_effects(model, {key: value})):
            kept[key] = value
        elif isinstance(value, Mapping) and (inner := _find_group(model, key)) is not None:
            kept[key] = drop_option_effects(inner, value)
    return kept


def _find_group(model: type[Options] | None, key: str) -> type[Options] | None:
    """Return the model of a group of options, None for a single option."""
    field = None if model is None else model.model_fields.get(key)
    inner = None if field is None else field.annotation
    return inner if isinstance(inner, type) and issubclass(inner, Options) else None


def _find_declared(metadata: list[Any]) -> OptionEffect | None:
    return next((each for each in metadata if isinstance(each, OptionEffect)), None)


def _is_closed(annotation: Any) -> bool:
    """Return whether a type has no value that could name a server or a file."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return True
    if origin is Annotated:
        return _is_closed(arguments[0])
    if origin in (Union, types.UnionType, *_COLLECTIONS):
        return all(_is_closed(each) for each in arguments if each is not Ellipsis)
    return isinstance(annotation, type) and issubclass(annotation, _CLOSED)
