"""Tests that import packages, and tests that fail by themselves, in a real sandbox."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from effort import one_in_two

from harness import Sandbox, build_call_tests, build_stdin_tests
from harness.core.types import ProgramTests, Status, Submission, Verdict
from harness.environments.python.call_programs import grade_calls
from harness.environments.python.programs import grade_program
from harness.environments.python.stdin_programs import grade_stdin
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.limits import Limits

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

ADD = "def add(a, b):\n    return a + b\n"
# Each is right for `ADD` and uses a package of the image.
IMPORTS = {
    "numpy": "import numpy as np\nassert np.allclose(add(0.1, 0.2), 0.3)",
    "numpy.testing": "import numpy as np\nnp.testing.assert_allclose(add([0.1], [0.2]), [0.1, 0.2])",
    "numpy in a function": "def check(f):\n    import numpy\n    assert numpy.all(f(1, 2) == 3)\ncheck(add)",
    "sympy": "import sympy\nassert sympy.Integer(add(1, 2)) == 3",
    "networkx": "import networkx as nx\nassert list(nx.path_graph(add(1, 2))) == [0, 1, 2]",
    "sortedcontainers": "import sortedcontainers as s\nassert list(s.SortedList(add([2], [1]))) == [1, 2]",
    "more_itertools": "import more_itertools\nassert more_itertools.first(add([2], [1])) == 2",
    "a generator without a seed": (
        "import random\nrng = random.Random()\nx = rng.random()\nassert add(x, 1) == x + 1\n"
        "random.seed()\ny = random.random()\nassert add(y, 1) == y + 1"
    ),
    "generators of numpy without a seed": (
        "import numpy as np\nx = float(np.random.default_rng().random())\nassert add(x, 1) == x + 1\n"
        "y = float(np.random.RandomState().rand())\nassert add(y, 1) == y + 1"
    ),
    "other random numbers": (
        "import os, random, secrets, uuid\n"
        "for x in (secrets.token_hex(), str(uuid.uuid4()), random.SystemRandom().random(),\n"
        "          int.from_bytes(os.urandom(70), 'big'), secrets.choice(range(10**9))):\n"
        "    assert add(x, x) == x + x"
    ),
    "an integer of many digits": "assert str(add(10 ** 5000, 1)) == '1' + '0' * 4999 + '1'",
}
# Each has the set-up and the test.
BROKEN = {
    "a package that the image lacks": ("", "import scipy\nassert add(1, 2) == 3"),
    "a set-up that ends its process": ("import os; os._exit(0)", "assert add(1, 2) == 3"),
    "a set-up that kills its process": ("import os; os.kill(os.getpid(), 9)", "assert add(1, 2) == 3"),
    "a set-up that waits": ("import time; time.sleep(60)", "assert add(1, 2) == 3"),
    "a set-up that uses up the memory": ("x = bytearray(1 << 32)", "assert add(1, 2) == 3"),
    "data that the machine lacks": ("open('/nowhere/data.json')", "assert add(1, 2) == 3"),
}
# No program gets a `grader_error` for these.
HOSTILE = {
    "raises ImportError": "def add(a, b):\n    raise ImportError('numpy')",
    "raises ModuleNotFoundError while it loads": "raise ModuleNotFoundError(name='numpy')",
    "shadows a package": (
        "import os\nfor folder in ('.', '/tmp', '/dev/shm'):\n"
        "    try: open(folder + '/numpy.py', 'w').write('raise SystemExit')\n    except OSError: pass\n"
        "def add(a, b): return 0"
    ),
    "uses up the memory": "x = bytearray(1 << 32)",
    "kills whatever it may": "import os\nos.kill(-1, 9)",
    "returns what breaks the tests": "def add(a, b):\n    return None",
    "ends": "import os\nos._exit(0)",
    "is not Python": "def",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    limits = Limits(memory_mb=256, cpu_seconds=2, wall_seconds=3)
    async with Sandbox.open("python", backend=backend, limits=limits, seccomp="strict") as sandbox:
        yield sandbox


async def grade(sandbox: Sandbox, program: str, test: str, setup: str = "") -> Verdict:
    tests = ProgramTests((test,), {"add": "add"}, setup=setup)
    return await grade_program(sandbox, tests, Submission(program, ""))


async def test_tests_import_what_the_image_offers_and_judge_by_it(sandbox: Sandbox) -> None:
    wrong = {}
    for what in one_in_two([*IMPORTS], 0):
        test = IMPORTS[what]
        right = await grade(sandbox, ADD, test)
        other = await grade(sandbox, "def add(a, b):\n    return [7]\n", test)
        if (right.status, other.status) != (Status.PASSED, Status.FAILED):
            wrong[what] = right, other
    assert not wrong


async def test_broken_tests_give_no_verdict_on_any_program(sandbox: Sandbox) -> None:
    wrong = {}
    for what, (setup, test) in BROKEN.items():
        for program in one_in_two((ADD, HOSTILE["kills whatever it may"]), [*BROKEN].index(what)):
            verdict = await grade(sandbox, program, test, setup)
            if (verdict.status, verdict.score) != (Status.GRADER_ERROR, None) or not verdict.evidence:
                wrong[what] = verdict
    assert not wrong
    assert sandbox.clean


async def test_a_broken_preamble_gives_no_verdict_on_any_program(sandbox: Sandbox) -> None:
    wrong = {}
    for preamble, status in (
        ("import nowhere", "grader_error"),
        ("1 / 0", "grader_error"),
        ("raise SystemExit(3)", "grader_error"),
        ("import math", "failed"),
        ("", "failed"),
    ):
        calls = build_call_tests("add", [([1, 2], 3)], preamble=preamble)
        stdin = build_stdin_tests([("1 2", "3")], preamble=preamble)
        for program in ("raise ImportError('nowhere')", "def add(a, b): return 4\nprint(4)"):
            verdicts = (
                await grade_calls(sandbox, calls, Submission(program, "")),
                await grade_stdin(sandbox, stdin, Submission(program, "")),
            )
            if [verdict.status.value for verdict in verdicts] != [status] * 2:
                wrong[preamble, program] = verdicts
    assert not wrong


async def test_no_program_can_break_the_tests(sandbox: Sandbox) -> None:
    verdicts = {
        what: await grade(sandbox, program, IMPORTS["numpy"], "import numpy")
        for what, program in HOSTILE.items()
    }
    scores = {what: verdict.score for what, verdict in verdicts.items()}
    assert scores == dict.fromkeys(HOSTILE, 0.0), verdicts
    assert (await grade(sandbox, ADD, IMPORTS["numpy"])).status is Status.PASSED
