"""No form of test shows a sample whether an earlier sample of its container was right.

Tests that only assert are driven without a look at an answer, so their samples share a container. Every other
form may stop or branch by an answer, so each of its samples gets a container to itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Hashable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from harness.core.types import ProgramTests, Submission
from harness.environments.grading import GradingContext, grade_submission
from harness.environments.python.client import run_on_inputs, run_tests
from harness.environments.python.steering import find_steering
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.pool import SandboxPool, SandboxSettings
from harness.sandbox.sandbox import Sandbox

# The tests of `f`, whose right answers are 3, 1, 4, 1 and 5 for 0 to 4.
CASES = "CASES = [(0, 3), (1, 1), (2, 4), (3, 1), (4, 5)]\n"
FORMS = yaml.safe_load(Path(__file__).with_name("forms_of_tests.yaml").read_text())
PLAIN, STEERED = FORMS["plain"], FORMS["steered"]
PROGRAM = """
import sys
RIGHT = {right}
def f(x):
    print(x, file=sys.stdout, flush=True)
    return [3, 1, 4, 1, 5][x] if x in RIGHT else 9
"""


def build_tests(*statements: str) -> ProgramTests:
    return ProgramTests(statements=statements, exports={"f": "f"}, setup=CASES)


def test_an_answer_can_steer_every_form_but_plain_asserts() -> None:
    forms = {name: build_tests(text) for name, text in STEERED.items()}
    assert [name for name, tests in forms.items() if find_steering(tests) is None] == []


def test_an_answer_can_steer_every_form_in_a_function_of_the_set_up() -> None:
    """The guest rewrites no assert of the set-up."""
    setups = {name: in_function(text) for name, text in {**STEERED, **PLAIN}.items()}
    steered = {
        name: find_steering(ProgramTests(("go()",), {"f": "f"}, setup)) for name, setup in setups.items()
    }
    assert [name for name, reason in steered.items() if reason is None] == []


def test_no_answer_can_steer_plain_asserts() -> None:
    found = {name: find_steering(build_tests(text)) for name, text in PLAIN.items()}
    assert {name: reason for name, reason in found.items() if reason is not None} == {}


def in_function(text: str) -> str:
    """Return set-up with the test as a function. Its own names become local, and the program stays global."""
    body = "".join(f"    {line}\n" for line in text.split("\n"))
    return f"{CASES}def go():\n{body}"


def test_the_reason_names_the_line() -> None:
    reason = find_steering(build_tests("x = 1", "y = 2\nif f(1) != 1:\n    raise ValueError"))
    assert reason == "test 2, line 2: its course may depend on an answer (If): if f(1) != 1:"


def test_a_class_of_the_program_needs_its_own_sandbox() -> None:
    tests = ProgramTests(("assert Box(1).get() == 1",), {"Box": "Box"}, classes={"Box": ("__init__", "get")})
    assert find_steering(tests) is not None


@pytest_asyncio.fixture
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    async with Sandbox.open("python", backend=backend, seccomp="strict") as sandbox:
        yield sandbox


class _Leased(Exception):
    """The key of the sandbox that a grading asked for."""


class _Keys(SandboxPool):
    @contextlib.asynccontextmanager
    async def lease(self, settings: SandboxSettings, **options: Any) -> AsyncIterator[Sandbox]:
        raise _Leased(options["key"])
        yield


async def key_for(tests: ProgramTests, key: Hashable) -> Hashable:
    context = GradingContext(_Keys(), 10.0, fresh=SandboxSettings("python"), key=key)
    with pytest.raises(_Leased) as leased:
        await grade_submission(tests, Submission("f = abs", agent_output=""), context)
    found: Hashable = leased.value.args[0]
    return found


async def test_only_samples_of_plain_asserts_share_a_sandbox() -> None:
    shared = [name for name, text in STEERED.items() if await key_for(build_tests(text), "task")]
    alone = [name for name, text in PLAIN.items() if await key_for(build_tests(text), "task") != "task"]
    assert (shared, alone) == ([], [])


async def test_a_program_sees_the_same_calls_whether_it_is_right_or_wrong(sandbox: Sandbox) -> None:
    """Every set of right answers gets the same calls in the same order."""
    different = []
    for name, text in PLAIN.items():
        seen = set()
        for right in (range(5), (), (0, 1), (2, 3, 4)):
            report = await run_tests(
                sandbox,
                program=PROGRAM.format(right=set(right) or "()"),
                setup=CASES,
                statements=[text],
                exports={"f": "f"},
            )
            if len(right) == 5 and not all(report.results):
                different.append(f"{name}: right answers fail: {report.evidence}")
            if not right and all(report.results):
                different.append(f"{name}: wrong answers pass")
            seen.add(str(report.stdout))
        if len(seen) > 1:
            different.append(f"{name}: {seen}")
    assert different == []


async def test_a_sandbox_serves_no_other_program_after_large_answers(sandbox: Sandbox) -> None:
    """How long it takes to judge them could show the next program whether they were right."""
    program = "def f(x):\n    return [0, 'x' * 200_000][x]\n"
    marked = []
    for call in (0, 1):
        await run_tests(sandbox, program=program, statements=[f"assert f({call}) == 7"], exports={"f": "f"})
        marked.append(sandbox.marked)
    assert marked == [False, True]


async def test_a_sandbox_serves_no_other_program_after_large_outputs(sandbox: Sandbox) -> None:
    marked = []
    for size in (1, 200_000):
        program = f"print('1' * {size})".encode()
        await run_on_inputs(sandbox, program=program, inputs=[b""], stdout_bytes=1 << 20)
        marked.append(sandbox.marked)
    assert marked == [False, True]
