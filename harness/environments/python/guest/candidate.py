"""Run the candidate's side: load an untrusted program and serve the requests of the tests.

All of this code runs in the untrusted process and protects nothing. The program can change or replace every
line of it and gains nothing by that, because the tests trust none of the answers.
"""

from __future__ import annotations

import builtins
import copy
import operator
import os
import sys
import types
from importlib.machinery import ModuleSpec

from . import (
    changes,
    contest_preamble,
    conversation,
    decoding,
    encoding,
    exceptions,
    lent_functions,
    plain,
    values,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# The tests import a program as a module, so the code below its main guard must not run.
MODULE_NAME = "candidate"
PROGRAM_NAME = f"{MODULE_NAME}.py"
# A program that contains one of these words may look for its own file, to show its source or to run it in a
# process that is not a fork. Other programs get no file, because writing and removing one takes time.
FILE_READERS = ("multiprocessing", "concurrent", "__file__", "inspect", "linecache", "argv")
# The same types by object, because the program may have replaced them in `builtins`.
BUILTIN_TYPES = {
    id(getattr(builtins, name)): number
    for number, name in enumerate(values.BUILTIN_NAMES)
    if isinstance(getattr(builtins, name), type)
}


class Program:
    """The program's namespace, and the objects of it that the tests hold handles to."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._module = types.ModuleType(MODULE_NAME)
        # A process that multiprocessing spawns runs the main module again, unless the module has this name.
        # Such a process imports the program anyway, as the module of the function to call.
        spec = ModuleSpec("__main__", None, origin=PROGRAM_NAME)
        self._module.__dict__.update(__builtins__=builtins, __file__=PROGRAM_NAME, __spec__=spec)
        self._received = -1
        self._lent_as: list[tuple[int, int]] = []
        self._descriptions: dict[tuple[int, int], Any] = {}
        # The functions of the tests by their names, and the names by the ids of the functions.
        self._lent: dict[tuple[int, int], object] = {}
        self._names: dict[int, tuple[int, int]] = {}
        self._objects: list[object] = []
        self._numbers: dict[int, int] = {}
        self._exceptions: dict[object, type[BaseException]] = {}
        # The exceptions of the tests' functions, each with the number of the message that brought it.
        self._raised: dict[int, tuple[BaseException, int]] = {}

    def serve(self) -> None:
        """Answer the tests' messages until they close the channel."""
        while True:
            try:
                letter, payload = self._receive()
            except conversation.ChannelClosed:
                return
            self._reply(letter, payload)

    def _receive(self) -> tuple[bytes, bytes]:
        letter, payload = conversation.receive(self._descriptor)
        self._lent_as = []
        if letter == conversation.LENT:
            self._lent_as, described, letter, payload = conversation.unpack_lent(payload)
            if described:
                new = [name for name in self._lent_as if name[0] == self._received + 1]
                self._descriptions.update(zip(new, decoding.Decoder(self._object).decode(described)))
        self._received += 1
        return letter, payload

    def _reply(self, letter: bytes, payload: bytes) -> None:
        try:
            reply = self._answer(letter, payload)
        except BaseException as error:
            reply = conversation.RAISED, self._encode(self._describe(error), marks=False)
        conversation.send(self._descriptor, *reply)

    def _answer(self, letter: bytes, payload: bytes) -> tuple[bytes, bytes]:
        if letter == conversation.CALL:
            return self._call(payload)
        argument = decoding.Decoder(self._object).decode(payload)
        if letter == conversation.GET:
            return conversation.VALUE, self._get(argument)
        if letter == conversation.NEXT:
            return self._next(argument)
        if letter == conversation.TRUTH:
            return conversation.VALUE, self._encode(bool(argument))
        self._load(argument)
        return conversation.VALUE, self._encode(None)

    def _load(self, sources: tuple[str, ...]) -> None:
        module = contest_preamble.find(sources[0]) if sources[0] else None
        if module is not None:
            module.__dict__.update(self._module.__dict__)
            self._module = module
        sys.modules[MODULE_NAME] = sys.modules["__main__"] = self._module
        if any(name in source for source in sources for name in FILE_READERS):
            self._module.__file__ = _write_program(sources)
        if module is not None:
            contest_preamble.finish(module.__dict__)
            sources = sources[1:]
        for source in filter(None, sources):
            exec(compile(source, PROGRAM_NAME, "exec", dont_inherit=True), self._module.__dict__)

    def _get(self, name: str) -> bytes:
        """Return the object of that name.

        For an exception class, add its description.
        """
        try:
            value = self._module.__dict__[name]
        except KeyError:
            raise NameError(f"name '{name}' is not defined") from None
        description = None
        if isinstance(value, type) and issubclass(value, BaseException):
            description = exceptions.describe_class(value, self._number_of)
        found = plain.as_function(value) if callable(value) else value, description
        return self._encode(found, marks=description is None)

    def _call(self, payload: bytes) -> tuple[bytes, bytes]:
        decoder = decoding.Decoder(self._object)
        function, args, *rest = decoder.decode(payload)
        kwargs = rest[0] if rest else {}
        if function == "leave":
            function, args = leave, (args[0], self._rebuild(args[1]))
        elif type(function) is str:
            function = OPERATIONS[function]
        known = decoder.containers
        before = changes.snapshot(known)
        answer, result = conversation.VALUE, None
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            answer, result = conversation.RAISED, self._describe(error)
        encoder = encoding.Encoder(self._handle, known, marks=answer == conversation.VALUE)
        return changes.reply(encoder, answer, result, known, before)

    def _next(self, iterator: Any) -> tuple[bytes, bytes]:
        step: str = "__next__"
        args: tuple[Any, ...] = ()
        if type(iterator) is tuple:
            iterator, step, args = iterator
        if step == "throw":
            args = tuple(map(self._rebuild, args))
        try:
            return conversation.VALUE, self._encode(getattr(iterator, step)(*args))
        except StopIteration as stop:
            return conversation.STOPPED, self._encode(stop.value)

    def _call_back(self, name: tuple[int, int], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function of the tests in their process. The function may call this program in turn.

        `name` is the number of the message that lent the function first, and its place in that message.
        """
        encoder = encoding.Encoder(self._handle, marks=True)
        conversation.send(self._descriptor, conversation.CALLBACK, encoder.encode((*name, args, kwargs)))
        while True:
            letter, payload = self._receive()
            if letter in (conversation.VALUE, conversation.RAISED, conversation.CHANGED):
                break
            self._reply(letter, payload)
        result = decoding.Decoder(self._object, encoder.containers).decode(payload)
        if letter == conversation.CHANGED:
            letter, result = changes.apply(result, encoder.containers)
        if letter == conversation.RAISED:
            error = exceptions.rebuild(result, self._exceptions)
            self._raised[id(error)] = error, self._received
            raise error
        return result

    def _handle(self, value: object) -> tuple[int, int, object]:
        if id(value) in BUILTIN_TYPES:
            return values.BUILTIN, BUILTIN_TYPES[id(value)], None
        name = self._names.get(id(value))
        if name is not None:
            return values.CALLBACK, name[1], name[0]
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._objects)
            # The reference keeps the object alive, because an id is valid only while its object lives.
            self._objects.append(value)
        return _kind_of(value), number, None

    def _object(self, kind: int, number: int, _description: object) -> object:
        if kind == values.BUILTIN:
            return getattr(builtins, values.BUILTIN_NAMES[number])
        if kind not in (values.CALLBACK, values.LENT_ITERATOR):
            return self._objects[number]
        name = self._lent_as[number]
        if kind == values.LENT_ITERATOR:
            return LentIterator(lambda: self._call_back(name, (), {}))
        if name not in self._lent:
            description = self._descriptions.pop(name, None)
            function = lent_functions.build(lambda *given: self._call_back(name, *given), description)
            self._lent[name] = function
            self._names[id(function)] = name
        return self._lent[name]

    def _rebuild(self, description: Any) -> BaseException | None:
        return None if description is None else exceptions.rebuild(description, self._exceptions)

    def _describe(self, error: BaseException) -> object:
        return exceptions.describe(error, self._number_of, self._number_of_raised)

    def _number_of(self, kind: Any) -> int:
        number = self._handle(kind)[1]
        self._exceptions[number] = kind
        return number

    def _number_of_raised(self, error: BaseException) -> int | None:
        return self._raised.get(id(error), (None, None))[1]

    def _encode(self, value: object, *, marks: bool = True) -> bytes:
        """Return the bytes of a value. An exception has no marks, because the tests rebuild it."""
        return encoding.Encoder(self._handle, marks=marks).encode(value)


class LentIterator:
    """An iterator of the tests. Their process supplies each item."""

    def __init__(self, advance: Callable[[], Any]) -> None:
        self._advance = advance

    def __iter__(self) -> LentIterator:
        return self

    def __next__(self) -> Any:
        return self._advance()


def _kind_of(value: object) -> int:
    kind = type(value)
    if issubclass(kind, type):
        return values.CLASS
    if hasattr(kind, "__next__"):
        return values.ITERATOR
    if kind is types.CoroutineType:
        return values.COROUTINE
    called = callable(value)
    if hasattr(kind, "__iter__") or _is_old_sequence(value, kind):
        return values.CALLABLE_ITERABLE if called else values.ITERABLE
    if kind.__module__ in (MODULE_NAME, "__main__"):
        return values.CALLABLE_INSTANCE if called else values.INSTANCE
    return values.CALLABLE if called else values.OPAQUE


def _is_old_sequence(value: Any, kind: Any) -> bool:
    """Return whether an object without `__iter__` can be iterated, by `__getitem__` alone."""
    if not hasattr(kind, "__getitem__"):
        return False
    try:
        iter(value)
    except TypeError:
        return False
    return True


def _write_program(sources: tuple[str, ...]) -> str:
    """Write a program to a file in the working folder, and return its path."""
    path = os.path.abspath(PROGRAM_NAME)
    given = [source for source in sources if source.strip()]
    if len(given) == 1 and given[0].isascii():
        text = given[0]
    else:
        # Each source may begin with imports from __future__, and a file has only one place for these.
        text = "".join(f'exec(compile({part!a}, __file__, "exec", dont_inherit=True))\n' for part in given)
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    except OSError:
        pass  # Most programs do not need the file and run without it.
    return path


def serve(descriptor: int) -> None:
    """Be the candidate on `descriptor` until the tests close the channel."""
    Program(descriptor).serve()


def prepare_interpreter(packages: Callable[[], list[str]]) -> None:
    """Give a bare interpreter site's builtins and paths, as a program that runs from a file finds them."""
    import site

    site.setquit()
    site.setcopyright()
    site.sethelper()
    sys.argv = [PROGRAM_NAME]
    sys.path[:] = [*packages(), ""]


CALCULATIONS: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(operator, name)
        for name in ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod")
    },
    **{name: getattr(operator, name) for name in ("lshift", "rshift", "xor")},
    "and": operator.and_,
    "or": operator.or_,
    "pow": pow,
    "divmod": divmod,
}


