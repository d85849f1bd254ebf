"""Unusual programs, and usual ones under unusual tests, that are right in plain Python pass here."""

from __future__ import annotations

import ast
import builtins
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from case_checks import each_case
from effort import one_in_four
from program_collections import cases

from harness import Sandbox
from harness.benchmarks.livecodebench.generation import PREAMBLE
from harness.benchmarks.programs import class_attributes, top_level_names
from harness.core.types import ProgramTests, Status, Submission
from harness.environments.python.call_programs import CallTest, CallTests, grade_calls
from harness.environments.python.programs import grade_program
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.limits import Limits

pytestmark = pytest.mark.timeout(120)
in_one_loop = pytest.mark.asyncio(loop_scope="module")

RUNNER = Path(__file__).with_name("plain_python.py")


def calls(tests: str) -> list[tuple[str, str]]:
    """Return arguments, one JSON value a line, and result in JSON of each call."""
    read = [line.partition(" -> ") for line in tests.splitlines()]
    return [("\n".join(map(json.dumps, json.loads(given))), wanted) for given, _arrow, wanted in read]


MODULES = cases("unusual_modules.txt") | cases("unusual_tests.txt")
FUNCTIONS = cases("unusual_functions.txt")


def names_used(tests: str) -> list[str]:
    """Return the names that tests use and do not define, which the program must define."""
    nodes = list(ast.walk(ast.parse(tests)))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    imported = {(alias.asname or alias.name).partition(".")[0] for node in imports for alias in node.names}
    bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    bound |= {
        node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    bound |= {node.name or "" for node in nodes if isinstance(node, ast.ExceptHandler)}
    return sorted({node.id for node in names} - bound - imported - set(dir(builtins)))


def in_plain_python(written: list[dict[str, object]], folder: Path) -> list[str | None]:
    ran = subprocess.run(
        [sys.executable, RUNNER, folder],
        input=json.dumps(written),
        capture_output=True,
        text=True,
        check=True,
    )
    results: list[str | None] = json.loads(ran.stdout)
    return results


def after_preamble(program: str) -> str:
    """Return the preamble and a program as one source, with imports from __future__ first."""
    lines = program.splitlines(keepends=True)
    first = [line for line in lines if line.startswith("from __future__")]
    return "".join([*first, PREAMBLE, *(line for line in lines if line not in first)])


def test_each_program_is_right_in_plain_python(tmp_path: Path) -> None:
    # The results change only with the collections or with Python.
    modules, functions = one_in_four([*MODULES], 0), one_in_four([*FUNCTIONS], 0)
    written: list[dict[str, object]] = [
        {"program": program, "names": names_used(tests), "statements": [tests]}
        for program, tests in map(MODULES.__getitem__, modules)
    ]
    written += [
        {"program": after_preamble(program), "calls": calls(tests)}
        for program, tests in map(FUNCTIONS.__getitem__, functions)
    ]
    results = in_plain_python(written, tmp_path)
    wrong = {title: result for title, result in zip([*modules, *functions], results, strict=True) if result}
    assert not wrong, "\n".join(f"{title}: {text}" for title, text in wrong.items())


def test_the_collections_are_large() -> None:
    assert len(MODULES) >= 150
    assert len(FUNCTIONS) >= 150


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    limits = Limits(memory_mb=512, cpu_seconds=10, wall_seconds=30)
    async with Sandbox.open("python", backend=backend, limits=limits, seccomp="strict") as sandbox:
        yield sandbox


@in_one_loop
@each_case("title", one_in_four([*MODULES], 0))
async def test_a_right_program_passes_its_asserts(sandbox: Sandbox, title: str) -> None:
    program, tests = MODULES[title]
    used = names_used(tests)
    defined = top_level_names(ast.parse(program))
    classes = {
        name: class_attributes(node) for name in used if isinstance(node := defined.get(name), ast.ClassDef)
    }
    target = ProgramTests(statements=(tests,), exports={name: name for name in used}, classes=classes)
    verdict = await grade_program(sandbox, target, Submission(program, ""))
    assert verdict.status is Status.PASSED, verdict
    assert verdict.tampering is None


@in_one_loop
@each_case("title", one_in_four([*FUNCTIONS], 0))
async def test_a_right_program_passes_its_calls(sandbox: Sandbox, title: str) -> None:
    program, tests = FUNCTIONS[title]
    written = [CallTest(given, wanted) for given, wanted in calls(tests)]
    target = CallTests(tuple(written), "solve", 1, PREAMBLE)
    verdict = await grade_calls(sandbox, target, Submission(program, ""))
    assert verdict.status is Status.PASSED, verdict
    assert verdict.tampering is None
