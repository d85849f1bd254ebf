"""`harness merge`, which joins the shards of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.completion import complete_run
from harness.cli.run_options import Accept, FailUnder, Force, Quiet, Results, Trust, Verbose
from harness.cli.runs import RUN_HELP

app = typer.Typer()


@app.command()
def merge(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help=RUN_HELP, autocompletion=complete_run)],
    output_dir: Annotated[
        Path | None,
        typer.Option("--output-dir", metavar="DIR", help="Folder of the new run folder. Default: runs."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option("--data", metavar="PATH", help="The data, if they are not where the shards had them."),
    ] = None,
    allow_unfinished: Annotated[
        bool,
        typer.Option("--allow-unfinished", help="Count missing attempts as cancelled; --resume makes them."),
    ] = False,
    accept: Accept = None,
    trust: Trust = False,
    results: Results = None,
    force: Force = False,
    fail_under: FailUnder = None,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Join the shards of a run into one folder, or of an audit into a result (-o)."""
    import sys

    from harness.audit.run import join_audits
    from harness.cli.carry_out import OutputOptions, carry_out_merge, check_results_path
    from harness.core.errors import UsageError
    from harness.runs.store import AUDIT

    if all((run / AUDIT).is_file() for run in runs):
        from harness.cli.audit import report_audit
        from harness.reports.progress import progress_display

        if output_dir or data or allow_unfinished or accept or fail_under is not None:
            raise UsageError(
                "the shards of an audit make no new folder", hint="leave out all but -o, --force and --trust"
            )
        if results is not None:
            check_results_path(results, force=force)
        display = progress_display(sys.stderr, quiet=quiet)
        audit = join_audits(runs, is_trusted=trust, notify=display.note)
        report_audit(audit, [] if results is None else [results])
        return

    output = OutputOptions(results, force, fail_under, verbosity=verbose, quiet=quiet)
    carry_out_merge(
        runs,
        output_dir,
        output,
        data=data,
        accepted=accept or [],
        allow_unfinished=allow_unfinished,
        is_trusted=trust,
    )
