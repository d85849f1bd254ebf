"""Convert values to text for evidence, with bounded work.

`repr` builds the whole text first, and asks every object for its own text. A list that contains itself twice
at 30 levels has a billion items, an integer of a million digits takes seconds, and the `repr` of an object
may be hostile. This module stops as soon as the text is full, and calls methods only of built-in classes. It
cannot use the host's escaper (`harness.core.text`), because the guest imports only the standard library. The
host escapes the text again.
"""

from __future__ import annotations

import sys
from types import BuiltinFunctionType, FunctionType, MethodType

from .plain import base_of, data_in
from .remote import RemoteObject

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

# One piece of evidence holds several values, and 2,000 characters in total.
MAX_TEXT = 300
# People do not read deeper brackets, and each level is a call in this process.
MAX_LEVELS = 20
# More digits help no reader, and the time to write them grows with their square.
MAX_DIGITS = 100
_BITS_PER_DIGIT = 3.32
_CONTINUED = " ..."

_BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
    type({}.keys()): ("dict_keys([", "])"),
    type({}.values()): ("dict_values([", "])"),
    type({}.items()): ("dict_items([", "])"),
}
_TEXTS = (str, bytes, bytearray)
_NAMED = (FunctionType, BuiltinFunctionType, MethodType)
# Types of the standard library by module and name. Their modules are loaded if any value of them exists.
_LIBRARY = (
    *(("collections", name) for name in ("Counter", "OrderedDict", "defaultdict", "deque")),
    *(("decimal", "Decimal"), ("fractions", "Fraction"), ("array", "array")),
    *(("datetime", name) for name in ("date", "time", "datetime", "timedelta")),
)


class _Full(Exception):
    """The text has reached its limit."""


def show(value: object, limit: int = MAX_TEXT) -> str:
    """Return a text for a value, like its `repr` but at most `limit` characters long.

    Three dots mark omitted text. An object whose class is not built in is shown by the name of its class. An
    instance of a subclass of a built-in type is shown as that type.
    """
    writer = _Writer(limit - len(_CONTINUED))
    try:
        writer.write(value, 0)
    except _Full:
        return "".join(writer.parts) + _CONTINUED
    return "".join(writer.parts)


class _Writer:
    """Collects a text piece by piece until it is full."""

    def __init__(self, limit: int) -> None:
        self.parts: list[str] = []
        self._left = limit
        self._open: set[int] = set()

    def write(self, value: Any, level: int) -> None:
        """Add the text of a value. Raises _Full."""
        value = data_in(value)
        kind = base_of(type(value))
        if value is None or kind is bool or kind is float or kind is complex or value is ...:
            self._add(repr(value))
        elif kind is int:
            self._add(_integer(value))
        elif kind in _TEXTS:
            self._write_text(value, kind)
        elif issubclass(kind, type):
            self._add(f"<class {type.__dict__['__name__'].__get__(value)!r}>")
        elif kind in _NAMED:
            self._add(f"<function {value.__name__}>")
        elif kind is range:
            bounds = (value.start, value.stop, value.step)
            self._write_items("range(", bounds[:2] if value.step == 1 else bounds, ")", value, level)
        elif kind in _BRACKETS:
            self._write_container(value, kind, level)
        elif kind is dict:
            self._write_mapping("{", value, "}", value, level)
        else:
            self._write_other(value, kind, level)

    def _add(self, text: str) -> None:
        if len(text) > self._left:
            self.parts.append(text[: self._left])
            self._left = 0
            raise _Full
        self.parts.append(text)
        self._left -= len(text)

    def _write_text(self, value: Any, kind: Any) -> None:
        # Quotes and escapes only lengthen the text, so no more than this is ever shown.
        part = kind(value[: self._left + 1])
        self._add(repr(part))

    def _write_container(self, value: Any, kind: type, level: int) -> None:
        before, after = _BRACKETS[kind]
        if kind is tuple and len(value) == 1:
            after = ",)"
        elif kind in (set, frozenset) and not value:
            before, after = f"{kind.__name__}(", ")"
        self._write_items(before, value, after, value, level)

    def _write_items(
        self, before: str, items: Iterable[object], after: str, container: object, level: int
    ) -> None:
        self._add(before)
        if level == MAX_LEVELS or id(container) in self._open:
            self._add("...")
        else:
            self._open.add(id(container))
            for place, item in enumerate(items):
                if place:
                    self._add(", ")
                self.write(item, level + 1)
            self._open.discard(id(container))
        self._add(after)

    def _write_mapping(self, before: str, value: Any, after: str, container: object, level: int) -> None:
        self._add(before)
        if level == MAX_LEVELS or id(container) in self._open:
            self._add("...")
        else:
            self._open.add(id(container))
            for place, (key, item) in enumerate(dict.items(value)):
                if place:
                    self._add(", ")
                self.write(key, level + 1)
                self._add(": ")
                self.write(item, level + 1)
            self._open.discard(id(container))
        self._add(after)

    def _write_other(self, value: Any, kind: type, level: int) -> None:
        name = type.__dict__["__name__"].__get__(kind)
        library = next((known for known in _library_types() if known is kind), None)
        if library is not None:
            self._write_library(value, name, level)
        elif issubclass(kind, RemoteObject):
            self._add(f"<an object of the program's, number {value._number}>")
        elif issubclass(kind, BaseException):
            arguments = BaseException.__dict__["args"].__get__(value)
            self._write_items(f"{name}(", arguments, ")", value, level)
        elif issubclass(kind, dict):
            self._write_mapping(f"{name}({{", value, "})", value, level)
        elif issubclass(kind, (list, tuple, set, frozenset)):
            base: Any = next(base for base in kind.__mro__ if base in _BRACKETS)
            self._write_items(f"{name}(", base.__iter__(value), ")", value, level)
        else:
            self._add(f"<{name} object>")

    def _write_library(self, value: Any, name: str, level: int) -> None:
        if name == "Decimal":
            self._add(f"Decimal('{_decimal(value)}')")
        elif name == "Fraction":
            self._write_items("Fraction(", (value.numerator, value.denominator), ")", value, level)
        elif name == "deque":
            self._write_items("deque([", value, "])", value, level)
        elif name == "array":
            self._write_items(f"array({value.typecode!r}, [", value, "])", value, level)
        elif issubclass(type(value), dict):
            self._write_mapping(f"{name}({{", value, "})", value, level)
        elif name in ("time", "datetime") and not _is_plain_zone(value.tzinfo):
            self._add(repr(value.replace(tzinfo=None)))
        else:
            self._add(repr(value))


