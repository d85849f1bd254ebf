"""The last number of an answer, by which GSM8K is graded."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
from case_checks import each_case
from effort import text_of_length
from hypothesis import given
from hypothesis import strategies as st

from harness.core.scoring.answers import MAX_NUMBER_CHARACTERS
from harness.core.scoring.numbers import gold_number, last_number, same_number


@each_case(
    ("text", "number"),
    [
        ("She makes $18 every day.", "18"),
        ("The total is $1,234.50.", "1234.50"),
        ("10,000,000 ants", "10000000"),
        ("That is 50%", "50"),
        ("a loss: -$5", "-5"),
        ("= -3", "-3"),
        ("(-3)", "-3"),
        ("\u22127 degrees", "-7"),
        ("16-3", "3"),  # This is a difference and not a negative number.
        ("5 - 3", "3"),
        ("(1+2)-4", "4"),
        ("+4", "4"),
        ("3/4", "4"),  # The published rule does not read fractions.
        ("1,2,3", "3"),
        ("It costs .5 dollars", "0.5"),
        ("$.75", "0.75"),
        ("see 4.5.", "4.5"),
        ("not 7 but 8", "8"),
        ("**42**", "42"),
        (r"\boxed{42}", "42"),
        ("x2", "2"),
        ("٣", "3"),
        ("７", "7"),
        ("00012", "12"),
        ("18 \n\n", "18"),
    ],
)
def test_last_number(text: str, number: str) -> None:
    assert last_number(text) == Decimal(number)


@each_case("text", ["", "none", "eighteen", "-", "$,.", "½", "²"])
def test_text_without_a_number_has_none(text: str) -> None:
    assert last_number(text) is None
    assert not same_number(text, Decimal(0))


@each_case("text", ["18", "18.0", "$18.00", "18.0000001", "018", "#### 18"])
def test_numbers_are_compared_by_value(text: str) -> None:
    assert same_number(text, Decimal(18))


@each_case("text", ["18.1", "-18", "118", "18,000", "18 or 19", "", "18e3"])
def test_other_numbers_are_wrong(text: str) -> None:
    assert not same_number(text, Decimal(18))


def test_values_are_exact_even_if_floats_are_not() -> None:
    assert not same_number("10000000000000000000001", Decimal(10**22))


def test_number_of_too_many_digits_equals_nothing() -> None:
    assert last_number("1" * MAX_NUMBER_CHARACTERS) == Decimal("1" * MAX_NUMBER_CHARACTERS)
    assert last_number("1" * (MAX_NUMBER_CHARACTERS + 1)) is None
    assert last_number("1," + "000," * MAX_NUMBER_CHARACTERS + "000") is None


@each_case("piece", ["9", "1,", "1,000", "-", "x", "1 ", "1.", "$-"])
def test_answers_of_megabytes_are_graded(piece: str) -> None:
    assert not same_number(text_of_length(piece, 5_000_000), Decimal(18))


@given(st.decimals(-(10**12), 10**12, places=3), st.text())
def test_number_is_found_behind_any_text(number: Decimal, text: str) -> None:
    # The number follows a separate text, because one that ends in "^" would make it an exponent.
    assert last_number(f"{text}\nAnswer: {number:f}") == number
    assert last_number(f"{text}\nAnswer: {number:,f}") == number


@given(st.text(st.sampled_from("0123456789.,-+$% x()"), max_size=60))
def test_every_text_with_a_digit_has_a_number(text: str) -> None:
    assert (last_number(text) is not None) == any(character.isdigit() for character in text)


@each_case(
    ("answer", "number"),
    [("so\n#### 18", 18), ("#### 1,000", 1000), ("#### -5\n", -5), ("a #### 2 \n#### 3", 3), ("#### $7.", 7)],
)
def test_gold_is_what_follows_the_last_mark(answer: str, number: int) -> None:
    assert gold_number(answer) == number


@each_case("answer", ["", "18", "#### ", "#### many", "#### 1 2", "#### " + "1" * 2000])
def test_answer_without_a_gold_number_is_refused(answer: str) -> None:
    with pytest.raises(ValueError, match="no number after ####"):
        gold_number(answer)


def test_every_gold_answer_of_gsm8k_is_right(shared_data: Path) -> None:
    answers = gsm8k(shared_data)
    assert len(answers) == 1319
    assert all(same_number(answer, gold_number(answer)) for answer in answers)


def test_answers_of_the_next_problem_of_gsm8k_are_right_only_if_the_golds_agree(shared_data: Path) -> None:
    answers = gsm8k(shared_data)
    pairs = list(zip(answers[1:], answers, strict=False))
    right = [gold_number(gold) for other, gold in pairs if same_number(other, gold_number(gold))]
    assert right == [gold_number(gold) for other, gold in pairs if gold_number(other) == gold_number(gold)]
    assert len(right) == 15


def gsm8k(shared_data: Path) -> list[str]:
    lines = (shared_data / "gsm8k/test.jsonl").read_text().splitlines()
    return [json.loads(line)["answer"] for line in lines]
