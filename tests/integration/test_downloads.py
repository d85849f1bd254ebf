"""Downloads from a server on this machine happen once, continue where they were cut off, and are verified."""

from __future__ import annotations

import gzip
import hashlib
import json
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from hub_server import HubRepo, HubServer

from harness.benchmarks import load_benchmark
from harness.benchmarks.data.download import (
    CHUNK,
    DownloadObserver,
    HubUnreachableError,
    State,
    list_cached_files,
)
from harness.benchmarks.data.hub import cached_path, load_file_rows, load_hub_rows
from harness.benchmarks.data.local import Table
from harness.benchmarks.data.splits import HubDataset
from harness.benchmarks.loading import fetch
from harness.core.errors import DataError

URL = "https://publisher.example/data/questions.jsonl"
ROWS = [{"question": f"what is {number}?", "answer": ["x" * 50, str(number)]} for number in range(3_000)]
DATA = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
DPR = Table(columns=("question", "answer"), delimiter="\t", literals=("answer",))


@pytest.fixture
def server(mirror: HubServer, monkeypatch: pytest.MonkeyPatch) -> HubServer:
    """Return a server that is the hub and a mirror."""
    mirror.repos["owner/name"] = HubRepo({"test.jsonl": DATA, "test.jsonl.gz": DATA})
    mirror.published["publisher.example/data/questions.jsonl"] = DATA
    monkeypatch.setenv("HF_ENDPOINT", mirror.url)
    return mirror


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def load(cache: Path, url: str = URL, notes: list[str] | None = None) -> list[dict[str, object]]:
    kept: list[str] = [] if notes is None else notes
    rows, _, _ = load_file_rows([url], cache_dir=cache, observer=DownloadObserver(kept.append))
    return [dict(row.values) for row in rows]


def test_a_file_is_fetched_once_and_kept_with_its_hash(server: HubServer, cache: Path) -> None:
    assert load(cache) == ROWS
    kept = cached_path(URL, cache)
    assert kept.read_bytes() == DATA
    note = json.loads(kept.with_name(f"{kept.name}.note.json").read_text())
    assert note["url"] == URL
    assert (note["bytes"], note["sha256"]) == (len(DATA), hashlib.sha256(DATA).hexdigest())
    assert sorted(path.name for path in kept.parent.iterdir()) == [kept.name, f"{kept.name}.note.json"]

    server.requests.clear()
    assert load(cache) == ROWS
    assert server.requests == []


def test_a_download_goes_on_where_it_was_cut_off(server: HubServer, cache: Path) -> None:
    server.cut_after[:] = [8 * CHUNK, 4 * CHUNK + 5]
    assert load(cache) == ROWS
    assert server.ranges == [f"bytes={8 * CHUNK}-", f"bytes={12 * CHUNK}-"]


def test_another_process_goes_on_where_the_last_one_gave_up(server: HubServer, cache: Path) -> None:
    server.cut_after[:] = [6 * CHUNK, 1, 1]
    with pytest.raises(HubUnreachableError) as caught:
        load(cache)
    assert f"{6 * CHUNK:,} bytes are stored" in str(caught.value)
    assert [(file.state, file.bytes) for file in list_cached_files(cache)] == [(State.PARTIAL, 6 * CHUNK)]
    server.ranges.clear()
    assert load(cache) == ROWS
    assert server.ranges == [f"bytes={6 * CHUNK}-"]


def test_parts_of_two_versions_are_never_joined(server: HubServer, cache: Path) -> None:
    server.cut_after[:] = [6 * CHUNK, 1, 1]
    with pytest.raises(HubUnreachableError):
        load(cache)
    other = DATA.replace(b"what", b"WHAT")
    server.published["publisher.example/data/questions.jsonl"] = other
    load(cache)
    assert cached_path(URL, cache).read_bytes() == other


