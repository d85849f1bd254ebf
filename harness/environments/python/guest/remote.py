"""Stand-ins, in the tests' process, for objects of the candidate that are not plain data.

Trusted code decides which requests a stand-in accepts, and the candidate does not. A function can be called,
an iterator can be iterated, and every other object has only a truth value. If the reference defines a class
that the tests use, its instances also have what that class defines. A plain value never goes to the candidate
for a comparison, so `==` with plain data is False.
"""

from __future__ import annotations

import math

from . import conversation
from .plain import data_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from typing import Any

    from .peer import Candidate


class RemoteObject:
    """An opaque object, which has only a truth value."""

    __slots__ = ("_candidate", "_number", "_numbers")
    _candidate: Candidate
    _number: int
    _numbers: tuple[Any, ...] | None

    def __init__(self, candidate: Candidate, number: int) -> None:
        object.__setattr__(self, "_candidate", candidate)
        object.__setattr__(self, "_number", number)
        object.__setattr__(self, "_numbers", None)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute of the object, which raises if the object allows none. It cannot be read."""
        self._candidate.operate("setattr", self, name, value)

    def __delattr__(self, name: str) -> None:
        self._candidate.operate("delattr", self, name)

    def __bool__(self) -> bool:
        return self._candidate.ask(conversation.TRUTH, self) is True

    def __repr__(self) -> str:
        return f"<an object of the program's, number {self._number}>"

    def __float__(self) -> float:
        return self._as_number(0)  # type: ignore[no-any-return]

    def __int__(self) -> int:
        return self._as_number(1)  # type: ignore[no-any-return]

    def __index__(self) -> int:
        return self._as_number(2)  # type: ignore[no-any-return]

    def __enter__(self) -> Any:
        return self._candidate.operate("enter", self)

    def __exit__(self, kind: Any, error: BaseException | None, _traceback: object) -> None:
        """Leave a context manager. It cannot suppress an exception, which may be a failed test."""
        self._candidate.leave(self, error)

    def _as_number(self, place: int) -> Any:
        """Return the object as a float, an integer or an index.

        The candidate is asked once, because an object with another number each time could meet any condition.
        """
        if self._numbers is None:
            object.__setattr__(self, "_numbers", _check_consistent(self._candidate.operate("numbers", self)))
        number = self._numbers[place]  # type: ignore[index]
        if number is None:
            raise TypeError(f"the object is not {('a float', 'an integer', 'an index')[place]}")
        return number


class RemoteIterator(RemoteObject):
    """An iterator. Each item is fetched when the tests ask for it."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._candidate.ask(conversation.NEXT, self)

    def send(self, value: Any) -> Any:
        return self._candidate.ask(conversation.NEXT, (self, "send", (value,)))

    def throw(self, kind: Any, value: BaseException | None = None, _traceback: object = None) -> Any:
        """Throw an exception into a generator. `contextlib` alone passes three arguments.

        It does so when a test leaves a context manager that is made of the generator.
        """
        if value is not None:
            return self._candidate.leave_generator(self, value)
        return self._candidate.throw(self, kind() if isinstance(kind, type) else kind)

    def close(self) -> None:
        self._candidate.operate("close", self)

    def __bool__(self) -> bool:
        return True


class RemoteCoroutine(RemoteObject):
    """A coroutine. The program runs it to its end when the tests await it."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, Any]:
        return self._candidate.operate("await", self)
        yield

    def send(self, _value: None) -> Any:
        raise StopIteration(self._candidate.operate("await", self))

    def throw(self, error: Any) -> Any:
        raise error

    def close(self) -> None:
        self._candidate.operate("close", self)

    def __bool__(self) -> bool:
        return True


class RemoteIterable(RemoteObject):
    """An object that can be iterated. A list of its items would be an equivalent result."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        iterator = self._candidate.operate("iter", self)
        if not isinstance(iterator, RemoteIterator):
            raise TypeError("iter() returned no iterator")
        return iterator


