"""The published splits of the answer benchmarks, on disk and on a server on this machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.benchmarks import definitions, load_benchmark
from harness.benchmarks.data.source import BUNDLED
from harness.core.errors import DataError, UsageError

sys.path.insert(0, str(Path(__file__).parents[1]))
from hub_server import HubServer

SIZES = {
    "nq": {"test": 3610, "train": 79168, "dev": 8757},
    "hotpotqa": {"dev": 7405, "train": 90447},
    "gsm8k": {"test": 1319, "train": 7473},
    "math": {"test": 5000, "train": 7500},
}
DPR = "dl.fbaipublicfiles.com/dpr/data/retriever/nq-{}.qa.csv"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubServer]:
    with HubServer({}) as server:
        for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HARNESS_MIRROR", f"{server.url}/mirror")
        monkeypatch.setenv("HARNESS_DATA", str(tmp_path / "cache"))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "locks"))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield server


def questions(count: int) -> bytes:
    return "".join(
        f"who is number {number}\t['{number}', \"No. {number}\"]\n" for number in range(count)
    ).encode()


@pytest.mark.parametrize("name", sorted(SIZES))
def test_sizes_are_the_published_ones(name: str) -> None:
    definition = definitions()[name]
    names = (definition.split, *definition.splits)
    assert {split: definition.in_split(split).tasks for split in names} == SIZES[name]


def test_natural_questions_are_loaded_from_dprs_files_and_counted(server: HubServer) -> None:
    server.published[DPR.format("test")] = questions(3610)
    server.published[DPR.format("dev")] = questions(8756)
    benchmark = load_benchmark("nq")
    assert benchmark.source.kind == "hub"
    (example,) = benchmark.get_test_data(indices=[7])
    assert example["answer"] == ["7", "No. 7"]
    assert benchmark.evaluate("no 7", benchmark.get_label(example))["score"] == 1.0
    with pytest.raises(DataError, match="nq has 8,757 rows in split 'dev', but this data has 8,756"):
        benchmark.get_dev_data()
    with pytest.raises(DataError, match="answers 404"):
        benchmark.get_train_data()


def test_dprs_files_and_nq_open_give_the_same_questions() -> None:
    tables, lines = (load_benchmark("nq", data=str(BUNDLED / name)) for name in ("nq.csv", "nq-open.jsonl"))
    assert tables.tasks == lines.tasks
    assert tables.references == lines.references


def test_a_folder_of_dprs_files_has_every_split(tmp_path: Path) -> None:
    for split, count in (("train", 5), ("dev", 4), ("test", 3)):
        (tmp_path / f"nq-{split}.qa.csv").write_bytes(questions(count))
    benchmark = load_benchmark("nq", data=str(tmp_path))
    found = (benchmark.get_train_data(), benchmark.get_dev_data(), benchmark.get_test_data())
    assert [len(examples) for examples in found] == [5, 4, 3]


def test_the_missing_test_split_of_hotpotqa_has_a_reason() -> None:
    benchmark = load_benchmark("hotpotqa", data="bundled")
    assert benchmark.split == "dev"
    assert len(benchmark.get_dev_data(sample_k=3, seed=1)) == 3
    with pytest.raises(UsageError, match="no split 'test': its answers are not public"):
        benchmark.get_test_data()


def test_problems_of_math_are_chosen_by_level_and_type() -> None:
    every = {task.id: task for task in load_benchmark("math", data="bundled").tasks}

    def chosen(**options: Any) -> set[str]:
        return {task.id for task in load_benchmark("math", data="bundled", **options).tasks}

    def are(levels: set[str], types: set[str | None]) -> set[str]:
        return {
            name
            for name, task in every.items()
            if task.labels["level"] in levels and (not types or task.category in types)
        }

    assert chosen(level=2) == are({"Level 2"}, set()) != set()
    some = are({"Level 2", "Level 3"}, {"Algebra"})
    assert chosen(level=[2, 3], type="Algebra") == some != set()
    assert chosen() == set(every)
    for wrong in ({"level": 6}, {"level": "hard"}, {"type": "Arithmetic"}, {"levle": 2}):
        with pytest.raises(UsageError, match="math: "):
            chosen(**wrong)


@pytest.mark.parametrize(
    ("name", "path", "count"),
    [
        ("gsm8k", "gsm8k", 1319),
        ("gsm8k", "gsm8k/test.jsonl", 1319),
        ("math", "math/test_500.jsonl", 493),
        ("nq", "nq", 3610),
        ("hotpotqa", "hotpotqa/dev_distractor_60.json", 60),
    ],
)
def test_real_data_are_loaded_from_disk(shared_data: Path, name: str, path: str, count: int) -> None:
    benchmark = load_benchmark(name, data=str(shared_data / path))
    assert len(benchmark.get_data(benchmark.split)) == count
    (example,) = benchmark.get_data(benchmark.split, sample_k=1, seed=5)
    assert benchmark.get_label(example).solution
    assert json.dumps(dict(example))
