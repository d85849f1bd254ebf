"""Measure the environment `lateral`: a question to the offline host, and a run of all bundled puzzles."""

from __future__ import annotations

import asyncio
import contextlib
import io
import statistics
import tempfile
import time
from typing import Any

from harness.api import run
from harness.benchmarks import load_benchmark
from harness.environments import environment_spec
from harness.environments.base import EnvironmentContext, NoTranscript
from harness.environments.lateral.game import LateralPuzzle
from harness.sandbox.pool import SandboxSettings

ROUNDS = 20


def measure() -> list[tuple[str, float, str]]:
    """Return the label, the value and the unit of each figure."""
    calls = sorted(asyncio.run(_time_calls()))
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        result = asyncio.run(
            run("agentbench", data="bundled", filter_category=["lateral"], agent="oracle", output_dir=folder)
        )
    seconds = time.perf_counter() - started
    return [
        ("lateral: ask, p50", 1000 * statistics.median(calls), "ms"),
        ("lateral: ask, p99", 1000 * calls[int(0.99 * len(calls))], "ms"),
        (f"lateral: oracle at {len(result.attempts)} puzzles", seconds, "s"),
    ]


async def _time_calls() -> list[float]:
    """Return the seconds of each of many different questions to every bundled puzzle."""
    benchmark = load_benchmark("agentbench", data="bundled", notify=lambda _line: None)
    open_environment = environment_spec("lateral").open_environment
    assert open_environment is not None
    nothing: Any = None
    seconds = []
    for task in benchmark.tasks:
        target = benchmark.references[task.id].target
        if not isinstance(target, LateralPuzzle):
            continue
        settings = SandboxSettings("none")
        context = EnvironmentContext(nothing, settings, 1.0, NoTranscript(), target=target)
        async with open_environment(task, context) as environment:
            for number in range(ROUNDS):
                question = f"Is it {number}? {target.story}"[:300]
                started = time.perf_counter()
                await environment.call("ask", {"question": question})
                seconds.append(time.perf_counter() - started)
    return seconds


if __name__ == "__main__":
    for label, value, unit in measure():
        print(f"{label:40}{value:10.3f} {unit}")
