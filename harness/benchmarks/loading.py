"""Load a benchmark by its name: find its definition, its split and its rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from harness.benchmarks.benchmark import Benchmark, BenchmarkRecipe, Definition, read_all
from harness.benchmarks.custom import is_own, names_task_folders
from harness.benchmarks.data.download import DownloadObserver
from harness.benchmarks.data.hub import load_hub_rows
from harness.benchmarks.data.rows import Row
from harness.benchmarks.data.source import is_cache, load_rows
from harness.benchmarks.data.splits import HubDataset, Split
from harness.core.discovery import find_declared, list_declared, load_entry_points, names_python_file
from harness.core.errors import DataError, HarnessError, UsageError, unknown_name
from harness.core.inputs.files import MAX_TEXT_BYTES, open_input
from harness.core.types import DataSource, Reference, Task

ENTRY_POINTS = "harness.benchmarks"


@cache
def _ours() -> dict[str, Definition]:
    return {definition.name: definition for definition in list_declared(ENTRY_POINTS, "BENCHMARKS")}


@cache
def definitions() -> dict[str, Definition]:
    """Return all benchmarks by name: ours, and installed packages'.

    Raises UsageError for an entry point that does not hold definitions.
    """
    found = dict(_ours())
    for name, declare in load_entry_points(ENTRY_POINTS):
        for definition in declare:
            if not isinstance(definition, Definition):
                raise UsageError(
                    f"entry point '{name}' of {ENTRY_POINTS} holds {type(definition).__name__}, "
                    "not a Definition"
                )
            if definition.name in found:
                raise UsageError(f"entry point '{name}': the benchmark '{definition.name}' exists already")
            found[definition.name] = definition
    return found


def definition_of(name: str) -> Definition:
    """Return a benchmark by its name, or the one in a user's file. Raises UsageError, DataError."""
    if is_own(name):
        return own_definition(Path(name))
    definition: Definition
    # The module of its name comes first, because an import of all benchmarks takes longer than a container.
    for definition in find_declared(ENTRY_POINTS, "BENCHMARKS", name):
        if definition.name == name:
            return definition
    # Ours come before others, because a broken package of somebody else must not stop a run of ours.
    known = _ours() if name in _ours() else definitions()
    if name in known:
        return known[name]
    for each in known.values():
        if (category := each.find_category(name)) in each.categories:
            raise UsageError(
                f"'{name}' is a category of the benchmark {each.name}",
                hint=f"select it with -b {each.name} --filter-category {category}",
            )
    if set(parts := name.split(",")) <= set(known):
        options = " ".join(f"-b {each}" for each in parts)
        raise UsageError(f"unknown benchmark '{name}'", hint=f"give each its own option: {options}")
    if Path(name).is_dir():
        from harness.benchmarks.data.task_sets import nothing_found

        raise nothing_found(Path(name))
    raise unknown_name("benchmark", name, known, lister="harness benchmarks; or name a folder of tasks")


def load_benchmark(
    name: str,
    *,
    data: str | None = None,
    split: str | None = None,
    notify: Callable[[str], None] = lambda _line: None,
    observer: DownloadObserver | None = None,
    sample_stands_in: bool = True,
    extract: str | None = None,
    categories: Sequence[str] = (),
    **options: Any,
) -> Benchmark:
    """Return a benchmark in one split; `Benchmark.in_split` loads its others.

    Args:
        name: The name of a benchmark, or the path of a user's own: a YAML file, or a Python file, which
            runs as the user's own code, in this process and without a sandbox.
        data: A file in a published format or a folder of such, `hub`, `bundled`, or a folder that is
            empty or a cache, to keep downloads in (by default HARNESS_DATA, or `~/.harness/data`).
            None asks the hub.
        split: `train`, `dev`, `test`, or another split of the benchmark; None means the one that is
            published for evaluation.
        notify: Gets warnings and other notes, each a line.
        observer: Gets the progress of downloads.
        sample_stands_in: Whether the bundled sample, with a warning, stands in for a hub that cannot be
            reached if `data` is None.
        extract: The rule that takes code out of texts, one of CodeRule; None for the benchmark's own.
        categories: The categories whose data are read, none for all. Other categories of AgentBench are
            left out unread, with their notes and errors. The tasks of other benchmarks stay.
        options: The benchmark's own options, such as `release` of livecodebench.

    Raises:
        UsageError: The name, the split, an option or the rule is unknown, or the benchmark grades no
            programs and cannot use a rule.
        DataError: The data cannot be used, with file, line and field, or the hub has another number of
            rows than the split.
    """
    return load_with_options(
        name,
        options,
        data=data,
        split=split,
        notify=notify,
        observer=observer,
        sample_stands_in=sample_stands_in,
        extract=extract,
        categories=categories,
    )


