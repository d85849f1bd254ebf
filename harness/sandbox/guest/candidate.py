"""The candidate's side: load a program that was handed in, and do what the tests ask of it.

All of this runs in the hostile process. Nothing here protects anything: the program can change or
replace every line of it, and gains nothing, because the tests trust none of what comes back.
"""

from __future__ import annotations

import builtins
import sys
import types

from . import channel, values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PROGRAM_NAME = "candidate.py"
MAX_TEXT = 10_000


class Program:
    """The program's namespace, and the objects of it that the tests hold handles to."""

    def __init__(self) -> None:
        self.module = types.ModuleType("__main__")
        self.module.__dict__.update(__builtins__=builtins, __file__=PROGRAM_NAME)
        self.objects: list[object] = []

    def handle_of(self, value: object) -> tuple[int, int]:
        self.objects.append(value)
        kind = values.OPAQUE
        if hasattr(type(value), "__next__"):
            kind = values.ITERATOR
        elif callable(value):
            kind = values.CALLABLE
        return kind, len(self.objects) - 1

    def object_of(self, _kind: int, number: int) -> object:
        return self.objects[number]

    def load(self, sources: tuple[str, ...]) -> None:
        sys.modules["__main__"] = self.module
        for source in sources:
            exec(compile(source, PROGRAM_NAME, "exec", dont_inherit=True), self.module.__dict__)

    def get(self, name: str) -> bytes:
        try:
            value = self.module.__dict__[name]
        except KeyError:
            raise NameError(f"name '{name}' is not defined") from None
        return self._encode(value)

    def call(self, payload: bytes) -> tuple[bytes, bytes]:
        decoder = values.Decoder(self.object_of)
        function, args, kwargs = decoder.decode(payload)
        known = decoder.containers
        before = [values.contents(container) for container in known]
        answer, result = channel.VALUE, None
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            answer, result = channel.RAISED, _described(error)
        after = [values.contents(container) for container in known]
        encoder = values.Encoder(self.handle_of, known)
        if all(map(_same, before, after)):
            return answer, encoder.encode(result)
        return channel.CHANGED, encoder.encode((answer, result, tuple(after)))

    def next(self, iterator: Any) -> tuple[bytes, bytes]:
        try:
            return channel.VALUE, self._encode(next(iterator))
        except StopIteration as stop:
            return channel.STOPPED, self._encode(stop.value)

    def answer(self, letter: bytes, payload: bytes) -> tuple[bytes, bytes]:
        if letter == channel.CALL:
            return self.call(payload)
        argument = values.Decoder(self.object_of).decode(payload)
        if letter == channel.GET:
            return channel.VALUE, self.get(argument)
        if letter == channel.NEXT:
            return self.next(argument)
        if letter == channel.TRUTH:
            return channel.VALUE, self._encode(bool(argument))
        self.load(argument)
        return channel.VALUE, self._encode(None)

    def _encode(self, value: object) -> bytes:
        return values.Encoder(self.handle_of).encode(value)


def _same(before: Any, after: Any) -> bool:
    """Whether a container holds the very same objects as before: identity, so no hostile `__eq__`."""
    if type(before) is bytes or type(after) is bytes:
        return type(before) is type(after) and bytes(before) == bytes(after)
    if len(before) != len(after):
        return False
    for old, new in zip(before, after):
        if old is not new and not (
            type(old) is type(new) is tuple and len(old) == len(new) == 2 and all(map(_is, old, new))
        ):
            return False
    return True


def _is(old: object, new: object) -> bool:
    return old is new


def _described(error: BaseException) -> tuple[object, ...]:
    """An exception as plain data: built-in base, own name, arguments where they are plain, text."""
    error.__traceback__ = None
    builtin = next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")
    described = (builtin.__name__, type(error).__name__[:200])
    try:
        args = tuple(error.args)
        values.Encoder(_refuse).encode(args)
    except Exception:
        return (*described, None, _text_of(error))
    return (*described, args, _text_of(error))


def _refuse(value: object) -> tuple[int, int]:
    raise values.ValueRefused(f"{type(value).__name__} is not plain data")


def _text_of(error: BaseException) -> str:
    try:
        return str(error)[:MAX_TEXT]
    except BaseException as second:
        return f"(its text raised {type(second).__name__})"


def serve(descriptor: int) -> None:
    """Answer the tests' messages until they hang up."""
    program = Program()
    while True:
        try:
            letter, payload = channel.receive(descriptor)
        except channel.ChannelClosed:
            return
        try:
            reply = program.answer(letter, payload)
        except BaseException as error:
            reply = channel.RAISED, values.Encoder(_refuse).encode(_described(error))
        channel.send(descriptor, *reply)


def prepare_interpreter(packages: Callable[[], list[str]]) -> None:
    """Give a bare interpreter what a program run from a file would find: site's builtins and paths."""
    import _sitebuiltins

    for name in ("exit", "quit"):
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D (i.e. EOF)"))
    builtins.help = _sitebuiltins._Helper()
    sys.argv = [PROGRAM_NAME]
    sys.path[:] = [*packages(), ""]
