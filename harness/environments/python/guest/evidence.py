"""Describe exceptions in text for people. The length is bounded before the text is built.

The host escapes the text. The guest cannot import `harness.core.text`, and the host would not trust it to
escape.
"""

from __future__ import annotations

from .display import show

MAX_TEXT = 600
# The time to write an integer grows with the square of its length.
MAX_BITS = 4096


def bound(text: str, limit: int) -> str:
    """Return a text, or its start and its length if it is longer than `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit - 20]} ... ({len(text)} characters)"


def describe(error: BaseException) -> str:
    """Return an exception's name and message, bounded."""
    args = error.args
    if isinstance(error, SyntaxError) and (found := _describe_place(args)) is not None:
        return f"{type(error).__name__}: {found}"
    if all(map(_is_cheap, args)) and (len(args) < 2 or type(error).__str__ is not BaseException.__str__):
        try:
            message = bound(str(error), MAX_TEXT)
        except Exception:
            message = ""
    else:
        # The exception's own text may contain a value that takes hours to write.
        message = show(args[0] if len(args) == 1 else args, MAX_TEXT)
    return type(error).__name__ + (f": {message}" if message else "")


def _describe_place(args: tuple[object, ...]) -> str | None:
    """Return the message of a syntax error with its line, None if the arguments are not Python's."""
    if len(args) != 2 or type(args[0]) is not str or type(args[1]) is not tuple or len(args[1]) < 2:
        return None
    line = args[1][1]
    place = f" (line {line})" if type(line) is int and _is_cheap(line) else ""
    return bound(args[0], MAX_TEXT) + place


def _is_cheap(value: object) -> bool:
    """Return whether the whole text of a value can be built, whatever its size."""
    if type(value) is int:
        return value.bit_length() < MAX_BITS
    return value is None or type(value) in (str, bool, float, bytes)
