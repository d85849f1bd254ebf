"""Messages between the trusted tests and the candidate: a length, one letter, and a value."""

from __future__ import annotations

import os
import struct

from . import encoding, lent_functions, values
from .plain import ValueRefused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

# The requests of the tests to the candidate, and its answers.
LOAD, GET, CALL, NEXT, TRUTH = b"L", b"G", b"C", b"N", b"T"
VALUE, CHANGED, RAISED, STOPPED = b"v", b"c", b"x", b"s"
# During an answer, the candidate may call a function that the tests have passed to it.
CALLBACK = b"K"
# Around a message that lends functions: their names, and the descriptions of the new ones.
LENT = b"F"

_LENGTH = struct.Struct(">I")
MAX_MESSAGE_BYTES = values.MAX_BYTES + 1024


class ChannelClosed(Exception):
    """The peer has closed the channel, within a message or between two."""


class ChannelBreach(Exception):
    """The peer sent data that the format does not allow."""


def send(descriptor: int, letter: bytes, payload: bytes) -> None:
    """Write one message. Raises `ChannelClosed` if the peer has closed the channel."""
    view = memoryview(_LENGTH.pack(len(payload)) + letter + payload)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    except OSError as error:
        raise ChannelClosed(str(error)) from None


def receive(descriptor: int) -> tuple[bytes, bytes]:
    """Return the next message. Raises `ChannelClosed` at the end, and `ChannelBreach` beyond the bound."""
    prefix = _read(descriptor, _LENGTH.size + 1)
    (length,) = _LENGTH.unpack_from(prefix)
    if length > MAX_MESSAGE_BYTES:
        raise ChannelBreach(f"announced {length} bytes")
    return prefix[_LENGTH.size :], _read(descriptor, length)


def pack_lent(names: tuple[tuple[int, int], ...], described: bytes, letter: bytes, payload: bytes) -> bytes:
    """Return the payload of a message `LENT` around another message."""
    numbers = [number for name in names for number in name]
    head = struct.pack(f">II{len(numbers)}I", len(numbers), len(described), *numbers)
    return head + described + letter + payload


def unpack_lent(payload: bytes) -> tuple[list[tuple[int, int]], bytes, bytes, bytes]:
    """Return the names and descriptions in a message `LENT`, and the letter and the payload inside it."""
    count, length = struct.unpack_from(">II", payload)
    numbers = struct.unpack_from(f">{count}I", payload, 8)
    start = 8 + 4 * count
    end = start + length
    names = list(zip(numbers[::2], numbers[1::2]))
    return names, payload[start:end], payload[end : end + 1], payload[end + 1 :]


def _read(descriptor: int, count: int) -> bytes:
    parts = []
    while count:
        try:
            part = os.read(descriptor, min(count, 1 << 20))
        except OSError as error:
            raise ChannelClosed(str(error)) from None
        if not part:
            raise ChannelClosed("end of stream")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


# All answers are stored until the program is dead, and the container's memory has to hold them twice.
MAX_KEPT_BYTES = 64 * 1024 * 1024
# How long it takes to judge more than this may show a later program of the same container whether the answers
# were right, so the container serves no other program.
LARGE_BYTES = 128 * 1024


class RecordFull(Exception):
    """All messages together exceed the size of the record."""


class Diverged(BaseException):
    """The replayed tests ask for an answer that the driving tests did not ask for.

    A test with a bare `except` can catch this, so `Replay.diverged` stores it for the judge.
    """


class Turn:
    """One message to the program and its replies until the next message, or the error at the end.

    `number` counts the messages to the program from 0. `lent_as` holds the name of each function that the
    message lends: the number of the message that lent it first, and its place there.
    """

    __slots__ = ("lent_as", "number", "received", "sent")

    def __init__(
        self, number: int, sent: tuple[bytes, bytes], lent_as: tuple[tuple[int, int] | None, ...] = ()
    ) -> None:
        self.number = number
        self.lent_as = tuple(name or (number, place) for place, name in enumerate(lent_as))
        self.sent = sent
        self.received: list[tuple[bytes, bytes] | Exception] = []


