"""Two answers in LaTeX are equal or not. This runs only with the library of the grader's image."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from case_checks import each_case

from harness.core.scoring.answers import last_boxed

pytest.importorskip("math_verify", reason="math-verify is in the image of the grader alone")

from harness.environments.maths.guest import compare as maths_job


def same(gold: str, prediction: str) -> bool | None:
    (verdict,) = maths_job.judge([(gold, prediction)])
    return verdict


@each_case(
    ("gold", "prediction"),
    [
        (r"\frac12", "0.5"),
        (r"\frac{1}{2}", "1/2"),
        (r"2\sqrt{3}", r"\sqrt{12}"),
        ("1,2", "2,1"),
        (r"5\text{ cm}", "5"),
        (r"\$40", "40"),
        (r"90^\circ", "90"),
        ("10,000", "10000"),
        (r"(-\infty,2]\cup[3,\infty)", r"[3,\infty) \cup (-\infty, 2]"),
        ("x^2+2x+1", "(x+1)^2"),
        (r"\text{Tuesday}", "Tuesday"),
    ],
)
def test_equal_mathematics_is_the_same(gold: str, prediction: str) -> None:
    assert same(gold, prediction) is True


@each_case(
    ("gold", "prediction"),
    [
        ("8", ""),
        ("8", "7, 8"),
        ("8", "not 7 but 8"),
        ("8", r"7}\boxed{8"),
        ("(1,2)", "(2,1)"),
        ("(1,2)", "[1,2]"),
        ("0.333", r"\frac13"),
        ("8", "8.0000001"),
        ("8", "{" * 100),
        ("8", "8" + " " * 10_000 + "+0"),
    ],
)
def test_other_mathematics_is_different(gold: str, prediction: str) -> None:
    assert same(gold, prediction) is False


def test_prediction_is_never_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    for text in (f"open('{mark}', 'w')", f"__import__('pathlib').Path('{mark}').touch()"):
        assert same("8", text) is False
    assert not mark.exists()


def test_only_numbers_reach_the_evaluator() -> None:
    parse_expr = pytest.importorskip("sympy.parsing.sympy_parser").parse_expr

    assert str(parse_expr("12.5")) == "25/2"
    for code in ("1+1", "Symbol('x')", "__import__('os')", "Integer(1).__class__"):
        with pytest.raises(ValueError, match="only numbers"):
            parse_expr(code)


def test_unreadable_gold_is_distinguished_from_a_wrong_prediction() -> None:
    assert same(" ", "8") is None


def job(pairs: list[tuple[str, str]], seconds: float) -> list[object]:
    """Run the job as in a container, from its source text alone."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", Path(maths_job.__file__).read_text(), str(seconds)],
        input="".join(f"{json.dumps(pair)}\n" for pair in pairs),
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_job_answers_each_line_in_order() -> None:
    pairs = [("1", "1"), ("1", "2"), ("", "1"), (r"\frac12", "0.5")]
    assert job(pairs, 30) == [True, False, None, True]


def test_prediction_that_hangs_the_library_fails_no_other() -> None:
    assert job([("2", "9^{9^{9^9}}"), ("2", "2"), ("2", "3")], 5) == ["timeout", True, False]


def test_worker_that_dies_is_distinguished_from_a_wrong_prediction() -> None:
    worker = maths_job.Worker(30)
    try:
        assert worker.ask(("1", "1")) is True
        os.kill(worker.pid, signal.SIGKILL)
        assert worker.ask(("1", "1")) == "crashed"
    finally:
        worker.end()


def test_golds_of_math_are_right_only_if_they_agree(shared_data: Path) -> None:
    lines = (shared_data / "math/test_500.jsonl").read_text().splitlines()
    golds = [last_boxed(json.loads(line)["solution"]) or "" for line in lines]
    assert all(maths_job.judge(zip(golds, golds, strict=True)))
    shifted = list(itertools.pairwise(golds))
    verdicts = zip(shifted, maths_job.judge(shifted), strict=True)
    assert all(gold == other for (gold, other), right in verdicts if right)
