"""Unusual but right programs that read stdin print the outputs of the table, and the grader passes them.

They are written as for contests: templates for fast input and output, readers that are generators, output
that is written at exit, deep recursion, processes and threads, and programs that inspect themselves.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest
import pytest_asyncio
from effort import one_in_four, one_in_two
from program_collections import cases

from harness import Sandbox
from harness.benchmarks.livecodebench.generation import PREAMBLE
from harness.core.types import Status, Submission
from harness.environments.python.client import run_on_inputs
from harness.environments.python.stdin_programs import StdinTest, StdinTests, grade_stdin
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.limits import Limits

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]


class Program(NamedTuple):
    """A program, its input and its output."""

    source: str
    input: str
    output: str


def read_program(source: str, test: str) -> Program:
    given, wanted = (json.loads(part) for part in test.split(" -> "))
    return Program(source, given, wanted)


PROGRAMS = {title: read_program(*case) for title, case in cases("unusual_stdin.txt").items()}
PROGRAMS["a program with carriage returns in its source"] = Program(
    "print(1)\r\nprint(input())\r\n", "x\n", "1\nx\n"
)
# Save the program as a file in a new folder, and execute Python with that file.
START = 'mkdir "$1" && cd "$1" && printf %s "$2" > program.py && exec python3 program.py'


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    limits = Limits(wall_seconds=60, cpu_seconds=30)
    opened = Sandbox.open("python", backend=backend, limits=limits, seccomp="strict", deadline_seconds=1200)
    async with opened as sandbox:
        yield sandbox


async def test_plain_python_prints_the_outputs_of_the_table(sandbox: Sandbox) -> None:
    different = {}
    # The outputs change only with the table or with Python.
    for number, (name, program) in enumerate(one_in_four([*PROGRAMS.items()], 0)):
        argv = ["sh", "-c", START, "sh", str(number), program.source]
        result = await sandbox.exec(argv, stdin=program.input.encode())
        if (result.exit_code, result.stdout.data) != (0, program.output.encode()):
            different[name] = (result.exit_code, str(result.stdout), str(result.stderr))
    assert different == {}


async def test_unusual_programs_pass(sandbox: Sandbox) -> None:
    failed = {}
    for name, program in one_in_two([*PROGRAMS.items()], 1):
        test = StdinTest(program.input, program.output)
        target = StdinTests((test,), 1, PREAMBLE)
        verdict = await grade_stdin(sandbox, target, Submission(program.source, ""))
        if verdict.status is not Status.PASSED:
            failed[name] = (verdict.status, verdict.evidence)
    assert failed == {}
    assert sandbox.clean


# Ends of programs that fail, and of some that only seem to fail.
ENDS = {
    "an error": "print(1)\n1 / 0",
    "exit with a number": "import sys; sys.exit(7)",
    "exit with a negative number": "import sys; sys.exit(-1)",
    "exit with a text": "import sys; print(1); sys.exit('text')",
    "exit with an object that has no text": (
        "class Bad:\n    def __str__(self): raise ValueError\nraise SystemExit(Bad())"
    ),
    "exit with None in an exit handler": "import atexit, sys\natexit.register(sys.exit, 3)\nprint(1)",
    "an error in a thread": "import threading\nthreading.Thread(target=lambda: 1 / 0).start()",
    "exit in a thread": "import sys, threading\nthreading.Thread(target=sys.exit, args=(3,)).start()",
    "an early end": "import os\nprint('lost')\nos._exit(3)",
    "stdout that cannot be flushed": "import sys\nclass W:\n    write = print\nsys.stdout = W()",
    "stdout closed": "import sys\nprint(1)\nsys.stdout.close()",
    "stdout without its descriptor": "import os\nprint(1)\nos.close(1)",
    "no stdout": "import sys\nprint(1)\nsys.stdout.flush()\ndel sys.stdout",
    "a full disk": "import sys\nsys.stdout = open('/dev/full', 'w')\nprint(1)",
    "an excepthook that fails": (
        "import sys\ndef hook(*error): raise ValueError\nsys.excepthook = hook\nprint(1)\n1 / 0"
    ),
    "an excepthook that exits": "import sys\nsys.excepthook = lambda *error: sys.exit(5)\n1 / 0",
    "no excepthook": "import sys\ndel sys.excepthook\n1 / 0",
    "the last error": (
        "import atexit, sys\natexit.register(lambda: print(sys.last_type, sys.last_value))\nint('x')"
    ),
    "an error in a finalizer": "class A:\n    def __del__(self): 1 / 0\na = A()\nprint(1)",
    "a finalizer that exits": "import sys\nclass A:\n    def __del__(self): sys.exit(3)\na = A()\nprint(1)",
    "builtins replaced": (
        "import builtins as b\nprint(1)\nb.list = b.setattr = b.reversed = b.isinstance = None"
    ),
    "modules forgotten": "import sys\nprint(1)\nsys.modules.clear()",
    "a finalizer that forgets modules": (
        "import sys, json.tool\nclass A:\n    def __del__(self, modules=sys.modules): modules.clear()\n"
        "a = A()\nprint(1)"
    ),
    "too deep a recursion": "def f(): return f()\nprint(1)\nf()",
    "a syntax error": "print(1)\ndef f(:",
    "an assertion": "assert False, 'no'",
    "a generator that is closed": "def g():\n    yield\n    print(1)\ng().close()\nraise GeneratorExit",
    "killed by itself": "import os, signal\nprint(1, flush=True)\nos.kill(os.getpid(), signal.SIGTERM)",
    "aborted": "import os\nprint(1, flush=True)\nos.abort()",
    "an alarm": (
        "import signal\nprint(1, flush=True)\nsignal.setitimer(signal.ITIMER_REAL, 0.01)\nsignal.pause()"
    ),
}


async def test_programs_end_as_under_plain_python(sandbox: Sandbox) -> None:
    different = {}
    for name, source in ENDS.items():
        plain = await sandbox.exec(["python3", "-c", source])
        (run,) = await run_on_inputs(
            sandbox, program=source.encode(), inputs=[b""], stdout_bytes=1 << 16, preamble=b""
        )
        ends = (plain.exit_code, plain.stdout.data), (run.exit_code, run.stdout.data)
        if ends[0] != ends[1]:
            different[name] = ends
    assert different == {}


async def test_a_program_that_is_interrupted_exits_as_a_shell_reports_it(sandbox: Sandbox) -> None:
    # Python sends itself SIGINT once it has cleaned up.
    (run,) = await run_on_inputs(
        sandbox,
        program=b"print(1)\nraise KeyboardInterrupt",
        inputs=[b""],
        stdout_bytes=1 << 16,
        preamble=b"",
    )
    assert (run.ended, run.exit_code, run.stdout.data) == ("exited", 130, b"1\n")


@pytest.mark.parametrize("name", ["input and print", "stdin read after input", "an empty input"])
async def test_another_output_is_no_pass(sandbox: Sandbox, name: str) -> None:
    program = PROGRAMS[name]
    target = StdinTests((StdinTest(program.input, program.output + "more"),), 1)
    verdict = await grade_stdin(sandbox, target, Submission(program.source, ""))
    assert verdict.status is Status.FAILED
