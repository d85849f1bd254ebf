"""Answers that are graded without a sandbox: verdicts, metrics, and attacks."""

from __future__ import annotations

from decimal import Decimal

import pytest
from case_checks import each_case
from effort import THOROUGH

from harness.audit.attack import Attack, Kind
from harness.audit.suite import list_attacks_on
from harness.benchmarks import load_benchmark
from harness.core.types import Status, Submission, Verdict
from harness.environments import grader_of
from harness.environments.spec import TextGrader
from harness.environments.text.short_answers import NumberAnswer, ShortAnswer

GOLDS = ShortAnswer(("the Eiffel Tower", "Tour Eiffel"))
EIGHT = NumberAnswer(Decimal(8))
# A run grades thousands of answers in one thread, so no attack may keep the grader busy.
pytestmark = pytest.mark.timeout(60)


async def verdict(target: object, answer: str) -> Verdict:
    grader = grader_of(target)
    assert isinstance(grader, TextGrader)
    return await grader.grade(target, Submission(answer, answer))


@each_case(
    ("answer", "em", "f1", "acc"),
    [
        ("The Eiffel Tower!", 1.0, 1.0, 1.0),
        ("tour eiffel", 1.0, 1.0, 1.0),
        ("the Eiffel tower in Paris", 0.0, 0.666667, 1.0),
        ("Tower", 0.0, 0.666667, 0.0),
        ("Big Ben", 0.0, 0.0, 0.0),
        ("", 0.0, 0.0, 0.0),
        ("eiffel tower " * 10_000, 0.0, 0.0, 0.0),
    ],
)
async def test_short_answer_passes_by_exact_match_and_has_the_other_metrics(
    answer: str, em: float, f1: float, acc: float
) -> None:
    found = await verdict(GOLDS, answer)
    assert found.metrics == {"em": em, "f1": f1, "acc": acc, "em_unicode": em}
    assert (found.status, found.score) == (Status.PASSED if em else Status.FAILED, em)


@each_case("answer", ["8", "It is 8.", "#### 8", "$8.00", "first 7, then 8", "\\boxed{8}"])
async def test_number_passes_if_the_last_one_is_the_gold_one(answer: str) -> None:
    assert await verdict(EIGHT, answer) == Verdict(Status.PASSED, 1.0, {"solved": 1.0, "answer": "8"})


@each_case(
    ("answer", "said"),
    [("8 or 7", "answered 7"), ("", "no number in the answer"), ("eight", "no number in the answer")],
)
async def test_a_wrong_number_is_named_in_the_evidence(answer: str, said: str) -> None:
    found = await verdict(EIGHT, answer)
    assert (found.status, found.metrics["solved"], found.evidence) == (Status.FAILED, 0.0, said)


@each_case("attack", list_attacks_on("NumberAnswer"), ids=lambda attack: attack.name)
async def test_no_attack_passes_as_the_number(attack: Attack) -> None:
    await withstands("gsm8k", attack)


@each_case("attack", list_attacks_on("ShortAnswer"), ids=lambda attack: attack.name)
@each_case("name", ["nq", "hotpotqa"])
async def test_no_attack_passes_as_the_short_answer(name: str, attack: Attack) -> None:
    await withstands(name, attack)


async def withstands(name: str, attack: Attack) -> None:
    """Assert that no sample of the attack passes a task."""
    benchmark = load_benchmark(name, data="bundled")
    number = 1 if attack.kind is Kind.EXHAUSTING else len(benchmark.tasks) if THOROUGH else 5
    for task in benchmark.tasks[:number]:
        for sample in range(attack.samples):
            submission = await attack.hand_in(benchmark, task, sample, None)
            found = await verdict(benchmark.references[task.id].target, submission.text)
            assert found.status is Status.FAILED, (task.id, sample, submission.text[:80])
            assert found.score == 0.0
