"""Measure the knowledge graph: a call of a tool, and 150 questions with the oracle."""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from samples.questions import write_questions

from harness import run
from harness.benchmarks import Benchmark, load_benchmark
from harness.environments.base import EnvironmentContext, NoTranscript
from harness.environments.kg.environment import KnowledgeAnswer, open_environment
from harness.environments.kg.graph import FUNCTIONS, parse_action
from harness.sandbox.pool import SandboxSettings

TASKS = 150


def measure() -> list[tuple[str, float, str]]:
    """Return the figures: label, value and unit."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "knowledgegraph"
        write_questions(folder, "std", TASKS, 1)
        benchmark = load_benchmark("agentbench", data=str(folder))
        seconds = asyncio.run(time_calls(benchmark))
        started = time.monotonic()
        result = asyncio.run(run("agentbench", data=str(folder), agent="oracle", output_dir=f"{name}/runs"))
        whole = time.monotonic() - started
    if result.summary.resolved != TASKS:
        raise RuntimeError(f"the oracle solved {result.summary.resolved} of {TASKS} questions")
    return [
        ("kg: a call of a tool, median", 1000 * statistics.median(seconds), "ms"),
        (f"kg: {TASKS} tasks with the oracle", whole, "s"),
    ]


async def time_calls(benchmark: Benchmark) -> list[float]:
    """Return the seconds of each call of the gold actions."""
    seconds = []
    for task in benchmark.tasks:
        target = benchmark.references[task.id].target
        assert isinstance(target, KnowledgeAnswer)
        nothing: Any = None
        context = EnvironmentContext(nothing, SandboxSettings("none"), 1.0, NoTranscript(), target=target)
        async with open_environment(task, context) as environment:
            for text in target.actions:
                action = parse_action(text)
                arguments = dict(zip(FUNCTIONS[action.function], action.arguments, strict=True))
                started = time.perf_counter()
                await environment.call(action.function, arguments)
                seconds.append(time.perf_counter() - started)
    return seconds


if __name__ == "__main__":
    for label, value, unit in measure():
        print(f"{label:40} {value:8.2f} {unit}")
