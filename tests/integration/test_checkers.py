"""Problems with several right outputs: the author's checker judges, where the program has never been."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from docker import APIClient

import harness
from harness.core.errors import UsageError
from harness.core.types import Status, Verdict
from harness.environments.python.stdin_programs import stdout_difference
from harness.sandbox.machine.images import build_images

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

# Any two numbers with the asked sum are right.
CHECK = """
def check(input, output, expected):
    first, second = map(int, output.split())
    return first + second == int(input), f"{first} and {second}"
"""
SCRIPT = """
import sys
given, printed, _ = (open(name).read() for name in sys.argv[1:])
numbers = list(map(int, printed.split()))
sys.exit(0 if sum(numbers) == int(given) and len(numbers) == 2 else 1)
"""
TESTS = [("5\n", "2 3\n"), ("9\n", "4 5\n")]
RIGHT = "n = int(input()); print(1, n - 1)"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(client: APIClient) -> AsyncIterator[harness.Host]:
    build_images(client, ["python"], notify=print)
    async with harness.open_host() as opened:
        yield opened


async def judge(host: harness.Host, program: str, checker: str) -> Verdict:
    return await host.grade(harness.build_stdin_tests(TESTS, checker=checker), program)


async def test_a_checker_accepts_other_outputs_than_the_expected_one(host: harness.Host) -> None:
    for checker in (CHECK, SCRIPT):
        verdict = await judge(host, RIGHT, checker)
        assert (verdict.status, verdict.metrics["tests_passed"]) == (Status.PASSED, 2), verdict


async def test_a_wrong_output_fails_with_the_note_of_the_checker(host: harness.Host) -> None:
    verdict = await judge(host, "print(1, 4)", CHECK)
    assert (verdict.status, verdict.metrics["tests_passed"]) == (Status.FAILED, 1)
    assert verdict.evidence == "test 2: the checker refuses the output: 1 and 4"


async def test_an_output_that_the_checker_cannot_read_fails(host: harness.Host) -> None:
    for program, checker in (
        ("print('two three')", SCRIPT),
        ("print()", CHECK),
        ("import os; os.write(1, b'\\xff\\xfe')", CHECK),
    ):
        assert (await judge(host, program, checker)).status is Status.FAILED, program


async def test_a_checker_that_refuses_its_own_output_is_a_broken_test(host: harness.Host) -> None:
    for checker in ("def check(input, output, expected):\n    return 1 / 0", "raise SystemExit(3)"):
        verdict = await judge(host, RIGHT, checker)
        assert (verdict.status, verdict.score) == (Status.GRADER_ERROR, None)


async def test_a_program_meets_neither_the_checker_nor_the_expected_outputs(host: harness.Host) -> None:
    """It searches its sandbox for both, and forges the answer that the driver of a checker prints."""
    search = """
import glob, json, os
n = int(input())
found = [name for name in glob.glob("/tmp/**", recursive=True) + glob.glob("/work/**", recursive=True)
         if os.path.isfile(name) and b"first + " + b"second" in open(name, "rb").read()]
print(1, n - 1 + len(found))
"""
    assert (await judge(host, search, CHECK)).resolved
    forged = 'print(json.dumps({"code": 0, "note": ""}))'
    assert not (await judge(host, f"import json\n{forged}", SCRIPT)).resolved


async def test_a_program_that_crashes_needs_no_checker(host: harness.Host) -> None:
    verdict = await judge(host, "raise SystemExit(1)", CHECK)
    assert (verdict.status, verdict.evidence) == (Status.FAILED, "test 1: the program exited with code 1")


async def test_tolerance_is_absolute_below_one_and_relative_above() -> None:
    equal = [("0.1000001", "0.1"), ("1000000.5", "1000000"), ("Case 1: 2.0000001", "Case 1: 2.0")]
    different = [
        ("0.1001", "0.1"),
        ("nan", "1"),
        ("inf", "1"),
        ("Case 2: 2.0", "Case 1: 2.0"),
        ("1 2", "1"),
    ]
    assert [pair for pair in equal if stdout_difference(*pair, 1e-6) is not None] == []
    assert [pair for pair in different if stdout_difference(*pair, 1e-6) is None] == []
    assert stdout_difference("0.1000001", "0.1") is not None


async def test_a_checker_and_a_tolerance_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="a checker compares numbers itself"):
        harness.build_stdin_tests(TESTS, checker=CHECK, tolerance=1e-6)
    with pytest.raises(UsageError, match="the checker is not Python"):
        harness.build_stdin_tests(TESTS, checker="def check(:")
