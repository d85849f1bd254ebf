"""Grade programs by the method of LiveCodeBench's published runner, without isolation.

For each program, a process of a pool starts a manager and a worker. The worker compiles the program once and
runs all tests in itself, up to the first failure. An alarm bounds each test. Programs that read stdin are
rewritten into a function, which runs with mocked streams. The steps are those that cost the published runner
time, so that a comparison with it is fair.

This runs other people's code directly on the host, so use it only for programs that you trust.
Source of the method: `testing_util.py` and `compute_code_generation_metrics.py` of LiveCodeBench (Jain et al.
2024, arXiv 2403.07974).
"""

from __future__ import annotations

import argparse
import ast
import builtins
import contextlib
import faulthandler
import io
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from decimal import Decimal, InvalidOperation
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import mock_open, patch

# The published runner has it loaded, and so do the processes that it forks.
with contextlib.suppress(ImportError):
    import numpy  # noqa: F401

from harness.benchmarks.livecodebench.problem import decode_private_tests
from harness.environments.python.guest.standalone import TAKEN

STAR_IMPORTS = (
    *("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random", "statistics"),
    *("itertools", "functools", "operator", "io", "sys", "json", "builtins", "typing"),
)
PREAMBLE = "".join(
    [
        *(f"from {name} import *\n" for name in STAR_IMPORTS),
        *(f"import {name}\n" for name in STAR_IMPORTS if name not in ("builtins", "typing")),
        "sys.setrecursionlimit(50000)\n",
    ]
)
INT_DIGITS = 50_000
TEST_SECONDS = 6
MAIN_GUARD = "__name__ == '__main__'"


class AlarmRang(Exception):
    """A test took longer than its alarm allows."""


def seconds(data: Path, samples: Path, workers: int) -> float:
    """Return the seconds of grading every sample, `workers` at a time, in a process that imports only this.

    The published runner forks its processes from a small one too. The time begins after the imports.
    """
    command = [sys.executable, __file__, str(data), str(samples), str(workers)]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    return float(json.loads(done.stdout.splitlines()[-1])["seconds"])


def grade_all(data: Path, samples: Path, workers: int) -> list[bool]:
    """Return whether each sample passes, in order."""
    wanted = [json.loads(line) for line in samples.read_text().splitlines()]
    needed = {sample["task_id"] for sample in wanted}
    problems = {}
    for line in data.read_text().splitlines():
        row = json.loads(line)
        if row["question_id"] in needed:
            problems[row["question_id"]] = _pack_tests(row)
    with ProcessPoolExecutor(workers) as pool:
        places = {
            pool.submit(_grade, problems[sample["task_id"]], sample["solution"]): place
            for place, sample in enumerate(wanted)
        }
        passed = {places[future]: future.result() for future in as_completed(places)}
    return [passed[place] for place in range(len(wanted))]


def _pack_tests(row: dict[str, Any]) -> str:
    """Return the tests of a problem as the runner hands them to its processes: as JSON."""
    tests = json.loads(row["public_test_cases"])
    tests += json.loads(decode_private_tests(row["private_test_cases"]))
    return json.dumps(
        {
            "inputs": [test["input"] for test in tests],
            "outputs": [test["output"] for test in tests],
            "fn_name": json.loads(row["metadata"]).get("func_name"),
        }
    )


def _grade(packed: str, program: str) -> bool:
    """Grade one program in a process of its own, which reports through lists of a manager."""
    manager = multiprocessing.Manager()
    results, details = manager.list(), manager.list()
    worker = multiprocessing.Process(target=_work, args=(packed, program, results, details))
    worker.start()
    worker.join(timeout=(TEST_SECONDS + 1) * len(json.loads(packed)["inputs"]) + 5)
    if worker.is_alive():
        worker.kill()
    return bool(results) and bool(details) and all(outcome is True for outcome in results[0])


def _work(packed: str, program: str, results: Any, details: Any) -> None:
    outcomes, detail = _run_tests(packed, program)
    results.append(outcomes)
    details.append(detail)


def _run_tests(packed: str, program: str) -> tuple[list[bool], dict[str, str]]:
    """Return the outcome of each test up to the first failure, with a detail about the end."""
    signal.signal(signal.SIGALRM, _ring)
    _take_functions_away()
    tests = json.loads(packed)
    run_one = _call_tests if tests["fn_name"] is not None else _stdin_tests
    signal.alarm(TEST_SECONDS)
    outcomes: list[bool] = []
    try:
        for passed in run_one(program, tests):
            outcomes.append(passed)
            if not passed:
                break
    except Exception as error:
        outcomes.append(False)
        return outcomes, {"error": repr(error)}
    finally:
        signal.alarm(0)
    return outcomes, {"tests": str(len(outcomes))}


