"""Grade answers that are one number, as in GSM8K, by the number that they mark or their last one."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from harness.core.scoring.answers import MAX_ANSWER_CHARACTERS
from harness.core.scoring.metrics import Metric
from harness.core.scoring.numbers import answer_number, same_number
from harness.core.types import Status, Submission, Verdict
from harness.environments.grader import TextGrader

METRICS = (Metric("solved", "the marked number of the answer, else its last one, is the gold one"),)

# Evidence shows this much of a number, because a reader does not need a thousand digits.
_SHOWN_CHARACTERS = 40


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
    answer = str(found)[:_SHOWN_CHARACTERS]
    return Verdict(Status.FAILED, 0.0, {"solved": 0.0, "answer": answer}, f"answered {answer}")


GRADERS = (TextGrader(NumberAnswer, grade_number),)
