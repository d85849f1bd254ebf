"""Programs whose functions are called with arguments in JSON, in a real sandbox."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from case_checks import each_case

from harness import Sandbox
from harness.benchmarks.livecodebench.generation import PREAMBLE
from harness.core.types import Status, Submission, Verdict
from harness.environments.python.call_programs import CallTest, CallTests, grade_calls
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.limits import Limits

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    limits = Limits(memory_mb=256, cpu_seconds=1, wall_seconds=5)
    async with Sandbox.open("python", backend=backend, limits=limits, seccomp="strict") as sandbox:
        yield sandbox


async def grade(
    sandbox: Sandbox, program: str, *tests: tuple[list[Any], Any], shown: int = 1, seconds: float = 6.0
) -> Verdict:
    written = [CallTest("\n".join(map(json.dumps, given)), json.dumps(wanted)) for given, wanted in tests]
    target = CallTests(tuple(written), "double", shown, PREAMBLE, seconds)
    return await grade_calls(sandbox, target, Submission(program, ""))


TESTS = (([2], 4), ([[1]], [1, 1]), (["ab"], "abab"))
RIGHT = {
    "a function": "def double(x): return x * 2",
    "a method": "class Solution:\n    def double(self, x: List[int]) -> int: return x * 2",
    "a tuple for a list": "def double(x): return tuple(x * 2) if type(x) is list else x * 2",
    "names of built-in functions": "map = filter = len = None\ndef double(x): return x * 2",
    "a main guard that stays shut": "def double(x): return x * 2\nif __name__ == '__main__': 1 / 0",
    "numbers of numpy": "import numpy as np\ndef double(x): return np.int64(4) if x == 2 else x * 2",
    "a future import": "from __future__ import annotations\ndef double(x: Nothing): return x * 2",
    "a dataclass": (
        "from dataclasses import *\n@dataclass\nclass A:\n    x: int\ndef double(x): return A(x).x * 2"
    ),
    "one instance for all calls": (
        "class Solution:\n    made = 0\n    def __init__(self):\n        Solution.made += 1\n"
        "    def double(self, x): return x * 2 if Solution.made == 1 else None"
    ),
}
WRONG = {
    "nothing": "",
    "another name": "def triple(x): return x * 2",
    "an exception": "def double(x): raise ValueError",
    "an end": "import sys\ndef double(x): sys.exit(0)",
    "a number": "double = 4",
    "an exception class": "class double(Exception): pass",
    "a generator": "def double(x): yield x * 2",
    "an object that equals everything": (
        "class All:\n    def __eq__(self, other): return True\ndef double(x): return All()"
    ),
    "a tuple inside": "def double(x): return (x * 2,)",
    "a syntax error": "def double(x:",
}


@each_case("what", RIGHT)
async def test_a_right_program_passes(sandbox: Sandbox, what: str) -> None:
    verdict = await grade(sandbox, RIGHT[what], *TESTS)
    assert (verdict.status, verdict.metrics["tests_passed"]) == (Status.PASSED, 3), verdict


@each_case("what", WRONG)
async def test_a_wrong_program_has_failed(sandbox: Sandbox, what: str) -> None:
    verdict = await grade(sandbox, WRONG[what], *TESTS)
    assert (verdict.status, verdict.score) == (Status.FAILED, 0.0), verdict
    assert sandbox.clean


async def test_a_program_without_tests_does_not_pass(sandbox: Sandbox) -> None:
    assert (await grade(sandbox, RIGHT["a function"])).status is Status.FAILED


async def test_a_wrong_answer_to_a_shown_test_ends_the_tests(sandbox: Sandbox) -> None:
    verdict = await grade(sandbox, "def double(x): return 4", ([3], 6), ([2], 4), shown=1)
    assert verdict.metrics["per_test"] == ["failed"]


async def test_a_wrong_answer_to_a_hidden_test_does_not_end_the_tests(
    sandbox: Sandbox,
) -> None:
    verdict = await grade(sandbox, "def double(x): return 4", ([2], 4), ([3], 6), ([2], 4), shown=1)
    assert verdict.metrics["per_test"] == ["passed", "failed", "passed"]
    assert verdict.evidence == "test 2: called with (3), returned 4, expected 6"


async def test_each_call_has_its_own_time(sandbox: Sandbox) -> None:
    busy = "import time\ndef double(x):\n    while time.process_time() % 0.4 < 0.35: pass\n    return x * 2"
    verdict = await grade(sandbox, busy, *[([2], 4)] * 5, seconds=1.0)
    assert verdict.status is Status.PASSED, verdict


@each_case("body", ["while True: pass", "time.sleep(60)"])
async def test_a_call_without_end_reaches_its_limit(sandbox: Sandbox, body: str) -> None:
    program = f"import time\ndef double(x):\n    if x == 3:\n        {body}\n    return x * 2"
    verdict = await grade(sandbox, program, ([2], 4), ([3], 6), ([2], 4), seconds=0.5)
    assert verdict.status is Status.TIMEOUT, verdict
    assert verdict.limit in ("cpu_seconds", "wall_seconds")
    assert verdict.metrics["per_test"] == ["passed", "timeout"]


async def test_loading_has_its_limit_too(sandbox: Sandbox) -> None:
    assert (await grade(sandbox, "while True: pass", *TESTS, seconds=0.5)).status is Status.TIMEOUT


async def test_a_crash_is_reported(sandbox: Sandbox) -> None:
    program = "import os\ndef double(x): os.kill(os.getpid(), 11)"
    assert (await grade(sandbox, program, *TESTS)).status is Status.CRASHED


async def test_more_tests_than_fit_into_one_request_are_graded(sandbox: Sandbox) -> None:
    long = list(range(900_000))
    verdict = await grade(sandbox, "def double(x): return len(x)", *[([long], len(long))] * 3)
    assert (verdict.status, verdict.metrics["tests_passed"]) == (Status.PASSED, 3), verdict