def _library_types() -> Iterator[object]:
    for module, name in _LIBRARY:
        if module in sys.modules:
            yield getattr(sys.modules[module], name, None)


def _integer(value: int) -> str:
    bits = value.bit_length()
    if bits <= MAX_DIGITS * _BITS_PER_DIGIT:
        return repr(value)
    sign = "a negative" if value < 0 else "an"
    return f"<{sign} integer of about {int(bits / _BITS_PER_DIGIT) + 1:,} digits>"


def _decimal(value: Any) -> str:
    from decimal import Context

    context = Context(prec=MAX_DIGITS, Emin=-(10**17), Emax=10**17, traps=[])
    text = str(context.plus(value)) if not value.is_nan() else "NaN"
    return text + "..." if any(context.flags.values()) else text


def _is_plain_zone(zone: object) -> bool:
    """Return whether the `repr` of a zone is Python's own."""
    if zone is None:
        return True
    datetime = sys.modules["datetime"]
    return type(zone) is datetime.timezone


MAX_MESSAGE = 600
# The time to write an integer grows with the square of its length.
MAX_BITS = 4096


def bound(text: str, limit: int) -> str:
    """Return a text, or its start and its length if it is longer than `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit - 20]} ... ({len(text)} characters)"


def describe(error: BaseException) -> str:
    """Return an exception's name and message, bounded."""
    args = error.args
    if isinstance(error, SyntaxError) and (found := _describe_place(args)) is not None:
        return f"{type(error).__name__}: {found}"
    if all(map(_is_cheap, args)) and (len(args) < 2 or type(error).__str__ is not BaseException.__str__):
        try:
            message = bound(str(error), MAX_MESSAGE)
        except Exception:
            message = ""
    else:
        # The exception's own text may contain a value that takes hours to write.
        message = show(args[0] if len(args) == 1 else args, MAX_MESSAGE)
    return type(error).__name__ + (f": {message}" if message else "")


def _describe_place(args: tuple[object, ...]) -> str | None:
    """Return the message of a syntax error with its line, None if the arguments are not Python's."""
    if len(args) != 2 or type(args[0]) is not str or type(args[1]) is not tuple or len(args[1]) < 2:
        return None
    line = args[1][1]
    place = f" (line {line})" if type(line) is int and _is_cheap(line) else ""
    return bound(args[0], MAX_MESSAGE) + place


def _is_cheap(value: object) -> bool:
    """Return whether the whole text of a value can be built, whatever its size."""
    if type(value) is int:
        return value.bit_length() < MAX_BITS
    return value is None or type(value) in (str, bool, float, bytes)
