"""Run the tests of a task where no code of the agent runs as their user, and judge by what they report.

The files of the agent are carried as at the level `work`. Then they get owners and modes that keep them from
the tests' processes, and pytest gets a plugin that loads the agent's modules in another process (`plugin`).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.core.text import escape_text, shorten
from harness.environments.container.machine import SH, Machine
from harness.environments.container.proxied import separation
from harness.environments.container.verifier import Tests, TestsRun, run_tests
from harness.environments.os.file_entries import UnreadableFiles
from harness.sandbox.layout import FOREIGN_GUEST_COMMAND

# The packages of `harness` whose modules the machine gets, under another name, because a task may have its
# own `harness`.
_PACKAGES = ("environments/python/guest", "environments/container/proxied")
_TOP, _NAME = Path(__file__).parents[3], "harness_proxied"
_IMPORT = re.compile(r"^(\s*(?:from|import) )harness\.environments\b", re.MULTILINE)
_PLUGIN = f"{_NAME}.environments.container.proxied.plugin"
_NEEDS_PYTEST = re.compile(r"\bpytest\b")
MAX_REPORTS, MAX_REPORT_BYTES = 100, 16 << 20
# The metric with the modules and programs of the agent that the tests ran, or that were refused to them.
AGENT_CODE = "agent_code"
# The metric with the names that the tests used objects of the reference by.
OBJECT_NAMES = "object_names"
NOT_WATCHED = "the plugin of the level 'proxied' was not active in pytest, or did not see its end"


def can_be_proxied(tests: Tests) -> bool:
    """Return whether the tests may have the level: they run pytest, as root."""
    return tests.user in (None, "0", "root") and _NEEDS_PYTEST.search(tests.script) is not None


@functools.cache
def list_modules() -> Mapping[str, bytes]:
    """Return the plugin and the modules that it needs, by their paths in the machine."""
    files: dict[str, bytes] = {}
    for package in _PACKAGES:
        for path in sorted((_TOP / package).glob("*.py")):
            name = f"{_NAME}/{package}/{path.name}"
            text = "" if path.name == "__init__.py" else path.read_text("utf-8")
            files[name] = _IMPORT.sub(rf"\1{_NAME}.environments", text).encode()
            for parent in list(Path(name).parents)[:-1]:
                files.setdefault(f"{parent}/__init__.py", b"")
    return files


async def run_proxied(machine: Machine, tests: Tests) -> TestsRun:
    """Return the run of the tests in a machine whose carried files were set apart.

    Its facts are what pytest's process reported, out of the agent's reach. Raises as `run_tests` does.
    """
    await machine.put_contents(list_modules(), separation.FOLDER, fresh=True)
    program = f"{separation.FOLDER}/{_NAME}/environments/container/proxied/separation.py"
    variables = {**machine.env, **tests.env}
    given = {"PYTHONPATH": separation.FOLDER, "PYTEST_PLUGINS": _PLUGIN}
    for name, separator in (("PYTHONPATH", ":"), ("PYTEST_PLUGINS", ",")):
        if variables.get(name):
            given[name] += separator + variables[name]
    restored = "\n".join(f"{name}={variables[name]}" if name in variables else name for name in given)
    if tests.object_names is not None:
        given[separation.OBJECT_NAMES] = " ".join(tests.object_names)
    apart = replace(
        tests,
        command=(*FOREIGN_GUEST_COMMAND[:-2], program, SH, "-c"),
        env={**tests.env, **given, separation.RESTORED: restored},
        hidden=(),
    )
    run = await run_tests(machine, apart)
    reports = await _read_reports(machine)

    def all_of(*keys: str) -> tuple[str, ...]:
        listed = (text for report in reports for key in keys for text in report[key])
        return tuple(dict.fromkeys(escape_text(shorten(str(text), 300)) for text in listed))

    is_whole = bool(reports) and all(each["finished"] and each["collected"] for each in reports)
    facts = {
        AGENT_CODE: all_of("imported", "started", "refused"),
        "object_kinds": all_of("kinds"),
        OBJECT_NAMES: all_of("names"),
    }
    return replace(
        run,
        unreported=all_of("unreported") if is_whole else (NOT_WATCHED,),
        facts={name: list(value) for name, value in facts.items() if value},
    )


async def _read_reports(machine: Machine) -> list[Mapping[str, Any]]:
    """Return what the runs of pytest reported, nothing if it cannot be read. Every process must be dead."""
    found = (await machine.sandbox.describe([separation.REPORTS])).get(separation.REPORTS)
    names = () if found is None else found.names
    paths = [f"{separation.REPORTS}/{name}" for name in names if name.endswith(".json")]
    if len(paths) > MAX_REPORTS:
        return []
    try:
        contents = await machine.read_files(paths, limit=MAX_REPORT_BYTES)
        return [json.loads(content) for content in contents.values()]
    except (UnreadableFiles, ValueError):
        return []
