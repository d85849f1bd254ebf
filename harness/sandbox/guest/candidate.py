"""The candidate's side: load a program that was handed in, and do what the tests ask of it.

All of this runs in the hostile process. Nothing here protects anything: the program can change or
replace every line of it, and gains nothing, because the tests trust none of what comes back.
"""

from __future__ import annotations

import builtins
import operator
import sys
import types

from . import changes, channel, exceptions, values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PROGRAM_NAME = "candidate.py"
# What the tests may do with an object beside calling it: by name, since an operator is no attribute.
OPERATIONS: dict[str, Callable[..., Any]] = {
    **{kind.__name__: kind for kind in (getattr, setattr, delattr, str, repr, len, iter, hash, isinstance)},
    **{name: getattr(operator, name) for name in ("eq", "lt", "le", "gt", "ge", "contains")},
    **{name: getattr(operator, name) for name in ("getitem", "setitem", "delitem", "neg", "add", "sub")},
    **{name: getattr(operator, name) for name in ("mul", "truediv", "floordiv", "mod")},
}


class Program:
    """The program's namespace, and the objects of it that the tests hold handles to."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._module = types.ModuleType("__main__")
        self._module.__dict__.update(__builtins__=builtins, __file__=PROGRAM_NAME)
        self._objects: list[object] = []
        self._numbers: dict[int, int] = {}

    def serve(self) -> None:
        """Answer the tests' messages until they hang up."""
        while True:
            try:
                letter, payload = channel.receive(self._descriptor)
            except channel.ChannelClosed:
                return
            self._reply(letter, payload)

    def _reply(self, letter: bytes, payload: bytes) -> None:
        try:
            reply = self._answer(letter, payload)
        except BaseException as error:
            reply = channel.RAISED, self._encode(self._described(error))
        channel.send(self._descriptor, *reply)

    def _answer(self, letter: bytes, payload: bytes) -> tuple[bytes, bytes]:
        if letter == channel.CALL:
            return self._call(payload)
        argument = values.Decoder(self._object).decode(payload)
        if letter == channel.GET:
            return channel.VALUE, self._get(argument)
        if letter == channel.NEXT:
            return self._next(argument)
        if letter == channel.TRUTH:
            return channel.VALUE, self._encode(bool(argument))
        self._load(argument)
        return channel.VALUE, self._encode(None)

    def _load(self, sources: tuple[str, ...]) -> None:
        sys.modules["__main__"] = self._module
        for source in sources:
            exec(compile(source, PROGRAM_NAME, "exec", dont_inherit=True), self._module.__dict__)

    def _get(self, name: str) -> bytes:
        """The object of that name and, for an exception class, its nearest built-in base and all between."""
        try:
            value = self._module.__dict__[name]
        except KeyError:
            raise NameError(f"name '{name}' is not defined") from None
        lineage = None
        if isinstance(value, type) and issubclass(value, BaseException):
            own = [kind for kind in value.__mro__[1:] if exceptions.is_own(kind)]
            lineage = exceptions.base_of(value), tuple((self._handle(kind)[1], kind.__name__) for kind in own)
        return self._encode((value, lineage))

    def _call(self, payload: bytes) -> tuple[bytes, bytes]:
        decoder = values.Decoder(self._object)
        function, args, kwargs = decoder.decode(payload)
        if type(function) is str:
            function = OPERATIONS[function]
        known = decoder.containers
        before = changes.snapshot(known)
        answer, result = channel.VALUE, None
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            answer, result = channel.RAISED, self._described(error)
        return changes.reply(values.Encoder(self._handle, known), answer, result, known, before)

    def _next(self, iterator: Any) -> tuple[bytes, bytes]:
        try:
            return channel.VALUE, self._encode(next(iterator))
        except StopIteration as stop:
            return channel.STOPPED, self._encode(stop.value)

    def _call_back(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function of the tests' in their process. It may call into this program again."""
        encoder = values.Encoder(self._handle)
        channel.send(self._descriptor, channel.CALLBACK, encoder.encode((number, args, kwargs)))
        while True:
            letter, payload = channel.receive(self._descriptor)
            if letter in (channel.VALUE, channel.RAISED, channel.CHANGED):
                break
            self._reply(letter, payload)
        result = values.Decoder(self._object, encoder.containers).decode(payload)
        if letter == channel.CHANGED:
            letter, result = changes.apply(result, encoder.containers)
        if letter == channel.RAISED:
            raise exceptions.rebuild(result, {})
        return result

    def _handle(self, value: object) -> tuple[int, int]:
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._objects)
            self._objects.append(value)  # kept: an id means something only while its object lives
        return _kind_of(value), number

    def _object(self, kind: int, number: int) -> object:
        if kind == values.BUILTIN:
            return getattr(builtins, values.BUILTIN_NAMES[number])
        if kind == values.LENT_ITERATOR:
            return LentIterator(lambda: self._call_back(number, (), {}))
        if kind != values.CALLBACK:
            return self._objects[number]

        def callback(*args: Any, **kwargs: Any) -> Any:
            return self._call_back(number, args, kwargs)

        return callback

    def _described(self, error: BaseException) -> tuple[object, ...]:
        numbers = (self._numbers.get(id(kind)) for kind in type(error).__mro__)
        return exceptions.describe(error, next((number for number in numbers if number is not None), None))

    def _encode(self, value: object) -> bytes:
        return values.Encoder(self._handle).encode(value)


class LentIterator:
    """An iterator of the tests': each item is asked of their process."""

    def __init__(self, advance: Callable[[], Any]) -> None:
        self._advance = advance

    def __iter__(self) -> LentIterator:
        return self

    def __next__(self) -> Any:
        return self._advance()


def _kind_of(value: object) -> int:
    kind = type(value)
    if isinstance(value, type):
        return values.CLASS
    if hasattr(kind, "__next__"):
        return values.ITERATOR
    if hasattr(kind, "__iter__"):
        return values.ITERABLE
    if kind.__module__ == "__main__":
        return values.INSTANCE
    return values.CALLABLE if callable(value) else values.OPAQUE


def serve(descriptor: int) -> None:
    """Be the candidate on `descriptor` until the tests hang up."""
    Program(descriptor).serve()


def prepare_interpreter(packages: Callable[[], list[str]]) -> None:
    """Give a bare interpreter what a program run from a file would find: site's builtins and paths."""
    import _sitebuiltins

    for name in ("exit", "quit"):
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D (i.e. EOF)"))
    builtins.help = _sitebuiltins._Helper()
    sys.argv = [PROGRAM_NAME]
    sys.path[:] = [*packages(), ""]
