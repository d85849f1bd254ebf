"""The number of values in a JSON text, counted before a parser turns them into objects.

A bound on the bytes of a text does not bound the memory of its values. A text such as `[[],[],...]` takes
twenty times its own bytes once it is parsed, and the parser holds the interpreter's lock meanwhile.
"""

from __future__ import annotations

# The memory of an object of JSON, and of any other value, in bytes.
OBJECT_BYTES, VALUE_BYTES = 256, 64
# The bytes that are counted in one go. Other threads run between two of them.
_PIECE_BYTES = 64 * 1024


class ValueCounter:
    """Counts the values of one JSON text, which may arrive in pieces.

    The text must be in UTF-8. Each `{`, `[`, `,` and `:` outside of the texts counts as one value, so the
    name of a field counts as well. The count of a text that is no JSON is right up to the place where a
    parser refuses it.
    """

    def __init__(self) -> None:
        self._objects = 0
        self._lists = 0
        self._names = 0
        self._commas = 0
        self._is_inside = False
        self._escape = b""

    @property
    def total(self) -> int:
        """The number of values so far."""
        return self.structures + self._commas

    @property
    def structures(self) -> int:
        """The number of objects, lists and named fields so far. Other values take less time to parse."""
        return self._objects + self._lists + self._names

    @property
    def memory_bytes(self) -> int:
        """About how much memory the values take once they are parsed, in bytes."""
        return OBJECT_BYTES * self._objects + VALUE_BYTES * (self.total - self._objects)

    def add(self, text: bytes | bytearray) -> None:
        """Count the values in the next piece of the text."""
        for start in range(0, len(text), _PIECE_BYTES):
            self._add_piece(bytes(text[start : start + _PIECE_BYTES]))

    def _add_piece(self, piece: bytes) -> None:
        if self._escape or b"\\" in piece:
            piece = self._escape + piece
            # A backslash at the end escapes the first byte of the next piece.
            is_cut = (len(piece) - len(piece.rstrip(b"\\"))) % 2
            self._escape = b"\\" * is_cut
            piece = piece[: len(piece) - is_cut].replace(b"\\\\", b"").replace(b'\\"', b"")
        # The quotes that are left begin and end texts, whose contents are no marks.
        parts = piece.split(b'"')
        marks = b"".join(parts[self._is_inside :: 2])
        self._objects += marks.count(b"{")
        self._lists += marks.count(b"[")
        self._names += marks.count(b":")
        self._commas += marks.count(b",")
        self._is_inside ^= len(parts) % 2 == 0


def count_values(text: bytes | bytearray) -> int:
    """Return the number of values in a JSON text, as `ValueCounter` counts them."""
    counter = ValueCounter()
    counter.add(text)
    return counter.total
