"""Find the plain data that equals an object of another class.

In one process, `UserList([1]) == [1]` holds, and `array("i", [1]) == [1]` does not. Therefore an object
crosses as plain data if Python finds both equal, and otherwise as a handle. All of this runs on the side that
has the object, so a hostile class can only lie about the data that it submits.
"""

from __future__ import annotations

import operator
import sys
from collections import UserDict, UserList, UserString
from collections.abc import Mapping, Sequence, Set
from functools import lru_cache
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


class ValueRefused(Exception):
    """The value cannot cross, or the bytes violate the format."""


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


# The object's class is a subclass of the data's class.
SUBCLASS = b"s"
# It is another class with the same methods: a scalar of numpy, or a `UserList`.
LOOKALIKE = b"l"

_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_CALCULATIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "truediv", "floordiv", "mod")},
    **{name: getattr(operator, name) for name in ("lshift", "rshift", "xor")},
    "and": operator.and_,
    "or": operator.or_,
    "divmod": divmod,
    "pow": pow,
}
# Methods of every object that take part in comparisons and in text. All others concern the object itself.
_OF_OBJECTS = frozenset(dir(object)) - {
    *(f"__{name}__" for name in (*_COMPARISONS, "hash", "str", "repr", "format"))
}
_KEPT_OUT = _OF_OBJECTS | {"__class_getitem__", "__getnewargs__", "__copy__", "__deepcopy__", "__slots__"}
# The class in the library of all objects that look like one of these. It counts in `isinstance`.
_USUAL: dict[Any, type] = {list: UserList, str: UserString}
_ABSTRACT: dict[Any, tuple[str, str]] = {
    int: ("numbers", "Integral"),
    float: ("numbers", "Real"),
    complex: ("numbers", "Complex"),
    list: ("collections.abc", "MutableSequence"),
    str: ("collections.abc", "Sequence"),
    dict: ("collections.abc", "MutableMapping"),
    frozenset: ("collections.abc", "Set"),
}


class Converted:
    """The base of all classes that this module makes, each for the built-in class `_base`."""

    __slots__ = ()
    _base: Any


class Lookalike(Converted):
    """An object that behaves as the plain data in it, but is not an instance of the data's class."""

    __slots__ = ("_data",)

    def __init__(self, data: Any) -> None:
        self._data = data

    def __copy__(self) -> Lookalike:
        return type(self)(self._data.copy() if hasattr(self._data, "copy") else self._data)

    def __deepcopy__(self, copied: dict[int, Any]) -> Lookalike:
        import copy

        return type(self)(copy.deepcopy(self._data, copied))


def relation(kind: Any, data: object) -> bytes:
    """Return how a class relates to the class of the plain data that its object equals. It may be b""."""
    base = type(data)
    if kind is base or not _is_known(base):
        return b""
    return SUBCLASS if base in kind.__mro__ else LOOKALIKE


def convert(mark: bytes, data: Any) -> Any:
    """Return an object that equals `data`, and whose class has this relation to the data's class.

    A `LOOKALIKE` holds the data itself, and a `SUBCLASS` a copy. Raises ValueRefused if the data has no such
    class.
    """
    base: Any = type(data)
    return _maker(mark, base)(data)


def base_of(kind: Any) -> Any:
    """Return the built-in class that a class of this module is for, and any other class itself."""
    return kind._base if issubclass(kind, Converted) else kind


def data_in(value: Any) -> Any:
    """Return the plain data in a lookalike, and any other value itself."""
    return value._data if issubclass(type(value), Lookalike) else value


def copied(value: Any) -> Any:
    """Return a copy of a container, of the same class."""
    kind: Any = type(value)
    if issubclass(kind, Lookalike):
        return value.__copy__()
    return kind(value) if issubclass(kind, Converted) else value.copy()


def _is_known(base: Any) -> bool:
    return (
        base is bool
        or base in BUILT_IN
        or ((base.__module__, base.__qualname__) in LIBRARY and in_library(base))
    )


@lru_cache(None)
def _maker(mark: bytes, base: Any) -> Callable[[Any], Any]:
    if mark not in (SUBCLASS, LOOKALIKE) or not _is_known(base) or (mark == SUBCLASS and base is bool):
        raise ValueRefused("a mark of another class on a value that has none")
    if mark == LOOKALIKE:
        return _lookalike_of(base)
    name, bases = f"{base.__name__}_subclass", (Converted, base)
    kind: Any = type(name, bases, {"__slots__": (), "_base": base})
    make = LIBRARY.get((base.__module__, base.__qualname__))
    return kind if make is None else lambda data: make(kind, data)


def _lookalike_of(base: Any) -> Callable[[Any], Any]:
    methods: dict[str, Any] = {"__slots__": (), "_base": base}
    for name in dir(base):
        if name in _KEPT_OUT or (name.startswith("_") and not name.startswith("__")):
            continue
        member = getattr(base, name)
        if member is None:
            methods[name] = None  # The objects have no hash.
        else:
            methods[name] = _method(name) if callable(member) else _attribute(name)
    for name in _COMPARISONS:
        methods[f"__{name}__"] = _calculation(f"__{name}__", getattr(operator, name))
    for name, calculate in _CALCULATIONS.items():
        if f"__{name}__" in methods:
            methods[f"__{name}__"] = _calculation(f"__{name}__", calculate)
            methods[f"__r{name}__"] = _reflected(calculate)
        if f"__i{name}__" in methods:
            methods[f"__i{name}__"] = _in_place(f"__i{name}__")
    if base is str:
        # Unlike a text, a `UserString` has these.
        methods.update({f"__{kind.__name__}__": _conversion(kind) for kind in (int, float, complex)})
    if base in _USUAL:
        methods["__class__"] = property(lambda _self: _USUAL[base])
    kind: Any = type(f"{base.__name__}_lookalike", (Lookalike,), methods)
    if base in _ABSTRACT:
        module, name = _ABSTRACT[base]
        getattr(__import__(module, fromlist=[name]), name).register(kind)
    return kind  # type: ignore[no-any-return]


def _method(name: str) -> Any:
    def method(self: Lookalike, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._data, name)(*map(data_in, args), **kwargs)

    method.__name__ = name
    return method


def _attribute(name: str) -> property:
    return property(lambda self: getattr(self._data, name))


def _calculation(name: str, calculate: Callable[..., Any]) -> Any:
    def method(self: Lookalike, *others: Any) -> Any:
        return calculate(self._data, *map(data_in, others))

    method.__name__ = name
    return method


def _reflected(calculate: Callable[..., Any]) -> Any:
    return lambda self, other: calculate(data_in(other), self._data)


def _in_place(name: str) -> Any:
    def method(self: Lookalike, other: Any) -> Any:
        return self if getattr(self._data, name)(data_in(other)) is self._data else NotImplemented

    return method


def _conversion(kind: Any) -> Any:
    return lambda self: kind(self._data)
