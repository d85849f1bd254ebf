"""A run that is killed again and again, and resumed each time, equals one that nobody disturbed.

HARNESS_TEST_KILLS is the number of kills. HARNESS_TEST_MBPP is the path of MBPP's data, for a test with all
of its tasks instead of the bundled ones.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest
from e2e.command_line import Harness, RunFolder, remove_times_and_ids, wait_until
from effort import THOROUGH

KILLS = int(os.environ.get("HARNESS_TEST_KILLS", "3" if THOROUGH else "2"))
DATA = os.environ.get("HARNESS_TEST_MBPP", "bundled")
RUN = ("run", "-b", "mbpp", "--data", DATA, "--n-samples", "2" if DATA == "bundled" else "1")
# Each restart loads the data and starts containers.
HANG_SECONDS = 240 if DATA == "bundled" else 3600


def read_outcome(folder: RunFolder) -> tuple[list[str], str]:
    """Return the lines of the attempts in any order and the summary, without times and ids."""
    lines = remove_times_and_ids(folder.raw_attempts.decode()).splitlines()
    return sorted(lines), remove_times_and_ids((folder.path / "summary.json").read_text())


def has_reached(folder: RunFolder, goal: int, process: subprocess.Popen[str]) -> bool:
    """Return whether the run has so many attempts, or has ended."""
    return len(folder.attempts) >= goal or process.poll() is not None


def make_disturbed(harness: Harness, random_source: random.Random, expected: int) -> RunFolder:
    """Make a run that is killed KILLS times, each time after a random number of further attempts."""
    process = harness.start(*RUN, "--output-dir", "disturbed")
    runs = harness.folder / "disturbed"
    folder = RunFolder(wait_until(lambda: next(iter(runs.glob("*/manifest.json")), None), "a folder").parent)
    for kill in range(KILLS):
        left = expected - len(folder.attempts)
        further = random_source.randrange(max(left // (KILLS - kill), 1))
        goal = len(folder.attempts) + further
        wait_until(partial(has_reached, folder, goal, process), f"{goal} attempts", seconds=600)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        process = harness.start("run", "--resume", folder.path)
    process.communicate()
    assert process.returncode == 0
    return folder


@pytest.mark.timeout(HANG_SECONDS)
def test_a_run_that_is_killed_and_resumed_equals_an_undisturbed_one(harness: Harness) -> None:
    assert harness(*RUN, "--output-dir", "quiet").returncode == 0
    quiet = RunFolder(next((harness.folder / "quiet").iterdir()))
    seed = random.SystemRandom().randrange(2**32)
    disturbed = make_disturbed(harness, random.Random(seed), len(quiet.attempts))
    assert read_outcome(disturbed) == read_outcome(quiet), f"seed {seed}"
    names = [sorted(path.name for path in (run.path / "transcripts").iterdir()) for run in (disturbed, quiet)]
    assert names[0] == names[1]


def test_shards_that_are_killed_and_merged_equal_one_run(harness: Harness) -> None:
    command = ("run", "-b", "mbpp", "--data", "bundled", "-n", "9")
    shards: list[Path] = []
    for shard in ("1/2", "2/2"):
        run = harness.start_run("-n", "9", "--shard", shard, "--max-concurrent", "1")
        run.end(signal.SIGKILL)
        assert harness("run", "--resume", run.folder.path).returncode == 0
        shards.append(run.folder.path)
    assert harness("merge", *shards, "--output-dir", "merged").returncode == 0
    assert harness(*command, "--output-dir", "one").returncode == 0
    merged, one = (RunFolder(next((harness.folder / name).iterdir())) for name in ("merged", "one"))
    assert read_outcome(merged) == read_outcome(one)
