"""Flat records under the published rule and under the strict one."""

from __future__ import annotations

import pytest
from case_checks import each_case
from effort import text_of_length

from harness.core.types import Status, Submission
from harness.environments.text.short_answers import ExpectedText, holds, holds_strictly, judge

BOTH = [
    ("The answer is 7.", "7"),
    ("there are 7 files in 17 folders", "7"),
    ("7", " 7\n"),
    ("it costs $1,000", "1,000"),
    ("it is -7 degrees", "-7"),
    ("/ROOT/a.log holds it", "/root/a.log"),
    ("Paris", "paris"),
    ("it is 3.50 here", "3.5"),
]
LOOSE_ONLY = [
    ("17", "7"),
    ("7.5", "7"),
    ("version 7.1.2", "7"),
    ("file7", "7"),
    ("-7", "7"),
    ("catalogue", "cat"),
    ("/home/jack/file2", "/home/jack/file"),
    (" ".join(map(str, range(1000))), "42"),
]
STRICT_ONLY = [("1000", "1,000"), ("it is 1,000", "1000"), ("+7", "7.0"), ("hello   world", "hello world")]
NEITHER = [("", "7"), ("eight", "7"), ("70.1", "7.01")]


@each_case(("answer", "expected"), BOTH)
def test_a_plain_answer_passes_both(answer: str, expected: str) -> None:
    assert holds(answer, expected)
    assert holds_strictly(answer, expected)


@each_case(("answer", "expected"), LOOSE_ONLY)
def test_a_text_inside_another_passes_only_the_published_rule(answer: str, expected: str) -> None:
    assert holds(answer, expected)
    assert not holds_strictly(answer, expected)


@each_case(("answer", "expected"), STRICT_ONLY)
def test_the_same_value_in_another_spelling_passes_only_the_strict_one(answer: str, expected: str) -> None:
    assert not holds(answer, expected)
    assert holds_strictly(answer, expected)


@each_case(("answer", "expected"), NEITHER)
def test_another_answer_passes_neither(answer: str, expected: str) -> None:
    assert not holds(answer, expected)
    assert not holds_strictly(answer, expected)


@each_case("expected", ["", " \n"])
@each_case("answer", ["", "anything"])
def test_an_empty_expectation_matches_nothing(answer: str, expected: str) -> None:
    verdict = judge(ExpectedText(expected), Submission(answer, answer))
    assert verdict.status is Status.FAILED
    assert verdict.evidence == "No expected output available"
    assert verdict.metrics["resolved_strict"] is False
    assert "the record has no expected text" in verdict.metrics["hint"]


def test_the_published_rule_gives_the_status_and_the_strict_one_a_metric() -> None:
    verdict = judge(ExpectedText("7"), Submission("17", "17"))
    assert (verdict.status, verdict.score) == (Status.PASSED, 1.0)
    assert verdict.metrics == {"resolved_strict": False}


@pytest.mark.timeout(60)
@each_case("unit", ["9", "1,", "1.", "-", "$", "1,000", "7 "])
def test_a_long_text_of_one_piece_is_read(unit: str) -> None:
    assert not holds_strictly(text_of_length(unit, 400_000), "42")
