"""Answers that are one number, as in GSM8K: the last number of the text, compared by value."""

from __future__ import annotations

import re
from decimal import Decimal

MAX_CHARACTERS = 1000
"""The longest number that is read; a longer one equals nothing."""

# Differences below this are rounding, as in the published graders.
_TOLERANCE = Decimal("1e-6")
_MARK = "####"
# A sign belongs to a number unless it stands between two things, as in 16-3. Thousands are grouped
# by commas; a fraction is two numbers. Numbers of the form .5 need something in front that ends a word.
_NUMBER = re.compile(
    r"(?:(?<![\w)\]%.,])(?P<sign>[-+])\$?)?(?P<digits>\d+(?:,\d{3})*(?:\.\d+)?|(?<![\w.,)\]])\.\d+)"
)
_DIGIT = re.compile(r"\d")
_MINUS = str.maketrans("−﹣－", "---")


def gold_number(answer: str) -> Decimal:
    """Return the number after `####`, at the end of an answer of GSM8K.

    Raises ValueError where the mark is missing or something else follows it.
    """
    _, mark, text = answer.rpartition(_MARK)
    found = _NUMBER.fullmatch(text.strip().removeprefix("$").removesuffix(".").translate(_MINUS))
    if not mark or found is None or len(text) > MAX_CHARACTERS:
        raise ValueError(f"no number after {_MARK}")
    return _value(found)


def last_number(text: str) -> Decimal | None:
    """Return the last number of a text, or None where there is none or it is too long.

    Commas between thousands are dropped; currency, percent signs and trailing dots do not matter;
    of `3/4` the last number is 4, as in the published rule. Takes time in proportion to the text.
    """
    last = _DIGIT.search(text[::-1])
    if last is None:
        return None
    end = len(text) - last.start()
    # Only the end of the text is searched: the number, and what a sign must not follow.
    window = text[max(0, end - 2 * MAX_CHARACTERS) : end].translate(_MINUS)
    *_, found = _NUMBER.finditer(window)
    if len(found[0]) > MAX_CHARACTERS:
        return None
    return _value(found)


def same_number(prediction: str, gold: Decimal) -> bool:
    """Return whether the last number of the prediction is the gold one."""
    found = last_number(prediction)
    return found is not None and abs(found - gold) < _TOLERANCE


def _value(found: re.Match[str]) -> Decimal:
    value = Decimal(found["digits"].replace(",", ""))
    return -value if found["sign"] == "-" else value
