"""The commands that read runs: `harness runs`, `report`, `show`, `compare` and `export`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import RUN_HELP, Accept, ForceOutput, Output, OutputDir, complete_run
from harness.cli.streams import print_error
from harness.reports.comparison_formats import comparison_format_names, load_comparison_format
from harness.reports.exports import export_names, load_export
from harness.reports.formats import choose_format, format_names, load_format

app = typer.Typer()
_REPORT_FORMATS = f"One of {', '.join(format_names())}. Default: the ending of -o FILE, else table."
REGRESSION, UNFINISHED = 1, 3
_DEFAULT_FORMAT = "table"
_COMPARISON_FORMATS = f"One of {', '.join(comparison_format_names())}. Default: {_DEFAULT_FORMAT}."
_TO_HELP = f"The format: {', '.join(export_names())}."


@app.command()
def runs(
    output_dir: OutputDir = None,
    number: Annotated[
        int | None,
        typer.Option("-n", "--number", min=1, metavar="N", help="Show only the newest N runs."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False,
) -> None:
    """List the runs, the newest first."""
    from harness.reports.run_list import print_runs, read_run_list, write_runs

    found = read_run_list(output_dir, number=number)
    if as_json:
        write_runs(found, sys.stdout)
    else:
        print_runs(found, stream=sys.stdout)


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help=RUN_HELP, autocompletion=complete_run)],
    format_name: Annotated[str | None, typer.Option("--format", metavar="NAME", help=_REPORT_FORMATS)] = None,
    output: Output = None,
    force: ForceOutput = False,
    output_dir: OutputDir = None,
) -> None:
    """Print the report of a run.

    The run may be under way. Without options its HTML page is also written anew.

    With --format or -o it writes only that format. Example: harness report latest -o results.xml
    """
    from harness.cli.files import open_export, print_written
    from harness.reports.html import rewrite_report
    from harness.reports.run_folder import read_run
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
    format_name: Annotated[
        str | None, typer.Option("--format", metavar="NAME", help=_COMPARISON_FORMATS)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    output: Output = None,
    force: ForceOutput = False,
    output_dir: OutputDir = None,
) -> None:
    """Compare two runs, paired by task.

    Example: harness compare runs/before latest --regression-threshold 0.02 --format markdown -o comment.md

    With --regression-threshold, a regression exits with 1 and attempts without a verdict exit with 3.
    """
    from harness.cli.files import open_export
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
        # A user may not read the document, but must notice a comparison that is not fair.
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
    force: ForceOutput = False,
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

    from harness.cli.files import open_export, open_export_folder, print_written
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
