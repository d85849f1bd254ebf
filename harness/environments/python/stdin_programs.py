"""Grade programs that read stdin and print: turn their outputs into a verdict.

The expected outputs never enter the sandbox.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any, Literal

from harness.core.text import escape_text
from harness.core.types import Phase, Status, Submission, Verdict
from harness.environments.grader import SandboxGrader
from harness.environments.python.client import (
    CPU,
    InputRun,
    StoredTests,
    batches,
    describe_timeout,
    run_on_inputs,
)
from harness.environments.python.guest.contest_preamble import PREAMBLE
from harness.environments.python.needed_sockets import may_need_sockets
from harness.environments.python.programs import ENDED, make_memory_verdict
from harness.sandbox.failures import SandboxOutOfMemory
from harness.sandbox.sandbox import Sandbox

_SHOWN = 60


def stdout_difference(printed: bytes | str, expected: str) -> str | None:
    """Return how the output differs from the expected one, in one short line, or None if it does not.

    Both are stripped and split into lines, and the lines are stripped too. The numbers of lines must be
    equal. Two lines agree if they are equal, or if both consist of the same number of numbers with equal
    values. NaN and bytes that are not UTF-8 equal nothing. The function takes time and memory in proportion
    to the output.
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
        if line != wanted and not _same_numbers(line, wanted):
            return f"line {number}: {_short(line)} printed, {_short(wanted)} expected"
    return None


def _same_numbers(line: str, wanted: str) -> bool:
    wanted_words = wanted.split()
    # Only as many words as can matter, because all words of a line of many megabytes would need gigabytes.
    words = line.split(maxsplit=len(wanted_words))
    if len(words) != len(wanted_words):
        return False
    return all(_same_number(word, other) for word, other in zip(words, wanted_words, strict=True))


def _same_number(word: str, wanted: str) -> bool:
    try:
        # A comparison with a signalling NaN raises.
        return Decimal(word) == Decimal(wanted)
    except InvalidOperation:
        return False


