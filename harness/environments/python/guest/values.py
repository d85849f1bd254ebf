"""Plain data across the boundary between trusted tests and a hostile candidate.

A value is a flat run of tagged items in pre-order. The decoder builds exactly the types that this module
lists, and can build nothing else. Mutable containers are numbered in order of appearance. Thus
aliases and cycles survive, and the other side can report how a call changed its arguments. NaNs are numbered
too, because lists are equal that hold the same NaN. An object that is not plain data crosses as the number of
a handle.
"""

from __future__ import annotations

import builtins
import struct
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from itertools import chain

from . import plain
from .plain import Lookalike, base_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

# Each bound raises LimitReached, which breaks no protocol, because honest programs may exceed a bound.
MAX_BYTES = 32 * 1024 * 1024
# Each item takes about a microsecond to write and another to read. A list of numbers crosses as one item.
MAX_ITEMS = 2_000_000
MAX_DEPTH = 100_000
# 1.2 million digits. Squaring such a number takes a third of a second, and the time grows faster than the
# length.
MAX_BITS = 4_000_000
MAX_DIGITS = 1_200_000
# The bits of a numerator times the bits of a denominator. At this bound, their reduction takes half a second.
MAX_REDUCTION = 250_000_000_000
# Each handle is an object in both processes until they end.
MAX_HANDLES = 100_000

# The kinds of handles. The first eight and the last belong to the candidate, the next two to the tests, and
# built-in objects to either.
OPAQUE, ITERATOR, ITERABLE, CALLABLE, CLASS, INSTANCE, CALLABLE_INSTANCE, CALLABLE_ITERABLE = range(8)
CALLBACK, LENT_ITERATOR, BUILTIN, COROUTINE = range(8, 12)

# The names of the kinds of objects that cross other than plain data, as reports and verdicts name them. The
# tests lend their own objects. No kind is to be added.
OBJECT_KINDS = (
    *("object", "iterator", "iterable", "function", "callable object", "callable iterable", "coroutine"),
    *("class", "instance", "callable instance", "exception class", "lent function", "lent iterator"),
)

# Built-in functions and types by name. The candidate uses its own object of that name. The tests get types
# only.
BUILTIN_NAMES = (
    *("abs", "all", "any", "bin", "bool", "bytearray", "bytes", "chr", "complex", "dict", "divmod"),
    *("enumerate", "filter", "float", "format", "frozenset", "hash", "hex", "int", "isinstance", "iter"),
    *("len", "list", "map", "max", "min", "next", "object", "oct", "ord", "pow", "print", "range", "repr"),
    *("reversed", "round", "set", "sorted", "str", "sum", "tuple", "type", "zip"),
    *("ascii", "slice"),
    *(
        name
        for name, kind in vars(builtins).items()
        if isinstance(kind, type) and issubclass(kind, BaseException)
    ),
)

LENGTH = struct.Struct(">I")
INT64 = struct.Struct(">q")
FLOAT = struct.Struct(">d")
COMPLEX = struct.Struct(">dd")
HANDLE = struct.Struct(">BI")

KINDS: dict[Any, bytes] = {list: b"l", tuple: b"t", dict: b"d", set: b"S", frozenset: b"Z"}
NUMBER_CODES = {int: "q", float: "d"}
# The data that a value of a library's type is rebuilt from.
_VALUE_TYPES = {
    ("collections", "Counter"): b"C",
    ("collections", "OrderedDict"): b"O",
    ("collections", "defaultdict"): b"D",
    ("collections", "deque"): b"Q",
    ("array", "array"): b"A",
    ("decimal", "Decimal"): b"m",
    ("fractions", "Fraction"): b"q",
    ("datetime", "date"): b"y",
    ("datetime", "time"): b"h",
    ("datetime", "datetime"): b"w",
    ("datetime", "timedelta"): b"u",
}
MUTABLE_MAPPINGS = (b"C", b"O", b"D")
# The formats of memory that `memoryview.cast` accepts.
FORMATS = frozenset("bBhHiIlLqQfd?c")
TYPECODES = frozenset("bBhHiIlLqQfd")
# The types of the items of numpy arrays that cross, in numpy's words: numbers and truth values.
ARRAY_ITEMS = frozenset(
    (
        *("|b1", "|i1", "|u1", "<f16", "<c32"),
        *(f"{order}{kind}{size}" for order in "<>" for kind in "iuf" for size in (2, 4, 8)),
        *(f"{order}c{size}" for order in "<>" for size in (8, 16)),
    )
)
MAX_DIMENSIONS = 32


class LimitReached(Exception):
    """The value would exceed one of the bounds."""


