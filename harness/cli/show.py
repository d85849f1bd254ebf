"""`harness show`: what happened in one attempt of a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command()
def show(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    task: Annotated[str, typer.Argument(help="A task id.")],
    attempt: Annotated[int, typer.Option("--attempt", min=0, help="Which attempt, from 0.")] = 0,
    characters: Annotated[
        int, typer.Option("--characters", min=1, help="How much is shown of each text.")
    ] = 4000,
) -> None:
    """Show an attempt: what the agent was asked, saw and did, and the verdict."""
    from harness.errors import UsageError, unknown_name
    from harness.reports.run_folder import stored_attempts
    from harness.reports.table import print_record_details
    from harness.reports.transcript import print_transcript

    found = {(record.task_id, record.attempt): record for record in stored_attempts(run)}
    record = found.get((task, attempt))
    if record is None:
        numbers = sorted(number for task_id, number in found if task_id == task)
        if not numbers:
            raise unknown_name("task of this run", task, {task_id for task_id, _ in found})
        known = ", ".join(map(str, numbers))
        raise UsageError(f"{task} has no attempt {attempt} in this run", hint=f"attempts: {known}")
    if print_transcript(run, task, attempt, stream=sys.stdout, limit=characters):
        typer.echo()
    print_record_details(record, stream=sys.stdout)
