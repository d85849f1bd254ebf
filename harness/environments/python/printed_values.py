"""Grade programs by the values that they print, which another program, that they never meet, prints too.

The program of a submission prints the results of some calls. A program of the benchmark's author prints what
is expected, in a sandbox that no submission enters, after the submission is dead. The host compares.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from harness.core.errors import DataError
from harness.core.inputs.json_text import parse_json
from harness.core.text import escape_text
from harness.core.types import Phase, Status, Submission, Verdict
from harness.environments.python.client import InputRun, run_on_inputs
from harness.environments.python.languages import LANGUAGES, compile_program
from harness.environments.python.verdicts import (
    KEPT_STDERR,
    LEAST_STDOUT_BYTES,
    MAX_PROGRAM_BYTES,
    Outcome,
    add_runs,
    make_verdict,
)
from harness.environments.spec import SandboxGrader, Unjudged
from harness.sandbox.sandbox import Sandbox

_SHOWN = 60
_WALL_SHARE = 3.0


@dataclass(frozen=True, slots=True)
class PrintedValues:
    """The output that a program must have: the same values as another program, one a line after `mark`."""

    language: str
    # The end of the submission's program, which prints the results of calls.
    calls: str
    # The whole program that prints the expected values.
    expected: str
    # The number of values.
    tests: int
    mark: str = "=>"
    # Whether values are JSON, and equal as JavaScript's `==` has them.
    loose: bool = False
    # The CPU time of the program, in seconds.
    seconds: float = 10.0


async def grade_printed(
    sandbox: Sandbox, target: PrintedValues, submission: Submission
) -> Verdict | Unjudged:
    """Return the printed values, for the comparison after the program has ended, or the verdict on a failure.

    Raises SandboxError if the sandbox failed through no fault of the program.
    """
    program = f"{submission.text}\n{target.calls}"
    if len(program) > MAX_PROGRAM_BYTES:
        evidence = f"the program has {len(program):,} characters; the limit is {MAX_PROGRAM_BYTES:,}"
        return Verdict(Status.FAILED, 0.0, evidence=evidence, phase=Phase.EVALUATOR)
    run = await _run(sandbox, target, program)
    if not isinstance(run, Verdict) and (not run.succeeded or run.is_borderline):
        outcome = add_runs(Outcome((), None, None, 0.0), [run], [None], lambda _run, _test: None)
        run = make_verdict(outcome, 1, {"tests": target.tests, "tests_passed": 0})
    printed = run if isinstance(run, Verdict) else _read_values(run, target.mark)
    image = LANGUAGES[target.language].image
    return Unjudged(image, functools.partial(_judge, target, printed), target.language)


async def _run(sandbox: Sandbox, target: PrintedValues, program: str) -> InputRun | Verdict:
    built = await compile_program(sandbox, LANGUAGES[target.language], program)
    if isinstance(built, Verdict):
        return built
    (run,) = await run_on_inputs(
        sandbox,
        program=built,
        inputs=[b""],
        stdout_bytes=LEAST_STDOUT_BYTES,
        cpu_seconds=target.seconds,
        wall_seconds=target.seconds * _WALL_SHARE * sandbox.time_factor,
    )
    return run


async def _judge(target: PrintedValues, printed: list[str] | Verdict, sandbox: Sandbox) -> Verdict:
    """Return the verdict on printed values, or on a program that has failed before, unless the task fails."""
    run = await _run(sandbox, target, target.expected)
    expected = [] if isinstance(run, Verdict) else _read_values(run, target.mark)
    if len(expected) != target.tests:
        why = run.evidence if isinstance(run, Verdict) else str(run.stderr)[-KEPT_STDERR:]
        evidence = escape_text(f"the expected values of this task cannot be printed: {why}")
        return Verdict(Status.GRADER_ERROR, None, evidence=evidence, phase=Phase.EVALUATOR)
    if isinstance(printed, Verdict):
        return printed
    passed = [
        value == wanted or (target.loose and _equal_loosely(value, wanted))
        for value, wanted in zip(printed, expected, strict=False)
    ]
    metrics = {"tests": target.tests, "tests_passed": passed.count(True)}
    if len(printed) == len(expected) and all(passed):
        return Verdict(Status.PASSED, 1.0, metrics, phase=Phase.EVALUATOR)
    evidence = f"{len(printed)} values printed, {len(expected)} expected"
    if False in passed:
        place = passed.index(False)
        evidence = f"test {place + 1}: {_short(printed[place])} returned, {_short(expected[place])} expected"
    return Verdict(Status.FAILED, 0.0, metrics, escape_text(evidence), Phase.EVALUATOR)


def _read_values(run: InputRun, mark: str) -> list[str]:
    lines = (run.stdout.head + run.stdout.tail).decode("utf-8", "replace").split("\n")
    return [line.removeprefix(mark) for line in lines if line.startswith(mark)]


def _short(value: str) -> str:
    return value if len(value) <= _SHOWN else f"{value[: _SHOWN - 1]}…"


def _equal_loosely(value: str, wanted: str) -> bool:
    try:
        return _same(parse_json(value), parse_json(wanted))
    except (DataError, ValueError):
        return False


def _same(value: Any, wanted: Any) -> bool:
    """Return whether two values of JSON are equal by `assert.deepEqual`, which compares leaves by `==`."""
    if isinstance(value, list) and isinstance(wanted, list):
        return len(value) == len(wanted) and all(map(_same, value, wanted))
    if isinstance(value, dict) and isinstance(wanted, dict):
        return value.keys() == wanted.keys() and all(_same(value[name], wanted[name]) for name in wanted)
    if isinstance(value, (list, dict)) or isinstance(wanted, (list, dict)):
        return False
    if value is None or wanted is None or (isinstance(value, str) and isinstance(wanted, str)):
        return bool(value == wanted)
    try:
        return float(value or 0) == float(wanted or 0)
    except ValueError:
        return False


GRADERS = (
    SandboxGrader(
        PrintedValues,
        grade_printed,
        may_need_sockets=lambda _target, _submission: True,
        choose_image=lambda target: LANGUAGES[target.language].image,
        needs_own_sandbox=lambda _target: "a compiler writes files for the run of its program",
    ),
)
