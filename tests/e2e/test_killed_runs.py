"""A run that is killed with SIGKILL again and again, and resumed each time, equals one that nobody disturbed.

By default, few tasks and few kills show it. HARNESS_TESTS=thorough takes all tasks of the sanitized MBPP, 20
kills for a run, and three kills for each of eight shards. These fields are left out of the comparison, and no
others:

    attempts.jsonl   started_at, duration_seconds, cpu_seconds, seconds, and the order of its lines
    summary.json     duration_seconds
    manifest.json    run_id, started_at, signature, config.output_dir, config.max_concurrent; of a merged run
                     also merged_from
    transcripts      time, seconds, cpu_seconds
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from docker import APIClient
from e2e.command_line import Harness, RunFolder
from e2e.killed_processes import make_disturbed, read_conditions, read_outcome, read_transcripts
from effort import THOROUGH

KILLS = 20 if THOROUGH else 2
SHARDS, KILLS_OF_SHARD, SHARDS_AT_ONCE = (8, 3, 3) if THOROUGH else (2, 1, 2)
HANG_SECONDS = 3600 if THOROUGH else 240


@pytest.fixture(scope="module")
def command(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Return the arguments of the run."""
    if not THOROUGH:
        return ("run", "-b", "mbpp", "--data", "bundled", "-n", "6")
    data = request.getfixturevalue("shared_data") / "mbpp" / "sanitized-mbpp.json"
    return ("run", "-b", "mbpp", "--data", str(data))


@pytest.fixture(scope="module")
def quiet(module_harness: Harness, command: tuple[str, ...]) -> RunFolder:
    """Make the run that nobody disturbs."""
    module_harness.succeed(*command, "--output-dir", "quiet")
    return module_harness.only_run("quiet")


@pytest.fixture
def seed() -> int:
    """Return the seed of the moments, which pytest shows if the test fails."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed of the kills: {seed}")
    return seed


def assert_equal(disturbed: RunFolder, quiet: RunFolder) -> None:
    """Compare all that two runs have recorded, apart from times and ids."""
    assert read_outcome(disturbed) == read_outcome(quiet)
    assert read_transcripts(disturbed) == read_transcripts(quiet)
    assert read_conditions(disturbed) == read_conditions(quiet)


@pytest.mark.timeout(HANG_SECONDS)
def test_a_run_that_is_killed_and_resumed_equals_an_undisturbed_one(
    harness: Harness, client: APIClient, command: tuple[str, ...], quiet: RunFolder, seed: int
) -> None:
    disturbed = make_disturbed(
        harness,
        command,
        harness.folder / "disturbed",
        kills=KILLS,
        expected=len(quiet.attempts),
        moments=random.Random(seed),
        client=client,
    )
    assert_equal(disturbed, quiet)
    assert disturbed.containers(client) == []
    assert [path for path in disturbed.path.iterdir() if path.name.startswith(".")] == []


# tests/e2e/test_killed_model_runs.py always kills shards of a run without containers.
@pytest.mark.thorough
@pytest.mark.timeout(HANG_SECONDS)
def test_shards_that_are_killed_resumed_and_merged_equal_one_run(
    harness: Harness, client: APIClient, command: tuple[str, ...], quiet: RunFolder, seed: int
) -> None:
    make = partial(make_shard, harness, client, command, -(-len(quiet.attempts) // SHARDS), seed)
    with ThreadPoolExecutor(SHARDS_AT_ONCE) as threads:
        shards = list(threads.map(make, range(1, SHARDS + 1)))
    harness.succeed("merge", *shards, "--output-dir", "merged")
    merged = harness.only_run("merged")
    assert_equal(merged, quiet)
    order = {task_id: place for place, task_id in enumerate(quiet.manifest["planned"]["task_ids"])}
    places = [order[attempt["task_id"]] for attempt in merged.attempts]
    assert places == sorted(places), "the merged attempts are in the order of the plan"


def make_shard(
    harness: Harness, client: APIClient, command: tuple[str, ...], expected: int, seed: int, number: int
) -> Path:
    """Make a shard that is killed and resumed, and return its folder."""
    return make_disturbed(
        harness,
        (*command, "--shard", f"{number}/{SHARDS}"),
        harness.folder / "shards" / str(number),
        kills=KILLS_OF_SHARD,
        expected=expected,
        moments=random.Random(seed + number),
        client=client,
    ).path
