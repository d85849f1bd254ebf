"""A run refuses unusable input before anything starts, and names the place and a remedy."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from case_checks import each_case
from e2e.command_line import NO_ENGINE, Harness

import harness as package

BUNDLED_MBPP = Path(package.__file__).parent / "benchmarks/data/bundled/mbpp.json"
RUN = ("run", "-b", "mbpp", "--data", "bundled")

# Arguments, and a part of the message. No engine is asked, because its absence would be another message.
# tests/unit/test_mistakes.py has the mistakes of many more command lines.
REFUSED = {
    "unknown benchmark": (("run", "-b", "mbpb"), "unknown benchmark 'mbpb'"),
    "unknown option": (("run", "--sample-sise", "3"), "--sample-size"),
    "unknown command": (("rnu",), "did you mean 'run'?"),
    "option without its value": (("run", "-b"), "harness run: option '-b' requires"),
    "argument too many": (
        ("show", "a", "b", "c"),
        "harness show takes 2 arguments, but got 'c' as another one",
    ),
    "unknown runtime": ((*RUN, "--runtime", "crun"), "'runc' or 'runsc'"),
    "gate of a replay without one": ((*RUN, "--fail-on-difference"), "only to a replay"),
    "results in a missing folder": ((*RUN, "-o", "no/results.json"), "mkdir -p no"),
    "results below a file": ((*RUN, "-o", "file/results.json"), "file: is not a folder"),
    "results where nothing can be": ((*RUN, "-o", "/proc/results.json"), "/proc/results.json: cannot be w"),
    "results in place of a folder": ((*RUN, "--force", "-o", "folder"), "-o folder/results.json"),
    "resume of no run": (("run", "--resume", "folder"), "folder: is not a run folder"),
    "option that is a config key": ((*RUN, "--rounds", "5"), "'rounds' is a key of the config file"),
    "number of a task": (("run", "-b", "gsm8k", "--data", "bundled", "-t", "0"), "did you mean 'gsm8k/0'?"),
    "samples that are an empty file": (("grade", "-b", "mbpp", "--samples", "file"), "cannot be reached"),
}


@each_case(("arguments", "said"), REFUSED.values(), ids=REFUSED)
def test_unusable_input_is_refused_at_once(harness: Harness, arguments: tuple[str, ...], said: str) -> None:
    (harness.folder / "file").touch()
    (harness.folder / "folder").mkdir(exist_ok=True)
    exit_code, stdout, stderr = harness.refused(*arguments)
    assert exit_code == 2, stderr
    assert said in stderr
    assert "Traceback" not in stderr
    labels = [line.partition(": ")[0] for line in stderr.splitlines() if line[:1] != " "]
    assert labels in (["error"], ["error", "hint"])
    assert stdout == ""
    assert sorted(path.name for path in harness.folder.rglob("*")) == ["file", "folder"]


def test_broken_row_names_file_item_and_field(harness: Harness) -> None:
    rows = json.loads(BUNDLED_MBPP.read_text())
    rows[2]["test_list"] = "assert True"
    data = harness.folder / "mbpp.json"
    data.write_text(json.dumps(rows))
    stderr = harness.expect_refusal("run", "-b", "mbpp", "--data", data)
    assert f"{data}: item 3: field 'test_list': needs a list of strings" in stderr


# --- folders that cannot be written


def test_output_folder_below_a_file_is_refused(harness: Harness) -> None:
    (harness.folder / "file").touch()
    ended = harness(*RUN, "--output-dir", "file/runs")
    assert ended.returncode == 2
    assert "file/runs: cannot make a run folder" in ended.stderr
    assert "--output-dir" in ended.stderr


def test_disk_that_cannot_hold_a_manifest_is_refused_and_nothing_is_left(harness: Harness) -> None:
    ended = harness(*RUN, file_bytes=100)
    assert ended.returncode == 2
    assert "manifest.json: cannot be written" in ended.stderr
    assert list((harness.folder / "runs").iterdir()) == []


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """Yield the folder of a file system without a free byte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        with contextlib.suppress(OSError), open(disk / "filler", "wb", 0) as filler:
            while True:
                filler.write(bytes(4096))
        yield disk
    finally:
        subprocess.run(["umount", disk], check=True)


def test_full_disk_is_refused_and_nothing_is_left(harness: Harness, full_disk: Path) -> None:
    ended = harness(*RUN, "--output-dir", full_disk / "runs")
    assert ended.returncode == 2
    assert "No space left on device" in ended.stderr
    assert list((full_disk / "runs").rglob("*")) == []


# --- the engine


def test_a_missing_engine_ends_the_run_with_a_remedy(harness: Harness) -> None:
    ended = harness(*RUN, env=NO_ENGINE)
    assert ended.returncode == 2
    assert "error: no Docker engine answers at DOCKER_HOST=tcp://127.0.0.1:1" in ended.stderr
    assert "hint: start the engine" in ended.stderr
    assert list(harness.folder.iterdir()) == []


def test_runtime_that_the_engine_lacks_is_refused(harness: Harness, runtimes: list[str]) -> None:
    if "runsc" in runtimes:
        pytest.skip("this engine knows runsc")
    ended = harness(*RUN, "--runtime", "runsc")
    assert ended.returncode == 2
    assert "does not know the runtime 'runsc'" in ended.stderr
    assert list(harness.folder.iterdir()) == []


def test_a_missing_image_is_reported_with_a_remedy(harness: Harness) -> None:
    # The name of an image has the hash of its sources, so a copy with other sources has no image yet.
    root = Path(package.__file__).parents[1]
    copy = harness.folder / "copy"
    shutil.copytree(root / "harness", copy / "harness", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(root / "images", copy / "images")
    with open(copy / "harness/sandbox/guest/main.py", "a") as guest:
        guest.write("# another guest\n")
    ended = subprocess.run(
        [sys.executable, "-c", "from harness.cli.app import main; main()", *RUN],
        env={**harness.environment, "PYTHONPATH": str(copy)},
        cwd=copy,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2, ended.stderr
    assert "image" in ended.stderr
    assert "harness setup" in ended.stderr or "harness images build" in ended.stderr
    assert not (copy / "runs").exists()