class Live:
    """The stream to the living program. `parts` holds the turns of each part of the tests."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._room = MAX_KEPT_BYTES
        self.received = 0
        self._turn = Turn(-1, (b"", b""))
        self.parts: list[list[Turn]] = [[]]

    @property
    def exchanged(self) -> int:
        """Return the number of bytes of all messages in both directions."""
        return MAX_KEPT_BYTES - self._room

    def begin_part(self) -> None:
        """Start the next part. The replay looks for its turns only in this part."""
        self.parts.append([])

    def send(
        self,
        letter: bytes,
        payload: bytes,
        lent_as: tuple[tuple[int, int] | None, ...] = (),
        lent: Sequence[object] = (),
    ) -> Turn:
        """Send a message, and return its turn. Raises and records ChannelClosed and RecordFull.

        The message lends the functions `lent`, and `lent_as` holds their names, with None for a new function.
        """
        self._turn = Turn(self._turn.number + 1, (letter, payload), lent_as)
        self.parts[-1].append(self._turn)
        self._take_room(len(payload))
        try:
            if lent_as:
                described = _describe_new(lent_as, lent)
                payload = pack_lent(self._turn.lent_as, described, letter, payload)
                letter = LENT
            send(self._descriptor, letter, payload)
        except ChannelClosed as error:
            self._fail(error)
        return self._turn

    def receive(self) -> tuple[bytes, bytes]:
        """Return the next message. Raises and records ChannelClosed, ChannelBreach and RecordFull."""
        try:
            message = receive(self._descriptor)
        except (ChannelClosed, ChannelBreach) as error:
            self._fail(error)
        self._take_room(len(message[1]))
        self.received += len(message[1])
        self._turn.received.append(message)
        return message

    def _take_room(self, size: int) -> None:
        self._room -= size
        if self._room < 0:
            self._fail(
                RecordFull(f"the tests and the program exchanged more than {MAX_KEPT_BYTES >> 20} MiB")
            )

    def _fail(self, error: Exception) -> NoReturn:
        self._turn.received.append(error)
        raise error from None


def _describe_new(lent_as: tuple[tuple[int, int] | None, ...], lent: Sequence[object]) -> bytes:
    """Return the descriptions of the functions that have no name yet, as a value, or nothing if all have."""
    new = [function for name, function in zip(lent_as, lent) if name is None]
    return encoding.Encoder(_refuse).encode(tuple(map(lent_functions.describe, new))) if new else b""


def _refuse(_value: object) -> tuple[int, int, object]:
    raise ValueRefused("a description that is not plain data")


class Replay:
    """Answers as the program did. The tests may ask for less than the record holds, in the same order."""

    def __init__(self, parts: list[list[Turn]]) -> None:
        self._parts = parts
        self._part = 0
        self._next = 0
        self._events: list[tuple[bytes, bytes] | Exception] = []
        self._event = 0
        # The reason why the replay of this part does not count, or None.
        self.diverged: str | None = None

    def begin_part(self) -> None:
        """Start the next part. Its turns are looked up only in the record of this part."""
        self._part += 1
        self._next = 0
        self._events = []
        self._event = 0
        self.diverged = None

    def send(
        self,
        letter: bytes,
        payload: bytes,
        _lent_as: tuple[tuple[int, int] | None, ...] = (),
        _lent: Sequence[object] = (),
    ) -> Turn:
        """Return the next turn that began with this message. Raises Diverged if there is none.

        A function keeps the name that the recorded turn has for it.
        """
        turns = self._parts[self._part] if self._part < len(self._parts) else []
        wanted = letter, payload
        for place in range(self._next, len(turns)):
            if turns[place].sent == wanted:
                break
        else:
            self._diverge("the tests made another call when they were replayed for the verdict")
        self._next = place + 1
        self._events = turns[place].received
        self._event = 0
        return turns[place]

    def receive(self) -> tuple[bytes, bytes]:
        """Return the next recorded message, or raise the recorded error."""
        if self._event == len(self._events):
            self._diverge("the replayed tests wait for an answer that the program never gave")
        event = self._events[self._event]
        self._event += 1
        if isinstance(event, Exception):
            raise event
        return event

    def _diverge(self, reason: str) -> NoReturn:
        self.diverged = reason
        raise Diverged(reason)
