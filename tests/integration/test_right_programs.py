"""Programs that are right in plain Python and under the official rules pass, in a real sandbox."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from effort import one_in_four

from harness import Sandbox, build_assert_tests, build_call_tests, build_stdin_tests
from harness.core.types import Status, Submission
from harness.environments.python.call_programs import grade_calls
from harness.environments.python.programs import grade_program
from harness.environments.python.stdin_programs import grade_stdin
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.limits import Limits

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

LONG = 10**5000 + 7
LATER = "import time; time.sleep(0.1); print(7)"
# Each prints 7 after it has ended itself.
LEFT = {
    "a child": f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {LATER!r}])",
    "a fork": f"import os\nif os.fork() == 0:\n    {LATER}",
    "a shell in the background": "import os\nos.system('(sleep 0.1; echo 7) &')",
    "a grandchild": f"import os\nif os.fork() == 0 and os.fork() == 0:\n    {LATER}",
    "a child of another session": f"import os\nif os.fork() == 0:\n    os.setsid()\n    {LATER}",
    "the child alone, after os._exit": f"import os\nif os.fork(): os._exit(0)\n{LATER}",
}
# Each returns 4 as another type for which `== 4` holds.
EQUAL = {
    "Fraction": "from fractions import Fraction\ndef f(x): return Fraction(x)",
    "Decimal": "from decimal import Decimal\ndef f(x): return Decimal(x)",
    "complex": "def f(x): return complex(x)",
    "float": "def f(x): return float(x)",
    "numpy": "import numpy as np\ndef f(x): return np.float32(x)",
    "gmpy2": "import gmpy2\ndef f(x): return gmpy2.mpz(x)",
    "a rational of gmpy2": "import gmpy2\ndef f(x): return gmpy2.mpq(x)",
    "SymPy": "import sympy\ndef f(x): return sympy.Integer(x)",
}
# Each is unequal to 4 in plain Python.
UNEQUAL = {
    "Fraction": "from fractions import Fraction\ndef f(x): return Fraction(9, 2)",
    "Decimal": "from decimal import Decimal\ndef f(x): return Decimal('4.1')",
    "complex": "def f(x): return 4 + 1j",
    "a list": "def f(x): return [4]",
    "a set": "def f(x): return {4}",
    "a text": "def f(x): return '4'",
    "an array": "import numpy as np\ndef f(x): return np.array([4, 4])",
    "an own class": "class A:\n    def __eq__(self, other): return True\ndef f(x): return A()",
    "an own number": (
        "import numbers\nclass A(numbers.Integral):\n    def __eq__(self, other): return True\n"
        "    def __int__(self): return 5\nA.__abstractmethods__ = frozenset()\ndef f(x): return A()"
    ),
}
ARRAY = "import numpy as np\ndef f(): return np.array([[1, 2], [3, 4]])"
ABOUT_ARRAYS = (
    *("len(f()) == 2", "f()[0][1] == 2", "f()[-1, 0] == 3", "f().shape == (2, 2)", "f().sum() == 10"),
    *("f().tolist() == [[1, 2], [3, 4]]", "(f() == [[1, 2], [3, 4]]).all()", "f()[:, 1].tolist() == [2, 4]"),
    *("[list(row) for row in f()] == [[1, 2], [3, 4]]", "(f() + 1).max() == 5", "f().dtype.kind == 'i'"),
    *("3 in f()", "type(f()).__name__ == 'ndarray'", "f().T[0].tolist() == [1, 3]"),
)
SORTED = "from sortedcontainers import SortedList\ndef f(): return SortedList([3, 1, 2])"
ABOUT_SEQUENCES = ("len(f()) == 3", "f()[0] == 1", "f()[-1] == 3", "f() == [1, 2, 3]", "f()[1:] == [2, 3]")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    limits = Limits(memory_mb=256, cpu_seconds=3, wall_seconds=10)
    async with Sandbox.open("python", backend=backend, limits=limits, seccomp="strict") as sandbox:
        yield sandbox


async def test_an_answer_of_a_process_that_outlives_the_program_counts(sandbox: Sandbox) -> None:
    target = build_stdin_tests([("", "7\n")])
    verdicts = {what: await grade_stdin(sandbox, target, Submission(each, "")) for what, each in LEFT.items()}
    assert {what: each for what, each in verdicts.items() if each.status is not Status.PASSED} == {}
    assert sandbox.clean


async def test_a_process_that_never_ends_holds_a_run_for_two_seconds(sandbox: Sandbox) -> None:
    program = "import os, time\nprint(7, flush=True)\nif os.fork() == 0:\n    time.sleep(60)\n    print(8)"
    verdict = await grade_stdin(sandbox, build_stdin_tests([("", "7\n")]), Submission(program, ""))
    assert (verdict.status, sandbox.clean) == (Status.PASSED, True)


async def test_results_are_compared_as_the_official_rule_compares_them(sandbox: Sandbox) -> None:
    target = build_call_tests("f", [([4], 4)])
    equal = {what: await grade_calls(sandbox, target, Submission(each, "")) for what, each in EQUAL.items()}
    assert {what: each for what, each in equal.items() if each.status is not Status.PASSED} == {}
    others = {
        what: await grade_calls(sandbox, target, Submission(each, "")) for what, each in UNEQUAL.items()
    }
    assert {what: each for what, each in others.items() if each.status is not Status.FAILED} == {}


async def test_a_returned_sequence_of_a_library_is_one_for_the_tests(sandbox: Sandbox) -> None:
    wrong = {}
    for program, claims in ((ARRAY, ABOUT_ARRAYS), (SORTED, ABOUT_SEQUENCES)):
        right = [f"assert {claim}" for claim in claims]
        for texts, status in (
            (right, Status.PASSED),
            *(([f"assert not ({claim})"], Status.FAILED) for claim in one_in_four(claims, 0)),
        ):
            target = build_assert_tests(texts, names=["f"])
            verdict = await grade_program(sandbox, target, Submission(program, ""))
            if verdict.status is not status:
                wrong[tuple(texts)] = verdict
    assert not wrong


async def test_tests_give_arrays_to_a_program(sandbox: Sandbox) -> None:
    test = "import numpy as np\nassert f(np.array([1.5, 2.0])).tolist() == [3.0, 4.0]"
    target = build_assert_tests([test], names=["f"])
    verdict = await grade_program(sandbox, target, Submission("def f(x): return x * 2", ""))
    assert verdict.status is Status.PASSED, verdict


async def test_a_byte_order_mark_changes_nothing(sandbox: Sandbox) -> None:
    mark = "\ufeff"
    double = Submission(f"{mark}def f(x): return x * 2", "")
    printing = Submission(f"{mark}print(int(input()) * 2)", "")
    asserts = build_assert_tests([f"{mark}assert f(2) == 4"], names=["f"], setup=f"{mark}import math")
    calls = build_call_tests("f", [([2], 4)], preamble=f"{mark}import math")
    stdin = build_stdin_tests([("2", "4")], preamble=f"{mark}import math")
    verdicts = [
        await grade_program(sandbox, asserts, double),
        await grade_calls(sandbox, calls, double),
        await grade_stdin(sandbox, stdin, printing),
    ]
    assert [verdict.status for verdict in verdicts] == [Status.PASSED] * 3, verdicts


async def test_integers_may_have_thousands_of_digits(sandbox: Sandbox) -> None:
    digits = "1" + "0" * 4999 + "7"
    reading = Submission("x = int(input())\nprint(x + 1)", "")
    adding = Submission("def f(x): return int(str(x)) + 1", "")
    verdicts = [
        await grade_stdin(sandbox, build_stdin_tests([(digits, digits[:-1] + "8")]), reading),
        await grade_calls(sandbox, build_call_tests("f", [([LONG], LONG + 1)]), adding),
        await grade_program(
            sandbox, build_assert_tests([f"assert f({hex(LONG)}) == {hex(LONG + 1)}"]), adding
        ),
        await grade_program(sandbox, build_assert_tests([f"assert str(f({hex(LONG)}))[-1] == '8'"]), adding),
    ]
    assert [verdict.status for verdict in verdicts] == [Status.PASSED] * 4, verdicts
