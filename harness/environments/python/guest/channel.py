"""Messages between the trusted tests and the candidate: a length, one letter, and a value."""

from __future__ import annotations

import os
import struct

from . import values

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
