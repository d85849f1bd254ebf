"""MySQL's functions for SQLite, as one table.

Each function has the name `mysql_NAME`, which translated statements use. It also has the name NAME, unless
SQLite has a function of that name that an agent could mean.
"""

from __future__ import annotations

import decimal
import functools
import hashlib
import itertools
import math
import operator
import re

from . import mysql_dates, mysql_values
from . import mysql_values as values
from .mysql_values import bytes_of, compare_values, exact_number, fold, number, quantize, text, truth, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable
    from typing import Any

PREFIX = "mysql_"
COLLATIONS = ("NOCASE", "utf8mb4_0900_ai_ci", "utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8_general_ci")
# An agent that writes these names means SQLite's functions, unless its statement had to be translated.
_SQLITES_OWN = (
    *("abs", "ceil", "ceiling", "current_date", "current_time", "current_timestamp", "date", "degrees"),
    *("exp", "floor", "hex", "ifnull", "instr", "length", "ln", "log", "log10", "log2", "ltrim", "mod"),
    *("nullif", "octet_length", "pi", "pow", "power", "radians", "replace", "round", "rtrim", "sign", "sqrt"),
    *("substr", "substring", "time", "trim"),
)
_LONG = 1 << 20
_MOST_CHARACTERS = 4 * _LONG
# The digit of SOUNDEX for each letter.
_SOUNDS = dict(zip("BFPVCGJKQSXZDTLMNR", "111122222222334556"))
_FIGURES = "0123456789abcdefghijklmnopqrstuvwxyz"
# The letters of `convert`. A function is not called if one of its values is NULL or not a date.
_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "v": lambda value: value,
    "t": text,
    "i": whole,
    "n": number,
    "b": bytes_of,
    "m": mysql_dates.moment,
    "c": mysql_dates.clock,
}


class Failures:
    """Remembers the errors of our functions, because SQLite reports only that a function failed."""

    def __init__(self) -> None:
        self.last: str | None = None

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            try:
                found = function(*arguments)
                if isinstance(found, str) and not found.isascii():
                    found.encode()  # Without this check, SQLite could not report which function failed.
                return found
            except UnicodeEncodeError:
                self.last = f"{name.upper()}: the result is not valid UTF-8"
                raise
            except TypeError:
                problem = "Incorrect parameter count in the call to native function"
                self.last = f"ERROR 1582 (42000): {problem} '{name.upper()}'"
                raise
            except Exception as error:
                self.last = f"{error}" or f"{name.upper()}: {type(error).__name__}"
                raise

        return call


def install(connection: sqlite3.Connection) -> Failures:
    """Add the functions and collations to the connection. Return the record of their failures."""
    failures = Failures()
    install_collations(connection)
    for name, function in _CONVERTED.items():
        wrapped = failures.wrap(name, function)
        connection.create_function(PREFIX + name, -1, wrapped)
        if name in FUNCTIONS and name not in _SQLITES_OWN:
            connection.create_function(name, -1, wrapped)
    connection.create_aggregate(f"{PREFIX}group_concat", -1, GroupConcat)  # type: ignore[arg-type]
    return failures


def install_collations(connection: sqlite3.Connection) -> None:
    for name in COLLATIONS:
        connection.create_collation(name, values.compare)


def convert(letters: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with its arguments converted as the letters say, and NULL if one of them is NULL.

    A letter is one of `_CONVERSIONS`. With * at the end, the last holds for all further arguments. With no
    letter but *, the function receives the arguments as they are, and NULL as None.
    """
    if letters == "*":
        return function
    each = [_CONVERSIONS[letter] for letter in letters.rstrip("*")]
    more = itertools.repeat(each[-1]) if letters.endswith("*") else ()

    def call(*arguments: Any) -> Any:
        if None in arguments:
            return None
        if len(arguments) > len(each) and not more:
            raise TypeError
        if each and each[0] is _CONVERSIONS["v"] is each[-1]:
            return function(*arguments)
        given = [to(value) for to, value in zip(itertools.chain(each, more), arguments)]
        return None if None in given else function(*given)

    return call


class GroupConcat:
    """GROUP_CONCAT(value) with an order, which SQLite 3.40 lacks.

    Each row has the separator, whether texts count once, and the value. Pairs of an expression to sort by and
    whether its order descends follow.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[str, tuple[Any, ...]]] = []
        self._separator = ","
        self._once = False
        self._length = 0

    def step(self, separator: str, once: int, value: object, *order: Any) -> None:
        self._separator, self._once = text(separator), bool(once)
        if value is not None:
            self._rows.append((text(value), order))
            self._length += len(text(value))
            if self._length > _MOST_CHARACTERS:
                raise ValueError("GROUP_CONCAT: the result is too long")

    def finalize(self) -> str | None:
        if not self._rows:
            return None
        rows = self._rows
        for place in range(len(rows[0][1]) - 2, -1, -2):
            rows.sort(key=functools.partial(_sort_key, place=place), reverse=bool(rows[0][1][place + 1]))
        texts = [said for said, _ in rows]
        if self._once and not rows[0][1]:
            texts.sort(key=values.sort_key)  # MySQL removes duplicates by sorting.
        if self._once:
            texts = list({fold(said): said for said in reversed(texts)}.values())[::-1]
        return self._separator.join(texts)