def enter(value: Any) -> Any:
    """Enter a context manager as `with` does."""
    kind = type(value)
    if not hasattr(kind, "__enter__") or not hasattr(kind, "__exit__"):
        raise TypeError(f"'{kind.__name__}' object does not support the context manager protocol")
    return kind.__enter__(value)


def leave(value: Any, error: BaseException | None) -> bool:
    """Leave a context manager as `with` does, and return whether it suppresses the error.

    An error that it raises again stays with the tests.
    """
    try:
        return bool(type(value).__exit__(value, None if error is None else type(error), error, None))
    except BaseException as raised:
        if raised is not error:
            raise
        return False


def run_coroutine(coroutine: Any) -> Any:
    """Return the result of a coroutine. All coroutines of a program run in one event loop."""
    import asyncio

    try:
        loop = asyncio.get_event_loop_policy().get_event_loop()
    except RuntimeError:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
    return loop.run_until_complete(coroutine)


def numbers_in(value: Any) -> tuple[object, ...]:
    """Return the object as a float, as an integer and as an index, with None for each that it is not."""
    return _as_number(float, value), _as_number(int, value), _as_number(operator.index, value)


def _as_number(convert: Callable[[Any], Any], value: Any) -> float | int | None:
    if not hasattr(type(value), "__index__") and not hasattr(type(value), f"__{convert.__name__}__"):
        return None
    try:
        number = convert(value)
    except Exception:
        return None
    return number if convert is float else int(number)


def _reflect(calculate: Callable[..., Any]) -> Callable[..., Any]:
    return lambda value, other: calculate(other, value)


OPERATIONS: dict[str, Callable[..., Any]] = {
    **{kind.__name__: kind for kind in (getattr, setattr, delattr, str, repr, len, iter, hash, format)},
    **{
        kind.__name__: kind
        for kind in (isinstance, issubclass, int, float, complex, bytes, abs, round, reversed)
    },
    **{name: getattr(operator, name) for name in ("eq", "lt", "le", "gt", "ge", "contains", "index")},
    **{name: getattr(operator, name) for name in ("getitem", "setitem", "delitem", "neg", "pos", "invert")},
    **CALCULATIONS,
    **{f"r{name}": _reflect(calculate) for name, calculate in CALCULATIONS.items()},
    **{f"i{name}": getattr(operator, f"i{name}", calculate) for name, calculate in CALCULATIONS.items()},
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "enter": enter,
    "close": operator.methodcaller("close"),
    "await": run_coroutine,
    "numbers": numbers_in,
}
