"""`harness data` and `harness benchmarks` on the command line, against a server on this machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

import pytest
from case_checks import each_case
from e2e.command_line import NO_ENGINE, Harness
from hub_server import HubServer

ROWS = "".join(f"who is number {number}\t['{number}']\n" for number in range(9000)).encode()
YAML = """\
name: numbers
data:
  test: {url: "https://publisher.example/numbers.csv", rows: 9000}
  train: {url: "https://publisher.example/train.csv", rows: 2}
csv: {columns: [question, answer], delimiter: "\\t", literals: [answer]}
prompt: "{question}?"
reference: answer
metric: number
"""


@pytest.fixture
def server() -> Iterator[HubServer]:
    with HubServer({}) as server:
        server.published["publisher.example/numbers.csv"] = ROWS
        server.published["publisher.example/train.csv"] = b"who\t['1']\nwhat\t['2']\n"
        yield server


@pytest.fixture
def env(harness: Harness, server: HubServer) -> dict[str, str]:
    (harness.folder / "numbers.yaml").write_text(YAML)
    return {
        **NO_ENGINE,
        "HARNESS_MIRROR": f"{server.url}/mirror",
        "HARNESS_DATA": str(harness.folder / "cache"),
        "XDG_CACHE_HOME": str(harness.folder / "locks"),
        "NO_PROXY": "127.0.0.1",
    }


def test_fetched_data_is_listed_verified_and_run(
    harness: Harness, server: HubServer, env: dict[str, str]
) -> None:
    server.cut_after[:] = [100_000]
    fetched = harness("data", "fetch", "numbers.yaml", env=env)
    assert fetched.returncode == 0, fetched.stderr
    sha256 = hashlib.sha256(ROWS).hexdigest()
    assert f"numbers test: 9,000 rows, sha256 {sha256}" in fetched.stdout
    assert "fetching https://publisher.example/numbers.csv" in fetched.stderr
    assert len(server.ranges) == 1

    listed = json.loads(harness("data", "list", "--verify", "--json", env=env).stdout)
    (file,) = listed["files"]
    assert (file["state"], file["bytes"], file["sha256"]) == ("verified", len(ROWS), sha256)
    assert file["source"] == "https://publisher.example/numbers.csv"

    server.requests.clear()
    ran = harness("run", "-b", "numbers.yaml", "-n", "3", env=env)
    assert ran.returncode == 0, ran.stderr
    assert "resolved  3" in ran.stdout
    assert server.requests == []


def test_every_split_is_fetched_on_request(harness: Harness, env: dict[str, str]) -> None:
    fetched = harness("data", "fetch", "numbers.yaml", "--every-split", env=env)
    assert "numbers train: 2 rows" in fetched.stdout
    assert harness("data", "fetch", "numbers.yaml", "--split", "dev", env=env).returncode == 2
    ran = harness("run", "-b", "numbers.yaml", "--split", "train", env=env)
    assert "tasks     2" in ran.stdout


def test_a_damaged_file_is_named(harness: Harness, env: dict[str, str]) -> None:
    harness("data", "fetch", "numbers.yaml", "--split", "train", env=env)
    (file,) = (harness.folder / "cache").rglob("train.csv")
    file.write_bytes(file.read_bytes().replace(b"who", b"WHO"))
    assert harness("data", "list", env=env).returncode == 0
    listed = harness("data", "list", "--verify", env=env)
    assert listed.returncode == 1
    assert "damaged" in listed.stdout


def test_another_cache_folder_may_be_named(harness: Harness, env: dict[str, str]) -> None:
    harness("data", "fetch", "numbers.yaml", "--split", "train", "--path", "mine", env=env)
    assert "0 files" in harness("data", "list", env=env).stdout
    listed = harness("data", "list", "--path", "mine", env=env).stdout
    assert "https://publisher.example/train.csv" in listed
    assert listed.rstrip().endswith("in mine")


def test_an_example_is_shown_without_its_gold_unless_requested(harness: Harness, env: dict[str, str]) -> None:
    shown = harness("data", "show", "numbers.yaml", "--index", "41", env=env).stdout
    assert "who is number 41?" in shown
    assert "task_id      41" in shown
    assert "solution" not in shown
    gold = json.loads(
        harness("data", "show", "numbers.yaml", "-t", "7", "--reference", "--json", env=env).stdout
    )
    assert (gold["prompt"], gold["solution"], gold["split"]) == ("who is number 7?", "7", "test")


@each_case(
    ("arguments", "said"),
    [
        (("data", "list", "--path", "nowhere"), "--path nowhere: does not exist"),
        (("data", "list", "--path", "/dev/null"), "--path /dev/null: is not a folder"),
        (("data", "show", "mbpp", "--data", "bundled", "--index", "999"), "has no example 999"),
        (("data", "show", "mbpp", "--data", "bundled", "-t", "8"), "unknown task '8'"),
        (("data", "show", "mbpp", "--data", "bundled", "-t", "8", "--index", "1"), "cannot be combined"),
        (("data", "fetch", "mbpp", "--split", "dev", "--every-split"), "cannot be combined"),
        (("data", "fetch", "humaneval", "--split", "train"), "humaneval has no split 'train'"),
        (("data", "fetch", "humaneval"), "cannot be reached"),
        (("run", "-b", "mbpp", "--data", "bundled", "--option", "a=1"), "mbpp has no options"),
    ],
)
def test_an_impossible_request_is_refused(harness: Harness, arguments: tuple[str, ...], said: str) -> None:
    code, out, error = harness.refused(*arguments)
    assert code == 2
    assert said in error
    assert out == ""


def test_the_benchmarks_are_listed_as_table_json_and_markdown(harness: Harness) -> None:
    listed = json.loads(harness("benchmarks", "--json", env=NO_ENGINE).stdout)
    mbpp = next(each for each in listed if each["name"] == "mbpp")
    assert mbpp["splits"] == {"all": 427, "prompt": 7, "test": 257, "dev": 43, "train": 120}
    assert mbpp["evaluation_split"] == "all"
    for each in listed:
        assert each["licence"]
        assert each["metrics"]
        assert each["environments"]
    tables = harness("benchmarks", "--markdown", env=NO_ENGINE).stdout
    lines = [line for line in tables.splitlines() if line.startswith("| mbpp |")]
    assert len(lines) == 2
    assert "all 427, prompt 7, test 257, dev 43, train 120" in lines[0]
    table = harness("benchmarks", env=NO_ENGINE).stdout
    beginnings = [line.split()[0] for line in table.splitlines() if line.strip()]
    assert all(beginnings.count(each["name"]) == 1 for each in listed)
    assert "harness benchmarks --json" in table


def test_folders_of_terminal_bench_are_converted_and_shown(harness: Harness) -> None:
    good, broken = harness.folder / "old" / "good", harness.folder / "old" / "broken"
    (good / "tests").mkdir(parents=True)
    broken.mkdir()
    for folder in (good, broken):
        (folder / "task.yaml").write_text("instruction: Sort it.\n")
        (folder / "run-tests.sh").write_text("pytest $TEST_DIR\n")
        (folder / "Dockerfile").write_text("FROM debian\n")
    (good / "tests" / "test_it.py").write_text("def test_it(): pass\n")
    ended = harness("data", "convert", harness.folder / "old", harness.folder / "new", env=NO_ENGINE)
    assert ended.returncode == 1
    assert ended.stdout == f"converted 1 of 2 tasks to {harness.folder / 'new'}\n"
    assert "error: broken: " in ended.stderr
    assert "holds no files, and run-tests.sh needs them" in ended.stderr
    shown = [
        json.loads(harness("data", "show", path, "--json", env=NO_ENGINE).stdout)
        for path in (good, harness.folder / "new")
    ]
    assert [(each["task_id"], each["prompt"], each["environment"]) for each in shown] == [
        ("good", "Sort it.\n", "container")
    ] * 2
