"""Plain data across the boundary between trusted tests and a hostile candidate.

A value is written as a flat run of tagged items in pre-order, read back by a decoder that builds
the types listed here, exactly, and can build nothing else. Mutable containers are numbered as they
appear, so that aliases and cycles survive, and so that the other side can tell what a call did to
its arguments. What is not plain data crosses as the number of a handle.
"""

from __future__ import annotations

import struct
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from itertools import chain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

MAX_BYTES = 32 * 1024 * 1024
MAX_DEPTH = 100_000

# What a handle stands for. The first six are the candidate's, the last three the tests'.
OPAQUE, ITERATOR, ITERABLE, CALLABLE, CLASS, INSTANCE, CALLBACK, LENT_ITERATOR, BUILTIN = range(9)

# Built-in functions and types that tests pass to a candidate: it uses its own of that name.
BUILTIN_NAMES = (
    *("abs", "all", "any", "bin", "bool", "bytearray", "bytes", "chr", "complex", "dict", "divmod"),
    *("enumerate", "filter", "float", "format", "frozenset", "hash", "hex", "int", "isinstance", "iter"),
    *("len", "list", "map", "max", "min", "next", "object", "oct", "ord", "pow", "print", "range", "repr"),
    *("reversed", "round", "set", "sorted", "str", "sum", "tuple", "type", "zip"),
    *("ArithmeticError", "AttributeError", "Exception", "IndexError", "KeyError", "LookupError"),
    *("OverflowError", "RuntimeError", "StopIteration", "TypeError", "ValueError", "ZeroDivisionError"),
)

_LENGTH = struct.Struct(">I")
_INT64 = struct.Struct(">q")
_FLOAT = struct.Struct(">d")
_COMPLEX = struct.Struct(">dd")
_HANDLE = struct.Struct(">BI")

_NUMBERS = (int, float, complex)
_PLAIN_BASES = (*_NUMBERS, str, bytes, bytearray, list, tuple, dict, set, frozenset)
_KINDS: dict[Any, bytes] = {list: b"l", tuple: b"t", dict: b"d", set: b"S", frozenset: b"Z"}
# What a stdlib value type is rebuilt from. Its module is looked up only where it is already
# imported: a value of the type cannot exist otherwise.
_VALUE_TYPES = {
    ("collections", "Counter"): b"C",
    ("collections", "OrderedDict"): b"O",
    ("collections", "defaultdict"): b"D",
    ("collections", "deque"): b"Q",
    ("decimal", "Decimal"): b"m",
    ("fractions", "Fraction"): b"q",
    ("datetime", "date"): b"y",
    ("datetime", "time"): b"h",
    ("datetime", "datetime"): b"w",
    ("datetime", "timedelta"): b"u",
}
_EMPTY: tuple[Any, ...] = ({}, OrderedDict())
_VIEWS = {
    **{type(mapping.keys()): b"k" for mapping in _EMPTY},
    **{type(mapping.values()): b"v" for mapping in _EMPTY},
    **{type(mapping.items()): b"e" for mapping in _EMPTY},
}
_MUTABLE_MAPPINGS = (b"C", b"O", b"D")


class ValueRefused(Exception):
    """The value cannot cross, or the bytes are not what the format allows."""


