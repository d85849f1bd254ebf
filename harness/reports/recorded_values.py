"""Values in the entries of a transcript, which an earlier version or another program may have written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

# The latest time that is believed, in seconds since 1970: the year 2286.
_LATEST = 1e10
# The integers that a float of JSON holds exactly.
_MOST_COUNT = 2**53


def read_text(value: Any) -> str:
    """Return a text as it is, None as an empty text, and any other value as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def list_objects(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects in a list, none for a value that is no list."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def read_seconds(value: Any) -> float | None:
    """Return a time or a duration in seconds, None for a value that is none."""
    return float(value) if type(value) in (int, float) and 0 <= value < _LATEST else None


def read_count(value: Any) -> int | None:
    """Return a number of things, None for a value that is none."""
    return value if type(value) is int and 0 <= value < _MOST_COUNT else None
