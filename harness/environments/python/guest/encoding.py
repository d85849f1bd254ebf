"""Write the format of `values`."""

from __future__ import annotations

import math
import struct
from collections import OrderedDict
from itertools import chain

from . import plain
from .plain import ValueRefused
from .values import (
    ARRAY_ITEMS,
    COMPLEX,
    FLOAT,
    FORMATS,
    HANDLE,
    INT64,
    KINDS,
    LENGTH,
    MAX_BITS,
    MAX_BYTES,
    MAX_DEPTH,
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
    check_weight,
    is_array,
    tag_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

# Writing a tuple of fewer items again takes less time than counting how often it occurs.
LARGE_TUPLE = 1000

# From this many numbers on, packing them together takes less time than writing them one by one.
MIN_PACKED = 16

_HANDLES = (b"H", b"G")
_PACKED: dict[Any, bytes] = {list: b"L", tuple: b"P"}

_EMPTY: tuple[Any, ...] = ({}, OrderedDict())

_VIEWS = {
    **{type(mapping.keys()): b"k" for mapping in _EMPTY},
    **{type(mapping.values()): b"v" for mapping in _EMPTY},
    **{type(mapping.items()): b"e" for mapping in _EMPTY},
}


class Encoder:
    """Writes values.

    `handle_of` returns the kind and the number of an object that is not plain data, with a description of it
    as plain data or None. It raises if the object cannot cross. `opaque` are classes whose objects
    never equal plain data. With `marks`, an object of another class that crosses as the plain data that it
    equals carries a mark of `plain.relation`.
    """

    def __init__(
        self,
        handle_of: Callable[[object], tuple[int, int, object]],
        known: Sequence[object] = (),
        opaque: frozenset[Any] = plain.OPAQUE,
        *,
        marks: bool = False,
    ) -> None:
        self._marks = marks
        self._handle_of = handle_of
        self._opaque = opaque
        self._numbers = {id(container): number for number, container in enumerate(known)}
        # The reference keeps the object alive, because an id is valid only while its object lives.
        self._keep: list[object] = list(known)
        self._alive: list[object] = []
        self._large: dict[int, object] = {}
        self._root: object = None
        self._handles = 0
        self._reduction = 0

    @property
    def containers(self) -> list[object]:
        """Return the mutable containers written so far, in the order of their numbers."""
        return self._keep

    def encode(self, root: object) -> bytes:
        """Return the bytes of `root`. Raises LimitReached, or ValueRefused for a value that cannot cross."""
        parts: list[bytes] = []
        size = items = 0
        # The references keep temporary objects alive until they have been written, because their ids identify
        # them.
        open_immutables: dict[int, object] = {}
        self._root = root
        stack: list[tuple[Iterator[object], int, int]] = [(iter((root,)), 0, 0)]
        while stack:
            children, closing, before = stack[-1]
            for value in children:
                inner = self._write(value, parts, open_immutables)
                size += len(parts[-1])
                items += 1
                if items > MAX_ITEMS:
                    raise LimitReached(TOO_MANY_ITEMS)
                if size > MAX_BYTES:
                    raise LimitReached(TOO_MANY_BYTES)
                if inner is not None:
                    if len(stack) > MAX_DEPTH:
                        raise LimitReached(TOO_DEEP)
                    stack.append((*inner, items))
                    break
            else:
                closed = open_immutables.pop(closing, None)
                if closed is not None and items - before >= LARGE_TUPLE:
                    self._large[closing] = closed
                stack.pop()
        return b"".join(parts)

    def _write(
        self, value: Any, parts: list[bytes], open_immutables: dict[int, object]
    ) -> tuple[Iterator[object], int] | None:
        """Append the item of `value`, and return its children if it has any."""
        kind = type(value)
        scalar = _scalar(value, kind)
        if scalar is not None:
            parts.append(scalar)
            return None
        if kind in self._opaque:
            return self._write_handle(value, parts)
        number = self._numbers.get(id(value))
        if number is not None:
            parts.append(b"r" + LENGTH.pack(number))
            return None
        if kind is float:
            # Containers are equal if they hold the same NaN, so a NaN needs an identity.
            self._number(value)
            parts.append(b"n" + FLOAT.pack(value))
            return None
        if kind in KINDS or kind is bytearray:
            return self._write_container(value, kind, id(value), parts, open_immutables)
        tag = tag_of(kind)
        if tag is not None:
            return self._write_value_type(value, tag, parts)
        if kind is range or kind is slice:
            parts.append(b"R" if kind is range else b"X")
            return iter((value.start, value.stop, value.step)), 0
        if kind in _VIEWS:
            items = tuple(value)
            parts.append(_VIEWS[kind] + LENGTH.pack(len(items)))
            return iter(items), 0
        if kind is memoryview and value.ndim == 1 and value.format in FORMATS:
            parts.append(b"M")
            return iter((value.format, value.tobytes())), 0
        if is_array(kind) and value.ndim and value.dtype.str in ARRAY_ITEMS:
            parts.append(b"Y")
            return iter((value.dtype.str, value.shape, value.tobytes())), 0
        inside = value._data if issubclass(kind, plain.Lookalike) else plain.inside(value, kind)
        if inside is None:
            return self._write_handle(value, parts)
        inner = self._write_inside(inside, value, parts, open_immutables)
        if self._marks and not parts[-1].startswith(_HANDLES) and (mark := plain.relation(kind, inside)):
            parts[-1] = b"x" + mark + parts[-1]
        return inner

    def _write_inside(
        self, inside: Any, value: object, parts: list[bytes], open_immutables: dict[int, object]
    ) -> tuple[Iterator[object], int] | None:
        """Write the plain data that an object of another class equals, under the object's identity."""
        kind = type(inside)
        if kind in (tuple, frozenset):
            return self._write_container(inside, kind, id(value), parts, open_immutables)
        self._alive.append(inside)
        inner = self._write(inside, parts, open_immutables)
        number = self._numbers.get(id(inside))
        if number is not None:
            self._numbers[id(value)] = number
            # If the object itself is a container of that type, a call's changes come back into the object.
            self._keep[number] = value if issubclass(type(value), kind) else inside
            self._alive.append(value)
        return inner

    def _write_container(
        self, value: Any, kind: Any, identity: int, parts: list[bytes], open_immutables: dict[int, object]
    ) -> tuple[Iterator[object], int] | None:
        if kind is bytearray:
            self._number(value)
            parts.append(b"B" + LENGTH.pack(len(value)) + bytes(value))
            return None
        packed = _pack(value) if kind in _PACKED and len(value) >= MIN_PACKED else None
        if kind in (tuple, frozenset):
            if identity in open_immutables:
                raise ValueRefused("a tuple that contains itself")
            if identity in self._large:
                # A tuple is written each time that it occurs, so its copies are counted before they are made.
                self._large.clear()
                check_weight(self._root, 2 * MAX_ITEMS, as_written=True)
        else:
            self._number(value)
        if packed is not None:
            parts.append(_PACKED[kind] + packed)
            return None
        parts.append(KINDS[kind] + LENGTH.pack(len(value)))
        if kind is dict:
            return _flatten(value), 0
        if kind in (tuple, frozenset):
            open_immutables[identity] = value
            return iter(value), identity
        # A copy, because inspecting an object runs its code, which may change the list during the writing.
        return iter(list(value)), 0

    def _write_value_type(
        self, value: Any, tag: bytes, parts: list[bytes]
    ) -> tuple[Iterator[object], int] | None:
        if tag == b"A" and value.typecode in TYPECODES:
            self._number(value)
            raw = value.tobytes()
            parts.append(tag + value.typecode.encode() + LENGTH.pack(len(raw)) + raw)
            return None
        if tag == b"A" or (tag == b"m" and value.is_snan()):
            return self._write_handle(value, parts)  # A comparison with a signalling NaN would raise.
        parts.append(tag)
        if tag in MUTABLE_MAPPINGS:
            self._number(value)
            parts[-1] += LENGTH.pack(len(value))
            items = _flatten(value)
            factory = (plain.as_function(value.default_factory),) if tag == b"D" else ()
            return chain(factory, items), 0
        if tag == b"Q":
            self._number(value)
            maxlen = -1 if value.maxlen is None else value.maxlen
            parts[-1] += LENGTH.pack(len(value)) + INT64.pack(maxlen)
            return iter(list(value)), 0
        return iter(self._fields(value, tag)), 0

    def _fields(self, value: Any, tag: bytes) -> tuple[object, ...]:
        """Return the values that a number or a date is built from. Raises LimitReached, or ValueRefused."""
        if tag == b"m":
            check_exponent(value)
            return (str(value),)
        if tag == b"q":
            # A fraction keeps the classes of its numbers, and the tests accept exact integers only.
            numerator, denominator = int(value.numerator), int(value.denominator)
            self._reduction = add_reduction(self._reduction, numerator, denominator)
            return numerator, denominator
        if tag == b"u":
            return value.days, value.seconds, value.microseconds
        if tag != b"h" and tag != b"w":
            return value.year, value.month, value.day
        if value.tzinfo is not None and value.utcoffset() is None:
            raise ValueRefused("a time with a zone that has no offset")
        offset = None if value.tzinfo is None else value.utcoffset()
        clock = (value.hour, value.minute, value.second, value.microsecond, value.fold, offset)
        return clock if tag == b"h" else (value.year, value.month, value.day, *clock)

    def _write_handle(self, value: object, parts: list[bytes]) -> tuple[Iterator[object], int] | None:
        self._handles += 1
        if self._handles > MAX_HANDLES:
            raise LimitReached(TOO_MANY_HANDLES)
        kind, number, description = self._handle_of(value)
        if description is None:
            parts.append(b"H" + HANDLE.pack(kind, number))
            return None
        parts.append(b"G" + HANDLE.pack(kind, number))
        return iter((description,)), 0

    def _number(self, value: object) -> None:
        self._numbers[id(value)] = len(self._keep)
        self._keep.append(value)


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
            return b"j" + INT64.pack(value)
        if value.bit_length() > MAX_BITS:
            raise LimitReached(TOO_MANY_DIGITS)
        raw = value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)
        return b"i" + LENGTH.pack(len(raw)) + raw
    if kind is str:
        raw = value.encode("utf-8", "surrogatepass")
        return b"s" + LENGTH.pack(len(raw)) + raw
    if kind is float:
        if value != value:
            return b"a" if value is math.nan else None
        return b"f" + FLOAT.pack(value)
    if kind is bytes:
        raw = value
        return b"b" + LENGTH.pack(len(raw)) + raw
    if kind is complex:
        return b"c" + COMPLEX.pack(value.real, value.imag)
    return None


def _pack(items: Any) -> bytes | None:
    """Return the numbers of a list or tuple in one piece, or None unless all are short and of one type."""
    code = NUMBER_CODES.get(type(items[0]))
    if code is None or len(set(map(type, items))) > 1:
        return None
    if code == "d" and math.isnan(sum(items)):
        return None  # A NaN may be among them.
    try:
        return code.encode() + LENGTH.pack(len(items)) + struct.pack(f">{len(items)}{code}", *items)
    except struct.error:
        return None  # An integer has more than 64 bits.


def _flatten(mapping: Any) -> Iterator[object]:
    return iter([part for item in list(mapping.items()) for part in item])
