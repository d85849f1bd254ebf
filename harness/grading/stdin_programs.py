"""Programs that read stdin and print: from what they printed to a verdict.

What they should print stays on this side.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from harness.grading.batches import batches
from harness.grading.grader import Grader, Place
from harness.grading.programs import ENDED, escaped
from harness.grading.stdout_lines import stdout_difference
from harness.model import Status, Submission, Verdict
from harness.sandbox.results import InputRun
from harness.sandbox.sandbox import Sandbox, SandboxOutOfMemory

MAX_PROGRAM_BYTES = 16 << 20
# What one request holds of inputs, unless one alone is larger, and what may come back.
BATCH_BYTES = 8 << 20
# What is kept of a run's output: blanks and digits may make it longer than what is expected, a flood is none.
STDOUT_BYTES, STDOUT_SHARE, MAX_STDOUT_BYTES = 64 << 10, 16, 32 << 20
# On the clock a run may take this much longer than the processor works; the guest gives more where the
# machine is too busy.
WALL_SHARE = 2.0
PATIENCE = 5.0
KEPT_STDERR = 400


class Compatibility(StrEnum):
    """Whether programs are also run as LiveCodeBench's own runner does it, with a made-up stdin.

    `report` says in `metrics["strict_compat"]` what that came to; with `verdict` it decides.
    """

    OFF = "off"
    REPORT = "report"
    VERDICT = "verdict"


@dataclass(frozen=True, slots=True)
class StdinTest:
    """What a program reads, and what it is to print."""

    input: str
    output: str


@dataclass(frozen=True, slots=True)
class StdinTests:
    """Tests of a program that reads stdin. Each is a process of its own.

    `load` returns the tests, of which the first `shown` are in the task's prompt; it may raise
    DataError. `seconds` is the processor time of a test; all of them together may take a second more
    for each, and five, and of wall time a few times that, since the machine may be busy. `preamble`
    is source that a program finds run before it.
    """

    load: Callable[[], Sequence[StdinTest]]
    shown: int
    preamble: str = ""
    seconds: float = 6.0
    strict_compat: Compatibility = Compatibility.OFF


@dataclass(frozen=True, slots=True)
class Judged:
    """How the tests went that were run. `evidence` is of the first that was not passed."""

    statuses: tuple[Status, ...]
    evidence: str | None
    limit: str | None
    cpu_seconds: float

    def status(self, tests: int) -> Status:
        """Return the status of the first test that was not passed; no test at all is a fail."""
        first = next((status for status in self.statuses if status is not Status.PASSED), None)
        if first is not None:
            return first
        return Status.PASSED if tests and len(self.statuses) == tests else Status.FAILED


async def grade_stdin(sandbox: Sandbox, criterion: StdinTests, submission: Submission) -> Verdict:
    """Run the program on every input in a sandbox that no agent has touched, and compare on the host.

    The verdict is `passed` only where every output is the expected one. Raises SandboxError where the
    sandbox failed through no fault of the program, and DataError where the tests cannot be read.
    """
    program = submission.text.encode("utf-8", "surrogatepass")
    if len(program) > MAX_PROGRAM_BYTES:
        said = f"the program has {len(program):,} bytes, at most {MAX_PROGRAM_BYTES:,} are run"
        return Verdict(Status.FAILED, 0.0, {"phase": "evaluator"}, said)
    tests = await asyncio.to_thread(criterion.load)
    by_verdict = criterion.strict_compat is Compatibility.VERDICT
    try:
        judged = await _judged(sandbox, criterion, program, tests, "mocked" if by_verdict else "real")
        metrics = _metrics(judged, len(tests))
        if criterion.strict_compat is Compatibility.REPORT:
            compat = await _judged(sandbox, criterion, program, tests, "mocked")
            metrics["strict_compat"] = compat.status(len(tests)).value
    except SandboxOutOfMemory as error:
        return Verdict(Status.MEMORY_LIMIT, 0.0, {"phase": "evaluator", "limit": "memory_mb"}, str(error))
    status = judged.status(len(tests))
    if status is Status.PASSED:
        return Verdict(status, 1.0, metrics)
    if status is Status.TIMEOUT:
        metrics["limit"] = judged.limit
    return Verdict(status, 0.0, metrics, judged.evidence)


async def _judged(
    sandbox: Sandbox,
    criterion: StdinTests,
    program: bytes,
    tests: Sequence[StdinTest],
    stdin: Literal["real", "mocked"],
) -> Judged:
    statuses: list[Status] = []
    evidence: str | None = None
    limit: str | None = None
    cpu_seconds = 0.0
    ends = time.monotonic() + (len(tests) * (criterion.seconds + 1) + 5) * PATIENCE
    for batch in batches(tests, criterion.shown, lambda test: len(test.input), BATCH_BYTES):
        bounds = [_stdout_bytes(test) for test in batch]
        runs = await sandbox.run_on_inputs(
            program=program,
            preamble=criterion.preamble.encode(),
            inputs=[test.input.encode("utf-8", "surrogatepass") for test in batch],
            stdout_bytes=bounds,
            cpu_seconds=criterion.seconds,
            wall_seconds=criterion.seconds * WALL_SHARE,
            wall_seconds_in_all=max(ends - time.monotonic(), 1.0),
            stdin=stdin,
        )
        differences = await asyncio.to_thread(_differences, runs, batch)
        for run, difference in zip(runs, differences, strict=True):
            status = _status(run, difference)
            statuses.append(status)
            cpu_seconds += run.cpu_seconds
            if status is not Status.PASSED and evidence is None:
                evidence = f"test {len(statuses)}: {_evidence(run, status, difference)}"
                limit = run.ended
        wrong_in_sight = evidence is not None and len(statuses) <= criterion.shown
        if wrong_in_sight or len(runs) < len(batch) or not runs[-1].well:
            break
    return Judged(tuple(statuses), evidence, limit, cpu_seconds)


def _stdout_bytes(test: StdinTest) -> int:
    return min(STDOUT_BYTES + STDOUT_SHARE * len(test.output), MAX_STDOUT_BYTES)


def _differences(runs: Sequence[InputRun], batch: Sequence[StdinTest]) -> list[str | None]:
    return [
        stdout_difference(run.stdout.head + run.stdout.tail, test.output) if run.well else None
        for run, test in zip(runs, batch, strict=False)
    ]


def _status(run: InputRun, difference: str | None) -> Status:
    if run.stdout.truncated:
        return Status.OUTPUT_LIMIT
    if run.ended in ENDED:
        return ENDED[run.ended]
    if not run.well and run.memory_kills:
        return Status.MEMORY_LIMIT
    if not run.well and run.refused_forks:
        return Status.PROCESS_LIMIT
    return Status.PASSED if run.well and difference is None else Status.FAILED


def _evidence(run: InputRun, status: Status, difference: str | None) -> str:
    match status:
        case Status.TIMEOUT:
            said = f"the evaluator's limit {run.ended} was reached after {run.duration_seconds:.1f} s"
        case Status.CRASHED:
            said = f"the program was killed by signal {-run.exit_code}"
        case Status.FAILED if difference is not None:
            return escaped(difference)
        case Status.FAILED:
            said = f"the program ended with exit code {run.exit_code}"
        case _:
            said = f"the program reached its limit: {status.value}"
    if run.stderr.total:
        said = f"{said}; stderr: {str(run.stderr)[-KEPT_STDERR:]}"
    return escaped(said)


def _metrics(judged: Judged, tests: int) -> dict[str, Any]:
    return {
        "tests": tests,
        "tests_run": len(judged.statuses),
        "tests_passed": judged.statuses.count(Status.PASSED),
        "per_test": [status.value for status in judged.statuses],
        "cpu_seconds": round(judged.cpu_seconds, 4),
        "phase": "evaluator",
    }


GRADERS = (Grader(StdinTests, Place.FRESH, grade_stdin),)
