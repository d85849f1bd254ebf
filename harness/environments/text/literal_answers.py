"""Grade answers that are Python literals. Trusted code parses and compares them, and never evaluates them."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from harness.core.scoring.answers import MAX_ANSWER_CHARACTERS
from harness.core.scoring.literals import LiteralRefused, equal_literals, read_equated, read_literal
from harness.core.text import escape_text, shorten
from harness.core.types import Phase, Status, Submission, Verdict
from harness.environments.grader import TextGrader

_SHOWN = 200


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
    return escape_text(repr(shorten(text, _SHOWN)))


GRADERS = (TextGrader(LiteralAnswer, grade_literal),)
