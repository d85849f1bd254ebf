"""Measure the house: `make measure` prints its size, its shape and the walks through it, beside the goals.

`--no-walks` leaves out what needs an engine. `--json` prints the figures for other programs. `--check` prints
circles and detours of imports instead, and fails if there are any.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from house import count_files_with, list_faults, measure_shape, measure_size
from walks import KEY, walk_all

ROOT = Path(__file__).parents[2]

# The capabilities that came after the goals were set, and count apart from the house: the files of each.
CAPABILITIES = {
    "sandboxes without an engine": ("sandbox/backends/oci/*", "sandbox/machine/unpacked_images.py"),
    "task folders": (
        "environments/container/*",
        "benchmarks/task_folders.py",
        "benchmarks/data/t*.py",
        "runs/task_folders.py",
        "sandbox/machine/dockerfile.py",
        "sandbox/machine/task_images.py",
    ),
    "checks of task sets": ("audit/lint*.py", "audit/folder_findings.py", "audit/forging.py"),
    "SWE-bench": ("environments/repository/*", "benchmarks/swebench.py"),
    "tau2": ("environments/tau2/*", "benchmarks/tau2.py"),
    "sets of model cards": (
        *(
            f"benchmarks/{name}.py"
            for name in ("aime", "bbh", "gpqa", "hmmt", "mmlu", "multiple_choice", "plus")
        ),
        "core/scoring/choices.py",
        "environments/text/stated_answers.py",
        "*/card.py",
    ),
    "verdicts for trainers": (
        "rl/skyrl.py",
        "rl/verl.py",
        "service/sandboxes/*snapshots.py",
        "sandbox/snapshots.py",
        "sandbox/stock.py",
    ),
    "more languages": ("benchmarks/multipl.py", "environments/python/languages.py"),
}

_HOUSE = "harness/ without attacks and later capabilities"
# The most that each figure should be.
_GOALS = {
    f"lines of {_HOUSE}": 80_000,
    f"files of {_HOUSE}": 350,
    "lines of tests/": 75_000,
    "floors": 8,
    "longest chain of imports": 20,
    f"files that name the setting {KEY}": 1,
    "one graded sample: functions": 300,
    "one graded sample: files": 50,
    "one tool call: functions": 35,
    "one tool call: files": 12,
    "one request to /v1/grade: functions": 90,
    "one request to /v1/grade: files": 25,
}


def measure_house() -> dict[str, int]:
    """Return the figures that need no engine, by their names."""
    package = ROOT / "harness"
    size, tests = measure_size(package), measure_size(ROOT / "tests")
    later = {name: measure_size(package, only=patterns) for name, patterns in CAPABILITIES.items()}
    shape = measure_shape(package, ROOT / "pyproject.toml")
    return {
        "lines of harness/ without attacks": size.lines,
        "files of harness/ without attacks": size.files,
        **{f"lines of {name}": part.lines for name, part in later.items()},
        f"lines of {_HOUSE}": size.lines - sum(part.lines for part in later.values()),
        f"files of {_HOUSE}": size.files - sum(part.files for part in later.values()),
        "files of harness/ under 60 lines": size.small_files,
        "functions over 60 lines": size.long_functions,
        "rooms": shape.rooms,
        "floors": shape.floors,
        "longest chain of imports": shape.longest_chain,
        "modules in cycles": shape.modules_in_cycles,
        f"files that name the setting {KEY}": count_files_with(package, KEY),
        "lines of tests/": tests.lines,
        "files of tests/": tests.files,
    }


def measure_walks() -> dict[str, int]:
    """Return the figures of the walks, by their names."""
    with tempfile.TemporaryDirectory() as folder:
        return {
            f"{walk.name}: {unit}": number
            for walk in walk_all(Path(folder))
            for unit, number in (
                ("functions", walk.functions),
                ("files", walk.files),
                ("changes of file", walk.changes),
            )
        }


def main() -> None:
    parser = argparse.ArgumentParser(prog="make measure", description=__doc__)
    parser.add_argument("--no-walks", action="store_true", help="leave out what needs an engine")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--check", action="store_true", help="fail for circles and detours of imports")
    options = parser.parse_args()
    if options.check:
        faults = list_faults(ROOT / "harness")
        parser.exit(1 if faults else 0, "".join(f"{fault}\n" for fault in faults))
    figures = measure_house() | ({} if options.no_walks else measure_walks())
    if options.json:
        print(json.dumps(figures, indent=1))
        return
    width = max(map(len, figures))
    for name, number in figures.items():
        goal = _GOALS.get(name)
        print(f"{name:{width}}  {number:>8,}" + (f"   goal {goal:,}" if goal is not None else ""))


if __name__ == "__main__":
    main()