def load_with_options(
    name: str,
    options: Mapping[str, Any],
    *,
    data: str | None = None,
    split: str | None = None,
    notify: Callable[[str], None] = lambda _line: None,
    observer: DownloadObserver | None = None,
    sample_stands_in: bool = True,
    extract: str | None = None,
    categories: Sequence[str] = (),
) -> Benchmark:
    """Return a benchmark as `load_benchmark` does, with options by name, which a user may have chosen freely.

    Raises as `load_benchmark` does.
    """
    definition = definition_of(name).with_options(options).in_categories(categories)
    if extract is not None:
        definition = definition.with_code_rule(extract)

    @cache
    def load(wanted: str) -> Benchmark:
        observed = observer or DownloadObserver(notify)
        try:
            loaded = _load(definition, data, wanted, observed, sample_stands_in=sample_stands_in)
        except (DataError, UsageError) as error:
            error.hint = _recognise(definition, data) or error.hint
            raise
        recipe = BenchmarkRecipe(
            name=os.path.abspath(os.path.expanduser(name)) if is_own(name) else name,
            split=wanted,
            data=_data_again(data, loaded.source),
            sha256=loaded.source.sha256,
            options=dict(options),
            extract=extract,
            categories=tuple(categories),
        )
        return replace(loaded, recipe=recipe, load_split=load)

    return load(split or definition.split)


def _recognise(definition: Definition, data: str | None) -> str | None:
    """Return the hint at the benchmark whose data a user's file holds, None if it loads as no other one."""
    path = os.path.expanduser(data or "")
    if not os.path.isfile(path) or definition.name not in _ours():
        return None
    for other in _ours().values():
        if other is not definition:
            with suppress(HarnessError):
                silent = DownloadObserver(lambda _line: None)
                found = _load(other, path, other.split, silent, sample_stands_in=False)
                sample = _load(other, "bundled", other.split, silent, sample_stands_in=False)
                # Some benchmarks also read rows that are published for another one.
                fields = set(next(iter(found.rows.values())))
                if not any(fields.issuperset(row) for row in sample.rows.values()):
                    continue
                return f"this looks like the data of {other.name}: -b {other.name} --data {data}"
    return None


def _data_again(data: str | None, source: DataSource) -> str | None:
    """Return the `data` that makes another process load the same data."""
    if data is None:
        return None if source.kind == "path" else source.kind
    return data if data in ("hub", "bundled") else os.path.abspath(os.path.expanduser(data))


def load_recipe(recipe: BenchmarkRecipe, *, notify: Callable[[str], None] = lambda _line: None) -> Benchmark:
    """Load the benchmark of a recipe. Raises as `load_benchmark` does, and DataError for other data."""
    loaded = load_with_options(
        recipe.name,
        recipe.options,
        data=recipe.data,
        split=recipe.split,
        notify=notify,
        extract=recipe.extract,
        categories=recipe.categories,
    )
    if loaded.source.sha256 != recipe.sha256:
        raise DataError(
            f"has SHA-256 {loaded.source.sha256}, but the run needs {recipe.sha256}",
            path=loaded.source.location,
            hint="copy the run's data to this machine and name their path with --data",
        )
    return loaded


def rebuild_task(recipe: BenchmarkRecipe, task_id: str) -> tuple[Task, Reference]:
    """Return a task and its reference. Raises as `load_recipe` does, and UsageError for an unknown task."""
    loaded = load_recipe(recipe)
    task = next((task for task in loaded.tasks if task.id == task_id), None)
    if task is None:
        raise unknown_name("task", task_id, loaded.references)
    return task, loaded.references[task_id]


def _load(
    definition: Definition,
    data: str | None,
    wanted: str,
    observer: DownloadObserver,
    *,
    sample_stands_in: bool,
) -> Benchmark:
    split = definition.in_split(wanted)
    _require_apart(definition, wanted, data)
    # The sample may stand in for the split that is evaluated, but not for one to learn from.
    sampled = wanted == definition.split or (definition.split, wanted) == ("all", "test")
    sampled = sampled and (sample_stands_in or data is not None)
    rows, source = _rows(definition, data, split, wanted, sampled, observer)
    # A path that a user names may hold a part of the split, so that only published data are counted.
    if source.kind == "hub" or (source.kind == "path" and data is None):
        _require_count(definition, wanted, split, source)
    if source.kind == "path" and split.holds is not None:
        rows, source = _select_rows(split, rows, source, wanted)
    benchmark = read_all(definition, rows, source, wanted)
    name = definition.name
    named = tuple(
        task if task.benchmark == name else replace(task, benchmark=name) for task in benchmark.tasks
    )
    return replace(benchmark, tasks=named)


