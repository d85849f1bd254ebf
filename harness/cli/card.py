"""`harness card`: run several benchmarks with a model, and write their results on one page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.options import Config, Force, Quiet, Verbose, complete_run, read_settings, take_settings

if TYPE_CHECKING:
    from harness.core.setting import Panel

app = typer.Typer()

_PANELS: tuple[Panel, ...] = ("Agent", "Model", "Tasks", "Grading", "Attempts", "Sandboxes")
_COMPARED = 2


@app.command(cls=take_settings(panels=_PANELS, has_axes=True))
def card(
    context: typer.Context,
    config: Config = None,
    sets: Annotated[
        Path | None,
        typer.Option("--sets", metavar="FILE", help="A YAML list with the settings of each benchmark."),
    ] = None,
    runs: Annotated[
        list[Path] | None,
        typer.Option(
            "--run",
            metavar="RUN",
            help="Put this run on the card, and make none (repeatable).",
            autocompletion=complete_run,
        ),
    ] = None,
    compared: Annotated[
        list[Path] | None,
        typer.Option("--compare", metavar="CARD", help="Compare two cards in JSON: name it twice."),
    ] = None,
    outputs: Annotated[
        list[Path] | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="FILE.html, .md or .json (repeatable). Default: stdout."
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option("--resume", metavar="INDEX", help="Go on with the runs of this index of a matrix."),
    ] = None,
    force: Force = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Run several benchmarks with a model, and write one page about them."""
    from harness.core.errors import UsageError

    if compared:
        if len(compared) != _COMPARED:
            raise UsageError(
                f"--compare needs two cards, and {len(compared)} is named", hint="give --compare twice"
            )
        _print_comparison(*compared)
        return
    from harness.cli.carry_out import OutputOptions
    from harness.cli.files import check_results_path
    from harness.reports.card import FORMATS, build_card, write_markdown
    from harness.reports.run_folder import read_run
    from harness.runs.run_names import find_run

    for path in outputs or ():
        if path.suffix not in FORMATS:
            raise UsageError(f"-o {path} must end in one of {', '.join(FORMATS)}")
        check_results_path(path, force=force)
    code = 0
    if runs:
        folders = [find_run(run, None) for run in runs]
    else:
        output = OutputOptions(verbosity=verbose, quiet=quiet)
        folders, code = _make_runs(read_settings(context, config), config, sets, output, resume)
    made = build_card([read_run(folder) for folder in folders])
    for path in outputs or ():
        with path.open("w", encoding="utf-8") as stream:
            FORMATS[path.suffix](made, stream)
        typer.echo(f"card: {path}", err=True)
    if not outputs:
        write_markdown(made, sys.stdout)
    if code:
        raise typer.Exit(code)


def _make_runs(
    given: dict[str, Any], config: Path | None, sets: Path | None, output: Any, resume: Path | None
) -> tuple[list[Path], int]:
    """Return the folders of the runs that were made, and the exit code. Raises UsageError."""
    from functools import partial

    from harness.cli.matrix import ResumedMatrix, carry_out_matrix, list_cells
    from harness.core.errors import UsageError
    from harness.reports.card import find_twice
    from harness.runs.config import load_config
    from harness.runs.recorded_run import add_recorded_settings
    from harness.runs.unread import locate_unread

    benchmarks = given.pop("benchmark", None)
    if sets is not None and benchmarks:
        raise UsageError("--sets and --benchmark both name the benchmarks", hint="leave out one of them")
    if sets is None and not benchmarks and config is None:
        raise UsageError("card needs benchmarks", hint="harness card -b aime2025 -b mbpp --model NAME")
    own = [{}] if sets is None else _read_sets(sets)
    cells = list_cells(benchmarks, given.pop("model", None))
    # The command line is over the list.
    values = [{**each, **given, **cell} for each in own for cell in cells]
    loaded = [load_config(config, each, add_settings=add_recorded_settings) for each in values]
    if twice := find_twice([config.model_dump(mode="json") for config in loaded]):
        raise UsageError(
            f"{loaded[twice[0]].benchmark} is listed twice with the same model and options",
            hint="list it once; n_samples: N makes further attempts",
        )
    again = None if resume is None else ResumedMatrix(resume)
    made = carry_out_matrix(loaded, output, partial(locate_unread, config), values, again)
    if not made.folders:
        raise typer.Exit(made.exit_code or UsageError.exit_code)
    return made.folders, made.exit_code


def _read_sets(path: Path) -> list[dict[str, Any]]:
    """Return the settings of each benchmark in a YAML list. An item may be a name. Raises UsageError."""
    from harness.core.errors import UsageError
    from harness.core.inputs.yaml_text import read_yaml

    found = read_yaml(path)
    items = found.get("sets") if isinstance(found, dict) else found
    if not isinstance(items, list) or not items:
        raise UsageError(f"{path}: needs a list of benchmarks, such as '- {{benchmark: mbpp, n_samples: 4}}'")
    settings = [{"benchmark": item} if isinstance(item, str) else item for item in items]
    for place, item in enumerate(settings, 1):
        if not isinstance(item, dict) or not isinstance(item.get("benchmark"), str):
            raise UsageError(f"{path}: item {place} has no benchmark", hint="such as '- benchmark: mbpp'")
    return settings


def _print_comparison(before: Path, after: Path) -> None:
    from harness.reports.card import list_differences, read_card
    from harness.reports.console import cell, grid, open_console

    table = grid("benchmark", before.name, after.name, "difference")
    for row in list_differences(read_card(before), read_card(after)):
        table.add_row(*map(cell, row))
    open_console(sys.stdout).print(table)
