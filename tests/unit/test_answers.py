"""Short answers: exact match, F1 and has_answer, by their published rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from case_checks import each_case
from effort import text_of_length
from hypothesis import given
from hypothesis import strategies as st

from harness.core.scoring.answers import exact_match, f1, has_answer, normalised, plain_characters

# Texts with the characters that the rules treat specially, both plain and combining ones.
TEXTS = st.text(st.sampled_from("ab the THE.,-!'1 \n\té\u0301\u0323İß你"), max_size=40)


@each_case(
    ("text", "form"),
    [
        ("The  Beatles!", "beatles"),
        ("an U.S.-born\tman", "usborn man"),
        ("A the an", ""),
        ("Theodore", "theodore"),
        ("“quoted”", "“quoted”"),  # Only ASCII punctuation is removed.
        ("", ""),
    ],
)
def test_normal_form_is_that_of_squad(text: str, form: str) -> None:
    assert normalised(text) == form


@given(TEXTS)
def test_normal_form_is_stable_against_case_and_space(text: str) -> None:
    assert normalised(f"  {normalised(text)}\n") == normalised(normalised(text))


def test_exact_match_takes_the_best_of_the_golds() -> None:
    assert exact_match("The Beatles", ["Stones", "beatles"])
    assert not exact_match("Beatles and Stones", ["Stones", "Beatles"])


def test_answer_that_is_part_of_a_longer_one_is_no_exact_match() -> None:
    assert not exact_match("17", ["7"])
    assert not exact_match("not 7 but 8", ["8"])


@each_case("gold", ["The", "A", "!!!"])
def test_gold_whose_normal_form_is_empty_is_compared_as_written(gold: str) -> None:
    assert exact_match(f" {gold.lower()}\n", [gold])
    assert f1(gold, [gold]) == 1
    for other in ["", " ", "an", "anything", "?"]:
        assert not exact_match(other, [gold])
        assert f1(other, [gold]) == 0


@each_case("gold", ["", " \n"])
@each_case("prediction", ["", " ", "the", "anything"])
def test_empty_gold_matches_nothing(prediction: str, gold: str) -> None:
    assert not exact_match(prediction, [gold])
    assert f1(prediction, [gold]) == 0
    assert not has_answer(prediction, [gold])


@each_case("prediction", ["", "  ", "the", "?!"])
def test_empty_prediction_matches_no_gold(prediction: str) -> None:
    golds = ["14 December 1972", "yes", "1"]
    assert (exact_match(prediction, golds), f1(prediction, golds), has_answer(prediction, golds)) == (
        False,
        0,
        False,
    )


@each_case(("answer", "gold"), [("the cat sat on a mat", "cat mat"), ("new new new york", "new york")])
def test_f1_is_the_harmonic_mean_of_precision_and_recall_of_tokens(answer: str, gold: str) -> None:
    assert f1(answer, [gold]) == pytest.approx(2 * 0.5 * 1 / 1.5)


@each_case("word", ["yes", "no", "noanswer"])
def test_yes_and_no_score_nothing_as_part_of_an_answer(word: str) -> None:
    assert f1(word.title(), [word]) == 1
    assert f1(f"{word} indeed", [word]) == 0
    assert f1(word, [f"{word} men"]) == 0


def test_f1_of_both_answers_is_below_one() -> None:
    assert 0 < f1("Paris London", ["Paris"]) < 1
    assert f1("yes no", ["yes"]) == 0


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3))
def test_f1_lies_in_range_and_is_1_for_every_exact_match(prediction: str, golds: list[str]) -> None:
    score = f1(prediction, golds)
    assert 0 <= score <= 1
    if exact_match(prediction, golds):
        assert score == 1


@each_case(
    ("text", "gold"),
    [
        ("It was in December 1972, I think", "december 1972"),
        ("Beyoncé sang", "BEYONCE\u0301"),  # composed and decomposed
        ("the U.S. army", "U.S."),
        ("50% of all", "50%"),
        ("你好 世界", "世界"),
        ("zero\u200bwidth", "width"),  # Control and format characters separate words.
    ],
)
def test_has_answer_finds_tokens_in_a_row(text: str, gold: str) -> None:
    assert has_answer(text, ["nothing else", gold])


@each_case(
    ("text", "gold"),
    [
        ("17", "7"),
        ("December of 1972", "December 1972"),
        ("Beyonce", "Beyoncé"),
        ("1972 December", "December 1972"),
        ("December, 1972", "December 1972"),
    ],
)
def test_has_answer_needs_whole_tokens_in_order(text: str, gold: str) -> None:
    assert not has_answer(text, [gold])


def test_has_answer_can_ignore_punctuation() -> None:
    assert has_answer("December, 1972", ["December 1972"], punctuation=False)
    assert not has_answer("anything", ["?!"], punctuation=False)


@given(TEXTS, TEXTS, TEXTS)
def test_has_answer_finds_an_inserted_answer(before: str, gold: str, after: str) -> None:
    if has_answer(gold, [gold]):
        assert has_answer(f"{before} {gold} {after}", [gold])


@each_case("metric", [exact_match, f1, has_answer])
def test_a_text_instead_of_a_list_of_golds_is_refused(metric: object) -> None:
    with pytest.raises(TypeError, match="list of strings"):
        metric("7", "7")  # type: ignore[operator]
    with pytest.raises(ValueError, match="no gold"):
        metric("7", [])  # type: ignore[operator]


@each_case("piece", ["\u0301\u0323", "the ", "a", "? ", "é"])
def test_answers_of_megabytes_are_graded(piece: str) -> None:
    answer = text_of_length(piece, 2_000_000)
    assert not exact_match(answer, ["1972"])
    assert f1(answer, ["1972"]) == 0
    assert not has_answer(answer, ["1972"])


def test_answers_of_nq_are_right_and_those_of_the_next_question_only_if_the_two_agree(
    shared_data: Path,
) -> None:
    lines = (shared_data / "nq/NQ-open.dev.jsonl").read_text().splitlines()
    answers = [json.loads(line)["answer"] for line in lines]
    assert len(answers) == 3610
    assert all(exact_match(golds[0], golds) for golds in answers)
    assert all(f1(golds[0], golds) == 1 for golds in answers)
    assert all(has_answer(golds[0], golds) for golds in answers)
    shifted = zip([golds[0] for golds in answers[1:]], answers, strict=False)
    assert [pair for pair in shifted if exact_match(*pair)] == [("the 1980s", ["1980s"])]


def test_answers_of_hotpotqa_are_right_and_those_of_the_next_question_wrong(shared_data: Path) -> None:
    answers = [
        row["answer"] for row in json.loads((shared_data / "hotpotqa/dev_distractor_60.json").read_text())
    ]
    assert all(exact_match(answer, [answer]) and f1(answer, [answer]) == 1 for answer in answers)
    assert not any(exact_match(other, [answer]) for other, answer in zip(answers[1:], answers, strict=False))


@each_case(
    ("written", "plain"),
    [
        ("Be\u0301la", "Béla"),
        ("O\u2019Neill", "O'Neill"),
        ("\u201cHeroes\u201d", '"Heroes"'),
        ("1914\u20131918", "1914-1918"),
        ("\uff2e\uff28\uff2b\u3000\uff12", "NHK 2"),
        ("wait\u2026", "wait..."),
        ("m\u00b2", "m\u00b2"),
        ("\u00bd", "\u00bd"),
    ],
)
def test_plain_characters_are_those_of_a_keyboard(written: str, plain: str) -> None:
    assert plain_characters(written) == plain
