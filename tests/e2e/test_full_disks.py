"""A command whose disk is full or read-only reports a remedy, and leaves a run that can go on, or no run.

The disk is a small file system in memory, so the tests need the right to mount one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from e2e.command_line import SHORT_RUN, Harness, RunFolder
from e2e.killed_processes import read_outcome
from effort import THOROUGH

DISK_BYTES = 512 * 1024
# The bytes that are free. A run needs about 80,000.
FREE_BYTES = (0, 4096, 8192, 16384, 24576, 32768, 40960, 53248) if THOROUGH else (0, 8192, 40960)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Yield the folder of a small file system."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", str(folder)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


Command = Callable[[Path, list[Path]], list[str | Path]]
COMMANDS: dict[str, Command] = {
    "run": lambda recorded, shards: [*SHORT_RUN],
    "rerun": lambda recorded, shards: ["rerun", recorded],
    "grade": lambda recorded, shards: ["grade", "--run", recorded],
    "merge": lambda recorded, shards: ["merge", *shards],
}


def leave_free(disk: Path, free: int) -> Path:
    """Fill a disk up to so many free bytes, and return the file that fills it."""
    filling = disk / "filling"
    status = os.statvfs(disk)
    filling.write_bytes(bytes(status.f_bavail * status.f_frsize - free))
    return filling


@pytest.mark.parametrize("free", FREE_BYTES)
@pytest.mark.parametrize("case", COMMANDS)
def test_a_full_disk_leaves_a_run_that_can_go_on_or_none(
    harness: Harness, disk: Path, recorded: RunFolder, shards: list[Path], case: str, free: int
) -> None:
    place = disk / "runs"
    place.mkdir()
    command = [*COMMANDS[case](recorded.path, shards), "--output-dir"]
    filling = leave_free(disk, free)
    code, _, stderr = harness.refused(*command, place)
    assert code in (2, 3), stderr
    assert "No space left on device" in stderr
    assert "hint: make room" in stderr
    filling.unlink()
    left = list(place.iterdir())
    if left:
        assert f"harness run --resume {left[0]}" in stderr
        assert harness("run", "--resume", left[0]).returncode == 0
    else:
        assert "or choose another folder with --output-dir" in stderr
        assert harness(*command, place).returncode == 0
    quiet = harness.folder / "quiet"
    assert harness(*command, quiet).returncode == 0
    folders = [RunFolder(next(each.iterdir())) for each in (place, quiet)]
    assert read_outcome(folders[0]) == read_outcome(folders[1])
    assert (folders[0].path / "report.html").stat().st_size > 0


@pytest.mark.parametrize("free", FREE_BYTES)
def test_a_retry_on_a_full_disk_loses_no_verdict(
    harness: Harness, disk: Path, recorded: RunFolder, free: int
) -> None:
    folder = recorded.copy_to(disk / "run")
    kept = folder.raw_attempts
    filling = leave_free(disk, free)
    code, _, stderr = harness.refused("run", "--resume", folder.path, "--retry-failed")
    # A retry needs less room than a new run.
    assert code in (0, 3), stderr
    if code:
        assert f"make room, then run: harness run --resume {folder.path}" in stderr
    assert folder.raw_attempts.startswith(kept)
    filling.unlink()
    assert harness("run", "--resume", folder.path).returncode == 0
    superseded = sum(attempt["status"] == "cancelled" for attempt in folder.attempts)
    assert folder.manifest.get("superseded_verdicts", 0) == superseded
    assert folder.summary["statuses"] == {"failed": 4}


def test_shards_on_a_read_only_disk_are_merged_to_another(
    harness: Harness, disk: Path, shards: list[Path]
) -> None:
    copies = [Path(shutil.copytree(shard, disk / shard.name)) for shard in shards]
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    assert harness("merge", *copies, "--output-dir", "merged").returncode == 0
    code, _, stderr = harness.refused("merge", *copies, "--output-dir", disk / "merged")
    assert code == 2
    assert "cannot make a run folder: Read-only file system" in stderr
    assert "choose another folder with --output-dir DIR" in stderr


def test_a_run_on_a_read_only_disk_is_repeated_elsewhere(
    harness: Harness, disk: Path, recorded: RunFolder
) -> None:
    folder = recorded.copy_to(disk / "run")
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    for options in ([], ["--retry-failed"]):
        code, _, stderr = harness.refused("run", "--resume", folder.path, *options)
        assert code == 2
        assert "attempts.jsonl: cannot be written: Read-only file system" in stderr
        assert "hint: make the run folder writable" in stderr
    for command in (["rerun"], ["grade", "--run"]):
        assert harness(*command, folder.path, "--output-dir", "again").returncode == 0
