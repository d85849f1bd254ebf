"""`harness report`: print the report of a run, or write it in one format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.completion import complete_run
from harness.cli.data import Force, Output
from harness.cli.runs import RUN_HELP, OutputDir
from harness.reports.formats import choose_format, format_names, load_format

app = typer.Typer()

_FORMAT_HELP = f"One of {', '.join(format_names())}. Default: the ending of -o FILE, else table."


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help=RUN_HELP, autocompletion=complete_run)],
    format_name: Annotated[str | None, typer.Option("--format", metavar="NAME", help=_FORMAT_HELP)] = None,
    output: Output = None,
    force: Force = False,
    output_dir: OutputDir = None,
) -> None:
    """Print the report of a run.

    The run may be under way. Without options its HTML page is also written anew.

    With --format or -o it writes only that format. Example: harness report latest -o results.xml
    """
    from harness.cli.export_file import open_export, print_written
    from harness.reports.run_folder import read_run, rewrite_report
    from harness.runs.run_names import find_run

    if format_name is None and output is not None:
        format_name = choose_format(output)
    write_report = load_format(format_name or "table")
    stored = read_run(find_run(run, output_dir))
    if format_name is None and output is None:
        rewrite_report(stored)
    with open_export(output, force=force) as stream:
        write_report(stored, stream)
    print_written(output)
