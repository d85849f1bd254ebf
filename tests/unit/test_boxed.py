r"""The contents of the last `\boxed{}` of a solution."""

from __future__ import annotations

import json
from pathlib import Path

from case_checks import each_case
from effort import text_of_length
from hypothesis import given
from hypothesis import strategies as st

from harness.core.scoring.answers import last_boxed


@each_case(
    ("text", "held"),
    [
        (r"$\boxed{42}$", "42"),
        (r"$\boxed{\frac{1}{2}}$", r"\frac{1}{2}"),
        (r"\boxed{ \{1, 2\} }", r"\{1, 2\}"),
        (r"\boxed{(0, 1]}", "(0, 1]"),
        (r"\boxed{1} and \boxed{2}", "2"),
        (r"\boxed{1} and \boxed{2", "1"),  # cut off
        (r"\boxed{\boxed{3}}", "3"),
        (r"\boxed {4}", "4"),
        (r"$\boxed 5$.", "5"),
        ("\\boxed 5\nas said", "5"),
        (r"\fbox{6}", "6"),
        (r"\boxed{6} \fbox{7}", "6"),
        (r"\boxed{\fbox{7}}", r"\fbox{7}"),
        (r"\\boxed{8}", "8"),
        ("\\begin{array}1\\\\\\boxed{9}", "9"),
        (r"a { and \boxed{10} and }", "10"),
        (r"} and \boxed{11}", "11"),
        (r"\boxed{a \} b}", r"a \} b"),
        (r"\boxed{}", ""),
        ("\\boxed{1\n+\n2}", "1\n+\n2"),
    ],
)
def test_last_box(text: str, held: str) -> None:
    assert last_boxed(text) == held


@each_case("text", ["", "42", r"\boxed", r"\boxed{1", r"\boxedx{1}", "boxed{1}", r"\boxed5"])
def test_text_without_a_complete_box_has_none(text: str) -> None:
    assert last_boxed(text) is None


BALANCED = st.recursive(
    st.text(st.sampled_from(r"ab1+ $^_"), max_size=5),
    lambda inner: st.lists(inner, max_size=3).map(lambda parts: "{" + "".join(parts) + "}x"),
)


@given(BALANCED, st.text(st.sampled_from("ab}$ \n"), max_size=20), st.text(st.sampled_from("ab{}$ \n")))
def test_balanced_contents_are_returned_unchanged(held: str, before: str, after: str) -> None:
    assert last_boxed(f"{before}\\boxed{{{held}}}{after}") == held.strip()


PIECES = st.sampled_from(["\\boxed", "\\fbox", "\\", "{", "}", " ", "$", "1", "\n"])


@given(st.lists(PIECES, max_size=30).map("".join))
def test_any_text_is_read(text: str) -> None:
    held = last_boxed(text)
    assert held is None or held in text


@each_case(
    "piece", ["\\boxed{", "{", "\\boxed{1}", "\\", "\\boxed ", "\\boxed", "\\boxed \\boxed", "}", "\\{", " "]
)
def test_texts_of_megabytes_are_read(piece: str) -> None:
    last_boxed("\\boxed" + text_of_length(piece, 10_000_000))
    last_boxed(text_of_length(piece, 10_000_000))


def test_every_solution_of_math_has_one_answer(shared_data: Path) -> None:
    lines = (shared_data / "math/test_500.jsonl").read_text().splitlines()
    solutions = [json.loads(line)["solution"] for line in lines]
    assert all(last_boxed(solution) for solution in solutions)
