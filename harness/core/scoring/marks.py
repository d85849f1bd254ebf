r"""Find the part of a reply that its marks declare to be the answer: `<answer>`, `\boxed{}` and `####`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.core.scoring.answers import last_boxed

_TAG = re.compile(r"<(?P<end>/?)answer>", re.IGNORECASE)
_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")
_HASHES = re.compile(r"(?<!#)####(?!#)[ \t]*(?P<line>[^\n]*)")
# A number follows the mark at once, or after its sign, its currency and marks of formatting. Any other line
# is a heading in Markdown.
_NUMBER_FIRST = re.compile(
    r"(?:\W{0,4}(?:the\s+)?(?:final\s+)?answer(?:\s+is)?)?(?:[^\w\n]|_){0,12}\d", re.IGNORECASE
)
_HEADING = re.compile(r"\W{0,4}\d{1,2}\W{0,4}[.):]\W{0,4}\s.*[A-Za-z]")
# The number and one word after it, such as its unit. "18 or 19" continues, because it is not one number.
_CLAUSE = re.compile(
    r"[.!?;:](?=\s|\Z)|[ \t]\(|,[ \t]+(?!(?:or|and|to)\b)(?=[A-Za-z])"
    r"|(?<=[A-Za-z])(?<!\bor)(?<!\band)(?<!\bto)[ \t]+(?!(?:or|and|to)\b)(?=[A-Za-z])",
    re.IGNORECASE,
)

# The last line of a reply to the prompts of simple-evals and of Minerva.
_STATED = re.compile(
    r"[*_#>\s]{0,8}(?:final\s+)?answer[*_\s]{0,4}:[*_\s]{0,4}"
    r"(?:the\s+final\s+answer\s+is\s*:?\s*)?(?P<answer>.{1,500}?)"
    r"(?:\.?\s*I\s+hope\s+it\s+is\s+correct)?[.*_\s]{0,8}",
    re.IGNORECASE,
)
_MATHS = re.compile(r"\$\$?([^$]+)\$\$?|\\\((.+)\\\)|\\\[(.+)\\\]")


def stated_answer(text: str) -> str | None:
    """Return the answer of a reply whose last line is `Answer: ...`, without its dollars, else None.

    Source: the prompts of simple-evals, and of Minerva ("Final Answer: The final answer is ... I hope it is
    correct.").
    """
    lines = text.rstrip().rsplit("\n", 1)
    found = _STATED.fullmatch(lines[-1][:1000])
    if found is None:
        return None
    answer = found["answer"].strip()
    inside = _MATHS.fullmatch(answer)
    return next(filter(None, inside.groups())).strip() if inside else answer


def tagged_answer(text: str) -> str | None:
    """Return the stripped text in the last `<answer>` of a reply, or None if there is none.

    The last tag may lack its end, because some models stop there. Takes time in proportion to the text.
    """
    tags = list(_TAG.finditer(text))
    for place in range(len(tags) - 1, -1, -1):
        if not tags[place]["end"]:
            closed = place + 1 < len(tags)
            inside = text[tags[place].end() : tags[place + 1].start() if closed else len(text)].strip()
            return inside if inside or closed else None
    return None


def marked_parts(text: str) -> Iterator[str]:
    r"""Yield the parts of a reply that its marks declare to be the answer, the last mark first.

    The marks are the last `\boxed{}`, the last `<answer>` and the last `####` that a number follows. The part
    after `####` ends with the clause of the number.
    """
    places: list[tuple[int, str]] = []
    box, boxes = last_boxed(text), [found.start() for found in _BOX.finditer(text)]
    if box is not None and boxes:
        places.append((boxes[-1], box))
    tags = [found.start() for found in _TAG.finditer(text) if not found["end"]]
    if tags and (inside := tagged_answer(text)) is not None:
        places.append((tags[-1], inside))
    lines = list(_HASHES.finditer(text))
    for line in reversed(lines):
        number = _NUMBER_FIRST.match(line["line"])
        if number is not None and not (len(lines) > 1 and _HEADING.match(line["line"])):
            end = _CLAUSE.search(line["line"], number.end())
            places.append((line.start(), line["line"][: end.start()] if end else line["line"]))
            break
    for _, part in sorted(places, reverse=True):
        yield part
