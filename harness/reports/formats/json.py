"""The JSON document of `harness run --results`, with the attempts in the order of the plan."""

from __future__ import annotations

from typing import TextIO

from harness.reports.run_folder import StoredRun
from harness.runs.summary import write_results


def write_report(run: StoredRun, stream: TextIO) -> None:
    """Write the document."""
    write_results(
        stream,
        manifest=run.manifest,
        folder=run.folder,
        state=run.state,
        duration_seconds=run.duration_seconds,
        summary=run.summary_values,
        attempts=run.attempts(),
    )
