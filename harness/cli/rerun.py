"""`harness rerun`, which makes a run again from its manifest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.completion import complete_run
from harness.cli.run_options import (
    Accept,
    DryRun,
    FailUnder,
    Force,
    Quiet,
    Results,
    Trust,
    Verbose,
)
from harness.cli.runs import RUN_HELP
from harness.cli.settings import read_settings, take_settings

app = typer.Typer()


@app.command(cls=take_settings("max_concurrent", "output_dir"))
def rerun(
    context: typer.Context,
    run: Annotated[Path, typer.Argument(help=RUN_HELP, autocompletion=complete_run)],
    accept: Accept = None,
    trust: Trust = False,
    results: Results = None,
    force: Force = False,
    fail_under: FailUnder = None,
    dry_run: DryRun = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Repeat a run in a new folder, from its manifest."""
    from harness.cli.carry_out import OutputOptions, carry_out
    from harness.runs.resume import read_resumed_config
    from harness.runs.run_names import RUNS, find_run
    from harness.runs.run_starts import RepeatedRun
    from harness.runs.store import read_manifest
    from harness.runs.trust import bound_rerun

    # The recorded folder may be one of another machine.
    changes = {"output_dir": str(RUNS), **read_settings(context)}
    folder = find_run(run, Path(changes["output_dir"]))
    manifest = read_manifest(folder)
    recorded = read_resumed_config(folder, manifest).model_copy(update=changes)
    again = bound_rerun(folder, manifest, recorded, is_trusted=trust)
    output = OutputOptions(results, force, fail_under, dry_run, verbose, quiet)
    start = RepeatedRun(folder=folder, accepted=accept or [], is_trusted=again.is_trusted)
    carry_out(again.config, output, start, notices=again.notices)
