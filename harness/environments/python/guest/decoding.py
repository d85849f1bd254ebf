"""Read the format of `values`. The decoder builds only the types that this module lists."""

from __future__ import annotations

import math
import struct
from collections import Counter, OrderedDict, defaultdict, deque

from . import plain
from .plain import ValueRefused
from .values import (
    ARRAY_ITEMS,
    COMPLEX,
    FLOAT,
    FORMATS,
    HANDLE,
    INT64,
    LENGTH,
    MAX_BITS,
    MAX_BYTES,
    MAX_DEPTH,
    MAX_DIMENSIONS,
    MAX_HANDLES,
    MAX_ITEMS,
    MUTABLE_MAPPINGS,
    NUMBER_CODES,
    TOO_DEEP,
    TOO_MANY_BYTES,
    TOO_MANY_DIGITS,
    TOO_MANY_HANDLES,
    TOO_MANY_ITEMS,
    TYPECODES,
    LimitReached,
    add_reduction,
    check_exponent,
    check_hashes,
    check_weight,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


class _Open:
    """A container during its decoding: the number of items that it lacks, and where they go."""

    __slots__ = ("finish", "items", "waiting")

    def __init__(self, waiting: int, items: list[object], finish: Callable[[list[Any]], object]) -> None:
        self.waiting = waiting
        self.items = items
        self.finish = finish


class Decoder:
    """Reads values. `handle` makes the stand-in for the peer's object, from kind, number, description."""

    def __init__(self, handle: Callable[[int, int, Any], object], known: Sequence[object] = ()) -> None:
        self._handle = handle
        self._containers: list[object] = list(known)
        self._known = len(known)
        self._references = 0
        self._handles = 0
        self._reduction = 0
        # The mark on the item that is being read.
        self._mark = b""
        # The objects that hold containers, by the containers' numbers.
        self._holders: dict[int, object] = {}
        self.has_marks = False

    @property
    def containers(self) -> list[object]:
        """Return the mutable containers read so far, in the order of their numbers."""
        return self._containers

    def decode(self, data: bytes) -> Any:
        """Return the one value in `data`. Raises LimitReached, and ValueRefused for invalid data."""
        if len(data) > MAX_BYTES:
            raise LimitReached(TOO_MANY_BYTES)
        try:
            value = self._decode(data)
        except (ValueRefused, LimitReached):
            raise
        except Exception as error:
            raise ValueRefused(f"malformed value: {type(error).__name__}: {error}") from None
        if self._references > 1:
            check_weight(value)
        return value

    def _decode(self, data: bytes) -> Any:
        position = items = 0
        stack: list[_Open] = []
        while True:
            value, position = self._read(data, position)
            items += 1
            if items > MAX_ITEMS:
                raise LimitReached(TOO_MANY_ITEMS)
            while True:
                if type(value) is _Open:
                    if value.waiting:
                        if len(stack) > MAX_DEPTH:
                            raise LimitReached(TOO_DEEP)
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
            return INT64.unpack_from(data, position)[0], position + 8
        if tag == b"s":
            raw, position = _take(data, position)
            return raw.decode("utf-8", "surrogatepass"), position
        if tag == b"N" or tag == b"E":
            return None if tag == b"N" else ..., position
        if tag == b"T" or tag == b"F":
            return tag == b"T", position
        if tag == b"f":
            return FLOAT.unpack_from(data, position)[0], position + 8
        if tag == b"n":
            return self._keep(FLOAT.unpack_from(data, position)[0]), position + 8
        if tag == b"a":
            return math.nan, position
        if tag == b"i":
            raw, position = _take(data, position)
            if len(raw) > MAX_BITS // 8 + 1:
                raise LimitReached(TOO_MANY_DIGITS)
            return int.from_bytes(raw, "big", signed=True), position
        if tag == b"b":
            return _take(data, position)
        if tag == b"c":
            return complex(*COMPLEX.unpack_from(data, position)), position + 16
        if tag == b"B":
            raw, position = _take(data, position)
            return self._keep(bytearray(raw)), position
        if tag == b"r":
            return self._resolve(LENGTH.unpack_from(data, position)[0]), position + 4
        if tag == b"H" or tag == b"G":
            return self._read_handle(tag, data, position)
        if tag == b"L" or tag == b"P":
            return self._read_packed(tag, data, position)
        if tag == b"A":
            raw, end = _take(data, position + 1)
            return self._keep(_array(data[position : position + 1].decode(), raw)), end
        if tag == b"x":
            return self._read_marked(data, position)
        return self._open(tag, data, position)

    def _read_marked(self, data: bytes, position: int) -> tuple[Any, int]:
        """Read an item that crosses as the plain data that it equals, and give it a class of its own."""
        self.has_marks = True
        mark, tag = data[position : position + 1], data[position + 1 : position + 2]
        position += 1
        if tag == b"x":
            raise ValueRefused("a mark on a mark")
        if tag == b"r":
            # A subclass would hold a copy, and a short reference may name a large container.
            if mark != plain.LOOKALIKE:
                raise ValueRefused("a subclass of a container that is already there")
            (number,) = LENGTH.unpack_from(data, position + 1)
            self._resolve(number)
            return plain.convert(mark, self._containers[number]), position + 5
        number = len(self._containers)
        self._mark = mark
        value, position = self._read(data, position)
        self._mark = b""
        if len(self._containers) == number:
            if type(value) is not _Open:
                return plain.convert(mark, value), position
            finish = value.finish
            value.finish = lambda items: plain.convert(mark, finish(items))
            return value, position
        if mark == plain.SUBCLASS:
            return value, position
        holder = self._holders[number] = plain.convert(mark, self._containers[number])
        if type(value) is not _Open:
            return holder, position
        fill = value.finish
        value.finish = lambda items: (fill(items), holder)[1]
        return value, position

    def _read_handle(self, tag: bytes, data: bytes, position: int) -> tuple[Any, int]:
        self._handles += 1
        if self._handles > MAX_HANDLES:
            raise LimitReached(TOO_MANY_HANDLES)
        kind, number = HANDLE.unpack_from(data, position)
        end = position + HANDLE.size
        if tag == b"H":
            return self._handle(kind, number, None), end
        return _Open(1, [], lambda items: self._handle(kind, number, items[0])), end

    def _resolve(self, number: int) -> object:
        # A single reference to an argument shares nothing. A reference into this same value does.
        self._references += 1 if number < self._known else 2
        return self._holders.get(number, self._containers[number])

    def _read_packed(self, tag: bytes, data: bytes, position: int) -> tuple[Any, int]:
        code = data[position : position + 1].decode()
        if code not in NUMBER_CODES.values():
            raise ValueRefused("packed numbers of an unknown kind")
        (count,) = LENGTH.unpack_from(data, position + 1)
        numbers = struct.unpack_from(f">{count}{code}", data, position + 5)
        end = position + 5 + 8 * count
        return (self._keep(list(numbers)) if tag == b"L" else numbers), end

    def _open(self, tag: bytes, data: bytes, position: int) -> tuple[_Open, int]:
        fixed = _FIXED.get(tag)
        if fixed is not None:
            return _Open(fixed, [], self._fraction if tag == b"q" else _BUILDERS[tag]), position
        (count,) = LENGTH.unpack_from(data, position)
        position += 4
        if tag in (b"t", b"Z", b"k", b"v", b"e"):
            return _Open(count, [], _BUILDERS[tag]), position
        if tag == b"l":
            target = self._keep([])
            return _Open(count, target, lambda items: items), position
        if tag == b"Q":
            (maxlen,) = INT64.unpack_from(data, position)
            queue = self._keep(deque(maxlen=None if maxlen < 0 else maxlen))
            return _Open(count, queue, lambda items: items), position + INT64.size
        if tag == b"S":
            empty: set[Any] = self._keep(set())
            return _Open(count, [], lambda items: _fill(empty, items)), position
        if tag == b"D":
            missing: defaultdict[Any, Any] = self._keep(defaultdict())
            return _Open(2 * count + 1, [], lambda items: _fill_defaultdict(missing, items)), position
        if tag == b"d" or tag in MUTABLE_MAPPINGS:
            mapping = self._keep(_empty_mapping(tag))
            return _Open(2 * count, [], lambda items: _fill_mapping(mapping, items)), position
        raise ValueRefused(f"unknown tag {tag!r}")

    def _fraction(self, items: list[Any]) -> object:
        from fractions import Fraction

        numerator, denominator = _integers(items)
        self._reduction = add_reduction(self._reduction, numerator, denominator)
        return Fraction(numerator, denominator)

    def _keep(self, container: Any) -> Any:
        if self._mark == plain.SUBCLASS:
            container = plain.convert(self._mark, container)
        self._containers.append(container)
        return container


def _take(data: bytes, position: int) -> tuple[bytes, int]:
    (length,) = LENGTH.unpack_from(data, position)
    position += 4
    if length > len(data) - position:
        raise ValueRefused("a length beyond the data")
    return data[position : position + length], position + length


def _empty_mapping(tag: bytes) -> dict[Any, Any]:
    kinds: dict[bytes, Callable[[], dict[Any, Any]]] = {b"d": dict, b"C": Counter, b"O": OrderedDict}
    return kinds[tag]()


def _fill(target: set[Any], items: list[Any]) -> set[Any]:
    check_hashes(items)
    target.update(items)
    return target


def _freeze(items: list[Any]) -> frozenset[Any]:
    check_hashes(items)
    return frozenset(items)


def _fill_mapping(target: dict[Any, Any], items: list[Any]) -> dict[Any, Any]:
    keys = items[::2]
    check_hashes(keys)
    for key, value in zip(keys, items[1::2]):
        target[key] = value
    return target


def _keys_view(items: list[Any]) -> object:
    check_hashes(items)
    return dict.fromkeys(items).keys()


def _items_view(items: list[Any]) -> object:
    check_hashes([key for key, _value in pairs(items)])
    return dict(items).items()


def _fill_defaultdict(target: defaultdict[Any, Any], items: list[Any]) -> defaultdict[Any, Any]:
    if items[0] is not None and not callable(items[0]):
        raise ValueRefused("a default factory that cannot be called")
    target.default_factory = items[0]
    _fill_mapping(target, items[1:])
    return target


def _array(code: str, raw: bytes) -> object:
    from array import array

    if code not in TYPECODES:
        raise ValueRefused("an array of an unknown type")
    items: array[Any] = array(code)
    items.frombytes(raw)
    return items


def _memory(items: list[Any]) -> object:
    form, raw = items
    if type(form) is not str or form not in FORMATS or type(raw) is not bytes:
        raise ValueRefused("memory of an unknown format")
    return memoryview(raw).cast(form)  # type: ignore[call-overload]  # one of its formats


def _numpy_array(items: list[Any]) -> object:
    form, shape, raw = items
    if type(form) is not str or form not in ARRAY_ITEMS or type(shape) is not tuple or type(raw) is not bytes:
        raise ValueRefused("an array of numpy of an unknown form")
    if not 0 < len(shape) <= MAX_DIMENSIONS or any(size < 0 for size in _integers(list(shape))):
        raise ValueRefused("an array of numpy without a shape")
    import numpy

    # A copy, because the tests may change their array.
    return numpy.frombuffer(raw, form).reshape(shape).copy()


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

    value = Decimal(_text(items[0]))
    if value.is_snan():
        raise ValueRefused("a signalling NaN, which cannot be compared")
    check_exponent(value)
    return value


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
    if not isinstance(offset, datetime.timedelta):
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
    b"Z": _freeze,
    b"k": _keys_view,
    b"v": lambda items: dict(enumerate(items)).values(),
    b"e": _items_view,
    b"R": lambda items: range(*_integers(items)),
    b"X": lambda items: slice(*items),
    b"M": _memory,
    b"Y": _numpy_array,
    b"m": _decimal,
    b"y": _date,
    b"h": _time,
    b"w": _datetime,
    b"u": _timedelta,
}

# The number of items of these types, which have no length before them.
_FIXED = {b"m": 1, b"q": 2, b"M": 2, b"R": 3, b"Y": 3, b"X": 3, b"y": 3, b"u": 3, b"h": 6, b"w": 9}


def pairs(items: list[Any]) -> list[tuple[Any, Any]]:
    """Return `items` if each is a pair. Raises ValueRefused."""
    if any(type(item) is not tuple or len(item) != 2 for item in items):
        raise ValueRefused("a dictionary item that is not a pair")
    return items