def test_a_part_without_a_strong_etag_is_fetched_anew(server: HubServer, cache: Path) -> None:
    kept = cached_path(URL, cache)
    kept.parent.mkdir(parents=True)
    part = kept.with_name(f"{kept.name}.part")
    part.write_bytes(b"something else")
    mirrored = f"{server.url}/mirror/publisher.example/data/questions.jsonl"
    for version in ("", 'W/"weak"', None, 5):
        part.write_bytes(b"something else")
        part.with_name(f"{part.name}.json").write_text(json.dumps({"url": mirrored, "version": version}))
        assert load(cache) == ROWS
        kept.unlink()
    assert server.ranges == []


def test_a_copy_that_was_changed_is_fetched_again(server: HubServer, cache: Path) -> None:
    load(cache)
    kept = cached_path(URL, cache)
    kept.write_bytes(DATA.replace(b"what", b"WHAT", 1))
    assert [file.state for file in list_cached_files(cache)] == [State.WHOLE]
    assert [file.state for file in list_cached_files(cache, verify=True)] == [State.DAMAGED]
    notes: list[str] = []
    assert load(cache, notes=notes) == ROWS
    assert "damaged" in notes[0]
    assert [file.state for file in list_cached_files(cache, verify=True)] == [State.VERIFIED]


def test_a_file_of_the_hub_is_kept_with_its_commit(server: HubServer, cache: Path) -> None:
    dataset = HubDataset("owner/name", None, "test", ("test.jsonl",))
    rows, sha256, location = load_hub_rows(dataset, observer=DownloadObserver(print))
    assert [row.values for row in rows] == ROWS
    assert sha256 == hashlib.sha256(DATA).hexdigest()
    assert location == f"owner/name/test.jsonl@{server.repos['owner/name'].commit}"


