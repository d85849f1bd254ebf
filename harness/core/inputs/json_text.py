"""Strict parsing of untrusted JSON. Errors have a line number, and values have bounded depth and size."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import Any, NoReturn

MAX_DEPTH = 100
"""The maximum nesting of arrays and objects, because recursive code must not exhaust its stack."""
MAX_DIGITS = 300
"""The maximum digits of an integer by default. More fit into no float."""
MAX_TEST_DIGITS = 50_000
"""The maximum digits of an integer in tests of programs. LiveCodeBench's runner allows as many."""
# Python converts at most 4,300 digits at once, because the time grows with the square of their number.
_DIGITS_AT_ONCE = 4000
_BITS_AT_ONCE = 13_000
_DIGITS_A_BIT = 0.30103


class BrokenJSONError(ValueError):
    """The text is not JSON, is nested too deeply, or has an integer with too many digits."""

    def __init__(self, message: str, line: int, *, reason: str = "") -> None:
        super().__init__(message)
        self.line = line
        self.reason = reason or message


def parse_json(text: str | bytes, *, max_digits: int = MAX_DIGITS, allow_nan: bool = False) -> Any:
    """Return the value of a JSON text. Raises BrokenJSONError.

    Args:
        text: a text, or bytes in UTF-8.
        max_digits: the maximum digits of an integer.
        allow_nan: whether to accept `NaN` and `Infinity`, which Python writes, and numbers that are too large
            for a float.
    """

    try:
        decoder = _make_decoder(max_digits, allow_nan)
        value = decoder.decode(text.decode("utf-8-sig") if isinstance(text, bytes) else text)
        require_shallow(value)
    except json.JSONDecodeError as error:
        message = f"broken JSON at column {error.colno}: {error.msg}"
        raise BrokenJSONError(message, error.lineno, reason=error.msg) from error
    except UnicodeDecodeError as error:
        line = 1 + error.object.count(b"\n", 0, error.start)
        raise BrokenJSONError(f"not UTF-8 (byte 0x{error.object[error.start]:02x})", line) from error
    except RecursionError as error:
        raise BrokenJSONError(f"JSON nested too deeply, more than {MAX_DEPTH} levels", 1) from error
    except ValueError as error:
        raise BrokenJSONError(str(error), 1) from error
    return value


@lru_cache(maxsize=8)
def _make_decoder(max_digits: int, allow_nan: bool) -> json.JSONDecoder:
    """Return the decoder of `parse_json`, made once, because a run may have a million short texts."""

    def integer(digits: str) -> int:
        count = len(digits.lstrip("-"))
        if count > max_digits:
            raise ValueError(f"an integer has {count:,} digits, more than {max_digits:,}")
        return -_read_digits(digits[1:]) if digits[0] == "-" else _read_digits(digits)

    return json.JSONDecoder(
        parse_int=integer,
        parse_constant=None if allow_nan else _refuse_constant,
        parse_float=None if allow_nan else _finite,
    )


def write_json(value: Any) -> str:
    """Return a value as one line of JSON, with integers of any length.

    Raises TypeError for a type that JSON lacks, ValueError for a NaN or an infinity, and RecursionError.
    """
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError as error:
        if "digits" not in str(error):
            raise
    if isinstance(value, int):
        return f"-{_write_digits(-value)}" if value < 0 else _write_digits(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(write_json, value))}]"
    # The name of an item may be a number, which JSON writes as a text.
    items = (json.dumps({name: 0})[1:-2] + write_json(item) for name, item in value.items())
    return f"{{{', '.join(items)}}}"


def _read_digits(digits: str) -> int:
    if len(digits) <= _DIGITS_AT_ONCE:
        return int(digits)
    low = len(digits) // 2
    return int(_read_digits(digits[:-low]) * 10**low + _read_digits(digits[-low:]))


def _write_digits(number: int) -> str:
    if number.bit_length() <= _BITS_AT_ONCE:
        return str(number)
    low = int(number.bit_length() * _DIGITS_A_BIT) // 2
    first, rest = divmod(number, 10**low)
    return _write_digits(first) + _write_digits(rest).zfill(low)


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:40]} is too large for a float")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def require_shallow(value: Any) -> None:
    """Raise RecursionError for a value nested deeper than MAX_DEPTH. The check itself does not recurse."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return
    raise RecursionError


# The memory of an object of JSON, and of any other value, in bytes.
OBJECT_BYTES, VALUE_BYTES = 256, 64
# The bytes that are counted in one go. Other threads run between two of them.
_PIECE_BYTES = 64 * 1024


class ValueCounter:
    """Counts the values of one JSON text, which may arrive in pieces.

    The text must be in UTF-8. Each `{`, `[`, `,` and `:` outside of the texts counts as one value, so the
    name of a field counts as well. The count of a text that is not JSON is right up to the place where a
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
        # The remaining quotes begin and end texts. The contents of texts are not marks.
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
