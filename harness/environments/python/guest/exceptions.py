"""Exceptions across the boundary: their class, arguments, text, attributes and causes."""

from __future__ import annotations

import types

from . import display, encoding, values, weights
from .exception_classes import BUILTIN, LIBRARY, TEXT, build_class, derive, describe_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from .exception_classes import Known

MAX_TEXT = 10_000
# Longer arguments are omitted, because an exception's text is built even if nothing uses it.
MAX_ARGUMENTS = 100_000
MAX_ATTRIBUTES = 100
# The links to causes, contexts and members of groups from the exception that was raised.
MAX_LINKS = 5
MAX_MEMBERS = 100
# All exceptions of one description. Each takes about 50 microseconds to build.
MAX_EXCEPTIONS = 1000
# The attributes of built-in exceptions that their arguments do not determine.
BUILTIN_ATTRIBUTES: dict[type[BaseException], tuple[str, ...]] = {
    OSError: ("filename", "filename2"),
    ImportError: ("name", "path"),
    NameError: ("name",),
    AttributeError: ("name",),
}
# CPython makes the text of such an exception from the characters at two places in its arguments. It reads
# before the object if a place is negative.
_WITH_PLACES = (UnicodeDecodeError, UnicodeEncodeError, UnicodeTranslateError)
# The context of an exception is most often its cause.
SAME_AS_CAUSE = True


def describe(
    error: BaseException,
    number_of: Callable[[type], int | None] = lambda _kind: None,
    lent: Callable[[BaseException], int | None] = lambda _error: None,
    links: int = MAX_LINKS,
) -> object:
    """Return an exception as plain data.

    `number_of` returns the number of a class. `lent` returns the number of an exception that came from the
    other side, which is its whole description, or None.
    """
    number = lent(error)
    if number is not None:
        return number
    error.__traceback__ = None
    kind = type(error)
    cheap = _is_cheap(error.args)
    args = error.args[:1] if isinstance(error, BaseExceptionGroup) else error.args
    # Python's own text of an exception contains all of its arguments, however long that takes.
    text = text_of(error) if cheap or not _has_builtin_text(kind) else display.show(error)
    cause = context = None
    members: tuple[object, ...] | None = None
    if links:
        if error.__cause__ is not None:
            cause = describe(error.__cause__, number_of, lent, links - 1)
        if error.__context__ is not None:
            same = error.__context__ is error.__cause__
            context = SAME_AS_CAUSE if same else describe(error.__context__, number_of, lent, links - 1)
        if isinstance(error, BaseExceptionGroup):
            inner = error.exceptions[:MAX_MEMBERS]
            members = tuple(describe(each, number_of, lent, links - 1) for each in inner)
    plain_args = tuple(args) if cheap and _is_plain(args) else None
    described = describe_class(kind, number_of), plain_args, text, _attributes(error, kind)
    return *described, cause, context, error.__suppress_context__, members


def rebuild(
    value: Any,
    known: Known,
    lent: Mapping[int, BaseException] = types.MappingProxyType({}),
) -> BaseException:
    """Return the exception that `describe` described.

    `known` maps numbers to classes, and `lent` to exceptions of this side. Raises ValueRefused if `value` is
    not a description, and LimitReached if it holds too many exceptions or classes.
    """
    return _rebuild(value, known, lent, MAX_LINKS, iter(range(MAX_EXCEPTIONS)))


def _rebuild(
    value: Any, known: Known, lent: Mapping[int, BaseException], links: int, left: Iterator[int]
) -> BaseException:
    if type(value) is int and value in lent:
        return lent[value]
    if type(value) is not tuple or len(value) != 8 or links < 0:
        raise values.ValueRefused("an exception of a wrong shape")
    if next(left, None) is None:
        raise values.LimitReached(f"an exception that holds more than {MAX_EXCEPTIONS:,} others")
    described, args, text, attributes, cause, context, suppressed, members = value
    if type(text) is not str or type(attributes) is not dict or type(suppressed) is not bool:
        raise values.ValueRefused("an exception without its text and attributes")
    kind = build_class(described, known)
    given = args if type(args) is tuple and _is_safe(kind, args) else (text,)
    if type(members) is tuple and len(members) <= MAX_MEMBERS and issubclass(kind, BaseExceptionGroup):
        given = *given[:1], [_rebuild(each, known, lent, links - 1, left) for each in members]
    error = _make_with_text(kind, given, attributes, text, known)
    if cause is not None:
        error.__cause__ = _rebuild(cause, known, lent, links - 1, left)
    if context is not None:
        same = context is SAME_AS_CAUSE
        error.__context__ = error.__cause__ if same else _rebuild(context, known, lent, links - 1, left)
    error.__suppress_context__ = suppressed
    return error


