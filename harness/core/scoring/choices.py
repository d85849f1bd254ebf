r"""Find the option that a reply to a multiple-choice question chooses, without ever guessing one.

A reply chooses by stating its answer: `The answer is (B)`, `Answer: B`, `\boxed{B}` or `<answer>B</answer>`.
The last statement counts. Without a statement, the last line counts if it names one option and nothing
contradicts it. A reply that names several options in its statement chooses none.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.core.scoring.answers import MAX_ANSWER_CHARACTERS, last_boxed, tagged_answer

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""The letters of the options, in order. A question has at most this many options."""

# Letters of other alphabets that look like a letter of an option, and invisible characters.
_LOOKALIKES = str.maketrans(
    "\u0410\u0412\u0421\u0415\u041d\u0406\u0408\u0391\u0392\u0395\u0397\u0399", "ABCEHIJABEHI"
) | dict.fromkeys((0xAD, *range(0x200B, 0x2010), 0x2060, 0xFEFF))
# The words before an answer. The answer follows on the same line, or alone on the next one. A line may hold
# several statements.
_STATEMENT = re.compile(
    r"(?P<word>\b(?:answer|option|choice)\b|\u7b54\u6848)[*_`\s]{0,4}"
    r"(?:(?:is|are|would be|must be|:|=|\uff1a|\u662f|\u4e3a)[*_`\s]{0,4}){1,3}(?=[^\n])",
    re.IGNORECASE,
)
_MENTIONED = frozenset({"option", "choice"})
_SIGNS = frozenset(":=\uff1a")
_MAX_STATEMENT = 2000
# Only so many statements at the end of a reply are read, so that a reply of nothing else takes little time.
_MAX_STATEMENTS = 100
# These words before a statement deny it.
_REFUTED = re.compile(
    r"(?:\b(?:wrong|incorrect|false|worst)|(?:n't|\bnot)\s+(?:think|believe|say|mean)(?:\s+that)?(?:\s+the)?"
    r"(?:\s+(?:correct|right|best))?)\s+\Z",
    re.IGNORECASE,
)
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{(?P<said>[^{}\n]*(?:\{[^{}\n]*\}[^{}\n]*)*)\}")
_TAG = re.compile(r"<answer>(?P<said>[^<]{0,2000})</answer>", re.IGNORECASE)

