"""Grade programs by trusted tests."""

from __future__ import annotations

from dataclasses import replace

from harness.core.errors import UsageError
from harness.core.types import Phase, ProgramTests, Status, Submission, Verdict
from harness.environments.python.client import TestReport, run_tests
from harness.environments.python.needed_sockets import may_need_sockets
from harness.environments.python.steering import find_steering
from harness.environments.python.verdicts import grade_report, make_memory_verdict
from harness.environments.spec import SandboxGrader
from harness.sandbox.failures import SandboxOutOfMemory
from harness.sandbox.sandbox import Sandbox

# Methods whose results an assert takes for a truth.
_DECIDING = frozenset(
    ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__", "__bool__", "__len__")
)


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
        may_need_sockets=lambda tests, submission: may_need_sockets(
            (submission.text, tests.preamble, tests.setup, *tests.statements)
        ),
        needs_own_sandbox=find_steering,
        find_weakness=find_own_comparisons,
    ),
)
