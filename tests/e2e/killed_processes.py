"""Runs that are killed with SIGKILL at random moments, and resumed."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from docker import APIClient
from e2e.command_line import Harness, RunFolder, remove_times_and_ids, wait_until

# A kill comes up to this long after an attempt has ended.
MOST_DELAY_SECONDS = 0.3
# The fields of a manifest that differ between a merged run and one run: times, ids and facts of a process.
OWN_FIELDS = ("run_id", "started_at", "signature", "merged_from")
OWN_SETTINGS = ("output_dir", "max_concurrent")


def count_attempts(folder: RunFolder) -> int:
    return folder.raw_attempts.count(b"\n")


def read_outcome(folder: RunFolder) -> tuple[list[str], str]:
    """Return the lines of the attempts in any order and the summary, without times and ids."""
    lines = remove_times_and_ids(folder.raw_attempts.decode()).splitlines()
    return sorted(lines), remove_times_and_ids((folder.path / "summary.json").read_text())


def read_conditions(folder: RunFolder) -> dict[str, Any]:
    """Return the manifest without times, ids and the settings of the process."""
    manifest = {name: value for name, value in folder.manifest.items() if name not in OWN_FIELDS}
    manifest["config"] = {k: v for k, v in manifest["config"].items() if k not in OWN_SETTINGS}
    return manifest


def read_transcripts(folder: RunFolder) -> dict[str, str]:
    """Return the text of each transcript by its name, without times and ids."""
    return dict(_read_transcripts(folder))


def _read_transcripts(folder: RunFolder) -> Iterator[tuple[str, str]]:
    for path in (folder.path / "transcripts").iterdir():
        entries = (json.loads(line) for line in path.read_text().splitlines())
        lines = (json.dumps({k: v for k, v in entry.items() if k != "time"}) for entry in entries)
        yield path.name, remove_times_and_ids("\n".join(lines))


def make_disturbed(
    harness: Harness,
    command: Sequence[str | Path],
    place: Path,
    *,
    kills: int,
    expected: int,
    moments: random.Random,
    client: APIClient,
    hang_seconds: float = 600,
) -> RunFolder:
    """Make a run that is killed a few times, each time after a random number of further attempts.

    Every second time its containers must be gone before it is resumed. Otherwise it is resumed at once.

    Args:
        harness: starts the command.
        command: the arguments of a new run.
        place: the folder where the run makes its run folder.
        kills: the number of kills.
        expected: the number of attempts of the run.
        moments: decides the moments of the kills.
        client: lists the containers.
        hang_seconds: the time after which a run without a new attempt fails the test.
    """
    process = harness.start(*command, "--output-dir", place)
    manifest = wait_until(partial(_find_manifest, place, process), "a run folder")
    if not isinstance(manifest, Path):
        pytest.fail(f"the run has ended: {process.communicate()[1]}")
    folder = RunFolder(manifest.parent)
    for kill in range(kills):
        left = expected - count_attempts(folder)
        goal = count_attempts(folder) + moments.randrange(max(left // (kills - kill), 1))
        wait_until(partial(_has_reached, folder, goal, process), f"{goal} attempts", seconds=hang_seconds)
        time.sleep(moments.uniform(0, MOST_DELAY_SECONDS))
        kept = folder.raw_attempts
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert folder.raw_attempts.startswith(kept)
        if kill % 2:
            wait_until(lambda: not folder.containers(client), "no container after the kill", seconds=10)
        process = harness.start("run", "--resume", folder.path)
    _, stderr = process.communicate()
    assert process.returncode == 0, stderr
    return folder


def _find_manifest(place: Path, process: subprocess.Popen[str]) -> Path | bool:
    """Return the manifest in a folder of runs. Without one, return whether the process has ended."""
    return next(iter(place.glob("*/manifest.json")), None) or process.poll() is not None


def _has_reached(folder: RunFolder, goal: int, process: subprocess.Popen[str]) -> bool:
    """Return whether the run has so many attempts, or has ended."""
    return count_attempts(folder) >= goal or process.poll() is not None
