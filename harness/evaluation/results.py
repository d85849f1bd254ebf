"""The file `results.json`, which holds a run, its summary and its attempts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TextIO

from harness.evaluation.records import to_json
from harness.evaluation.run_state import RunState
from harness.types import AttemptRecord

# Version 1 has the rate of the first attempts as `summary.rate`.
RESULTS_VERSION = 2


def write_results(
    file: TextIO,
    *,
    manifest: Mapping[str, Any],
    folder: Path,
    state: RunState,
    duration_seconds: float,
    summary: Mapping[str, Any],
    attempts: Iterable[AttemptRecord],
) -> None:
    """Write `results.json` to `file`, one attempt at a time and each on its own line.

    Args:
        file: An open text file.
        manifest: The manifest of the run.
        folder: The run folder.
        state: Whether the run goes on.
        duration_seconds: The duration of the run.
        summary: The summary as plain data.
        attempts: The attempts in the order in which they are written.
    """
    run = {key: value for key, value in manifest.items() if key != "schema_version"}
    of_folder = {
        "folder": str(folder),
        "state": state.value,
        "duration_seconds": round(duration_seconds, 3),
    }
    head = {
        "schema_version": RESULTS_VERSION,
        "run": {**run, **of_folder},
        "summary": summary,
    }
    file.write(json.dumps(head, indent=2).removesuffix("\n}"))
    file.write(',\n  "attempts": [')
    for number, record in enumerate(attempts):
        file.write(f"{',' if number else ''}\n    {to_json(record)}")
    file.write("\n  ]\n}\n")