def _short(line: str) -> str:
    return repr(line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…")


MAX_PROGRAM_BYTES = 16 << 20
# A request holds at most this many bytes of inputs, unless a single input is larger.
BATCH_BYTES = 8 << 20
# All tests of a problem have the same bound on their output, because a program can find it out. It reveals
# nothing about expected outputs up to half of the least bound, and only the size of the longest larger one.
LEAST_STDOUT_BYTES, MOST_STDOUT_BYTES = 4 << 20, 32 << 20
# All outputs of hidden tests are compared after the last run. The host holds them in memory until then.
MAX_OUTPUT_BYTES = 256 << 20
# The wall limit of a run is this many times its CPU limit. The guest adds time on a busy machine.
WALL_SHARE = 2.0
PATIENCE = 5.0
KEPT_STDERR = 400
# A thread for outputs of this size would take longer to start than their comparison.
_SMALL_BYTES = 4096


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

    def load(self) -> Sequence[StdinTest]:
        """Return the tests. Raises DataError if stored tests cannot be read."""
        return self.tests if isinstance(self.tests, tuple) else self.tests.load()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The statuses of the tests that ran. `evidence` belongs to the first test that did not pass."""

    statuses: tuple[Status, ...]
    evidence: str | None
    limit: str | None
    cpu_seconds: float
    # Whether a program ended a little above its limit on processor time, and whether anything else is wrong.
    is_slow: bool = False
    is_wrong: bool = False
    # Whether the first run ended with an error, whatever it printed.
    has_begun_badly: bool = False

    def status(self, tests: int) -> Status:
        """Return the status of the first test that did not pass. Without any test, the program fails."""
        first = next((status for status in self.statuses if status is not Status.PASSED), None)
        if first is not None:
            return first
        return Status.PASSED if tests and len(self.statuses) == tests else Status.FAILED


async def grade_stdin(sandbox: Sandbox, target: StdinTests, submission: Submission) -> Verdict:
    """Return the verdict on the program's outputs, from a sandbox that no agent has touched.

    The host compares them. The program passes, with a score of 1, only if every output is the expected one.
    Raises SandboxError if the sandbox failed through no fault of the program, and DataError if the tests
    cannot be read. Source: LiveCodeBench (`stdout_lines` compares by its rules).
    """
    program = submission.text.encode("utf-8", "surrogatepass")
    if len(program) > MAX_PROGRAM_BYTES:
        evidence = f"the program has {len(program):,} bytes; the limit is {MAX_PROGRAM_BYTES:,}"
        return Verdict(Status.FAILED, 0.0, evidence=evidence, phase=Phase.EVALUATOR)
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
    status = outcome.status(len(tests))
    if outcome.has_begun_badly and not by_verdict:
        broken = await find_broken_preamble(sandbox, target.preamble)
        if broken is not None:
            return broken
    if status is Status.PASSED:
        return Verdict(status, 1.0, metrics, phase=Phase.EVALUATOR)
    limit = outcome.limit if status is Status.TIMEOUT else None
    right = not outcome.is_wrong and len(outcome.statuses) == len(tests)
    return Verdict(
        *(status, 0.0, metrics, outcome.evidence, Phase.EVALUATOR, limit),
        borderline=right if outcome.is_slow else None,
    )


async def find_broken_preamble(sandbox: Sandbox, preamble: str) -> Verdict | None:
    """Return the verdict if a preamble fails without any program, because no program is then to blame.

    Ask this if the program has ended with an error in its first test, and never because an answer was wrong,
    which a later program of the sandbox could observe.
    """
    if not preamble.strip() or preamble == PREAMBLE or not sandbox.clean:
        return None
    (run,) = await run_on_inputs(
        sandbox, program=b"", preamble=preamble.encode(), inputs=[b""], stdout_bytes=LEAST_STDOUT_BYTES
    )
    if run.succeeded or run.ended not in ("exited", "signal"):
        return None
    evidence = f"the preamble of the tests failed: {str(run.stderr)[-KEPT_STDERR:]}"
    return Verdict(Status.GRADER_ERROR, None, evidence=escape_text(evidence), phase=Phase.EVALUATOR)


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
    ends = time.monotonic() + (len(tests) * (target.seconds + 1) + 5) * PATIENCE
    stdout_bytes = stdout_bound(tests)
    outcome = Outcome((), None, None, 0.0)
    hidden: list[InputRun] = []
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
        if len(outcome.statuses) < target.shown:
            outcome = await _compare(outcome, runs, batch)
            if outcome.evidence is not None:
                return outcome
        else:
            hidden += runs
        if len(runs) < len(batch) or not runs[-1].succeeded or _bytes_of(hidden) > MAX_OUTPUT_BYTES:
            break
    return await _compare(outcome, hidden, tests[len(outcome.statuses) :])


async def _compare(outcome: Outcome, runs: Sequence[InputRun], tests: Sequence[StdinTest]) -> Outcome:
    """Return the results after adding these runs' results, from a thread if they are large."""
    if _bytes_of(runs) + sum(len(test.output) for test in tests[: len(runs)]) <= _SMALL_BYTES:
        return _add_runs(outcome, runs, tests)
    return await asyncio.to_thread(_add_runs, outcome, runs, tests)


def _add_runs(outcome: Outcome, runs: Sequence[InputRun], tests: Sequence[StdinTest]) -> Outcome:
    """Return the results after adding these runs' results."""
    statuses, evidence, limit = list(outcome.statuses), outcome.evidence, outcome.limit
    is_slow, is_wrong = outcome.is_slow, outcome.is_wrong
    for run, test in zip(runs, tests, strict=False):
        difference = (
            stdout_difference(run.stdout.head + run.stdout.tail, test.output) if run.succeeded else None
        )
        status = _status(run, difference)
        is_wrong = is_wrong or status is not Status.PASSED
        if run.is_borderline:
            is_slow, status = True, Status.TIMEOUT
        statuses.append(status)
        if status is not Status.PASSED and evidence is None:
            evidence = f"test {len(statuses)}: {_evidence(run, status, difference)}"
            limit = CPU if run.is_borderline else run.ended
    cpu_seconds = outcome.cpu_seconds + sum(run.cpu_seconds for run in runs)
    badly = outcome.has_begun_badly if outcome.statuses or not runs else not runs[0].succeeded
    return Outcome(tuple(statuses), evidence, limit, cpu_seconds, is_slow, is_wrong, badly)


def _bytes_of(runs: Sequence[InputRun]) -> int:
    return sum(len(run.stdout.head) + len(run.stdout.tail) for run in runs)


def stdout_bound(tests: Sequence[StdinTest]) -> int:
    """Return the limit on the bytes of a run's output: a power of two, the same for all tests."""
    longest = max((len(test.output) for test in tests), default=0)
    return min(max(LEAST_STDOUT_BYTES, 1 << (2 * longest).bit_length()), MOST_STDOUT_BYTES)


def _status(run: InputRun, difference: str | None) -> Status:
    if run.stdout.truncated:
        return Status.OUTPUT_LIMIT
    if run.ended in ENDED:
        return ENDED[run.ended]
    if not run.succeeded and run.memory_kills:
        return Status.MEMORY_LIMIT
    if not run.succeeded and run.refused_forks:
        return Status.PROCESS_LIMIT
    return Status.PASSED if run.succeeded and difference is None else Status.FAILED


def _evidence(run: InputRun, status: Status, difference: str | None) -> str:
    match status:
        case Status.TIMEOUT:
            evidence = describe_timeout(run)
        case Status.CRASHED:
            evidence = f"the program was killed by signal {-run.exit_code}"
        case Status.FAILED if difference is not None:
            return escape_text(difference)
        case Status.FAILED:
            evidence = f"the program exited with code {run.exit_code}"
        case _:
            evidence = f"the program reached its limit: {status.value}"
    if run.stderr.total:
        evidence = f"{evidence}; stderr: {str(run.stderr)[-KEPT_STDERR:]}"
    return escape_text(evidence)


def _metrics(outcome: Outcome, tests: int) -> dict[str, Any]:
    return {
        "tests": tests,
        "tests_run": len(outcome.statuses),
        "tests_passed": outcome.statuses.count(Status.PASSED),
        "per_test": [status.value for status in outcome.statuses],
        "cpu_seconds": round(outcome.cpu_seconds, 4),
    }


def _may_need_sockets(target: StdinTests, submission: Submission) -> bool:
    return may_need_sockets((submission.text, target.preamble))


GRADERS = (SandboxGrader(StdinTests, grade_stdin, may_need_sockets=_may_need_sockets),)
