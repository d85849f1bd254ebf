"""The benchmarks. Every module of this package that has `BENCHMARKS` declares some; there is no list."""

from __future__ import annotations

from harness.benchmarks.benchmark import Benchmark, Definition, Split
from harness.benchmarks.example import Example, Label
from harness.benchmarks.loading import (
    definition_of,
    definitions,
    load_benchmark,
    load_recipe,
    load_with_options,
    rebuild_task,
)
from harness.benchmarks.recipe import BenchmarkRecipe

__all__ = [
    "Benchmark",
    "BenchmarkRecipe",
    "Definition",
    "Example",
    "Label",
    "Split",
    "definition_of",
    "definitions",
    "load_benchmark",
    "load_recipe",
    "load_with_options",
    "rebuild_task",
]
