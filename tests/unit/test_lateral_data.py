"""The files of lateral thinking puzzles: spreadsheets as upstream publishes them, and JSON Lines."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from case_checks import each_case

from harness.benchmarks import Benchmark, load_benchmark
from harness.benchmarks.data import local
from harness.core.errors import DataError, UsageError
from harness.environments.lateral.game import LateralPuzzle
from harness.models.endpoint import Endpoint

HEADINGS = ("story", "answer", "Story keys", "Answer keys")
CHINESE = ("汤面", "汤底", "Story keys", "Answer keys")
DOOR = (
    "A door opened.",
    "The wind opened it.",
    "1. A door opened.",
    "1. It was the wind.\n\n2. No one came.",
)
LAMP = ("A lamp went out.", "A moth put it out.", "- A lamp went out.", "- A moth flew into the flame of it.")
WELL = ("井边的人哭了。", "井里没有水。", "\n- 井边的人哭了。", "1. 井里没有水。\n2. 水被邻居抽走了。")


def write_sheet(path: Path, *rows: Sequence[object]) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(list(row))  # type: ignore[union-attr]
    path.parent.mkdir(parents=True, exist_ok=True)
    book.save(path)
    return path


def load(path: Path, **options: Any) -> Benchmark:
    return load_benchmark("agentbench", data=str(path), notify=lambda _line: None, **options)


def puzzle(benchmark: Benchmark, task_id: str) -> LateralPuzzle:
    target = benchmark.references[task_id].target
    assert isinstance(target, LateralPuzzle)
    return target


def test_a_row_is_a_puzzle(tmp_path: Path) -> None:
    write_sheet(tmp_path / "lateralthinkingpuzzle/std.xlsx", HEADINGS, DOOR, (), LAMP)
    benchmark = load(tmp_path)
    assert [task.id for task in benchmark.tasks] == ["lateral/std/0", "lateral/std/1"]
    found = puzzle(benchmark, "lateral/std/0")
    assert (found.language, found.story, found.answer) == ("en", DOOR[0], DOOR[1])
    assert found.story_keys == ("A door opened.",)
    assert found.answer_keys == ("It was the wind.", "No one came.")
    assert found.host == "offline"
    task = benchmark.tasks[0]
    assert (task.category, task.environment, task.labels) == (
        "lateral",
        "lateral",
        {"language": "en", "split": "std"},
    )


@each_case(
    "headings",
    [
        ("Story", " ANSWER", "story_keys", "Answer  Keys"),
        ("谜面", "谜底", "要点", "答案"),
        ("a", "answer", "b", "c"),
    ],
)
def test_other_headings_stand_for_the_columns_in_their_order(tmp_path: Path, headings: Sequence[str]) -> None:
    found = puzzle(load(write_sheet(tmp_path / "dev.xlsx", headings, DOOR)), "lateral/dev/0")
    assert (found.story, found.answer) == DOOR[:2]
    assert found.answer_keys == ("It was the wind.", "No one came.")


def test_a_puzzle_without_an_answer_has_its_keys(tmp_path: Path) -> None:
    path = write_sheet(tmp_path / "dev.xlsx", HEADINGS, (DOOR[0], None, *DOOR[2:]))
    assert puzzle(load(path), "lateral/dev/0").answer == "It was the wind. No one came."


def test_each_language_has_its_own_ids(tmp_path: Path) -> None:
    write_sheet(tmp_path / "lateralthinkingpuzzle/standard.xlsx", HEADINGS, DOOR)
    write_sheet(tmp_path / "lateralthinkingpuzzle_zh/standard.xlsx", CHINESE, WELL)
    benchmark = load(tmp_path)
    assert [task.id for task in benchmark.tasks] == ["lateral/std/0", "lateral/zh/std/0"]
    assert puzzle(benchmark, "lateral/zh/std/0").language == "zh"
    assert "海龟汤" in benchmark.tasks[1].prompt


def test_a_single_file_is_of_the_language_of_its_stories(tmp_path: Path) -> None:
    assert load(write_sheet(tmp_path / "dev.xlsx", HEADINGS, DOOR)).tasks[0].id == "lateral/dev/0"
    assert load(write_sheet(tmp_path / "dev_zh.xlsx", CHINESE, WELL)).tasks[0].id == "lateral/zh/dev/0"


def test_a_users_puzzles_may_be_json_lines(tmp_path: Path) -> None:
    values = {
        "story": DOOR[0],
        "answer": DOOR[1],
        "story_keys": [DOOR[0]],
        "answer_keys": ["It was the wind."],
    }
    path = tmp_path / "lateralthinkingpuzzle/mine.jsonl"
    path.parent.mkdir()
    path.write_text(json.dumps(values) + "\n")
    assert puzzle(load(tmp_path), "lateral/mine/0").answer_keys == ("It was the wind.",)
    assert puzzle(load(path), "lateral/mine/0").story == DOOR[0]


def test_a_prompt_reveals_nothing_but_the_story() -> None:
    benchmark = load_benchmark("agentbench", data="bundled", notify=print)
    checked = 0
    for task in benchmark.tasks:
        target = benchmark.references[task.id].target
        if isinstance(target, LateralPuzzle):
            checked += 1
            assert target.story in task.prompt
            assert task.setup is None
            assert not any(text in task.prompt for text in (target.answer, *target.answer_keys))
    assert checked == 12


@each_case(
    ("rows", "message"),
    [
        ([("story", "answer", "Story keys"), DOOR[:3]], "no column for: answer_keys"),
        ([("story", "story", "answer", "Story keys", "Answer keys"), DOOR], "two columns"),
        ([HEADINGS, (*DOOR[:3], " \n- ")], "needs 1 to 100 keys, found 0"),
        ([HEADINGS, ("", *DOOR[1:])], "is empty"),
        ([], "no line of headings"),
    ],
)
def test_an_error_names_the_file(tmp_path: Path, rows: list[Sequence[object]], message: str) -> None:
    path = write_sheet(tmp_path / "dev.xlsx", *rows)
    with pytest.raises(DataError, match=message) as caught:
        load(path)
    assert "dev.xlsx" in str(caught.value)


@each_case("data", [b"", b"no spreadsheet", b"PK\x03\x04" + b"\0" * 40])
def test_a_damaged_file_is_an_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "dev.xlsx"
    path.write_bytes(data)
    with pytest.raises(DataError):
        load(path)


def test_a_file_cut_anywhere_is_an_error(tmp_path: Path) -> None:
    whole = write_sheet(tmp_path / "whole.xlsx", HEADINGS, DOOR).read_bytes()
    path = tmp_path / "dev.xlsx"
    for end in range(0, len(whole) - 1, 501):
        path.write_bytes(whole[:end])
        with pytest.raises(DataError):
            load(path)


def test_an_archive_without_a_sheet_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "dev.xlsx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("anything.txt", "x")
    with pytest.raises(DataError, match="cannot be read as a spreadsheet"):
        load(path)


def test_a_file_that_is_huge_unpacked_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "MAX_UNPACKED_BYTES", 1024**2)
    path = tmp_path / "dev.xlsx"
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/sharedStrings.xml", b"\0" * (local.MAX_UNPACKED_BYTES + 1))
    path.write_bytes(data.getvalue())
    assert path.stat().st_size < 10_000
    with pytest.raises(DataError, match="bytes unpacked"):
        load(path)


def test_a_row_far_below_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "MAX_ROWS", 50)
    book = openpyxl.Workbook()
    assert book.active is not None
    book.active.append(HEADINGS)
    book.active.cell(row=100_000, column=1, value="far")
    book.save(tmp_path / "dev.xlsx")
    with pytest.raises(DataError, match="more than 50 rows"):
        load(tmp_path / "dev.xlsx")


def test_a_column_far_to_the_right_is_ignored(tmp_path: Path) -> None:
    row = (*DOOR, *[None] * 16_000, "far")
    benchmark = load(write_sheet(tmp_path / "dev.xlsx", HEADINGS, row))
    assert len(benchmark.tasks) == 1


def test_facts_of_other_puzzles_fit_no_fact_of_the_puzzle(tmp_path: Path) -> None:
    copy = ("A moth.", "It flew.", "- A moth.", "- A moth flew into the flame of the lamp.")
    path = write_sheet(tmp_path / "dev.xlsx", HEADINGS, DOOR, LAMP, copy)
    host = {"model": "m", "base_url": "http://localhost:1/v1"}
    benchmark = load(path, lateral={"host": host})
    assert puzzle(benchmark, "lateral/dev/1").decoys == ()
    assert puzzle(benchmark, "lateral/dev/0").decoys == (("A moth flew into the flame of the lamp.",),)
    assert puzzle(benchmark, "lateral/dev/0").host == "m"


def test_the_host_is_an_option() -> None:
    endpoint = load_benchmark(
        "agentbench", data="bundled", notify=print, lateral={"host": {"model": "m", "api_key_env": "MY_KEY"}}
    ).definition.judge
    assert isinstance(endpoint, Endpoint)
    assert (endpoint.model, endpoint.api_key_env) == ("m", "MY_KEY")
    named = load_benchmark("agentbench", data="bundled", notify=print, lateral={"host": "judge"})
    assert named.definition.judge == "judge"
    assert load_benchmark("agentbench", data="bundled", notify=print).definition.judge is None


def test_a_notice_names_the_offline_host(tmp_path: Path) -> None:
    path = write_sheet(tmp_path / "dev.xlsx", HEADINGS, DOOR)
    benchmark = load_benchmark("agentbench", data=str(path))
    (notice,) = benchmark.list_notices(benchmark.tasks)
    assert "offline host" in notice
    judged = load_benchmark("agentbench", data=str(path), lateral={"host": "judge"})
    assert judged.list_notices(judged.tasks) == []


@each_case(
    ("host", "message"),
    [
        ({"model": "m", "base_url": "nowhere"}, r"lateral\.host\.base_url.*must be a URL"),
        ({}, r"lateral\.host\.model.*missing"),
        ({"model": "m", "key": "secret"}, "^unknown key of lateral.host 'key'"),
        (7, r"lateral\.host.*must be text"),
    ],
)
def test_a_wrong_host_is_named(host: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_benchmark("agentbench", data="bundled", notify=print, lateral={"host": host})
