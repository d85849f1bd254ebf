"""A run with a model that is killed, resumed and merged from shards equals one that nobody disturbed.

The requests of killed attempts were paid for, so the spending of a disturbed run is higher. `budget` of the
summary counts them, and is left out of the comparison. Otherwise only times and ids are.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from docker import APIClient
from e2e.command_line import Harness, RunFolder, remove_times_and_ids
from e2e.killed_processes import make_disturbed, read_outcome, read_transcripts
from effort import THOROUGH
from model_fixtures import MODEL_KEY
from model_server import ModelServer
from model_solver import Solver

from harness.benchmarks import load_benchmark

# The programs of MBPP need containers, which tests/e2e/test_killed_runs.py always kills.
BENCHMARK, TASKS, SHARDS, KILLS = ("mbpp", 22, 4, 4) if THOROUGH else ("gsm8k", 8, 2, 1)
# The model is slow enough that a kill finds attempts that wait for it.
WAIT_SECONDS = 0.3


@pytest.fixture
def model(server: ModelServer) -> ModelServer:
    """Return a model that solves every task, but not at once."""
    server.script = Solver(load_benchmark(BENCHMARK, data="bundled", notify=print))
    server.wait_seconds = WAIT_SECONDS
    return server


@pytest.fixture
def command(model: ModelServer) -> tuple[str, ...]:
    tasks = ("-b", BENCHMARK, "--data", "bundled", "-n", str(TASKS), "--max-concurrent", "3")
    return ("run", *tasks, "--model", "scripted", "--base-url", model.url)


@pytest.fixture
def keyed(harness: Harness) -> Harness:
    """Return the command with the key of the model."""
    harness.environment = {**harness.environment, "OPENAI_API_KEY": MODEL_KEY}
    return harness


@pytest.fixture
def quiet(keyed: Harness, command: tuple[str, ...]) -> RunFolder:
    keyed.succeed(*command, "--output-dir", "quiet")
    return keyed.only_run("quiet")


def read_summary(folder: RunFolder) -> dict[str, Any]:
    """Return the summary without times and without the requests of killed attempts."""
    summary: dict[str, Any] = json.loads(remove_times_and_ids(json.dumps(folder.summary)))
    summary["model"].pop("budget", None)
    return summary


def count_requests(folder: RunFolder) -> int:
    return len((folder.path / "spending.jsonl").read_text().splitlines())


@pytest.mark.timeout(1800 if THOROUGH else 240)
def test_killed_shards_with_a_model_equal_one_run(
    keyed: Harness, client: APIClient, model: ModelServer, command: tuple[str, ...], quiet: RunFolder
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed of the kills: {seed}")
    asked = len(model.asked)
    shards: list[Path] = []
    for number in range(1, SHARDS + 1):
        shard = make_disturbed(
            keyed,
            (*command, "--shard", f"{number}/{SHARDS}"),
            keyed.folder / "shards" / str(number),
            kills=KILLS,
            expected=-(-TASKS // SHARDS),
            moments=random.Random(seed + number),
            client=client,
        )
        shards.append(shard.path)
    keyed.succeed("merge", *shards, "--output-dir", "merged")
    merged = keyed.only_run("merged")
    assert read_outcome(merged)[0] == read_outcome(quiet)[0]
    assert read_summary(merged) == read_summary(quiet)
    assert read_transcripts(merged) == read_transcripts(quiet)
    # A killed process has logged no more requests than it made, and all that were answered to an attempt.
    assert count_requests(quiet) <= count_requests(merged) <= len(model.asked) - asked
    assert count_requests(merged) == sum(count_requests(RunFolder(shard)) for shard in shards)