def _ring(_number: int, _frame: object) -> None:
    raise AlarmRang


def _take_functions_away() -> None:
    faulthandler.disable()
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in TAKEN["os"]:
        setattr(os, name, None)
    for name in TAKEN["builtins"]:
        setattr(builtins, name, None)
    for name in ("rmtree", "move", "chown"):
        setattr(shutil, name, None)
    subprocess.Popen = None  # type: ignore[assignment, misc]
    for name in ("ipdb", "joblib", "resource", "psutil", "tkinter"):
        sys.modules[name] = None  # type: ignore[assignment]


def _load(source: str) -> ModuleType:
    signal.alarm(TEST_SECONDS)
    try:
        module = ModuleType("tmp_sol", "")
        exec(source, module.__dict__)
        return module
    finally:
        signal.alarm(0)


def _call_tests(program: str, tests: dict[str, Any]) -> Any:
    """Yield whether each call of the program's function returns the expected value."""
    module = _load(f"{PREAMBLE}\n{program}")
    holder = module.Solution() if "class Solution" in program else module
    function: Callable[..., Any] = getattr(holder, tests["fn_name"])
    given = [[json.loads(line) for line in lines.split("\n")] for lines in tests["inputs"]]
    wanted = [json.loads(text) for text in tests["outputs"]]
    for arguments, expected in zip(given, wanted, strict=True):
        with _alarm():
            result = function(*arguments)
        yield (list(result) if isinstance(result, tuple) else result) == expected


def _stdin_tests(program: str, tests: dict[str, Any]) -> Any:
    """Yield whether the program prints the expected lines for each input."""
    function = _load(_write_function(_without_guard(program))).wrapped_function
    for given, expected in zip(tests["inputs"], tests["outputs"], strict=True):
        printed = io.StringIO()
        with _alarm(), contextlib.redirect_stdout(printed):
            _call_with_input(function, given)
        yield _same_lines(printed.getvalue(), expected)


@contextlib.contextmanager
def _alarm() -> Any:
    signal.alarm(TEST_SECONDS)
    faulthandler.enable()
    try:
        yield
    finally:
        signal.alarm(0)
        faulthandler.disable()


def _without_guard(program: str) -> str:
    """Return the program with the body of its main guard in place of the guard."""
    try:
        tree = ast.parse(program)
        last = tree.body[-1]
        if isinstance(last, ast.If) and ast.unparse(last.test) == MAIN_GUARD:
            return "\n".join(map(ast.unparse, (*tree.body[:-1], *last.body)))
    except Exception:
        pass  # A program that is not Python fails later.
    return program


def _write_function(program: str) -> str:
    """Return source that imports what the program imports, and defines the rest as one function."""
    try:
        tree = ast.parse(program)
    except Exception:
        return program
    is_import = [isinstance(node, ast.Import | ast.ImportFrom) for node in tree.body]
    imports = [node for node, found in zip(tree.body, is_import, strict=True) if found]
    (function,) = ast.parse("def wrapped_function(): pass").body
    assert isinstance(function, ast.FunctionDef)
    function.body = [node for node, found in zip(tree.body, is_import, strict=True) if not found]
    return "\n".join((PREAMBLE, *map(ast.unparse, imports), ast.unparse(function)))


def _call_with_input(function: Callable[[], Any], given: str) -> None:
    lines = iter(given.split("\n"))
    with (
        patch("builtins.open", mock_open(read_data=given)),
        patch("sys.stdin", io.StringIO(given)),
        patch("sys.stdin.readline", lambda *_: next(lines)),
        patch("sys.stdin.readlines", lambda *_: given.split("\n")),
        patch("sys.stdin.read", lambda *_: given),
        contextlib.suppress(SystemExit),
    ):
        function()


def _same_lines(printed: str, expected: str) -> bool:
    lines = [line.strip() for line in printed.strip().split("\n")]
    wanted_lines = [line.strip() for line in expected.strip().split("\n")]
    if len(lines) != len(wanted_lines):
        return False
    return all(
        line == wanted or _same_numbers(line, wanted)
        for line, wanted in zip(lines, wanted_lines, strict=True)
    )


def _same_numbers(line: str, wanted: str) -> bool:
    try:
        return [*map(Decimal, line.split())] == [*map(Decimal, wanted.split())]
    except InvalidOperation:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("samples", type=Path)
    parser.add_argument("workers", type=int)
    arguments = parser.parse_args()
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(INT_DIGITS)
    started = time.monotonic()
    passed = grade_all(arguments.data, arguments.samples, arguments.workers)
    print(json.dumps({"seconds": time.monotonic() - started, "passed": passed}))


if __name__ == "__main__":
    main()
