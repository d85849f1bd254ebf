"""While the program lives, the tests do the same work for right and for wrong answers."""

from __future__ import annotations

import gc
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest
from case_checks import each_case
from unit.test_guest_trusted_tests import FUNCTION, LOADED, make_request, returned, say

from harness.environments.python.guest import assert_calls, call_tests, compiled_tests, trusted_tests

# Each case has a right answer, a wrong one of the same type, and the number of calls.
SHAPES = [
    ("assert f(1) == 7", 7, 8, 1),
    ("assert f(1) == 7, f'got {f(1)}'", 7, 8, 1),
    ("assert f(1) != 7", 8, 7, 1),
    ("assert not f(1)", False, True, 1),
    ("assert f(1) is True", True, False, 1),
    ("assert f(1) in (7, 9)", 7, 8, 1),
    ("assert f(1) == 7 and f(2) == 7", 7, 8, 2),
    ("assert f(1) == 7 or f(2) == 9", 7, 8, 2),
    ("assert abs(f(1) - 7.5) < 1e-6", 7.5, 9.5, 1),
    ("import math\nassert math.isclose(f(1), 7.5, rel_tol=1e-3)", 7.5, 9.5, 1),
    ("assert sorted(set(f(1))) == [1, 2]", [2, 1], [2, 3], 1),
    ("assert all(f(x) == 7 for x in range(3))", 7, 8, 3),
    ("assert any(f(x) == 7 for x in range(3))", 7, 8, 3),
    ("def check(g):\n    assert g(1) == 7, 'a'\n    assert g(2) == 7, 'b'\ncheck(f)", 7, 8, 2),
    ("for x, y in [(1, 7), (2, 7)]:\n    assert f(x) == y", 7, 8, 2),
    ("assert tuple(f(1)) == (1, 2)", [1, 2], [1, 3], 1),
    ("assert round(f(1), 2) == round(7.12, 2)", 7.12, 8.12, 1),
    ("assert f(1)[0] + f(2)[0] == 14", [7], [8], 2),
]


@pytest.fixture(autouse=True)
def digits_as_before() -> Iterator[None]:
    """Restore the limit on the digits of integers, which function calls raise for their whole process."""
    before = sys.get_int_max_str_digits()
    yield
    sys.set_int_max_str_digits(before)


def counted(
    run: Callable[..., dict[str, Any]], ours: socket.socket, request: dict[str, Any]
) -> tuple[dict[str, Any], Counter[str]]:
    """Return the tests' report, and the number of calls of each function before the program's end."""
    calls: Counter[str] = Counter()

    def note(frame: FrameType, event: str, called: Any) -> None:
        name = frame.f_code.co_qualname if event == "call" else getattr(called, "__qualname__", "")
        calls[f"{event} {name}"] += 1

    gc.disable()  # Other code may have callbacks there.
    sys.setprofile(note)
    try:
        report = run(ours.fileno(), request, lambda _candidate: sys.setprofile(None))
    finally:
        sys.setprofile(None)
        gc.enable()
    return report, calls


def driven_with(statement: str, *answers: object) -> tuple[dict[str, Any], Counter[str]]:
    """Drive a program that gives these answers through a test, and return the report."""
    ours, theirs = socket.socketpair()
    said = LOADED + FUNCTION + b"".join(returned(answer) for answer in answers)
    speaker = threading.Thread(target=say, args=(theirs, said))
    with ours, theirs:
        speaker.start()
        speaker.join()
        return counted(trusted_tests.run, ours, make_request([statement]))


@each_case(("statement", "right", "wrong", "calls"), SHAPES)
def test_wrong_and_right_answers_cost_the_same_calls(
    statement: str, right: object, wrong: object, calls: int
) -> None:
    # Python does some work only at the first run, so it happens here.
    driven_with(statement, *[right] * calls)
    passed, after_right = driven_with(statement, *[right] * calls)
    failed, after_wrong = driven_with(statement, *[wrong] * calls)
    assert (passed["results"], failed["results"]) == (["passed"], ["failed"])
    assert after_wrong == after_right


