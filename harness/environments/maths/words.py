r"""The normal form of answers in words: `June 20`, `A, B, C`, `(A) and (C)`."""

from __future__ import annotations

import re

from harness.environments.maths.latex import text_parts

_ARTICLE = re.compile(r"(?:an?|the)\s+(?!and\b|or\b)(?=[a-z0-9])", re.IGNORECASE)
_BLANK = re.compile(r"\\[,;:! ]|\\q?quad(?![A-Za-z])|~")
_AND = re.compile(r"\s*,?\s+and\s+", re.IGNORECASE)
_LETTER_IN_BRACKETS = re.compile(r"\(([A-Za-z])\)")
_WORDS = re.compile(r"[A-Za-z][A-Za-z \-]*")
# A date, a room, a list. Digits and letters in one word would be mathematics.
_MIXED = re.compile(r"(?:[A-Za-z]+(?:[-'][A-Za-z]+)*|\d+)(?:[,;]? (?:[A-Za-z]+(?:[-'][A-Za-z]+)*|\d+))*")
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b")
_LONG_WORD = re.compile(r"[A-Za-z]{3}")


def words(text: str) -> str | None:
    """Return the normal form of an answer in words, or None for any other answer.

    The form has single blanks, and a comma and a blank between the elements of a list. Words are in lower
    case. A single letter keeps its case, which can distinguish two letters.
    """
    parts = list(text_parts(text))
    plain = _BLANK.sub(" ", " ".join(part for _, part in parts))
    plain = " ".join(_LETTER_IN_BRACKETS.sub(r"\1", plain).split()).strip(" ().:,")
    plain = _ARTICLE.sub("", plain, count=1)
    if _WORDS.fullmatch(plain) is None:
        plain = re.sub(r"\s*[,;]\s*", ", ", _AND.sub(", ", _ORDINAL.sub("", plain)).replace(". ", " "))
        in_text = any(is_text and part.strip() for is_text, part in parts)
        letters = all(len(one) == 1 and one.isalpha() for one in plain.split(", "))
        if _MIXED.fullmatch(plain) is None or not (in_text or letters or _LONG_WORD.search(plain)):
            return None
        if not any(character.isalpha() for character in plain):
            return None
    else:
        plain = _AND.sub(", ", plain)
    return " ".join(one if len(one.strip(",")) == 1 else one.lower() for one in plain.split(" "))