def tag_of(kind: Any) -> bytes | None:
    """Return the tag of a type whose values are rebuilt from data, or None for any other type."""
    tag = _VALUE_TYPES.get((kind.__module__, kind.__qualname__))
    return tag if tag is not None and plain.in_library(kind) else None


def is_array(kind: Any) -> bool:
    """Return whether this is the class of numpy's arrays. Arrays exist only if numpy is imported."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and kind is getattr(numpy, "ndarray", None)


def check_exponent(value: Any) -> None:
    """Check that a decimal has no more digits than the bound. Raises LimitReached."""
    if value.is_finite() and abs(value.adjusted()) > MAX_DIGITS:
        raise LimitReached(TOO_MANY_DIGITS)


def add_reduction(before: int, numerator: int, denominator: int) -> int:
    """Return the total cost of reducing all fractions, with one more of them. Raises LimitReached."""
    cost = before + numerator.bit_length() * denominator.bit_length()
    if cost > MAX_REDUCTION:
        raise LimitReached("fractions of more digits than can be reduced in a second")
    return cost


TOO_MANY_BYTES = f"the value has more than {MAX_BYTES:,} bytes"

TOO_MANY_ITEMS = f"the value has more than {MAX_ITEMS:,} items"

TOO_MANY_HANDLES = f"the value holds more than {MAX_HANDLES:,} objects that are not plain data"

TOO_MANY_DIGITS = f"the value holds a number of more than {MAX_DIGITS:,} digits"

TOO_DEEP = f"the value is nested more than {MAX_DEPTH:,} levels deep"


# Keys with the same hash are compared with each other, and the time for that grows with the square of their
# number.
MAX_SAME_HASH = 256

# A comparison visits a shared list once for each path to it. This many items take about a second.
MAX_WEIGHT = 20_000_000


def check_weight(
    root: object, most: int = MAX_WEIGHT, *, handles: bool = True, as_written: bool = False
) -> None:
    """Check that a value costs no more than `most` to compare or to show, or to write if `as_written`.

    A shared value counts once for each path to it. A value inside itself adds nothing. Raises LimitReached,
    and also if `handles` is false and the value contains an object that is not plain data.
    """
    weights: dict[int, int] = {}
    path: list[tuple[object, Iterator[object]]] = [(None, iter((root,)))]
    totals = [0]
    while True:
        container, children = path[-1]
        for child in children:
            kind = base_of(type(child))
            if kind not in _WEIGHED and not issubclass(type(child), (tuple, Lookalike)):
                if not handles and kind not in _PLAIN and tag_of(kind) is None:
                    raise LimitReached("an object that is not plain data")
                totals[-1] += 1 + (child.nbytes if type(child) is memoryview else sys.getsizeof(child)) // 64
                continue
            weight = weights.get(id(child))
            if weight is None:
                weights[id(child)] = 0
                path.append((child, _children(child)))
                totals.append(1)
                break
            if not as_written or issubclass(kind, (tuple, frozenset)) or kind is slice:
                totals[-1] += weight  # Every other value is written once, and later by its number.
        else:
            path.pop()
            total = totals.pop()
            if total > most:
                raise LimitReached(
                    f"the value has more than {most:,} items, counted as often as there are ways to each"
                )
            if not path:
                return
            weights[id(container)] = total
            totals[-1] += total


def _children(container: Any) -> Iterator[object]:
    if issubclass(type(container), Lookalike):
        return iter((container._data,))
    if type(container) is slice:
        return iter((container.start, container.stop, container.step))
    if isinstance(container, defaultdict) and not isinstance(container.default_factory, type):
        # Its text contains its factory's text, which may be an object of the program.
        return chain(container.keys(), container.values(), (container.default_factory,))
    if isinstance(container, dict):
        return chain(container.keys(), container.values())
    if isinstance(container, tuple):
        return tuple.__iter__(container)
    return chain.from_iterable(container) if type(container) is _ITEMS_VIEW else iter(container)


_ITEMS_VIEW: Any = type({}.items())

_WEIGHED = frozenset(
    (
        *KINDS,
        Counter,
        OrderedDict,
        defaultdict,
        deque,
        slice,
        *map(type, ({}.keys(), {}.values())),
        _ITEMS_VIEW,
    )
)

_PLAIN = frozenset(
    (*(type(None), type(...), bool, int, float, complex, str, bytes, bytearray), range, memoryview)
)


def check_hashes(keys: Sequence[Any]) -> None:
    """Check that not too many keys have the same hash, because they are compared. Raises LimitReached."""
    if len(keys) > MAX_SAME_HASH and max(Counter(map(hash, keys)).values()) > MAX_SAME_HASH:
        raise LimitReached(f"the value has more than {MAX_SAME_HASH} keys that share a hash")
