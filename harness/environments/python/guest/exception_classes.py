"""Exception classes across the boundary: each with its bases, down to those that both sides have."""

from __future__ import annotations

import builtins
import sys

from . import values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Known = dict[object, type[BaseException]]

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
        *(
            "_csv",
            "_pickle",
            "_queue",
            "queue",
            "binascii",
            "calendar",
            "configparser",
            "copy",
            "dataclasses",
        ),
        *(
            "decimal",
            "graphlib",
            "ipaddress",
            "json.decoder",
            "re",
            "sqlite3",
            "statistics",
            "struct",
            "zlib",
        ),
        *("subprocess", "tomllib", "xml.etree.ElementTree", "xml.parsers.expat", "zoneinfo._common"),
        *("asyncio.exceptions", "asyncio.queues", "concurrent.futures._base"),
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
        raise values.ValueRefused("an exception class without its bases")
    built: list[type[BaseException]] = []
    for entry in description:
        built.append(BUILTIN.get(entry, Exception) if type(entry) is str else _build(entry, built, known))
    return built[-1]


def _build(entry: Any, built: list[type[BaseException]], known: Known) -> type[BaseException]:
    if type(entry) is not tuple or len(entry) != 4:
        raise values.ValueRefused("an exception class of a wrong shape")
    name, places, number, module = entry
    if type(name) is not str or type(places) is not tuple or type(number) not in (int, type(None)):
        raise values.ValueRefused("an exception class without its name, bases and number")
    if number is not None and not 0 <= number <= MAX_NUMBER:
        raise values.ValueRefused("an exception class with a number that no object has")
    if not places or any(type(place) is not int or not 0 <= place < len(built) for place in places):
        raise values.ValueRefused("an exception class without its bases")
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
