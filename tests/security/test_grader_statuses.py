"""Programs that break, exhaust, escape or lie: each gets the right status, and none passes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio
from case_checks import each_case

from harness import Sandbox
from harness.core.types import ProgramTests, Status, Submission, Verdict
from harness.environments.python.programs import grade_program
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.limits import Limits

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

HONEST = "def f(x):\n    return x * 2\n"
TESTS = ProgramTests(
    statements=("assert f(2) == 4", "assert f('ab') == 'abab'", "assert f([1]) == [1, 1]"), exports={"f": "f"}
)

# The two places where a program can attack, and the body at the other one.
AT_LOAD = "{body}\ndef f(x):\n    return x * 2\n"
IN_CALL = "import os, sys, signal, threading, time\ndef f(x):\n{indented}\n    return x * 3\n"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def patient(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    limits = Limits(cpu_seconds=1, wall_seconds=10, memory_mb=192, processes=32, output_mb=1)
    async with Sandbox.open("python", backend=backend, limits=limits, seccomp="strict") as sandbox:
        yield sandbox


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def impatient(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    limits = Limits(cpu_seconds=1, wall_seconds=1)
    async with Sandbox.open("python", backend=backend, limits=limits, seccomp="strict") as sandbox:
        yield sandbox


async def grade(sandbox: Sandbox, program: str, tests: ProgramTests = TESTS) -> Verdict:
    return await grade_program(sandbox, tests, Submission(program, agent_output=""))


async def assert_status(sandbox: Sandbox, program: str, status: Status) -> Verdict:
    """Assert that the program gets this status, and that the sandbox is clean afterwards."""
    verdict = await grade(sandbox, program)
    assert verdict.status is status, verdict
    assert verdict.score == 0.0
    assert sandbox.clean
    assert (await grade(sandbox, HONEST)).status is Status.PASSED
    return verdict


def at_load(body: str) -> str:
    return AT_LOAD.format(body=body)


def in_call(body: str) -> str:
    return IN_CALL.format(indented="\n".join(f"    {line}" for line in body.splitlines()))


async def test_an_honest_program_passes(patient: Sandbox) -> None:
    verdict = await grade(patient, HONEST)
    assert (verdict.status, verdict.score, verdict.evidence) == (Status.PASSED, 1.0, None)


# Programs that are wrong in an ordinary way.


@each_case(
    "program",
    [
        pytest.param("", id="empty"),
        pytest.param("# nothing", id="comment"),
        pytest.param("def g(x): return x * 2", id="other name"),
        pytest.param("f = None", id="None"),
        pytest.param("f = 4", id="constant"),
        pytest.param("def f(x): return x", id="wrong"),
        pytest.param("def f(x): pass", id="stub"),
        pytest.param("def f(): return 4", id="wrong arity"),
        pytest.param("def f(x): raise ValueError(x)", id="exception"),
        pytest.param("def f(x):\nreturn", id="indentation"),
        pytest.param("def f(x:", id="syntax"),
        pytest.param("\0", id="NUL"),
        pytest.param("'\ud800'", id="surrogate"),
        pytest.param("(" * 10_000, id="nested parentheses"),
        pytest.param("x = " + "[" * 150 + "]" * 150 + "\nimport no_such_module", id="missing module"),
        pytest.param("raise SystemExit", id="ends at once"),
        pytest.param("1/0", id="division"),
        pytest.param("def f(x): return f(x)", id="endless recursion"),
        pytest.param("async def f(x): return x * 2", id="coroutine"),
        pytest.param("def f(x): yield x * 2", id="generator"),
        pytest.param("def f(x): return lambda: x * 2", id="function"),
        pytest.param("class f:\n def __init__(self, x): self.x = x * 2", id="class"),
        pytest.param("def f(x): return input()", id="waits for input"),
        pytest.param("def f(x): return {} if f else [].nothing", id="empty result"),
        pytest.param("def f(x): return float('nan')", id="not a number"),
    ],
)
async def test_a_wrong_program_has_failed(patient: Sandbox, program: str) -> None:
    await assert_status(patient, program, Status.FAILED)


async def test_a_program_of_15_megabytes_is_graded_like_any_other(patient: Sandbox) -> None:
    await assert_status(patient, "#" * (15 << 20), Status.FAILED)


async def test_a_program_too_large_for_one_request_has_failed(patient: Sandbox) -> None:
    await assert_status(patient, "#" * (20 << 20), Status.FAILED)


async def test_a_program_without_any_test_does_not_pass(patient: Sandbox) -> None:
    verdict = await grade(patient, HONEST, ProgramTests(statements=(), exports={"f": "f"}))
    assert verdict.status is Status.FAILED


async def test_the_metrics_count_what_has_passed(patient: Sandbox) -> None:
    verdict = await grade(patient, "def f(x): return [1, 1] if type(x) is list else 0")
    assert (verdict.metrics["tests"], verdict.metrics["tests_passed"]) == (3, 1)


# Programs that end early. Silence is a fail.

EARLY_ENDS = {
    "os._exit": "import os; os._exit(0)",
    "sys.exit": "import sys; sys.exit(0)",
    "exit": "exit()",
    "quit": "quit(0)",
    "SystemExit of a subclass": (
        "class Passed(SystemExit):\n    code = 0\n    def __str__(self): return 'passed'\nraise Passed(0)"
    ),
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "GeneratorExit": "raise GeneratorExit",
    "StopIteration": "raise StopIteration(4)",
    "BaseException": "raise BaseException('passed')",
    "atexit": "import atexit, os, sys; atexit.register(os._exit, 0); sys.exit(0)",
    "excepthook": "import os, sys; sys.excepthook = lambda *_: os._exit(0); raise RuntimeError",
    "another program": "import os; os.execvp('true', ['true'])",
    "another python": "import os, sys; os.execv('/usr/bin/python3', ['python3', '-c', 'print(True)'])",
    "thread": (
        "import os, threading, time\n"
        "threading.Thread(target=lambda: (time.sleep(0.02), os._exit(0))).start()\ntime.sleep(5)"
    ),
    "signal handler": (
        "import os, signal, time\n"
        "signal.signal(signal.SIGALRM, lambda *_: os._exit(0)); signal.setitimer(0, 0.02)\n"
        "while True: time.sleep(0.01)"
    ),
    "finalizer": (
        "import multiprocessing.util, os, sys\n"
        "multiprocessing.util.Finalize(None, os._exit, args=(0,), exitpriority=100)\nsys.exit(0)"
    ),
}


@each_case("end", EARLY_ENDS)
async def test_an_early_end_at_load_has_failed(patient: Sandbox, end: str) -> None:
    await assert_status(patient, at_load(EARLY_ENDS[end]), Status.FAILED)


@each_case("end", EARLY_ENDS)
async def test_an_early_end_in_a_call_has_failed(patient: Sandbox, end: str) -> None:
    await assert_status(patient, in_call(EARLY_ENDS[end]), Status.FAILED)


@each_case(
    "body",
    [
        pytest.param("import os\nif os.fork(): os._exit(0)", id="parent"),
        pytest.param(
            "import os\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)", id="grandparent"
        ),
    ],
)
async def test_a_child_that_stays_in_its_parents_place_passes_no_wrong_answer(
    patient: Sandbox, body: str
) -> None:
    program = at_load(body).replace("return x * 2", "return x * 3")
    await assert_status(patient, program, Status.FAILED)
    await assert_status(patient, in_call(body), Status.FAILED)


async def test_an_early_end_after_the_first_test_fails_the_others(patient: Sandbox) -> None:
    program = "import os\ndef f(x):\n    return 4 if x == 2 else os._exit(0)\n"
    verdict = await assert_status(patient, program, Status.FAILED)
    assert verdict.metrics["tests_passed"] == 1


@each_case("place", [at_load, in_call])
async def test_a_program_that_hangs_up_and_stays_has_failed(
    patient: Sandbox, place: Callable[[str], str]
) -> None:
    body = "import os, time; os.closerange(0, 256); time.sleep(600)"
    await assert_status(patient, place(body), Status.FAILED)


# Programs that crash.


@each_case(
    ("body", "number"),
    [
        pytest.param("import ctypes; ctypes.string_at(0)", 11, id="null pointer"),
        pytest.param("import os; os.abort()", 6, id="abort"),
        pytest.param("import os; os.kill(os.getpid(), 9)", 9, id="kill"),
        pytest.param("import os; os.kill(os.getpid(), 15)", 15, id="terminate"),
        pytest.param("import os; os.kill(0, 9)", 9, id="kill of its group"),
        pytest.param("import faulthandler; faulthandler._sigsegv()", 11, id="segmentation fault"),
    ],
)
@each_case("place", [at_load, in_call])
async def test_a_program_killed_by_a_signal_has_crashed(
    patient: Sandbox, place: Callable[[str], str], body: str, number: int
) -> None:
    verdict = await assert_status(patient, place(body), Status.CRASHED)
    assert f"signal {number}" in str(verdict.evidence)


# Answers without bound.


async def test_an_answer_that_never_ends_has_timed_out(impatient: Sandbox) -> None:
    tests = ProgramTests(statements=("assert sum(f(1)) == 0",), exports={"f": "f"})
    endless = "import itertools\ndef f(x): return itertools.repeat(0)\n"
    assert (await grade(impatient, endless, tests)).status is Status.TIMEOUT


async def test_an_answer_larger_than_any_message_has_failed(patient: Sandbox) -> None:
    await assert_status(patient, "def f(x): return 'x' * (40 << 20)", Status.FAILED)


# Objects that lie.

LIAR = """
class Liar{base}:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __bool__(self): return True
    def __hash__(self): return 0
    def __len__(self): return 1
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __contains__ = __lt__
    def __iter__(self): return iter((1, 1))
    def __getitem__(self, key): return 1
    def __getattr__(self, name): return self
    def __call__(self, *args, **kwargs): return self
    def __add__(self, other): return self
    __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __add__
    def __str__(self): return "4"
    __repr__ = __str__
    def __int__(self): return 4
    __index__ = __int__
    def __float__(self): return 4.0
    def __instancecheck__(self, other): return True
    @property
    def __class__(self): return int
    def __reduce__(self): return (int, (4,))
