"""The real `datasets` library with a local hub: first load, stored copy, and refusals of the hub.

`datasets` reads the hub's address when it is imported, so each load runs in a separate process. An audit hook
in that process refuses every address but the loopback's.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hub_server import HubRepo, HubServer

from harness.benchmarks import load_benchmark
from harness.benchmarks.data.download import DownloadObserver
from harness.benchmarks.data.hub import load_hub_rows
from harness.benchmarks.data.local import read_rows
from harness.benchmarks.data.splits import HubDataset
from harness.benchmarks.livecodebench import generation
from harness.benchmarks.livecodebench.problem import ReleaseFile
from harness.core.errors import DataError

pytestmark = pytest.mark.hub

BUNDLED = Path(__file__).parents[2] / "harness/benchmarks/data/bundled"
HUMANEVAL = [dict(row.values) for row in read_rows(BUNDLED / "humaneval.jsonl")[0]]
MBPP = [dict(row.values) for row in read_rows(BUNDLED / "mbpp.json")[0]]
SPLITS = {"prompt": MBPP[:2], "test": MBPP[2:12], "validation": MBPP[12:15], "train": MBPP[15:]}
HUMANEVAL_REPO = "openai/openai_humaneval"
MBPP_REPO = "google-research-datasets/mbpp"
FULL_FIELDS = ["task_id", "text", "code", "test_list", "test_setup_code", "challenge_test_list"]

LOAD = """
import json, sys, time

outside = []

def refuse(event, arguments):
    if event == "socket.connect":
        host = arguments[1][0] if isinstance(arguments[1], tuple) else "127.0.0.1"
    elif event == "socket.getaddrinfo":
        host = arguments[0]
    else:
        return
    if host not in ("127.0.0.1", "::1", "localhost", b"127.0.0.1", b"localhost"):
        outside.append(str(host))
        raise OSError(f"{host} is not on this machine")

sys.addaudithook(refuse)

from harness.benchmarks.data.splits import HubDataset
from harness.benchmarks.data.download import DownloadObserver
from harness.benchmarks.data.source import load_rows
from harness.benchmarks.data.splits import SplitFiles
from harness.core.errors import HarnessError

def load_whole(name, split):
    from harness import load_benchmark
    try:
        benchmark = load_benchmark(name, split=split)
        where, split = benchmark.source.location, benchmark.split
        return {"tasks": len(benchmark.tasks), "location": where, "split": split}
    except HarnessError as error:
        return {"error": type(error).__name__, "message": str(error), "hint": error.hint}

def load(repo, config, split, data):
    if config == "benchmark":
        return load_whole(repo, split)
    notes = []
    try:
        rows, source = load_rows(
            SplitFiles("sample", "test", "test"), data=data, hub=HubDataset(repo, config, split),
            bundled="humaneval.jsonl", observer=DownloadObserver(notes.append),
        )
        result = {
            "values": [dict(row.values) for row in rows], "places": [(row.path, row.line) for row in rows],
            "kind": source.kind, "sha256": source.sha256, "location": source.location, "rows": source.rows,
        }
    except HarnessError as error:
        result = {"error": type(error).__name__, "message": str(error), "hint": error.hint}
    return {**result, "notes": notes, "imported": "datasets" in sys.modules}

