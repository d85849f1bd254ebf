"""`harness run --resume` continues a killed run, and repeats and mixes nothing."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from docker import APIClient
from e2e.command_line import FinishedRun, Harness, RunFolder, wait_until

import harness as package

BUNDLED_MBPP = Path(package.__file__).parent / "benchmarks/data/bundled/mbpp.json"
TORN = b'{"task_id": "torn", "attempt": 0, "sam'


@dataclass(frozen=True)
class Resumed:
    """A run that was killed with SIGKILL and then resumed."""

    folder: RunFolder
    running_after_kill: list[str]
    kept: bytes
    stdout: str
    exit_code: int


@pytest.fixture(scope="module")
def resumed(module_harness: Harness, client: APIClient) -> Resumed:
    run = module_harness.start_run("--max-concurrent", "2", "-n", "8", finished=3)
    run.end(signal.SIGKILL)
    # The guests notice that their stream is closed, so that they end without help.
    deadline = time.monotonic() + 10
    while (running := run.folder.containers(client, running=True)) and time.monotonic() < deadline:
        time.sleep(0.05)
    kept = run.folder.raw_attempts
    with open(run.folder.path / "attempts.jsonl", "ab") as attempts:
        attempts.write(TORN)
    ended = module_harness("run", "--resume", run.folder.path, folder=Path("/"))
    return Resumed(run.folder, running, kept, ended.stdout + ended.stderr, ended.returncode)


def test_containers_of_a_killed_run_end_by_themselves(resumed: Resumed) -> None:
    assert resumed.running_after_kill == []


def test_resumed_run_ends_well(resumed: Resumed) -> None:
    assert resumed.exit_code == 0, resumed.stdout
    assert resumed.folder.summary["resolved"] == resumed.folder.summary["total"] == 8


def test_every_attempt_has_exactly_one_verdict(resumed: Resumed) -> None:
    assert 3 <= len(resumed.kept.splitlines()) < 8, "the run was killed in the middle"
    counts = Counter((attempt["task_id"], attempt["attempt"]) for attempt in resumed.folder.attempts)
    assert len(counts) == 8
    assert set(counts.values()) == {1}


def test_finished_attempts_are_kept_byte_for_byte(resumed: Resumed) -> None:
    assert resumed.folder.raw_attempts.startswith(resumed.kept)
    assert TORN not in (resumed.folder.path / "attempts.jsonl").read_bytes()


def test_progress_counts_the_attempts_of_before(resumed: Resumed) -> None:
    assert f"8 attempts, {len(resumed.kept.splitlines())} of them done before" in resumed.stdout


def test_no_container_of_a_resumed_run_is_left(resumed: Resumed, client: APIClient) -> None:
    assert resumed.folder.containers(client) == []


# --- a finished run


@pytest.fixture
def finished_copy(finished_run: Callable[..., FinishedRun], tmp_path: Path) -> RunFolder:
    """Return a copy of a finished run's folder, which a test may change."""
    run = finished_run("run", "-b", "mbpp", "--data", "bundled", "-n", "3", "--agent", "null")
    return run.folder.copy_to(tmp_path / "copy")


def test_finished_run_prints_its_table_and_starts_no_container(
    harness: Harness, finished_copy: RunFolder, client: APIClient
) -> None:
    before, kept, summary = time.time(), finished_copy.raw_attempts, finished_copy.summary
    ended = harness.succeed("run", "--resume", finished_copy.path, "-o", "results.json")
    assert ["failed", "3", "100.0", "%"] in [line.split() for line in ended.stdout.splitlines()]
    label = {"type": "container", "label": f"harness.run={finished_copy.run_id}"}
    events = client.events(since=before, until=time.time() + 0.01, filters=label)  # type: ignore[call-overload]
    assert list(events) == []
    assert finished_copy.raw_attempts == kept
    assert finished_copy.summary == summary, "the run keeps its duration"
    assert len(harness.read_json()["attempts"]) == 3


def test_dry_run_of_a_resumed_run_shows_the_remaining_attempts(
    harness: Harness, finished_copy: RunFolder
) -> None:
    path = finished_copy.path / "attempts.jsonl"
    lines = finished_copy.raw_attempts.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]) + TORN)
    shown = harness("run", "--resume", finished_copy.path, "--dry-run")
    counts = dict(line.split(maxsplit=1) for line in shown.stdout.splitlines())
    assert (counts["attempts"], counts["finished"], counts["remaining"]) == ("3", "2", "1")
    assert path.read_bytes().endswith(TORN), "a dry run changes nothing"


def test_dry_run_of_a_run_without_attempts_shows_all(harness: Harness, finished_copy: RunFolder) -> None:
    (finished_copy.path / "attempts.jsonl").unlink()
    shown = harness("run", "--resume", finished_copy.path, "--dry-run")
    assert ["remaining", "3"] in [line.split() for line in shown.stdout.splitlines()]


# --- changed inputs


