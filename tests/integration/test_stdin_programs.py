"""Programs that read stdin in a real sandbox run as Python runs a file, once for each input."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from case_checks import each_case

from harness import Sandbox
from harness.benchmarks.livecodebench.generation import PREAMBLE
from harness.core.types import Status, Submission, Verdict
from harness.environments.python.client import InputRun, run_on_inputs
from harness.environments.python.stdin_programs import Compatibility, StdinTest, StdinTests, grade_stdin
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.limits import Limits

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

TEXT = b"3 4\nfive six\n"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    limits = Limits(memory_mb=256, cpu_seconds=1, wall_seconds=10, output_mb=4)
    async with Sandbox.open("python", backend=backend, limits=limits, seccomp="strict") as sandbox:
        yield sandbox


async def run(sandbox: Sandbox, program: str, *inputs: bytes) -> list[InputRun]:
    given = inputs or (TEXT,)
    return await run_on_inputs(
        sandbox,
        program=program.encode(),
        inputs=given,
        stdout_bytes=1 << 20,
        preamble=PREAMBLE.encode(),
    )


async def says(sandbox: Sandbox, program: str) -> str:
    (run_on_text,) = await run(sandbox, program)
    assert run_on_text.succeeded, run_on_text
    return run_on_text.stdout.data.decode()


async def grade(
    sandbox: Sandbox,
    program: str,
    *tests: tuple[str, str],
    shown: int = 1,
    strict_compat: Compatibility = Compatibility.OFF,
) -> Verdict:
    written = tuple(StdinTest(*test) for test in tests)
    target = StdinTests(written, shown, PREAMBLE, strict_compat=strict_compat)
    return await grade_stdin(sandbox, target, Submission(program, ""))


ECHO = TEXT.decode()
SEMANTICS = {
    "input": ("print(input()); print(input())", ECHO),
    "end of input": ("input(); input()\ntry: input()\nexcept EOFError: print('end')", "end\n"),
    "lines of stdin": ("for line in sys.stdin: print(line, end='')", ECHO),
    "stdin read twice": ("print(len(sys.stdin.read()), len(sys.stdin.read()))", "13 0\n"),
    "a line and the rest": ("sys.stdin.readline(); print(sys.stdin.read(), end='')", "five six\n"),
    "the bytes of stdin": ("print(sys.stdin.buffer.readlines()[1])", "b'five six\\n'\n"),
    "descriptor 0 by open": ("print(open(0).read(), end='')", ECHO),
    "descriptor 0 by os": ("import os; print(os.read(0, os.fstat(0).st_size).decode(), end='')", ECHO),
    "/dev/stdin": ("print(open('/dev/stdin').read(), end='')", ECHO),
    "a main guard": ("if __name__ == '__main__': print('main')", "main\n"),
    "a main function with globals": ("def main():\n global n\n n = 3\nmain()\nprint(n)", "3\n"),
    "a thread that nobody joins": (
        "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.05), print('late'))).start()",
        "late\n",
    ),
    "an exit handler": ("import atexit; atexit.register(print, 'bye')", "bye\n"),
    "a file that nobody closes": ("open(1, 'w').write('kept')", "kept"),
    "a stdout of its own": ("import io; sys.stdout = io.StringIO(); print('lost')", ""),
    "an exit": ("print('done'); sys.exit()", "done\n"),
    "exit of site": ("print('done'); exit(0)", "done\n"),
    "an error caught": ("try: 1 / 0\nexcept ZeroDivisionError: print('caught')", "caught\n"),
    "deep recursion": ("def f(n): return n and f(n - 1) + 1\nprint(f(20000))", "20000\n"),
    "many digits": ("print(len(str(10 ** 20000)))", "20001\n"),
    "a future import": ("from __future__ import annotations\ndef f(x: Nothing): pass\nprint('ok')", "ok\n"),
    "a dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass A:\n x: int\nprint(A(1))",
        "A(x=1)\n",
    ),
    "star imports": ("print(gcd(4, 6), deque([1]), pow(2, 3, 5))", "2 deque([1]) 3\n"),
    "a child process": ("import os\nif os.fork() == 0: print('child'); sys.exit()\nos.wait()", "child\n"),
    "numpy": ("import numpy as np; print(np.arange(3).sum())", "3\n"),
    "bytes that are not text": ("sys.stdout.buffer.write(bytes([255]))\nprint(flush=True)", None),
    "a folder to write to": ("open('a', 'w').write('b'); print(open('a').read())", "b\n"),
    "random numbers anew": ("print(len({random.random() for _ in range(9)}))", "9\n"),
}


@each_case("what", SEMANTICS)
async def test_a_program_runs_as_it_would_in_a_file(sandbox: Sandbox, what: str) -> None:
    program, expected = SEMANTICS[what]
    if expected is None:
        (run_on_text,) = await run(sandbox, program)
        assert run_on_text.stdout.data == b"\xff\n"
    else:
        assert await says(sandbox, program) == expected


@each_case(
    ("program", "code"),
    [
        ("1 / 0", 1),
        ("sys.exit(7)", 7),
        ("sys.exit('no')", 1),
        ("def f(", 1),
        ("os = 1; raise KeyboardInterrupt", 130),
    ],
)
async def test_the_exit_code_is_that_of_python(sandbox: Sandbox, program: str, code: int) -> None:
    (run_on_text,) = await run(sandbox, program)
    assert (run_on_text.ended, run_on_text.exit_code) == ("exited", code)


async def test_each_run_has_its_own_input_and_starts_anew(sandbox: Sandbox) -> None:
    program = (
        "import os\nprint(input(), os.path.exists('x'), globals().get('seen'))\nseen = 1\nopen('x', 'w')"
    )
    runs = await run(sandbox, program, b"a", b"b", b"")
    assert [each.stdout.data for each in runs[:2]] == [b"a False None\n", b"b False None\n"]
    assert runs[2].exit_code == 1


async def test_random_numbers_differ_from_run_to_run(sandbox: Sandbox) -> None:
    runs = await run(sandbox, "print(random.random())", b"", b"")
    assert runs[0].stdout.data != runs[1].stdout.data


async def test_a_run_that_fails_is_the_last(sandbox: Sandbox) -> None:
    runs = await run(sandbox, "print(1 // int(input()))", b"1", b"0", b"1")
    assert [each.succeeded for each in runs] == [True, False]


async def test_more_inputs_than_fit_into_one_request_are_graded(sandbox: Sandbox) -> None:
    long = "1 " * 3_000_000
    verdict = await grade(sandbox, "print(len(input().split()))", *[(long, "3000000")] * 3)
    assert (verdict.status, verdict.metrics["tests_passed"]) == (Status.PASSED, 3), verdict


# Verdicts.


async def test_right_output_passes_by_the_rules_for_lines(sandbox: Sandbox) -> None:
    verdict = await grade(sandbox, "print(f'{float(input()):.3f}  ')", ("1", "1"), ("2.5", "2.50"))
    assert (verdict.status, verdict.score) == (Status.PASSED, 1.0), verdict


async def test_the_evidence_shows_the_difference(sandbox: Sandbox) -> None:
    verdict = await grade(sandbox, "print(4)", ("", "4"), ("", "5"))
    assert (verdict.status, verdict.evidence) == (Status.FAILED, "test 2: line 1: '4' printed, '5' expected")
    assert verdict.metrics["per_test"] == ["passed", "failed"]


async def test_a_program_without_tests_does_not_pass(sandbox: Sandbox) -> None:
    assert (await grade(sandbox, "print(4)")).status is Status.FAILED


async def test_a_wrong_answer_to_a_shown_test_ends_the_tests(sandbox: Sandbox) -> None:
    verdict = await grade(sandbox, "print(4)", ("", "5"), ("", "4"), shown=1)
    assert verdict.metrics["tests_run"] == 1


async def test_a_wrong_answer_to_a_hidden_test_does_not_end_the_tests(
    sandbox: Sandbox,
) -> None:
    verdict = await grade(sandbox, "print(4)", ("", "4"), ("", "5"), ("", "4"), shown=1)
    assert verdict.status is Status.FAILED
    assert verdict.metrics["per_test"] == ["passed", "failed", "passed"]


STATUSES = {
    "an error": ("1 / 0", Status.FAILED),
    "an exit code": ("print(4); sys.exit(1)", Status.FAILED),
    "no output": ("", Status.FAILED),
    "a syntax error": ("print(4", Status.FAILED),
    "a NUL": ("print(4)\0", Status.FAILED),
    "a surrogate": ("print('\ud800')", Status.FAILED),
    "no end": ("while True: pass", Status.TIMEOUT),
    "a crash": ("import os; os.kill(os.getpid(), 11)", Status.CRASHED),
    "a flood": ("while True: print('x' * 1000)", Status.OUTPUT_LIMIT),
    "a flood of errors": ("while True: print('x' * 1000, file=sys.stderr)", Status.OUTPUT_LIMIT),
    "much memory": ("x = bytearray(1 << 30)\nx[::4096] = b'1' * len(x[::4096])", Status.MEMORY_LIMIT),
}


@each_case("what", STATUSES)
async def test_a_wrong_program_has_the_right_status(sandbox: Sandbox, what: str) -> None:
    program, status = STATUSES[what]
    verdict = await grade(sandbox, program, ("", "4"))
    assert (verdict.status, verdict.score) == (status, 0.0), verdict
    assert sandbox.clean
    assert (await grade(sandbox, "print(4)", ("", "4"))).status is Status.PASSED


async def test_much_on_stderr_is_no_fault(sandbox: Sandbox) -> None:
    verdict = await grade(sandbox, "print('x' * 500_000, file=sys.stderr); print(4)", ("", "4"))
    assert verdict.status is Status.PASSED


async def test_a_program_too_large_to_be_sent_has_failed(sandbox: Sandbox) -> None:
    assert (await grade(sandbox, "#" * (17 << 20), ("", "4"))).status is Status.FAILED


# The rule of the official runner.

QUIRKS = {
    "open(0)": "print(sum(map(int, open(0).read().split())))",
    "a thread that nobody joins": (
        "import threading, time\n"
        "late = lambda: (time.sleep(0.1), print(sum(map(int, input().split()))))\n"
        "threading.Thread(target=late).start()"
    ),
    "stdin read twice": "a = sys.stdin.readline(); print(sum(map(int, (a + sys.stdin.read()).split())))",
}


@each_case("quirk", QUIRKS)
async def test_programs_that_the_official_runner_fails_pass_with_a_mark(sandbox: Sandbox, quirk: str) -> None:
    verdict = await grade(sandbox, QUIRKS[quirk], ("3 4\n", "7\n"), strict_compat=Compatibility.REPORT)
    assert (verdict.status, verdict.metrics["strict_compat"]) == (Status.PASSED, "failed"), verdict


@each_case("quirk", QUIRKS)
async def test_strict_compatibility_can_decide_the_verdict(sandbox: Sandbox, quirk: str) -> None:
    verdict = await grade(sandbox, QUIRKS[quirk], ("3 4\n", "7\n"), strict_compat=Compatibility.VERDICT)
    assert verdict.status is Status.FAILED


@each_case(
    "program",
    [
        "print(sum(map(int, input().split())))",
        "def main(): print(sum(map(int, sys.stdin.read().split())))\nif __name__ == '__main__':\n    main()",
        "import sys\nprint(sum(map(int, sys.stdin.buffer.read().split()))); sys.exit(1)",
    ],
)
async def test_the_official_rule_passes_right_programs(sandbox: Sandbox, program: str) -> None:
    verdict = await grade(sandbox, program, ("3 4\n", "7\n"), strict_compat=Compatibility.VERDICT)
    assert verdict.status is Status.PASSED, verdict