print(json.dumps([[load(*asked) for asked in json.loads(sys.argv[1])], outside]))
"""


def parquet(rows: list[dict[str, Any]], types: dict[str, pa.DataType]) -> bytes:
    schema = pa.schema([(name, types.get(name, pa.string())) for name in rows[0]])
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink)
    return bytes(sink.getvalue())


def card(configs: dict[str, list[str]]) -> bytes:
    lines = ["---", "license: mit", "configs:"]
    for config, splits in configs.items():
        lines += [f"- config_name: {config}", "  data_files:"]
        for split in splits:
            lines += [f"  - split: {split}", f"    path: {config}/{split}-*"]
    return "\n".join([*lines, "---", "# A dataset", ""]).encode()


def humaneval_repo(count: int | None = None) -> HubRepo:
    """Return HumanEval with our bundled rows, or with `count` rows of text that cannot be compressed."""
    rows = HUMANEVAL
    if count is not None:
        noise = [random.Random(place).randbytes(150).hex() for place in range(count)]
        rows = [
            {**HUMANEVAL[0], "task_id": f"HumanEval/{place}", "canonical_solution": f"    pass  # {text}"}
            for place, text in enumerate(noise)
        ]
    return HubRepo(
        {
            "README.md": card({"openai_humaneval": ["test"]}),
            ".gitattributes": b"*.parquet filter=lfs diff=lfs merge=lfs -text\n",
            "openai_humaneval/test-00000-of-00001.parquet": parquet(rows, {}),
        }
    )


def mbpp_repo(sizes: dict[str, int] | None = None) -> HubRepo:
    """Return MBPP with our bundled rows, or with so many rows in each split."""
    splits, number = SPLITS, itertools.count(1)
    if sizes is not None:
        splits = {name: [{**MBPP[0], "task_id": next(number)} for _ in range(n)] for name, n in sizes.items()}
    texts = pa.list_(pa.string())
    types = {"task_id": pa.int32(), "test_list": texts, "test_imports": texts, "challenge_test_list": texts}
    files = {"README.md": card({"full": list(SPLITS), "sanitized": list(SPLITS)})}
    for split, rows in splits.items():
        full = [full_row(row) for row in rows]
        files[f"full/{split}-00000-of-00001.parquet"] = parquet(full, types)
        files[f"sanitized/{split}-00000-of-00001.parquet"] = parquet(rows, types)
    return HubRepo(files)


def full_row(row: dict[str, Any]) -> dict[str, Any]:
    imports = "\n".join(row["test_imports"])
    values = [row["task_id"], row["prompt"], row["code"], row["test_list"], imports, []]
    return dict(zip(FULL_FIELDS, values, strict=True))


@dataclass
class Client:
    """A loader of datasets in a fresh process, with its own home and cache."""

    folder: Path
    endpoint: str

    @property
    def cache(self) -> Path:
        return self.folder / "data"

    def load(self, *asked: tuple[str, str | None, str, str | None], **variables: str) -> list[dict[str, Any]]:
        """Load each (repo, config, split, data) in turn, in one process with these variables set."""
        done = self.run(LOAD, json.dumps(asked), **variables)
        assert done.stderr == "", "something writes to the terminal"
        results, outside = json.loads(done.stdout)
        assert outside == [], "something asks another machine"
        return list(results)

    def run(self, code: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run Python code in a separate process with these variables set."""
        unset = ("HF_", "HARNESS_", "TRANSFORMERS_", "XDG_", "HTTP", "NO_PROXY", "ALL_PROXY")
        inherited = {key: value for key, value in os.environ.items() if not key.upper().startswith(unset)}
        environment = {
            **inherited,
            "HOME": str(self.folder),
            "HF_HOME": str(self.folder / "hf"),
            "HF_ENDPOINT": self.endpoint,
            "HF_HUB_DISABLE_XET": "1",
            "HARNESS_DATA": str(self.cache),
            "PYTHONPATH": str(Path(__file__).parents[2]),
            **variables,
        }
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            env=environment,
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done

    def humaneval(self, data: str | None = "hub", **variables: str) -> dict[str, Any]:
        (result,) = self.load(("openai/openai_humaneval", "openai_humaneval", "test", data), **variables)
        return result


def serve_repos() -> HubServer:
    return HubServer(
        {
            HUMANEVAL_REPO: humaneval_repo(),
            MBPP_REPO: mbpp_repo(),
            "someone/gated": HubRepo({"README.md": b"# closed"}, gated=True),
            "someone/empty": HubRepo({"README.md": b"# nothing here"}),
        }
    )


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with serve_repos() as server:
        yield server


@pytest.fixture
def client(hub: HubServer, tmp_path: Path) -> Client:
    return Client(tmp_path, hub.url)


