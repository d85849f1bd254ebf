"""Exception classes across the boundary: each with its bases, down to those that both sides have."""

from __future__ import annotations

import builtins
import sys
import types

from . import encoding, evidence, plain, values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Known = dict[object, type[BaseException]]
    from collections.abc import Iterator, Mapping

MAX_CLASSES = 100
MAX_NAME = 200
# Every class stays in memory until its process ends, and takes longer to make the more ancestors it has.
MAX_KNOWN = 1000
MAX_ANCESTORS = 100
MAX_NUMBER = (1 << 32) - 1
BUILTIN: dict[str, type[BaseException]] = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, BaseException)
}
# Modules of the standard library whose exceptions report what went wrong and do nothing else. Unlike these,
# `unittest.SkipTest` would end a test without a failure.
LIBRARY = frozenset(
    (
        *("_csv", "_pickle", "_queue", "queue", "binascii", "calendar", "configparser", "copy"),
        *("dataclasses", "decimal", "graphlib", "ipaddress", "json.decoder", "re", "sqlite3", "statistics"),
        *("struct", "zlib", "subprocess", "tomllib", "xml.etree.ElementTree", "xml.parsers.expat"),
        *("zoneinfo._common", "asyncio.exceptions", "asyncio.queues", "concurrent.futures._base"),
    )
)
# The key of an instance's own text in its dictionary. No attribute of a program has this name.
TEXT = "@text"


def describe_class(kind: type[BaseException], number_of: Callable[[type], int | None]) -> tuple[object, ...]:
    """Return an exception class as plain data: its own bases, each after its own bases, and itself last.

    A built-in class is its name. Any other is its name, the places of its bases in the tuple, its number by
    `number_of`, and its module if both sides may have it.
    """
    if BUILTIN.get(kind.__name__) is kind:
        return (kind.__name__,)
    entries: list[object] = []
    places: dict[type, int] = {}

    def place_of(each: type) -> int:
        if each not in places:
            name, module = each.__name__, each.__module__
            entry: object = name
            if BUILTIN.get(name) is not each:
                bases = tuple(place_of(base) for base in each.__bases__ if issubclass(base, BaseException))
                entry = name[:MAX_NAME], bases, number_of(each), module if module in LIBRARY else None
            places[each] = len(entries)
            entries.append(entry)
        return places[each]

    place_of(kind)
    return tuple(entries)


def build_class(description: Any, known: Known) -> type[BaseException]:
    """Return the class that `describe_class` described.

    `known` holds the classes by their numbers, or by their name and bases if they have no number. It gets the
    new ones. Raises ValueRefused if `description` is none, and LimitReached for too many classes.
    """
    if type(description) is not tuple or not 0 < len(description) <= MAX_CLASSES:
        raise plain.ValueRefused("an exception class without its bases")
    built: list[type[BaseException]] = []
    for entry in description:
        built.append(BUILTIN.get(entry, Exception) if type(entry) is str else _build(entry, built, known))
    return built[-1]


def _build(entry: Any, built: list[type[BaseException]], known: Known) -> type[BaseException]:
    if type(entry) is not tuple or len(entry) != 4:
        raise plain.ValueRefused("an exception class of a wrong shape")
    name, places, number, module = entry
    if type(name) is not str or type(places) is not tuple or type(number) not in (int, type(None)):
        raise plain.ValueRefused("an exception class without its name, bases and number")
    if number is not None and not 0 <= number <= MAX_NUMBER:
        raise plain.ValueRefused("an exception class with a number that no object has")
    if not places or any(type(place) is not int or not 0 <= place < len(built) for place in places):
        raise plain.ValueRefused("an exception class without its bases")
    kind = _find_in_library(module, name) if type(module) is str else None
    kind = kind or known.get(number)
    if kind is None:
        bases = tuple(built[place] for place in places)
        kind = derive(name[:MAX_NAME], bases, known, number)
    if number is not None:
        known.setdefault(number, kind)
    return kind


def _find_in_library(module: str, name: str) -> type[BaseException] | None:
    """Return a class that is loaded here too. Tests that name one have imported its module."""
    found = getattr(sys.modules.get(module), name, None) if module in LIBRARY else None
    is_exception = isinstance(found, type) and issubclass(found, BaseException)
    return found if is_exception and found.__module__ == module else None


def derive(
    name: str, bases: tuple[type[BaseException], ...], known: Known, number: int | None = None
) -> type[BaseException]:
    """Return a class of this name and these bases, whose instances may have a text of their own.

    A class without a number is made once. Raises LimitReached for too many classes or ancestors.
    """
    if not name.isidentifier():
        return bases[0]
    key: object = (name, bases) if number is None else number
    kind = known.get(key)
    if kind is not None:
        return kind
    if len(known) >= MAX_KNOWN:
        raise values.LimitReached(f"the program has raised more than {MAX_KNOWN:,} classes of exceptions")
    if sum(len(base.__mro__) for base in bases) > MAX_ANCESTORS:
        raise values.LimitReached(f"an exception class with more than {MAX_ANCESTORS} ancestors")
    try:
        kind = type(name, bases, {"__str__": _own_text})
    except TypeError:  # No order of the bases is consistent.
        kind = type(name, bases[:1], {"__str__": _own_text})
    known[key] = kind
    return kind


def _own_text(error: BaseException) -> str:
    text = error.__dict__.get(TEXT)
    if type(text) is str:
        return text
    texts = (vars(kind).get("__str__", _own_text) for kind in type(error).__mro__)
    return str(next(own for own in texts if own is not _own_text)(error))


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
    text = text_of(error) if cheap or not _has_builtin_text(kind) else evidence.show(error)
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
    value: Any, known: Known, lent: Mapping[int, BaseException] = types.MappingProxyType({})
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
        raise plain.ValueRefused("an exception of a wrong shape")
    if next(left, None) is None:
        raise values.LimitReached(f"an exception that holds more than {MAX_EXCEPTIONS:,} others")
    described, args, text, attributes, cause, context, suppressed, members = value
    if type(text) is not str or type(attributes) is not dict or type(suppressed) is not bool:
        raise plain.ValueRefused("an exception without its text and attributes")
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
        values.check_weight(args, MAX_ARGUMENTS, handles=handles)
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
    raise plain.ValueRefused(f"{type(value).__name__} is not plain data")
