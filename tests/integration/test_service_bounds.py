"""The bounds on the work and the memory of one request, and texts that no reply can repeat."""

from __future__ import annotations

import json
from typing import Any

import pytest
from case_checks import each_case
from service_fixtures import Served, share_service

from harness.service.verdicts import run_code
from harness.service.verdicts.samples import MOST_SOURCE_BYTES

CALLS = {"kind": "calls", "function": "add", "tests": [{"arguments": [1, 2], "result": 3}]}
ADD = "def add(a, b): return a + b"
pytestmark = pytest.mark.asyncio(loop_scope="module")
served = share_service()


async def test_the_files_that_a_program_makes_are_bounded_together(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_code, "MOST_FETCHED_BYTES", 2500)
    response = await served.post(
        "/run_code",
        language="python",
        code="for name in 'abc': open(name, 'w').write(name * 1000)\nopen('d', 'w').write('d')",
        fetch_files=["a", "a", "b", "c", "d"],
    )
    assert response.json()["status"] == "Success"
    assert sorted(response.json()["files"]) == ["a", "b", "d"]


@each_case("field", ["files", "fetch_files"])
async def test_the_number_of_files_is_bounded(served: Served, field: str) -> None:
    names = [str(number) for number in range(run_code.MOST_FILES + 1)]
    value = dict.fromkeys(names, "") if field == "files" else names
    response = await served.post("/run_code", language="python", code="1", **{field: value})
    assert response.status_code == 422
    assert field in response.json()["error"]["message"]


@each_case("stream", [False, True])
async def test_half_of_a_surrogate_pair_in_an_id_costs_no_verdict(served: Served, stream: bool) -> None:
    samples = [{"id": name, "tests": CALLS, "solution": ADD} for name in ("\ud800", "other")]
    content = json.dumps({"samples": samples, "stream": stream})
    response = await served.http.post("/v1/grade", content=content)
    text = response.text
    verdicts = [json.loads(line) for line in text.splitlines()] if stream else json.loads(text)["verdicts"]
    assert {each["id"]: each["status"] for each in verdicts} == {"\ud800": "passed", "other": "passed"}


async def test_half_of_a_surrogate_pair_in_the_name_of_a_file_is_repeated(served: Served) -> None:
    values = {"language": "python", "code": "open(b'\\xff', 'w').close()", "fetch_files": ["\udcff"]}
    response = await served.http.post("/run_code", content=json.dumps(values))
    assert response.json()["status"] == "Success"


@each_case(
    "tests",
    [
        {"kind": "asserts", "tests": ["add;" * (MOST_SOURCE_BYTES // 4) + "add"]},
        {"kind": "asserts", "tests": ["assert add(1, 2) == 3"], "setup": "#" * (MOST_SOURCE_BYTES + 1)},
        {**CALLS, "preamble": "#" * (MOST_SOURCE_BYTES + 1)},
    ],
    ids=["tests", "setup", "preamble"],
)
async def test_source_that_would_keep_the_service_from_other_clients_is_refused(
    served: Served,
    tests: dict[str, Any],
) -> None:
    response = await served.post("/v1/grade", samples=[{"tests": tests, "solution": ADD}])
    assert response.status_code == 422
    assert f"{MOST_SOURCE_BYTES:,}" in response.json()["error"]["message"]
