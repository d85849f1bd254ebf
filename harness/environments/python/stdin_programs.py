"""Grade programs that read stdin and print: turn their outputs into a verdict.

The expected outputs never enter the sandbox.
"""

from __future__ import annotations

import asyncio
import functools
import math
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any, Literal

from harness.core.scoring.answers import MAX_NUMBER_CHARACTERS
from harness.core.types import Phase, Status, Submission, Verdict
from harness.environments.python.checkers import ask_checker
from harness.environments.python.client import InputRun, StoredTests, batches, run_on_inputs
from harness.environments.python.languages import LANGUAGES, PYTHON, compile_program
from harness.environments.python.needed_sockets import may_need_sockets
from harness.environments.python.verdicts import (
    LEAST_STDOUT_BYTES,
    MAX_PROGRAM_BYTES,
    MOST_STDOUT_BYTES,
    PATIENCE,
    WALL_SHARE,
    Outcome,
    add_runs,
    find_broken_preamble,
    make_memory_verdict,
    make_verdict,
)
from harness.environments.spec import SandboxGrader, Unjudged
from harness.sandbox.failures import SandboxOutOfMemory
from harness.sandbox.sandbox import Sandbox

# A request holds at most this many bytes of inputs, unless a single input is larger.
BATCH_BYTES = 8 << 20
# All outputs of hidden tests are compared after the last run. The host holds them in memory until then.
MAX_OUTPUT_BYTES = 256 << 20
# A thread for outputs of this size would take longer to start than their comparison.
_SMALL_BYTES = 4096
_SHOWN = 60
CHECKER_IMAGE = "python"


def stdout_difference(printed: bytes | str, expected: str, tolerance: float = 0.0) -> str | None:
    """Return how the output differs from the expected one, in one short line, or None if it does not.

    Both are stripped and split into lines, and the lines are stripped too. The numbers of lines must be
    equal. Two lines agree if they are equal, or if both consist of the same number of numbers with equal
    values. With a tolerance, numbers within it are equal, and words may be among them. NaN and bytes that are
    not UTF-8 equal nothing. The function takes time and memory in proportion to the output.
    Source: `testing_util.py` of LiveCodeBench (Jain et al. 2024, arXiv 2403.07974).
    """
    text = printed.decode("utf-8", "surrogateescape") if isinstance(printed, bytes) else printed
    text, wanted_text = text.strip(), expected.strip()
    if text == wanted_text:
        return None
    lines, wanted_lines = text.count("\n") + 1, wanted_text.count("\n") + 1
    if lines != wanted_lines:
        return f"printed {lines} lines, expected {wanted_lines}"
    pairs = zip(text.split("\n"), wanted_text.split("\n"), strict=True)
    for number, (line, wanted) in enumerate(pairs, start=1):
        line, wanted = line.strip(), wanted.strip()
        if line != wanted and not _same_numbers(line, wanted, tolerance):
            return f"line {number}: {_short(line)} printed, {_short(wanted)} expected"
    return None


def _same_numbers(line: str, wanted: str, tolerance: float) -> bool:
    wanted_words = wanted.split()
    # Only as many words as can matter, because all words of a line of many megabytes would need gigabytes.
    words = line.split(maxsplit=len(wanted_words))
    if len(words) != len(wanted_words):
        return False
    pairs = zip(words, wanted_words, strict=True)
    if not tolerance:
        return all(_same_number(word, other) for word, other in pairs)
    # Words stay words beside numbers, as in `Case 1: 0.5`.
    return all(word == other or _is_near(word, other, tolerance) for word, other in pairs)


def _same_number(word: str, wanted: str) -> bool:
    try:
        # A comparison with a signalling NaN raises.
        return Decimal(word) == Decimal(wanted)
    except InvalidOperation:
        return False


def _is_near(word: str, wanted: str, tolerance: float) -> bool:
    """Return whether two numbers are equal within an absolute or relative tolerance, as testlib compares."""
    if len(word) > MAX_NUMBER_CHARACTERS or len(wanted) > MAX_NUMBER_CHARACTERS:
        return False
    try:
        found, right = float(word), float(wanted)
    except ValueError:
        return False
    return math.isfinite(found) and abs(found - right) <= tolerance * max(1.0, abs(right))