def f(x): return Liar({value})
"""


@each_case(
    ("base", "value"),
    [
        ("", ""),
        ("(int)", "5"),
        ("(str)", "'no'"),
        ("(list)", "[0]"),
        ("(tuple)", "(0,)"),
        ("(dict)", "{0: 0}"),
        ("(set)", "{0}"),
        ("(float)", "5.0"),
        ("(bytes)", "b'no'"),
        ("(Exception)", ""),
        ("(type)", "'Liar', (), {}"),
    ],
)
async def test_an_object_that_is_equal_to_everything_is_equal_to_nothing(
    patient: Sandbox, base: str, value: str
) -> None:
    await assert_status(patient, LIAR.format(base=base, value=value), Status.FAILED)


@each_case(
    "body",
    [
        pytest.param("raise AssertionError", id="in place of an answer"),
        pytest.param("class Passed(AssertionError): pass\nraise Passed('passed')", id="of its own"),
        pytest.param(
            "class CandidateLost(BaseException): pass\nraise CandidateLost('passed')",
            id="by the name of ours",
        ),
        pytest.param("raise type('passed', (ExceptionGroup,), {})('passed', [ValueError()])", id="group"),
        pytest.param(
            "class E(Exception):\n    args = property(lambda self: 1 / 0)\n"
            "    def __str__(self): return 1 / 0\nraise E",
            id="that cannot be shown",
        ),
        pytest.param(
            "class E(Exception):\n    def __str__(self): os._exit(0)\nraise E",
            id="that ends when it is shown",
        ),
    ],
)
async def test_an_exception_does_not_pass(patient: Sandbox, body: str) -> None:
    await assert_status(patient, in_call(body), Status.FAILED)


# Programs that change their surroundings.


@each_case(
    "body",
    [
        pytest.param(
            "import builtins\n"
            "for name in ('len', 'sum', 'isinstance', 'abs', 'all', 'any', 'sorted', 'type'):\n"
            "    setattr(builtins, name, lambda *_: True)\n"
            "builtins.AssertionError = type('A', (), {})",
            id="builtins",
        ),
        pytest.param("import builtins; builtins.__import__ = lambda *_: None", id="import"),
        pytest.param(
            "import sys; sys.settrace(lambda *_: None); sys.setprofile(lambda *_: None)", id="tracing"
        ),
        pytest.param("__name__ = 'tests'; __builtins__ = {}; del f", id="its own namespace"),
        pytest.param(
            "import math, re, unittest, unittest.mock\n"
            "math.isclose = lambda *_, **__: True\n"
            "unittest.TestCase.assertEqual = lambda *_: None",
            id="modules",
        ),
        pytest.param("import sys; sys.modules.clear()", id="no modules"),
        pytest.param(
            "import gc\n"
            "for thing in gc.get_objects():\n"
            "    if type(thing) is list: thing[:] = ['passed'] * len(thing)",
            id="every list there is",
        ),
        pytest.param(
            "import ctypes, gc\nctypes.memmove(id(0) + 24, ctypes.addressof(ctypes.c_uint32(4)), 4)",
            id="the number zero",
        ),
        pytest.param(
            "import sys\n"
            "frame = sys._getframe()\n"
            "while frame:\n"
            "    for name, value in list(frame.f_locals.items()):\n"
            "        if isinstance(value, list): value[:] = ['passed'] * 3\n"
            "    frame = frame.f_back",
            id="frames",
        ),
        pytest.param("print('passed'); print('{\"results\": [\"passed\"]}')", id="stdout"),
    ],
)
@each_case("place", [at_load, in_call])
async def test_changed_surroundings_make_no_wrong_answer_right(
    impatient: Sandbox, place: Callable[[str], str], body: str
) -> None:
    program = place(body).replace("return x * 2", "return x * 3")
    verdict = await grade(impatient, program)
    assert verdict.status is not Status.PASSED, verdict
    assert (await grade(impatient, HONEST)).status is Status.PASSED


async def test_a_replaced_builtin_does_not_reach_the_tests(patient: Sandbox) -> None:
    tests = ProgramTests(statements=("assert sum(f([1, 2])) == 3 and len(f([])) == 0",), exports={"f": "f"})
    program = "def sum(x): return 7\ndef len(x): return 7\ndef f(x): return x\n"
    assert (await grade(patient, program, tests)).status is Status.PASSED


async def test_a_helper_of_the_set_up_belongs_to_the_tests(patient: Sandbox) -> None:
    helper = "def helper(x):\n    return x + 1\n"
    tests = ProgramTests(
        statements=("assert helper(1) == 2 and f(1) == 2",), exports={"f": "f"}, setup=helper, preamble=helper
    )
    program = "def helper(x):\n    return 2\ndef f(x):\n    return helper(x)\n"
    assert (await grade(patient, program, tests)).status is Status.PASSED
    program = "def helper(x):\n    return True\ndef f(x):\n    return 3\n"
    assert (await grade(patient, program, tests)).status is Status.FAILED
