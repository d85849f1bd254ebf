"""The attempts that did not pass, one on each line: task and status.

A report format in one file. Put it into the folder `harness/reports/formats`, and `harness report --format
report_format` writes it.
"""

from __future__ import annotations

from typing import TextIO

from harness.core.text import escape_terminal
from harness.reports.run_folder import StoredRun


def write_report(run: StoredRun, stream: TextIO) -> None:
    """List the attempts that did not pass."""
    for record in run.attempts():
        if not record.resolved:
            stream.write(f"{escape_terminal(record.task_id)}\t{record.status}\n")