def _short(line: str) -> str:
    return repr(line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…")


class Compatibility(StrEnum):
    """Whether programs also run in the way of LiveCodeBench's own runner, with a mocked stdin.

    `report` adds the status of these runs as `metrics["strict_compat"]`. With `verdict`, they decide.
    """

    OFF = "off"
    REPORT = "report"
    VERDICT = "verdict"


@dataclass(frozen=True, slots=True)
class StdinTest:
    """The input of a program and its expected output."""

    input: str
    output: str


@dataclass(frozen=True, slots=True)
class StdinTests:
    """Tests of a program that reads stdin. Each test runs in its own process."""

    tests: tuple[StdinTest, ...] | StoredTests[StdinTest]
    # The number of tests, from the first on, that the task's prompt contains.
    shown: int
    # Source that runs before the program.
    preamble: str = ""
    # The CPU time of one test, in seconds. All tests together may take one second more for each test, plus
    # five seconds. Their wall time may be a few times that, because the machine may be busy.
    seconds: float = 6.0
    strict_compat: Compatibility = Compatibility.OFF
    # Source of the author's checker, which judges each output instead of its comparison. "" for none.
    checker: str = ""
    # Numbers that differ by at most this, or by this share of the expected one, are equal.
    tolerance: float = 0.0
    # A name of `languages.LANGUAGES`.
    language: str = PYTHON

    def load(self) -> Sequence[StdinTest]:
        """Return the tests. Raises DataError if stored tests cannot be read."""
        return self.tests if isinstance(self.tests, tuple) else self.tests.load()


async def run_or_grade(sandbox: Sandbox, target: StdinTests, submission: Submission) -> Verdict | Unjudged:
    """Return the verdict of `grade_stdin`, or the outputs that the checker of the tests judges."""
    if not target.checker:
        return await grade_stdin(sandbox, target, submission)
    program = await _prepare(sandbox, target, submission)
    if isinstance(program, Verdict):
        return program
    tests = target.tests if isinstance(target.tests, tuple) else await asyncio.to_thread(target.load)
    return await _leave_to_checker(sandbox, target, program, tests)


async def _prepare(sandbox: Sandbox, target: StdinTests, submission: Submission) -> bytes | Verdict:
    """Return the Python that runs on each input, or the verdict on a program that cannot run."""
    program = submission.text.encode("utf-8", "surrogatepass")
    if len(program) > MAX_PROGRAM_BYTES:
        evidence = f"the program has {len(program):,} bytes; the limit is {MAX_PROGRAM_BYTES:,}"
        return Verdict(Status.FAILED, 0.0, evidence=evidence, phase=Phase.EVALUATOR)
    if target.language == PYTHON:
        return program
    return await compile_program(sandbox, LANGUAGES[target.language], submission.text)


async def grade_stdin(sandbox: Sandbox, target: StdinTests, submission: Submission) -> Verdict:
    """Return the verdict on the program's outputs, from a sandbox that no agent has touched.

    The host compares them. The program passes, with a score of 1, only if every output is the expected one.
    Raises SandboxError if the sandbox failed through no fault of the program, and DataError if the tests
    cannot be read. Source: LiveCodeBench, whose rules decide which outputs are equal.
    """
    program = await _prepare(sandbox, target, submission)
    if isinstance(program, Verdict):
        return program
    tests = target.tests if isinstance(target.tests, tuple) else await asyncio.to_thread(target.load)
    by_verdict = target.strict_compat is Compatibility.VERDICT
    try:
        outcome = await _run_and_compare(sandbox, target, program, tests, "mocked" if by_verdict else "real")
        metrics = _metrics(outcome, len(tests))
        if target.strict_compat is Compatibility.REPORT:
            compat = await _run_and_compare(sandbox, target, program, tests, "mocked")
            metrics["strict_compat"] = compat.status(len(tests)).value
    except SandboxOutOfMemory as error:
        return make_memory_verdict(error)
    if outcome.has_begun_badly and not by_verdict:
        broken = await find_broken_preamble(sandbox, target.preamble)
        if broken is not None:
            return broken
    return make_verdict(outcome, len(tests), metrics)


async def _run_and_compare(
    sandbox: Sandbox,
    target: StdinTests,
    program: bytes,
    tests: Sequence[StdinTest],
    stdin: Literal["real", "mocked"],
) -> Outcome:
    """Run the program on every input, and compare when no later run can measure the comparison.

    A wrong output of a test that the task shows ends the tests. The outputs of hidden tests are compared
    after the last run, because the time of a comparison depends on the expected output.
    """
    outcome = Outcome((), None, None, 0.0)
    hidden: list[InputRun] = []
    async for batch, runs in _run_batches(sandbox, target, program, tests, stdin):
        if len(outcome.statuses) < target.shown:
            outcome = await _compare(outcome, runs, batch, target.tolerance)
            if outcome.evidence is not None:
                return outcome
        else:
            hidden += runs
        if _bytes_of(hidden) > MAX_OUTPUT_BYTES:
            break
    return await _compare(outcome, hidden, tests[len(outcome.statuses) :], target.tolerance)


async def _run_batches(
    sandbox: Sandbox,
    target: StdinTests,
    program: bytes,
    tests: Sequence[StdinTest],
    stdin: Literal["real", "mocked"],
) -> AsyncIterator[tuple[Sequence[StdinTest], Sequence[InputRun]]]:
    """Yield the tests in order and the program's runs on them, up to the first run that fails."""
    ends = time.monotonic() + (len(tests) * (target.seconds + 1) + 5) * PATIENCE
    stdout_bytes = stdout_bound(tests)
    for batch in batches(tests, target.shown, lambda test: len(test.input), BATCH_BYTES):
        runs = await run_on_inputs(
            sandbox,
            program=program,
            preamble=target.preamble.encode(),
            inputs=[test.input.encode("utf-8", "surrogatepass") for test in batch],
            stdout_bytes=stdout_bytes,
            cpu_seconds=target.seconds,
            wall_seconds=target.seconds * WALL_SHARE * sandbox.time_factor,
            wall_seconds_in_all=max(ends - time.monotonic(), 1.0),
            stdin=stdin,
        )
        yield batch, runs
        if len(runs) < len(batch) or not runs[-1].succeeded:
            return


async def _leave_to_checker(
    sandbox: Sandbox, target: StdinTests, program: bytes, tests: Sequence[StdinTest]
) -> Verdict | Unjudged:
    """Run the program on every input, and return its outputs for the checker, which has another sandbox."""
    runs: list[InputRun] = []
    try:
        async for _, some in _run_batches(sandbox, target, program, tests, "real"):
            runs += some
            if _bytes_of(runs) > MAX_OUTPUT_BYTES:
                break
    except SandboxOutOfMemory as error:
        return make_memory_verdict(error)
    if runs and not runs[0].succeeded:
        broken = await find_broken_preamble(sandbox, target.preamble)
        if broken is not None:
            return broken
    return Unjudged(
        CHECKER_IMAGE, functools.partial(_judge_outputs, target.checker, tests, runs), key=target.checker
    )


async def _judge_outputs(
    checker: str, tests: Sequence[StdinTest], runs: Sequence[InputRun], sandbox: Sandbox
) -> Verdict:
    """Return the verdict of the checker on the outputs of runs. Raises SandboxError.

    A checker that fails on an output refuses it, unless it fails on the author's own output too.
    """
    printed = [(run, test) for run, test in zip(runs, tests, strict=False) if run.succeeded]
    # A checker gets text. Bytes that are not UTF-8 can be no right output.
    outputs = [(run.stdout.head + run.stdout.tail).decode("utf-8", "replace") for run, _test in printed]
    cases = [(test.input, output, test.output) for output, (_, test) in zip(outputs, printed, strict=True)]
    answers = await ask_checker(sandbox, checker, cases)
    failed = next((place for place, answer in enumerate(answers) if answer.is_broken), None)
    if failed is not None:
        given, _, expected = cases[failed]
        (own,) = await ask_checker(sandbox, checker, [(given, expected, expected)])
        if not own.accepted:
            evidence = f"the checker does not accept the tests' own output: {own.note}"
            return Verdict(Status.GRADER_ERROR, None, evidence=evidence, phase=Phase.EVALUATOR)
    told = iter(answers)

    def differ(_run: InputRun, _test: StdinTest) -> str | None:
        answer = next(told)
        return None if answer.accepted else f"the checker refuses the output: {answer.note}".rstrip(": ")

    outcome = add_runs(Outcome((), None, None, 0.0), runs, tests, differ)
    return make_verdict(outcome, len(tests), _metrics(outcome, len(tests)))


async def _compare(
    outcome: Outcome, runs: Sequence[InputRun], tests: Sequence[StdinTest], tolerance: float
) -> Outcome:
    """Return the results after adding these runs' results, from a thread if they are large."""

    def differ(run: InputRun, test: StdinTest) -> str | None:
        return stdout_difference(run.stdout.head + run.stdout.tail, test.output, tolerance)

    if _bytes_of(runs) + sum(len(test.output) for test in tests[: len(runs)]) <= _SMALL_BYTES:
        return add_runs(outcome, runs, tests, differ)
    return await asyncio.to_thread(add_runs, outcome, runs, tests, differ)


def _bytes_of(runs: Sequence[InputRun]) -> int:
    return sum(len(run.stdout.head) + len(run.stdout.tail) for run in runs)


def stdout_bound(tests: Sequence[StdinTest]) -> int:
    """Return the limit on the bytes of a run's output: a power of two, the same for all tests."""
    longest = max((len(test.output) for test in tests), default=0)
    return min(max(LEAST_STDOUT_BYTES, 1 << (2 * longest).bit_length()), MOST_STDOUT_BYTES)


def _metrics(outcome: Outcome, tests: int) -> dict[str, Any]:
    return {
        "tests": tests,
        "tests_run": len(outcome.statuses),
        "tests_passed": outcome.statuses.count(Status.PASSED),
        "per_test": [status.value for status in outcome.statuses],
        "cpu_seconds": round(outcome.cpu_seconds, 4),
    }


GRADERS = (
    SandboxGrader(
        StdinTests,
        run_or_grade,
        may_need_sockets=lambda target, submission: (
            target.language != PYTHON or may_need_sockets((submission.text, target.preamble))
        ),
        choose_image=lambda target: None if target.language == PYTHON else LANGUAGES[target.language].image,
        needs_own_sandbox=lambda target: (
            None if target.language == PYTHON else "a compiler writes files for the runs of its program"
        ),
    ),
)
