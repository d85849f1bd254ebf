"""Run the tests of a repository once, in a machine of their own."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from harness.core.errors import SandboxError
from harness.core.text import escape_text, shorten
from harness.environments.base import EnvironmentContext
from harness.environments.container.machine import Machine
from harness.environments.repository.logs import RepairCounts, Statuses, count_tests, read_log
from harness.environments.repository.machine import RepositoryTests, apply_patch, open_prepared
from harness.sandbox.backends.base import BuiltImage

# The limit of one run of the tests. Source: the default of swebench's `--timeout`.
TESTS_SECONDS = 1800.0
MARGIN_SECONDS = 900.0
MAX_LOG_BYTES = 64 << 20
SHOWN_CHARACTERS = 1500
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
    await machine.put_file(_SCRIPT, script.encode("utf-8", "surrogateescape"))
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