def _rows(
    definition: Definition,
    data: str | None,
    split: Split,
    wanted: str,
    sampled: bool,
    observer: DownloadObserver,
) -> tuple[list[Row], DataSource]:
    if definition.make_rows is not None:
        if data is not None:
            raise UsageError(
                f"{definition.name} makes its own tasks and reads no --data", hint="leave out --data"
            )
        rows, sha256 = definition.make_rows()
        return rows, DataSource("path", definition.source or definition.name, sha256, len(rows))
    files = definition.split_files(wanted)
    if data is None and split.data is not None and os.path.isfile(split.data):
        files = replace(files, by_name=False)
    return load_rows(
        files,
        data=data or split.data,
        hub=split.hub,
        bundled=definition.bundled if sampled else None,
        observer=observer,
        gather=definition.gather,
        table=definition.table,
    )


def fetch(
    name: str,
    *,
    split: str | None = None,
    cache_dir: Path | None = None,
    refresh: bool = False,
    observer: DownloadObserver,
    options: Mapping[str, Any] | None = None,
) -> DataSource:
    """Download a split of a benchmark, check that it is whole, and return its source.

    A copy in the cache is downloaded again only with `refresh`. Raises as `load_benchmark` does.
    """
    definition = definition_of(name).with_options(options or {})
    wanted = split or definition.split
    part = definition.in_split(wanted)
    if part.hub is None:
        raise UsageError(
            f"{definition.name} has nothing to download", hint="its rows are read from its own path"
        )
    rows, sha256, location = load_hub_rows(
        part.hub,
        cache_dir=cache_dir,
        observer=observer,
        table=definition.table,
        refresh=refresh,
    )
    source = DataSource("hub", location, sha256, len(rows))
    _require_count(definition, wanted, part, source)
    return source


def _require_count(definition: Definition, wanted: str, split: Split, source: DataSource) -> None:
    if split.tasks is not None and source.rows != split.tasks:
        raise DataError(
            f"{definition.name} has {split.tasks:,} rows in split '{wanted}', "
            f"but this data has {source.rows:,}",
            path=source.location,
            hint="the dataset has changed where it is published; use --data PATH with the file you trust",
        )


def _require_apart(definition: Definition, wanted: str, data: str | None) -> None:
    """Raise UsageError if the wanted split would have the rows of another split.

    A benchmark that makes or gathers its rows has the evaluation split alone. Others have a file or a dataset
    for each split, unless the rows themselves tell their split.
    """
    split = definition.in_split(wanted)
    if split.holds is not None:
        return
    path = None if data is None or data in ("hub", "bundled") else Path(os.path.expanduser(data))
    path = None if path is None or is_cache(path) else path
    if wanted != definition.split and (definition.make_rows or (definition.gather and path)):
        reason = f"{path} is read as" if path else "it makes the rows of"
        raise UsageError(
            f"{definition.name}: {reason} split '{definition.split}', and cannot also be '{wanted}'",
            hint=f"choose split '{definition.split}'",
        )
    place = None if path else _place(split)
    for name in (definition.split, *definition.splits):
        other = definition.in_split(name)
        if name != wanted and place and other.holds is None and _place(other) == place:
            raise UsageError(
                f"{definition.name}: splits '{wanted}' and '{name}' have the same rows, in {place}",
                hint="name another file or dataset for one of them, or leave it out",
            )


def _place(split: Split) -> HubDataset | str | None:
    """Return the place that has the rows of a split alone. In a folder, the names of files tell splits."""
    if split.data is None:
        return split.hub
    return None if os.path.isdir(split.data) else os.path.realpath(split.data)


def _select_rows(
    split: Split, rows: list[Row], source: DataSource, wanted: str
) -> tuple[list[Row], DataSource]:
    """Return the rows that belong to the split, out of a file of the whole benchmark. Raises DataError."""
    held = [row for row in rows if split.holds is None or split.holds(row)]
    if not held:
        raise DataError(f"holds no row of split '{wanted}'", path=source.location)
    return held, replace(source, rows=len(held))


def own_definition(path: Path) -> Definition:
    """Return the benchmark that a user's file or folder describes.

    A Python file is imported, and so runs, on the host, because it is the user's own code and trusted as
    this package is. A YAML file is data. Raises UsageError with file and key if the file cannot be used.
    """
    if names_task_folders(str(path)):
        from harness.benchmarks.task_folders import folder_definition

        return folder_definition(Path(os.path.expanduser(path)).absolute())
    from harness.benchmarks.custom.definition import read_mapping, read_module

    path = Path(os.path.expanduser(path)).absolute()
    try:
        open_input(path, max_bytes=MAX_TEXT_BYTES).close()
    except FileNotFoundError as error:
        raise UsageError(
            f"{path}: no such file", hint="-b takes the name of a benchmark, or your own file"
        ) from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    return read_module(path) if names_python_file(path.name) else read_mapping(path)