class Encoder:
    """Writes values. `handle_of` turns what is not plain data into (kind, number), or refuses."""

    def __init__(self, handle_of: Callable[[object], tuple[int, int]], known: Sequence[object] = ()) -> None:
        self._handle_of = handle_of
        self._numbers = {id(container): number for number, container in enumerate(known)}
        self._keep: list[object] = list(known)  # an id means something only while its object lives

    @property
    def containers(self) -> list[object]:
        """The mutable containers met so far, in the order of their numbers."""
        return self._keep

    def encode(self, root: object) -> bytes:
        """Return the bytes of `root`. Raises `ValueRefused` over `MAX_BYTES` or `MAX_DEPTH`."""
        parts: list[bytes] = []
        size = 0
        open_immutables: set[int] = set()
        stack: list[tuple[Iterator[object], int]] = [(iter((root,)), 0)]
        while stack:
            children, closing = stack[-1]
            for value in children:
                inner = self._write(value, parts, open_immutables)
                size += len(parts[-1])
                if size > MAX_BYTES:
                    raise ValueRefused(f"value larger than {MAX_BYTES} bytes")
                if inner is not None:
                    if len(stack) > MAX_DEPTH:
                        raise ValueRefused(f"value nested deeper than {MAX_DEPTH}")
                    stack.append(inner)
                    break
            else:
                open_immutables.discard(closing)
                stack.pop()
        return b"".join(parts)

    def _write(
        self, value: Any, parts: list[bytes], open_immutables: set[int]
    ) -> tuple[Iterator[object], int] | None:
        """Append the item of `value`; return its children where it has any."""
        kind = type(value)
        scalar = _scalar(value, kind)
        if scalar is not None:
            parts.append(scalar)
            return None
        number = self._numbers.get(id(value))
        if number is not None:
            parts.append(b"r" + _LENGTH.pack(number))
            return None
        if kind in (tuple, frozenset):
            if id(value) in open_immutables:
                raise ValueRefused("a tuple that contains itself")
            open_immutables.add(id(value))
            parts.append(_KINDS[kind] + _LENGTH.pack(len(value)))
            return iter(value), id(value)
        if kind in (list, set, dict, bytearray):
            self._number(value)
            return self._write_mutable(value, kind, parts)
        tag = _VALUE_TYPES.get((kind.__module__, kind.__qualname__))
        if tag is not None and getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is kind:
            return self._write_value_type(value, tag, parts)
        if kind is range:
            parts.append(b"R")
            return iter((value.start, value.stop, value.step)), 0
        if kind in _VIEWS:
            items = tuple(value)
            parts.append(_VIEWS[kind] + _LENGTH.pack(len(items)))
            return iter(items), 0
        plain = _as_plain(value, kind)
        if plain is not None:
            if type(plain) in (list, set, dict, bytearray):
                self._number(value)
                return self._write_mutable(plain, type(plain), parts)
            return self._write(plain, parts, open_immutables)
        handle_kind, handle = self._handle_of(value)
        parts.append(b"H" + _HANDLE.pack(handle_kind, handle))
        return None

    def _number(self, value: object) -> None:
        self._numbers[id(value)] = len(self._keep)
        self._keep.append(value)

    @staticmethod
    def _write_mutable(
        value: Any, kind: type[object], parts: list[bytes]
    ) -> tuple[Iterator[object], int] | None:
        if kind is bytearray:
            parts.append(b"B" + _LENGTH.pack(len(value)) + bytes(value))
            return None
        parts.append(_KINDS[kind] + _LENGTH.pack(len(value)))
        return (_flat(value) if kind is dict else iter(list(value))), 0

    def _write_value_type(self, value: Any, tag: bytes, parts: list[bytes]) -> tuple[Iterator[object], int]:
        parts.append(tag)
        if tag in _MUTABLE_MAPPINGS:
            self._number(value)
            parts[-1] += _LENGTH.pack(len(value))
            items = _flat(value)
            return (chain((value.default_factory,), items) if tag == b"D" else items), 0
        if tag == b"Q":
            self._number(value)
            maxlen = -1 if value.maxlen is None else value.maxlen
            parts[-1] += _LENGTH.pack(len(value)) + _INT64.pack(maxlen)
            return iter(list(value)), 0
        if tag == b"m":
            return iter((str(value),)), 0
        if tag == b"q":
            return iter((value.numerator, value.denominator)), 0
        if tag == b"u":
            return iter((value.days, value.seconds, value.microseconds)), 0
        if tag != b"h" and tag != b"w":
            return iter((value.year, value.month, value.day)), 0
        if value.tzinfo is not None and value.utcoffset() is None:
            raise ValueRefused("a time with a zone that has no offset")
        offset = None if value.tzinfo is None else value.utcoffset()
        clock = (value.hour, value.minute, value.second, value.microsecond, value.fold, offset)
        if tag == b"h":
            return iter(clock), 0
        return iter((value.year, value.month, value.day, *clock)), 0


def _scalar(value: Any, kind: type[Any]) -> bytes | None:
    raw: bytes
    if value is None:
        return b"N"
    if value is ...:
        return b"E"
    if kind is bool:
        return b"T" if value else b"F"
    if kind is int:
        if -(1 << 63) <= value < 1 << 63:
            return b"j" + _INT64.pack(value)
        raw = value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)
        return b"i" + _LENGTH.pack(len(raw)) + raw
    if kind is str:
        raw = value.encode("utf-8", "surrogatepass")
        return b"s" + _LENGTH.pack(len(raw)) + raw
    if kind is float:
        return b"f" + _FLOAT.pack(value)
    if kind is bytes:
        raw = value
        return b"b" + _LENGTH.pack(len(raw)) + raw
    if kind is complex:
        return b"c" + _COMPLEX.pack(value.real, value.imag)
    return None


