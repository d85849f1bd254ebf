"""MySQL's patterns: REGEXP by Python's expressions, and LIKE."""

from __future__ import annotations

import functools
import re

from . import mysql_values as values
from .mysql_values import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Python's form of the classes that it lacks.
_CLASSES = {
    **dict.fromkeys(("alpha", "upper", "lower"), "a-zA-Z"),
    "digit": r"\d",
    "alnum": "a-zA-Z0-9",
    "space": r"\s",
    "punct": r"!-/:-@\[-`{-~",
    "xdigit": "0-9a-fA-F",
    "blank": r" \t",
}


def _pattern(pattern: str) -> str:
    """Return Python's form of a pattern.

    Python lacks classes such as [[:digit:]] and the old marks of words.
    """
    said = pattern.replace("[[:<:]]", r"\b").replace("[[:>:]]", r"\b")
    return re.sub(r"\[:(\w+):\]", lambda found: _CLASSES.get(found.group(1).lower(), found.group()), said)


def _search(value: object, pattern: object, kind: str = "", *, name: str = "REGEXP") -> re.Match[str] | None:
    binary = isinstance(pattern, bytes) or isinstance(value, bytes) or "c" in kind
    flags = re.MULTILINE * ("m" in kind) | re.DOTALL * ("n" in kind) | re.IGNORECASE * (not binary)
    try:
        return re.search(_pattern(text(pattern)), text(value), flags)
    except re.error as error:
        raise ValueError(f"{name}: {error}") from error


def _regexp_substr(value: object, pattern: object) -> str | None:
    found = _search(value, pattern, name="REGEXP_SUBSTR")
    return found.group() if found else None


def _regexp_instr(value: object, pattern: object) -> int:
    found = _search(value, pattern, name="REGEXP_INSTR")
    return found.start() + 1 if found else 0


def _regexp_replace(value: str, pattern: str, new: str) -> str:
    replacement = re.sub(r"\$(\d)", r"\\\1", new.replace("\\", "\\\\"))
    try:
        return re.sub(_pattern(pattern), replacement, value, flags=re.IGNORECASE)
    except (re.error, IndexError) as error:
        raise ValueError(f"REGEXP_REPLACE: {error}") from error


@functools.lru_cache(maxsize=256)
def _pieces(pattern: str, escape: str) -> tuple[tuple[re.Pattern[str], int], ...]:
    """Return the pieces between the % of a pattern, in order, each with its length.

    The first match of each piece is final, so matching needs no backtracking.
    """
    pieces: list[list[str]] = [[]]
    characters = iter(pattern)
    for char in characters:
        if char == escape:
            pieces[-1].append(re.escape(next(characters, char)))
        elif char == "%":
            pieces.append([])
        else:
            pieces[-1].append("." if char == "_" else re.escape(char))
    return tuple((re.compile("".join(piece), re.DOTALL), len(piece)) for piece in pieces)


def _like(pattern: object, value: object, escape: str = "\\") -> bool:
    binary = isinstance(pattern, bytes) or isinstance(value, bytes)
    fold = str if binary else values.fold_letters
    said = fold(text(value))
    (first, place), *rest = _pieces(fold(text(pattern)), fold(escape))
    if first.match(said) is None:
        return False
    if not rest:
        return place == len(said)
    for piece, _ in rest[:-1]:
        found = piece.search(said, place)
        if found is None:
            return False
        place = found.end()
    last, width = rest[-1]
    return len(said) - width >= place and last.match(said, len(said) - width) is not None


# `mysql_functions.convert` explains the letters.
FUNCTIONS: dict[str, tuple[str, Callable[..., Any]]] = {
    "like": ("vvt", _like),
    "regexp": ("vv", lambda pattern, value: _search(value, pattern) is not None),
    "regexp_like": ("vvt", lambda *given: _search(*given, name="REGEXP_LIKE") is not None),
    "regexp_replace": ("ttt", _regexp_replace),
    "regexp_substr": ("vv", _regexp_substr),
    "regexp_instr": ("vv", _regexp_instr),
}
