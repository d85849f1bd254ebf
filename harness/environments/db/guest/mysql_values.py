"""MySQL's rules for values: their conversion to numbers and texts, their comparison, and patterns.

Texts compare as under MySQL's `utf8mb4_0900_ai_ci`, as nearly as the standard library allows. Case, accents
and forms of a character do not count, and blanks at the end count. A text that is compared with a number is
read as the number that it starts with.
"""

from __future__ import annotations

import decimal
import functools
import re
import unicodedata

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Union

    Number = Union[int, float]
    from collections.abc import Callable

_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)", re.ASCII)
_NUMBER_CHARACTERS = 400
_LARGEST = 1.7976931348623157e308
# Unicode does not decompose these letters, but its collation gives them the weight of other letters.
_ALIKE = str.maketrans(dict(zip("øǿłŀđðħℏæœØǾŁĿĐÐĦÆŒ", [*"oollddhh", "ae", "oe", *"OOLLDDH", "AE", "OE"])))
# These characters sort before letters, in the order of that collation. Letters follow in their own order.
_BEFORE_LETTERS = "\t\n\r _-–—,;:!¡?¿.·'‘’\"“”()[]{}§@*/\\&#%`^°+±×<=>|~$£€0123456789"
_PLACES = {ord(char): chr(place) for place, char in enumerate(_BEFORE_LETTERS, 1)}
# Control characters and invisible characters have no weight.
_WEIGHTLESS = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]"
)


@functools.lru_cache(maxsize=1 << 14)
def fold(text: str) -> str:
    """Return the text without case, accents and forms.

    Two texts are equal for MySQL if their results are equal.
    """
    text = _WEIGHTLESS.sub("", text)
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", text.translate(_ALIKE))
    return "".join(char for char in apart if not unicodedata.combining(char)).casefold()


def fold_letters(text: str) -> str:
    """Return the text with each letter folded that stays one, because LIKE compares letter by letter."""
    if text.isascii():
        return text.lower()
    each = ((char, fold(char)) for char in unicodedata.normalize("NFC", text))
    return "".join(form if len(form) == 1 else char.lower() for char, form in each)


def sort_key(text: str) -> str:
    return fold(text).translate(_PLACES)


def compare(one: str, other: str) -> int:
    """Return -1, 0 or 1 for two texts in the order of the collation."""
    return _sign(sort_key(one), sort_key(other))


def compare_values(one: object, other: object) -> int:
    """Return -1, 0 or 1 for two values that are not NULL.

    Two texts compare as texts, or byte by byte if one of them is bytes. Other pairs compare as numbers.
    """
    texts = isinstance(one, (str, bytes)) and isinstance(other, (str, bytes))
    if texts and (isinstance(one, bytes) or isinstance(other, bytes)):
        return _sign(bytes_of(one), bytes_of(other))
    if isinstance(one, str) and isinstance(other, str):
        return compare(one, other)
    if isinstance(one, int) and isinstance(other, int):
        return _sign(one, other)
    return _sign(float(number(one)), float(number(other)))


def _sign(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


def number(value: object) -> Number:
    """Return the value as a number. A text gives the number that it starts with, or 0."""
    if isinstance(value, (int, float)):
        return value
    found = _NUMBER.match(text(value)[:_NUMBER_CHARACTERS])
    return max(-_LARGEST, min(_LARGEST, float(found.group(1)))) if found else 0.0


def whole(value: object) -> int:
    """Return the value as MySQL takes it for an integer argument.

    Numbers are rounded, a text gives its digits.
    """
    if isinstance(value, (int, float)):
        return round(value)
    found = re.match(r"\s*[+-]?\d{1,30}", text(value), re.ASCII)
    return int(found.group()) if found else 0


def truth(value: object) -> bool:
    return value is not None and number(value) != 0


def text(value: object) -> str:
    """Return the value as MySQL writes it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return _double(value) if isinstance(value, float) else str(value)


def bytes_of(value: object) -> bytes:
    return value if isinstance(value, bytes) else text(value).encode("utf-8", "surrogateescape")


def exact_number(value: object) -> decimal.Decimal:
    """Return the value as the shortest decimal number that represents it."""
    if isinstance(value, int):
        return decimal.Decimal(value)
    found = _NUMBER.match(repr(value) if isinstance(value, float) else text(value)[:_NUMBER_CHARACTERS])
    exact = decimal.Decimal(found.group(1)) if found else decimal.Decimal(0)
    if exact.adjusted() > 308:
        raise ValueError("a number is out of range")
    return exact


def quantize(value: object, places: int, rounding: str = decimal.ROUND_HALF_UP) -> decimal.Decimal:
    """Return the value with this many digits after the point."""
    with decimal.localcontext() as context:
        context.prec = 400
        exact = value if isinstance(value, decimal.Decimal) else exact_number(value)
        return exact.quantize(decimal.Decimal(1).scaleb(-places), rounding)


def _double(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError("a number is out of range")
    digits = decimal.Decimal(repr(value))
    if value == 0:
        return "-0" if repr(value).startswith("-") else "0"
    place = digits.adjusted()
    sign, figures, _ = digits.normalize().as_tuple()
    if -16 < place < 15 or 0 <= place < len(figures) - 1:
        fixed = format(digits, "f")
        return fixed.rstrip("0").rstrip(".") if "." in fixed else fixed
    head, *rest = map(str, figures)
    return f"{'-' * sign}{head}{'.' * bool(rest)}{''.join(rest)}e{place}"


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
    fold = str if binary else fold_letters
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