def _flat(mapping: Any) -> Iterator[object]:
    return iter([part for item in list(mapping.items()) for part in item])


def _as_plain(value: Any, kind: type[Any]) -> object | None:
    """Return the built-in data inside an instance of a subclass (a namedtuple, an IntEnum), or None."""
    base: Any = next((base for base in kind.__mro__ if base in _PLAIN_BASES), None)
    plain: object
    if base is None:
        plain = _number_of_numpy(value, kind)
    elif base in _NUMBERS:
        plain = base.__pos__(value)
    elif base is str:
        plain = str.__str__(value)
    elif base in (bytes, bytearray):
        plain = base(base.__getitem__(value, slice(None)))
    elif base is dict:
        plain = dict(dict.items(value))
    else:
        plain = base(base.__iter__(value))
    return plain


def _number_of_numpy(value: Any, kind: type[Any]) -> object | None:
    """Return the built-in number that equals one of numpy's, or None."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.generic):
        return None
    plain: object = value.item()
    return None if type(plain) is kind else plain


class _Open:
    """A container that is being read: how many items it still waits for, and where they go."""

    __slots__ = ("finish", "items", "waiting")

    def __init__(self, waiting: int, items: list[object], finish: Callable[[list[Any]], object]) -> None:
        self.waiting = waiting
        self.items = items
        self.finish = finish


class Decoder:
    """Reads values. `handle` makes the object that stands for the peer's (kind, number)."""

    def __init__(self, handle: Callable[[int, int], object], known: Sequence[object] = ()) -> None:
        self._handle = handle
        self._containers: list[object] = list(known)

    @property
    def containers(self) -> list[object]:
        """The mutable containers met so far, in the order of their numbers."""
        return self._containers

    def decode(self, data: bytes) -> Any:
        """Return the one value in `data`. Raises `ValueRefused` on anything else."""
        if len(data) > MAX_BYTES:
            raise ValueRefused(f"value larger than {MAX_BYTES} bytes")
        try:
            return self._decode(data)
        except ValueRefused:
            raise
        except Exception as error:
            raise ValueRefused(f"malformed value: {type(error).__name__}: {error}") from None

    def _decode(self, data: bytes) -> Any:
        position = 0
        stack: list[_Open] = []
        while True:
            value, position = self._read(data, position)
            while True:
                if type(value) is _Open:
                    if value.waiting:
                        if len(stack) > MAX_DEPTH:
                            raise ValueRefused(f"value nested deeper than {MAX_DEPTH}")
                        if value.waiting > len(data) - position:
                            raise ValueRefused("a container longer than its data")
                        stack.append(value)
                        break
                    value = value.finish(value.items)
                    continue
                if not stack:
                    if position != len(data):
                        raise ValueRefused("bytes after the value")
                    return value
                top = stack[-1]
                top.items.append(value)
                top.waiting -= 1
                if top.waiting:
                    break
                stack.pop()
                value = top.finish(top.items)

    def _read(self, data: bytes, position: int) -> tuple[Any, int]:
        tag = data[position : position + 1]
        position += 1
        if tag == b"j":
            return _INT64.unpack_from(data, position)[0], position + 8
        if tag == b"s":
            raw, position = _take(data, position)
            return raw.decode("utf-8", "surrogatepass"), position
        if tag == b"N" or tag == b"E":
            return None if tag == b"N" else ..., position
        if tag == b"T" or tag == b"F":
            return tag == b"T", position
        if tag == b"f":
            return _FLOAT.unpack_from(data, position)[0], position + 8
        if tag == b"i":
            raw, position = _take(data, position)
            return int.from_bytes(raw, "big", signed=True), position
        if tag == b"b":
            return _take(data, position)
        if tag == b"c":
            return complex(*_COMPLEX.unpack_from(data, position)), position + 16
        if tag == b"B":
            raw, position = _take(data, position)
            return self._keep(bytearray(raw)), position
        if tag == b"r":
            return self._containers[_LENGTH.unpack_from(data, position)[0]], position + 4
        if tag == b"H":
            kind, number = _HANDLE.unpack_from(data, position)
            return self._handle(kind, number), position + _HANDLE.size
        return self._open(tag, data, position)

    def _open(self, tag: bytes, data: bytes, position: int) -> tuple[_Open, int]:
        fixed = {b"m": 1, b"q": 2, b"R": 3, b"y": 3, b"u": 3, b"h": 6, b"w": 9}.get(tag)
        if fixed is not None:
            return _Open(fixed, [], _BUILDERS[tag]), position
        (count,) = _LENGTH.unpack_from(data, position)
        position += 4
        if tag in (b"t", b"Z", b"k", b"v", b"e"):
            return _Open(count, [], _BUILDERS[tag]), position
        if tag == b"l":
            target = self._keep([])
            return _Open(count, target, lambda items: items), position
        if tag == b"Q":
            (maxlen,) = _INT64.unpack_from(data, position)
            queue = self._keep(deque(maxlen=None if maxlen < 0 else maxlen))
            return _Open(count, queue, lambda items: items), position + _INT64.size
        if tag == b"S":
            empty: set[Any] = self._keep(set())
            return _Open(count, [], lambda items: _filled(empty, items)), position
        if tag == b"D":
            missing: defaultdict[Any, Any] = self._keep(defaultdict())
            return _Open(2 * count + 1, [], lambda items: _supplied(missing, items)), position
        if tag == b"d" or tag in _MUTABLE_MAPPINGS:
            mapping = self._keep(_empty_mapping(tag))
            return _Open(2 * count, [], lambda items: _paired(mapping, items)), position
        raise ValueRefused(f"unknown tag {tag!r}")

    def _keep(self, container: Any) -> Any:
        self._containers.append(container)
        return container


