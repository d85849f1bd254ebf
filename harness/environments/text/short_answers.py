"""Grade short answers: as text, by a rule of the user, as one number, as a literal, or by a part.

Each kind of answer is a target with its grader. Trusted code parses and compares, and never evaluates.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any

from harness.core.scoring.answers import (
    MAX_ANSWER_CHARACTERS,
    MAX_NUMBER_CHARACTERS,
    MAX_REPLY_CHARACTERS,
    exact_match,
    f1,
    has_answer,
    plain_characters,
)
from harness.core.scoring.literals import LiteralRefused, equal_literals, read_equated, read_literal
from harness.core.scoring.metrics import Interval, Metric
from harness.core.scoring.numbers import answer_number, last_number, same_number
from harness.core.text import escape_text, shorten
from harness.core.types import Phase, Status, Submission, Verdict
from harness.environments.spec import TextGrader

METRICS = (
    Metric("em", "exact match in SQuAD's normal form; this is the score"),
    Metric("f1", "shared tokens in SQuAD's normal form, as F1", Interval.BOOTSTRAP),
    Metric("acc", "the answer holds the tokens of a gold one, side by side (DPR's has_answer)"),
    Metric("em_unicode", "em after NFC, with ASCII for full-width forms, quotation marks and dashes"),
)
_NAMES = tuple(metric.name for metric in METRICS)
NUMBER_METRICS = (Metric("solved", "the marked number of the answer, else its last one, is the gold one"),)

# Evidence shows this much of a number, because a reader does not need a thousand digits.
_SHOWN_DIGITS = 40
_SHOWN_CHARACTERS = 200

NO_EXPECTATION = "No expected output available"
"""The error of a record without an expected text, in the words of the flat format's documentation."""
_HINT = "the record has no expected text, so no answer can contain it"
MAX_NUMBERS = 10
"""The largest number of different numbers in an answer. An answer with more numbers is a list of guesses."""

# Matches a number that is not part of a word, a path, a version or another number.
_NUMBER = re.compile(r"(?<![\w.,])[-+]?+\$?+\d++(?:,\d{3}(?!\d))*+(?:\.\d++)?+(?!\w)(?![.,]\d)")


@dataclass(frozen=True, slots=True)
class ShortAnswer:
    """The gold answers, none of them empty. Each is right on its own."""

    golds: tuple[str, ...]


def expected_output(golds: Sequence[str]) -> str:
    """Return the gold answers as reports show them."""
    return golds[0] if len(golds) == 1 else json.dumps(list(golds), ensure_ascii=False)


async def grade_short_answer(target: ShortAnswer, submission: Submission) -> Verdict:
    """Return the verdict on an answer by exact match with a gold answer. The other metrics do not decide.

    The metrics are `em`, `f1`, `acc` and `em_unicode`, each from 0 to 1. `em_unicode` shows how many answers
    `em` rejects because of the encoding of their characters. An answer of more than MAX_ANSWER_CHARACTERS
    fails.

    Source: SQuAD's exact match and F1 and DPR's `has_answer` (`harness.core.scoring.answers`).
    """
    answer = submission.text
    if len(answer) > MAX_ANSWER_CHARACTERS:
        evidence = f"the answer has {len(answer):,} characters; the limit is {MAX_ANSWER_CHARACTERS:,}"
        return Verdict(Status.FAILED, 0.0, dict.fromkeys(_NAMES, 0.0), evidence)
    right = exact_match(answer, target.golds)
    metrics = {
        "em": float(right),
        "f1": round(f1(answer, target.golds), 6),
        "acc": float(has_answer(answer, target.golds)),
        "em_unicode": float(exact_match(plain_characters(answer), list(map(plain_characters, target.golds)))),
    }
    return Verdict(Status.PASSED if right else Status.FAILED, float(right), metrics)


class AnswerRule(StrEnum):
    """The rule that scores an answer. `f1` scores from 0 to 1, every other rule scores 0 or 1."""

    EXACT_MATCH = "exact_match"
    F1 = "f1"
    HAS_ANSWER = "has_answer"
    NUMBER = "number"


@dataclass(frozen=True, slots=True)
class PlainAnswer:
    """The gold answers, none of them empty, and the rule. With the rule `number`, each gold ends in one."""

    rule: AnswerRule
    golds: tuple[str, ...]


async def grade_plain_answer(target: PlainAnswer, submission: Submission) -> Verdict:
    """Return the verdict on an answer, which passes with a score of 1. The best gold counts."""
    answer = submission.text
    if len(answer) > MAX_ANSWER_CHARACTERS:
        evidence = f"the answer has {len(answer):,} characters; the limit is {MAX_ANSWER_CHARACTERS:,}"
        return Verdict(Status.FAILED, 0.0, {target.rule.value: 0.0}, evidence)
    score = _score(target, answer)
    return Verdict(
        Status.PASSED if score == 1.0 else Status.FAILED, score, {target.rule.value: round(score, 6)}
    )


