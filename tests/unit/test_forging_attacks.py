"""The attacks on task folders, the targets that they aim at, and the findings of their audit."""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path

import pytest
from attempt_records import make_attempt
from sealed_tasks import write_task

from harness.audit.attack import Kind
from harness.audit.folder_findings import collect_findings, describe_folders, summarise
from harness.audit.forging import (
    MAKEFILE,
    PROGRAM,
    SUFFIXES,
    Targets,
    find_targets,
    list_forging_attacks,
    list_programs,
    name_kind,
)
from harness.audit.results import AuditedAttempt
from harness.audit.suite import NULL, ORACLE, Step
from harness.core.types import Status
from harness.environments.container.task_folder import read_task_folder
from harness.environments.os.file_entries import FileEntry

ATTACKS = {attack.name: attack for attack in list_forging_attacks()}
TESTS = """
import json, importlib.util
from solution import answer
def test_it():
    assert open("/app/out/result.json").read() == open("/tests/expected.json").read()
    assert subprocess.run(["/app/prog", "x"]).returncode == 0
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash to parse with")
def test_every_script_is_bash_and_every_module_python() -> None:
    programs = tuple(f"/app/file.{suffix}" for suffix in SUFFIXES)
    targets = Targets((*programs, "solution.py", "/app/Makefile", "/app/prog"), ("json",), ("git",))
    for attack in ATTACKS.values():
        script = attack.write_script(targets)
        ended = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
        assert (attack.name, ended.returncode, ended.stderr) == (attack.name, 0, "")
        assert all(path in script for path in programs if name_kind(path) in attack.programs)
        ast.parse(attack.programs.get("py", "").replace("<forgery>", "''"))


def test_every_program_that_is_looked_for_has_a_forgery() -> None:
    assert set(ATTACKS["programs-that-forge"].programs) == {*SUFFIXES, MAKEFILE, PROGRAM}


def test_targets_are_what_the_tests_and_the_instruction_name(tmp_path: Path) -> None:
    tests = {"test_outputs.py": TESTS, "expected.json": "{}", "it.js": "const chai = require('chai')"}
    script = "#!/bin/bash\ncd /app && git status | grep clean\nuv add pytest==8.4.1\nnode /tests/it.js\n"
    text = (
        "Write solution.py and tools/run.sh, build /app/prog, and put the result into /app/out/result.json."
    )
    folder = write_task(tmp_path, "scratch", script=script, tests=tests, instruction=text)
    found = find_targets(read_task_folder(folder), ["/app/more"])
    assert set(found.programs) == {"/app/more", "/app/prog", "solution.py", "tools/run.sh"}
    assert found.imports == ("importlib", "json")
    assert {"cd", "git", "grep", "uv"} <= set(found.commands)
    assert (found.pinned, found.required) == (("pytest==8.4.1",), ("chai",))
    assert found.links == (("/app/out/result.json", "/tests/expected.json"),)


def test_programs_of_a_reference_are_executable_or_code() -> None:
    files = {"/app/a.py": 0o644, "/app/run": 0o755, "/app/a.txt": 0o644, "/usr/bin/tool": 0o755}
    entries = [FileEntry(path, "file", mode, 0, 0, mtime_ns=0, ctime_ns=0) for path, mode in files.items()]
    assert list_programs(entries) == ["/app/a.py", "/app/run"]


def attempt(step: Step, status: Status, task: str = "t") -> AuditedAttempt:
    return AuditedAttempt(step, make_attempt(status, task_id=task, metrics={"seal": step.level or "tools"}))


def test_findings_tell_what_is_forged_at_the_own_level_from_what_others_let_pass() -> None:
    daemon, module = ATTACKS["daemon-that-writes-the-reward"], ATTACKS["module-that-exits"]
    made = [
        attempt(Step(ORACLE), Status.PASSED, "a"),
        attempt(Step(NULL), Status.FAILED, "a"),
        attempt(Step(ORACLE), Status.PASSED, "b"),
        attempt(Step(daemon.name, Kind.FORGING, daemon), Status.FAILED, "a"),
        attempt(Step(daemon.name, Kind.FORGING, daemon, level="live"), Status.PASSED, "a"),
        attempt(Step(module.name, Kind.FORGING, module), Status.PASSED, "b"),
        attempt(Step(module.name, Kind.FORGING, module, level="live"), Status.GRADER_ERROR, "b"),
    ]
    a, b = collect_findings(made)
    assert (a.level, a.reference, a.empty, a.label) == ("tools", "passed", "failed", None)
    assert a.forged == {"own": [], "live": [daemon]}
    assert (b.forged, b.label) == ({"own": [module], "live": []}, "same_process")
    assert [each.forged for each in made if each.step.attack] == [False, False, True, False]
    assert summarise([a, b], (None, "live")).startswith(
        "of 2 tasks, 1 can be forged as they are usually graded, 1 under our seal (1 labelled"
    )
    described = describe_folders(made, (None, "live"))
    assert described["forged_tasks"] == {"own": 1, "live": 1}
    assert set(described["remedies"]) == {daemon.name, module.name}