def test_a_token_goes_to_the_hub_and_to_nobody_else(
    server: HubServer, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with pytest.raises(DataError):  # The file is not a gzip, but it was downloaded from another host.
        load(cache, "hf://datasets/owner/name/test.jsonl.gz")
    load(cache)
    assert server.authorised == ["/datasets/owner/name/resolve/main/test.jsonl.gz"]
    assert any(line.startswith("GET /cdn/") for line in server.requests)


def test_a_file_that_two_threads_request_at_once_is_fetched_once(server: HubServer, cache: Path) -> None:
    waits = threading.Event()

    def note(line: str) -> None:
        if line.startswith("waiting for another"):
            waits.set()

    def load_other() -> list[dict[str, object]]:
        rows, _, _ = load_file_rows([URL], cache_dir=cache, observer=DownloadObserver(note))
        return [dict(row.values) for row in rows]

    with ThreadPoolExecutor(1) as pool:
        others: list[Future[list[dict[str, object]]]] = []

        def progress(_name: str, _done: int, _total: int | None) -> None:
            if not others:
                others.append(pool.submit(load_other))
            assert waits.wait(30)

        observer = DownloadObserver(lambda _line: None, progress)
        load_file_rows([URL], cache_dir=cache, observer=observer)
        assert others[0].result(timeout=120) == ROWS
    assert [line for line in server.requests if line.startswith("GET")] == [f"GET /mirror/{URL[8:]}"]


def test_a_large_file_has_the_hash_that_the_hub_names(server: HubServer, cache: Path) -> None:
    url, packed = "hf://datasets/owner/name/packed.jsonl.gz", gzip.compress(DATA)
    server.repos["owner/name"] = HubRepo({"packed.jsonl.gz": packed})
    server.damaged["packed.jsonl.gz"] = gzip.compress(DATA.replace(b"what", b"WHAT"))
    with pytest.raises(DataError, match=f"the hub names {hashlib.sha256(packed).hexdigest()}"):
        load(cache, url)
    assert not any(path.is_file() for path in cache.rglob("*"))
    server.damaged.clear()
    assert load(cache, url) == ROWS


def test_a_missing_file_is_distinguished_from_a_silent_server(
    server: HubServer, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match="answers 404") as caught:
        load(cache, "https://publisher.example/none.jsonl")
    assert not isinstance(caught.value, HubUnreachableError)
    monkeypatch.setenv("HARNESS_MIRROR", "http://127.0.0.1:1")
    with pytest.raises(HubUnreachableError, match=r"127\.0\.0\.1:1 cannot be reached"):
        load(cache)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(HubUnreachableError, match="HF_HUB_OFFLINE is set"):
        load(cache)


def test_progress_is_reported_in_bytes(server: HubServer, cache: Path) -> None:
    moves: list[tuple[str, int, int | None]] = []
    observer = DownloadObserver(lambda _line: None, lambda *move: moves.append(move))
    load_file_rows([URL], cache_dir=cache, observer=observer)
    assert moves[-1] == ("questions.jsonl", len(DATA), len(DATA))
    assert [done for _, done, _ in moves] == sorted(done for _, done, _ in moves)
    assert len(moves) > 2


def own_benchmark(folder: Path, rows: int) -> Path:
    """Return a benchmark that is published in the layout of DPR's files."""
    path = folder / "questions.yaml"
    path.write_text(
        "name: questions\n"
        f"data: {{test: {{url: 'https://publisher.example/nq-test.qa.csv', rows: {rows}}}}}\n"
        'csv: {columns: [question, answer], delimiter: "\\t", literals: [answer]}\n'
        "prompt: 'Q: {question}?'\nreference: answer\nmetric: exact_match\n"
    )
    return path


def test_the_layout_of_dpr_is_loaded_and_counted(server: HubServer, tmp_path: Path) -> None:
    # A field with quotes is quoted, and each quote in it is written twice.
    server.published["publisher.example/nq-test.qa.csv"] = (
        b'who wrote it\t"[\'Bob Russell\', ""Bobby O\'Scott""]"\n'
        b'how many\t"[\'one\', \'a ""single"" one\']"\n'
    )
    benchmark = load_benchmark(str(own_benchmark(tmp_path, 2)))
    examples = benchmark.get_test_data()
    assert [example["answer"] for example in examples] == [
        ["Bob Russell", "Bobby O'Scott"],
        ["one", 'a "single" one'],
    ]
    assert benchmark.source.kind == "hub"
    assert benchmark.source.location == "https://publisher.example/nq-test.qa.csv"


def test_another_number_of_rows_than_published_is_refused_with_both_numbers(
    server: HubServer, tmp_path: Path
) -> None:
    server.published["publisher.example/nq-test.qa.csv"] = b"who\t['a']\nwhat\t['b']\n"
    path = str(own_benchmark(tmp_path, 3610))
    for ask in (lambda: load_benchmark(path), lambda: fetch(path, observer=DownloadObserver(print))):
        with pytest.raises(DataError, match="has 3,610 rows in split 'test', but this data has 2"):
            ask()


def test_an_empty_folder_becomes_the_cache(server: HubServer, tmp_path: Path) -> None:
    server.published["publisher.example/nq-test.qa.csv"] = b"who\t['a']\nwhat\t['b']\n"
    folder = tmp_path / "mine"
    folder.mkdir()
    path = str(own_benchmark(tmp_path, 2))
    for _ in range(2):  # The second time the folder has files.
        assert len(load_benchmark(path, data=str(folder)).tasks) == 2
    assert [file.rows for file in list_cached_files(folder)] == [None]
    assert list_cached_files(tmp_path / "cache") == []


def test_natural_questions_are_loaded_from_dprs_files_and_counted(mirror: HubServer) -> None:
    folder = "dl.fbaipublicfiles.com/dpr/data/retriever"
    for split, count in (("test", 3610), ("dev", 8756)):
        rows = (f"who is number {number}\t['{number}', \"No. {number}\"]\n" for number in range(count))
        mirror.published[f"{folder}/nq-{split}.qa.csv"] = "".join(rows).encode()
    benchmark = load_benchmark("nq")
    assert benchmark.source.kind == "hub"
    (example,) = benchmark.get_test_data(indices=[7])
    assert example["answer"] == ["7", "No. 7"]
    assert benchmark.evaluate("no 7", benchmark.get_label(example))["score"] == 1.0
    with pytest.raises(DataError, match="nq has 8,757 rows in split 'dev', but this data has 8,756"):
        benchmark.get_dev_data()
    with pytest.raises(DataError, match="answers 404"):
        benchmark.get_train_data()
