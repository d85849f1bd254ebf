"""The edges of a run's exit code: unfinished attempts take precedence over the gate, which is exact."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from case_checks import each_case

from harness.cli.carry_out import OutputOptions, _exit_code
from harness.core.types import Status, Summary


def exit_code(rate: float, fail_under: float | None, **statuses: int) -> int:
    """Return the exit code of a run with this rate and these numbers of attempts by status."""
    counted = {Status(name): count for name, count in statuses.items()}
    summary = Summary(0, sum(statuses.values()), 0, rate, {}, counted, {})
    run: Any = SimpleNamespace(summary=summary, folder="runs/r")
    return _exit_code(run, OutputOptions(fail_under=fail_under))


@each_case(("resolved", "total"), [(1, 1), (3, 10), (2, 3), (1, 7), (0, 5), (29, 100), (57, 100)])
def test_a_rate_equal_to_the_gate_passes(resolved: int, total: int) -> None:
    assert exit_code(resolved / total, resolved / total, passed=resolved) == 0


@each_case("text", ["0.1", "0.29", "0.57", "0.58", "0.7", "0.999"])
def test_a_rate_that_is_the_written_decimal_passes(text: str) -> None:
    whole = 10 ** len(text.partition(".")[2])
    assert exit_code(round(float(text) * whole) / whole, float(text), passed=1) == 0


@each_case(
    ("resolved", "total", "fail_under"),
    [(2, 3, 0.6667), (999, 1000, 1.0), (9999, 10_000, 0.99991), (0, 1, 1e-9), (1, 3, 0.3334)],
)
def test_a_rate_is_not_rounded_up_to_the_gate(resolved: int, total: int, fail_under: float) -> None:
    assert exit_code(resolved / total, fail_under, passed=resolved, failed=total - resolved) == 1


def test_the_message_of_a_failed_gate_shows_that_the_rate_is_less(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code(2 / 3, 0.6667, passed=2, failed=1)
    assert capsys.readouterr().err == "error: the rate 0.6666666666666666 is below --fail-under 0.6667\n"


@each_case("status", ["infra_error", "cancelled"])
@each_case("fail_under", [None, 0.0, 1.0])
def test_one_attempt_without_a_verdict_is_exit_code_3_whatever_the_gate(
    status: str, fail_under: float | None
) -> None:
    assert exit_code(0.5, fail_under, passed=99, **{status: 1}) == 3


@each_case(
    ("number", "message"),
    [
        (1, "error: 1 attempt of 100 has no verdict\n"),
        (2, "error: 2 attempts of 100 have no verdict\n"),
    ],
)
def test_the_message_of_an_unfinished_run_names_the_command_that_finishes_it(
    capsys: pytest.CaptureFixture[str], number: int, message: str
) -> None:
    exit_code(0.5, None, passed=100 - number, infra_error=number)
    assert capsys.readouterr().err == message + "hint: make the rest: harness run --resume runs/r\n"


@each_case("status", [status for status in Status if status.has_score])
def test_an_attempt_with_a_verdict_is_no_failure_of_the_run(status: Status) -> None:
    assert exit_code(0.0, None, **{status.value: 3}) == 0


def test_a_status_that_no_attempt_has_does_not_count() -> None:
    assert exit_code(1.0, 1.0, passed=1, infra_error=0, cancelled=0) == 0


SAME = {"attempts": 4, "equal": 4, "different": 0, "incomplete": 0, "same_verdicts": 4}


@each_case(
    ("replay", "code", "message"),
    [
        ({}, 0, ""),
        ({"equal": 3, "different": 1}, 1, "error: of 4 replayed attempts: 1 different\n"),
        ({"equal": 3, "incomplete": 1}, 1, "error: of 4 replayed attempts: 1 incomplete\n"),
        ({"same_verdicts": 2}, 1, "error: of 4 replayed attempts: 2 with another verdict\n"),
    ],
)
@each_case("is_gate", [True, False])
def test_a_difference_of_a_replay_fails_only_its_gate(
    capsys: pytest.CaptureFixture[str], replay: dict[str, int], code: int, message: str, is_gate: bool
) -> None:
    summary = Summary(0, 0, 0, 1.0, {}, {Status.PASSED: 4}, {}, replay={**SAME, **replay})
    run: Any = SimpleNamespace(summary=summary, folder="runs/r")
    assert _exit_code(run, OutputOptions(fail_on_difference=is_gate)) == (code if is_gate else 0)
    assert capsys.readouterr().err == (message if is_gate else "")


def test_a_server_that_started_in_no_attempt_is_exit_code_3(capsys: pytest.CaptureFixture[str]) -> None:
    mcp = {"search": {"failed_starts": 2, "tools": {}}}
    summary = Summary(0, 0, 0, 1.0, {}, {Status.PASSED: 2}, {}, mcp=mcp)
    run: Any = SimpleNamespace(summary=summary, folder="runs/r")
    assert _exit_code(run, OutputOptions()) == 3
    assert "'search' started in no attempt" in capsys.readouterr().err
