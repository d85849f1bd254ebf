"""Integers of more digits than Python converts at once, in JSON and in the tests of a request."""

from __future__ import annotations

import pytest

from harness import UsageError, build_call_tests
from harness.client.grader import describe_target
from harness.core.inputs.json_text import MAX_TEST_DIGITS, BrokenJSONError, parse_json, write_json
from harness.service.errors import ServiceError
from harness.service.operations import read_json
from harness.service.verdicts.grade import GradeRequest

LONG = 10**5000 + 7
VALUES = (
    *(0, -1, 10**4299, 10**4300, -(10**4301), LONG, -LONG, 10 ** (MAX_TEST_DIGITS - 1), 7**9000),
    *([1, LONG], {"a": {"b": [LONG, None, 1.5, "x"]}, "c": True}, [{"x": -LONG}, []], "digits"),
)


def test_values_with_long_integers_survive_json() -> None:
    wrong = [value for value in VALUES if parse_json(write_json(value), max_digits=MAX_TEST_DIGITS) != value]
    assert len(wrong) == 0


def test_more_digits_are_refused() -> None:
    with pytest.raises(BrokenJSONError, match="50,001 digits"):
        parse_json("9" * (MAX_TEST_DIGITS + 1), max_digits=MAX_TEST_DIGITS)
    with pytest.raises(UsageError, match="50,001 digits"):
        build_call_tests("f", [([1], 10**MAX_TEST_DIGITS)])


def test_a_request_may_have_tests_with_long_integers() -> None:
    target = build_call_tests("f", [([LONG], LONG + 1)])
    sample = {"id": 1, "solution": "", "tests": describe_target(target)}
    request = read_json(GradeRequest, write_json({"samples": [sample]}).encode())
    tests = request.samples[0].tests
    assert tests is not None
    assert tests.build() == target


def test_a_long_integer_in_another_place_of_a_request_is_refused() -> None:
    body = {"samples": [{"id": 1, "solution": "", "tests": {"kind": "stdin", "tests": [], "seconds": LONG}}]}
    with pytest.raises(ServiceError):
        read_json(GradeRequest, write_json(body).encode())
