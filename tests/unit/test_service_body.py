"""The bounds on the body of a request before and while its JSON is parsed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from case_checks import each_case

from harness.service.errors import InvalidRequestError
from harness.service.operations import Bodies, read_json
from harness.service.settings import ServiceLimits
from harness.service.verdicts.grade import GradeRequest

LIMITS = ServiceLimits(body_structures=100)


async def read(*pieces: bytes, is_json: bool = True) -> bytes:
    """Return a body that arrives in pieces."""
    rest = list(pieces)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": rest.pop(0), "more_body": bool(rest)}

    return (await Bodies(LIMITS).read({}, receive, client="client", is_json=is_json)).content


@each_case("structure", [b"[]", b"{}", b'"":0'])
async def test_a_body_of_too_many_structures_is_refused_before_it_has_arrived(structure: bytes) -> None:
    piece = b",".join([structure] * 60)
    with pytest.raises(InvalidRequestError, match="may have 100 objects, lists and named fields") as caught:
        await read(piece, piece, b"never read")
    assert (caught.value.status, caught.value.code) == (413, "body_too_large")


@each_case(
    ("body", "is_json"),
    [(b"[" + b"1," * 10_000 + b"1]", True), (b'"' + b"[" * 200 + b'"', True), (b"[" * 200, False)],
    ids=["numbers", "text", "bytes"],
)
async def test_other_values_and_bytes_are_no_structures(body: bytes, is_json: bool) -> None:
    assert await read(body, is_json=is_json) == body


def test_a_body_of_many_faults_is_refused_without_a_list_of_them() -> None:
    body = json.dumps({f"unknown {number}": 0 for number in range(10_000)}).encode()
    with pytest.raises(InvalidRequestError, match=r"^10,001 values do not fit, too many to name one$"):
        read_json(GradeRequest, body)


def test_the_first_of_many_samples_that_are_none_is_named() -> None:
    samples = b",".join([b"{}"] * 10_000)
    with pytest.raises(InvalidRequestError, match=r"'samples\.0' needs exactly one of"):
        read_json(GradeRequest, b'{"samples":[' + samples + b"]}")


def test_the_first_of_some_faults_is_named() -> None:
    body = json.dumps({f"unknown {number}": 0 for number in range(1000)}).encode()
    expected = "'unknown 0' is not a known field, and 'samples' is missing"
    with pytest.raises(InvalidRequestError, match=expected):
        read_json(GradeRequest, body)
