"""Measure the viewer on a run of a million attempts: its first rows, the whole index, and its memory.

The values are those that the page asks for. The browser is not measured.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from figure import CannotMeasure, Figure, Measurement, Reading
from many_attempts import read_peak
from session import Session

from harness.core.types import AttemptRecord, Status
from harness.reports.viewer.attempt_query import Query, find_attempts
from harness.reports.viewer.catalogue import Catalogue
from harness.reports.viewer.run_view import describe_run
from harness.runs.records import to_json
from harness.runs.store import ATTEMPTS, MANIFEST

NUMBER, TASKS, ROWS = 1_000_000, 100_000, 100

FIRST_ROWS = Figure("first rows of 1,000,000 attempts in the viewer", "s", mark=3, judged="ours")
INDEX = Figure("its index of all of them, processor time", "s")
MEMORY = Figure("its memory with this run", "MiB", mark=400, judged="ours")


@dataclass(frozen=True)
class ViewedAttempts:
    """The cost of the viewer of a run of many attempts."""

    # The wall time until the first rows are there, in seconds.
    first_rows: float
    # The processor time until all attempts are indexed and the page of the run is complete.
    index: float
    # The most memory of the process.
    mebibytes: float


def measure_viewer(number: int = NUMBER) -> ViewedAttempts:
    """Return the cost of the viewer of a run of so many attempts, measured in a new process."""
    with tempfile.TemporaryDirectory() as folder:
        write_run(Path(folder) / "run", number)
        command = [sys.executable, __file__, "--child", folder, str(number)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise SystemExit("the viewer failed: these figures mean nothing")
    return ViewedAttempts(*json.loads(done.stdout))


def write_run(folder: Path, number: int) -> None:
    """Write a run folder with so many attempts at TASKS tasks."""
    folder.mkdir()
    manifest = {
        "schema_version": 1,
        "run_id": "r",
        "benchmark": "b",
        "agent": "a",
        "source": "path",
        "data": {"kind": "path", "location": "p", "sha256": "0" * 64, "rows": 1},
        "images": {},
        "planned": {"tasks": TASKS, "attempts": number},
        "config": {},
    }
    (folder / MANIFEST).write_text(json.dumps(manifest))
    lines = {status: _write_line(status) for status in (Status.PASSED, Status.FAILED)}
    with open(folder / ATTEMPTS, "w") as file:
        for place in range(number):
            line = lines[Status.PASSED if place % 3 else Status.FAILED]
            file.write(
                line.replace("TASK", str(place % TASKS), 1).replace('": 7,', f'": {place // TASKS},', 1)
            )


def _write_line(status: Status) -> str:
    """Return the line of an attempt whose task and number are to be filled in."""
    passed = status is Status.PASSED
    program = "def f(x):\n    return x + 1\n" * 4
    metrics = {"tests": 3, "tests_passed": 2, "input_tokens": 200, "output_tokens": 100, "cost": 0.001}
    record = AttemptRecord(
        task_id="task/TASK",
        attempt=7,
        sample_line=None,
        category="some category",
        resolved=passed,
        status=status,
        score=float(passed),
        metrics=metrics,
        agent_output=program,
        expected_output="assert f(1) == 2",
        duration_seconds=0.25,
        error=None if passed else "AssertionError: f(1) == 3",
        agent_output_full=program,
        submission=program,
    )
    return to_json(record) + "\n"


def _view(output_dir: Path, number: int) -> list[float]:
    """Return the values of ViewedAttempts."""
    began, spent = time.perf_counter(), time.process_time()
    catalogue = Catalogue(output_dir)
    folder = catalogue.find_run("run")
    describe_run(catalogue, "run")
    index = catalogue.read_attempts(folder)
    _, rows = find_attempts(index, Query(), number=ROWS)
    first = time.perf_counter() - began
    while not index.is_complete:
        index = catalogue.read_attempts(folder)
    described = describe_run(catalogue, "run")
    if len(rows) != ROWS or described["attempts"] != number:
        raise SystemExit("the index is not whole: these figures mean nothing")
    return [first, time.process_time() - spent, read_peak()]


def _measure(session: Session) -> list[Reading]:
    if session.size.is_quick:
        raise CannotMeasure("--quick leaves it out")
    viewed = measure_viewer()
    return [
        Reading(FIRST_ROWS, [viewed.first_rows], note="without the browser"),
        Reading(INDEX, [viewed.index]),
        Reading(MEMORY, [viewed.mebibytes], note="with the pages of the table that stay in memory"),
    ]


MEASUREMENTS = (Measurement("viewer", (FIRST_ROWS, INDEX, MEMORY), _measure),)

if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(_view(Path(sys.argv[2]), int(sys.argv[3]))))
    else:
        print(measure_viewer())
