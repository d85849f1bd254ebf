"""Answers to questions about a table: equal values pass, and others fail."""

from __future__ import annotations

import json

from case_checks import each_case

from harness.core.types import Submission
from harness.environments.db.grader import DatabaseAnswer, answer_values, grade_answer, same_values

SAME = [
    (["7"], ["7.0"]),
    (["32,502"], ["32502.0"]),
    (["1,23,456"], ["123456"]),
    (["45%"], ["45"]),
    (["'March 19, 1998'"], ["March 19, 1998"]),
    (["March 19 1998"], ["March 19, 1998"]),
    (["0.33"], ["0.3333"]),
    (["0.11"], ["0.1"]),
    (["2", "1"], ["1.0", "2.0"]),
    (["b", "a"], ["a", "b"]),
    (["NULL"], ["none"]),
    (["None"], ["null"]),
    (["-3"], ["-3.00"]),
    (["a,b"], ["a,b"]),
]
DIFFERENT = [
    ([], ["none"]),
    ([], ["0"]),
    ([], []),
    ([""], ["0"]),
    ([""], ["none"]),
    (["none"], ["0"]),
    (["0"], ["none"]),
    (["0"], ["0.004"]),
    (["0.004"], ["0"]),
    (["1,2"], ["12"]),
    (["1_0"], ["10"]),
    (["٣"], ["3"]),
    (["1", "1"], ["1"]),
    (["1", "2", "3"], ["2"]),
    (["7", "seven"], ["7"]),
    (["0.35"], ["0.3333"]),
    (["inf"], ["1e99"]),
    (["Giza and more"], ["Giza"]),
    (["giza"], ["Giza"]),
    (["%"], ["0"]),
    (["1e9"], ["1e9999999"]),
]


@each_case(("given", "expected"), SAME)
def test_values_that_mean_the_same_are_the_same(given: list[str], expected: list[str]) -> None:
    assert same_values(given, expected)


@each_case(("given", "expected"), DIFFERENT)
def test_other_values_are_different(given: list[str], expected: list[str]) -> None:
    assert not same_values(given, expected)


@each_case(
    ("text", "values"),
    [
        ('["a", "b"]', ("a", "b")),
        ("['a', 'b']", ("a", "b")),
        ("[1.50, 2]", ("1.50", "2")),
        ("[('a',), ('b',)]", ("a", "b")),
        ("[null]", ("none",)),
        ("(1, 2)", ("1", "2")),
        ("  Giza ", ("Giza",)),
        ("[18] or so", ("[18] or so",)),
        ("12345678901234567890.10", ("12345678901234567890.10",)),
    ],
)
def test_an_answer_is_read_as_a_list_or_as_one_value(text: str, values: tuple[str, ...]) -> None:
    assert answer_values(text) == values


@each_case("text", ["", "  ", "[]", "()", "[[1, 2]]", '[{"a": 1}]', "a" * 100_001])
def test_an_answer_without_values_is_no_answer(text: str) -> None:
    assert answer_values(text) is None


@each_case("text", ["[" * 50_000, "-" * 50_000, "[" + "9" * 50_000 + "]", "[__import__('os')]"])
async def test_hostile_texts_are_wrong_and_raise_nothing(text: str) -> None:
    assert not (await grade_answer(DatabaseAnswer(("1",)), Submission(text, ""))).resolved


@each_case("label", ["[18]", "a, b", '"quoted"', "none", "1–0", "x'00'"])
async def test_the_published_value_is_right_by_itself_and_in_a_list(label: str) -> None:
    for text in (label, json.dumps([label])):
        assert (await grade_answer(DatabaseAnswer((label,)), Submission(text, ""))).resolved


async def test_evidence_shows_no_raw_control_characters() -> None:
    verdict = await grade_answer(DatabaseAnswer(("1",)), Submission("\x1b[31mred", ""))
    assert verdict.evidence is not None
    assert "\x1b" not in verdict.evidence
