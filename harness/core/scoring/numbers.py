"""Find the number that a text gives as its answer and compare it by value, as GSM8K does."""

from __future__ import annotations

import re
from decimal import Decimal

from harness.core.scoring.answers import MAX_NUMBER_CHARACTERS, marked_parts

# Differences below this are rounding, as in the published graders.
_TOLERANCE = Decimal("1e-6")
_MARK = "####"
_DIGIT = re.compile(r"\d")
# Each character maps to one character, so positions stay: full-width forms, no-break blanks (thin ones too),
# dashes in place of a minus, Arabic separators.
_BLANK = "\N{NO-BREAK SPACE}"
_ALIKE = str.maketrans(
    {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
    | dict.fromkeys("\u2007\u2009\u202f", _BLANK)
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2212\ufe63", "-")
    | {"\u066b": ".", "\u066c": ",", "\u2019": "'"}
)
# Marks between thousands. An ordinary blank is not among them, because it also separates two numbers.
_GROUPING = rf",\\!|\{{,\}}|\\[,;:! ]|[,'_~{_BLANK}]"
_DIGITS = (
    # The same mark between all groups of a number, which begins with a group of one to three digits.
    rf"(?:\d{{1,3}}(?P<mark>{_GROUPING})\d{{3}}(?!\d)(?:(?P=mark)\d{{3}}(?!\d))*"
    # Lakhs and crores.
    r"|\d{1,2}(?:,\d{2})+,\d{3}(?!\d)"
    r"|\d+(?:,\d{3}(?!\d))*"
    r")(?:\.\d+)?"
    # A number such as .5 must follow the end of a word.
    r"|(?<![\w.,)\]])\.\d+"
)
_POWER = r"\^\{?[ ]?[-+]?(?:\d+|[a-z](?![a-z]))"
_PIECE = re.compile(
    # An exponent is not a separate number. The exponent of a unit does not change the number before it.
    rf"(?P<exponent>{_POWER})"
    # Square metres and the like, written without the sign of a power.
    rf"|(?<=\d)[ {_BLANK}]?(?P<unit>(?:[cdkm]?m|in|ft|yd|mi)[23](?!\w|\.\d))"
    rf"|(?P<number>{_DIGITS})"
    # Marks that give the digits another value: an exponent, a superscript digit, a fraction.
    rf"(?P<more>(?!\^\{{?o\b){_POWER}|[eE][-+]?\d+(?!\w)|[\u00b2\u00b3\u00b9\u2070-\u2079\u00bc-\u00be\u2150-\u215e])?"
)
_CHANGES = re.compile(rf"{_GROUPING}")
# A dash before a number, its currency or a mark of formatting. Blanks may follow it only where it cannot be a
# dash of the sentence.
_DASH = re.compile(rf"-(?:[$\u20ac\u00a3\u00a5\u20b9*{{`]|\\[$,;:!])*(?P<blank>[ {_BLANK}]*)\Z")
_DASH_CHARACTERS = 20
_GOLD = re.compile(rf"(?P<sign>[-+]?)\$?(?P<number>{_DIGITS})")
# The characters after the last digit that can make it part of a power.
_BEHIND = 8


def gold_number(answer: str) -> Decimal:
    """Return the number after `####`, at the end of an answer of GSM8K.

    Raises ValueError if the mark is missing or something else follows it.
    Source: `extract_answer` of openai/grade-school-math (Cobbe et al. 2021, arXiv 2110.14168), which also
    drops commas.
    """
    _, mark, text = answer.rpartition(_MARK)
    found = _GOLD.fullmatch(text.strip().removesuffix(".").translate(_ALIKE).removeprefix("$"))
    if not mark or found is None or len(text) > MAX_NUMBER_CHARACTERS:
        raise ValueError(f"no number after {_MARK}")
    return _value(found["number"], negative=found["sign"] == "-")


def last_number(text: str) -> Decimal | None:
    """Return the last number of a text, or None if there is not one or it cannot be read.

    Marks between thousands are dropped: commas, thin and no-break blanks, and their LaTeX forms. Currency
    signs, percent signs and trailing dots are ignored. Exponents of units do not count as numbers. The last
    number of `3/4` is 4, as in the published rule. A power (`10^3`), a mixed fraction and a number of more
    than MAX_NUMBER_CHARACTERS cannot be read. Takes time in proportion to the text.

    Source: the filter `flexible-extract` of the tasks `gsm8k` in EleutherAI's lm-evaluation-harness. The
    readings of LaTeX, of units and of other scripts are ours.
    """
    last = _DIGIT.search(text[::-1])
    if last is None:
        return None
    end = len(text) - last.start()
    # Only the end of the text matters: the number, and the characters that decide its sign.
    window = text[max(0, end - 2 * MAX_NUMBER_CHARACTERS) : end + _BEHIND].translate(_ALIKE)
    numbers = [piece for piece in _PIECE.finditer(window) if piece["number"]]
    if not numbers or numbers[-1]["more"] or len(numbers[-1]["number"]) > MAX_NUMBER_CHARACTERS:
        return None
    start = numbers[-1].start()
    before = window[max(0, start - _DASH_CHARACTERS) : start]
    return _value(numbers[-1]["number"], negative=_ends_in_minus(before))


def answer_number(text: str) -> Decimal | None:
    r"""Return the number that a reply marks as its answer, else its last number, else None.

    The marks are `####`, `\boxed{}` and `<answer>`, and the last one with a number counts.
    """
    for part in marked_parts(text):
        if _DIGIT.search(part):
            return last_number(part)
    return last_number(text)


def same_number(prediction: str, gold: Decimal) -> bool:
    """Return whether the `answer_number` of the prediction equals the gold number, up to 0.000001."""
    found = answer_number(prediction)
    return found is not None and abs(found - gold) < _TOLERANCE


def _ends_in_minus(before: str) -> bool:
    """Return whether the text before a number ends in its minus sign.

    A dash between two terms is a difference or a range, as in 16-3 and 3-5.
    """
    dash = _DASH.search(before)
    if dash is None:
        return False
    left = before[: dash.start()]
    if dash["blank"]:
        # The dash of `- 5` may belong to a list or to the sentence.
        return left.rstrip(f" {_BLANK}").endswith(("=", "(", "[", "{"))
    # Marks of formatting may appear between the number and the dash that follows it.
    left = left.rstrip("$*`_")
    return not left or not (left[-1].isalnum() or left[-1] in ")]}%.-'")


def _value(number: str, *, negative: bool) -> Decimal:
    value = Decimal(_CHANGES.sub("", number))
    return -value if negative else value
