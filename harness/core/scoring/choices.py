r"""Find the option that a reply to a multiple-choice question chooses, without ever guessing one.

A reply chooses by stating its answer: `The answer is (B)`, `Answer: B`, `\boxed{B}` or `<answer>B</answer>`.
The last statement counts. Without a statement, the last line counts if it names one option and nothing
contradicts it. A reply that names several options in its statement chooses none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.core.scoring.answers import MAX_ANSWER_CHARACTERS, last_boxed, normalised
from harness.core.scoring.marks import marked_parts

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""The letters of the options, in order. A question has at most this many options."""

# Letters of other alphabets, and full-width ones, that look like a letter of an option.
_LOOKALIKES = str.maketrans(
    "\u0410\u0412\u0421\u0415\u041d\u0406\u0408\u0391\u0392\u0395\u0397\u0399", "ABCEHIJABEHI"
) | {code: chr(code - 0xFEE0) for code in range(0xFF21, 0xFF3B)}
# The words before an answer. The answer follows on the same line, or alone on the next one.
_STATEMENT = re.compile(
    r"\b(?:answer|option|choice)\b[*_`\s]{0,4}"
    r"(?:(?:is|are|would be|must be|:|=|\uff1a)[*_`\s]{0,4}){1,3}(?P<said>[^\n]{1,2000})",
    re.IGNORECASE,
)
_FORMAT = re.compile(r"\\(?:text|textbf|mathrm|mathbf|mathsf|rm|bf)\b|[\\$*_`{}\"'\u201c\u201d]|\s+")
# An option's letter as a statement gives it, then the text after it.
_NAMED = re.compile(
    r"(?:(?:the|option|choice|letter|answer|correct|is|:)\s*){0,4}[(\[]?\s*(?P<letter>[A-Za-z])\s*(?P<mark>[)\].:,;]|-(?=\s)|\Z|(?=\s))(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
# A further letter right after the first one: "A and C", "A, B", "A B", "A/B", "(A) or (B)". After a full stop
# a letter is further only if no sentence begins with it.
_FURTHER = re.compile(
    r"[\s.)\]]*(?P<joined>(?:(?:and|or|nor|also)\b|[&/,+;])[\s.)\]]*)*(?:option\s*)?[(\[]?(?P<letter>[A-Z])(?![\w'])"
    r"(?(joined)|(?!\s+(?!and\b|or\b|are\b)[a-z]))"
)
_DENIED = re.compile(r"(?:not|neither|none|unknown|unclear)\b", re.IGNORECASE)
# A letter that is alone. The pronoun and the article are words.
_LONE = re.compile(r"(?<![\w'])(?!(?:I|A)\s+[a-z])(?!I')(?P<letter>[A-Z])(?![\w'])")
# The article or the pronoun at the start of a sentence.
_WORDS = re.compile(r"\W*[AI]\s+[a-z]")
_LAST_LINES = 2


def choose_option(reply: str, options: Sequence[str]) -> str | None:
    """Return the letter of the option that a reply chooses, or None if it chooses none or several.

    Args:
        reply: the reply without the model's thoughts. Only its last MAX_ANSWER_CHARACTERS are read.
        options: the texts of the options, in the order of their letters.

    Source: MMLU-Pro (Wang et al. 2024, arXiv 2406.01574) reads `answer is (X)`, then `Answer: X`, then the
    last lone letter. Its evaluation draws an option at random for a reply without one; this never does.
    """
    text = reply[-MAX_ANSWER_CHARACTERS:].translate(_LOOKALIKES)
    letters = LETTERS[: len(options)]
    stated = [read_choice(said, options) for said in _list_statements(text)]
    if stated:
        names_all = len(letters) > 2 and {*filter(None, stated)} == {*letters}
        return None if names_all else stated[-1]
    lines = [line for line in text.split("\n") if line.strip()]
    for line in reversed(lines[-_LAST_LINES:]):
        if not _WORDS.match(line) and (whole := read_choice(line, options)) is not None:
            return whole
        found = {match["letter"] for match in _LONE.finditer(line)} & {*letters}
        if found:
            return found.pop() if len(found) == 1 else None
    return None


def read_choice(said: str, options: Sequence[str]) -> str | None:
    """Return the letter of the option that a statement names, by its letter or by its whole text, or None."""
    letters = LETTERS[: len(options)]
    plain = _FORMAT.sub(" ", said.translate(_LOOKALIKES)).strip()
    wanted = normalised(plain)
    same = [letters[place] for place, option in enumerate(options) if wanted and normalised(option) == wanted]
    if len(same) == 1 and plain.upper() not in letters:
        return same[0]
    if _DENIED.match(plain):
        return None
    if (named := _NAMED.fullmatch(plain)) is not None:
        letter, rest = named["letter"], named["rest"]
        # A small letter is a choice only if nothing but its mark follows: "a dog" is text.
        is_alone = not rest.strip(" .)]")
        if letter.upper() in letters and (is_alone or letter.isupper()):
            further = _FURTHER.match(rest)
            if further is None or further["letter"] not in letters or further["letter"] == letter.upper():
                return letter.upper()
    return None


def _list_statements(text: str) -> list[str]:
    found = [(match.start(), match["said"]) for match in _STATEMENT.finditer(text)]
    marked = [*marked_parts(text)]
    box = last_boxed(text)
    if box is not None and box not in marked:
        marked.append(box)
    # A mark precedes every statement in words, because it declares the answer.
    return [said for _, said in sorted(found)] + marked[:1]
