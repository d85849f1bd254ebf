"""Sources of rows: a path, the hub or its stored copy, and the bundled sample."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case

from harness.benchmarks import definitions, load_benchmark
from harness.benchmarks.data.download import DownloadObserver, HubUnreachableError
from harness.benchmarks.data.hub import default_cache_dir, load_hub_rows, read_cached_rows, write_cached_rows
from harness.benchmarks.data.rows import Row
from harness.benchmarks.data.source import load_rows
from harness.benchmarks.data.splits import HubDataset, SplitFiles
from harness.core.errors import DataError, HarnessError, UsageError
from harness.core.types import DataSource

pytestmark = pytest.mark.usefixtures("no_hub")
HUB = HubDataset("owner/name", "config", "test+train")
ROWS: list[dict[str, Any]] = [{"id": 1, "text": "é\u2028"}, {"id": 2, "text": None}]
SILENT = DownloadObserver(pytest.fail)
ORIGIN = {"repo": HUB.repo, "config": HUB.config, "split": HUB.split}


def kept_file(cache: Path) -> Path:
    return cache / "hub" / "owner" / "name" / "config" / "test+train.jsonl"


def load(
    data: str | None, cache: Path, notes: list[str] | None = None, benchmark: str = "mbpp"
) -> tuple[list[Row], DataSource]:
    notify = pytest.fail if notes is None else notes.append
    files = SplitFiles(benchmark, "test", "test")
    observer = DownloadObserver(notify)
    return load_rows(files, data=data, hub=HUB, bundled="mbpp.json", observer=observer, cache_dir=cache)


def jsonl(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def test_a_file_is_read_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = jsonl(tmp_path / "mine.jsonl")
    monkeypatch.chdir(tmp_path)
    rows, source = load("mine.jsonl", tmp_path)
    assert [row.values for row in rows] == ROWS
    assert source == DataSource("path", str(path), hashlib.sha256(path.read_bytes()).hexdigest(), 2)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load("~/mine.jsonl", tmp_path)[1] == source


@each_case(
    ("files", "chosen"),
    [
        (["HumanEval.jsonl.gz", "samples_with_verdicts.jsonl", "README.md"], "HumanEval.jsonl.gz"),
        (["human-eval_v2.jsonl"], "human-eval_v2.jsonl"),
        (["data.json", "notes.txt"], "data.json"),
        (["HumanEval.jsonl", "HumanEval.json"], None),
        (["a.jsonl", "b.jsonl"], None),
        (["README.md"], None),
    ],
)
def test_a_folder_gives_its_one_file(tmp_path: Path, files: list[str], chosen: str | None) -> None:
    for name in files:
        (tmp_path / name).write_text("")
    with pytest.raises(DataError) as caught:
        load(str(tmp_path), tmp_path, benchmark="humaneval")
    if chosen is None:
        assert "is a folder without exactly one file for split 'test' of humaneval" in str(caught.value)
        assert all(name in str(caught.value) for name in files if name != "README.md")
    else:
        assert str(tmp_path / chosen) in str(caught.value)


def test_a_wrong_word_is_distinguished_from_a_wrong_path(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as usage:
        load("bundeld", tmp_path)
    assert usage.value.hint == "did you mean 'bundled'?"
    for empty in ("", " "):
        with pytest.raises(UsageError, match="empty"):
            load(empty, tmp_path)
    for path in (f"no{os.sep}such", "nothing.jsonl", "x" * 5000 + ".json"):
        with pytest.raises(DataError):
            load(path, tmp_path)


def test_bundled_by_name_is_quiet(tmp_path: Path) -> None:
    rows, source = load("bundled", tmp_path)
    assert (source.kind, source.location) == ("bundled", "harness/benchmarks/data/bundled/mbpp.json")
    assert source.rows == len(rows) >= 14
    assert len(source.sha256) == 64


def test_without_a_hub_the_sample_runs_with_a_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # An import of `datasets`, which costs seconds, would fail.
    monkeypatch.setitem(sys.modules, "datasets", None)
    notes: list[str] = []
    rows, source = load(None, tmp_path, notes)
    assert source == load("bundled", tmp_path)[1]
    assert notes == [
        "WARNING: THIS IS NOT MBPP: the hub http://127.0.0.1:1 cannot be reached: Connection refused. "
        f"{len(rows)} small problems of our own run instead, and their score says nothing about mbpp. "
        "Use --data PATH for the real benchmark."
    ]


def test_hub_alone_never_falls_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HubUnreachableError, match="Connection refused") as caught:
        load("hub", tmp_path)
    assert "--data PATH" in (caught.value.hint or "")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(HubUnreachableError, match="HF_HUB_OFFLINE is set"):
        load("hub", tmp_path)


@each_case("data", ["hub", None])
def test_a_stored_copy_needs_no_hub(tmp_path: Path, data: str | None) -> None:
    write_cached_rows(kept_file(tmp_path), ROWS, ORIGIN, revision="abc", endpoint="http://hub")
    rows, source = load(data, tmp_path)
    assert [row.values for row in rows] == ROWS
    assert [(row.path, row.line) for row in rows] == [(str(kept_file(tmp_path)), n) for n in (1, 2)]
    sha256 = hashlib.sha256(kept_file(tmp_path).read_bytes()).hexdigest()
    assert source == DataSource("hub", "owner/name@abc (config, test+train)", sha256, 2)


def test_a_copy_of_another_dataset_is_not_used(tmp_path: Path) -> None:
    write_cached_rows(kept_file(tmp_path), ROWS, {**ORIGIN, "split": "test"}, revision="abc")
    notes: list[str] = []
    with pytest.raises(HubUnreachableError):
        load("hub", tmp_path, notes)
    assert "damaged" in notes[0]


def test_refresh_asks_the_hub_despite_a_copy(tmp_path: Path) -> None:
    write_cached_rows(kept_file(tmp_path), ROWS, ORIGIN)
    with pytest.raises(HubUnreachableError):
        load_hub_rows(HUB, observer=SILENT, cache_dir=tmp_path, refresh=True)
    assert read_cached_rows(kept_file(tmp_path), ORIGIN) is not None


def test_copies_are_stored_in_the_configured_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HARNESS_DATA")
    assert default_cache_dir() == tmp_path / ".harness" / "data"
    monkeypatch.setenv("HARNESS_DATA", "~/elsewhere")
    assert default_cache_dir() == tmp_path / "elsewhere"
    write_cached_rows(kept_file(tmp_path / "elsewhere"), ROWS, ORIGIN, revision="abc")
    assert len(load_hub_rows(HUB, observer=SILENT)[0]) == 2


@each_case("split", ["../../../etc", "train[:10%]", "a/b", "..", "x\0y"])
def test_no_name_leaves_the_cache_folder(tmp_path: Path, split: str) -> None:
    with pytest.raises(HubUnreachableError):
        load_hub_rows(HubDataset("o/n", None, split), observer=SILENT, cache_dir=tmp_path)


@each_case(
    "damage",
    [
        lambda rows, note: rows.write_bytes(rows.read_bytes() + b'{"id": 3}\n'),
        lambda rows, note: rows.write_bytes(b""),
        lambda rows, note: rows.unlink(),
        lambda rows, note: note.unlink(),
        lambda rows, note: note.write_bytes(b"[]"),
        lambda rows, note: note.write_bytes(b"\xff{"),
        lambda rows, note: note.write_bytes(note.read_bytes().replace(b'"rows": 2', b'"rows": 3')),
    ],
)
def test_a_damaged_copy_is_no_copy(tmp_path: Path, damage: object) -> None:
    file = tmp_path / "kept.jsonl"
    write_cached_rows(file, ROWS, ORIGIN)
    assert read_cached_rows(file, ORIGIN) is not None
    damage(file, tmp_path / "kept.jsonl.note.json")  # type: ignore[operator]
    assert read_cached_rows(file, ORIGIN) is None


def test_values_that_are_not_plain_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a bytes"):
        write_cached_rows(tmp_path / "kept.jsonl", [{"image": b"\x89PNG"}], ORIGIN)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_refused_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError) as caught:
        write_cached_rows(tmp_path / "file" / "kept.jsonl", ROWS, ORIGIN)
    assert "HARNESS_DATA" in (caught.value.hint or "")


def test_every_bundled_benchmark_runs_without_an_option_for_its_data() -> None:
    notes: list[str] = []
    unusable = []
    for name, definition in definitions().items():
        if definition.bundled is None:
            continue
        try:
            load_benchmark(name, notify=notes.append)
        except HarnessError as error:
            unusable.append(f"{name}: {error}")
    assert unusable == []
    assert "THIS IS NOT BBH: bbh is not on the hub." in " ".join(notes)


def test_a_category_by_any_name_is_answered_with_its_filter() -> None:
    for name, category in {"os": "os", "dbbench": "db", "Card Game": "card", "ltp": "lateral"}.items():
        with pytest.raises(UsageError) as refused:
            load_benchmark(name)
        assert refused.value.hint == f"select it with -b agentbench --filter-category {category}"
