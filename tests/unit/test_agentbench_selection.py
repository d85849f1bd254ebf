"""The data of AgentBench that a run reads: by category, by the kind of a single file, and by split."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case

from harness.benchmarks import load_benchmark
from harness.benchmarks.benchmark import Benchmark
from harness.benchmarks.data.source import BUNDLED
from harness.benchmarks.loading import load_recipe
from harness.core.errors import DataError, UsageError
from harness.runs.filters import TaskFilters
from harness.runs.plan import select_tasks

SAMPLE = BUNDLED / "agentbench"
"""The bundled sample, whose folders have upstream's names."""


def load(path: Path, *categories: str, notes: list[str] | None = None, **options: Any) -> Benchmark:
    notify = (lambda _line: None) if notes is None else notes.append
    return load_benchmark("agentbench", data=str(path), categories=categories, notify=notify, **options)


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """Return a folder like AgentBench's data/: with questions, and with lists whose games are missing."""
    folder = tmp_path / "data"
    shutil.copytree(SAMPLE / "knowledgegraph", folder / "knowledgegraph")
    (folder / "alfworld").mkdir()
    shutil.copy(SAMPLE / "alfworld" / "dev.json", folder / "alfworld" / "std.json")
    return folder


def test_a_run_of_one_category_hears_nothing_of_the_others(published: Path) -> None:
    notes: list[str] = []
    tasks = load(published, "Knowledge Graph", notes=notes).tasks
    assert {task.category for task in tasks} == {"kg"}
    assert notes == []


def test_broken_data_of_another_category_do_not_stop_a_run(published: Path) -> None:
    (published / "alfworld" / "std.json").write_text("{broken")
    with pytest.raises(DataError, match=r"std\.json"):
        load(published)
    assert load(published, "kg").tasks


def test_a_label_leaves_out_no_category(published: Path) -> None:
    (published / "card_game").mkdir()
    (published / "card_game" / "any").touch()
    assert {task.category for task in load(published, "dev").tasks} == {"kg", "card"}


def test_a_worker_reads_the_same_categories(published: Path) -> None:
    loaded = load(published, "kg")
    assert loaded.recipe is not None
    assert [task.id for task in load_recipe(loaded.recipe).tasks] == [task.id for task in loaded.tasks]


def test_a_category_without_tasks_is_an_error_that_names_those_which_are_there(published: Path) -> None:
    with pytest.raises(DataError, match="holds no task of the category lateral") as caught:
        load(published, "lateral")
    assert "bring data/lateralthinkingpuzzle/" in str(caught.value.hint)
    assert str(caught.value.hint).endswith("it has folders of house, kg")


def test_lists_without_their_games_are_an_error_that_refers_to_the_reasons(published: Path) -> None:
    notes: list[str] = []
    with pytest.raises(DataError, match="holds no task of the category house") as caught:
        load(published, "house", notes=notes)
    assert "reasons" in str(caught.value.hint)
    assert "house.games" in notes[0]


def test_the_card_game_needs_no_data_when_it_is_named(published: Path) -> None:
    assert len(load(published, "card").tasks) == 32
    assert {task.category for task in load(published).tasks} == {"kg"}


def test_a_catalogue_needs_no_folder_in_the_data(published: Path, catalogue: Path) -> None:
    found = load(published, web={"catalogue": str(catalogue), "index": str(published / "index")})
    assert {task.category for task in found.tasks} == {"kg", "web"}


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    """Return a folder with WebShop's files under their own names, in a folder of any name."""
    folder = tmp_path / "downloaded"
    folder.mkdir()
    product = {
        "asin": "B000000001",
        "name": "red mug",
        "full_description": "a mug",
        "small_description": ["ceramic"],
        "pricing": "$5.00",
        "product_category": "Kitchen › Mugs",
        "category": "kitchen",
        "query": "mug",
        "images": [],
        "customization_options": {},
    }
    wanted = {"attributes": ["ceramic"], "instruction": "a mug", "instruction_attributes": ["ceramic"]}
    human = {"instruction": "a mug", "instruction_attributes": ["ceramic"], "instruction_options": []}
    (folder / "items_shuffle_1000.json").write_text(json.dumps([product]))
    (folder / "items_ins_v2_1000.json").write_text(json.dumps({"B000000001": wanted}))
    (folder / "items_human_ins.json").write_text(json.dumps({"B000000001": [human]}))
    return folder


