"""Measure the shop: its tools' calls among 10,000 products, and the time to load a catalogue."""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from samples.shop import generate_records

from harness.core.types import Task
from harness.environments.base import EnvironmentContext, NoTranscript
from harness.environments.web.catalogue import load_catalogue
from harness.environments.web.environment import CLICK, SEARCH, open_environment, solve
from harness.environments.web.grader import ShopGoal
from harness.environments.web.products import Goal, PublishedShop
from harness.sandbox.pool import SandboxSettings

PRODUCTS = 10_000
SESSIONS = 100
_TASK = Task("web/std/0", "agentbench", "web", "")


def measure() -> list[tuple[str, float, str]]:
    """Return the median of a tool call, the time of a task with the oracle, and the time of loading."""
    with tempfile.TemporaryDirectory() as folder:
        source = generate_records(1, PRODUCTS).write(Path(folder))
        started = time.monotonic()
        catalogue = load_catalogue(source)
        loading = time.monotonic() - started
    goals = catalogue.goals[:SESSIONS]
    calls = asyncio.run(_time_calls(source, goals))
    started = time.monotonic()
    asyncio.run(_solve_all(source, goals))
    solving = (time.monotonic() - started) / len(goals)
    label = f"web, {PRODUCTS:,} products"
    return [
        (f"{label}: search_action p50", 1000 * statistics.median(calls[SEARCH.name]), "ms"),
        (f"{label}: click_action p50", 1000 * statistics.median(calls[CLICK.name]), "ms"),
        (f"{label}: a task with the oracle", 1000 * solving, "ms"),
        (f"{label}: read and index", loading, "s"),
    ]


def _context(target: ShopGoal) -> EnvironmentContext:
    nothing: Any = None
    context = EnvironmentContext(nothing, SandboxSettings("none"), 1.0, NoTranscript())
    return replace(context, target=target)


async def _time_calls(source: PublishedShop, goals: tuple[Goal, ...]) -> dict[str, list[float]]:
    """Return the seconds of each call by its tool: a search for the whole instruction, and four clicks."""
    seconds: dict[str, list[float]] = {SEARCH.name: [], CLICK.name: []}
    for goal in goals:
        async with open_environment(_TASK, _context(ShopGoal(source, goal, "offline"))) as environment:
            calls = [(SEARCH.name, {"keywords": goal.instruction}), (CLICK.name, {"value": "next >"})]
            calls.append((CLICK.name, {"value": "< prev"}))
            for name, arguments in calls:
                seconds[name].append(await _time_call(environment, name, arguments))
            for value in (list(environment.state.page.clickables)[-1], "features"):
                seconds[CLICK.name].append(await _time_call(environment, CLICK.name, {"value": value}))
    return seconds


async def _time_call(environment: Any, name: str, arguments: dict[str, str]) -> float:
    started = time.perf_counter()
    await environment.call(name, arguments)
    return time.perf_counter() - started


async def _solve_all(source: PublishedShop, goals: tuple[Goal, ...]) -> None:
    for goal in goals:
        target = ShopGoal(source, goal, "offline")
        async with open_environment(_TASK, _context(target)) as environment:
            await solve(environment, target)


if __name__ == "__main__":
    for name, value, unit in measure():
        print(f"{name}: {value:.2f} {unit}")
