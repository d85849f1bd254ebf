"""HumanEval+ and MBPP+ in both published shapes, with the rules of EvalPlus, in a real sandbox."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from harness import Sandbox, load_benchmark
from harness.benchmarks.benchmark import Benchmark
from harness.core.types import Status, Verdict
from harness.environments.python.programs import grade_program
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.limits import Limits

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

# The published form of the tests on the hub, in words of our own.
CHECK = """
import numpy as np


def floats_only(x):
    return isinstance(x, float) or (isinstance(x, (list, tuple)) and all(isinstance(i, float) for i in x))


def assertion(out, exp, atol):
    exact = out == exp
    if atol == 0 and floats_only(exp):
        atol = 1e-6
    if not exact and atol != 0:
        np.testing.assert_allclose(out, exp, rtol=1e-07, atol=atol)
    else:
        assert exact

"""
HUB_HUMANEVAL = {
    "task_id": "HumanEval/0",
    "prompt": "def half(x):\n    '''Return half of x.'''\n",
    "entry_point": "half",
    "canonical_solution": "    return x / 2\n",
    "test": CHECK
    + "def check(candidate):\n    inputs = [[1.0], [0.2], [3.0]]\n    results = [0.5, 0.1, 1.5]\n"
    "    for inp, exp in zip(inputs, results):\n        assertion(candidate(*inp), exp, 0)\n",
}
HUB_MBPP = {
    "task_id": 3,
    "prompt": "Write a function to halve.",
    "code": "def half(x):\n    return x / 2\n",
    "source_file": "Benchmark Questions Verification V2.ipynb",
    "test_imports": [],
    "test_list": ["assert half(1) == 0.5", "assert half(4) == 2"],
    "test": CHECK + "inputs = [[1], [0.2], [3]]\nresults = [0.5, 0.1, 1.5]\n"
    "for i, (inp, exp) in enumerate(zip(inputs, results)):\n    assertion(half(*inp), exp, 0)\n",
}
RIGHT, NEAR = "def half(x):\n    return x / 2\n", "def half(x):\n    return x / 2 + 1e-9\n"
ONLY_BASE = "def half(x):\n    return x / 2 if x in (1, 4) else 7.0\n"


def released(task_id: str, name: str, program: str, base: Any, plus: Any, atol: float = 0) -> dict[str, Any]:
    fields = {"task_id": task_id, "entry_point": name, "base_input": base, "plus_input": plus, "atol": atol}
    return {**fields, "prompt": "", "canonical_solution": program, "contract": "", "assertion": ""}


# A row of a task with a rule of its own, the programs that pass by it, and those that fail.
RULES: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "equal sets": (
        released(
            "Mbpp/2", "f", "def f(a, b): return tuple(set(a) & set(b))", [[[1, 2], [2, 3]]], [[[5], [5]]]
        ),
        ["def f(a, b): return list(set(a) & set(b)) * 2"],
        ["def f(a, b): return [2]", "def f(a, b): return None"],
    ),
    "tuples from lists": (
        released("Mbpp/116", "f", "def f(t): return int(''.join(map(str, t)))", [[[1, 2]]], [[[4]]]),
        ["def f(t): return int(''.join(map(str, t))) if type(t) is tuple else None"],
        ["def f(t): return None"],
    ),
    "complex numbers": (
        released("Mbpp/252", "f", "import cmath\ndef f(z): return cmath.polar(z)", [["1j"]], [["3+4j"]]),
        ["def f(z): return (abs(z), __import__('math').atan2(z.imag, z.real))"],
        ["def f(z): return (abs(z), 9.0)", "def f(z): return [abs(z)]"],
    ),
    "anything": (
        released("Mbpp/164", "are_equivalent", "def are_equivalent(a, b): return a == b", [[1, 2]], [[3, 3]]),
        ["def are_equivalent(a, b): return 'x'"],
        ["def are_equivalent(a, b): raise ValueError"],
    ),
    "or zero": (
        released("Mbpp/295", "sum_div", "def sum_div(n): return n", [[8]], [[9]]),
        ["def sum_div(n): return 0", "def sum_div(n): return n"],
        ["def sum_div(n): return 1"],
    ),
    "digits": (
        released("Mbpp/558", "f", "def f(a, b): return sum(map(int, str(abs(a - b))))", [[1, 2]], [[23, 56]]),
        ["def f(a, b): return sum(abs(int(x) - int(y)) for x, y in zip(str(a), str(b)))"],
        ["def f(a, b): return a"],
    ),
    "a match or None": (
        released(
            "Mbpp/9",
            "check_str",
            "import re\ndef check_str(s): return bool(re.match('a', s))",
            [["ab"]],
            [["b"]],
        ),
        ["import re\ndef check_str(s): return re.match('a', s)"],
        ["def check_str(s): return s"],
    ),
    "types and lengths": (
        released("Mbpp/10", "f", "def f(x): return [x / 3, x]", [[1.0]], [[2.0]], 1e-6),
        ["def f(x): return [x / 3 + 1e-8, x]"],
        ["def f(x): return (x / 3 + 1e-8, x)", "def f(x): return [x / 3 + 1e-8]", "def f(x): return [x, x]"],
    ),
}
ROOT = released(
    "HumanEval/32",
    "find_zero",
    "    a, b = xs\n    return -a / b\n",
    [[[1, 2]]],
    [[[-6, 3]]],
    1e-4,
) | {"prompt": "def find_zero(xs):\n    '''Return a root.'''\n", "test": "def check(candidate):\n    pass\n"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    limits = Limits(memory_mb=256, cpu_seconds=3, wall_seconds=10)
    async with Sandbox.open("python", backend=backend, limits=limits, seccomp="strict") as sandbox:
        yield sandbox


def load(folder: Path, benchmark: str, row: dict[str, Any]) -> Benchmark:
    path = folder / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n")
    return load_benchmark(benchmark, data=str(path))


async def grade(sandbox: Sandbox, benchmark: Benchmark, program: str | None = None) -> Verdict:
    (task,) = benchmark.tasks
    reference = benchmark.references[task.id]
    submission = benchmark.submission(task, "solution", reference.solution if program is None else program)
    return await grade_program(sandbox, reference.target, submission)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["humaneval-plus", "mbpp-plus"])
async def test_the_references_of_the_sample_pass_both_parts(sandbox: Sandbox, name: str) -> None:
    benchmark = load_benchmark(name, data="bundled")
    assert [metric.name for metric in benchmark.definition.metrics] == ["base", "plus"]
    for task in benchmark.tasks:
        reference = benchmark.references[task.id]
        submission = benchmark.submission(task, "solution", reference.solution)
        verdict = await grade_program(sandbox, reference.target, submission)  # type: ignore[arg-type]
        parts = verdict.metrics["base"], verdict.metrics["plus"]
        assert (verdict.status, parts) == (Status.PASSED, (1.0, 1.0)), verdict


async def test_rows_of_the_hub_run_with_the_parts_that_they_tell(sandbox: Sandbox, tmp_path: Path) -> None:
    humaneval = load(tmp_path, "humaneval-plus", HUB_HUMANEVAL)
    assert [metric.name for metric in humaneval.definition.metrics] == ["plus"]
    mbpp = load(tmp_path, "mbpp-plus", HUB_MBPP)
    found = []
    for benchmark in (humaneval, mbpp, load(tmp_path, "mbpp", HUB_MBPP)):
        for program in (RIGHT, NEAR, ONLY_BASE, "def half(x): return None"):
            verdict = await grade(sandbox, benchmark, program)
            found.append((verdict.status.value, verdict.metrics.get("base"), verdict.metrics["plus"]))
    passed, failed = "passed", "failed"
    of_mbpp = [(passed, 1.0, 1.0), (failed, 0.0, 0.0), (failed, 1.0, 0.0), (failed, 0.0, 0.0)]
    of_humaneval = [(passed, None, 1.0), (passed, None, 1.0), (failed, None, 0.0), (failed, None, 0.0)]
    assert found == [*of_humaneval, *of_mbpp, *of_mbpp]


async def test_tasks_with_rules_of_their_own_are_judged_by_them(sandbox: Sandbox, tmp_path: Path) -> None:
    wrong = {}
    for what, (row, right, others) in RULES.items():
        benchmark = load(tmp_path, "mbpp-plus", row)
        for program, status in (
            *((each, "passed") for each in right),
            *((each, "failed") for each in others),
        ):
            verdict = await grade(sandbox, benchmark, program)
            if verdict.status.value != status:
                wrong[what, program] = verdict
    assert not wrong


async def test_a_root_is_right_if_the_polynomial_vanishes_there(sandbox: Sandbox, tmp_path: Path) -> None:
    benchmark = load(tmp_path, "humaneval-plus", ROOT)
    near = "def find_zero(xs):\n    return -xs[0] / xs[1] + 1e-6\n"
    verdicts = [
        await grade(sandbox, benchmark, program) for program in (None, near, "def find_zero(xs): return 5")
    ]
    assert [verdict.status.value for verdict in verdicts] == ["passed", "passed", "failed"], verdicts


async def test_a_reference_that_fails_on_its_inputs_gives_no_verdict(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    row = released("Mbpp/9", "f", "def f(x): return 1 // x", [[1]], [[0]])
    verdict = await grade(sandbox, load(tmp_path, "mbpp-plus", row), "def f(x): return 1")
    assert verdict.status is Status.GRADER_ERROR
    assert "ZeroDivisionError" in str(verdict.evidence)


# Passes the tests of HumanEval/109, although it never compares the last element with the first.
ONE_DESCENT = """
def move_one_ball(arr):
    return sum(one > other for one, other in zip(arr, arr[1:])) <= 1
"""


async def test_rows_of_humaneval_are_judged_by_the_bundled_inputs(
    sandbox: Sandbox, shared_data: Path
) -> None:
    benchmark = load_benchmark("humaneval-plus", data=str(shared_data / "humaneval/HumanEval.jsonl.gz"))
    found = {}
    # Helpers of the prompt (10, 32, 38, 50), tuples as arguments (127), a tolerance (32).
    for number in (0, 1, 2, 3, 4, 10, 32, 38, 50, 109, 127):
        task = next(task for task in benchmark.tasks if task.id == f"HumanEval/{number}")
        reference = benchmark.references[task.id]
        programs = [reference.solution, *([ONE_DESCENT] if number == 109 else [])]
        for place, program in enumerate(programs):
            submission = benchmark.submission(task, "solution", program)
            verdict = await grade_program(sandbox, reference.target, submission)  # type: ignore[arg-type]
            found[number, place] = verdict.metrics.get("base"), verdict.metrics.get("plus")
    assert {key: parts for key, parts in found.items() if parts != (1.0, 1.0)} == {(109, 1): (1.0, 0.0)}
