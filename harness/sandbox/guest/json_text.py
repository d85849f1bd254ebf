"""JSON by the two functions in C that the module `json` is built on.

That module imports regular expressions. With them, every container would start 6 ms of processor time later.
"""

from __future__ import annotations

from _json import encode_basestring_ascii, make_encoder, make_scanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Plain:
    """The settings of `json.loads` without arguments, where the scanner looks for them."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


def _refuse(value: object) -> None:
    raise TypeError(f"JSON has no {type(value).__name__}")


_scan = make_scanner(_Plain)  # type: ignore[arg-type]


def encode(value: Any) -> str:
    """Return a value as JSON in ASCII, without spaces. Raises TypeError for a type that JSON lacks."""
    encoder = make_encoder({}, _refuse, encode_basestring_ascii, None, ":", ",", False, False, True)
    return "".join(encoder(value, 0))


def decode(text: str) -> Any:
    """Return the value of a JSON text without spaces around it. Raises ValueError and RecursionError."""
    try:
        value, end = _scan(text, 0)
    except StopIteration as stop:
        raise ValueError(f"no JSON value at character {stop.value}") from None
    if end != len(text):
        raise ValueError(f"text after the JSON value, from character {end}")
    return value