_LAYOUT = re.compile(
    r"\\(?:text\w*|math\w\w|rm|bf|boxed|fbox|left|right)(?![A-Za-z])|[$*_`\"'\u201c\u201d]|\\[()\[\],;: ]"
)
_FORMAT = re.compile(r"\\[A-Za-z]*|[$*_`{}\"'\u201c\u201d]|\s+")
_BLANKS = re.compile(r"\s+")
# A blank changes a text only between two words or numbers.
_NO_BLANKS = re.compile(r"(?<!\w) | (?!\w)")
_ARTICLE = re.compile(r"\A(?:an?|the)\s+", re.IGNORECASE)
# An option's letter as a statement gives it, then the text after it.
_ADVERBS = "indeed|clearly|therefore|thus|then|hence|definitely|most|likely|probably|obviously|actually|still"
_NAMED = re.compile(
    rf"(?:(?:the|option|choice|letter|answer|correct|is|be|{_ADVERBS}|:)\s*){{0,5}}[(\[]?\s*"
    r"(?P<letter>[A-Za-z])\s*(?:[)\].:,;!?]|(?=-\s)|\Z|(?=\s))(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
# A letter that is not a part of a word, the pronoun or the article.
_LONE = re.compile(r"(?<![\w'])(?!(?:I|A)\s+(?!and\b|or\b)[a-z])(?!I')(?P<letter>[A-Z])(?![\w'])")
# The end of the part of a statement that names its options: a contrast, a reason, or another sentence.
_REASON = re.compile(
    r"\b(?:because|since|as(?!\s+well)|not|rather|instead|which|whereas|while|i\.e|given|due|unlike|over|than)\b"
)
_REASON_OR_SENTENCE = re.compile(
    rf"{_REASON.pattern}|(?:\A|[.!?;])[)\s]*(?<=\s)(?!(?:Or|And|Also|Alternatively|Maybe|Perhaps|Possibly)\b)"
    r"(?=[A-Z][A-Za-z']|[A-Z]\s+(?!and\b|or\b|are\b)[a-z])"
)
_OPEN_END = re.compile(r"(?:\b(?:or|and)|[/|&+])\s*\Z", re.IGNORECASE)
_DENIED = re.compile(r"(?:not|neither|none|unknown|unclear)\b", re.IGNORECASE)
_DENIED_ALL = re.compile(r"(?:neither|none|unknown|unclear|all|both|either|any)\b", re.IGNORECASE)
_DENIED_AFTER = re.compile(
    r"\W*(?:(?:is|was|are|would be|must be)\s+(?:\w+ly\s+)?(?:not|wrong|incorrect|false|impossible)\b"
    r"|(?:is|was|ca|could|does)n.t\b|cannot\b)",
    re.IGNORECASE,
)
_DENIAL = re.compile(
    r"\b(?:not|neither|nor|wrong|incorrect|false|except|cannot|eliminate[sd]?|rules? out|ruled out)\b|n't\b",
    re.IGNORECASE,
)
_PRONOUN = re.compile(
    r"I(?:'|\s+(?:am|was|do|did|have|can|could|will|would|think|believe|guess|know|need|choose|cannot)\b)"
)
_LISTED = re.compile(r"[\s*_([]*(?P<letter>[A-Z])[*_]*[)\].:]")
# The article or the pronoun at the start of a sentence.
_WORDS = re.compile(r"\W*[AI]\s+[a-z]")
_LAST_LINES = 2
_FEWEST = 3


@dataclass(frozen=True, slots=True)
class _Options:
    """The letters of the options, their texts in layout, and the letter of each text that does not repeat."""

    letters: str
    texts: Mapping[str, str]
    by_text: Mapping[str, str | None]


def choose_option(reply: str, options: Sequence[str]) -> str | None:
    """Return the letter of the option that a reply chooses, or None if it chooses none or several.

    Args:
        reply: the reply without the model's thoughts. Only its last MAX_ANSWER_CHARACTERS are read.
        options: the texts of the options, in the order of their letters.

    Source: MMLU-Pro (Wang et al. 2024, arXiv 2406.01574) reads `answer is (X)`, then `Answer: X`, then the
    last lone letter. Its evaluation draws an option at random for a reply without one; this never does.
    """
    text = reply[-MAX_ANSWER_CHARACTERS:].translate(_LOOKALIKES)
    known = _know(options)
    # The last one comes first. A mark precedes every statement in words, because it declares the answer.
    stated: list[str | None] = []
    for line in reversed(_list_marks(text)[-_MAX_STATEMENTS:]):
        choices = {_read(said, known) for said in line[-_MAX_STATEMENTS:]} - {None}
        if choices or any(_names_options(said, known) for said in line):
            stated.append(choices.pop() if len(choices) == 1 else None)
    for is_declared, said in reversed(_list_statements(text)):
        if len(stated) == len(options):
            break
        choice = _read(said, known)
        if choice is not None or is_declared or _names_options(said, known):
            stated.append(choice)
    if not stated:
        return _choose_in_last_lines(text, known)
    # A reply that states each option in turn chooses none, whichever comes last.
    names_all = len(options) >= _FEWEST and {*stated[: len(options)]} == {*known.letters}
    return None if names_all else stated[0]


def _know(options: Sequence[str]) -> _Options:
    letters = LETTERS[: len(options)]
    by_text: dict[str, str | None] = {}
    for letter, text in zip(letters, options, strict=True):
        for key in {_key(text), _key(text).casefold()}:
            by_text[key] = None if key in by_text else letter
    return _Options(letters, dict(zip(letters, map(_plain, options), strict=True)), by_text)


def _key(text: str) -> str:
    """Return a text without its layout, but with all its signs, to compare it with an option."""
    text = _BLANKS.sub(" ", _LAYOUT.sub("", text[:_MAX_STATEMENT])).strip("{} ").rstrip(" .,;:")
    return _ARTICLE.sub("", _NO_BLANKS.sub("", text), count=1)


def _plain(text: str) -> str:
    return _FORMAT.sub(" ", unicodedata.normalize("NFKC", text[:_MAX_STATEMENT])).strip()


def _read(said: str, known: _Options, ends: re.Pattern[str] = _REASON_OR_SENTENCE) -> str | None:
    """Return the letter of the option that a statement names, by its letter or by its whole text, or None.

    `ends` finds the end of the part that may name no other option.
    """
    plain = _plain(said)
    if plain.upper() not in known.letters:
        for key in (_key(said), _key(said[: _cut(said, ends)])):
            choice = known.by_text.get(key) or known.by_text.get(key.casefold())
            if choice is not None:
                return choice
    named = _NAMED.fullmatch(plain)
    if named is None or _DENIED.match(plain) or _PRONOUN.match(plain, named.start("letter")):
        return None
    letter, rest = named["letter"].upper(), named["rest"]
    own = known.texts.get(letter, "")
    if len(own) > 1 and rest.lstrip(" -\u2013:").casefold().startswith(own.casefold()):
        rest = rest.lstrip(" -\u2013:")[len(own) :]
    head = rest[: _cut(rest, ends)]
    further = {match["letter"] for match in _LONE.finditer(head)} & {*known.letters} - {letter}
    if letter not in known.letters or further or _OPEN_END.search(head) or _DENIED_AFTER.match(rest):
        return None
    # A small letter is a choice only if nothing but its mark follows: "a dog" is text.
    return letter if named["letter"].isupper() or not rest.strip(" .)]!?") else None


def _cut(text: str, ends: re.Pattern[str]) -> int:
    end = ends.search(text)
    return len(text) if end is None else end.start()


def _names_options(said: str, known: _Options) -> bool:
    """Return whether a statement that chooses none is about the options, so that no earlier one counts."""
    head = said[: _cut(said, _REASON_OR_SENTENCE)]
    return _DENIED_ALL.match(_plain(said)) is not None or any(
        match["letter"] in known.letters for match in _LONE.finditer(head)
    )


def _list_statements(text: str) -> list[tuple[bool, str]]:
    """Return the rest of the line of each statement, and whether it declares an answer, as `Answer:` does.

    Others may only mention one: `this option is ...`, `the answer is explained above`.
    """
    return [
        (
            match["word"].lower() not in _MENTIONED and not _SIGNS.isdisjoint(match[0]),
            _line(text, match.end()),
        )
        for match in deque(_STATEMENT.finditer(text), _MAX_STATEMENTS)
        if not _REFUTED.search(text, max(match.start() - 60, 0), match.start())
    ]


def _line(text: str, start: int) -> str:
    end = text.find("\n", start, start + _MAX_STATEMENT)
    return text[start : start + _MAX_STATEMENT if end < 0 else end]


def _list_marks(text: str) -> list[list[str]]:
    """Return the contents of the boxes and `<answer>` tags of a reply, by the lines that they are in."""
    lines = [
        [match["said"] for mark in (_TAG, _BOX) for match in mark.finditer(line)]
        for line in text.split("\n")
        if "\\" in line or "<" in line
    ]
    whole = tagged_answer(text) or last_boxed(text)
    # A mark may go over several lines, lack its end, or have braces in braces.
    return [line for line in lines if line] or ([[whole]] if whole else [])


def _choose_in_last_lines(text: str, known: _Options) -> str | None:
    lines = [line for line in text.split("\n") if line.strip()][-_LAST_LINES:]
    whole = [None if _WORDS.match(line) else _read(line, known, _REASON) for line in lines]
    listed = {match["letter"] for line in lines if (match := _LISTED.match(line))}
    if len(listed) > 1 or len({*whole} - {None}) > 1:
        return None  # a list of the options
    for line, choice in zip(reversed(lines), reversed(whole), strict=True):
        found = {match["letter"] for match in _LONE.finditer(_plain(line))} & {*known.letters}
        if choice is not None:
            return choice
        if found:
            return found.pop() if len(found) == 1 and not _DENIAL.search(line) else None
    return None