def _score(target: PlainAnswer, answer: str) -> float:
    match target.rule:
        case AnswerRule.EXACT_MATCH:
            return float(exact_match(answer, target.golds))
        case AnswerRule.F1:
            return f1(answer, target.golds)
        case AnswerRule.HAS_ANSWER:
            return float(has_answer(answer, target.golds))
        case AnswerRule.NUMBER:
            numbers = [last_number(gold) for gold in target.golds]
            return float(any(same_number(answer, gold) for gold in numbers if gold is not None))


@dataclass(frozen=True, slots=True)
class NumberAnswer:
    """The one number that is right."""

    gold: Decimal


async def grade_number(target: NumberAnswer, submission: Submission) -> Verdict:
    """Return the verdict on an answer by its marked or last number, with a score of 0 or 1.

    Only the last MAX_ANSWER_CHARACTERS of the answer are searched.

    Source: GSM8K (`harness.core.scoring.numbers`).
    """
    end = submission.text[-MAX_ANSWER_CHARACTERS:]
    solved = same_number(end, target.gold)
    if solved:
        return Verdict(Status.PASSED, 1.0, {"solved": 1.0, "answer": str(target.gold)})
    found = answer_number(end)
    if found is None:
        return Verdict(Status.FAILED, 0.0, {"solved": 0.0}, "no number in the answer")
    answer = str(found)[:_SHOWN_DIGITS]
    return Verdict(Status.FAILED, 0.0, {"solved": 0.0, "answer": answer}, f"answered {answer}")


class LiteralForm(StrEnum):
    """The form that an answer states its value in and the benchmark the expected value.

    `result` accepts a literal, `call(...) == literal`, or an assert of such a comparison. The expected value
    is a Python literal. `assertion` accepts `assert call(...) == literal` or a literal. Of several
    statements, the first line counts that has an assert and is not a comment. The expected value is JSON.

    Source: LiveCodeBench's `compute_code_execution_metrics.py` and
    `compute_test_output_prediction_metrics.py`.
    """

    RESULT = "result"
    ASSERTION = "assertion"


@dataclass(frozen=True, slots=True)
class LiteralAnswer:
    """The value that an answer must have.

    With `exact_types`, True differs from 1 and 1 differs from 1.0. Otherwise Python's own `==` compares the
    values.
    """

    expected: str
    form: LiteralForm
    exact_types: bool

    def accepts(self, answer: str) -> bool:
        """Return whether an answer has the expected value. An expression such as `0 or True` never has it."""
        if self.form is LiteralForm.RESULT:
            read, expected = _read_result, read_literal(self.expected)
        else:
            read, expected = _read_assertion, json.loads(self.expected)
        try:
            found = read(answer)
        except LiteralRefused:
            return False
        return equal_literals(found, expected, exact_types=self.exact_types)


def _read_result(answer: str) -> Any:
    """Return the value of a literal or of the right side of a comparison. Raises LiteralRefused."""
    try:
        return read_literal(answer)
    except LiteralRefused:
        return read_equated(answer)


def _read_assertion(answer: str) -> Any:
    """Return the value of a literal or of the right side of the first assert. Raises LiteralRefused."""
    text = answer.strip()
    if len(text) > MAX_ANSWER_CHARACTERS:
        raise LiteralRefused(f"the answer is longer than {MAX_ANSWER_CHARACTERS:,} characters")
    if "assert" not in text:
        return read_literal(text)
    for read in (read_literal, _read_assert):
        with suppress(LiteralRefused):
            return read(text)
    lines = text.split("\n")
    return _read_assert(next((line for line in lines if "assert" in line and not line.startswith("#")), ""))


def _read_assert(text: str) -> Any:
    """Return the literal of an assert. Raises LiteralRefused if the text does not begin with an assert."""
    if not text.lstrip("# \t\n").startswith("assert") and "\nassert" not in text:
        raise LiteralRefused("there is no assert")
    return read_equated(text)


async def grade_literal(target: LiteralAnswer, submission: Submission) -> Verdict:
    """Return the verdict on an answer, with a score of 0 or 1. An answer longer than any literal fails."""
    text = submission.text
    if len(text) <= MAX_ANSWER_CHARACTERS and await asyncio.to_thread(target.accepts, text):
        return Verdict(Status.PASSED, 1.0, phase=Phase.EVALUATOR)
    evidence = f"answered {_shorten(text)}, expected {_shorten(target.expected)}"
    return Verdict(Status.FAILED, 0.0, evidence=evidence, phase=Phase.EVALUATOR)


def _shorten(text: str) -> str:
    return escape_text(repr(shorten(text, _SHOWN_CHARACTERS)))


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


GRADERS = (
    TextGrader(ShortAnswer, grade_short_answer),
    TextGrader(PlainAnswer, grade_plain_answer),
    TextGrader(NumberAnswer, grade_number),
    TextGrader(LiteralAnswer, grade_literal),
    TextGrader(ExpectedText, grade_text),
)
