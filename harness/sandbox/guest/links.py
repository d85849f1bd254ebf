"""Pairs of connected sockets, and descriptors that pass through them.

These are the functions in C that the module `socket` is built on. That module builds enumerations, and with
them every container would start 5 ms of processor time later.
"""

from __future__ import annotations

import _socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    Link = _socket.socket

# The formats of descriptors in a message, by their size. A message carries three to five.
DESCRIPTORS = {form.size: form for form in map(struct.Struct, ("3i", "4i", "5i"))}
ROOM = _socket.CMSG_SPACE(max(DESCRIPTORS))


def stream_pair() -> tuple[Link, Link]:
    """Return two ends of a stream of bytes. Raises OSError."""
    return _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)


def message_pair() -> tuple[Link, Link]:
    """Return two ends of a link that keeps the bounds of messages. Raises OSError."""
    return _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)


def send_with_descriptors(link: Link, data: bytes, descriptors: list[int]) -> None:
    """Send one message with three to five descriptors. Raises OSError."""
    packed = struct.pack(f"{len(descriptors)}i", *descriptors)
    link.sendmsg([data], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, packed)])


def receive_with_descriptors(link: Link, most: int) -> tuple[bytes, tuple[int, ...]]:
    """Return the next message of at most `most` bytes with its descriptors, or two empty values at the end.

    Raises OSError.
    """
    data, ancillary, _flags, _address = link.recvmsg(most, ROOM)
    if not data:
        return b"", ()
    received = ancillary[0][2]
    return data, DESCRIPTORS[len(received)].unpack(received)
