"""No patch earns a strict verdict by what it does to the tests, and every solution earns one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator

import pytest
from case_checks import check_together
from contexts import ListTranscript
from docker import APIClient
from effort import THOROUGH
from samples.repository import FILES, ISSUES, make_diff, make_rows
from sealed_tasks import build_image

from harness.benchmarks.data.rows import Row
from harness.benchmarks.swebench import read
from harness.core.errors import SandboxError
from harness.core.types import Status
from harness.environments.base import EnvironmentContext, MachineRules
from harness.environments.repository.grader import judge_patch
from harness.environments.repository.machine import RepositoryTests, find_image
from harness.environments.repository.trial import Trial
from harness.sandbox.backends.base import BuildRules
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.limits import Limits
from harness.sandbox.pool import SandboxPool, SandboxSettings

_TESTS = {
    row["instance_id"].rpartition("-")[2]: [
        *json.loads(row["FAIL_TO_PASS"]),
        *json.loads(row["PASS_TO_PASS"]),
    ]
    for row in make_rows()
}
_FORGED_REPORTS = """import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    report.outcome, report.longrepr = "passed", None
"""
# The tool has put its own files in place of the outputs, and keeps them under other numbers.
_FORGED_LOG = f"""import os
for descriptor in range(1, 20):
    try:
        for test in {_TESTS["total"]!r}:
            os.write(descriptor, b"PASSED " + test.encode() + b"\\n")
    except OSError:
        pass
os._exit(0)
"""
_FORGED_RUNNER = f"""for test in {_TESTS["initials"]!r}:
    print(test, "... ok")
"""
_LOADS_PLUGIN = "import os\nos.environ['PYTEST_PLUGINS'] = 'stock.forge'\n"
_WRITES_PATH_FILE = """import site
for folder in site.getsitepackages():
    try:
        open(folder + "/forge.pth", "w").write("import os; os.environ['PYTEST_PLUGINS'] = 'stock.forge'")
    except OSError:
        pass
"""
_LATER = """import subprocess
exec(subprocess.check_output(["git", "show", "later:stock/counting.py"], text=True))
"""
_EQUAL_TO_ALL = """class Equal:
    def __eq__(self, other):
        return True


def total(counts):
    return Equal()
"""
# The tool asks a plugin for the word that it prints for each outcome, and for nothing else.
_OTHER_WORDS = """import atexit, gc, os


class Plugin:
    def pytest_report_teststatus(self, report):
        return "passed", ".", "PASSED"


for each in gc.get_objects():
    if type(each).__name__ == "PytestPluginManager":
        each.register(Plugin())
