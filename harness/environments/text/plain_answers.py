"""Grade answers to a user's own questions as text, by the rule that the user names."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from harness.core.scoring.answers import MAX_ANSWER_CHARACTERS, exact_match, f1, has_answer
from harness.core.scoring.numbers import last_number, same_number
from harness.core.types import Status, Submission, Verdict
from harness.environments.grader import TextGrader


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


GRADERS = (TextGrader(PlainAnswer, grade_plain_answer),)
