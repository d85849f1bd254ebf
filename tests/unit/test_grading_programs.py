"""The verdict on a program from the sandbox's report, with signs of tampering."""

from __future__ import annotations

from typing import Any

import pytest
from case_checks import each_case

from harness.core.types import Status
from harness.environments.python.client import TestReport, read_report
from harness.environments.python.verdicts import BROKE_PROTOCOL, EXITED_WELL, RAISED_EXIT, grade_report
from harness.sandbox.results import LIMIT_NAMES, Stream

NOTHING = Stream(b"", b"", 0)


def report(**facts: Any) -> TestReport:
    """Return the report of a program whose second test failed."""
    usual: dict[str, Any] = {
        "results": (True, False),
        "evidence": "test 2: assert f() == 2",
        "error": "AssertionError",
        "breach": None,
        "ended": None,
        "exit_code": 71,
        "stdout": NOTHING,
        "stderr": NOTHING,
        "cpu_seconds": 0.01,
        "duration_seconds": 0.02,
        "memory_kills": 0,
        "refused_forks": 0,
        "clean": True,
    }
    return TestReport(**{**usual, **facts})


@each_case(
    ("facts", "sign"),
    [
        pytest.param({"breach": "an unknown answer"}, BROKE_PROTOCOL, id="breach"),
        pytest.param({"ended": "exited", "exit_code": 0}, EXITED_WELL, id="exit 0"),
        pytest.param({"error": "SystemExit"}, RAISED_EXIT, id="SystemExit"),
    ],
)
def test_a_sign_of_tampering_is_named(facts: dict[str, Any], sign: str) -> None:
    assert grade_report(report(**facts)).tampering == sign


@each_case(
    "facts",
    [
        pytest.param({}, id="wrong"),
        pytest.param({"results": (True, True), "error": None, "evidence": None}, id="right"),
        pytest.param({"ended": "exited", "exit_code": 1}, id="exit 1"),
        pytest.param({"ended": "wall_seconds", "exit_code": -9}, id="too slow"),
        pytest.param({"ended": "signal", "exit_code": -11}, id="crash"),
        pytest.param({"error": "NameError"}, id="exception"),
    ],
)
def test_a_program_that_is_only_right_or_wrong_shows_no_sign(facts: dict[str, Any]) -> None:
    assert grade_report(report(**facts)).tampering is None


def test_a_breach_takes_precedence_over_the_exit_that_follows_it() -> None:
    found = grade_report(report(breach="noise", ended="exited", exit_code=0))
    assert found.tampering == BROKE_PROTOCOL


def test_a_sign_has_the_same_words_for_every_message() -> None:
    signs = {grade_report(report(breach=text)).tampering for text in ("one", "\x1b[2J" * 500)}
    assert len(signs) == 1


def test_a_program_that_breaks_the_protocol_after_its_tests_have_passed_is_not_passed() -> None:
    found = grade_report(report(results=(True, True), error=None, evidence=None, breach="noise"))
    assert (found.status, found.score) == (Status.FAILED, 0.0)


def test_evidence_is_escaped() -> None:
    shown = grade_report(report(results=(False,), evidence="test 1: \x1b]0;x\x07 \u202e\nnext")).evidence
    assert shown == "test 1: \\x1b]0;x\\x07 \\u202e\\nnext"


@each_case("ended", ["exited", "killed", "signal", "an end of a kind to come", *LIMIT_NAMES.values()])
def test_a_report_of_an_ended_program_is_not_passed_despite_its_tests(ended: str) -> None:
    found = grade_report(report(results=(True, True), error=None, evidence=None, ended=ended))
    assert found.status is not Status.PASSED
    assert found.score == 0.0


def test_a_report_without_results_is_not_passed() -> None:
    assert grade_report(report(results=(), error=None, evidence=None)).status is Status.FAILED


def test_broken_tests_give_no_score() -> None:
    verdict = grade_report(report(results=(), broken="no module named 'x'"))
    assert (verdict.status, verdict.score, verdict.evidence) == (
        Status.GRADER_ERROR,
        None,
        "no module named 'x'",
    )


def test_one_failed_result_fails_the_program() -> None:
    assert grade_report(report(results=(True, True, False))).status is Status.FAILED


def read(said: dict[str, Any] | None, *, expected: int) -> TestReport:
    """Return the report that the host reads if the guest has said this about the tests."""
    if said is not None:
        said = {"evidence": None, "error": None, "breach": None, **said}
    header: Any = {**HEADER, "report": said}
    return read_report(header, b"", expected=expected, cpu_limit=10.0)


HEADER: Any = {
    "ended": None,
    "exit_code": 71,
    "cpu_seconds": 0.0,
    "duration_seconds": 0.0,
    "memory_kills": 0,
    "refused_forks": 0,
    "clean": True,
    "broken": None,
    **{name: {"head": 0, "tail": 0, "total": 0} for name in ("stdout", "stderr")},
}


@each_case(
    ("results", "passed"),
    [
        (["passed", "passed"], (True, True)),
        (["passed"], (True, False)),
        ([], (False, False)),
        (["passed", "failed"], (True, False)),
        (["Passed", True], (False, False)),
        (["passed", "timeout"], (True, False)),
        (["passed"] * 3, (True, True)),
    ],
)
def test_a_test_counts_as_passed_only_if_the_report_says_so(
    results: list[Any], passed: tuple[bool, ...]
) -> None:
    assert read({"results": results}, expected=2).results == passed


def test_a_verdict_names_the_kinds_of_objects_that_crossed_and_nothing_else_of_the_report() -> None:
    objects = ["iterator", "<b>", "coroutine", 7, "iterator"]
    verdict = grade_report(read({"results": ["passed"], "objects": objects}, expected=1))
    assert verdict.metrics["objects"] == ["coroutine", "iterator"]
    assert "objects" not in grade_report(read({"results": ["passed"]}, expected=1)).metrics


def test_a_missing_report_fails_every_test() -> None:
    missing = read(None, expected=2)
    assert missing.results == (False, False)
    assert grade_report(missing).status is Status.FAILED


def test_the_limit_of_one_call_ends_the_report() -> None:
    late = read({"results": ["passed"], "timeout": "cpu"}, expected=1)
    assert (late.ended, grade_report(late).status) == ("cpu_seconds", Status.TIMEOUT)
