"""Grade answers that should contain an expected text, as in AgentBench's flat records.

The published rule finds the text anywhere, so an expected 7 passes in "17". Therefore the verdict also
reports the result of a strict rule. All functions are pure and take time in proportion to the length of the
texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from harness.core.scoring.answers import MAX_NUMBER_CHARACTERS, MAX_REPLY_CHARACTERS, has_answer
from harness.core.types import Status, Submission, Verdict
from harness.environments.grader import TextGrader

NO_EXPECTATION = "No expected output available"
"""The error of a record without an expected text, in the words of the flat format's documentation."""
_HINT = "the record has no expected text, so no answer can contain it"
MAX_NUMBERS = 10
"""The largest number of different numbers in an answer. An answer with more numbers is a list of guesses."""

# Matches a number that is not part of a word, a path, a version or another number.
_NUMBER = re.compile(r"(?<![\w.,])[-+]?+\$?+\d++(?:,\d{3}(?!\d))*+(?:\.\d++)?+(?!\w)(?![.,]\d)")


@dataclass(frozen=True, slots=True)
class ExpectedText:
    """The text that an answer should contain. No answer contains a blank text."""

    text: str


def holds(answer: str, expected: str) -> bool:
    """Return whether the answer contains the expected text. Case and blanks around the texts do not count.

    Source: the documentation of the flat format (mcpbr, benchmark agentbench).
    """
    wanted = expected.strip().lower()
    return bool(wanted) and wanted in answer.strip().lower()


def holds_strictly(answer: str, expected: str) -> bool:
    """Return whether the answer contains the expected text in whole words, or the expected number.

    An expected number must be the value of a separate number, and the answer may contain
    MAX_NUMBERS different numbers at most. The words of any other text must follow each other in the answer.
    Their punctuation counts, their case and the blanks between them do not.
    """
    number = _value(expected.strip())
    if number is None:
        return has_answer(answer, [expected])
    found: set[Decimal] = set()
    for value in _numbers(answer):
        found.add(value)
        if len(found) > MAX_NUMBERS:
            return False
    return number in found


async def grade_text(expected: ExpectedText, submission: Submission) -> Verdict:
    """Return the verdict of `judge`."""
    return judge(expected, submission)


def judge(expected: ExpectedText, submission: Submission) -> Verdict:
    """Return the verdict of the published rule, with the strict result in `metrics["resolved_strict"]`.

    A verdict on a record without an expected text has `metrics["hint"]`.
    """
    answer = submission.text
    if len(answer) > MAX_REPLY_CHARACTERS:
        too_long = f"the answer has {len(answer):,} characters; the limit is {MAX_REPLY_CHARACTERS:,}"
        return Verdict(Status.FAILED, 0.0, {"resolved_strict": False}, too_long)
    resolved = holds(answer, expected.text)
    evidence, hint = None, {}
    if not expected.text.strip():
        evidence, hint = NO_EXPECTATION, {"hint": _HINT}
    elif not resolved:
        evidence = "the expected text is not in the answer"
    return Verdict(
        status=Status.PASSED if resolved else Status.FAILED,
        score=float(resolved),
        metrics={"resolved_strict": bool(answer.strip()) and holds_strictly(answer, expected.text), **hint},
        evidence=evidence,
    )


def _numbers(text: str) -> Iterator[Decimal]:
    for found in _NUMBER.finditer(text):
        if found.end() - found.start() <= MAX_NUMBER_CHARACTERS:
            yield _decimal(found[0])


def _value(text: str) -> Decimal | None:
    if len(text) > MAX_NUMBER_CHARACTERS or _NUMBER.fullmatch(text) is None:
        return None
    return _decimal(text)


def _decimal(number: str) -> Decimal:
    return Decimal(number.replace(",", "").replace("$", ""))


GRADERS = (TextGrader(ExpectedText, grade_text),)
