"""MySQL's dates and times, on texts of the form `2024-02-29 13:45:00`. Other texts give NULL."""

from __future__ import annotations

import calendar
import datetime
import re

from .mysql_values import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Optional

    Moment = Optional[datetime.datetime]

_MOMENT = re.compile(
    r"\s*(\d{4}|\d{2})[-./:](\d{1,2})[-./:](\d{1,2})"
    r"(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6})\d*)?)?)?",
    re.ASCII,
)
_CLOSE = re.compile(r"\s*(\d{4})(\d{2})(\d{2})(?:(\d{2})(\d{2})(\d{2})())?(?!\d)", re.ASCII)
_CLOCK = re.compile(r"\s*(-?)(\d{1,3}):(\d{1,2})(?::(\d{1,2}))?", re.ASCII)
_MONTHS = tuple(name.lower() for name in calendar.month_name)
_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86400, "WEEK": 7 * 86400}
_MONTH_COUNTS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
# The directive of strftime for each letter of DATE_FORMAT.
_WRITTEN = {
    **{letter: f"%{letter}" for letter in "ymdbawjHIfpSU"},
    **dict(zip("MWhisceklvx", ("%B", "%A", "%I", "%M", "%S", "%-m", "%-d", "%-H", "%-I", "%V", "%G"))),
    "T": "%H:%M:%S",
    "r": "%I:%M:%S %p",
}
# The parts that each letter of STR_TO_DATE reads, by the name of the part.
_READ = {
    **{letter: rf"(?P<{part}>\d{{1,2}})" for letter, part in zip("ymcdeHkhIlisS", "ymmddHHhhhiss")},
    **dict(zip("YDf", (r"(?P<Y>\d{1,4})", r"(?P<d>\d{1,2})(?:st|nd|rd|th)", r"(?P<f>\d{1,6})"))),
    **dict(zip("MbWap", ("(?P<M>[a-z]+)", "(?P<M>[a-z]{3})", "[a-z]+", "[a-z]{3}", "(?P<p>[ap]m)"))),
    "T": r"(?P<H>\d{1,2}):(?P<i>\d{1,2}):(?P<s>\d{1,2})",
    "r": r"(?P<h>\d{1,2}):(?P<i>\d{1,2}):(?P<s>\d{1,2})\s*(?P<p>[ap]m)",
}
_WITH_TIME = re.compile("%[HkhIlisSfpTr]")


def moment(value: object) -> Moment:
    """Return the moment that a text or a number such as 20240229 names, or None."""
    said = text(value)[:40]
    found = _MOMENT.match(said) or _CLOSE.match(said)
    if found is None:
        return None
    year, month, day, *rest = (int(part or 0) for part in found.groups()[:6])
    if len(found.group(1)) == 2:
        year += 2000 if year < 70 else 1900
    try:
        hour, minute, second = rest
        time = datetime.time(hour, minute, second, int((found.group(7) or "0").ljust(6, "0")))
        return datetime.datetime.combine(datetime.date(year, month, day), time)
    except ValueError:
        return None


def write(found: datetime.datetime, *, timed: bool) -> str:
    day = f"{found.year:04}-{found.month:02}-{found.day:02}"
    fraction = f".{found.microsecond:06}" if found.microsecond else ""
    return f"{day} {found:%H:%M:%S}{fraction}" if timed else day


def clock(value: object) -> int | None:
    """Return the time of day, or the signed length of time, in seconds."""
    said = text(value)[:40]
    found = moment(value) if "-" in said[1:] else None
    if found is not None:
        return found.hour * 3600 + found.minute * 60 + found.second
    parts = _CLOCK.match(said)
    if parts is None:
        return None
    hours, minutes, seconds = (int(part or 0) for part in parts.groups()[1:])
    return (hours * 3600 + minutes * 60 + seconds) * (-1 if parts.group(1) else 1)


def write_clock(seconds: int) -> str:
    left = min(abs(seconds), 3020399)
    return f"{'-' * (seconds < 0)}{left // 3600:02}:{left // 60 % 60:02}:{left % 60:02}"


def shift(value: object, count: int, unit: str = "DAY") -> str | None:
    """Return the moment that is `count` units later, as DATE_ADD does."""
    found, unit = moment(value), unit.upper()
    if found is None:
        return None
    timed = ":" in text(value)[:40] or unit in ("SECOND", "MINUTE", "HOUR")
    try:
        if unit in _SECONDS:
            return write(found + datetime.timedelta(seconds=count * _SECONDS[unit]), timed=timed)
        months = found.year * 12 + found.month - 1 + count * _known(unit)
        year, month = months // 12, months % 12 + 1
        if not 1 <= year <= 9999:
            return None
        day = min(found.day, calendar.monthrange(year, month)[1])
        return write(found.replace(year=year, month=month, day=day), timed=timed)
    except OverflowError:
        return None


def _known(unit: str) -> int:
    if unit not in _MONTH_COUNTS:
        raise unsupported(f"INTERVAL {unit}")
    return _MONTH_COUNTS[unit]


def unsupported(what: str) -> ValueError:
    return ValueError(f"ERROR 1235 (42000): This version of MySQL doesn't yet support '{what}'")


