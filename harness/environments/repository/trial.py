"""Run the tests of a repository in machines of their own, and find out once what they prove.

That tells whether the tests of a task can tell a solution from none, and which controls it has. The result
belongs to the task and is kept in the cache, so that no patch decides its own rules.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import AsyncFileLock

from harness.core.errors import SandboxError
from harness.core.lock import cache_dir
from harness.core.logger import get_logger
from harness.core.text import escape_text, shorten
from harness.environments.base import EnvironmentContext
from harness.environments.container.machine import Machine
from harness.environments.repository import controls, logs
from harness.environments.repository import machine as repository_machine
from harness.environments.repository.controls import make_controls
from harness.environments.repository.logs import (
    ERROR,
    FAILED,
    RepairCounts,
    Statuses,
    count_tests,
    find_status,
    read_log,
)
from harness.environments.repository.machine import (
    RepositoryTests,
    apply_patch,
    list_changed,
    note_moment,
    open_prepared,
    put_text,
    take_patch,
)
from harness.sandbox.backends.base import BuiltImage

# The limit of one run of the tests. Source: the default of swebench's `--timeout`.
TESTS_SECONDS = 1800.0
MARGIN_SECONDS = 900.0
MAX_LOG_BYTES = 64 << 20
SHOWN_CHARACTERS = 1500
MAX_TEST_BYTES = 32 << 20
# The rules that a calibration depends on.
_DECIDING = (controls.__file__, logs.__file__, repository_machine.__file__, __file__)
# The time between two attempts to get the lock of a task.
LOCK_SECONDS = 0.2
_LOGGER = get_logger(__name__)
_SCRIPT, _LOG = "/eval.sh", "/eval.log"
# Without a network, pip builds with the packages of the image, and does not wait for an index. pip reads this
# `0` as the option `--no-build-isolation`.
_OFFLINE = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
# The paths in the headers of a patch that git has made, without their quotes.
_PATCHED = re.compile(r"^(?:---|\+\+\+) [ab]/(.+?)\t?$|^(?:rename|copy) (?:from|to) (.+)$", re.MULTILINE)


def list_patched(patch: str) -> frozenset[str]:
    """Return the paths that a published patch changes."""
    return frozenset(one or other for one, other in _PATCHED.findall(patch))


@dataclass(frozen=True, slots=True)
class Trial:
    """The tests of a task, and the place where they run."""

    context: EnvironmentContext
    image: BuiltImage
    tests: RepositoryTests
    seconds: float | None

    @property
    def limit_seconds(self) -> float:
        """The limit of one run of the tests."""
        return self.seconds or TESTS_SECONDS

    def count(self, log: TestLog) -> RepairCounts | None:
        """Return the tests that fail in a log, None if the log does not describe a whole run."""
        if log.statuses is None:
            return None
        return count_tests(self.tests.fail_to_pass, self.tests.pass_to_pass, log.statuses)


@dataclass(frozen=True, slots=True)
class TestLog:
    """The end of a run of the tests. Without statuses, its log does not describe a whole run."""

    __test__ = False

    statuses: Statuses | None
    # The limit that ended the tests.
    limit: str | None
    seconds: float
    # The end of the log, for people.
    shown: str


@contextlib.asynccontextmanager
async def open_trial(trial: Trial, patch: str = "") -> AsyncIterator[Machine]:
    """Start a machine of the repository without a network, with a patch that applies, and yield it.

    Raises SandboxError.
    """
    seconds = trial.limit_seconds + MARGIN_SECONDS
    opening = open_prepared(trial.context, trial.image, trial.tests.setup, seconds=seconds, nested=True)
    async with opening as machine:
        problem = await apply_patch(machine, patch) if patch else None
        if problem is not None:
            raise SandboxError(f"the patch no longer applies: {problem}", acted_in=False)
        yield machine


async def run_script(trial: Trial, machine: Machine, script: str) -> TestLog:
    """Run a script of tests in a machine of `open_trial`, end all processes there, and return its log.

    Raises SandboxError.
    """
    await put_text(machine, _SCRIPT, script)
    started = time.monotonic()
    result = await machine.exec(
        f"exec /bin/bash {_SCRIPT} > {_LOG} 2>&1", user="0", env=_OFFLINE, timeout=trial.limit_seconds
    )
    seconds = time.monotonic() - started
    await machine.kill_processes()
    found = (await machine.sandbox.describe([_LOG])).get(_LOG)
    content = b""
    if found is not None and found.kind == "file":
        content = await machine.sandbox.read_ranges([(_LOG, 0, min(found.size, MAX_LOG_BYTES))])
    log = content.decode("utf-8", "replace")
    statuses = None if result.limit is not None else read_log(log, trial.tests.parser)
    shown = escape_text(shorten(log.strip(), SHOWN_CHARACTERS, keep_end=True))
    return TestLog(statuses, result.limit, seconds, shown)


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
    lock = AsyncFileLock(
        path.with_suffix(".lock"), poll_interval=LOCK_SECONDS, run_in_executor=False, fallback_to_soft=False
    )
    async with lock:
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
    code = "".join(hashlib.sha256(Path(each).read_bytes()).hexdigest() for each in _DECIDING)
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
                await put_text(opened, path, source)
                made += 1
        if not made:
            return None
        changed = await list_changed(opened, moment, with_ignored=True)
        patch = await take_patch(opened, changed)
    return tests.script.replace(tests.test_patch.strip("\n"), patch.strip("\n"))
