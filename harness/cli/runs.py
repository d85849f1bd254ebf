"""`harness runs`, which lists the run folders, and the options that name a run in other commands."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

RUN_HELP = "A run folder, a name from `harness runs`, or latest."

OutputDir = Annotated[
    Path | None,
    typer.Option("--output-dir", metavar="DIR", help="Folder of the run folders. Default: runs."),
]

app = typer.Typer()


@app.command()
def runs(
    output_dir: OutputDir = None,
    number: Annotated[
        int | None,
        typer.Option("-n", "--number", min=1, metavar="N", help="Show only the newest N runs."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False,
) -> None:
    """List the runs, the newest first."""
    from harness.reports.run_list import print_runs, read_run_list, write_runs

    found = read_run_list(output_dir, number=number)
    if as_json:
        write_runs(found, sys.stdout)
    else:
        print_runs(found, stream=sys.stdout)
