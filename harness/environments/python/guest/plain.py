"""Find the plain data that equals an object of another class.

In one process, `UserList([1]) == [1]` holds, and `array("i", [1]) == [1]` does not. Therefore an object
crosses as plain data if Python finds both equal, and otherwise as a handle. All of this runs on the side that
has the object, so a hostile class can only lie about the data that it submits.
"""

from __future__ import annotations

import sys
from collections import UserDict, UserList, UserString
from collections.abc import Mapping, Sequence, Set
from types import BuiltinFunctionType, FunctionType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Classes whose objects never equal plain data. Most objects that cross are functions, and the look at all
# classes below costs as much as the rest of their way.
OPAQUE: frozenset[Any] = frozenset((FunctionType, BuiltinFunctionType, type))

# The modules of a program's own classes, whose objects the tests may use by methods of the class.
PROGRAM_MODULES = ("candidate", "__main__")

BUILT_IN: dict[Any, Callable[[Any, Any], object]] = {
    **dict.fromkeys((int, float, complex), lambda base, value: base.__pos__(value)),
    str: lambda _base, value: str.__str__(value),
    **dict.fromkeys((bytes, bytearray), lambda base, value: base(base.__getitem__(value, slice(None)))),
    **dict.fromkeys((list, tuple, set, frozenset), lambda base, value: base(base.__iter__(value))),
    dict: lambda _base, value: dict(dict.items(value)),
}
LIBRARY: dict[tuple[str, str], Callable[[Any, Any], object]] = {
    ("collections", "Counter"): lambda base, value: base(dict(dict.items(value))),
    ("collections", "OrderedDict"): lambda base, value: base(base.items(value)),
    ("collections", "defaultdict"): lambda base, value: base(value.default_factory, dict.items(value)),
    ("collections", "deque"): lambda base, value: base(base.__iter__(value), value.maxlen),
    ("array", "array"): lambda base, value: base(value.typecode, base.__iter__(value)),
    ("decimal", "Decimal"): lambda base, value: base(value),
    ("fractions", "Fraction"): lambda base, value: base(value),
    ("datetime", "datetime"): lambda base, value: base.combine(base.date(value), base.timetz(value)),
    ("datetime", "date"): lambda base, value: base(value.year, value.month, value.day),
    ("datetime", "time"): lambda base, value: base(
        value.hour, value.minute, value.second, value.microsecond, value.tzinfo, fold=value.fold
    ),
    ("datetime", "timedelta"): lambda base, value: base(value.days, value.seconds, value.microseconds),
}


def inside(value: Any, kind: Any) -> object | None:
    """Return the data, of exactly a built-in or a library type, that `value` equals, or None."""
    try:
        data, certain = _data_of(value, kind)
        if certain or data is None or data != data or value == data:
            return data
    except Exception:
        pass  # An object that raises in a comparison equals nothing.
    return None


def in_library(kind: Any) -> bool:
    """Return whether a class is the class of the standard library that its name states.

    The module is not imported for this, because an instance of the class can exist only after the import.
    """
    return getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is kind


def as_function(value: Any) -> Any:
    """Return a callable that crosses as one: the method of an object that would otherwise cross as data."""
    kind = type(value)
    if value is None or kind in (FunctionType, BuiltinFunctionType) or issubclass(kind, type):
        return value
    if hasattr(kind, "__next__") or inside(value, kind) is not None:
        return value.__call__
    return value


def _data_of(value: Any, kind: Any) -> tuple[object | None, bool]:
    """Return the data in a value, and whether its class guarantees that both are equal."""
    data: Any
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.generic, numpy.ndarray)):
        return _data_of_numpy(value, kind)
    for base in kind.__mro__:
        make = BUILT_IN.get(base) or LIBRARY.get((base.__module__, base.__qualname__))
        if make is not None and (base in BUILT_IN or in_library(base)):
            return make(base, value), kind.__eq__ is base.__eq__
    if issubclass(kind, UserList):
        data = value.data
        return (data if type(data) is list else list(data)), kind.__eq__ is UserList.__eq__
    if issubclass(kind, UserString):
        return str(value.data), kind.__eq__ is UserString.__eq__
    if kind is UserDict:
        return value.data, False
    if kind.__module__ not in PROGRAM_MODULES:
        if issubclass(kind, Sequence):
            return list(value), False
        numbers = sys.modules.get("numbers")
        if numbers is not None and issubclass(kind, numbers.Number):
            return _data_of_number(value, kind, numbers), False
    if issubclass(kind, Mapping):
        return dict(value.items()), kind.__eq__ is Mapping.__eq__
    if issubclass(kind, Set):
        return frozenset(value), kind.__eq__ is Set.__eq__
    return None, False


def _data_of_number(value: Any, kind: Any, numbers: Any) -> object:
    """Return the number of Python in a number of a library, such as gmpy2's or SymPy's."""
    if issubclass(kind, numbers.Integral):
        return int(value)
    if issubclass(kind, numbers.Rational):
        from fractions import Fraction

        return Fraction(int(value.numerator), int(value.denominator))
    return float(value) if issubclass(kind, numbers.Real) else complex(value)


def _data_of_numpy(value: Any, kind: Any) -> tuple[object | None, bool]:
    """Return the built-in value in a numpy scalar, or in a numpy array without dimensions."""
    if value.ndim:
        return None, False
    data = value.item()
    if type(data) is kind:
        data = float(data)  # A numpy float may have more bits than Python's.
    return data, type(data) in (int, bool)