@dataclass
class Loaded:
    """The results of one process that loaded from `hub` by `client`."""

    hub: HubServer
    client: Client
    humaneval: dict[str, Any]
    every_split: dict[str, Any]
    two_splits: dict[str, Any]
    own: dict[str, Any]
    refused: list[dict[str, Any]]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    with serve_repos() as hub:
        client = Client(tmp_path_factory.mktemp("hub"), hub.url)
        own = client.folder / "own.yaml"
        own.write_text(
            "name: own\nprompt: '{prompt}'\nreference: entry_point\nid: task_id\nmetric: exact_match\ndata:\n"
            "  test: {hub: openai/openai_humaneval, config: openai_humaneval, split: test, rows: 20}\n"
        )
        humaneval, every, two, of_user, *refused = client.load(
            (HUMANEVAL_REPO, "openai_humaneval", "test", "hub"),
            (MBPP_REPO, "sanitized", "+".join(SPLITS), "hub"),
            (MBPP_REPO, "full", "train+prompt", "hub"),
            (str(own), "benchmark", "test", None),
            ("nobody/nothing", None, "test", None),
            ("someone/gated", None, "test", None),
            ("someone/empty", None, "test", None),
            (MBPP_REPO, "sanitised", "test", None),
            (MBPP_REPO, "sanitized", "test+dev", None),
        )
        yield Loaded(hub, client, humaneval, every, two, of_user, refused)


def test_fetches_once_and_then_reads_its_own_copy(loaded: Loaded) -> None:
    first, hub = loaded.humaneval, loaded.hub
    assert first["values"] == HUMANEVAL
    assert (first["kind"], first["rows"]) == ("hub", len(HUMANEVAL))
    commit = hub.repos[HUMANEVAL_REPO].commit
    assert first["location"] == f"openai/openai_humaneval@{commit} (openai_humaneval, test)"
    assert first["notes"] == [f"fetching openai/openai_humaneval (openai_humaneval, test) from {hub.url}"]
    assert first["imported"]
    assert [line for _, line in first["places"]] == list(range(1, len(HUMANEVAL) + 1))

    hub.requests.clear()
    second = loaded.client.humaneval()
    assert hub.requests == []
    assert not second["imported"]
    assert second["notes"] == []
    same = ("values", "places", "sha256", "location", "kind", "rows")
    assert [second[key] for key in same] == [first[key] for key in same]


def test_joined_splits_come_in_the_requested_order(loaded: Loaded) -> None:
    assert loaded.every_split["values"] == MBPP
    assert loaded.two_splits["values"] == [full_row(row) for row in SPLITS["train"] + SPLITS["prompt"]]


def test_a_users_own_benchmark_maps_a_dataset_of_the_hub(loaded: Loaded) -> None:
    assert loaded.own["tasks"] == 20
    assert loaded.own["location"].startswith("openai/openai_humaneval@")


def test_a_refusal_of_the_hub_has_its_reason(loaded: Loaded) -> None:
    missing, gated, empty, config, split = loaded.refused
    assert {result["error"] for result in loaded.refused} == {"DataError"}
    assert "has no dataset nobody/nothing, or does not let you read it" in missing["message"]
    assert "HF_TOKEN" in missing["hint"]
    assert "has no dataset someone/gated, or does not let you read it" in gated["message"]
    assert "someone/empty (test) cannot be loaded" in empty["message"]
    assert "'sanitized'" in config["message"]
    assert "validation" in split["message"]
    stored = {path.relative_to(loaded.client.cache).parts[2] for path in loaded.client.cache.rglob("*.jsonl")}
    assert stored == {"openai_humaneval", "mbpp"}


def test_a_damaged_copy_is_fetched_again(loaded: Loaded, tmp_path: Path) -> None:
    folder = shutil.copytree(loaded.client.folder, tmp_path / "copy")
    client = Client(folder, loaded.hub.url)
    (rows,) = client.cache.rglob("openai_humaneval/**/*.jsonl")
    rows.write_bytes(rows.read_bytes().replace(b"return", b"RETURN", 1))
    again = client.humaneval()
    assert again["values"] == HUMANEVAL
    assert again["sha256"] == loaded.humaneval["sha256"]
    assert "damaged" in again["notes"][0]
    assert {path.name for path in rows.parent.iterdir()} == {rows.name, f"{rows.name}.note.json"}


@pytest.mark.thorough
def test_offline_switch_still_uses_the_cache_of_datasets(hub: HubServer, client: Client) -> None:
    load = (
        "import datasets; datasets.load_dataset('openai/openai_humaneval', 'openai_humaneval', split='test')"
    )
    client.run(load)
    hub.requests.clear()
    result = client.humaneval(HF_HUB_OFFLINE="1")
    assert result["values"] == HUMANEVAL
    assert hub.requests == []


