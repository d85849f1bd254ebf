"""Break the code one line at a time, in a copy of the working tree, and check that the named test fails.

Run it with `make mutants`, or `make mutants ARGS="lease"` for the mutants whose file or test contains a word.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest
from table import Mutant, mutants

ROOT = Path(__file__).parents[2]
# The seconds of the test itself. Neither the start of pytest nor fixtures count. A table tries all of its
# cases, and some wait for a reply that a mutant prevents.
MOST_SECONDS = 15.0
# Imported once for all forked tests, because an interpreter needs seconds to import these.
WARM = (
    "anthropic",
    "docker",
    "hypothesis.strategies",
    "mcp",
    "numpy",
    "openai.resources.chat",
    "openai.resources.responses",
    "pydantic",
    "pytest_asyncio",
    "rich.table",
    "typer",
    "yaml",
)
FORK = multiprocessing.get_context("fork")
# A mutant may make its test wait for ever.
END_SECONDS = 60


class TableError(Exception):
    """The table does not fit the code: a text is not there once, or a test is missing or fails anyway."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the tests of one run of pytest ended, and the seconds of the slowest that failed."""

    passed: int
    failed: int
    broken: int
    seconds: float


def copy_tree(folder: Path) -> None:
    """Copy every file of the working tree that git does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def run_tests(folder: Path, nodes: Sequence[str]) -> Outcome:
    """Run tests on the code in `folder` in a child process. Raises TableError if none is found."""
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    child = FORK.Process(target=be_pytest, args=(folder, report, nodes))
    child.start()
    child.join(END_SECONDS)
    if child.is_alive():
        child.kill()
        child.join()
        raise TableError(f"its test did not end within {END_SECONDS} s")
    outcome = read_report(report) if report.exists() else Outcome(0, 0, 0, 0.0)
    if not outcome.passed + outcome.failed + outcome.broken:
        raise TableError("pytest found no such test")
    return outcome


def be_pytest(folder: Path, report: Path, nodes: Sequence[str]) -> None:
    """Run pytest in this freshly forked child, without output."""
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    with open(os.devnull, "w") as null:
        os.dup2(null.fileno(), 1)
        os.dup2(null.fileno(), 2)
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "junit_duration_report=call"]
    # The parent has already imported the plugins, and no test is about them.
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    pytest.main([*options, f"--timeout={END_SECONDS // 2}", f"--junitxml={report}", *nodes])


def read_report(path: Path) -> Outcome:
    """Return the outcome in pytest's report. A test whose set-up fails is broken, which is not a verdict."""
    passed = failed = broken = 0
    seconds = 0.0
    for case in ElementTree.parse(path).iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"error", "skipped"}:
            broken += 1
        elif "failure" in kinds:
            failed += 1
            seconds = max(seconds, float(case.get("time", "0")))
        else:
            passed += 1
    return Outcome(passed, failed, broken, seconds)


@contextmanager
def applied(mutant: Mutant, folder: Path) -> Iterator[None]:
    """Apply the mutant to the code in `folder` for the duration of the block. Raises TableError."""
    path = folder / mutant.file
    text = path.read_text(encoding="utf-8")
    found = text.count(mutant.old)
    if found != 1:
        raise TableError(f"the old text is in {mutant.file} {found} times, not once")
    rewrite(path, text.replace(mutant.old, mutant.new))
    try:
        yield
    finally:
        rewrite(path, text)


def rewrite(path: Path, text: str) -> None:
    """Write a source file, and remove its compiled form, which Python would find by size and time."""
    path.write_text(text, encoding="utf-8")
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()


def verdict(mutant: Mutant, folder: Path) -> tuple[str, float]:
    """Return the fate of a mutant in words, and the seconds of its test."""
    try:
        with applied(mutant, folder):
            outcome = run_tests(folder, [mutant.test])
    except TableError as error:
        return f"error: {error}", 0.0
    if outcome.broken:
        return "error: its test did not run", outcome.seconds
    if not outcome.failed:
        return "survived", outcome.seconds
    return "killed" if outcome.seconds < MOST_SECONDS else "killed too slowly", outcome.seconds


def check_unbroken(chosen: Sequence[Mutant], folder: Path) -> None:
    """Raise TableError if a named test does not pass on the unchanged code."""
    nodes = sorted({mutant.test for mutant in chosen})
    outcome = run_tests(folder, nodes)
    if outcome.failed or outcome.broken:
        raise TableError(
            f"{outcome.failed + outcome.broken} of the named tests do not pass on the code as it is"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("word", nargs="?", default="", help="only mutants whose file or test contains it")
    word = parser.parse_args().word
    chosen = [mutant for mutant in mutants() if word in mutant.file or word in mutant.test]
    if not chosen:
        print(f"error: no mutant has '{word}' in its file or test", file=sys.stderr)
        return 2
    for module in WARM:
        importlib.import_module(module)
    killed = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        folder = Path(name)
        copy_tree(folder)
        try:
            check_unbroken(chosen, folder)
        except TableError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        for number, mutant in enumerate(chosen, start=1):
            said, seconds = verdict(mutant, folder)
            killed += said == "killed"
            test = mutant.test.rpartition("::")[2]
            print(f"{number:3} {said:9} {seconds:6.3f} s  {mutant.file}  {test}", flush=True)
            if said != "killed":
                print(f"    {mutant.old!r} -> {mutant.new!r}")
    print(f"{killed} of {len(chosen)} mutants killed, each in under {MOST_SECONDS:g} s of its test")
    return 0 if killed == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
