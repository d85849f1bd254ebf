"""The commands that make a run: `harness run`, `grade` for samples, `rerun` for a repetition, and `merge`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import (
    RUN_HELP,
    Accept,
    Config,
    DryRun,
    FailOnDifference,
    FailUnder,
    Force,
    Quiet,
    Results,
    Trust,
    Verbose,
    complete_run,
    read_settings,
    take_settings,
)

if TYPE_CHECKING:
    from harness.core.setting import Panel
    from harness.runs.settings import RunConfig

app = typer.Typer()


# No agent runs when samples are graded.
_OF_GRADING: tuple[Panel, ...] = ("Tasks", "Grading", "Attempts", "Sandboxes")


@app.command(cls=take_settings(panels=("Agent", "Model", *_OF_GRADING), has_axes=True))
def run(
    context: typer.Context,
    config: Config = None,
    results: Results = None,
    force: Force = False,
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume",
            metavar="RUN",
            help="Resume this run: a folder, a name in --output-dir, or latest. Or a matrix: its index.",
            autocompletion=complete_run,
        ),
    ] = None,
    retry_failed: Annotated[
        bool,
        typer.Option(
            "--retry-failed", help="With --resume: repeat only attempts with a verdict, not passed."
        ),
    ] = False,
    retry_infra: Annotated[
        bool,
        typer.Option("--retry-infra", help="With --resume: repeat only attempts that ended in infra errors."),
    ] = False,
    accept: Accept = None,
    trust: Trust = False,
    fail_under: FailUnder = None,
    fail_on_difference: FailOnDifference = False,
    dry_run: DryRun = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Run an agent on a benchmark, and grade its submissions.

    Several benchmarks or models are a matrix: one run for each pair, one table, and one index of the runs.
    The same command with --resume INDEX goes on with the runs that lack verdicts.
    """
    from functools import partial

    from harness.cli.carry_out import OutputOptions, make_run
    from harness.cli.matrix import ResumedMatrix, carry_out_matrix, list_cells
    from harness.core.errors import UsageError
    from harness.runs.config import load_config
    from harness.runs.recorded_run import add_recorded_settings
    from harness.runs.run import Retry
    from harness.runs.run_names import find_run
    from harness.runs.run_starts import resume_run
    from harness.runs.unread import locate_unread

    given = read_settings(context, config)
    cells = list_cells(given.pop("benchmark", None), given.pop("model", None))
    output = OutputOptions(results, force, fail_under, dry_run, verbose, quiet, fail_on_difference)
    retry = Retry(retry_failed, retry_infra) if retry_failed or retry_infra else None
    if resume is None:
        for name, is_given in {
            "--retry-failed": retry_failed,
            "--retry-infra": retry_infra,
            "--accept": accept,
            "--trust": trust,
        }.items():
            if is_given:
                raise UsageError(f"{name} needs a run to resume", hint=f"add it: --resume latest {name}")
    # All configs are read before the first run starts.
    if len(cells) > 1:
        values = [{**given, **cell} for cell in cells]
        loaded = [load_config(config, each, add_settings=add_recorded_settings) for each in values]
        again = ResumedMatrix(resume, accept or [], trust, retry) if resume is not None else None
        made = carry_out_matrix(loaded, output, partial(locate_unread, config), values, again)
        if made.exit_code:
            raise typer.Exit(made.exit_code)
        return
    if resume is None:
        given |= cells[0]
        loaded = [load_config(config, given, add_settings=add_recorded_settings)]
        with locate_unread(config, given):
            make_run(loaded[0], output).leave()
        return
    # Here it names the folder that the run is in.
    output_dir = given.pop("output_dir", None)
    folder = find_run(resume, output_dir and Path(output_dir))
    given |= cells[0]

    def read_given(recorded: RunConfig) -> RunConfig | None:
        own = {} if config else {"benchmark": recorded.benchmark, "agent": recorded.agent}
        return load_config(config, {**own, **given}) if given or config else None

    recorded, start = resume_run(folder, read_given, accept or [], is_trusted=trust)
    make_run(recorded, output, start, retry=retry).leave()


@app.command(cls=take_settings(panels=_OF_GRADING))
def grade(
    context: typer.Context,
    config: Config = None,
    run: Annotated[
        Path | None,
        typer.Option(
            "--run",
            metavar="RUN",
            help="Grade again what this run submitted: a folder, a name in --output-dir, or latest.",
            autocompletion=complete_run,
        ),
    ] = None,
    results: Results = None,
    force: Force = False,
    fail_under: FailUnder = None,
    dry_run: DryRun = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Grade samples from a file, or what a run submitted. No model is asked."""
    from harness.cli.carry_out import OutputOptions, make_run
    from harness.core.errors import UsageError
    from harness.runs.config import load_config
    from harness.runs.recorded_run import add_recorded_settings
    from harness.runs.unread import locate_unread

    given = read_settings(context, config)
    if run is not None and "samples" in given:
        raise UsageError("--run and --samples both name what is graded", hint="leave out one of them")
    hint = f"harness grade -b {given.get('benchmark', 'mbpp')} --samples FILE.jsonl"
    needed = {"benchmark": "a benchmark", "samples": "samples"}
    missing = [name for key, name in needed.items() if key not in given]
    if run is None and config is None and missing:
        raise UsageError(f"grade needs {' and '.join(missing)}", hint=hint)
    output = OutputOptions(results, force, fail_under, dry_run, verbose, quiet)
    if run is not None:
        # A replay submits what the run submitted, after the recorded actions where a state is graded.
        values = {**given, "replay_from": str(run)}
        loaded = load_config(config, values, add_settings=add_recorded_settings)
        with locate_unread(config, values):
            make_run(loaded, output).leave()
        return
    loaded = load_config(config, given)
    if loaded.samples is None:
        raise UsageError(f"{config}: grade needs samples", hint=hint)
    if loaded.agent != "predictions":
        raise UsageError(
            f"{config}: grade runs no agent, but the config names '{loaded.agent}'",
            hint="leave out 'agent', or use: harness run",
        )
    with locate_unread(config, given):
        make_run(loaded, output).leave()


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
    from harness.cli.carry_out import OutputOptions, make_run
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
    make_run(again.config, output, start, notices=again.notices).leave()


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
    from harness.cli.carry_out import OutputOptions, carry_out_merge
    from harness.cli.files import check_results_path
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
