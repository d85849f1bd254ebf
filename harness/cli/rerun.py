"""`harness rerun`, which makes a run again from its manifest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.completion import complete_run
from harness.cli.run_options import (
    Accept,
    Concurrent,
    DryRun,
    FailUnder,
    Force,
    OutputDir,
    Quiet,
    Results,
    Trust,
    Verbose,
)
from harness.cli.runs import RUN_HELP

app = typer.Typer()


@app.command()
def rerun(
    run: Annotated[Path, typer.Argument(help=RUN_HELP, autocompletion=complete_run)],
    accept: Accept = None,
    trust: Trust = False,
    max_concurrent: Concurrent = None,
    output_dir: OutputDir = None,
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

    folder = find_run(run, output_dir)
    # The recorded folder may be one of another machine.
    changes: dict[str, Any] = {"output_dir": str(output_dir or RUNS)}
    if max_concurrent is not None:
        changes["max_concurrent"] = max_concurrent
    manifest = read_manifest(folder)
    recorded = read_resumed_config(folder, manifest).model_copy(update=changes)
    again = bound_rerun(folder, manifest, recorded, is_trusted=trust)
    output = OutputOptions(results, force, fail_under, dry_run, verbose, quiet)
    start = RepeatedRun(folder=folder, accepted=accept or [], is_trusted=again.is_trusted)
    carry_out(again.config, output, start, notices=again.notices)
