"""A command that is killed before any of its changes of a folder leaves a run that can go on, or no run.

By default a kill meets every eleventh change, with HARNESS_TESTS=thorough each of them. The runs need no
container.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from e2e.command_line import SHORT_RUN, Harness, RunFolder
from e2e.fork_server import RUN_FIRST
from e2e.killed_processes import read_outcome, read_transcripts
from effort import THOROUGH

INJECTED = Path(__file__).with_name("kill_at_write.py")
KILLED = -9
STEP = 1 if THOROUGH else 11


def count_changes(harness: Harness, *arguments: str | Path, place: Path) -> int:
    """Run a command undisturbed, and return the number of its changes below a folder."""
    counted = harness.folder / "changes"
    ended = harness(*arguments, env=set_kill(place, 0) | {"KILL_COUNT": str(counted)})
    assert ended.returncode == 0, ended.stderr
    return int(counted.read_text())


def kill_at(harness: Harness, *arguments: str | Path, place: Path, number: int) -> None:
    """Run a command that is killed before this change of a folder."""
    ended = harness(*arguments, env=set_kill(place, number))
    assert ended.returncode == KILLED, (number, ended.stderr)


def set_kill(place: Path, number: int) -> dict[str, str]:
    return {RUN_FIRST: str(INJECTED), "KILL_FOLDER": str(place), "KILL_AT": str(number)}


def list_runs(place: Path) -> list[RunFolder]:
    """Return the folders that a user sees, and that have a manifest."""
    return [RunFolder(path.parent) for path in sorted(place.glob("[!.]*/manifest.json"))]


def test_a_merge_that_is_killed_leaves_a_whole_run_or_none(harness: Harness, shards: list[Path]) -> None:
    quiet = harness.folder / "quiet"
    merge: tuple[str | Path, ...] = ("merge", *shards, "--output-dir")
    changes = count_changes(harness, *merge, quiet, place=quiet)
    expected = read_outcome(list_runs(quiet)[0])
    for number in range(1, changes + 1, STEP):
        place = harness.folder / f"killed-{number}"
        kill_at(harness, *merge, place, place=place, number=number)
        left = [path for path in place.glob("*") if not path.name.startswith(".")]
        assert [read_outcome(RunFolder(path)) for path in left] == [expected] * len(left), number
        ended = harness(*merge, place)
        assert ended.returncode == 0, (number, ended.stderr)
        assert [read_outcome(run) for run in list_runs(place)] == [expected] * (len(left) + 1), number
        begun = [path.name for path in place.iterdir() if path.name.startswith(".")]
        # The kill came before the merge locked its folder, so that it may belong to a merge that begins now.
        assert begun == [] or not any((place / name / "attempts.jsonl").exists() for name in begun), number


NEW_RUNS: dict[str, Callable[[Path], tuple[str | Path, ...]]] = {
    "run": lambda _: SHORT_RUN,
    "rerun": lambda recorded: ("rerun", recorded),
    "grade": lambda recorded: ("grade", "--run", recorded),
}


@pytest.mark.parametrize("case", NEW_RUNS)
def test_a_new_run_that_is_killed_can_go_on_or_has_not_begun(
    harness: Harness, recorded: RunFolder, case: str
) -> None:
    command = (*NEW_RUNS[case](recorded.path), "--output-dir")
    quiet = harness.folder / "quiet"
    changes = count_changes(harness, *command, quiet, place=quiet)
    expected = list_runs(quiet)[0]
    for number in range(1 if THOROUGH else 6, changes + 1, STEP):
        place = harness.folder / f"killed-{number}"
        kill_at(harness, *command, place, place=place, number=number)
        runs = list_runs(place)
        if not runs:
            assert all(path.stat().st_size == 0 for path in place.glob("*/attempts.jsonl")), number
            continue
        ended = harness("run", "--resume", runs[0].path)
        assert ended.returncode == 0, (number, ended.stderr)
        assert read_outcome(runs[0]) == read_outcome(expected), number
        assert read_transcripts(runs[0]) == read_transcripts(expected), number
        assert sorted(path.name for path in runs[0].path.iterdir()) == sorted(
            path.name for path in expected.path.iterdir()
        ), number


def test_a_retry_that_is_killed_counts_each_superseded_verdict_once(
    harness: Harness, recorded: RunFolder
) -> None:
    quiet = recorded.copy_to(harness.folder / "quiet")
    changes = count_changes(harness, "run", "--resume", quiet.path, "--retry-failed", place=quiet.path)
    for number in range(1 if THOROUGH else 4, changes + 1, STEP):
        folder = RunFolder(Path(shutil.copytree(recorded.path, harness.folder / f"killed-{number}")))
        command = ("run", "--resume", folder.path)
        kill_at(harness, *command, "--retry-failed", place=folder.path, number=number)
        assert harness(*command).returncode == 0, number
        superseded = [attempt for attempt in folder.attempts if attempt["status"] == "cancelled"]
        assert folder.manifest.get("superseded_verdicts", 0) == len(superseded), number
        if superseded:
            assert read_outcome(folder) == read_outcome(quiet), number
            assert read_transcripts(folder) == read_transcripts(quiet), number
        else:
            assert read_outcome(folder) == read_outcome(recorded), number
        assert harness(*command, "--retry-failed").returncode == 0, number
        count = sum(attempt["status"] == "cancelled" for attempt in folder.attempts)
        assert folder.manifest["superseded_verdicts"] == count == len(superseded) + 4, number
