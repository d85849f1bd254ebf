"""The benchmarks. Every module of this package that has `BENCHMARKS` declares some. No list names them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.benchmarks.benchmark import Benchmark, BenchmarkRecipe, Definition
from harness.benchmarks.data.splits import Split
from harness.benchmarks.example import Example, Label
from harness.benchmarks.loading import (
    definition_of,
    definitions,
    load_benchmark,
    load_recipe,
    load_with_options,
    rebuild_task,
)

if TYPE_CHECKING:
    from harness.benchmarks.classes import GSM8K, MATH, MBPP, NQ, HotPotQA, HumanEval, LiveCodeBench

__all__ = [
    "GSM8K",
    "MATH",
    "MBPP",
    "NQ",
    "Benchmark",
    "BenchmarkRecipe",
    "Definition",
    "Example",
    "HotPotQA",
    "HumanEval",
    "Label",
    "LiveCodeBench",
    "Split",
    "definition_of",
    "definitions",
    "load_benchmark",
    "load_recipe",
    "load_with_options",
    "rebuild_task",
]


def __getattr__(name: str) -> Any:
    # The module of the classes imports seven benchmarks, which a command for one of them need not wait for.
    if name in __all__:
        from harness.benchmarks import classes

        return getattr(classes, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
