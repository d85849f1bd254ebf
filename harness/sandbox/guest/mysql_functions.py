"""What MySQL has and SQLite has not: functions, and how texts compare.

Texts compare as under MySQL's `utf8mb4_0900_ai_ci`, as nearly as the standard library allows: without
regard to case, accents and forms of a character. It takes the place of SQLite's NOCASE, so that a file
that names it opens anywhere.
"""

from __future__ import annotations

import functools
import math
import re
import unicodedata

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable
    from typing import Any

COLLATIONS = ("NOCASE", "utf8mb4_0900_ai_ci", "utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8_general_ci")
_LONG = 1 << 20


@functools.lru_cache(maxsize=1 << 14)
def folded(text: str) -> str:
    """The text without case, accents and forms: equal for what MySQL holds to be equal."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", text)
    return "".join(char for char in apart if not unicodedata.combining(char)).casefold()


def compare(one: str, other: str) -> int:
    first, second = folded(one), folded(other)
    return (first > second) - (first < second)


class Failures:
    """Remembers what a function of ours raised: SQLite only says that one did."""

    def __init__(self) -> None:
        self.last: str | None = None

    def wrapped(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except Exception as error:
                self.last = f"{error}"
                raise

        return call


def install(connection: sqlite3.Connection) -> Failures:
    """Give the connection the functions and collations. Returns where their failures are told."""
    failures = Failures()
    install_collations(connection)
    for name, count, function in _FUNCTIONS:
        connection.create_function(name, count, failures.wrapped(function))
    return failures


def install_collations(connection: sqlite3.Connection) -> None:
    for name in COLLATIONS:
        connection.create_collation(name, compare)


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def _number(value: object) -> float:
    if isinstance(value, (int, float)):
        return value
    found = re.match(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", _text(value)[:400])
    return float(found.group()) if found else 0.0


def _strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """NULL in, NULL out."""
    return lambda *arguments: None if None in arguments else function(*arguments)


def _concat(*parts: object) -> str | None:
    return None if None in parts else "".join(_text(part) for part in parts)


def _concat_ws(separator: object, *parts: object) -> str | None:
    if separator is None:
        return None
    return _text(separator).join(_text(part) for part in parts if part is not None)


def _truth(value: object) -> bool:
    return value is not None and _number(value) != 0


def _regexp(pattern: object, value: object) -> bool:
    try:
        return re.search(_text(pattern), _text(value), re.IGNORECASE) is not None
    except re.error as error:
        raise ValueError(f"REGEXP: {error}") from error


def _regexp_replace(value: object, pattern: object, new: object) -> str:
    try:
        return re.sub(
            _text(pattern), re.sub(r"\$(\d)", r"\\\1", _text(new)), _text(value), flags=re.IGNORECASE
        )
    except (re.error, IndexError) as error:
        raise ValueError(f"REGEXP_REPLACE: {error}") from error


def _regexp_substr(value: object, pattern: object) -> str | None:
    try:
        found = re.search(_text(pattern), _text(value), re.IGNORECASE)
    except re.error as error:
        raise ValueError(f"REGEXP_SUBSTR: {error}") from error
    return found.group() if found else None


@functools.lru_cache(maxsize=256)
def _pieces(pattern: str, escape: str) -> tuple[tuple[re.Pattern[str], int], ...]:
    """What stands between the % of a pattern, in order, and how long each is: none goes back to try again."""
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


def _like(pattern: object, value: object, escape: object = "\\") -> bool:
    text = folded(_text(value))
    (first, place), *rest = _pieces(folded(_text(pattern)), folded(_text(escape)))
    if first.match(text) is None:
        return False
    if not rest:
        return place == len(text)
    for piece, _ in rest[:-1]:
        found = piece.search(text, place)
        if found is None:
            return False
        place = found.end()
    last, width = rest[-1]
    return len(text) - width >= place and last.match(text, len(text) - width) is not None


def _find_in_set(part: object, value: object) -> int:
    parts = [folded(text) for text in _text(value).split(",")]
    wanted = folded(_text(part))
    return parts.index(wanted) + 1 if wanted in parts else 0


def _substring_index(value: object, mark: object, count: object) -> str:
    number = int(_number(count))
    parts = _text(value).split(_text(mark)) if _text(mark) else [""]
    if number == 0:
        return ""
    return _text(mark).join(parts[:number] if number > 0 else parts[number:])


def _right(value: object, count: object) -> str:
    number = int(_number(count))
    return _text(value)[-number:] if number > 0 else ""


def _pad(value: object, count: object, fill: object, *, left: bool) -> str | None:
    width = int(_number(count))
    text, filling = _text(value), _text(fill)
    if width < 0 or width > _LONG or (not filling and width > len(text)):
        return None
    missing = width - len(text)
    if missing <= 0:
        return text[:width]
    added = (filling * (missing // len(filling) + 1))[:missing]
    return added + text if left else text + added


def _repeat(value: object, count: object) -> str:
    number = max(0, int(_number(count)))
    if number * len(_text(value)) > _LONG:
        raise ValueError("REPEAT: the result is too long")
    return _text(value) * number


def _truncate(value: object, digits: object) -> float:
    scale = 10.0 ** int(_number(digits))
    return math.trunc(_number(value) * scale) / scale


def _date_part(start: int, end: int) -> Callable[[object], int | None]:
    def part(value: object) -> int | None:
        found = re.match(r"\d{4}-\d{2}-\d{2}", _text(value))
        return int(found.group()[start:end]) if found else None

    return _strict(part)


def _best(choose: Callable[..., Any]) -> Callable[..., Any]:
    def best(*values: Any) -> Any:
        if all(isinstance(value, (int, float)) for value in values):
            return choose(values)
        if any(isinstance(value, (int, float)) for value in values):
            return choose(values, key=_number)
        return choose(values, key=lambda value: folded(_text(value)))

    return _strict(best)


_FUNCTIONS: tuple[tuple[str, int, Callable[..., Any]], ...] = (
    ("concat", -1, _concat),
    ("concat_ws", -1, _concat_ws),
    ("if", 3, lambda test, yes, no: yes if _truth(test) else no),
    ("isnull", 1, lambda value: value is None),
    ("regexp", 2, _strict(_regexp)),
    ("regexp_like", 2, _strict(lambda value, pattern: _regexp(pattern, value))),
    ("regexp_replace", 3, _strict(_regexp_replace)),
    ("regexp_substr", 2, _strict(_regexp_substr)),
    ("like", 2, _strict(_like)),
    ("like", 3, _strict(_like)),
    ("mysql_left", 2, _strict(lambda value, count: _text(value)[: max(0, int(_number(count)))])),
    ("mysql_right", 2, _strict(_right)),
    ("mid", 3, _strict(lambda value, start, count: _text(value)[int(start) - 1 :][: int(count)])),
    ("substring_index", 3, _strict(_substring_index)),
    ("locate", 2, _strict(lambda part, value: folded(_text(value)).find(folded(_text(part))) + 1)),
    ("find_in_set", 2, _strict(_find_in_set)),
    ("char_length", 1, _strict(lambda value: len(_text(value)))),
    ("character_length", 1, _strict(lambda value: len(_text(value)))),
    ("ucase", 1, _strict(lambda value: _text(value).upper())),
    ("lcase", 1, _strict(lambda value: _text(value).lower())),
    ("upper", 1, _strict(lambda value: _text(value).upper())),
    ("lower", 1, _strict(lambda value: _text(value).lower())),
    ("reverse", 1, _strict(lambda value: _text(value)[::-1])),
    ("space", 1, _strict(lambda count: _repeat(" ", count))),
    ("repeat", 2, _strict(_repeat)),
    ("lpad", 3, _strict(functools.partial(_pad, left=True))),
    ("rpad", 3, _strict(functools.partial(_pad, left=False))),
    ("strcmp", 2, _strict(lambda one, other: compare(_text(one), _text(other)))),
    ("greatest", -1, _best(max)),
    ("least", -1, _best(min)),
    ("truncate", 2, _strict(_truncate)),
    ("year", 1, _date_part(0, 4)),
    ("month", 1, _date_part(5, 7)),
    ("day", 1, _date_part(8, 10)),
)