def _sort_key(row: tuple[str, tuple[Any, ...]], *, place: int) -> Any:
    value = row[1][place]
    if value is None:
        return (0, 0, "")
    return (1, 0, values.sort_key(value)) if isinstance(value, str) else (1, number(value), "")


def _same(one: object, other: object) -> bool:
    return one is other if one is None or other is None else compare_values(one, other) == 0


def _in(value: object, *others: object) -> bool | None:
    if value is None:
        return None
    if any(other is not None and _same(value, other) for other in others):
        return True
    return None if None in others else False


def _between(value: Any, low: Any, high: Any) -> bool | None:
    if value is None:
        return None
    if any(isinstance(each, (int, float)) for each in (value, low, high)):
        value, low, high = (None if each is None else number(each) for each in (value, low, high))
    above = None if low is None else compare_values(value, low) >= 0
    below = None if high is None else compare_values(value, high) <= 0
    if above is False or below is False:
        return False
    return None if above is None or below is None else True


def _quotient(one: object, other: object, digits: int) -> str | None:
    """Return an exact division with all digits that MySQL computes, which are more than it shows."""
    if exact_number(other) == 0:
        return None
    with decimal.localcontext() as context:
        context.prec = 120
        return format(quantize(exact_number(one) / exact_number(other), digits, decimal.ROUND_DOWN), "f")


def _divide_whole(one: object, other: object) -> int | None:
    return math.trunc(exact_number(one) / exact_number(other)) if exact_number(other) else None


def _remainder(one: object, other: object) -> Any:
    by = number(other)
    if by == 0:
        return None
    if isinstance(one, int) and isinstance(other, int):
        return abs(one) % abs(other) * (-1 if one < 0 else 1)
    return math.fmod(number(one), by)


def _store(value: object, scale: object = None) -> str | None:
    if value is None:
        return None
    return text(value) if scale is None else format(quantize(value, whole(scale)), "f")


def _to_decimal(value: object, precision: int, places: int) -> float | int:
    most = decimal.Decimal(10) ** (precision - places) - decimal.Decimal(1).scaleb(-places)
    exact = max(-most, min(most, quantize(value, places)))
    return int(exact) if not places and abs(exact) < 1 << 62 else float(exact)


def _round(value: object, digits: int = 0, exact: int = 0) -> float | int:
    places = max(-30, min(30, digits))
    if isinstance(value, int) and places >= 0:
        return value
    if exact or isinstance(value, int):
        return float(quantize(value, places))
    found, scale = number(value), 10.0 ** abs(places)
    scaled = found * scale if places >= 0 else found / scale
    if not math.isfinite(scaled):
        return found
    return float(round(scaled) / scale if places >= 0 else round(scaled) * scale)


def _truncate(value: object, digits: int) -> float | int:
    if isinstance(value, int) and digits >= 0:
        return value
    return float(quantize(value, max(-30, min(30, digits)), decimal.ROUND_DOWN))


def _fit(found: int) -> int | float:
    return found if abs(found) < 1 << 63 else float(found)


def _real(function: Callable[..., float]) -> tuple[str, Callable[..., Any]]:
    def call(*arguments: float) -> float | None:
        try:
            found = function(*arguments)
        except (ValueError, ZeroDivisionError):
            return None
        except OverflowError:
            raise ValueError("a number is out of range") from None
        return found if isinstance(found, float) and math.isfinite(found) else None

    return "n*", call


def _best(choose: Callable[..., Any]) -> tuple[str, Callable[..., Any]]:
    def best(*given: Any) -> Any:
        if any(isinstance(value, (int, float)) for value in given):
            return choose(number(value) for value in given)
        return choose(given, key=lambda value: values.sort_key(text(value)))

    return "v*", best


def _bits(operate: Callable[..., int]) -> tuple[str, Callable[..., Any]]:
    def call(*arguments: int) -> int | str:
        found = operate(*(value % (1 << 64) for value in arguments)) % (1 << 64)
        return found if found < 1 << 63 else str(found)

    return "i*", call


