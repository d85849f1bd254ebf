"""`harness export`: export the attempts of a run for other projects."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.completion import complete_run
from harness.cli.data import Force, Output
from harness.cli.runs import RUN_HELP, OutputDir
from harness.reports.exports import export_names, load_export

app = typer.Typer()

_TO_HELP = f"The format: {', '.join(export_names())}."


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help=RUN_HELP, autocompletion=complete_run)],
    task: Annotated[str | None, typer.Argument(help="A task id. Default: all tasks.")] = None,
    to: Annotated[str, typer.Option("--to", metavar="NAME", help=_TO_HELP)] = ...,  # type: ignore[assignment]
    attempt: Annotated[
        int | None,
        typer.Option(
            "--attempt", min=0, metavar="N", help="Only this attempt at TASK, from 0. Default: all."
        ),
    ] = None,
    output: Output = None,
    force: Force = False,
    endpoint: Annotated[
        str | None,
        typer.Option("--endpoint", metavar="URL", help="Send the spans of otlp to this OTLP/HTTP server."),
    ] = None,
    content: Annotated[
        bool, typer.Option("--content", help="Put prompts, replies and observations into the spans of otlp.")
    ] = False,
    output_dir: OutputDir = None,
) -> None:
    """Export the attempts of a run for other projects.

    harbor and atif are for Harbor, inspect for inspect_ai, and otlp for OpenTelemetry. The run may be under
    way. harbor writes a job folder into the folder that -o names.
    """
    from dataclasses import replace

    from harness.cli.export_file import open_export, open_export_folder, print_written
    from harness.core.errors import UsageError
    from harness.reports.run_folder import read_run
    from harness.reports.trajectories.attempts import read_exported_run
    from harness.runs.run_names import find_run

    chosen = load_export(to)
    if attempt is not None and task is None:
        raise UsageError("--attempt needs a task", hint="harness export RUN TASK --attempt 0 --to atif")
    for name, given in (("--endpoint", endpoint is not None), ("--content", content)):
        if given and to != "otlp":
            raise UsageError(f"{name} is an option of --to otlp, and {to} does not read it")
    if endpoint is not None and output is not None:
        raise UsageError("--endpoint and -o are both given", hint="leave one of them out")
    chosen.require_name(output)
    exported = read_exported_run(read_run(find_run(run, output_dir)), task_id=task, attempt=attempt)
    exported = replace(exported, has_content=content)
    if endpoint is not None:
        from harness.reports.trajectories.spans import send_spans

        sent = send_spans(exported, endpoint)
        typer.echo(f"sent {sent:,} spans to {endpoint}", err=True)
    elif chosen.write_tree is not None and output is not None:
        with open_export_folder(output / exported.stored.folder.name, force=force) as folder:
            chosen.write_tree(exported, folder)
        print_written(output / exported.stored.folder.name)
    elif chosen.write is not None:
        path = chosen.choose_path(output, exported)
        with open_export(path, force=force) as file:
            chosen.write(exported, file)
        print_written(path)
    if exported.stored.unfinished:
        typer.echo(f"note: {exported.stored.unfinished}", err=True)
    if exported.portable.hidden:
        typer.echo("note: texts of the run held keys, which the export has as [key]", err=True)
