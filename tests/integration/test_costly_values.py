"""Values that are costly to send, to compare or to show end in seconds, and the evidence names the limit."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from case_checks import each_case
from effort import one_in_two

from harness import Sandbox
from harness.environments.python.client import TestReport, run_calls, run_tests
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.limits import Limits

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

# By name: a program that returns the value from `f`, and the limit that the evidence must name.
COSTLY = {
    "a list that holds itself twice, 60 times over": (
        "def f(x):\n    nest = [1]\n    for _ in range(60): nest = [nest, nest]\n    return nest",
        "more than 20,000,000 items",
    ),
    "a dictionary that holds itself twice, 60 times over": (
        "def f(x):\n    nest = {}\n    for _ in range(60): nest = {'a': nest, 'b': nest}\n    return nest",
        "more than 20,000,000 items",
    ),
    "a tuple that holds itself twice, 60 times over": (
        "def f(x):\n    nest = ()\n    for _ in range(60): nest = (nest, nest)\n    return nest",
        "more than 4,000,000 items",
    ),
    "a named tuple that holds itself twice, 60 times over": (
        "from collections import namedtuple\nP = namedtuple('P', 'a b')\n"
        "def f(x):\n    nest = 1\n    for _ in range(60): nest = P(nest, nest)\n    return nest",
        "more than 4,000,000 items",
    ),
    "an argument that was made to hold itself twice": (
        "def f(x):\n    nest = [1]\n    for _ in range(60): nest = [nest, nest]\n    x.append(nest)",
        "more than 20,000,000 items",
    ),
    "a long text that is shared": (
        "def f(x):\n    a = ['x' * 1_000_000]\n    return [[a] * 1000] * 1000",
        "more than 20,000,000 items",
    ),
    "a fraction of many digits": (
        "from fractions import Fraction\ndef f(x): return Fraction(7 ** 400_000, 3 ** 600_000)",
        "fractions of more digits than can be reduced",
    ),
    "many fractions of many digits": (
        "from fractions import Fraction\ndef f(x): return [Fraction(7 ** 20_000, 3 ** 30_000)] * 200",
        "fractions of more digits than can be reduced",
    ),
    "an integer of too many digits": ("def f(x): return 1 << 5_000_000", "more than 1,200,000 digits"),
    "a decimal of a large exponent": (
        "from decimal import Decimal\ndef f(x): return Decimal('1E+999999999')",
        "more than 1,200,000 digits",
    ),
    "many objects": (
        "class C: pass\ndef f(x): return [C() for _ in range(1_500_000)]",
        "more than 100,000 objects",
    ),
    "many items": ("def f(x): return [None] * 5_000_000", "more than 2,000,000 items"),
    "many bytes": ("def f(x): return 'x' * 40_000_000", "more than 33,554,432 bytes"),
    "many levels": (
        "def f(x):\n    nest = []\n    for _ in range(200_000): nest = [nest]\n    return nest",
        "nested more than 100,000 levels",
    ),
    "keys that share a hash": (
        "def f(x): return dict.fromkeys(n * (2 ** 61 - 1) for n in range(2000))",
        "more than 256 keys that share a hash",
    ),
    "elements that share a hash": (
        "def f(x): return {n * (2 ** 61 - 1) for n in range(2000)}",
        "more than 256 keys that share a hash",
    ),
    "keys of an argument that share a hash": (
        "def f(x):\n    x.append({n * (2 ** 61 - 1) for n in range(2000)})",
        "more than 256 keys that share a hash",
    ),
}
# These values cross, and are costly only to code that inspects them without a bound.
CROSSING = {
    "a list that holds itself": "def f(x):\n    nest = [1]\n    nest.append(nest)\n    return nest",
    "lists that all hold each other": (
        "def f(x):\n    rows = [[] for _ in range(50)]\n"
        "    for row in rows: row.extend(rows)\n    return rows"
    ),
    "a list that holds itself twice, 20 times over": (
        "def f(x):\n    nest = [1]\n    for _ in range(20): nest = [nest, nest]\n    return nest"
    ),
    "100,000 levels": "def f(x):\n    nest = []\n    for _ in range(99_000): nest = [nest]\n    return nest",
    "a million digits": "def f(x): return 7 ** 1_000_000",
    "a decimal of a million digits": (
        "from decimal import Decimal\ndef f(x): return Decimal('2.' + '0' * 10 ** 6 + '1')"
    ),
    "an exception that holds what is costly": (
        "def f(x):\n    nest = [1]\n    for _ in range(60): nest = [nest, nest]\n"
        "    raise ValueError(nest, x)"
    ),
    "a signalling NaN": "from decimal import Decimal\ndef f(x): return Decimal('sNaN')",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    limits = Limits(memory_mb=1024, cpu_seconds=20, wall_seconds=120)
    async with Sandbox.open("python", backend=backend, limits=limits, seccomp="strict") as sandbox:
        yield sandbox


async def asserted(sandbox: Sandbox, program: str) -> TestReport:
    return await run_tests(sandbox, program=program, statements=["assert f([1]) == [2]"], exports={"f": "f"})


async def called(sandbox: Sandbox, program: str) -> TestReport:
    epilogue = (
        "def run(line):\n    x = __import__('json').loads(line)\n    result = f(x)\n"
        "    return x if result is None else result\n"
    )
    return await run_calls(
        sandbox,
        program=program,
        epilogue=epilogue,
        function="run",
        cpu_seconds=20,
        calls=[(b"[1]", json.dumps([2]).encode())],
    )


@each_case("what", one_in_two([*COSTLY], 0))
async def test_a_costly_result_fails_by_a_limit_that_the_evidence_names(sandbox: Sandbox, what: str) -> None:
    program, limit = COSTLY[what]
    report = await asserted(sandbox, program)
    assert (report.results, report.ended, report.breach) == ((False,), None, None), report
    assert limit in str(report.evidence)


@each_case("what", one_in_two([*COSTLY], 1))
async def test_a_costly_result_of_a_call_fails_by_the_same_limit(sandbox: Sandbox, what: str) -> None:
    program, limit = COSTLY[what]
    report = await called(sandbox, program)
    assert (report.results, report.ended, report.breach) == ((False,), None, None), report
    assert limit in str(report.evidence)


@each_case("what", CROSSING)
async def test_a_value_that_looks_costly_is_compared_and_is_wrong(sandbox: Sandbox, what: str) -> None:
    for judge in one_in_two((asserted, called), [*CROSSING].index(what)):
        report = await judge(sandbox, CROSSING[what])
        assert (report.results, report.ended, report.breach) == ((False,), None, None), report


async def test_the_test_after_a_costly_result_is_graded(sandbox: Sandbox) -> None:
    program = f"{COSTLY['many items'][0]}\ndef g(x): return x + 1"
    report = await run_tests(
        sandbox,
        program=program,
        statements=["assert f(1) == 2", "assert g(1) == 2"],
        exports={"f": "f", "g": "g"},
    )
    assert report.results == (False, True)