def test_a_catalogue_is_known_by_its_files(catalogue: Path, tmp_path: Path) -> None:
    index = {"index": str(tmp_path / "index")}
    for path in (catalogue, catalogue / "items_shuffle_1000.json"):
        assert [task.id for task in load(path, web=index).tasks] == ["web/std/0"]


def test_a_large_catalogue_is_not_read_as_rows(catalogue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.benchmarks.data.tree.MAX_BYTES", 10)
    monkeypatch.setattr(
        "harness.benchmarks.data.tree.read_tree.__kwdefaults__", {"max_files": 100, "max_bytes": 10}
    )
    index = {"index": str(catalogue.parent / "index")}
    assert load(catalogue, web=index).tasks
    named = catalogue.rename(catalogue.with_name("webshop"))
    assert load(named, web=index).tasks


def test_a_folder_without_products_names_the_missing_files(catalogue: Path) -> None:
    (catalogue / "items_shuffle_1000.json").unlink()
    notes: list[str] = []
    with pytest.raises(DataError, match="holds no records"):
        load(catalogue, notes=notes)
    assert notes == ["webshop: left out, because it has none of items_shuffle.json, items_shuffle_1000.json"]


@each_case(
    ("name", "start"),
    [
        ("knowledgegraph/dev.json", "kg/"),
        ("alfworld/dev.json", "house/"),
        ("lateralthinkingpuzzle", "lateral/"),
    ],
)
def test_a_single_file_gives_the_tasks_that_its_folder_gives(name: str, start: str) -> None:
    path = SAMPLE / name
    if path.is_dir():
        (path,) = path.iterdir()
    alone, all_of_it = load(path), load(path.parent)
    assert [(task.id, task.labels) for task in alone.tasks] == [
        (task.id, task.labels) for task in all_of_it.tasks
    ]
    assert alone.tasks[0].id.startswith(start)


def test_a_single_file_of_questions_is_named_not_freebase() -> None:
    loaded = load(SAMPLE / "knowledgegraph" / "dev.json")
    assert loaded.list_notices(loaded.tasks) == [
        "kg: the knowledge graph is made for each task; it is not Freebase"
    ]


def test_a_split_of_a_category_can_be_selected(tmp_path: Path) -> None:
    (tmp_path / "card_game").mkdir()
    (tmp_path / "card_game" / "any").touch()
    shutil.copytree(SAMPLE / "knowledgegraph", tmp_path / "knowledgegraph")
    loaded = load(tmp_path)
    found = select_tasks(loaded, TaskFilters(categories=["std"]))
    assert {task.id.split("/")[1] for task in found} == {"std"}
    found = select_tasks(loaded, TaskFilters(categories=["card", "dev"]))
    assert {task.id.split("/")[:2][1] for task in found} == {"dev"}
    assert {task.category for task in found} == {"card"}


def test_every_task_of_the_sample_has_a_split() -> None:
    splits = {task.labels.get("split") for task in load(SAMPLE).tasks}
    assert splits == {"dev", "sample", "std"}


def test_web_browsing_is_refused_with_the_reason() -> None:
    loaded = load(SAMPLE / "knowledgegraph", "web_browsing")
    with pytest.raises(UsageError, match=r"has no category 'mind2web' here: .* does not run"):
        select_tasks(loaded, TaskFilters(categories=["web_browsing"]))


@each_case(
    ("options", "message", "hint"),
    [
        ({"kg": {"strcit": True}}, "unknown option 'kg.strcit'", "did you mean 'kg.strict'"),
        ({"strict": True}, "unknown option 'strict'", "did you mean 'kg.strict'"),
        ({"nonsense": 1}, "unknown option 'nonsense'", "card.shuffle, fc.lenient, house.games"),
    ],
)
def test_an_unknown_option_names_the_known_ones(options: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        load(SAMPLE / "knowledgegraph", **options)
    assert hint in str(caught.value.hint)


def test_upstreams_splits_are_refused_with_the_way_to_select_them() -> None:
    with pytest.raises(UsageError, match="has no split 'std': --filter-category std selects it"):
        load_benchmark("agentbench", data="bundled", split="std")
