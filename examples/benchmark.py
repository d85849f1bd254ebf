"""Add a number and its square.

A benchmark in one file: `harness run -b examples/benchmark.py`. The file is your own code, so it runs on your
machine and not in a sandbox.
"""

from __future__ import annotations

from collections.abc import Iterator

NAME = "sums"
# The metric is exact_match, f1, has_answer or number, or tests for Python programs
# (`harness.benchmarks.custom.metrics`).
METRIC = "number"
LICENCE = "CC0"


def tasks() -> Iterator[dict[str, object]]:
    """Yield the tasks. An agent gets the prompt, and only the grader gets the reference."""
    for number in range(1, 6):
        yield {
            "id": f"sums/{number}",
            "prompt": f"What is {number} + {number * number}? Answer with the number only.",
            "reference": number + number * number,
        }
