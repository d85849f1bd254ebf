"""Two runs on one engine, while orphans are removed all the time, leave each other and everybody else alone.

They share the engine for a few seconds by default, and for a minute with HARNESS_TESTS=thorough.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from signal import SIGKILL

import pytest
from docker import APIClient
from e2e.command_line import Harness, RunFolder
from effort import THOROUGH

from harness.sandbox.backends.docker.images import require_image

SECONDS = 60 if THOROUGH else 4
FOREVER = ["sleep", "infinity"]


@pytest.fixture
def strangers(client: APIClient) -> Iterator[list[str]]:
    """Start two containers of a user, from an image of ours, one of them with a label of another tool."""
    image = require_image(client, "python")
    made = [
        client.create_container(image, entrypoint=FOREVER, labels=labels)["Id"]
        for labels in ({}, {"com.example.run": "harness"})
    ]
    try:
        for container in made:
            client.start(container)
        yield made
    finally:
        for container in made:
            client.remove_container(container, force=True)


def run_again_and_again(harness: Harness, folder: Path, until: float) -> list[RunFolder]:
    """Carry out runs in `folder`, one after the other, until a moment of the monotonic clock."""
    finished: list[RunFolder] = []
    while not finished or time.monotonic() < until:
        runs = folder / str(len(finished))
        command = (
            "run",
            "-b",
            "mbpp",
            "--data",
            "bundled",
            "-n",
            "6",
            "--n-samples",
            "2",
            "--isolation",
            "attempt",
        )
        ended = harness(*command, "--output-dir", runs)
        assert ended.returncode == 0, ended.stderr
        finished.append(RunFolder(next(runs.iterdir())))
    return finished


def remove_again_and_again(harness: Harness, until: float) -> list[str]:
    """Call `harness gc` until a moment, and return what it says that it removed."""
    said: list[str] = []
    while time.monotonic() < until:
        ended = harness("gc")
        assert ended.returncode == 0, ended.stderr
        said += [line for line in ended.stdout.splitlines() if line.startswith("removed ")]
    return said


@pytest.mark.timeout(SECONDS * 5 + 120)
def test_two_runs_and_the_removal_of_orphans_touch_nothing_of_a_neighbour(
    harness: Harness, client: APIClient, tmp_path: Path, strangers: list[str]
) -> None:
    dead = harness.start_run("--n-samples", "20")
    dead.end(SIGKILL)
    until = time.monotonic() + SECONDS
    with ThreadPoolExecutor(3) as threads:
        runs = [
            threads.submit(run_again_and_again, harness, tmp_path / name, until) for name in ("one", "two")
        ]
        removals = threads.submit(remove_again_and_again, harness, until)
    statuses = {attempt["status"] for each in runs for run in each.result() for attempt in run.attempts}
    assert statuses == {"passed"}
    assert dead.folder.containers(client) == []
    assert {each["Id"] for each in client.containers()} >= set(strangers)
    assert [line for line in removals.result() if f" of run {dead.folder.run_id})" not in line] == []
