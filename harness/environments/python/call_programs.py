"""Grade programs by calls of a function with arguments in JSON. Trusted code in another process compares."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.core.text import escape_text
from harness.core.types import Phase, Status, Submission, Verdict
from harness.environments.python.client import CPU, StoredTests, batches, run_calls
from harness.environments.python.needed_sockets import may_need_sockets
from harness.environments.python.verdicts import (
    MAX_PROGRAM_BYTES,
    PATIENCE,
    WALL_SHARE,
    find_broken_preamble,
    grade_report,
    make_memory_verdict,
)
from harness.environments.spec import SandboxGrader
from harness.sandbox.failures import SandboxOutOfMemory
from harness.sandbox.guest import json_text
from harness.sandbox.sandbox import Sandbox

# The name that the tests call the function by, whatever its name in the program is.
FUNCTION = "harness_function"
# One request holds at most this many bytes of arguments and results.
PART_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class CallTest:
    """The arguments of a call, one JSON value a line, and the expected result in JSON."""

    arguments: str
    result: str


@dataclass(frozen=True, slots=True)
class CallTests:
    """Tests of a function, or of the method of that name if the program has a class `Solution`."""

    tests: tuple[CallTest, ...] | StoredTests[CallTest]
    function: str
    # The number of tests, from the first on, that the task's prompt contains.
    shown: int
    # Source that runs before the program.
    preamble: str = ""
    # The CPU time of one call, in seconds. All calls together may take one second more for each call, plus
    # five seconds. Their wall time may be a few times that, because the machine may be busy.
    seconds: float = 6.0

    def load(self) -> Sequence[CallTest]:
        """Return the tests. Raises DataError if stored tests cannot be read."""
        return self.tests if isinstance(self.tests, tuple) else self.tests.load()


async def grade_calls(sandbox: Sandbox, target: CallTests, submission: Submission) -> Verdict:
    """Return the verdict on calls of the program's function in a sandbox that no agent has touched.

    The program passes, with a score of 1, only if every result is the expected one. Raises SandboxError if
    the sandbox failed through no fault of the program, and DataError if the tests cannot be read.

    Source: `testing_util.py` of LiveCodeBench (Jain et al. 2024, arXiv 2403.07974): 6 s for each test, a
    top-level tuple equals a list, and the first failure ends the tests that the prompt shows.
    """
    # A request holds the program as JSON. A character takes up to twelve bytes there.
    size = len(json_text.encode(submission.text))
    if size > MAX_PROGRAM_BYTES // 2:
        evidence = f"the program has {size:,} bytes as JSON; the limit is {MAX_PROGRAM_BYTES // 2:,}"
        return Verdict(Status.FAILED, 0.0, evidence=evidence, phase=Phase.EVALUATOR)
    tests = await asyncio.to_thread(target.load)
    metrics: dict[str, Any] = {"tests": len(tests), "tests_run": 0, "tests_passed": 0, "per_test": []}
    cpu_seconds = 0.0
    ends = time.monotonic() + (len(tests) * (target.seconds + 1) + 5) * PATIENCE
    verdict = Verdict(Status.FAILED, 0.0, metrics, "there are no tests")
    last = verdict
    is_slow = has_begun_badly = False
    # Only the largest problems need several batches, because each batch loads the program, which can count
    # the loads.
    for batch in batches(tests, 0, lambda test: len(test.arguments) + len(test.result), PART_BYTES):
        try:
            report = await run_calls(
                sandbox,
                program=submission.text,
                preamble=target.preamble,
                epilogue=_epilogue(target.function),
                function=FUNCTION,
                calls=[(test.arguments.encode(), test.result.encode()) for test in batch],
                shown=max(target.shown - metrics["tests_run"], 0),
                cpu_seconds=target.seconds,
                wall_seconds=target.seconds * WALL_SHARE * sandbox.time_factor,
                wall_seconds_in_all=max(ends - time.monotonic(), 1.0),
            )
        except SandboxOutOfMemory as error:
            return make_memory_verdict(error)
        is_slow = is_slow or report.is_borderline
        # The time is judged when all calls have been made.
        if metrics["tests_run"] == 0:
            has_begun_badly = report.error is not None and report.ran <= 1
        verdict_on_batch = grade_report(replace(report, cpu_limit=math.inf))
        cpu_seconds += report.cpu_seconds
        results = report.results[: report.ran]
        per_test = [Status.PASSED.value if passed else Status.FAILED.value for passed in results]
        if results and not results[-1]:
            per_test[-1] = verdict_on_batch.status.value
        if False in results[:-1]:
            # A wrong answer came before the event that ended the tests, so the wrong answer decides.
            verdict_on_batch = replace(
                verdict_on_batch, status=Status.FAILED, score=0.0, evidence=escape_text(report.evidence or "")
            )
        last = verdict_on_batch
        objects = sorted({*metrics.get("objects", ()), *report.objects})
        metrics = {
            **verdict_on_batch.metrics,
            **({"objects": objects} if objects else {}),
            "tests": len(tests),
            "tests_run": metrics["tests_run"] + report.ran,
            "tests_passed": metrics["tests_passed"] + sum(results),
            "per_test": metrics["per_test"] + per_test,
            "cpu_seconds": round(cpu_seconds, 4),
        }
        # The first test that did not pass decides, whatever follows it.
        if verdict.status is Status.PASSED or metrics["tests_run"] == report.ran:
            verdict = verdict_on_batch
        if report.ran < len(batch) or report.ended is not None or report.error is not None:
            break
    # The tampering signs and limits of the last batch apply to all batches.
    if has_begun_badly:
        broken = await find_broken_preamble(sandbox, target.preamble)
        if broken is not None:
            return broken
    verdict = replace(
        last, status=verdict.status, score=verdict.score, evidence=verdict.evidence, metrics=metrics
    )
    if not is_slow:
        return verdict
    evidence = f"a call, or the loading of the program, used more CPU time than {target.seconds:g} s"
    return replace(
        verdict,
        status=Status.TIMEOUT,
        score=0.0,
        evidence=evidence,
        limit=CPU,
        borderline=verdict.status is Status.PASSED,
    )


def _epilogue(function: str) -> str:
    """Return source that finds the function as the official runner does and parses its arguments as JSON."""
    # The body names nothing that the program can define. A call without arguments has one empty line.
    return (
        f"def {FUNCTION}(*lines, read=__import__('json').loads, "
        f"function=Solution().{function} if 'Solution' in globals() else {function}):\n"
        "    return function(*[read(line) for line in lines if line])\n"
    )


GRADERS = (
    SandboxGrader(
        CallTests,
        grade_calls,
        may_need_sockets=lambda target, submission: may_need_sockets((submission.text, target.preamble)),
    ),
)
