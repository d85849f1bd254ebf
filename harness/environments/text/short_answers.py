"""Grade short answers to questions as text, as in Natural Questions and HotpotQA. The best gold counts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from harness.core.scoring.answers import MAX_ANSWER_CHARACTERS, exact_match, f1, has_answer, plain_characters
from harness.core.scoring.metrics import Interval, Metric
from harness.core.types import Status, Submission, Verdict
from harness.environments.grader import TextGrader

METRICS = (
    Metric("em", "exact match in SQuAD's normal form; this is the score"),
    Metric("f1", "shared tokens in SQuAD's normal form, as F1", Interval.BOOTSTRAP),
    Metric("acc", "the answer holds the tokens of a gold one, side by side (DPR's has_answer)"),
    Metric("em_unicode", "em after NFC, with ASCII for full-width forms, quotation marks and dashes"),
)

_NAMES = tuple(metric.name for metric in METRICS)


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
        "em_unicode": float(exact_match(plain_characters(answer), _plain(target.golds))),
    }
    return Verdict(Status.PASSED if right else Status.FAILED, float(right), metrics)


def _plain(golds: Sequence[str]) -> list[str]:
    return [plain_characters(gold) for gold in golds]


GRADERS = (TextGrader(ShortAnswer, grade_short_answer),)
