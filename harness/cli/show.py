"""`harness show`: show a run, or one of its attempts with its transcript."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.completion import complete_run
from harness.cli.runs import RUN_HELP, OutputDir

app = typer.Typer()


@app.command()
def show(
    run: Annotated[Path, typer.Argument(help=RUN_HELP, autocompletion=complete_run)],
    task: Annotated[str | None, typer.Argument(help="A task id. Default: show the table of the run.")] = None,
    attempt: Annotated[
        int, typer.Option("--attempt", min=0, metavar="N", help="Number of the attempt, from 0.")
    ] = 0,
    characters: Annotated[
        int | None,
        typer.Option(
            "--characters", min=1, metavar="N", help="Characters to show of each text. Default: 10000."
        ),
    ] = None,
    output_dir: OutputDir = None,
) -> None:
    """Show a run, or one attempt: prompt, actions and verdict."""
    from harness.reports.console import SHOWN_CHARACTERS
    from harness.reports.run_folder import read_attempt, read_run
    from harness.reports.table import print_record_details, print_stored_run
    from harness.reports.transcript_entries import print_transcript
    from harness.runs.run_names import find_run

    folder = find_run(run, output_dir)
    if task is None:
        print_stored_run(read_run(folder), stream=sys.stdout)
        return
    record = read_attempt(folder, task, attempt)
    most = characters or SHOWN_CHARACTERS
    if print_transcript(folder, task, attempt, stream=sys.stdout, limit=most):
        typer.echo()
    print_record_details(record, folder=folder, stream=sys.stdout, limit=most)
