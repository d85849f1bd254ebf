"""Find out once for each task whether its tests can tell a solution from none, and which controls it has.

The result belongs to the task and is kept in the cache, so that no patch decides its own rules.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import AsyncFileLock

from harness.core.errors import SandboxError
from harness.core.lock import cache_dir
from harness.core.logger import get_logger
from harness.environments.repository import controls, logs, machine, trial
from harness.environments.repository.controls import make_controls
from harness.environments.repository.logs import ERROR, FAILED, Statuses, find_status
from harness.environments.repository.machine import apply_patch, list_changed, note_moment, take_patch
from harness.environments.repository.trial import Trial, list_patched, open_trial, run_script

MAX_TEST_BYTES = 32 << 20
_DECIDING = (controls, logs, machine, trial)
_LOGGER = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Calibration:
    """The controls of a task, or the reason why its tests prove nothing."""

    problem: str | None = None
    # The script that runs the controls, and the ids of those that fail under the solution.
    script: str = ""
    controls: Sequence[str] = ()

    def find_held(self, statuses: Statuses | None) -> list[str]:
        """Return the controls that a run does not report as failed. A run without a log reports none."""
        return [test for test in self.controls if find_status(test, statuses or {}) not in (FAILED, ERROR)]


async def find_calibration(trial: Trial) -> Calibration:
    """Return the stored calibration of a task, or find and store it. Raises SandboxError."""
    path = _find_file(trial)
    # Attempts at a task begin together. A thread that waits would be missing where machines start.
    async with AsyncFileLock(path.with_suffix(".lock"), run_in_executor=False, fallback_to_soft=False):
        try:
            return Calibration(**json.loads(path.read_bytes()))
        except (OSError, ValueError, TypeError):
            found = await calibrate(trial)
        if found.problem is not None:
            _LOGGER.warning("the tests prove nothing: %s", found.problem)
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(found)), encoding="utf-8")
        draft.replace(path)
        return found


def _find_file(trial: Trial) -> Path:
    code = "".join(hashlib.sha256(Path(str(each.__file__)).read_bytes()).hexdigest() for each in _DECIDING)
    named = f"{trial.image.id}{trial.tests}{trial.limit_seconds}{code}"
    return cache_dir() / "repository" / f"{hashlib.sha256(named.encode()).hexdigest()[:32]}.json"


async def calibrate(trial: Trial) -> Calibration:
    """Run the tests on the untouched repository and on the solution, and the controls on the solution.

    Raises SandboxError.
    """
    tests = trial.tests
    async with open_trial(trial) as opened:
        untouched = await run_script(trial, opened, tests.script)
    counts = trial.count(untouched)
    if counts is not None and not counts.unrepaired:
        return Calibration("every test to repair passes without any patch")
    async with open_trial(trial, tests.gold) as opened:
        solved = await run_script(trial, opened, tests.script)
    counts = trial.count(solved)
    if counts is None or not counts.resolved:
        failed = () if counts is None else (*counts.unrepaired, *counts.broken)
        named = f"{len(failed)} tests fail, such as {failed[0]}; " if failed else "the log is not whole; "
        return Calibration(f"the solution does not pass: {named}{solved.shown}")
    script = await write_control_script(trial)
    if script is None:
        return Calibration("no test in it can be a control")
    async with open_trial(trial, tests.gold) as opened:
        changed = await run_script(trial, opened, script)
    fail = [
        test
        for test in (*tests.fail_to_pass, *tests.pass_to_pass)
        if find_status(test, changed.statuses or {}) in (FAILED, ERROR)
    ]
    if not set(fail) & set(tests.fail_to_pass):
        return Calibration("no control of a test to repair fails under the solution")
    return Calibration(None, script, fail)


async def write_control_script(trial: Trial) -> str | None:
    """Return the script of the tests with the controls in place of the tests that it brings.

    None if there are none, or the script does not hold the patch of the tests. Raises SandboxError.
    """
    tests = trial.tests
    if tests.test_patch.strip() not in tests.script:
        return None
    async with open_trial(trial) as opened:
        moment = await note_moment(opened)
        problem = await apply_patch(opened, tests.test_patch)
        if problem is not None:
            raise SandboxError(f"the patch of the tests does not apply: {problem}", acted_in=False)
        names = [f"{opened.cwd}/{path}" for path in list_patched(tests.test_patch) if path.endswith(".py")]
        contents = await opened.read_files(sorted(names), limit=MAX_TEST_BYTES)
        made = 0
        for path, content in contents.items():
            if (source := make_controls(content.decode("utf-8", "replace"))) is not None:
                await opened.put_file(path, source.encode("utf-8", "surrogateescape"))
                made += 1
        if not made:
            return None
        changed = await list_changed(opened, moment, with_ignored=True)
        patch = await take_patch(opened, changed)
    return tests.script.replace(tests.test_patch.strip("\n"), patch.strip("\n"))
