"""The split of a data file: by its name, for every benchmark, whether the file or its folder is named."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case
from effort import THOROUGH

from harness.benchmarks import Definition, Split, definitions, load_benchmark
from harness.benchmarks.data.hub import write_cached_rows
from harness.benchmarks.data.source import BUNDLED
from harness.benchmarks.data.splits import HubDataset, SplitFiles
from harness.core.errors import DataError, UsageError

pytestmark = pytest.mark.usefixtures("no_hub")
WORDS = {"train": "train", "dev": "dev", "validation": "dev", "val": "dev", "test": "test"}
NQ = SplitFiles("nq", "test", "test", ("train", "dev"), ("nq-test.qa.csv", "NQ-open.dev.jsonl"))
HOTPOTQA = SplitFiles("hotpotqa", "dev", "dev", ("train",), missing={"test": "its answers are not public"})
MBPP = SplitFiles(
    "mbpp", "all", "all", ("test", "train"), ("sanitized-mbpp.json",), by_row=frozenset({"test", "train"})
)
GSM8K_ROW = {"question": "How many?", "answer": "Two. #### 2"}


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def told_by_name() -> Iterator[Definition]:
    """Yield the benchmarks whose files have a split in their names."""
    return (each for each in definitions().values() if each.names_tell_splits)


def serves(definition: Definition, path: Path, split: str) -> bool:
    try:
        load_benchmark(definition.name, data=str(path), split=split)
    except (UsageError, DataError) as error:
        # The sample of MBPP may lack rows of a split.
        return "holds no row of split" in str(error)
    return True


def test_no_benchmark_takes_a_file_for_another_split_than_its_name_says(tmp_path: Path) -> None:
    wrong = []
    pairs = itertools.product(enumerate(told_by_name()), enumerate(WORDS.items()))
    for (row, definition), (column, (word, meant)) in pairs:
        if not THOROUGH and (row + column) % 3:
            continue
        sample = BUNDLED / str(definition.bundled)
        folder = tmp_path / f"{definition.name}-{word}"
        folder.mkdir()
        file = folder / f"rows_{word}.v1{sample.suffix}"
        shutil.copy(sample, file)
        # A folder of livecodebench is a release, whose files have fixed names.
        places = [file] if definition.gather else [file, folder]
        for split, place in itertools.product((definition.split, *definition.splits), places):
            if serves(definition, place, split) != (split == meant):
                wrong.append((definition.name, place.name, split))
    assert wrong == []


def test_a_file_without_the_word_of_a_split_is_the_evaluation_split_alone(tmp_path: Path) -> None:
    wrong = []
    for definition in told_by_name():
        sample = BUNDLED / str(definition.bundled)
        folder = tmp_path / definition.name
        folder.mkdir()
        shutil.copy(sample, folder / f"rows{sample.suffix}")
        places = [folder / f"rows{sample.suffix}", *([] if definition.gather else [folder])]
        for split, place in itertools.product((definition.split, *definition.splits), places):
            by_row = definition.in_split(split).holds is not None
            if serves(definition, place, split) != (split == definition.split or by_row):
                wrong.append((definition.name, place.name, split))
    assert wrong == []


@each_case(
    ("rule", "wanted", "files", "chosen"),
    [
        (NQ, "test", ["NQ-open.dev.jsonl"], "NQ-open.dev.jsonl"),
        (NQ, "dev", ["NQ-open.dev.jsonl"], None),
        (NQ, "test", ["nq-dev.qa.csv", "NQ-open.dev.jsonl.gz"], "NQ-open.dev.jsonl.gz"),
        (NQ, "dev", ["nq-dev.qa.csv", "NQ-open.dev.jsonl"], "nq-dev.qa.csv"),
        (NQ, "train", ["nq-training.csv", "nq-test.qa.csv"], "nq-training.csv"),
        (NQ, "test", ["nq.csv", "nq-train.csv", "other.csv"], "nq.csv"),
        (NQ, "test", ["nq-train-test.csv"], None),
        (NQ, "test", ["contest.csv"], "contest.csv"),
        (NQ, "test", ["test.jsonl", "test.jsonl.note.json", ".test.jsonl.part"], "test.jsonl"),
        (HOTPOTQA, "dev", ["validation.jsonl", "train.jsonl"], "validation.jsonl"),
        (HOTPOTQA, "dev", ["hotpot_test_fullwiki_v1.json"], None),
        (MBPP, "all", ["samples_with_verdicts.jsonl", "sanitized-mbpp.json"], "sanitized-mbpp.json"),
        (MBPP, "train", ["sanitized-mbpp.json"], "sanitized-mbpp.json"),
        (MBPP, "train", ["prompt+test+validation+train.jsonl", "train.jsonl"], "train.jsonl"),
        (
            MBPP,
            "all",
            ["prompt+test+validation+train.jsonl", "train.jsonl"],
            "prompt+test+validation+train.jsonl",
        ),
        (MBPP, "all", ["test.jsonl"], None),
        (
            SplitFiles("x", "hard", "test", ("hard", "test_hard")),
            "hard",
            ["x_hard.csv", "x_test_hard.csv"],
            "x_hard.csv",
        ),
        (SplitFiles("x", "validation", "validation"), "validation", ["x_val.csv"], "x_val.csv"),
    ],
)
def test_a_folder_gives_the_file_of_the_wanted_split(
    tmp_path: Path, rule: SplitFiles, wanted: str, files: list[str], chosen: str | None
) -> None:
    for name in files:
        (tmp_path / name).write_text("")
    rule = replace(rule, wanted=wanted)
    if chosen is not None:
        assert rule.choose(tmp_path).name == chosen
        rule.require(tmp_path / chosen)
        return
    with pytest.raises(DataError, match=f"split '{wanted}' of {rule.benchmark}"):
        rule.choose(tmp_path)
    with pytest.raises(UsageError, match=f"not '{wanted}'"):
        rule.require(tmp_path / files[0])


def test_a_refusal_says_which_split_the_file_is_and_what_to_do(tmp_path: Path) -> None:
    file = write(tmp_path / "test.jsonl", GSM8K_ROW)
    for place in (file, tmp_path):
        with pytest.raises((UsageError, DataError)) as caught:
            load_benchmark("gsm8k", data=str(place), split="train")
        assert "is split 'test' of gsm8k by its name" in str(caught.value)
        assert caught.value.hint == (
            "choose split 'test', or rename a file that holds split 'train' so that its name has that word "
            "and no other"
        )
    loaded = load_benchmark("gsm8k", data=str(file))
    with pytest.raises(UsageError, match="not 'train'"):
        loaded.get_train_data()
    with pytest.raises(UsageError, match=r"lacks \(it was published with train and test only\), not 'test'"):
        load_benchmark("gsm8k", data=str(write(tmp_path / "dev.jsonl", GSM8K_ROW)))
    with pytest.raises(UsageError, match=r"several splits in its name \(test, train\), not 'test'"):
        load_benchmark("gsm8k", data=str(write(tmp_path / "train_test.jsonl", GSM8K_ROW)))


def test_the_folder_of_one_dataset_in_the_cache_has_its_splits(tmp_path: Path) -> None:
    folder = tmp_path / "hub" / "openai" / "gsm8k" / "main"
    for split in ("train", "test"):
        hub = HubDataset("openai/gsm8k", "main", split)
        rows = [{**GSM8K_ROW, "question": split}] * (2 if split == "train" else 1)
        write_cached_rows(folder / f"{split}.jsonl", rows, hub.origin, revision="abc")
    loaded = load_benchmark("gsm8k", data=str(folder))
    assert [each["question"] for each in loaded.get_test_data()] == ["test"]
    assert [each["question"] for each in loaded.get_train_data()] == ["train", "train"]


def test_a_folder_of_dprs_files_has_every_split(tmp_path: Path) -> None:
    for split, count in (("train", 5), ("dev", 4), ("test", 3)):
        (tmp_path / f"nq-{split}.qa.csv").write_text("who\t['a']\n" * count)
    benchmark = load_benchmark("nq", data=str(tmp_path))
    found = (benchmark.get_train_data(), benchmark.get_dev_data(), benchmark.get_test_data())
    assert [len(examples) for examples in found] == [5, 4, 3]


def test_files_that_an_own_benchmark_names_need_no_word(tmp_path: Path) -> None:
    write(tmp_path / "validation.jsonl", {"q": "1", "a": "1"})
    write(tmp_path / "rest.jsonl", {"q": "2", "a": "2"})
    text = "name: own\nmetric: exact_match\nprompt: '{q}'\nreference: a\ndata:\n"
    own = tmp_path / "own.yaml"
    own.write_text(f"{text}  test: {{path: validation.jsonl}}\n  train: {{path: rest.jsonl}}\n")
    loaded = load_benchmark(str(own))
    assert [each["q"] for each in (*loaded.get_test_data(), *loaded.get_train_data())] == ["1", "2"]
    with pytest.raises(UsageError, match="is split 'dev' by its name, which own lacks"):
        load_benchmark(str(own), data=str(tmp_path / "validation.jsonl"))


@each_case("place", ["path: rows.jsonl", "hub: owner/name", "url: https://example.org/a.csv"])
def test_an_own_benchmark_with_one_place_for_two_splits_is_refused(tmp_path: Path, place: str) -> None:
    write(tmp_path / "rows.jsonl", {"q": "1", "a": "1"})
    own = tmp_path / "own.yaml"
    own.write_text(
        "name: own\nmetric: exact_match\nprompt: '{q}'\nreference: a\n"
        f"data:\n  test: {{{place}}}\n  train: {{{place}}}\n"
    )
    with pytest.raises(UsageError, match="own: splits 'test' and 'train' have the same rows"):
        load_benchmark(str(own))


def test_rows_that_are_made_or_gathered_are_one_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gathers = definitions()["livecodebench"]
    splits = {"train": Split(HubDataset("owner/name", None, "train"), 3)}
    changed = [
        replace(gathers, configure=None, splits=splits),
        replace(gathers, configure=None, splits=splits, make_rows=lambda: ([], "")),
    ]
    for definition, data in zip(changed, (str(BUNDLED / "livecodebench.jsonl"), None), strict=True):
        monkeypatch.setattr("harness.benchmarks.loading.definition_of", lambda _name, found=definition: found)
        with pytest.raises(UsageError, match="split 'test', and cannot also be 'train'"):
            load_benchmark("livecodebench", data=data, split="train")


def test_a_folder_or_archive_with_one_problem_a_file_is_read_in_the_order_of_its_numbers(
    tmp_path: Path,
) -> None:
    def problem(answer: int) -> str:
        solution = f"It is $\\boxed{{{answer}}}$."
        return json.dumps({"problem": "?", "level": "Level 1", "type": "Algebra", "solution": solution})

    folder = tmp_path / "MATH"
    for name, answer in {
        "train/algebra/1": 7,
        "test/algebra/10": 3,
        "test/algebra/9": 2,
        "test/a/1": 1,
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.json").write_text(problem(answer))
    archive = shutil.make_archive(str(tmp_path / "MATH"), "tar", tmp_path, "MATH")

    def read_golds(data: Path | str, split: str = "test") -> dict[str, str | None]:
        benchmark = load_benchmark("math", data=str(data), split=split)
        return {task.id: benchmark.references[task.id].expected_output for task in benchmark.tasks}

    ordered = {"math/0": "1", "math/1": "2", "math/2": "3"}
    assert read_golds(folder) == read_golds(folder / "test") == read_golds(archive) == ordered
    assert read_golds(folder, "train") == read_golds(archive, "train") == {"math/0": "7"}
    (folder / "test/a/1.json").write_text("[]")
    with pytest.raises(DataError, match=r"test/a/1.json.* holds 0 rows, not one object"):
        read_golds(folder)
    with pytest.raises(DataError, match="without exactly one file for split 'train'"):
        read_golds(folder / "test", "train")