@pytest.mark.thorough
def test_a_hub_that_fails_after_the_probe_is_unreachable(hub: HubServer, client: Client) -> None:
    hub.hang_up_on = "/datasets"
    assert client.humaneval()["error"] == "HubUnreachableError"
    hub.hang_up_on = None
    assert client.humaneval()["values"] == HUMANEVAL


def test_parquet_that_was_cut_off_is_continued(hub: HubServer, client: Client) -> None:
    hub.cut_after[:] = [16 * 1024]
    hub.repos[HUMANEVAL_REPO] = humaneval_repo(164)
    (loaded,) = client.load(("humaneval", "benchmark", "test", None))
    assert (loaded["tasks"], loaded["split"]) == (164, "test")
    assert hub.ranges == ["bytes=16384-"]
    assert {path.suffix for path in client.cache.rglob("*") if path.is_file()} == {".jsonl", ".json"}


@pytest.mark.thorough
def test_each_split_of_mbpp_is_that_of_the_hub(hub: HubServer, client: Client) -> None:
    sizes = {"prompt": 7, "test": 257, "validation": 43, "train": 120}
    hub.repos[MBPP_REPO] = mbpp_repo(sizes)
    names = ("all", "train", "dev", "test", "prompt")
    loaded = client.load(*(("mbpp", "benchmark", name, None) for name in names))
    assert [each["tasks"] for each in loaded] == [427, 120, 43, 257, 7]
    assert "(sanitized, validation)" in loaded[2]["location"]


@pytest.fixture
def without_datasets(no_hub: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let loads in this process fail if they import `datasets`, which could run a loading script."""
    monkeypatch.setitem(sys.modules, "datasets", None)


@pytest.mark.usefixtures("without_datasets")
def test_a_local_folder_of_the_same_name_is_never_loaded(
    hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.chdir(tmp_path)
    decoy = tmp_path / "openai" / "openai_humaneval"
    decoy.mkdir(parents=True)
    (decoy / "test.jsonl").write_text('{"task_id": "forged"}\n')
    dataset = HubDataset(HUMANEVAL_REPO, "openai_humaneval", "test")
    with pytest.raises(DataError, match="local folder"):
        load_hub_rows(dataset, observer=DownloadObserver(print))


# Files as they are.

LIVECODEBENCH = (BUNDLED / "livecodebench.jsonl").read_bytes().splitlines(keepends=True)
CODE_REPO = "livecodebench/code_generation_lite"
RELEASE = (ReleaseFile("test.jsonl", 5), ReleaseFile("test2.jsonl", len(LIVECODEBENCH) - 5))


@pytest.fixture
def files_hub(without_datasets: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """Serve a release of LiveCodeBench in two files."""
    monkeypatch.setattr(generation, "files_of", lambda _release: RELEASE)
    repo = HubRepo(
        {
            "README.md": b"# a dataset\n",
            "code_generation_lite.py": b"raise SystemExit('a loading script, which must not be run')\n",
            "test.jsonl": b"".join(LIVECODEBENCH[:5]),
            "test2.jsonl": b"".join(LIVECODEBENCH[5:]),
        }
    )
    with HubServer({CODE_REPO: repo}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


def test_files_of_a_release_are_fetched_once_and_no_script_is_run(
    files_hub: HubServer, tmp_path: Path
) -> None:
    first = load_benchmark("livecodebench", data="hub")
    assert len(first.tasks) == len(LIVECODEBENCH)
    targets: list[Any] = [first.references[task.id].target for task in first.tasks]
    assert all(len(target.load()) > 1 for target in targets)
    assert first.source.location.startswith(f"{CODE_REPO}/test.jsonl@")
    files_hub.requests.clear()
    again = load_benchmark("livecodebench", data="hub", notify=pytest.fail)
    assert files_hub.requests == []
    assert again.source.sha256 == first.source.sha256

    (kept,) = (tmp_path / "cache").rglob("test.jsonl")
    kept.write_bytes(LIVECODEBENCH[0])
    notes: list[str] = []
    assert len(load_benchmark("livecodebench", data="hub", notify=notes.append).tasks) == len(LIVECODEBENCH)
    assert "damaged" in notes[0]


def test_another_number_of_problems_than_was_published_is_refused(
    files_hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation, "files_of", lambda _release: (ReleaseFile("test.jsonl", 400),))
    with pytest.raises(DataError, match="livecodebench has 400 rows in split 'test', but this data has 5"):
        load_benchmark("livecodebench", data="hub")
