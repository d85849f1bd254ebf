"""The shop's catalogue: the published files, the index on disk, and the generator."""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import samples
from case_checks import each_case
from effort import THOROUGH
from samples.shop import PublishedRecords, generate_records

from harness.benchmarks import load_benchmark
from harness.core.errors import DataError, UsageError
from harness.core.lock import exclusive
from harness.environments.web import catalogue as catalogues
from harness.environments.web import products, search_index
from harness.environments.web.catalogue import Catalogue, load_catalogue
from harness.environments.web.category import find_catalogue
from harness.environments.web.grader import offline_nouns, reward_purchase
from harness.environments.web.products import PublishedShop, stream_array, stream_object
from harness.environments.web.session import OptionChoice, ProductLink, Session

BUNDLED = PublishedShop.at(*find_catalogue(samples.BUNDLED / "webshop"), in_memory=True)
PRODUCTS = 80
INDEX_FILES = ("products.jsonl", "ends.npy", "goals.json", "note.json", "documents.npy")


def write_files(folder: Path, records: PublishedRecords) -> PublishedShop:
    return replace(records.write(folder), index=folder / "indexes", in_memory=False)


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PublishedShop:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return write_files(tmp_path / "webshop", generate_records(3, PRODUCTS))


def forget(*sources: PublishedShop) -> None:
    for source in sources:
        catalogues._catalogues.pop(source, None)


def shop_lazily(catalogue: Catalogue, limit: int) -> float:
    """Return the mean reward of a policy that buys the first hit with the options that the text names."""
    total = 0.0
    for goal in catalogue.goals[:limit]:
        session = Session(catalogue, goal.instruction)
        page = session.search(goal.instruction)
        page = session.click(next(v for v, kind in page.clickables.items() if isinstance(kind, ProductLink)))
        for value, kind in page.clickables.items():
            if isinstance(kind, OptionChoice) and value in goal.instruction:
                session.click(value)
        session.click("buy now")
        bought = session.purchase
        assert bought is not None
        options = bought.options.values()
        total += reward_purchase(bought.product, options, bought.product.price, goal, offline_nouns).value
    return total / limit


def test_the_lazy_policy_does_not_win() -> None:
    assert shop_lazily(load_catalogue(BUNDLED), 150) <= 0.6


def test_thousands_of_products_in_files_have_an_index_and_no_lazy_winner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    number = 10_000 if THOROUGH else 1_000
    mapped = load_catalogue(write_files(tmp_path / "webshop", generate_records(3, number)))
    assert isinstance(mapped.index.documents, np.memmap)
    assert mapped.size == number
    for goal in mapped.goals[:20]:
        assert goal.asin in {mapped.product(number).asin for number in mapped.search(goal.name, 10)}
    assert shop_lazily(mapped, 60) <= 0.6


def test_every_bundled_goal_can_be_met() -> None:
    catalogue = load_catalogue(BUNDLED)
    products = {product.asin: product for product in map(catalogue.product, range(catalogue.size))}
    for goal in catalogue.goals:
        product = products[goal.asin]
        found = reward_purchase(product, goal.options, product.price, goal, offline_nouns)
        assert found.value == 1.0
        assert all(any(option in values for values in product.options.values()) for option in goal.options)


def test_published_files_give_the_same_catalogue_as_memory(published: PublishedShop) -> None:
    notes: list[str] = []
    mapped = load_catalogue(published, notes.append)
    in_memory = load_catalogue(replace(published, in_memory=True))
    assert isinstance(mapped.rows, np.memmap)
    assert mapped.goals == in_memory.goals
    assert [mapped.product(n) for n in range(PRODUCTS)] == [in_memory.product(n) for n in range(PRODUCTS)]
    for goal in mapped.goals[:20]:
        assert mapped.search(goal.instruction, 50) == in_memory.search(goal.instruction, 50)
    assert set(mapped.digests) == {path.name for path in published.paths}
    assert mapped.digests == in_memory.digests
    assert any("making the search index, once" in note for note in notes)