@each_case("answer", [7, "seven", None, [7], {"a": 7}, 7.0])
def test_no_operator_of_an_answer_runs_while_the_program_lives(answer: object) -> None:
    """A comparison or a subtraction raises its errors only after the program's end."""
    statement = "assert f(1) - 7 < f(2)\nassert f(3) == 7"
    _report, calls = driven_with(statement, answer, answer, answer)
    assert calls["call Candidate.call"] == 3


def test_a_message_calls_nothing_while_the_program_lives() -> None:
    statement = "assert f(1) == 8, str(f(2))"
    report, calls = driven_with(statement, 7)
    assert calls["call Candidate.call"] == 1
    assert "its message needs the program, which has ended" in report["evidence"]


def test_the_driving_code_has_no_expected_literal() -> None:
    drive, judge = compiled_tests.compile_test("assert f(1) == [81, 'told']", with_classes=False)
    assert "told" not in repr(drive.co_consts)
    assert 81 not in drive.co_consts
    assert "told" in repr(judge.co_consts)


def test_the_replay_draws_the_same_random_numbers() -> None:
    statement = "import random\nx = random.random()\nassert f(x) == 7\nassert f(random.random()) == 7"
    report, _ = driven_with(statement, 7, 7)
    assert report["results"] == ["passed"], report["evidence"]


def test_a_replay_with_other_calls_fails_with_evidence() -> None:
    statement = "import time\nassert f(time.perf_counter_ns()) == 7"
    report, _ = driven_with(statement, 7)
    assert report["results"] == ["failed"]
    assert "another call when they were replayed" in report["evidence"]


def test_a_test_cannot_catch_a_failed_replay() -> None:
    statement = "import time\ntry:\n    f(time.perf_counter_ns())\nexcept:\n    pass"
    report, _ = driven_with(statement, 7)
    assert (report["results"], report["error"]) == (["failed"], "Diverged")


def hidden_calls(*answers: object, expected: bytes = b"7") -> tuple[dict[str, Any], Counter[str]]:
    ours, theirs = socket.socketpair()
    said = LOADED + FUNCTION + b"".join(returned(answer) for answer in answers)
    request = {
        "preamble": "",
        "program": "pass",
        "epilogue": "",
        "function": "f",
        "calls": [(1, len(expected))] * len(answers),
        "shown": 0,
        "body": (b"1" + expected) * len(answers),
        "candidate_uid": 65533,
        "call_cpu_seconds": 60.0,
        "call_wall_seconds": 60.0,
    }
    with ours, theirs:
        theirs.sendall(said)
        return counted(call_tests.run, ours, request)


def test_wrong_and_right_results_of_a_hidden_call_cost_the_same() -> None:
    hidden_calls(7, 7)
    passed, after_right = hidden_calls(7, 7)
    failed, after_wrong = hidden_calls(8, 8)
    assert (passed["results"], failed["results"]) == (["passed"] * 2, ["failed"] * 2)
    assert after_right["call Candidate.call"] == after_wrong["call Candidate.call"] == 2
    assert not any("difference" in name or "show" in name for name in after_wrong)


@each_case(("answer", "expected"), [({1}, b"[1]"), (1 + 2j, b"1"), (b"a", b'"a"'), (range(2), b"[0, 1]")])
def test_a_result_of_a_type_that_json_lacks_is_refused(answer: object, expected: bytes) -> None:
    report, _ = hidden_calls(answer, expected=expected)
    assert report["results"] == ["failed"]
    assert f"JSON has no {type(answer).__name__}" in report["evidence"]


def test_a_value_nested_deep_and_shared_is_shown_at_once() -> None:
    shared: list[Any] = [1]
    for _ in range(25):
        shared = [shared, shared]
    report, _ = driven_with("assert f(1) == 7", shared)
    assert report["results"] == ["failed"]
    assert len(report["evidence"]) <= assert_calls.MAX_EVIDENCE
