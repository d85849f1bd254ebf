"""The benchmarks. Every module of this package that has `BENCHMARKS` adds them: one file, no list."""

from __future__ import annotations

from harness.benchmarks.benchmark import Benchmark, Definition, Split
from harness.benchmarks.example import Example, Label
from harness.benchmarks.loading import definition_of, definitions, load_benchmark

__all__ = [
    "Benchmark",
    "Definition",
    "Example",
    "Label",
    "Split",
    "definition_of",
    "definitions",
    "load_benchmark",
]