def _find_in_set(part: str, value: str) -> int:
    parts, wanted = [fold(each) for each in value.split(",")] if value else [], fold(part)
    return parts.index(wanted) + 1 if wanted in parts else 0


def _field(value: object, *others: object) -> int:
    if value is None:
        return 0
    if not all(isinstance(each, str) for each in (value, *others) if each is not None):
        others = tuple(None if other is None else number(other) for other in others)
        value = number(value)
    equal = [other is not None and _same(value, other) for other in others]
    return equal.index(True) + 1 if True in equal else 0


def _substring_index(value: str, mark: str, count: int) -> str:
    parts = value.split(mark) if mark and count else [""]
    return mark.join(parts[:count] if count > 0 else parts[count:])


def _substring(value: str, start: int, length: int | None = None) -> str:
    if start == 0 or start < -len(value):
        return ""
    rest = value[start - 1 :] if start > 0 else value[start:]
    return rest if length is None else rest[: max(0, length)]


def _locate(part: str, value: str, start: int = 1) -> int:
    if len(fold(value)) == len(value):
        value, part = fold(value), fold(part)
    return value.find(part, start - 1) + 1 if start > 0 else 0


def _trim(value: str, part: str = " ", where: str = "BOTH") -> str:
    while part and where != "TRAILING" and value.startswith(part):
        value = value[len(part) :]
    while part and where != "LEADING" and value.endswith(part):
        value = value[: -len(part)]
    return value


def _replace(value: str, old: str, new: str) -> str:
    if len(value) + value.count(old) * len(new) > _MOST_CHARACTERS:
        raise ValueError("REPLACE: the result is too long")
    return value.replace(old, new) if old else value


