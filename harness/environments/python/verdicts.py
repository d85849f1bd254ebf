"""Turn the guest's reports on programs into verdicts: reports of trusted tests, and runs on inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from harness.core.text import escape_text, shorten
from harness.core.types import Phase, Status, Verdict
from harness.environments.python.client import CPU, Ended, InputRun, TestReport, run_on_inputs
from harness.environments.python.guest.contest_preamble import PREAMBLE
from harness.sandbox.failures import SandboxOutOfMemory
from harness.sandbox.sandbox import Sandbox

MAX_PROGRAM_BYTES = 16 << 20
# All tests of a problem have the same bound on their output, because a program can find it out. It reveals
# nothing about expected outputs up to half of the least bound, and only the size of the longest larger one.
LEAST_STDOUT_BYTES, MOST_STDOUT_BYTES = 4 << 20, 32 << 20
# The wall limit of a run is this many times its CPU limit. The guest adds time on a busy machine.
WALL_SHARE = 2.0
PATIENCE = 5.0
KEPT_STDERR = 400
# The status for each end of a lost candidate. Any other end is a plain failure.
ENDED = {
    "cpu_seconds": Status.TIMEOUT,
    "wall_seconds": Status.TIMEOUT,
    "memory_mb": Status.MEMORY_LIMIT,
    "processes": Status.PROCESS_LIMIT,
    "output_mb": Status.OUTPUT_LIMIT,
    "signal": Status.CRASHED,
}
# Signs of tampering, in the same words each time, so that reports can count them.
BROKE_PROTOCOL = "broke the tests' protocol"
EXITED_WELL = "exited with status 0 before its tests ended"
RAISED_EXIT = "raised SystemExit before its tests ended"

Test = TypeVar("Test")


def grade_report(report: TestReport) -> Verdict:
    """Return the verdict on a report.

    The program fails if there is no test or if a test is not reported as passed. If the tests' own set-up
    failed before any code of the program ran, there is no verdict on the program.
    """
    if report.broken is not None:
        evidence = escape_text(report.broken)
        return Verdict(Status.GRADER_ERROR, None, evidence=evidence, phase=Phase.EVALUATOR)
    metrics: dict[str, Any] = {
        "tests": len(report.results),
        "tests_passed": sum(report.results),
        "cpu_seconds": round(report.cpu_seconds, 4),
    }
    if report.objects:
        metrics["objects"] = sorted(report.objects)
    sign = _find_tampering(report)
    passed = report.results and all(report.results) and report.ended is None and report.breach is None
    if report.is_borderline:
        evidence = escape_text(report.describe_timeout())
        return Verdict(
            *(Status.TIMEOUT, 0.0, metrics, evidence, Phase.EVALUATOR, CPU, sign), borderline=bool(passed)
        )
    if passed:
        return Verdict(Status.PASSED, 1.0, metrics, phase=Phase.EVALUATOR, tampering=sign)
    status = _status(report)
    limit = report.ended if status is Status.TIMEOUT else None
    return Verdict(status, 0.0, metrics, _evidence(report, status), Phase.EVALUATOR, limit, sign)


def make_memory_verdict(error: SandboxOutOfMemory) -> Verdict:
    """Return the verdict on a program that used up the memory of the whole sandbox."""
    return Verdict(Status.MEMORY_LIMIT, 0.0, evidence=str(error), phase=Phase.EVALUATOR, limit="memory_mb")


def _find_tampering(report: TestReport) -> str | None:
    """Return a sign that honest programs hardly ever show, or None. The verdict does not depend on it."""
    if report.breach is not None:
        return BROKE_PROTOCOL
    if report.ended == "exited" and report.exit_code == 0:
        return EXITED_WELL
    if report.error == "SystemExit":
        return RAISED_EXIT
    return None


def _status(report: TestReport) -> Status:
    if report.ended is not None:
        return ENDED.get(report.ended, Status.FAILED)
    if report.error == "MemoryError" or report.memory_kills:
        return Status.MEMORY_LIMIT
    return Status.PROCESS_LIMIT if report.refused_forks else Status.FAILED


def _evidence(report: TestReport, status: Status) -> str:
    reason = _describe_end(report, status)
    if reason is None and report.ended is not None:
        reason = f"the program's process exited with code {report.exit_code} before its tests ended"
    parts = [part for part in (reason, report.evidence) if part]
    if report.stderr.total and not report.evidence:
        parts.append(f"stderr: {shorten(str(report.stderr), KEPT_STDERR, keep_end=True)}")
    return escape_text("; ".join(parts))


def _describe_end(ended: Ended, status: Status) -> str | None:
    """Return why a program did not end by itself, None if it did."""
    match status:
        case Status.TIMEOUT:
            return ended.describe_timeout()
        case Status.CRASHED:
            return f"the program was killed by signal {-ended.exit_code}"
        case Status.MEMORY_LIMIT | Status.PROCESS_LIMIT | Status.OUTPUT_LIMIT:
            return f"the program reached its limit: {status.value}"
    return None


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


def add_runs(
    outcome: Outcome,
    runs: Sequence[InputRun],
    tests: Sequence[Test],
    differ: Callable[[InputRun, Test], str | None],
) -> Outcome:
    """Return the results after adding the results of runs on the inputs of these tests.

    `differ` returns how the output of a run that succeeded is wrong, None for a right one.
    """
    statuses, evidence, limit = list(outcome.statuses), outcome.evidence, outcome.limit
    is_slow, is_wrong = outcome.is_slow, outcome.is_wrong
    for run, test in zip(runs, tests, strict=False):
        difference = differ(run, test) if run.succeeded else None
        status = _status_of_run(run, difference)
        is_wrong = is_wrong or status is not Status.PASSED
        if run.is_borderline:
            is_slow, status = True, Status.TIMEOUT
        statuses.append(status)
        if status is not Status.PASSED and evidence is None:
            evidence = f"test {len(statuses)}: {_describe_run(run, status, difference)}"
            limit = CPU if run.is_borderline else run.ended
    cpu_seconds = outcome.cpu_seconds + sum(run.cpu_seconds for run in runs)
    badly = outcome.has_begun_badly if outcome.statuses or not runs else not runs[0].succeeded
    return Outcome(tuple(statuses), evidence, limit, cpu_seconds, is_slow, is_wrong, badly)


def _status_of_run(run: InputRun, difference: str | None) -> Status:
    if run.stdout.truncated:
        return Status.OUTPUT_LIMIT
    if run.ended in ENDED:
        return ENDED[run.ended]
    if not run.succeeded and run.memory_kills:
        return Status.MEMORY_LIMIT
    if not run.succeeded and run.refused_forks:
        return Status.PROCESS_LIMIT
    return Status.PASSED if run.succeeded and difference is None else Status.FAILED


def _describe_run(run: InputRun, status: Status, difference: str | None) -> str:
    if status is Status.FAILED and difference is not None:
        return escape_text(difference)
    evidence = _describe_end(run, status) or f"the program exited with code {run.exit_code}"
    if run.stderr.total:
        evidence = f"{evidence}; stderr: {str(run.stderr)[-KEPT_STDERR:]}"
    return escape_text(evidence)


def make_verdict(outcome: Outcome, tests: int, metrics: Mapping[str, Any]) -> Verdict:
    """Return the verdict on a program with these results of its tests."""
    status = outcome.status(tests)
    if status is Status.PASSED:
        return Verdict(status, 1.0, metrics, phase=Phase.EVALUATOR)
    limit = outcome.limit if status is Status.TIMEOUT else None
    right = not outcome.is_wrong and len(outcome.statuses) == tests
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
