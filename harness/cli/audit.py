"""The commands that test a benchmark itself: `harness audit`, `harness lint` and `harness calibrate`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import (
    Force,
    Quiet,
    ResultFiles,
    Trust,
    Verbose,
    complete_benchmark,
    read_settings,
    take_settings,
)
from harness.cli.streams import print_error
from harness.core.text import quote_argument

if TYPE_CHECKING:
    from harness.audit.results import Audit
    from harness.audit.run import AuditPlan
    from harness.runs.progress import RunObserver

app = typer.Typer()

DEFAULT_TASKS = 5
# The relay of models is attacked by its own suite, as if it were a benchmark.
RELAY = "relay"
FAILED, UNFINISHED = 1, 3
_OF_AUDIT = (
    *("data", "task_ids", "filter_category", "filter_difficulty", "filter_tags", "split", "options"),
    *("seed", "shard", "timeout_seconds", "timeout_multiplier", "max_concurrent", "max_sandboxes", "runtime"),
    *("isolation", "base_images", "build_ca", "allow_network", "network", "output_dir", "benchmark"),
)
_OF_LINT = (
    *("benchmark", "data", "task_ids", "sample_size", "filter_category", "filter_difficulty", "filter_tags"),
    *("options", "seed", "shard", "base_images", "build_ca", "allow_network", "network", "max_concurrent"),
    *("max_sandboxes", "timeout_multiplier", "output_dir"),
)
_OF_CALIBRATION = (
    *("data", "task_ids", "sample_size", "filter_category", "filter_difficulty", "filter_tags", "options"),
    *("base_images", "build_ca", "allow_network", "network", "max_concurrent", "output_dir"),
)


@app.command(cls=take_settings(*_OF_AUDIT))
def audit(
    context: typer.Context,
    attacked: Annotated[
        str | None,
        typer.Argument(
            metavar="[BENCHMARK]",
            help="See `harness benchmarks`; or a folder of tasks; or: relay.",
            autocompletion=complete_benchmark,
        ),
    ] = None,
    sample_size: Annotated[
        int | None,
        typer.Option(
            "-n",
            "--sample-size",
            min=1,
            metavar="N",
            help="Maximum number of tasks to attack, but at least one of each kind. "
            f"Default: {DEFAULT_TASKS}, or all that -t selects, or all of a folder.",
        ),
    ] = None,
    all_tasks: Annotated[bool, typer.Option("--all-tasks", help="Attack every task.")] = False,
    attacks: Annotated[
        list[str] | None, typer.Option("--attack", metavar="NAME", help="Make only this attack (repeatable).")
    ] = None,
    levels: Annotated[
        list[str] | None,
        typer.Option(
            "--level",
            metavar="LEVEL",
            help="Attack task folders at this seal level (repeatable). Default: own (the task's) and live.",
        ),
    ] = None,
    results: ResultFiles = None,
    force: Force = False,
    resume: Annotated[Path | None, typer.Option("--resume", help="Resume the audit in this folder.")] = None,
    trust: Trust = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Attack a grader, which must pass only the reference solutions.

    The audit of a folder of tasks shows which of them an agent can pass without doing them.

    `harness audit relay` attacks the relay of models: not a grader, but the way that programs in sandboxes
    reach a model. The exit code is 1 if an attack passed or a reference failed, and 3 if infra errors remain.
    """
    import sys

    from harness.audit.report import write_audit
    from harness.audit.run import make_audit_folder, plan_audit, plan_resumed_audit
    from harness.cli.files import check_results_path
    from harness.core.errors import UsageError
    from harness.reports.console import LONG
    from harness.reports.progress import progress_display
    from harness.reports.table import print_record_details
    from harness.runs.config import load_config
    from harness.runs.store import AUDIT_RESULTS

    given = read_settings(context)
    if attacked is not None:
        if "benchmark" in given:
            raise UsageError("the benchmark is named twice", hint="leave out -b, or the argument")
        given["benchmark"] = attacked
    benchmark = given.get("benchmark")
    if sample_size is not None and all_tasks:
        raise UsageError("--sample-size and --all-tasks cannot be combined")
    if resume is not None and (given or sample_size is not None or all_tasks or attacks or levels):
        raise UsageError(
            "--resume continues an audit with its own settings",
            hint="leave out all but -o, --force, --trust, -v and -q",
        )
    if benchmark == RELAY:
        is_given = given.keys() - {"benchmark"} or sample_size is not None or all_tasks or levels
        if is_given or resume is not None or len(results or ()) > 1:
            raise UsageError(
                "the audit of the relay attacks no benchmark",
                hint="leave out all options but --attack, -o, --force, -v and -q",
            )
        _audit_relay(
            attacks or (), next(iter(results or ()), None), force=force, verbosity=verbose, quiet=quiet
        )
        return
    if trust and resume is None:
        raise UsageError("--trust needs an audit to resume", hint="add it: --resume FOLDER --trust")
    if resume is None and benchmark is None:
        raise UsageError(
            "the benchmark is missing", hint="name one: harness audit mbpp; `harness benchmarks` lists them"
        )
    for path in results or ():
        check_results_path(path, force=force)
    display = progress_display(sys.stderr, quiet=quiet)
    if resume is None:
        # All tasks that are selected with --task are attacked, unless --sample-size limits their number.
        is_chosen = all_tasks or "task_ids" in given or sample_size is not None
        plan = plan_audit(
            load_config(None, given),
            sample_size if is_chosen else DEFAULT_TASKS,
            takes_whole_folders=not is_chosen,
            attacks=attacks or (),
            levels=levels,
            notify=display.note,
        )
        folder = make_audit_folder(plan)
    else:
        plan, folder = plan_resumed_audit(resume, is_trusted=trust, notify=display.note), resume
    if not plan.levels and any(path.suffix == ".md" for path in results or ()):
        raise UsageError("only the audit of task folders is written as Markdown", hint="name a .json")
    result = _carry_out(plan, folder, display, verbose)
    write_audit(result, folder / AUDIT_RESULTS)
    if verbose:
        for attempt in result.attempts:
            print_record_details(attempt.record, folder=attempt.folder, stream=sys.stderr, limit=LONG)
    report_audit(result, results or ())


