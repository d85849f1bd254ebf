"""The frame format of the stream between host and guest.

A frame is two unsigned 32-bit big-endian lengths, a JSON object of the first length (the header), and raw
bytes of the second length (the body). Both sides bound both lengths.
"""

from __future__ import annotations

import struct

from . import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PREFIX = struct.Struct(">II")
MAX_HEADER_BYTES = 16 * 1024 * 1024
MAX_BODY_BYTES = 64 * 1024 * 1024
# The exit codes of PID 1 at the deadline of the sandbox, and without a first request.
DEADLINE_CODE, UNWANTED_CODE = 3, 4


class FrameError(Exception):
    """The peer broke the format. Nothing after this point can be trusted."""


def encode_frame(header: dict[str, Any], body: bytes = b"") -> bytes:
    """Return one frame. Raises `FrameError` if the header or the body is over its bound."""
    text = json_text.encode(header).encode("ascii")
    if len(text) > MAX_HEADER_BYTES or len(body) > MAX_BODY_BYTES:
        raise FrameError(f"frame too large: header {len(text)} bytes, body {len(body)} bytes")
    return PREFIX.pack(len(text), len(body)) + text + body


class FrameDecoder:
    """Decodes frames from a byte stream. It never holds more than one frame and one read."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[dict[str, Any], bytes]]:
        """Return the frames that `data` completes. Raises `FrameError` at the first breach of the format."""
        self._buffer += data
        frames = []
        while len(self._buffer) >= PREFIX.size:
            header_length, body_length = PREFIX.unpack_from(self._buffer)
            if header_length > MAX_HEADER_BYTES or body_length > MAX_BODY_BYTES:
                raise FrameError(f"announced lengths out of bounds: {header_length}, {body_length}")
            end_of_header = PREFIX.size + header_length
            end = end_of_header + body_length
            if len(self._buffer) < end:
                break
            try:
                header = json_text.decode(self._buffer[PREFIX.size : end_of_header].decode("utf-8"))
            except (ValueError, RecursionError) as error:
                raise FrameError(f"header is not JSON: {error}") from None
            if type(header) is not dict:
                raise FrameError("header is not a JSON object")
            frames.append((header, bytes(self._buffer[end_of_header:end])))
            del self._buffer[:end]
        return frames
