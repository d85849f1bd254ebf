"""Give a value of the program a class of its own if it equals plain data but has another class there.

In one process, `type(Point(1, 2)) is tuple` is False, and so is `isinstance(numpy.int64(5), int)`. An object
of such a class crosses as the plain data that it equals, behind a mark that tells how its class relates to
the data's class. The tests get an instance of a class that this module makes for each built-in class. It has
no name and no method of the program's.
"""

from __future__ import annotations

import operator
from collections import UserList, UserString
from functools import lru_cache

from . import plain
from .values import ValueRefused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

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
_USUAL: dict[Any, type] = {
    list: UserList,
    str: UserString,
}
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
        or base in plain.BUILT_IN
        or ((base.__module__, base.__qualname__) in plain.LIBRARY and plain.in_library(base))
    )


@lru_cache(None)
def _maker(mark: bytes, base: Any) -> Callable[[Any], Any]:
    if mark not in (SUBCLASS, LOOKALIKE) or not _is_known(base) or (mark == SUBCLASS and base is bool):
        raise ValueRefused("a mark of another class on a value that has none")
    if mark == LOOKALIKE:
        return _lookalike_of(base)
    name, bases = f"{base.__name__}_subclass", (Converted, base)
    kind: Any = type(name, bases, {"__slots__": (), "_base": base})
    make = plain.LIBRARY.get((base.__module__, base.__qualname__))
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
