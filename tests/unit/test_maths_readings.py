"""The reader of an answer in LaTeX: one spelling, every value that must hold, no contradiction."""

from __future__ import annotations

import pytest
from case_checks import each_case
from effort import one_in_four
from hypothesis import given
from hypothesis import strategies as st

from harness.core.scoring.answers import MAX_MATHS_CHARACTERS
from harness.environments.maths.latex import enclosed, plain
from harness.environments.maths.quantities import split_unit
from harness.environments.maths.readings import MAX_EXPRESSIONS, Reading, asked_bases, read_answer


@each_case(
    ("text", "spelling"),
    [
        ("5.", "5"),
        ("**5**", "5"),
        ("$$5$$", "5"),
        (r"\(5\)", "5"),
        (r"\text{5}", "5"),
        (r"\text{cm}", r"\text{cm}"),
        (r"\color{red}{5}", "5"),
        (r"\text{The answer is } 5", "5"),
        (r"\text{The answer is 5.}", "5"),
        (r"1\,234", "1234"),
        ("1\u202f234", "1234"),
        (r"1{,}234{,}567", "1234567"),
        (r"1\,23", r"1\,23"),
        ("1,2,3,...", "1,2,3,..."),
        ("90°", r"90^\circ"),
        (r"90\degree", r"90^\circ"),
        ("25°C", r"25^\circ C"),
        ("√12", r"\sqrt{12}"),
        ("x²", "x^{2}"),
        ("x₁₂", "x_{12}"),
        ("3½", r"3\frac{1}{2}"),
        ("−5", "-5"),
        (r"0.\overline{3}", r"\frac{3}{9}"),
        (r"1.2\bar{34}", r"\frac{1222}{990}"),
        ("0.(3)", r"\frac{3}{9}"),
        ("0.333...", r"\frac{3}{9}"),
        (r"0.1666\ldots", r"\frac{15}{90}"),
        ("3.14159...", "3.14159..."),
        (r"\\frac{1}{2}", r"\frac{1}{2}"),
        (r"\left[1,2\right)", "[1,2)"),
    ],
)
def test_usual_styles_have_one_spelling(text: str, spelling: str) -> None:
    assert plain(text) == spelling


def test_rows_of_a_matrix_stay_apart() -> None:
    matrix = r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}"
    assert plain(matrix) == matrix


@each_case(
    ("gold", "answer", "expressions"),
    [
        ("7", "x = 7", ("7",)),
        ("7", "7 = x", ("7",)),
        ("7", "x + y = 7", ("7",)),
        ("7", "= 7", ("7",)),
        ("7", "3+4=7", ("3+4", "7")),
        ("7", "8=7", ("8", "7")),
        ("7", "x=7=8", ("7", "8")),
        ("7", r"7 \text{ or } 8", ("7", "8")),
        ("7.2", r"x \approx 7.2", ("7.2",)),
        ("6x-5", "f(x) = 6x-5", ("6x-5",)),
        ("6x-5", "2x+3 = 6x-5", ("2x+3", "6x-5")),
        ("y = 2x", "y = 2x", ("y = 2x",)),
        ("[1,2)", r"1 \le x < 2", ("[1,2)",)),
        ("[1,2)", r"2 > x \ge 1", ("[1,2)",)),
        ("[1,2)", "[1,2[", ("[1,2)",)),
        (r"(-\infty,1)\cup(2,\infty)", r"x<1 \text{ or } x>2", (r"(-\infty,1)\cup(2,\infty)",)),
        ("(1,2)", "1, 2", ("(1, 2)",)),
        ("(1,2)", "x=1, y=2", ("(1, 2)",)),
        ("1,2", "x=1, x=2", ("1, 2",)),
        ("5", "5 cm^2", ("5",)),
    ],
)
def test_every_value_that_an_answer_names_is_compared(
    gold: str, answer: str, expressions: tuple[str, ...]
) -> None:
    found = read_answer(gold, answer)
    assert found is not None
    assert tuple("".join(one.split()) for one in found.answers) == tuple(
        "".join(one.split()) for one in expressions
    )


def test_units_are_split_from_their_numbers() -> None:
    table = [
        (r"9.8\ \mathrm{m/s^2}", "9.8", {("m", 1), ("s", -2)}),
        (r"9.8\,\frac{\text{m}}{\text{s}^2}", "9.8", {("m", 1), ("s", -2)}),
        ("9.8 metres per second squared", "9.8", {("m", 1), ("s", -2)}),
        (r"12\text{ square inches}", "12", {("in", 2)}),
        (r"5\ \mathrm{N}", "5", {("kg", 1), ("m", 1), ("s", -2)}),
        (r"-\$50", "-50", {("dollar", 1)}),
        (r"\text{EUR } 50", "50", {("euro", 1)}),
        (r"\frac{3}{4}\text{ hours}", r"\frac{3}{4}", {("h", 1)}),
        ("5m", "5m", None),
        (r"5\text{ birds}", r"5\text{ birds}", None),
        (r"60\frac{h}{k}", r"60\frac{h}{k}", None),
        ("5", "5", None),
    ]
    found = [(text, *split_unit(text)) for text, _, _ in table]
    assert found == [(text, number, unit and frozenset(unit)) for text, number, unit in table]


