"""The collection of answers that need no sandbox: right ones pass, wrong ones fail, docs list the rest."""

from __future__ import annotations

from pathlib import Path

from answer_collection import Case, cases

from harness.core.types import Verdict
from harness.environments import grader_of
from harness.environments.spec import TextGrader

DOCS = Path(__file__).parents[2] / "docs" / "answers.md"


def of_host(name: str) -> list[Case]:
    return [case for case in cases(name) if case.benchmark != "math"]


async def verdict(case: Case) -> Verdict:
    reference, submission = case.attempt()
    grader = grader_of(reference.target)
    assert isinstance(grader, TextGrader)
    return await grader.grade(reference.target, submission)


def test_the_collection_has_three_hundred_right_answers_and_a_hundred_wrong_ones() -> None:
    assert len(cases("right")) >= 300
    assert len(cases("wrong")) >= 100
    assert {case.benchmark for case in cases("right")} == {
        *("gsm8k", "math", "nq", "hotpotqa", "livecodebench-execution", "livecodebench-test-output")
    }


async def test_right_answers_pass() -> None:
    assert [case for case in of_host("right") if not case.passes(await verdict(case))] == []


async def test_wrong_answers_that_look_right_fail() -> None:
    assert [case for case in of_host("wrong") if case.passes(await verdict(case))] == []


async def test_right_answers_that_cannot_be_graded_fail() -> None:
    assert [case for case in of_host("unjudged") if case.passes(await verdict(case))] == []


def test_docs_give_every_reason_for_which_a_right_answer_fails() -> None:
    text = DOCS.read_text(encoding="utf-8")
    for case in cases("unjudged"):
        assert case.reason is not None
        assert case.reason in text
