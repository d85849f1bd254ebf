"""Short answers to questions, as in Natural Questions and HotpotQA: judged as text, best gold counting."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from harness.grading.answers import exact_match, f1, has_answer
from harness.grading.grader import Grader, Place
from harness.grading.metrics import Interval, Metric
from harness.model import Status, Submission, Verdict

MAX_CHARACTERS = 100_000
"""The longest answer that is read; a longer one is wrong. To cut it would be to judge another answer."""

METRICS = (
    Metric("em", "exact match in SQuAD's normal form; this is the score"),
    Metric("f1", "shared tokens in SQuAD's normal form, as F1", Interval.BOOTSTRAP),
    Metric("acc", "the answer holds the tokens of a gold one, side by side (DPR's has_answer)"),
)


@dataclass(frozen=True, slots=True)
class ShortAnswer:
    """Some gold answers, none of them empty, each of which is right."""

    golds: tuple[str, ...]


def expected_output(golds: Sequence[str]) -> str:
    """The gold answers as people are told of them."""
    return golds[0] if len(golds) == 1 else json.dumps(list(golds), ensure_ascii=False)


async def grade_short_answer(_place: None, criterion: ShortAnswer, submission: Submission) -> Verdict:
    """Judge an answer: it passes where it matches a gold one exactly. `f1` and `acc` are told beside."""
    answer = submission.text
    if len(answer) > MAX_CHARACTERS:
        said = f"an answer of {len(answer):,} characters is not read: the most are {MAX_CHARACTERS:,}"
        return Verdict(Status.FAILED, 0.0, {"em": 0.0, "f1": 0.0, "acc": 0.0}, said)
    right = exact_match(answer, criterion.golds)
    metrics = {
        "em": float(right),
        "f1": round(f1(answer, criterion.golds), 6),
        "acc": float(has_answer(answer, criterion.golds)),
    }
    return Verdict(Status.PASSED if right else Status.FAILED, float(right), metrics)


GRADERS = (Grader(ShortAnswer, Place.HOST, grade_short_answer),)
