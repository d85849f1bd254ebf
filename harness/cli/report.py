"""`harness report`: look at a run again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command()
def report(run: Annotated[Path, typer.Argument(help="A run folder.")]) -> None:
    """Print the table of a run again, and write its report.html anew."""
    from harness.reports.run_folder import read_run, rewrite_report
    from harness.reports.table import print_summary

    stored = read_run(run)
    path = rewrite_report(stored)
    print_summary(
        stored.summary,
        title=f"{stored.manifest['benchmark']} - {stored.manifest['agent']}",
        source=stored.source,
        duration_seconds=stored.duration_seconds,
        stream=sys.stdout,
        run_dir=stored.folder,
        attempts=stored.attempts(),
    )
    typer.echo(f"report: {path}")
