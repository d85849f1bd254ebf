"""The files of the cache, and examples of a benchmark, as text for a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn
from rich.table import Table
from rich.text import Text

from harness.benchmarks.benchmark import Benchmark
from harness.benchmarks.data.download import CachedFile, DownloadObserver
from harness.benchmarks.example import Example
from harness.core.text import escape_terminal, escape_unencodable
from harness.reports.console import is_live, open_console
from harness.reports.figures import count

_SHOWN = 20_000
# The values that are shown below their names.
_TEXTS = ("prompt", "solution", "expected_output", "judged_by")


def size(number: int) -> str:
    """Return a number of bytes as text: `512 B`, `1.2 MB`."""
    amount = float(number)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def print_cached_files(files: Sequence[CachedFile], cache_dir: Path, *, stream: TextIO) -> None:
    """Print the files of the cache: size, rows, hash, state, date and source."""
    console = open_console(stream)
    table = Table(box=None, pad_edge=False, show_edge=False)
    for heading in ("size", "rows", "sha256", "state", "fetched", "from"):
        table.add_column(heading, justify="right" if heading in ("size", "rows") else "left", no_wrap=True)
    for file in files:
        table.add_row(
            size(file.bytes),
            "" if file.rows is None else f"{file.rows:,}",
            (file.sha256 or "")[:12],
            file.state.value,
            (file.fetched or "")[:10],
            Text(escape_unencodable(escape_terminal(file.source, 300), stream)),
        )
    if files:
        console.print(table, soft_wrap=True)
    total = size(sum(file.bytes for file in files))
    console.print(Text(f"{count(len(files), 'file')}, {total}, in {cache_dir}"), soft_wrap=True)


def format_cached_files(files: Sequence[CachedFile], cache_dir: Path) -> str:
    """Return the files of the cache as JSON."""
    listed = [{**asdict(file), "path": str(file.path), "state": file.state.value} for file in files]
    return json.dumps({"folder": str(cache_dir), "files": listed}, indent=2)


def example_values(benchmark: Benchmark, example: Example, *, reference: bool) -> dict[str, Any]:
    """Return an example as agents see it, and with `reference` also the label that answers are graded by."""
    task = example.task
    values: dict[str, Any] = {
        "benchmark": benchmark.name,
        "split": example.split,
        "source": benchmark.in_split(example.split).source.location,
        "task_id": benchmark.get_id(example),
        "category": task.category,
        "labels": dict(task.labels),
        "difficulty": task.difficulty,
        "tags": list(task.tags),
        "environment": task.environment,
        "entry_point": task.entry_point,
        "agent_seconds": task.agent_seconds,
        "tests_seconds": task.tests_seconds,
        "facts": dict(benchmark.definition.describe_task(task)),
        "instruction": task.instruction or None,
        "prompt": example.prompt,
    }
    if reference:
        label = benchmark.get_label(example)
        values |= {
            "solution": label.solution,
            "expected_output": label.expected_output,
            "judged_by": repr(label.reference.target),
        }
    return values


def print_example(values: dict[str, Any], *, stream: TextIO) -> None:
    """Print an example: one line for each fact, and each long text below its name."""
    console = open_console(stream)
    texts = {name: values[name] for name in _TEXTS if name in values}
    facts = {name: value for name, value in values.items() if name not in (*_TEXTS, "facts")}
    for name, value in {**facts, **values.get("facts", {}), **texts}.items():
        if value in (None, {}):
            continue
        text = ", ".join(f"{key} {each}" for key, each in value.items()) if isinstance(value, dict) else value
        shown = escape_unencodable(escape_terminal(str(text), _SHOWN, multiline=True), stream)
        below = name in _TEXTS
        console.print(Text(f"\n--- {name} ---\n{shown}" if below else f"{name:12} {shown}"), soft_wrap=True)


@contextmanager
def show_downloads(stream: TextIO) -> Iterator[DownloadObserver]:
    """Yield an observer that shows the progress of downloads on `stream`, until the context ends."""
    console = open_console(stream)
    bars: dict[str, TaskID] = {}
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=console,
        disable=not is_live(stream),
    )

    def note(text: str) -> None:
        console.print(Text(escape_unencodable(escape_terminal(text, 2000), stream)), soft_wrap=True)

    def moved(name: str, done: int, total: int | None) -> None:
        if name not in bars:
            bars[name] = progress.add_task(escape_terminal(name, 60), total=total)
        progress.update(bars[name], completed=done, total=total)

    with progress:
        yield DownloadObserver(note, moved)
