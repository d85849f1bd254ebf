"""Grade programs by trusted tests: turn the sandbox's report into a verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.core.errors import UsageError
from harness.core.text import escape_text, shorten
from harness.core.types import Phase, ProgramTests, Status, Submission, Verdict
from harness.environments.python.client import CPU, TestReport, run_tests
from harness.environments.python.needed_sockets import may_need_sockets
from harness.environments.python.steering import find_steering
from harness.environments.spec import SandboxGrader
from harness.sandbox.failures import SandboxOutOfMemory
from harness.sandbox.sandbox import Sandbox

# The status for each end of a lost candidate. Any other end is a plain failure.
ENDED = {
    "cpu_seconds": Status.TIMEOUT,
    "wall_seconds": Status.TIMEOUT,
    "memory_mb": Status.MEMORY_LIMIT,
    "processes": Status.PROCESS_LIMIT,
    "output_mb": Status.OUTPUT_LIMIT,
    "signal": Status.CRASHED,
}
_KEPT_STDERR = 400
# Methods whose results an assert takes for a truth.
_DECIDING = frozenset(
    ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__", "__bool__", "__len__")
)
# Signs of tampering, in the same words each time, so that reports can count them.
BROKE_PROTOCOL = "broke the tests' protocol"
EXITED_WELL = "exited with status 0 before its tests ended"
RAISED_EXIT = "raised SystemExit before its tests ended"


async def grade_program(sandbox: Sandbox, tests: ProgramTests, submission: Submission) -> Verdict:
    """Return the verdict of the tests on the program, in a sandbox that no agent has touched.

    The program passes, with a score of 1, only if the report names every test as passed. Raises SandboxError
    if the sandbox failed through no fault of the program.

    Source: the rule that every assert must hold is HumanEval's (`human_eval/execution.py` of
    openai/human-eval) and MBPP (arXiv 2108.07732). Neither runs the tests in another process.
    """
    try:
        report = await run_tests(
            sandbox,
            program=submission.text,
            preamble=tests.preamble,
            setup=tests.setup,
            statements=tests.statements,
            exports=tests.exports,
            classes=tests.classes,
        )
    except UsageError as error:  # The program is too large for a request.
        return Verdict(Status.FAILED, 0.0, evidence=error.message, phase=Phase.EVALUATOR)
    except SandboxOutOfMemory as error:
        return make_memory_verdict(error)
    verdict = grade_report(report)
    if not verdict.status.has_score:
        return verdict
    parts = {name: _has_passed(report, verdict, number) for name, number in tests.parts.items()}
    return replace(verdict, metrics={**verdict.metrics, **parts})


def _has_passed(report: TestReport, verdict: Verdict, number: int) -> float:
    """Return 1 if this many tests, from the first on, have passed, and otherwise 0."""
    if number >= len(report.results):
        return float(verdict.resolved)
    return float(report.breach is None and all(report.results[:number]))


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
    if report.refused_forks:
        return Status.PROCESS_LIMIT
    return Status.FAILED


def _evidence(report: TestReport, status: Status) -> str:
    match status:
        case Status.TIMEOUT:
            reason = report.describe_timeout()
        case Status.CRASHED:
            reason = f"the program was killed by signal {-report.exit_code}"
        case Status.MEMORY_LIMIT | Status.PROCESS_LIMIT | Status.OUTPUT_LIMIT:
            reason = f"the program reached its limit: {status.value}"
        case _ if report.ended is not None:
            reason = f"the program's process exited with code {report.exit_code} before its tests ended"
        case _:
            reason = ""
    parts = [part for part in (reason, report.evidence) if part]
    if report.stderr.total and not report.evidence:
        parts.append(f"stderr: {shorten(str(report.stderr), _KEPT_STDERR, keep_end=True)}")
    return escape_text("; ".join(parts))


def _may_need_sockets(tests: ProgramTests, submission: Submission) -> bool:
    return may_need_sockets((submission.text, tests.preamble, tests.setup, *tests.statements))


def find_own_comparisons(tests: ProgramTests) -> str | None:
    """Return a warning if the tests compare objects of the program by methods of the program, else None."""
    for name, attributes in tests.classes.items():
        own = sorted(_DECIDING.intersection(attributes))
        if own:
            return (
                f"the class '{name}' of the program defines {', '.join(own)}, so the program itself decides "
                "comparisons of its objects, as in plain Python"
            )
    return None


GRADERS = (
    SandboxGrader(
        ProgramTests,
        grade_program,
        may_need_sockets=_may_need_sockets,
        needs_own_sandbox=find_steering,
        find_weakness=find_own_comparisons,
    ),
)
