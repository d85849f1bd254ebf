"""`harness lint`: check a set of task folders before it is published."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.run_options import Force, Quiet, ResultFiles, Verbose
from harness.cli.settings import read_settings, take_settings

ERRORS, UNFINISHED = 1, 3
_SETTINGS = (
    *("benchmark", "data", "task_ids", "sample_size", "filter_category", "filter_difficulty", "filter_tags"),
    *("options", "seed", "shard", "base_images", "build_ca", "allow_network", "network", "max_concurrent"),
    *("max_sandboxes", "timeout_multiplier", "output_dir"),
)

app = typer.Typer()


def require_task_folders(name: str, command: str) -> None:
    """Raise UsageError for a benchmark that is not a folder of tasks, before its data are loaded."""
    from harness.benchmarks.loading import definition_of
    from harness.core.errors import UsageError

    if definition_of(name).environments != ("container",):
        raise UsageError(
            f"{name}: only folders of tasks can be checked", hint=f"such as: harness {command} path/to/tasks"
        )


@app.command(cls=take_settings(*_SETTINGS))
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
    from harness.cli.carry_out import check_results_path
    from harness.cli.interrupts import Interrupted, run_until_signal
    from harness.cli.log_lines import show_log
    from harness.core.errors import UsageError
    from harness.reports.progress import progress_display
    from harness.runs.config import load_config
    from harness.runs.run_secrets import make_log_filter

    given = read_settings(context)
    if (folder is None) == ("benchmark" not in given):
        raise UsageError("name one folder of tasks", hint="such as: harness lint path/to/tasks")
    given.setdefault("benchmark", folder)
    require_task_folders(given["benchmark"], "lint")
    for path in results or ():
        check_results_path(path, force=force)
    display = progress_display(sys.stderr, quiet=quiet)
    try:
        with show_log(verbose, display.note, make_log_filter()):
            found = run_until_signal(
                lint_tasks(load_config(None, given), repeat=0 if static else repeat, observer=display)
            )
    except Interrupted as interrupted:
        raise typer.Exit(interrupted.exit_code) from None
    print_findings(found.findings, found.tasks, stream=sys.stdout)
    for path in results or ():
        write_findings(found.findings, found.tasks, path)
    if found.has_errors:
        raise typer.Exit(ERRORS)
    if found.unfinished:
        raise typer.Exit(UNFINISHED)
