"""The faults that the service names in the JSON of a request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.service.errors import InvalidRequestError
from harness.service.operations import read_json
from harness.service.verdicts.grade import GradeRequest


def refuse(values: Any) -> str:
    with pytest.raises(InvalidRequestError) as refused:
        read_json(GradeRequest, json.dumps(values).encode())
    return str(refused.value)


def test_the_place_of_a_fault_has_only_the_keys_of_the_request() -> None:
    tests = {"kind": "stdin", "tests": [{"stdin": "3", "output": "4"}]}
    fault = refuse({"samples": [{"solution": "", "tests": tests}]})
    assert fault == (
        "'samples.0.tests.tests.0.stdin' is not a known field, and 'samples.0.tests.tests.0.input' is missing"
    )


def test_a_body_that_is_no_object_is_the_subject_of_its_fault() -> None:
    assert refuse([1]) == "the body must be keys and values, not [1]"