class RemoteCallable(RemoteObject):
    """A function or a class that can be called."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._candidate.call(self, args, kwargs)

    def __bool__(self) -> bool:
        return True

    @property
    def __name__(self) -> str:
        name = self._candidate.operate("getattr", self, "__name__")
        if not isinstance(name, str):
            raise AttributeError("the object has no name")
        return name

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        text = self._candidate.operate("getattr", self, "__doc__")
        return text if isinstance(text, str) else None


class RemoteCallableObject(RemoteCallable):
    """An object that can be called. Unlike a function, it may be false."""

    __slots__ = ()

    __bool__ = RemoteObject.__bool__


class RemoteCallableIterable(RemoteCallableObject, RemoteIterable):
    """An object that can be called and iterated."""

    __slots__ = ()


class RemoteAttributes(RemoteObject):
    """An object whose attributes the tests may use if the reference's classes define them."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name not in self._candidate.attributes:
            raise AttributeError(f"the reference defines no attribute '{name}'")
        return self._candidate.operate("getattr", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._candidate.attributes:
            raise AttributeError(f"the reference defines no attribute '{name}'")
        self._candidate.operate("setattr", self, name, value)

    def __copy__(self) -> Any:
        return self._candidate.operate("copy", self)

    def __deepcopy__(self, _copied: object) -> Any:
        return self._candidate.operate("deepcopy", self)

    def __reduce_ex__(self, _protocol: object) -> Any:
        raise TypeError("an object of the program cannot be pickled outside of it")


class RemoteClass(RemoteAttributes, RemoteCallable):
    """A class that the reference defines too."""

    __slots__ = ()

    def __instancecheck__(self, value: object) -> bool:
        return (
            isinstance(value, RemoteInstance) and self._candidate.operate("isinstance", value, self) is True
        )

    def __subclasscheck__(self, value: object) -> bool:
        return isinstance(value, RemoteClass) and self._candidate.operate("issubclass", value, self) is True


class RemoteInstance(RemoteAttributes, RemoteIterable):
    """An instance of such a class. It has the special methods that the reference's classes define."""

    __slots__ = ()

    def _special(self, name: str, operation: str, *operands: Any) -> Any:
        if name not in self._candidate.attributes:
            raise TypeError(f"the reference defines no {name}")
        return self._candidate.operate(operation, self, *operands)

    def _calculate(self, name: str, operation: str, *operands: Any) -> Any:
        if name not in self._candidate.attributes:
            return NotImplemented
        return self._candidate.operate(operation, self, *operands)

    def _compare(self, name: str, operation: str, other: object) -> Any:
        if name not in self._candidate.attributes or not isinstance(other, RemoteInstance):
            return NotImplemented
        return data_in(self._candidate.operate(operation, self, other)) is True

    def __eq__(self, other: object) -> Any:
        return self._compare("__eq__", "eq", other)

    def __hash__(self) -> int:
        if "__hash__" not in self._candidate.attributes:
            return hash(self._number)
        value = self._special("__hash__", "hash")
        return value if type(value) is int else 0

    def __str__(self) -> str:
        return self._text("__str__", "str") or self.__repr__()

    def __repr__(self) -> str:
        return self._text("__repr__", "repr") or super().__repr__()

    def _as_number(self, place: int) -> Any:
        operation, kind = (("float", float), ("int", int), ("index", int))[place]
        if f"__{operation}__" not in self._candidate.attributes:
            return super()._as_number(place)
        number = self._candidate.operate(operation, self)
        if type(number) is not kind:
            raise TypeError(f"__{operation}__ returned a value of another type")
        return number

    def __format__(self, spec: str) -> str:
        if "__format__" not in self._candidate.attributes:
            return super().__format__(spec)
        value = self._special("__format__", "format", spec)
        return value if isinstance(value, str) else ""

    def _text(self, name: str, operation: str) -> str:
        value = self._special(name, operation) if name in self._candidate.attributes else ""
        return value if isinstance(value, str) else ""

    def __len__(self) -> int:
        value: int = self._special("__len__", "len")
        return value

    def __contains__(self, item: Any) -> bool:
        return self._special("__contains__", "contains", item) is True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if "__call__" not in self._candidate.attributes:
            raise TypeError("the reference defines no __call__")
        return self._candidate.call(self, args, kwargs)


class RemoteCallableInstance(RemoteInstance, RemoteCallableObject):
    """An instance that can be called, even if the reference's classes do not define this."""

    __slots__ = ()

    __bool__ = RemoteObject.__bool__
    __call__ = RemoteCallable.__call__


def _check_consistent(numbers: Any) -> tuple[Any, ...]:
    """Return a float, an integer and an index, each possibly None. Raises TypeError if they differ."""
    if type(numbers) is not tuple or len(numbers) != 3:
        raise TypeError("the object is not a number")
    if any(type(number) not in (type(None), kind) for number, kind in zip(numbers, (float, int, int))):
        raise TypeError("the object is a number of another type")
    real, whole, index = numbers
    if not _agree(real, whole) or not _agree(real, index) or (index is not None and index != whole):
        raise TypeError("the object has several different values as a number")
    return numbers


def _agree(real: float | None, whole: int | None) -> bool:
    """Return whether an integer equals a float, rounded in any direction. A float has 53 bits."""
    if real is None or whole is None:
        return True
    try:
        return abs(real - whole) <= 1 + abs(real) * 2**-52 < math.inf
    except OverflowError:
        return False


def _operator(name: str, operation: str) -> Callable[..., Any]:
    def special(self: RemoteInstance, *operands: Any) -> Any:
        return self._special(name, operation, *operands)

    return special


def _calculation(name: str, operation: str) -> Callable[..., Any]:
    def calculate(self: RemoteInstance, *operands: Any) -> Any:
        return self._calculate(name, operation, *operands)

    return calculate


def _comparison(name: str, operation: str) -> Callable[..., Any]:
    def compare(self: RemoteInstance, other: object) -> Any:
        return self._compare(name, operation, other)

    return compare


OPERATORS = (
    *("getitem", "setitem", "delitem", "neg", "pos", "abs", "invert", "round", "reversed", "complex"),
    "bytes",
)
CALCULATIONS = (
    *("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow"),
    *("lshift", "rshift", "and", "or", "xor"),
)
COMPARISONS = ("lt", "le", "gt", "ge")
for _name in OPERATORS:
    setattr(RemoteInstance, f"__{_name}__", _operator(f"__{_name}__", _name))
for _name in CALCULATIONS:
    # Reflected and in place too. Python tries another way if the reference does not define the method.
    for _form in (_name, f"r{_name}", f"i{_name}"):
        setattr(RemoteInstance, f"__{_form}__", _calculation(f"__{_form}__", _form))
for _name in COMPARISONS:
    setattr(RemoteInstance, f"__{_name}__", _comparison(f"__{_name}__", _name))