def report_audit(result: Audit, paths: Sequence[Path]) -> None:
    """Print the result of an audit and write it to files. Raises typer.Exit if the exit code is not 0."""
    import sys

    from harness.audit.folder_findings import print_folder_audit, write_folder_markdown
    from harness.audit.report import conclude, print_audit, write_audit

    for path in paths:
        (write_folder_markdown if path.suffix == ".md" else write_audit)(result, path)
    (print_folder_audit if result.levels else print_audit)(result, stream=sys.stdout)
    if not result.sound:
        unfinished = not (result.forged or result.failed) and bool(result.unfinished)
        print_error(
            f"the grader is not shown to be sound: {conclude(result)}",
            f"make the rest: harness audit --resume {quote_argument(result.folder)}" if unfinished else None,
        )
        raise typer.Exit(FAILED if result.forged or result.failed else UNFINISHED)


def _audit_relay(
    names: Sequence[str], results: Path | None, *, force: bool, verbosity: int, quiet: bool
) -> None:
    """Attack the relay, print the outcome of each attack, and exit with 1 if a rule did not hold."""
    import json
    import sys

    from harness.audit.attack import choose_attacks
    from harness.audit.relay import carry_out_relay_audit, conclude, print_relay_audit
    from harness.audit.relay_attacks import list_relay_attacks
    from harness.cli.files import check_results_path
    from harness.cli.work import run_shown
    from harness.reports.progress import progress_display
    from harness.runs.run_files import replace_file

    if results is not None:
        check_results_path(results, force=force)
    display = progress_display(sys.stderr, quiet=quiet)
    audit = run_shown(
        carry_out_relay_audit(choose_attacks(list_relay_attacks(), names), display), display.note, verbosity
    )
    if results is not None:
        with replace_file(results) as file:
            json.dump(audit.as_values(), file, indent=2)
    print_relay_audit(audit, stream=sys.stdout)
    if not audit.sound:
        print_error(f"the relay is not shown to be sound: {conclude(audit)}")
        raise typer.Exit(FAILED)


