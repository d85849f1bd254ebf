"""Send the tests' requests to the candidate and read its hostile answers."""

from __future__ import annotations

import builtins
import collections
import functools
import operator
import types

from . import changes, conversation, decoding, encoding, exceptions, plain, values
from .conversation import Diverged, RecordFull
from .plain import Lookalike, base_of
from .remote import (
    RemoteCallable,
    RemoteCallableInstance,
    RemoteCallableIterable,
    RemoteCallableObject,
    RemoteClass,
    RemoteCoroutine,
    RemoteInstance,
    RemoteIterable,
    RemoteIterator,
    RemoteObject,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from .conversation import Live, Replay

MAX_CALLBACKS = 1_000_000
MAX_CALLBACK_DEPTH = 50
# A message lends a function once if it lends it again after at most this many others.
MAX_LOOKED_BACK = 20
# A callback may run these C functions on hostile arguments, because they only compute.
PURE_MODULES = ("math", "cmath", "_operator")
# Modules of the iterators that tests make without their own class.
ITERATOR_MODULES = ("builtins", "itertools")
# Modules of the classes whose instances the candidate may call. "tests" is the tests' own namespace.
CLASSES_OF_CALLABLES = ("tests", "unittest.mock")
# These read attributes, or call their arguments.
NEVER_CALLED_BACK = ("format", "format_map", "call")
# The types of plain data whose methods only compute or change the object itself.
OWNERS_OF_METHODS = (str, bytes, bytearray, int, float, list, dict, tuple, set, frozenset, collections.deque)
STAND_INS: dict[int, type[RemoteObject]] = {
    values.OPAQUE: RemoteObject,
    values.ITERATOR: RemoteIterator,
    values.ITERABLE: RemoteIterable,
    values.CALLABLE: RemoteCallable,
    values.CLASS: RemoteCallable,
    values.INSTANCE: RemoteObject,
    values.CALLABLE_INSTANCE: RemoteCallableObject,
    values.CALLABLE_ITERABLE: RemoteCallableIterable,
    values.COROUTINE: RemoteCoroutine,
}
# The same if the reference defines classes, because then instances have attributes.
STAND_INS_WITH_ATTRIBUTES: dict[int, type[RemoteObject]] = {
    **dict.fromkeys((values.INSTANCE, values.ITERABLE), RemoteInstance),
    **dict.fromkeys((values.CALLABLE_INSTANCE, values.CALLABLE_ITERABLE), RemoteCallableInstance),
}

# The names of stand-ins in `values.OBJECT_KINDS`.
KIND_NAMES: dict[type[RemoteObject], str] = {
    RemoteObject: "object",
    RemoteIterator: "iterator",
    RemoteIterable: "iterable",
    RemoteCallable: "function",
    RemoteCallableObject: "callable object",
    RemoteCallableIterable: "callable iterable",
    RemoteCoroutine: "coroutine",
    RemoteClass: "class",
    RemoteInstance: "instance",
    RemoteCallableInstance: "callable instance",
}

# No stand-in equals plain data.
OPAQUE = plain.OPAQUE.union(STAND_INS.values(), STAND_INS_WITH_ATTRIBUTES.values(), (RemoteClass,))
FUNCTION_STAND_INS = (RemoteCallable, RemoteClass)


class CandidateLost(BaseException):
    """The candidate's process is gone or broke the protocol. No test may catch this."""


class UnsupportedTestError(Exception):
    """A test needs something that a candidate in another process cannot provide."""


class RaisedStopIteration(Exception):
    """The program raised StopIteration. No test can expect this class in its place."""


class Candidate:
    """The tests' end of the conversation with the candidate.

    `lost` is set once the candidate cannot be trusted to answer, and `breach` if it broke the protocol.
    `attributes` are the names that the reference's own classes define. If there are none, no object of the
    candidate has attributes.
    """

    def __init__(self, link: Live | Replay, classes: Mapping[str, list[str]]) -> None:
        self._link = link
        self._classes = classes
        self._stand_ins: dict[tuple[type[RemoteObject], int], RemoteObject] = {}
        # The numbers of the objects that the tests use by name.
        self._named: set[int] = set()
        self._exceptions: dict[object, type[BaseException]] = {}
        # The functions that each message lends to the program, by the number of the message and their place
        # in it. A replay may leave out messages, and the numbers of the others must not depend on that.
        self._callbacks: dict[tuple[int, int], Callable[..., Any]] = {}
        self._lent: list[Callable[..., Any]] = []
        # The same names by function, because a function that is lent again keeps its first name.
        self._names: dict[object, tuple[int, int]] = {}
        # The exceptions that these functions raised, by the number of the message that reported each.
        self._raised: dict[int, BaseException] = {}
        self._callbacks_left = MAX_CALLBACKS
        self._callback_depth = 0
        self.attributes = frozenset(name for names in classes.values() for name in names)
        self.lost: str | None = None
        self.breach: str | None = None
        # The exception of this part that the program wanted to suppress, or None.
        self.suppressed: str | None = None
        self.last_call: tuple[tuple[Any, ...], dict[str, Any], list[Any]] | None = None

    @property
    def has_lazy_objects(self) -> bool:
        """Return whether an object of the program other than a function has crossed."""
        return any(kind not in FUNCTION_STAND_INS for kind, _number in self._stand_ins)

    def kinds(self) -> list[str]:
        """Return the names of the kinds of objects that crossed other than plain data, without named objects.

        Call it after the candidate's death, because its duration depends on the tests.
        """
        found = {KIND_NAMES[kind] for kind, number in self._stand_ins if number not in self._named}
        for lent in self._callbacks.values():
            is_iterator = isinstance(lent, types.MethodWrapperType)
            found.add("lent iterator" if is_iterator else "lent function")
        if any(isinstance(number, int) for number in self._exceptions):
            found.add("exception class")
        return [name for name in values.OBJECT_KINDS if name in found]

    def begin_part(self) -> None:
        """Start the next part of the tests. A replay looks for its answers only in this part."""
        self.suppressed = None
        self._link.begin_part()

    def load(self, *sources: str) -> None:
        """Run all sources in the candidate's process, in one namespace."""
        self.ask(conversation.LOAD, sources)

    def get(self, name: str) -> Any:
        """Return what the program defines under `name`: a plain value, a class to catch, or a stand-in."""
        found = self.ask(conversation.GET, name)
        if type(found) is not tuple or len(found) != 2:
            raise self._breach("a name without its value")
        value, description = found
        if isinstance(value, RemoteObject):
            self._named.add(value._number)
        if isinstance(value, RemoteCallable):
            if description is not None:
                return self._class_to_catch(description)
            if name in self._classes:
                return self._stand_in(RemoteClass, value._number)
        self._refuse_to_catch_failures(value)
        return value

    def _class_to_catch(self, description: object) -> type[BaseException]:
        """Return an exception class of the candidate by its description."""
        try:
            kind = exceptions.build_class(description, self._exceptions)
        except plain.ValueRefused as refused:
            raise self._breach(str(refused)) from None
        self._refuse_to_catch_failures(kind)
        return kind

    def _refuse_to_catch_failures(self, value: object) -> None:
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, tuple):
                self._refuse_to_catch_failures(each)
            elif isinstance(each, type) and catches_failures(each):
                raise self._breach(f"its name for {each.__name__} would catch failed assertions of the tests")

    def ask(self, letter: bytes, argument: object) -> Any:
        payload = self._encoder().encode(argument)
        return self._exchange(letter, payload, [])

    def operate(self, operation: str, *operands: Any) -> Any:
        """Ask the candidate to apply an operation to its own object, and return the result."""
        encoder = self._encoder()
        payload = encoder.encode((operation, operands))
        result = self._exchange(conversation.CALL, payload, encoder.containers)
        if operation == "getattr":
            self._refuse_to_catch_failures(result)
        return result

    def leave(self, manager: RemoteObject, error: BaseException | None) -> None:
        """Let the candidate leave a context manager, after an exception if `error` is one.

        A failed assertion stays unknown to the candidate, because its text may contain an expected value. No
        exception is suppressed, because it may fail the test. `suppressed` is set instead, because the test
        may expect that the exception arrives.
        """
        if error is None or isinstance(error, (AssertionError, CandidateLost, Diverged)):
            self.operate("leave", manager, None)
            return
        traceback = error.__traceback__
        description = self._describe(error)
        error.__traceback__ = traceback
        try:
            if self.operate("leave", manager, description) is True:
                self.suppressed = f"a context manager of the program suppressed {type(error).__name__}"
        except Diverged:
            pass  # Only the replay raises `error`, which fails the test with better evidence.

    def leave_generator(self, generator: RemoteObject, error: BaseException) -> Any:
        """Throw an exception into a generator that serves as a context manager, as `leave` does."""
        if isinstance(error, (AssertionError, CandidateLost, Diverged)):
            self.operate("close", generator)
            raise error
        try:
            return self.throw(generator, error)
        except StopIteration:
            self.suppressed = f"a context manager of the program suppressed {type(error).__name__}"
            raise

    def throw(self, generator: RemoteObject, error: BaseException) -> Any:
        """Throw an exception into a generator of the candidate, and return the item that it yields next."""
        traceback = error.__traceback__
        description = self._describe(error)
        error.__traceback__ = traceback
        return self.ask(conversation.NEXT, (generator, "throw", (description,)))

    def call(self, function: RemoteObject, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        encoder = self._encoder()
        payload = encoder.encode((function, args, kwargs) if kwargs else (function, args))
        outcome: list[Any] = []
        self.last_call = (args, kwargs, outcome)
        result = self._exchange(conversation.CALL, payload, encoder.containers)
        outcome.append(result)
        return result

    def _exchange(self, letter: bytes, payload: bytes, containers: list[object]) -> Any:
        if self.lost is not None:
            raise CandidateLost(self.lost)
        try:
            self._send(letter, payload)
            answer, data = self._link.receive()
            while answer == conversation.CALLBACK:
                self._serve_callback(data)
                answer, data = self._link.receive()
            decoder = decoding.Decoder(self._remote, containers)
            value = decoder.decode(data)
            if answer == conversation.CHANGED:
                answer, value = changes.apply(value, containers)
            if answer == conversation.VALUE:
                return value
            if answer == conversation.STOPPED and letter == conversation.NEXT:
                raise StopIteration(value)
            if answer != conversation.RAISED:
                raise conversation.ChannelBreach(f"unknown answer {answer!r}")
            if decoder.has_marks:
                raise conversation.ChannelBreach("an exception with values of other classes")
            error = exceptions.rebuild(value, self._exceptions, self._raised)
        except conversation.ChannelClosed:
            self.lost = "the program's process ended before the tests did"
            raise CandidateLost(self.lost) from None
        except RecordFull as full:
            self.lost = str(full)
            raise CandidateLost(self.lost) from None
        except (conversation.ChannelBreach, plain.ValueRefused) as breach:
            raise self._breach(str(breach)) from None
        if isinstance(error, StopIteration):
            # If a call inside a loop of the test raised StopIteration, the loop would end as if it were
            # complete.
            raise RaisedStopIteration("the program raised StopIteration") from None
        raise error

    def _send(self, letter: bytes, payload: bytes) -> int:
        names = tuple([self._names.get(_key(lent)) for lent in self._lent])
        turn = self._link.send(letter, payload, names, self._lent)
        for name, lent in zip(turn.lent_as, self._lent):
            self._callbacks[name] = lent
            self._names[_key(lent)] = name
        self._lent = []
        return turn.number

    def _breach(self, what: str) -> CandidateLost:
        self.lost = self.breach = f"the program's process broke the protocol: {what}"
        return CandidateLost(self.lost)

    def _serve_callback(self, data: bytes) -> None:
        """Run a function of the tests for the candidate, with the plain arguments that it sends."""
        if self._callbacks_left == 0 or self._callback_depth == MAX_CALLBACK_DEPTH:
            raise conversation.ChannelBreach("the program called the tests' functions too often")
        self._callbacks_left -= 1
        decoder = decoding.Decoder(self._remote)
        try:
            message, place, args, kwargs = decoder.decode(data)
            if type(message) is not int or type(place) is not int:
                raise TypeError
            function = self._callbacks[message, place]
        except (TypeError, ValueError, KeyError):
            raise conversation.ChannelBreach("a call of a function that the tests do not have") from None
        if type(args) is not tuple or type(kwargs) is not dict:
            raise conversation.ChannelBreach("a call without arguments")
        self._callback_depth += 1
        try:
            *reply, raised = self._run_callback(function, args, kwargs, decoder.containers)
        except Exception as error:
            reply, raised = [conversation.RAISED, self._encoder().encode(self._describe(error))], error
        finally:
            self._callback_depth -= 1
        number = self._send(*reply)
        if raised is not None:
            self._raised[number] = raised

    def _run_callback(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        containers: list[object],
    ) -> tuple[bytes, bytes, BaseException | None]:
        """Return the reply, and the exception that the function raised, or None.

        The program gets every exception, because it may swallow one that a test expects to arrive.
        """
        before = changes.snapshot(containers)
        answer, result, raised = conversation.VALUE, None, None
        try:
            result = function(*args, **kwargs)
        except (CandidateLost, Diverged):
            raise
        except BaseException as error:
            answer, result, raised = conversation.RAISED, self._describe(error), error
        return *changes.reply(self._encoder(containers), answer, result, containers, before), raised

    def _describe(self, error: BaseException) -> object:
        return exceptions.describe(error, self._number_of)

    def _number_of(self, kind: type) -> int | None:
        """Return the number of an exception class of the candidate, or None for any other class."""
        for number, known in self._exceptions.items():
            if known is kind and isinstance(number, int):
                return number
        return None

    def _encoder(self, known: Sequence[object] = ()) -> encoding.Encoder:
        """Return the encoder of the next message."""
        self._lent = []
        return encoding.Encoder(self._handle, known, OPAQUE)

    def _handle(self, value: Any) -> tuple[int, int, object]:
        if isinstance(value, RemoteObject):
            return values.OPAQUE, value._number, None
        if isinstance(value, type) and (number := self._number_of(value)) is not None:
            return values.OPAQUE, number, None
        name = getattr(value, "__name__", None)
        if name in values.BUILTIN_NAMES and getattr(builtins, name) is value:
            return values.BUILTIN, values.BUILTIN_NAMES.index(name), None
        if _is_callback_allowed(value):
            return values.CALLBACK, self._lend(value), None
        if hasattr(type(value), "__next__") and type(value).__module__ in ITERATOR_MODULES:
            return values.LENT_ITERATOR, self._lend(value.__next__), None
        raise UnsupportedTestError(f"the test passes a {type(value).__name__}, which is not plain data")

    def _lend(self, function: Callable[..., Any]) -> int:
        for place, lent in enumerate(
            self._lent[-MAX_LOOKED_BACK:], max(len(self._lent) - MAX_LOOKED_BACK, 0)
        ):
            if _key(lent) == _key(function):
                return place
        self._lent.append(function)
        return len(self._lent) - 1

    def _remote(self, kind: int, number: int, description: Any = None) -> object:
        if kind == values.BUILTIN:
            return _built_in_type(number)
        if kind == values.CALLBACK:
            return self._callbacks[description, number]
        if kind in STAND_INS_WITH_ATTRIBUTES and self.attributes:
            return self._stand_in(STAND_INS_WITH_ATTRIBUTES[kind], number)
        return self._stand_in(STAND_INS[kind], number)

    def _stand_in(self, kind: type[RemoteObject], number: int) -> RemoteObject:
        found = self._stand_ins.get((kind, number))
        if found is None:
            found = self._stand_ins[kind, number] = kind(self, number)
        return found


def catches_failures(kind: type) -> bool:
    """Return whether a test that expects this exception would take its own failed assertion for it."""
    return issubclass(kind, BaseException) and issubclass(AssertionError, kind)


def _key(function: Callable[..., Any]) -> object:
    """Return what identifies a function. Each access to a method makes another object."""
    return function if isinstance(function, (types.MethodType, types.BuiltinFunctionType)) else id(function)


def _built_in_type(number: int) -> type:
    """Return a built-in type that the candidate names. Raises ValueRefused for a function."""
    kind = getattr(builtins, values.BUILTIN_NAMES[number])
    if not isinstance(kind, type):
        raise plain.ValueRefused("a built-in function in the place of a value")
    return kind


def _is_callback_allowed(value: object) -> bool:
    """Return whether the candidate may run this function of the tests on arguments of its choice."""
    if isinstance(value, types.MethodType) and isinstance(value.__self__, Lookalike):
        value = getattr(value.__self__._data, value.__name__)
    if isinstance(value, (types.FunctionType, types.MethodType)):
        return True
    if type(value) is functools.partial:
        return _is_callback_allowed(value.func)
    if type(value) is operator.itemgetter:
        return True
    if type(value).__module__ in CLASSES_OF_CALLABLES:
        return callable(value)
    name = getattr(value, "__name__", "")
    if name in NEVER_CALLED_BACK:
        return False
    if isinstance(value, types.MethodDescriptorType):
        return value.__objclass__ in OWNERS_OF_METHODS
    if not isinstance(value, types.BuiltinFunctionType):
        return False
    if base_of(type(value.__self__)) in OWNERS_OF_METHODS:
        return name in ("__contains__", "__getitem__") or not name.startswith("__")
    return value.__module__ in PURE_MODULES