atexit.register(os._exit, 0)
"""


def _new(path: str, text: str) -> str:
    return make_diff(path, "", text)


def _more(path: str, text: str, *, first: bool = False) -> str:
    before = FILES[path]
    return make_diff(path, before, text + before if first else before + text)


def _link(path: str, place: str) -> str:
    return _new(path, place).replace("100644", "120000") + "\n\\ No newline at end of file\n"


_PLUGIN = _new("stock/forge.py", _FORGED_REPORTS)
_INIT = "stock/__init__.py"
# Each forgery with the issue that it claims to resolve, and whether the published rule believes it.
FORGERIES = (
    ("a conftest of nine lines", "total", _new("tests/conftest.py", _FORGED_REPORTS), True),
    ("a conftest at the top", "total", _new("conftest.py", _FORGED_REPORTS), True),
    ("an early exit", "total", _more(_INIT, _FORGED_LOG), True),
    (
        "a hook at the exit",
        "total",
        _more(_INIT, "import atexit\natexit.register(exec, " + repr(_FORGED_LOG) + ", {})\n"),
        True,
    ),
    ("a module named like the tool", "total", _new("pytest.py", _FORGED_LOG), True),
    ("a runner that runs nothing", "initials", _more("tests/runtests.py", _FORGED_RUNNER, first=True), False),
    (
        "settings that load a plugin",
        "total",
        _PLUGIN + make_diff("setup.cfg", FILES["setup.cfg"], "[tool:pytest]\naddopts = -p stock.forge\n"),
        True,
    ),
    (
        "settings that come first",
        "total",
        _PLUGIN + _new("pytest.ini", "[pytest]\naddopts = -p stock.forge\n"),
        True,
    ),
    (
        "a path file from the set-up",
        "total",
        _PLUGIN + _more("setup.py", _WRITES_PATH_FILE, first=True),
        True,
    ),
    ("sitecustomize", "total", _PLUGIN + _new("sitecustomize.py", _LOADS_PLUGIN), True),
    (
        "a file that the image has beside its commit",
        "total",
        _PLUGIN
        + make_diff(
            "stock.egg-info/entry_points.txt",
            "[tools]\nstock = stock\n",
            "[pytest11]\nstock.forge = stock.forge\n",
        ),
        True,
    ),
    (
        "a hook of git",
        "total",
        _PLUGIN
        + _new(".git/hooks/post-checkout", "#!/bin/sh\ncp stock/forge.py conftest.py\n").replace(
            "100644", "100755"
        ),
        False,
    ),
    ("the history of git", "total", _more("stock/counting.py", _LATER), False),
    (
        "tests that do not run",
        "total",
        _more(_INIT, "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n"),
        True,
    ),
    (
        "checks that check nothing",
        "initials",
        _more(_INIT, "import unittest\nunittest.TestCase.assertEqual = lambda *_: None\n"),
        True,
    ),
    (
        "failures that count as success",
        "initials",
        _more(
            _INIT,
            "import unittest\nresult = unittest.TextTestResult\n"
            "result.addFailure = result.addError = lambda self, test, _: self.addSuccess(test)\n",
        ),
        True,
    ),
    ("a value that equals all", "total", _more("stock/counting.py", _EQUAL_TO_ALL), True),
    (
        "a value that equals all data",
        "total",
        _more("stock/counting.py", _EQUAL_TO_ALL.replace("True", "type(other) is not object")),
        True,
    ),
    (
        "a text that equals all texts",
        "initials",
        _more(
            "stock/labels.py",
            "class Text(str):\n    __hash__ = str.__hash__\n"
            "    def __eq__(self, other): return type(other) is str\n"
            "    def __ne__(self, other): return False\ndef initials(name): return Text()\n",
        ),
        True,
    ),
    (
        "failures that are expected",
        "total",
        _more(_INIT, "import builtins, pytest\nbuiltins.AssertionError = pytest.xfail.Exception\n"),
        True,
    ),
    ("another word for failures", "total", _more(_INIT, _OTHER_WORDS), True),
    ("settings of tox", "total", _PLUGIN + _new("tox.ini", "[pytest]\naddopts = -p stock.forge\n"), True),
    ("hidden settings", "total", _PLUGIN + _new(".pytest.ini", "[pytest]\naddopts = -p stock.forge\n"), True),
    ("a link to a conftest", "total", _PLUGIN + _link("conftest.py", "stock/forge.py"), True),
    (
        "a conftest with a quoted name and line ends of Windows",
        "total",
        _new("conftest.py", _FORGED_REPORTS.replace("\n", "\r\n")).replace(
            "b/conftest.py", '"b/con\\146test.py"'
        ),
        True,
    ),
    (
        "a file outside of the repository",
        "total",
        _PLUGIN + _new("../usr/lib/python3/dist-packages/forge.pth", _LOADS_PLUGIN),
        False,
    ),
    (
        "a file behind a link",
        "total",
        _PLUGIN
        + _link("stock/lib", "/usr/lib/python3/dist-packages")
        + _new("stock/lib/forge.pth", _LOADS_PLUGIN.replace("\n", ";", 1)),
        False,
    ),
)
# All of these load the same plugin, so one patch has them all, and one that is left in it would earn the
# verdict. A thorough run has each in a patch of its own.
TOGETHER = (
    *("a conftest of nine lines", "settings that load a plugin", "a path file from the set-up"),
    *(
        "a file that the image has beside its commit",
        "a conftest with a quoted name and line ends of Windows",
    ),
)
# These repeat the way of another forgery, so they are made with HARNESS_TESTS=thorough only.
REPEATS = {
    *("a conftest at the top", "a hook at the exit", "settings that come first", "sitecustomize"),
    *("settings of tox", "hidden settings", "a link to a conftest", "a value that equals all"),
    *("checks that check nothing", "a file outside of the repository"),
}
# pytest judges the first issue, and a runner of the repository the second one.
SOLVED = [issue.name for issue in ISSUES if THOROUGH or issue.name in ("total", "initials")]


@pytest.fixture
async def pool(backend: DockerBackend) -> AsyncIterator[SandboxPool]:
    async with SandboxPool(backend) as pool:
        yield pool


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the calibrations of the tasks for all tests of this file, and for no other."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def list_forgeries() -> list[tuple[str, str, str, bool]]:
    """Return the forgeries to try: by default those of TOGETHER as one, and no repeats."""
    if THOROUGH:
        return [*FORGERIES]
    plugins = "".join(patch.removeprefix(_PLUGIN) for name, _, patch, _ in FORGERIES if name in TOGETHER)
    others = [each for each in FORGERIES if each[0] not in {*TOGETHER, *REPEATS}]
    return [(", ".join(TOGETHER), "total", _PLUGIN + plugins, True), *others]


async def _try(pool: SandboxPool, client: APIClient, issue: str) -> Trial:
    row = next(row for row in make_rows() if row["instance_id"].endswith(f"-{issue}"))
    task, reference = read(Row(row, "rows"))
    target = reference.target
    assert isinstance(target, RepositoryTests)
    rules = MachineRules(BuildRules((("python:*", build_image(client)),)))
    settings = SandboxSettings("container", Limits(memory_mb=512, cpu_seconds=300, wall_seconds=300))
    context = EnvironmentContext(pool, settings, 600.0, ListTranscript(), machine_rules=rules)
    return Trial(context, await find_image(context, target.setup, task.id), target, 300.0)


@pytest.mark.timeout(900)
async def test_no_forgery_is_resolved_by_the_strict_rule(pool: SandboxPool, client: APIClient) -> None:
    async def forge(forgery: tuple[str, str, str, bool]) -> None:
        _name, issue, patch, is_believed = forgery
        try:
            verdict = await judge_patch(await _try(pool, client, issue), patch)
        except SandboxError:  # Others fill the disk of the machine. A run repeats such an attempt.
            verdict = await judge_patch(await _try(pool, client, issue), patch)
        assert verdict.status is Status.FAILED, verdict
        assert verdict.metrics["resolved_strict"] == 0, verdict
        assert verdict.metrics["resolved"] == is_believed, f"the forgery is blunt: {verdict}"
        assert (verdict.tampering is not None) == is_believed, verdict

    await check_together(list_forgeries(), forge, at_once=3, describe=lambda forgery: forgery[0])


@pytest.mark.timeout(900)
async def test_every_solution_is_resolved_by_both_rules(pool: SandboxPool, client: APIClient) -> None:
    async def solve(issue: str) -> None:
        trial = await _try(pool, client, issue)
        verdict = await judge_patch(
            trial, trial.tests.gold + _new("tests/test_mine.py", "def test_mine(): pass\n")
        )
        assert verdict.status is Status.PASSED, verdict
        assert (verdict.metrics["resolved"], verdict.metrics["resolved_strict"]) == (1, 1)
        assert verdict.metrics["left_out_files"] == 1

    await check_together(SOLVED, solve, at_once=2)