@each_case("chunk", [1, 5000])
def test_an_index_made_in_pieces_is_the_same(
    published: PublishedShop, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(search_index, "_CHUNK", 4 * chunk)
    mapped, in_memory = load_catalogue(published), load_catalogue(replace(published, in_memory=True))
    for name in ("documents", "frequencies", "starts", "lengths", "ranks"):
        assert np.array_equal(getattr(mapped.index, name), getattr(in_memory.index, name)), name


def test_an_index_is_made_once(published: PublishedShop) -> None:
    load_catalogue(published)
    forget(published)
    notes: list[str] = []
    load_catalogue(published, notes.append)
    assert notes == []


def test_changed_files_get_another_index(published: PublishedShop) -> None:
    before = load_catalogue(published)
    write_files(published.products.parent, generate_records(4, PRODUCTS))
    os.utime(published.products, ns=(1, 1))
    forget(published)
    assert load_catalogue(published).goals != before.goals


def list_indexes(shop: PublishedShop) -> list[Path]:
    """Return the folders of indexes, whole or not."""
    assert shop.index is not None
    return [path for path in shop.index.iterdir() if path.is_dir()]


@each_case(("name", "content"), [*((name, b"x") for name in INDEX_FILES), ("products.jsonl", b"")])
def test_a_damaged_index_is_made_again(published: PublishedShop, name: str, content: bytes) -> None:
    goals = load_catalogue(published).goals
    forget(published)
    [folder] = list_indexes(published)
    (folder / name).write_bytes(content)
    assert load_catalogue(published).goals == goals


def test_a_full_disk_is_an_error_that_leaves_no_index(
    published: PublishedShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_descriptor: int, _offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    # A write into a mapped file without room ends the process, so that the room is asked for before.
    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(DataError, match="No space left on device"):
        load_catalogue(published)
    assert list_indexes(published) == []


def test_processes_with_other_cache_folders_wait_for_each_other(
    published: PublishedShop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    load_catalogue(published)
    [folder] = list_indexes(published)
    forget(published)
    shutil.rmtree(folder)
    with exclusive(f"{folder.name}.lock", notify=print, folder=folder.parent):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another cache"))
        notes: list[str] = []
        waiting = threading.Thread(target=load_catalogue, args=(published, notes.append))
        waiting.start()
        waiting.join(0.3)
        assert [note for note in notes if "waiting for another harness process" in note]
        assert list_indexes(published) == []
    waiting.join(20)
    assert list_indexes(published) == [folder]


def test_attempts_at_the_same_time_share_one_catalogue(published: PublishedShop) -> None:
    start = threading.Barrier(8)
    notes: list[str] = []

    def load(_number: int) -> Catalogue:
        start.wait()
        return load_catalogue(published, notes.append)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(load, range(8)))
    assert all(each is found[0] for each in found)
    assert sum("making the search index" in note for note in notes) == 1


def test_products_that_upstream_leaves_out_are_left_out(published: PublishedShop) -> None:
    records = json.loads(published.products.read_bytes())
    extra = [records[0], records[0] | {"asin": "nan"}, records[0] | {"asin": "B0123456789"}]
    published.products.write_text(json.dumps([*records, *extra]))
    assert load_catalogue(published).size == len(records)


@each_case(
    ("field", "content", "message"),
    [
        ("products", "[", "has an element that cannot be read"),
        ("products", "{}", "needs '\\['"),
        ("products", "[]", "holds no products"),
        ("products", '[{"asin": 7}]', "product 1 has no asin"),
        ("products", '[{"asin": "\\ud800"}]', "holds half of a surrogate pair"),
        ("products", '[{"asin": "B1"}]', "the field 'name' is missing"),
        ("attributes", '{"B1": {"attributes": "red"}}', "are not a list"),
        ("instructions", "[]", "needs '{'"),
    ],
)
def test_broken_files_are_named(published: PublishedShop, field: str, content: str, message: str) -> None:
    path: Path = getattr(published, field)
    path.write_text(content)
    with pytest.raises(DataError, match=message) as caught:
        load_catalogue(published)
    assert str(path) in str(caught.value)
    assert list_indexes(published) == []


@each_case("chunk", [1, 2, 7, 1 << 20])
def test_a_stream_has_the_elements_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(products, "_CHUNK", chunk)
    values: dict[str, Any] = {"a": 12, "b": "ü€\U0001f600", "c": {"d": [1, 2.5, None]}, "": -3}
    path = tmp_path / "values.json"
    path.write_bytes(b"\xef\xbb\xbf \n" + json.dumps(values, indent=1, ensure_ascii=False).encode() + b"\n")
    assert dict(stream_object(path)) == values
    path.write_text(json.dumps(list(values.values())))
    progress: list[int] = []
    assert list(stream_array(path, progress.append)) == list(values.values())
    assert progress[-1] == path.stat().st_size
    path.write_text(" [ ] ")
    assert list(stream_array(path)) == []


@each_case(
    "content",
    [b"", b"[1", b"[1,]", b"[1 2]", b"[1]]", b"[nul]", b"\xff[1]", b'["' + b"a" * 99, b"[" * 99_999],
)
def test_a_stream_of_a_damaged_file_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "values.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"values\.json"):
        list(stream_array(path))


def test_a_catalogue_is_found_by_its_folder_or_its_products(published: PublishedShop) -> None:
    assert find_catalogue(published.products.parent) == find_catalogue(published.products) == published.paths


@each_case("name", ["items_ins_v2_1000.json", "items_human_ins.json", "items_shuffle_1000.json"])
def test_a_missing_file_is_named(published: PublishedShop, name: str) -> None:
    (published.products.parent / name).unlink()
    with pytest.raises(DataError, match="is missing"):
        find_catalogue(published.products.parent)


def test_upstreams_folder_gives_the_tasks_of_the_splits(published: PublishedShop) -> None:
    write_files(published.products.parent, generate_records(3, 200))
    options = {"index": str(published.index)}
    found = load_benchmark("agentbench", data=str(published.products.parent.parent), web=options)
    ids = [task.id for task in found.tasks]
    assert ids == [f"web/std/{number}" for number in range(67)]
    assert found.tasks[0].turns == 20


def test_the_bundled_sample_has_both_splits_and_shows_no_goal() -> None:
    found = load_benchmark("agentbench", data="bundled", protocol="v0.2")
    tasks = [task for task in found.tasks if task.category == "web"]
    assert {task.id.rpartition("/")[0] for task in tasks} == {"web/std", "web/dev"}
    for task in tasks:
        target: Any = found.references[task.id].target
        assert task.turns == 10
        assert target.goal.asin not in task.prompt
        assert target.goal.name not in task.prompt
        assert task.setup is None


def test_an_absent_tagger_is_refused() -> None:
    with pytest.raises(UsageError, match=r"web\.tagger.*spaCy"):
        load_benchmark("agentbench", data="bundled", web={"tagger": "spacy"})
