"""`harness compare`: compare the runs of two agents, models or settings, paired by task."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.completion import complete_run
from harness.cli.data import Force, Output
from harness.cli.error_lines import print_error
from harness.cli.run_options import Accept
from harness.cli.runs import RUN_HELP, OutputDir
from harness.reports.comparison_formats import comparison_format_names, load_comparison_format

REGRESSION, UNFINISHED = 1, 3
_DEFAULT_FORMAT = "table"

app = typer.Typer()

_FORMAT_HELP = f"One of {', '.join(comparison_format_names())}. Default: {_DEFAULT_FORMAT}."


@app.command()
def compare(
    baseline: Annotated[Path, typer.Argument(help=RUN_HELP, autocompletion=complete_run)],
    candidate: Annotated[Path, typer.Argument(help=RUN_HELP, autocompletion=complete_run)],
    baseline_runs: Annotated[
        list[Path] | None,
        typer.Option("--baseline-run", metavar="RUN", help="A run that repeats the baseline (repeatable)."),
    ] = None,
    candidate_runs: Annotated[
        list[Path] | None,
        typer.Option("--candidate-run", metavar="RUN", help="A run that repeats the candidate (repeatable)."),
    ] = None,
    regression_threshold: Annotated[
        float | None,
        typer.Option(
            "--regression-threshold",
            min=0,
            max=1,
            metavar="X",
            help="Exit with 1 if the rate, from 0 to 1, is lower by more than X.",
        ),
    ] = None,
    only_common_tasks: Annotated[
        bool,
        typer.Option("--only-common-tasks", help="Leave out tasks that a run lacks. Default: they failed."),
    ] = False,
    cluster_by: Annotated[
        str | None,
        typer.Option(
            "--cluster-by",
            metavar="KIND",
            help="Cluster the intervals by category, or by the field that both runs recorded. Default: task.",
        ),
    ] = None,
    resamples: Annotated[
        int | None,
        typer.Option("--resamples", metavar="N", help="Resamples for the interval. Default: 10000."),
    ] = None,
    seed: Annotated[
        int,
        typer.Option("--seed", metavar="N", help="Seed of the resamples. Default: 0.", show_default=False),
    ] = 0,
    accept: Accept = None,
    format_name: Annotated[str | None, typer.Option("--format", metavar="NAME", help=_FORMAT_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    output: Output = None,
    force: Force = False,
    output_dir: OutputDir = None,
) -> None:
    """Compare two runs, paired by task.

    Example: harness compare runs/before latest --regression-threshold 0.02 --format markdown -o comment.md

    With --regression-threshold the exit code is 1 for a regression, and 3 if attempts have no verdict.
    """
    from harness.cli.export_file import open_export
    from harness.core.errors import UsageError
    from harness.reports.comparison import list_warnings
    from harness.runs.comparison import DEFAULT_RESAMPLES, compare_runs
    from harness.runs.run_names import find_run

    if as_json and format_name not in (None, "json"):
        raise UsageError(f"--json and --format {format_name} cannot be combined")
    name = "json" if as_json else format_name or _DEFAULT_FORMAT
    write_report = load_comparison_format(name)
    comparison = compare_runs(
        [find_run(run, output_dir) for run in (baseline, *(baseline_runs or ()))],
        [find_run(run, output_dir) for run in (candidate, *(candidate_runs or ()))],
        only_common_tasks=only_common_tasks,
        cluster_by=cluster_by,
        resamples=DEFAULT_RESAMPLES if resamples is None else resamples,
        seed=seed,
        regression_threshold=regression_threshold,
        accept=accept or (),
    )
    with open_export(output, force=force) as stream:
        write_report(comparison, stream)
    if name == "json" or output is not None:
        # Nobody may read the document, but a comparison that is not fair must be noticed.
        for warning in list_warnings(comparison):
            typer.echo(f"warning: {warning}", err=True)
    if comparison.is_regression is None:
        return
    if comparison.without_verdict:
        print_error(f"attempts without a verdict: {comparison.without_verdict:,}")
        raise typer.Exit(UNFINISHED)
    if comparison.is_regression:
        fall = -comparison.difference
        print_error(f"the rate fell by {fall}, more than --regression-threshold {regression_threshold}")
        raise typer.Exit(REGRESSION)
