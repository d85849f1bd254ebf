"""One static page for a browser, as `report.html` in the run folder."""

from __future__ import annotations

from typing import TextIO

from harness.reports.html import render_stored_run
from harness.reports.run_folder import StoredRun


def write_report(run: StoredRun, stream: TextIO) -> None:
    """Write the page."""
    stream.writelines(render_stored_run(run))