def _pad(value: str, width: int, fill: str = " ", *, left: bool) -> str | None:
    if width < 0 or width > _LONG or (not fill and width > len(value)):
        return None
    missing = max(0, width - len(value))
    added = (fill * (missing // max(1, len(fill)) + 1))[:missing]
    return (added + value if left else value + added)[:width]


def _repeat(value: str, count: int) -> str:
    if count * len(value) > _LONG:
        raise ValueError("REPEAT: the result is too long")
    return value * max(0, count)


def _hex(value: object) -> str:
    is_number = isinstance(value, (int, float))
    return f"{whole(value) % (1 << 64):X}" if is_number else bytes_of(value).hex().upper()


def _convert_base(value: str, old: int, new: int) -> str | None:
    """Return a number with its digits in another base. A negative base asks for a sign."""
    base, other = abs(old), abs(new)
    if not (2 <= base <= 36 and 2 <= other <= 36):
        return None
    usable = re.match(f"(-?)([{_FIGURES[:base]}]+)", value.strip().lower())
    found = int("".join(usable.groups()), base) if usable else 0
    left = found % (1 << 64) if new > 0 else abs(found)
    digits = ""
    while left:
        left, place = divmod(left, other)
        digits = _FIGURES[place] + digits
    return ("-" if found < 0 and new < 0 else "") + (digits.upper() or "0")


def _soundex(value: str) -> str:
    letters = [char for char in value.upper() if char.isalpha()]
    said, last = "".join(letters[:1]), _SOUNDS.get("".join(letters[:1]))
    for char in letters[1:]:
        code = _SOUNDS.get(char)
        if code is not None and code != last:
            said += code
        if code is not None or char not in "HWAEIOUY":
            last = code
    return said.ljust(4, "0") if said else ""


def _case(change: Callable[[str], str]) -> tuple[str, Callable[..., Any]]:
    """Return a function that keeps letters that would become several, like MySQL."""
    return "t", lambda value: "".join(char if len(change(char)) > 1 else change(char) for char in value)


def _digest(name: str) -> tuple[str, Callable[..., Any]]:
    return "b", lambda data: hashlib.new(name, data, usedforsecurity=False).hexdigest()


def _concat_ws(separator: object, *parts: object) -> str | None:
    texts = [text(part) for part in parts if part is not None]
    return None if separator is None else text(separator).join(texts)


# Translated statements call these for operators and conversions. No agent writes their names.
OPERATORS: dict[str, tuple[str, Callable[..., Any]]] = {
    **{
        name: ("vv", functools.partial(lambda holds, one, other: holds(compare_values(one, other), 0), holds))
        for name, holds in zip(
            ("eq", "neq", "lt", "lte", "gt", "gte"),
            (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge),
        )
    },
    "nullsafeeq": ("*", _same),
    "in": ("*", _in),
    "between": ("*", _between),
    "xor": ("vv", lambda one, other: truth(one) != truth(other)),
    "div": ("nn", lambda one, other: one / other if other else None),
    "intdiv": ("vv", _divide_whole),
    "quotient": ("vvi", _quotient),
    "bitwiseand": _bits(operator.and_),
    "bitwiseor": _bits(operator.or_),
    "bitwisexor": _bits(operator.xor),
    "bitwisenot": _bits(operator.invert),
    "bitwiseleftshift": _bits(lambda one, other: one << other if other < 64 else 0),
    "bitwiserightshift": _bits(lambda one, other: one >> other if other < 64 else 0),
    "stored": ("*", _store),
    "to_char": ("ti", lambda value, length=None: value if length is None else value[:length]),
    "to_binary": ("b", lambda data: data),
    "as_bytes": ("v", lambda value: bytes_of(value) if isinstance(value, str) else value),
    "to_signed": ("i", lambda value: max(-(1 << 63), min((1 << 63) - 1, value))),
    "to_unsigned": ("i", lambda value: value if value >= 0 else str((1 << 64) + max(value, -(1 << 63)))),
    "to_decimal": ("vii", _to_decimal),
    "to_double": ("n", float),
}
FUNCTIONS: dict[str, tuple[str, Callable[..., Any]]] = {
    # Choices.
    "if": ("*", lambda test, yes, no: yes if truth(test) else no),
    "ifnull": ("*", lambda value, other: other if value is None else value),
    "nullif": ("*", lambda one, other: None if one is not None and _same(one, other) else one),
    "coalesce": ("*", lambda *given: next((value for value in given if value is not None), None)),
    "isnull": ("*", lambda value: value is None),
    "greatest": _best(max),
    "least": _best(min),
    "strcmp": ("tt", values.compare),
    "field": ("*", _field),
    # Numbers.
    "mod": ("vv", _remainder),
    "round": ("vii", _round),
    "truncate": ("vi", _truncate),
    "floor": ("n", lambda value: _fit(math.floor(value))),
    **dict.fromkeys(("ceil", "ceiling"), ("n", lambda value: _fit(math.ceil(value)))),
    "abs": ("n", abs),
    "sign": ("n", lambda value: (value > 0) - (value < 0)),
    **dict.fromkeys(("pow", "power"), _real(lambda one, other: float(one) ** float(other))),
    **{name: _real(getattr(math, name)) for name in ("sqrt", "exp", "log2", "log10", "radians", "degrees")},
    "ln": _real(math.log),
    "log": _real(lambda one, *other: math.log(other[0], one) if other else math.log(one)),
    "pi": ("", lambda: math.pi),
    "format": ("vi", lambda value, digits: f"{quantize(value, max(0, min(30, digits))):,f}"),
    "conv": ("tii", _convert_base),
    # Texts.
    "concat": ("t*", lambda *parts: "".join(parts)),
    "concat_ws": ("*", _concat_ws),
    "left": ("ti", lambda value, count: value[: max(0, count)]),
    "right": ("ti", lambda value, count: value[-count:] if count > 0 else ""),
    **dict.fromkeys(("mid", "substr", "substring"), ("tii", _substring)),
    "substring_index": ("tti", _substring_index),
    **dict.fromkeys(("locate", "position"), ("tti", _locate)),
    "instr": ("tt", lambda value, part: _locate(part, value)),
    "find_in_set": ("tt", _find_in_set),
    "replace": ("ttt", _replace),
    "trim": ("ttt", _trim),
    "ltrim": ("t", lambda value: value.lstrip(" ")),
    "rtrim": ("t", lambda value: value.rstrip(" ")),
    **dict.fromkeys(("char_length", "character_length"), ("t", len)),
    **dict.fromkeys(("length", "octet_length"), ("b", len)),
    **dict.fromkeys(("ucase", "upper"), _case(str.upper)),
    **dict.fromkeys(("lcase", "lower"), _case(str.lower)),
    "reverse": ("t", lambda value: value[::-1]),
    "space": ("i", lambda count: _repeat(" ", count)),
    "repeat": ("ti", _repeat),
    "lpad": ("tit", functools.partial(_pad, left=True)),
    "rpad": ("tit", functools.partial(_pad, left=False)),
    "ascii": ("b", lambda data: (data or b"\0")[0]),
    "hex": ("v", _hex),
    "md5": _digest("md5"),
    **dict.fromkeys(("sha", "sha1"), _digest("sha1")),
    "soundex": ("t", _soundex),
    **mysql_values.FUNCTIONS,
    **mysql_dates.FUNCTIONS,
}
# Each connection gets these, so they are made once.
_CONVERTED = {name: convert(*entry) for name, entry in {**OPERATORS, **FUNCTIONS}.items()}
