"""The names of runs: paths, names in the output folder, and `latest`."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from case_checks import each_case

from harness.core.errors import UsageError
from harness.runs.run_names import find_run, is_running, list_run_folders
from harness.runs.store import RunStore


def make_run(folder: Path, started_at: str = "2026-08-01T10:00:00Z") -> Path:
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({"started_at": started_at}))
    return folder


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return `runs`, in which the run that was started last is neither the last by name nor by change."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs"
    make_run(folder / "20260801-a-mbpp", "2026-08-03T10:00:00Z")
    make_run(folder / "20260802-b-mbpp", "2026-08-02T10:00:00Z")
    make_run(folder / "20260802-c-gsm8k", "2026-08-01T10:00:00Z")
    return Path("runs")


def test_latest_is_the_run_that_was_started_last(runs: Path) -> None:
    assert find_run("latest") == runs / "20260801-a-mbpp"
    assert [run.name for run in list_run_folders(runs)] == [
        "20260801-a-mbpp",
        "20260802-b-mbpp",
        "20260802-c-gsm8k",
    ]


def test_a_run_is_found_by_its_path_and_by_its_name(runs: Path) -> None:
    assert find_run("20260802-c-gsm8k") == runs / "20260802-c-gsm8k"
    assert find_run(runs.absolute() / "20260802-c-gsm8k") == runs.absolute() / "20260802-c-gsm8k"
    elsewhere = make_run(Path("elsewhere") / "mine")
    assert find_run("mine", Path("elsewhere")) == elsewhere
    assert find_run("latest", Path("elsewhere")) == elsewhere


@pytest.mark.parametrize("place", [Path("latest"), Path("runs/latest")], ids=str)
def test_a_folder_that_is_named_latest_comes_first(runs: Path, place: Path) -> None:
    make_run(place, "2020-01-01T00:00:00Z")
    assert find_run("latest") == place


def test_a_run_folder_comes_before_another_folder_of_the_same_name(runs: Path) -> None:
    Path("20260802-c-gsm8k").mkdir()
    assert find_run("20260802-c-gsm8k") == runs / "20260802-c-gsm8k"


@each_case(
    ("name", "hint"),
    [
        ("gsm8k", "did you mean 20260802-c-gsm8k?"),
        ("20260801-a-mbqp", "did you mean 20260801-a-mbpp or 20260802-b-mbpp"),
        ("latst", "did you mean latest?"),
        ("#", "the newest: 20260801-a-mbpp, 20260802-b-mbpp, 20260802-c-gsm8k;"),
        ("x" * 5000, "the newest: "),
        ("a\0b", "the newest: "),
    ],
    ids=["part of a name", "typing error", "latest with a typing error", "nothing near", "too long", "NUL"],
)
@pytest.mark.usefixtures("runs")
def test_an_unknown_run_is_an_error_that_names_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(UsageError, match="is not a run folder") as raised:
        find_run(name)
    assert (raised.value.hint or "").startswith(hint)


def test_without_runs_latest_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there are no runs in"):
        find_run("latest", tmp_path / "none")


def test_a_folder_with_a_broken_manifest_is_listed_by_the_time_of_its_change(runs: Path) -> None:
    broken = make_run(runs / "broken")
    (broken / "manifest.json").write_text("{")
    os.utime(broken / "manifest.json", (4_000_000_000, 4_000_000_000))
    (runs / "notes").mkdir()
    found = [run.name for run in list_run_folders(runs)]
    assert (found[0], len(found)) == ("broken", 4)


@contextmanager
def shared_lock(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    yield
    os.close(descriptor)


def test_a_run_is_running_while_its_store_is_open(tmp_path: Path) -> None:
    assert not is_running(tmp_path)
    with closing(RunStore(tmp_path)):
        assert is_running(tmp_path)
    assert not is_running(tmp_path)
    assert not is_running(tmp_path / "gone")


def test_a_look_at_a_run_is_not_mistaken_for_a_run(tmp_path: Path) -> None:
    with shared_lock(tmp_path):
        assert not is_running(tmp_path)
