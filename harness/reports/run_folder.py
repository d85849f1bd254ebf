"""The report that lies in every run folder."""

from __future__ import annotations

from pathlib import Path

from harness.engine.run import Run
from harness.engine.store import REPORT
from harness.reports.html import render_html


def write_report(run: Run) -> Path:
    """Write `report.html` into the run's folder and return its path. Raises StorageError."""
    html = render_html(manifest=run.manifest, summary=run.summary, attempts=run.records())
    run.store.write_text(REPORT, html)
    return run.folder / REPORT
