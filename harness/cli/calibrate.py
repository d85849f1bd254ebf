"""`harness calibrate`: find the seal level of each task of a folder."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.run_options import Quiet, Verbose
from harness.cli.settings import read_settings, take_settings

_SETTINGS = (
    *("data", "task_ids", "sample_size", "filter_category", "filter_difficulty", "filter_tags", "options"),
    *("base_images", "build_ca", "allow_network", "network", "max_concurrent", "output_dir"),
)

app = typer.Typer()


@app.command(cls=take_settings(*_SETTINGS))
def calibrate(
    context: typer.Context,
    folder: Annotated[str, typer.Argument(help="A task folder, or a folder of such.")],
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Find the seal level of each task of a folder.

    It is the first level where the reference of the task passes and an agent that does nothing does not.
    The levels are stored, so later runs find them. The empty agent also makes a run, which shows them. The
    exit code is 1 if no level is proven for a task.
    """
    import sys

    from harness.cli.carry_out import OutputOptions, make_run
    from harness.cli.lint import require_task_folders
    from harness.reports.table import print_levels
    from harness.runs.config import load_config

    require_task_folders(folder, "calibrate")
    given = {"benchmark": folder, "agent": "null", **read_settings(context)}
    made = make_run(load_config(None, given), OutputOptions(verbosity=verbose, quiet=quiet))
    if made.folder is None:
        raise typer.Exit(made.exit_code)
    if not print_levels(made.folder, stream=sys.stdout):
        raise typer.Exit(1)
