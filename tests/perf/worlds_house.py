"""Measure household games: a load, a call of the tool, and the memory over a thousand games.

Run as a program to print the figures.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from samples.households import GRAMMARS, KINDS, generate_game

from harness.core.inputs.files import hash_file
from harness.core.types import Task
from harness.environments.base import EnvironmentContext, NoTranscript
from harness.environments.house.environment import open_environment, solve
from harness.environments.house.game import read_game
from harness.environments.house.play import HouseGame, Play
from harness.sandbox.pool import SandboxSettings

GAMES = 1000
# The caches of the interpreter and of the engine are full after these.
WARM_UP = 100
DIFFERENT = 60


def measure() -> list[tuple[str, float, str]]:
    """Return the label, the value and the unit of each figure."""
    with tempfile.TemporaryDirectory() as folder:
        targets = _write_games(Path(folder))
        loads, calls = _measure_engine(targets)
        seconds, grown, tools = asyncio.run(_play_games(targets))
    return [
        ("house: load a game of 60 KB, p50", 1000 * loads, "ms"),
        ("house: a command in the engine, p50", 1000 * calls, "ms"),
        ("house: a call of take_action, p50", 1000 * tools, "ms"),
        (f"house: {GAMES:,} games with the oracle", seconds, "s"),
        (f"house: memory from game {WARM_UP} to game {GAMES:,}", grown / 2**20, "MiB"),
    ]


def _write_games(folder: Path) -> list[HouseGame]:
    targets = []
    for number in range(DIFFERENT):
        kind, grammar = KINDS[number % len(KINDS)], GRAMMARS[number % len(GRAMMARS)]
        path = folder / f"{number}.tw-pddl"
        # Published games have a whole domain and grammar, which make up most of their 60 KB.
        content = generate_game(kind, grammar, number).content
        path.write_bytes(content.rstrip() + b" " * (60_000 - len(content)))
        targets.append(HouseGame(str(path), hash_file(path)))
    return targets


def _measure_engine(targets: Sequence[HouseGame]) -> tuple[float, float]:
    loads, calls = [], []
    for target in targets:
        data = Path(target.path).read_bytes()
        started = time.perf_counter()
        play = Play(read_game(data))
        loads.append(time.perf_counter() - started)
        for command in ("look", "go to garbagecan 1", "examine garbagecan 1", "inventory", "nothing"):
            started = time.perf_counter()
            play.take(command)
            calls.append(time.perf_counter() - started)
    return statistics.median(loads), statistics.median(calls)


async def _play_games(targets: Sequence[HouseGame]) -> tuple[float, int, float]:
    """Return the seconds for all games, the bytes by which memory grew, and the median seconds of a call."""
    process, before, times = psutil.Process(), 0, []
    nothing: Any = None
    context = EnvironmentContext(nothing, SandboxSettings("none"), 1.0, NoTranscript())
    begun = time.perf_counter()
    for number in range(GAMES):
        target = targets[number % len(targets)]
        task = Task("t", "bench", "house", "")
        async with open_environment(task, replace(context, target=target)) as opened:
            environment: Any = opened
            started = time.perf_counter()
            await environment.call("take_action", {"action": "look"})
            times.append(time.perf_counter() - started)
            await solve(environment, target)
            assert environment.state.play.won
        if number == WARM_UP:
            gc.collect()
            before = process.memory_info().rss
    seconds = time.perf_counter() - begun
    gc.collect()
    return seconds, process.memory_info().rss - before, statistics.median(times)


if __name__ == "__main__":
    for label, value, unit in measure():
        print(f"{label:<50} {value:8.2f} {unit}")