def difference(unit: str, start: datetime.datetime, end: datetime.datetime) -> int:
    """Return how many whole units `end` is after `start`, as TIMESTAMPDIFF does."""
    unit = unit.upper().replace("SQL_TSI_", "")
    if unit in _SECONDS:
        return int((end - start).total_seconds() / _SECONDS[unit])
    early, late = sorted((start, end))
    months = (late.year - early.year) * 12 + late.month - early.month
    months -= (late.day, late.time()) < (early.day, early.time())
    return (1 if end >= start else -1) * (months // _known(unit))


def _ordinal(day: int) -> str:
    return f"{day}{'th' if 10 < day % 100 < 14 else {1: 'st', 2: 'nd', 3: 'rd'}.get(day % 10, 'th')}"


def date_format(found: datetime.datetime, pattern: str) -> str:
    """Return the moment as DATE_FORMAT writes it."""

    def piece(match: re.Match[str]) -> str:
        letter = match.group(1)
        if letter in "uVX":
            raise unsupported(f"DATE_FORMAT %{letter}")
        if letter in "YD":
            return f"{found.year:04}" if letter == "Y" else _ordinal(found.day)
        return found.strftime(_WRITTEN[letter]) if letter in _WRITTEN else letter

    return re.sub("%(.)", piece, pattern, flags=re.DOTALL)


def str_to_date(value: str, pattern: str) -> str | None:
    """Return the date, the time or both that STR_TO_DATE finds in a text."""
    regular = ""
    for piece in re.findall(r"%.|\s+|.", pattern[:200], re.DOTALL):
        known = _READ.get(piece[1]) if len(piece) == 2 and piece[0] == "%" else None
        regular += r"\s*" + (known or ("" if piece.isspace() else re.escape(piece[-1:])))
    try:
        found = re.match(regular, value[:200], re.IGNORECASE | re.ASCII)
    except re.error:  # The pattern names the same part twice.
        return None
    return found and _assemble(found.groupdict(), timed=bool(_WITH_TIME.search(pattern[:200])))


def _assemble(parts: dict[str, str | None], *, timed: bool) -> str | None:
    given = {name: int(part) for name, part in parts.items() if part and part.isdigit()}
    year = given.get("Y", given.get("y", 0))
    if len(parts.get("Y") or parts.get("y") or "four") <= 2:
        year += 2000 if year < 70 else 1900
    month, day, name = given.get("m", 0), given.get("d", 0), (parts.get("M") or "").lower()
    if name:
        month = next((place for place, each in enumerate(_MONTHS) if each and name in (each, each[:3])), 0)
    hour, minute, second = given.get("H", 0), given.get("i", 0), given.get("s", 0)
    if "h" in given:
        hour = given["h"] % 12 + 12 * ((parts.get("p") or "").lower() == "pm")
    dated = any(parts.get(part) for part in "YymMd")
    try:  # In its default mode, MySQL refuses an incomplete date, as Python does.
        datetime.time(hour, minute, second)
        datetime.date(year, month, day) if dated else None
    except ValueError:
        return None
    fraction = f".{parts['f']:<06}" if parts.get("f") else ""
    time, date = f"{hour:02}:{minute:02}:{second:02}{fraction}", f"{year:04}-{month:02}-{day:02}"
    return (f"{date} {time}" if dated else time) if timed else date


def _last_day(found: datetime.datetime) -> str:
    return write(found.replace(day=calendar.monthrange(found.year, found.month)[1]), timed=False)


def extract(unit: str, value: object) -> Any:
    letters, part = FUNCTIONS.get(unit.lower(), ("", None))
    if part is None or unit.upper() not in (*_SECONDS, *_MONTH_COUNTS):
        raise unsupported(f"EXTRACT {unit}")
    found = moment(value) if letters == "m" else clock(value)
    return None if found is None else part(found)


def now() -> str:
    return write(datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0), timed=True)


# `mysql_functions.convert` explains the letters.
FUNCTIONS: dict[str, tuple[str, Callable[..., Any]]] = {
    "year": ("m", lambda found: found.year),
    "quarter": ("m", lambda found: (found.month + 2) // 3),
    "month": ("m", lambda found: found.month),
    "week": ("m", lambda found: int(f"{found:%U}")),
    **dict.fromkeys(("day", "dayofmonth"), ("m", lambda found: found.day)),
    "hour": ("c", lambda seconds: abs(seconds) // 3600),
    "minute": ("c", lambda seconds: abs(seconds) // 60 % 60),
    "second": ("c", lambda seconds: abs(seconds) % 60),
    "dayofyear": ("m", lambda found: found.timetuple().tm_yday),
    "dayofweek": ("m", lambda found: (found.weekday() + 1) % 7 + 1),
    "weekday": ("m", lambda found: found.weekday()),
    "dayname": ("m", lambda found: f"{found:%A}"),
    "monthname": ("m", lambda found: f"{found:%B}"),
    "to_days": ("m", lambda found: found.toordinal() + 365),
    "last_day": ("m", _last_day),
    "date": ("m", lambda found: write(found, timed=False)),
    "timestamp": ("m", lambda found: write(found, timed=True)),
    "time": ("c", write_clock),
    "time_to_sec": ("c", lambda seconds: seconds),
    "sec_to_time": ("i", write_clock),
    "date_format": ("mt", date_format),
    "str_to_date": ("tt", str_to_date),
    **dict.fromkeys(("date_add", "adddate"), ("vit", shift)),
    **dict.fromkeys(("date_sub", "subdate"), ("vit", lambda at, count, *unit: shift(at, -count, *unit))),
    "datediff": ("mm", lambda one, other: (one.date() - other.date()).days),
    "timestampdiff": ("tmm", difference),
    "extract": ("tv", extract),
    **dict.fromkeys(("now", "sysdate", "current_timestamp", "localtimestamp"), ("i", lambda *_: now())),
    **dict.fromkeys(("curdate", "current_date"), ("", lambda: now()[:10])),
    **dict.fromkeys(("curtime", "current_time"), ("i", lambda *_: now()[11:])),
}