def text_of(error: BaseException) -> str:
    try:
        return str(error)[:MAX_TEXT]
    except BaseException as second:
        return f"(its text raised {type(second).__name__})"


def _make_with_text(
    kind: type[BaseException], given: tuple[Any, ...], attributes: dict[Any, Any], text: str, known: Known
) -> BaseException:
    try:
        error = _make(kind, given, attributes)
        if text_of(error) == text:
            return error
        if BUILTIN.get(kind.__name__) is kind or kind.__module__ in LIBRARY:
            error = _make(derive(kind.__name__, (kind,), known), given, attributes)
        error.__dict__[TEXT] = text
    except values.LimitReached:
        raise
    except Exception:
        return Exception(f"{kind.__name__}: {text}")
    return error


def _is_safe(kind: type[BaseException], args: tuple[Any, ...]) -> bool:
    """Return whether a class of exceptions may get these arguments."""
    if issubclass(kind, _WITH_PLACES) and any(type(arg) is int and arg < 0 for arg in args):
        return False
    return _is_cheap(args, handles=False)


def _make(kind: type[BaseException], given: tuple[Any, ...], attributes: dict[Any, Any]) -> BaseException:
    init: Any = kind.__init__
    if isinstance(init, types.FunctionType) and init.__module__ in LIBRARY:
        # It takes other arguments than those that the exception keeps, and may compute with them.
        error = kind.__new__(kind, *given)
    else:
        error = _call(kind, given)
    if not attributes:
        return error
    own = [name for base, names in BUILTIN_ATTRIBUTES.items() if isinstance(error, base) for name in names]
    for name, content in attributes.items():
        if name in own:
            setattr(error, name, content)
        elif type(name) is str and name.isidentifier() and _is_cheap((content,), handles=False):
            error.__dict__[name] = content
    return error


def _call(kind: type[BaseException], given: tuple[Any, ...]) -> BaseException:
    try:
        return kind(*given)
    except Exception:
        return kind.__new__(kind, *given)


def _attributes(error: BaseException, kind: type[BaseException]) -> dict[str, object]:
    """Return the attributes that are plain data: of the instance, and of the program's own classes."""
    found: dict[str, object] = {}
    for base in reversed(kind.__mro__):
        for name in BUILTIN_ATTRIBUTES.get(base, ()):
            found[name] = getattr(error, name, None)
        if issubclass(base, BaseException) and BUILTIN.get(base.__name__) is not base:
            found.update({name: value for name, value in vars(base).items() if not name.startswith("__")})
    found.update(vars(error))
    plain: dict[str, object] = {}
    for name, value in list(found.items())[:MAX_ATTRIBUTES]:
        try:
            value = value.__get__(error, kind) if type(value) is property else value
        except Exception:
            continue
        if _is_cheap((value,)) and _is_plain(value):
            plain[name] = value
    return plain


def _has_builtin_text(kind: type[BaseException]) -> bool:
    return any(kind.__str__ is each.__str__ for each in BUILTIN.values())


def _is_cheap(args: tuple[object, ...], *, handles: bool = True) -> bool:
    try:
        weights.check_weight(args, MAX_ARGUMENTS, handles=handles)
    except values.LimitReached:
        return False
    return True


def _is_plain(value: object) -> bool:
    try:
        encoding.Encoder(_refuse).encode(value)
    except Exception:
        return False
    return True


def _refuse(value: object) -> tuple[int, int, object]:
    raise values.ValueRefused(f"{type(value).__name__} is not plain data")
