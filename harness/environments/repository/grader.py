"""Judge a patch of a repository by hidden tests: by SWE-bench's own rule, and by a strict one beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.core.text import escape_text, shorten
from harness.core.types import Phase, Status, Submission, Verdict
from harness.environments.container.machine import Machine
from harness.environments.os.file_entries import UnreadableFiles
from harness.environments.repository.environment import RepositoryEnvironment
from harness.environments.repository.logs import END, START, RepairCounts
from harness.environments.repository.machine import (
    Moment,
    RepositoryTests,
    apply_patch,
    list_changed,
    note_moment,
    steers_tests,
    take_patch,
)
from harness.environments.repository.trial import (
    Trial,
    find_calibration,
    list_patched,
    open_trial,
    run_script,
)
from harness.environments.spec import StateGrader

# The most runs of the tests for one patch: as it is, without its changes of the tests, with the controls, and
# three for the calibration of the task.
MOST_RUNS = 6
RESOLVED, RESOLVED_STRICT = "resolved", "resolved_strict"
# The signs of tampering.
TEST_INFRASTRUCTURE_CHANGED, OUTCOMES_FORGED = "test_infrastructure_changed", "outcomes_forged"
UNREADABLE_FILES = "unreadable_files"
# The label of a pass whose tests import the patched package into their own process.
SAME_PROCESS = "same_process"


async def grade(
    environment: RepositoryEnvironment, target: RepositoryTests, submission: Submission
) -> Verdict:
    """Return the verdict on the patch that an agent handed in, or on the files that it left if it acted.

    Raises SandboxError.
    """
    patch = submission.text
    try:
        if environment.agent_acted:
            patch = await environment.take_patch(list_patched(target.test_patch))
            environment.context.transcript.write({"kind": "patch", "patch": patch})
        if not patch.strip():
            return _fail("the patch is empty", {})
        trial = Trial(environment.context, environment.image, target, environment.tests_seconds)
        return await judge_patch(trial, patch)
    except UnreadableFiles as error:
        evidence = escape_text(f"the changed files cannot be read: {error}")
        return _fail(evidence, {}, tampering=UNREADABLE_FILES)


async def judge_patch(trial: Trial, patch: str) -> Verdict:
    """Return the verdict on a patch. It passes by the strict rule. Raises SandboxError."""
    target = trial.tests
    async with open_trial(trial) as machine:
        moment = await note_moment(machine)
        problem = await apply_patch(machine, patch)
        if problem is not None:
            evidence = f"the patch does not apply: {escape_text(problem)}"
            return _fail(evidence, {"reason": "patch_does_not_apply"})
        divided = await divide_patch(machine, moment, target)
        first = await run_script(trial, machine, target.script)
    counts = trial.count(first)
    metrics: dict[str, Any] = {"tests_seconds": round(first.seconds, 3)}
    metrics |= describe_counts(target, counts)
    if divided.left_out:
        metrics["left_out_files"] = len(divided.left_out)
    if first.limit is not None and first.statuses is None:
        return _end_at_limit(first.limit, first.shown, metrics)
    is_resolved = counts is not None and counts.resolved
    if not is_resolved and not divided.left_out:
        return _fail(explain(counts, first.shown), metrics)
    calibration = await find_calibration(trial)
    if calibration.problem is not None:
        evidence = f"the tests of this task prove nothing here: {calibration.problem}"
        metrics = {RESOLVED_STRICT: 0.0, RESOLVED: float(is_resolved), **metrics}
        return Verdict(Status.GRADER_ERROR, None, metrics, evidence, Phase.EVALUATOR)
    if divided.left_out:
        async with open_trial(trial, divided.patch) as machine:
            again = await run_script(trial, machine, target.script)
        counts = trial.count(again)
        if counts is None or not counts.resolved:
            named = ", ".join(divided.left_out[:5])
            why = explain(counts, again.shown)
            evidence = f"without the changes of {escape_text(named)}, which decide how tests run: {why}"
            sign = TEST_INFRASTRUCTURE_CHANGED if is_resolved else None
            return _fail(evidence, {RESOLVED: float(is_resolved), **metrics}, tampering=sign)
    async with open_trial(trial, divided.patch) as machine:
        controls = await run_script(trial, machine, calibration.script)
    metrics = {RESOLVED: float(is_resolved), **metrics, "controls": len(calibration.controls)}
    if controls.limit is not None:
        return _end_at_limit(controls.limit, controls.shown, metrics)
    held = calibration.find_held(controls.statuses)
    if held:
        evidence = (
            f"{len(held)} of {len(calibration.controls)} tests do not fail, such as "
            f"{escape_text(held[0])}, although no "
            f"check in them can hold: {controls.shown}"
        )
        return _fail(evidence, metrics, tampering=OUTCOMES_FORGED)
    return Verdict(Status.PASSED, 1.0, {**metrics, RESOLVED_STRICT: 1.0, SAME_PROCESS: 1})


@dataclass(frozen=True, slots=True)
class DividedPatch:
    """A patch without its changes of the tests, and the paths of these changes."""

    patch: str
    left_out: tuple[str, ...]


async def divide_patch(machine: Machine, moment: Moment, target: RepositoryTests) -> DividedPatch:
    """Return a patch that was applied in a machine, without its changes of tests and of how they run.

    Files that the solution changes too are never left out. Files that the tests bring always are, and so are
    those that the image has beside its commit.
    """
    changed = await list_changed(machine, moment, with_ignored=True)
    own, brought = list_patched(target.gold), list_patched(target.test_patch)
    command = target.script.partition(START)[2].partition(END)[0]

    def is_left_out(path: str) -> bool:
        if path in brought or path in moment.untracked or path.startswith("../"):
            return True
        return path not in own and steers_tests(path, command)

    left_out = [path for path in changed if is_left_out(path)]
    kept = [path for path in changed if path not in set(left_out)]
    return DividedPatch(await take_patch(machine, kept), tuple(left_out))


def describe_counts(target: RepositoryTests, counts: RepairCounts | None) -> Mapping[str, Any]:
    """Return the metrics of a run of the tests."""
    wanted, kept = len(target.fail_to_pass), len(target.pass_to_pass)
    failed = (wanted, kept) if counts is None else (len(counts.unrepaired), len(counts.broken))
    return {"fail_to_pass": f"{wanted - failed[0]}/{wanted}", "pass_to_pass": f"{kept - failed[1]}/{kept}"}


def explain(counts: RepairCounts | None, shown: str) -> str:
    """Return why a run of the tests does not show a repair, for people."""
    if counts is None:
        return f"the log does not describe a whole run of the tests: {shown}"
    parts = [
        f"{len(tests)} {what}, such as {shorten(tests[0], 200)}"
        for tests, what in ((counts.unrepaired, "tests to repair fail"), (counts.broken, "tests are broken"))
        if tests
    ]
    return escape_text("; ".join(parts))


def _fail(evidence: str, metrics: Mapping[str, Any], *, tampering: str | None = None) -> Verdict:
    found = {RESOLVED: 0.0, RESOLVED_STRICT: 0.0, **metrics}
    return Verdict(Status.FAILED, 0.0, found, evidence, Phase.EVALUATOR, tampering=tampering)


def _end_at_limit(limit: str, shown: str, metrics: Mapping[str, Any]) -> Verdict:
    evidence = f"the tests reached the limit {limit}: {shown}"
    status = Status.TIMEOUT if limit in ("wall_seconds", "cpu_seconds") else Status.OUTPUT_LIMIT
    found = {RESOLVED: 0.0, RESOLVED_STRICT: 0.0, **metrics}
    return Verdict(status, 0.0, found, evidence, Phase.EVALUATOR, limit)


GRADERS = (StateGrader(RepositoryTests, grade),)