def _carry_out(plan: AuditPlan, folder: Path, display: RunObserver, verbosity: int) -> Audit:
    """Run an audit until its end or a signal, and return the result. An interrupted audit can be resumed."""
    from harness.audit.run import carry_out_audit
    from harness.cli.work import Interrupted, run_shown

    try:
        return run_shown(carry_out_audit(plan, folder, display), display.note, verbosity)
    except Interrupted:
        display.note(f"interrupted; to continue: harness audit --resume {quote_argument(folder)}")
        raise


def require_task_folders(name: str, command: str) -> None:
    """Raise UsageError for a benchmark that is not a folder of tasks, before its data are loaded."""
    from harness.benchmarks.loading import definition_of
    from harness.core.errors import UsageError

    if definition_of(name).environments != ("container",):
        raise UsageError(
            f"{name}: only folders of tasks can be checked", hint=f"such as: harness {command} path/to/tasks"
        )


@app.command(cls=take_settings(*_OF_LINT))
def lint(
    context: typer.Context,
    folder: Annotated[
        str | None, typer.Argument(metavar="FOLDER", help="A task folder, or a folder of such.")
    ] = None,
    static: Annotated[
        bool, typer.Option("--static", help="Read the files alone, and start no machine.")
    ] = False,
    repeat: Annotated[
        int, typer.Option("--repeat", min=1, metavar="N", help="How often the reference runs.")
    ] = 3,
    results: ResultFiles = None,
    force: Force = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Check a set of task folders before it is published.

    Files are read for unknown keys, canaries, leaks, secrets, versions, and the network in tests. Machines
    show whether the reference passes each time and an empty agent never does. The exit code is 1 if there are
    errors, and 3 if attempts have no verdict.
    """
    import sys

    from harness.audit.lint import lint_tasks, print_findings, write_findings
    from harness.cli.files import check_results_path
    from harness.cli.work import run_shown
    from harness.core.errors import UsageError
    from harness.reports.progress import progress_display
    from harness.runs.config import load_config

    given = read_settings(context)
    if (folder is None) == ("benchmark" not in given):
        raise UsageError("name one folder of tasks", hint="such as: harness lint path/to/tasks")
    given.setdefault("benchmark", folder)
    require_task_folders(given["benchmark"], "lint")
    for path in results or ():
        check_results_path(path, force=force)
    display = progress_display(sys.stderr, quiet=quiet)
    linting = lint_tasks(load_config(None, given), repeat=0 if static else repeat, observer=display)
    found = run_shown(linting, display.note, verbose)
    print_findings(found.findings, found.tasks, stream=sys.stdout)
    for path in results or ():
        write_findings(found.findings, found.tasks, path)
    if found.has_errors:
        raise typer.Exit(FAILED)
    if found.unfinished:
        raise typer.Exit(UNFINISHED)


@app.command(cls=take_settings(*_OF_CALIBRATION))
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
    from harness.reports.table import print_levels
    from harness.runs.config import load_config

    require_task_folders(folder, "calibrate")
    given = {"benchmark": folder, "agent": "null", **read_settings(context)}
    made = make_run(load_config(None, given), OutputOptions(verbosity=verbose, quiet=quiet))
    if made.folder is None:
        raise typer.Exit(made.exit_code)
    if not print_levels(made.folder, stream=sys.stdout):
        raise typer.Exit(1)
