"""`harness data`: fetch, list, show, convert and export the data of benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.completion import complete_benchmark
from harness.cli.error_lines import print_error
from harness.cli.run_options import BENCHMARK_HELP
from harness.cli.settings import read_settings, take_settings

Folder = Annotated[
    Path | None, typer.Option("--path", help="Cache folder. Default: HARNESS_DATA, or ~/.harness/data.")
]
Bench = Annotated[str, typer.Argument(help=BENCHMARK_HELP, autocompletion=complete_benchmark)]

Output = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write to this file, not to stdout.")
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]

app = typer.Typer(
    name="data", help="Fetch, list, show and export the data of benchmarks.", no_args_is_help=True
)


@app.command(cls=take_settings("split", "options"))
def fetch(
    context: typer.Context,
    benchmark: Bench,
    every_split: Annotated[bool, typer.Option("--every-split", help="Fetch all splits.")] = False,
    path: Folder = None,
    refresh: Annotated[bool, typer.Option("--refresh", help="Fetch existing files again.")] = False,
) -> None:
    """Download a benchmark's data. An interrupted download continues."""
    import sys

    from harness.benchmarks.loading import definition_of
    from harness.benchmarks.loading import fetch as fetch_split
    from harness.core.errors import UsageError
    from harness.reports.data import show_downloads

    given = read_settings(context)
    split, options = given.get("split"), given.get("options", {})
    if split is not None and every_split:
        raise UsageError("--split and --every-split cannot be combined")
    definition = definition_of(benchmark).with_options(options)
    splits = [definition.split, *definition.splits] if every_split else [split or definition.split]
    for name in splits:
        with show_downloads(sys.stderr) as observer:
            source = fetch_split(
                benchmark, split=name, cache_dir=path, refresh=refresh, observer=observer, options=options
            )
        typer.echo(f"{definition.name} {name}: {source.rows:,} rows, sha256 {source.sha256}")
        typer.echo(f"  {source.location}")


@app.command("list")
def list_(
    path: Folder = None,
    verify: Annotated[bool, typer.Option("--verify", help="Read every file and compare its hash.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the cached files: sizes, hashes and sources.

    The exit code is 1 if a file is damaged.
    """
    import sys

    from harness.benchmarks.data.cache import State, list_cached_files
    from harness.benchmarks.data.hub import default_cache_dir
    from harness.core.errors import UsageError
    from harness.reports.data import format_cached_files, print_cached_files

    # The default folder may be missing, because the first download creates it.
    if path is not None and not path.is_dir():
        reason = "is not a folder" if path.exists() else "does not exist"
        raise UsageError(f"--path {path}: {reason}", hint="name a folder into which data was fetched")
    folder = path or default_cache_dir()
    files = list_cached_files(folder, verify=verify)
    if as_json:
        typer.echo(format_cached_files(files, folder))
    else:
        print_cached_files(files, folder, stream=sys.stdout)
    if damaged := sum(file.state is State.DAMAGED for file in files):
        print_error("1 file is damaged" if damaged == 1 else f"{damaged:,} files are damaged")
        raise typer.Exit(1)


@app.command(cls=take_settings("data", "split", "options"))
def show(
    context: typer.Context,
    benchmark: Bench,
    index: Annotated[
        int | None, typer.Option("--index", help="Position of the example in the data, from 0.")
    ] = None,
    task: Annotated[str | None, typer.Option("-t", "--task", help="Task id of the example.")] = None,
    reference: Annotated[
        bool, typer.Option("--reference", help="Also show the reference and the grading target.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show one example as an agent sees it."""
    import json
    import sys

    from harness.benchmarks.loading import load_with_options
    from harness.core.errors import UsageError, unknown_task
    from harness.reports.data import example_values, print_example, show_downloads

    if index is not None and task is not None:
        raise UsageError("--index and --task cannot be combined")
    with show_downloads(sys.stderr) as observer:
        given = {"options": {}, **read_settings(context)}
        loaded = load_with_options(benchmark, **given, notify=observer.note, observer=observer)
    if task is not None:
        ids = [each.id for each in loaded.tasks]
        if task not in ids:
            raise unknown_task(task, ids, place=loaded.name)
        index = ids.index(task)
    (example,) = loaded.get_data(loaded.split, indices=[index or 0])
    values = example_values(loaded, example, reference=reference)
    if as_json:
        typer.echo(json.dumps(values, indent=2))
    else:
        print_example(values, stream=sys.stdout)


@app.command()
def convert(
    source: Annotated[Path, typer.Argument(help="A task folder of Terminal-Bench 1, or a folder of such.")],
    destination: Annotated[Path, typer.Argument(metavar="DEST", help="The new folder.")],
) -> None:
    """Convert task folders of Terminal-Bench 1 into Harbor's form.

    The exit code is 1 if a task cannot be converted. `harness run -b` reads both forms.
    """
    from harness.benchmarks.data.terminal_bench import convert_all
    from harness.core.text import escape_terminal

    converted, failures = convert_all(source, destination)
    for name, reason in failures.items():
        print_error(escape_terminal(f"{name}: {reason}", 2000))
    typer.echo(f"converted {len(converted):,} of {len(converted) + len(failures):,} tasks to {destination}")
    if failures:
        raise typer.Exit(1)


@app.command(cls=take_settings("seed", panels=["Tasks"], without=("benchmark", "shard")))
def export(
    context: typer.Context,
    benchmark: Bench,
    output: Output = None,
    force: Force = False,
) -> None:
    """Export the prompts as JSON Lines, without references.

    `harness run` with the same options selects the same tasks.
    """
    import sys

    from harness.cli.export_file import open_export
    from harness.reports.data import show_downloads
    from harness.runs.config import load_config
    from harness.runs.plan import load_configured, select_configured_tasks
    from harness.runs.samples import export_prompts
    from harness.runs.unread import list_useless

    config = load_config(None, {"benchmark": benchmark, **read_settings(context)})
    for unread in list_useless(config):
        raise unread
    with show_downloads(sys.stderr) as observer:
        # A user would pay for replies to prompts that are not the benchmark's.
        loaded = load_configured(config, notify=observer.note, observer=observer, sample_stands_in=False)
    tasks = select_configured_tasks(loaded, config)
    with open_export(output, force=force) as file:
        file.writelines(export_prompts(tasks))
