"""Exceptions across the boundary, as their nearest built-in type with their own name."""

from __future__ import annotations

import builtins

from . import display, encoding, values, weights

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MAX_TEXT = 10_000
MAX_NAME = 200
# Longer arguments are omitted, because an exception's text is built even if nothing uses it.
MAX_ARGUMENTS = 100_000
BUILTIN: dict[str, type[BaseException]] = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, BaseException)
}


def base_of(kind: type[BaseException]) -> str:
    """Return the name of the nearest built-in base of an exception class."""
    return next(base.__name__ for base in kind.__mro__ if BUILTIN.get(base.__name__) is base)


def describe(error: BaseException, number: int | None = None) -> tuple[object, ...]:
    """Return an exception as plain data: base, own name, plain arguments or None, text, class number."""
    error.__traceback__ = None
    kind = type(error)
    cheap = _is_cheap(error.args)
    try:
        args: tuple[object, ...] | None = tuple(error.args) if cheap else None
        encoding.Encoder(_refuse).encode(args)
    except Exception:
        args = None
    base = base_of(kind)
    # Python's own text of an exception contains all of its arguments, however long that takes.
    text = text_of(error) if cheap or kind.__str__ is not BUILTIN[base].__str__ else display.show(error)
    return base, kind.__name__[:MAX_NAME], args, text, number


def rebuild(value: Any, known: Mapping[int, type[BaseException]]) -> BaseException:
    """Return the exception that `describe` described. `known` maps numbers to classes.

    Raises ValueRefused if `value` is not a description.
    """
    if type(value) is not tuple or len(value) != 5:
        raise values.ValueRefused("an exception of a wrong shape")
    base, own_name, args, text, number = value
    if type(base) is not str or type(own_name) is not str or type(text) is not str:
        raise values.ValueRefused("an exception without a name")
    kind = known.get(number) if type(number) is int else None
    kind = derive_class(kind or find_builtin(base), own_name)
    given = args if type(args) is tuple and _is_cheap(args, handles=False) else (text,)
    try:
        error = kind(*given)
        if text_of(error) != text:
            error = type(kind.__name__, (kind,), {"__str__": lambda _: text})(*given)
        return error
    except Exception:
        return Exception(f"{own_name}: {text}")


def is_own(kind: type) -> bool:
    """Return whether a class is an exception class that is not built in."""
    return issubclass(kind, BaseException) and BUILTIN.get(kind.__name__) is not kind


def find_builtin(base: str) -> type[BaseException]:
    """Return the built-in exception of that name, or Exception."""
    return BUILTIN.get(base, Exception)


def derive_class(kind: type[BaseException], own_name: str) -> type[BaseException]:
    """Return `kind` if it has that name, or a new class of that name below it."""
    if own_name == kind.__name__ or not own_name.isidentifier():
        return kind
    return type(own_name, (kind,), {})


def _is_cheap(args: tuple[object, ...], *, handles: bool = True) -> bool:
    try:
        weights.check_weight(args, MAX_ARGUMENTS, handles=handles)
    except values.LimitReached:
        return False
    return True


def text_of(error: BaseException) -> str:
    try:
        return str(error)[:MAX_TEXT]
    except BaseException as second:
        return f"(its text raised {type(second).__name__})"


def _refuse(value: object) -> tuple[int, int, object]:
    raise values.ValueRefused(f"{type(value).__name__} is not plain data")
