"""The benchmarks. Every module of this package that has `BENCHMARKS` adds them: one file, no list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from harness.benchmarks.benchmark import Benchmark, Definition, read_all
from harness.data.source import load_rows
from harness.discovery import declared
from harness.errors import unknown_name

__all__ = ["Benchmark", "Definition", "definitions", "load_benchmark"]


@cache
def definitions() -> dict[str, Definition]:
    """Return every benchmark that there is, by name."""
    return {definition.name: definition for definition in declared(__name__, "BENCHMARKS")}


def load_benchmark(
    name: str, *, path: str | None = None, notify: Callable[[str], None] = lambda _line: None
) -> Benchmark:
    """Load a benchmark.

    `path` is a file in a published format, `hub` or `bundled`; None asks the hub and falls back to
    the bundled sample with a warning through `notify`. Raises UsageError for an unknown name and
    DataError, with file, line and field, for data that cannot be used.
    """
    known = definitions()
    if name not in known:
        raise unknown_name("benchmark", name, known)
    definition = known[name]
    rows, source = load_rows(
        benchmark=name,
        data=path,
        hub=definition.hub,
        bundled=definition.bundled,
        notify=notify,
        gather=definition.gather,
    )
    benchmark = read_all(definition, rows, source)
    named = tuple(replace(task, benchmark=name) for task in benchmark.tasks)
    return replace(benchmark, tasks=named)