def _take(data: bytes, position: int) -> tuple[bytes, int]:
    (length,) = _LENGTH.unpack_from(data, position)
    position += 4
    if length > len(data) - position:
        raise ValueRefused("a length beyond the data")
    return data[position : position + length], position + length


def _empty_mapping(tag: bytes) -> dict[Any, Any]:
    kinds: dict[bytes, Callable[[], dict[Any, Any]]] = {
        b"d": dict,
        b"C": Counter,
        b"O": OrderedDict,
    }
    return kinds[tag]()


def _filled(target: set[Any], items: list[Any]) -> set[Any]:
    target.update(items)
    return target


def _paired(target: dict[Any, Any], items: list[Any]) -> dict[Any, Any]:
    for key, value in zip(items[::2], items[1::2]):
        target[key] = value
    return target


def _supplied(target: defaultdict[Any, Any], items: list[Any]) -> defaultdict[Any, Any]:
    if items[0] is not None and not callable(items[0]):
        raise ValueRefused("a default factory that cannot be called")
    target.default_factory = items[0]
    _paired(target, items[1:])
    return target


def _integers(items: list[Any]) -> list[int]:
    if any(type(item) is not int for item in items):
        raise ValueRefused("a number that is not an integer")
    return items


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueRefused("a text that is not a string")
    return value


def _decimal(items: list[Any]) -> object:
    from decimal import Decimal

    return Decimal(_text(items[0]))


def _fraction(items: list[Any]) -> object:
    from fractions import Fraction

    return Fraction(*_integers(items))


def _date(items: list[Any]) -> object:
    import datetime

    return datetime.date(*_integers(items))


def _timedelta(items: list[Any]) -> object:
    import datetime

    return datetime.timedelta(*_integers(items))


def _zone(offset: Any) -> Any:
    import datetime

    if offset is None:
        return None
    if type(offset) is not datetime.timedelta:
        raise ValueRefused("an offset that is not a timedelta")
    return datetime.timezone(offset)


def _time(items: list[Any]) -> object:
    import datetime

    hour, minute, second, microsecond, fold = _integers(items[:5])
    return datetime.time(hour, minute, second, microsecond, _zone(items[5]), fold=fold)


def _datetime(items: list[Any]) -> object:
    import datetime

    year, month, day, hour, minute, second, microsecond, fold = _integers(items[:8])
    zone = _zone(items[8])
    return datetime.datetime(year, month, day, hour, minute, second, microsecond, zone, fold=fold)


_BUILDERS: dict[bytes, Callable[[list[Any]], object]] = {
    b"t": tuple,
    b"Z": frozenset,
    b"k": lambda items: dict.fromkeys(items).keys(),
    b"v": lambda items: dict(enumerate(items)).values(),
    b"e": lambda items: dict(pairs(items)).items(),
    b"R": lambda items: range(*_integers(items)),
    b"m": _decimal,
    b"q": _fraction,
    b"y": _date,
    b"h": _time,
    b"w": _datetime,
    b"u": _timedelta,
}


def pairs(items: list[Any]) -> list[tuple[Any, Any]]:
    """Return `items` where each is a pair. Raises ValueRefused."""
    if any(type(item) is not tuple or len(item) != 2 for item in items):
        raise ValueRefused("a dictionary item that is not a pair")
    return items
