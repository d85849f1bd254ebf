"""Measure the store with a million attempts: how fast it appends, and what their summary costs."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figure import CannotMeasure, Figure, Measurement, Reading
from many_attempts import read_peak
from session import Session

from harness.core.types import AttemptRecord, Status
from harness.runs.store import RunStore, read_results
from harness.runs.summary import summarize_records

NUMBER = 1_000_000
AT_A_TASK = 10
# A run with many attempts at once stores about as many with one write.
BATCH = 1000
APPENDED = Figure(
    "records appended to a run folder, by processor time",
    "a second",
    mark=20_000,
    judged="ours",
    better="higher",
)
SUMMARY = Figure("summary of 1,000,000 attempts, processor time", "s", mark=60, judged="ours")
MEMORY = Figure("memory of that summary", "MiB", mark=300, judged="ours")
_PROGRAM = "def add(first, second):\n    return first + second\n"


def _build_record(place: int) -> AttemptRecord:
    is_passed = place % 3 != 0
    return AttemptRecord(
        task_id=f"task/{place // AT_A_TASK}",
        attempt=place % AT_A_TASK,
        sample_line=None,
        category=None,
        resolved=is_passed,
        status=Status.PASSED if is_passed else Status.FAILED,
        score=float(is_passed),
        metrics={"phase": "evaluator", "tests": 3, "tests_passed": 3, "cpu_seconds": 0.01},
        agent_output=_PROGRAM,
        expected_output=_PROGRAM,
        duration_seconds=0.25,
        error=None,
        agent_output_full=_PROGRAM,
        submission=_PROGRAM,
    )


def _append(folder: Path) -> float:
    """Append all records to a store and return the processor time in seconds, with that of building them."""
    store = RunStore(folder)
    started = time.process_time()
    for first in range(0, NUMBER, BATCH):
        store.append(*map(_build_record, range(first, first + BATCH)))
    spent = time.process_time() - started
    store.close()
    return spent


def _summarize(folder: Path) -> tuple[float, float]:
    """Return the processor time of the summary in seconds, and the most memory of this process in MiB."""
    started = time.process_time()
    results = read_results(folder)
    summary = summarize_records(results, [1, AT_A_TASK], tasks=NUMBER // AT_A_TASK, attempts=NUMBER)
    if summary.attempts != NUMBER or summary.total != NUMBER // AT_A_TASK:
        raise SystemExit("the summary is not whole: these figures mean nothing")
    return time.process_time() - started, read_peak()


def _measure(session: Session) -> list[Reading]:
    if session.size.is_quick:
        raise CannotMeasure("--quick leaves it out")
    with tempfile.TemporaryDirectory() as folder:
        spent = _append(Path(folder))
        # Another process, because the store of this one has its own memory.
        done = subprocess.run([sys.executable, __file__, folder], stdout=subprocess.PIPE, check=True)
    seconds, mebibytes = json.loads(done.stdout)
    return [
        Reading(APPENDED, [NUMBER / spent], note="with fsync after each 1,000"),
        Reading(SUMMARY, [seconds]),
        Reading(MEMORY, [mebibytes]),
    ]


MEASUREMENTS = (Measurement("stored-attempts", (APPENDED, SUMMARY, MEMORY), _measure),)

if __name__ == "__main__":
    print(json.dumps(_summarize(Path(sys.argv[1]))))