def test_commas_are_marks_between_thousands_if_the_gold_answer_has_as_many_elements() -> None:
    table = [
        ("-8192", "-8,192", "-8192"),
        (r"\frac{8192}{3}", r"\frac{8,192}{3}", r"\frac{8192}{3}"),
        ("8192", "8, 192", "8, 192"),
        ("1234, 5678", "1,234, 5,678", "1234, 5678"),
        ("100, 200, 300", "100,200,300", "100, 200, 300"),
    ]
    readings = [read_answer(gold, answer) for gold, answer, _ in table]
    assert [(reading.answers[0] if reading else None) for reading in readings] == [text for *_, text in table]


def test_different_units_are_refused() -> None:
    pairs = [
        ("5 cm", "5 m"),
        (r"\$5", "€5"),
        (r"5\ \mathrm{m/s}", r"5\ \mathrm{m/s^2}"),
        ("9 a.m.", "9 p.m."),
    ]
    assert [pair for pair in pairs if read_answer(*pair) is not None] == []


def test_gold_inequality_is_read_as_an_interval_if_the_answer_is_one() -> None:
    assert read_answer(r"x \ge 3", r"[3,\infty)") == Reading(r"[3,\infty)", (r"[3,\infty)",))


@each_case(
    ("gold", "answer"),
    [
        ("(1,2)", r"\{1,2\}"),
        ("(1,2)", "[1,2]"),
        (r"\{1,2\}", "(1,2)"),
        ("[1,2)", "1,2"),
        ("7", r"7 \text{ (not 8)}"),
        ("7", r"7 \text{ (or 8)}"),
        ("7", r"7 \approx 8"),
        ("7", r"x \approx 7"),
        ("1, 2", r"x \approx 1, y \approx 2"),
        ("7", r"7 \text{ approx.}"),
        ("7", "7="),
        ("7", "=".join(["7"] * (MAX_EXPRESSIONS + 1))),
        ("4210_{5}", "4210_{7}"),
        ("4210_{5}", r"4210 \text{ (base 7)}"),
        ("4210_{5}", "4210_5 = 4210_7"),
        ("4210", "4210_{7}"),
    ],
)
def test_answer_with_another_meaning_is_refused(gold: str, answer: str) -> None:
    assert read_answer(gold, answer) is None


def test_base_that_the_problem_asks_for_may_be_stated() -> None:
    assert read_answer("4210", "4210_{5}", frozenset({5})) is not None
    assert read_answer("4210", "4210_{7}", frozenset({5})) is None


@each_case(
    ("problem", "bases"),
    [
        ("Express the sum in base $5$.", {5}),
        ("What is the largest base 14 integer? Express your answer in base 10.", {10}),
        ("Write it as a base-five numeral.", {5}),
        ("Convert $852_9$ from base nine to base seven", {7}),
        ("The base of a pyramid has 3 sides. Its base 2.5 cm", set()),
    ],
)
def test_the_base_is_that_of_the_requested_answer(problem: str, bases: set[int]) -> None:
    assert asked_bases(problem) == bases


@each_case("text", ["(1,2)(3,4)", "1,2", "(1", ")(", "", "{1}", r"\{1"])
def test_text_that_no_one_pair_of_brackets_holds_is_not_enclosed(text: str) -> None:
    assert enclosed(text) is None


PIECES = [
    *("(", "[", "{", r"\{", "\\", ")", "]", "}", r"\}", "1,", "x", "<", "=", r"\le ", "|", "12", "..."),
    *(r"\text{", "or ", "_5", r"\frac{", "√(", r"0.\overline{", r"1\,", "base 5", "$", "**", r"\cup", "½"),
    *(r"\pmod", " million", "\u00b2", "x_1", "f(x)", "not "),
    *("1,234", ",234", "%", r"\% ", " m/s^2", r"\mathrm{e}", "€", r"\text{USD }"),
    *(" per ", "<=", " !=", "June "),
    *(r"x \in ", " and ", "a.m.", r"\frac{m}{s}", " square "),
]


@given(
    st.lists(st.sampled_from(PIECES), max_size=60).map("".join),
    st.sampled_from(["5", "(1,2)", "25_{6}", "x"]),
)
def test_every_text_is_read_or_refused(answer: str, gold: str) -> None:
    found = read_answer(gold, answer)
    assert found is None or 0 < len(found.answers) <= MAX_EXPRESSIONS


@pytest.mark.timeout(60)
@each_case(("place", "gold"), enumerate(["5", "(1,2)", "25_{6}", "x"]))
def test_long_runs_of_one_piece_are_read_or_refused(place: int, gold: str) -> None:
    for piece in one_in_four(PIECES, place):
        found = read_answer(gold, (piece * MAX_MATHS_CHARACTERS)[:MAX_MATHS_CHARACTERS])
        assert found is None or len(found.answers) <= MAX_EXPRESSIONS, piece