def test_changed_data_are_refused(harness: Harness) -> None:
    data = harness.folder / "mbpp.json"
    data.write_bytes(BUNDLED_MBPP.read_bytes())
    harness("run", "-b", "mbpp", "--data", data, "-n", "1")
    data.write_bytes(BUNDLED_MBPP.read_bytes() + b"\n")
    ended = harness("run", "--resume", next(harness.folder.glob("runs/*")))
    assert ended.returncode == 2
    assert "the data has changed" in ended.stderr
    assert str(data) in ended.stderr


def test_changed_samples_are_refused(harness: Harness) -> None:
    samples = harness.folder / "samples.jsonl"
    samples.write_text('{"task_id": 9001, "solution": ""}\n')
    harness("grade", "-b", "mbpp", "--data", "bundled", "--samples", "samples.jsonl", "-t", "9001")
    samples.write_text('{"task_id": 9001, "solution": "pass"}\n')
    ended = harness("run", "--resume", next(harness.folder.glob("runs/*")), folder=Path("/"))
    assert ended.returncode == 2
    assert "the samples have changed" in ended.stderr


def test_a_resumed_run_keeps_the_bundled_rows_that_it_fell_back_to(harness: Harness) -> None:
    harness("run", "-b", "mbpp", "-n", "1")
    # This hub would give other rows now.
    ended = harness.succeed("run", "--resume", next(harness.folder.glob("runs/*")))
    assert "WARNING: THIS IS NOT MBPP" not in ended.stderr, "the hub was not even asked"
    assert "BUNDLED SAMPLE" in ended.stdout


def test_changed_image_is_refused(harness: Harness, finished_copy: RunFolder) -> None:
    manifest = finished_copy.manifest
    manifest["image_tags"] = dict.fromkeys(manifest["image_tags"], "harness/python:" + "0" * 12)
    (finished_copy.path / "manifest.json").write_text(json.dumps(manifest))
    ended = harness("run", "--resume", finished_copy.path)
    assert ended.returncode == 2
    assert "the sandbox image has changed" in ended.stderr


def test_changed_grading_is_refused_unless_it_is_accepted(harness: Harness, finished_copy: RunFolder) -> None:
    finished_copy.change_manifest(grading_version=0)
    ended = harness("run", "--resume", finished_copy.path)
    assert ended.returncode == 2
    assert "the grading of mbpp has changed since this run started" in ended.stderr
    harness.succeed("run", "--resume", finished_copy.path, "--accept", "grading_version")
    assert finished_copy.manifest["grading_version"] == 1


def test_an_image_rebuilt_from_the_same_sources_is_accepted(
    harness: Harness, finished_copy: RunFolder
) -> None:
    images = dict.fromkeys(finished_copy.manifest["images"], "sha256:" + "0" * 64)
    finished_copy.change_manifest(images=images)
    lines = finished_copy.raw_attempts.splitlines(keepends=True)
    (finished_copy.path / "attempts.jsonl").write_bytes(b"".join(lines[:-1]))
    harness.succeed("run", "--resume", finished_copy.path)
    assert len(finished_copy.attempts) == 3


def test_duration_of_a_resumed_run_adds_up(harness: Harness, finished_copy: RunFolder) -> None:
    lines = finished_copy.raw_attempts.splitlines(keepends=True)
    (finished_copy.path / "attempts.jsonl").write_bytes(b"".join(lines[:-1]))
    summary = {**finished_copy.summary, "duration_seconds": 10_000.0}
    (finished_copy.path / "summary.json").write_text(json.dumps(summary))
    harness.succeed("run", "--resume", finished_copy.path)
    assert '"duration_seconds": 100' in (finished_copy.path / "summary.json").read_text()


def test_corrupt_record_is_named_with_its_line(harness: Harness, finished_copy: RunFolder) -> None:
    path = finished_copy.path / "attempts.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"garbage\n", *lines[2:]]))
    ended = harness("run", "--resume", finished_copy.path)
    assert ended.returncode == 2
    assert f"{path}:3: is not an attempt record" in ended.stderr


def test_second_process_in_a_run_folder_is_refused(harness: Harness) -> None:
    run = harness.start_run("--max-concurrent", "1")
    ended = harness("run", "--resume", run.folder.path)
    run.end(signal.SIGTERM)
    assert ended.returncode == 2
    assert "another process uses this run folder" in ended.stderr


# --- runs side by side


def test_killing_one_run_leaves_another_alone(harness: Harness, client: APIClient) -> None:
    other = harness.start_run("-n", "5", "--max-concurrent", "2")
    victim = harness.start_run("--max-concurrent", "2", finished=2)
    victim.end(signal.SIGKILL)
    # The next command removes the containers of the dead run, and leaves those of the live one.
    harness.succeed("gc")
    assert wait_until(lambda: not victim.folder.containers(client), "the victim's containers gone")
    other.process.communicate()
    assert other.process.returncode == 0
    assert other.folder.summary["statuses"] == {"passed": 5}
