"""AgentBench's files: every layout that a user may give, and its rows and task ids."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case

from harness.benchmarks.agentbench.layout import read_layout
from harness.benchmarks.agentbench.tasks import read
from harness.core.errors import DataError
from harness.environments.os.environment import OsSetup

CHECKED = {
    "description": "count",
    "create": {"local": "default", "init": [{"file": "init/a.sh"}, "echo b"]},
    "start": "x=1",
    "evaluation": {
        "check": [None, {"language": "python", "file": "check/same.py"}],
        "example": {"code": "echo 1"},
    },
    "labels": ["file"],
}
MATCHED = {"description": "name", "evaluation": {"match": "love"}}
TABLE = {
    "description": "how many",
    "table": {"table_name": "t", "table_info": {"columns": [{"name": "a", "type": "TEXT"}], "rows": [["1"]]}},
    "type": ["counting"],
    "label": ["1"],
}
FLAT = {"task_id": "f-1", "environment": "os", "instruction": "say 7", "expected_output": "7"}
OS_IDS = ["os/4/N11", "os/4/Q30/0", "os/4/Q30/1", "os/dev/0", "os/dev/1"]
DB_IDS = ["db/dev/0", "db/dev/1"]


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(each) + "\n" for each in value))
    else:
        path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a repository in upstream's layout, with folders that harness does not read."""
    root = tmp_path / "AgentBench"
    shell = root / "data" / "os_interaction"
    write(shell / "data" / "dev.json", [CHECKED, MATCHED])
    write(shell / "data" / "4" / "N11.json", MATCHED)
    write(shell / "data" / "4" / "Q30.json", [CHECKED, MATCHED])
    for group in ("dev", "4"):
        write(shell / "scripts" / group / "init" / "a.sh", f"echo {group}")
        write(shell / "scripts" / group / "check" / "same.py", "import sys")
    write(root / "data" / "dbbench" / "dev.jsonl", [TABLE, TABLE])
    write(root / "configs" / "tasks.json", {"not": "ours"})
    write(root / "scripts" / "build.sh", "echo no")
    return root


def ids(path: Path) -> list[str]:
    return sorted(read(row)[0].id for row in read_layout(path, pytest.fail)[0])


def packed(folder: Path, archive: Path, inside: str) -> Path:
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, inside)
    return archive


def test_everything_is_found_from_the_root_and_from_data(root: Path) -> None:
    assert ids(root) == ids(root / "data") == DB_IDS + OS_IDS


@each_case("inside", ["AgentBench-main", ".", "data"])
def test_everything_is_found_in_an_archive(root: Path, tmp_path: Path, inside: str) -> None:
    folder = root / "data" if inside == "data" else root
    assert ids(packed(folder, tmp_path / "x.tgz", inside)) == DB_IDS + OS_IDS


def test_a_zip_is_read(root: Path, tmp_path: Path) -> None:
    assert ids(Path(shutil.make_archive(str(tmp_path / "x"), "zip", root))) == DB_IDS + OS_IDS


def test_one_environments_folder_is_enough_under_any_name(root: Path, tmp_path: Path) -> None:
    assert ids(root / "data" / "os_interaction") == OS_IDS
    assert ids(root / "data" / "os_interaction" / "data") == OS_IDS
    assert ids(root / "data" / "dbbench") == DB_IDS
    renamed = shutil.copytree(root / "data" / "os_interaction", tmp_path / "shell-tasks")
    assert ids(renamed) == OS_IDS
    assert ids(packed(renamed, tmp_path / "x.tgz", "whatever")) == OS_IDS


def test_a_folder_in_a_folder_of_its_name_is_found(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "data" / "dbbench", tmp_path / "dbbench" / "dbbench")
    assert ids(tmp_path / "dbbench") == DB_IDS


def test_a_relative_path_is_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root / "data" / "os_interaction" / "data")
    assert ids(Path(".")) == OS_IDS
    assert ids(Path("dev.json")) == ["os/dev/0", "os/dev/1"]


def test_one_file_keeps_its_ids_and_its_scripts(root: Path) -> None:
    data = root / "data" / "os_interaction" / "data"
    assert ids(data / "4" / "Q30.json") == ["os/4/Q30/0", "os/4/Q30/1"]
    assert ids(data / "4" / "N11.json") == ["os/4/N11"]
    assert ids(root / "data" / "dbbench" / "dev.jsonl") == DB_IDS


def test_scripts_come_from_the_folder_of_the_group(root: Path) -> None:
    tasks = {task.id: task for row in read_layout(root, pytest.fail)[0] for task in [read(row)[0]]}
    for task_id, text in (("os/dev/0", "echo dev"), ("os/4/Q30/0", "echo 4")):
        setup = tasks[task_id].setup
        assert isinstance(setup, OsSetup)
        assert [script.code for script in setup.inits] == [text, "echo b"]


def test_an_archive_next_to_the_folders_is_read_as_if_unpacked(root: Path) -> None:
    folder = root / "data" / "os_interaction"
    packed(folder, root / "data" / "os_interaction_dev.tar.gz", "os_interaction")
    notes: list[str] = []
    before = read_layout(root / "data", notes.append)[1]
    assert "left out, because its files are in the same folder unpacked" in notes[0]
    shutil.rmtree(folder)
    assert ids(root / "data") == DB_IDS + OS_IDS
    assert read_layout(root / "data", pytest.fail)[1] == before


def test_the_hash_is_of_the_files_and_not_of_their_packing(root: Path, tmp_path: Path) -> None:
    hashes = [
        read_layout(path, pytest.fail)[1]
        for path in (root, root / "data", packed(root, tmp_path / "x.tgz", "."))
    ]
    assert len(set(hashes)) == 1


@each_case("name", ["data/4/Q30.json", "scripts/4/check/same.py"])
def test_the_hash_changes_with_a_file_that_is_used(root: Path, name: str) -> None:
    before = read_layout(root, pytest.fail)[1]
    path = root / "data" / "os_interaction" / name
    path.write_text(path.read_text() + "\n")
    assert read_layout(root, pytest.fail)[1] != before


def test_the_hash_does_not_change_with_a_file_that_is_not(root: Path) -> None:
    before = read_layout(root, pytest.fail)[1]
    write(root / "data" / "os_interaction" / "scripts" / "4" / "unused.sh", "echo")
    assert read_layout(root, pytest.fail)[1] == before


def test_the_hash_of_one_file_is_that_of_its_bytes(root: Path) -> None:
    path = root / "data" / "dbbench" / "dev.jsonl"
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    assert read_layout(path, pytest.fail)[1] == read_layout(path.parent, pytest.fail)[1] == sha256


def test_a_missing_script_is_reported_with_its_record(root: Path) -> None:
    (root / "data" / "os_interaction" / "scripts" / "4" / "check" / "same.py").unlink()
    rows = read_layout(root, pytest.fail)[0]
    broken = next(row for row in rows if row.values.get("task_id") == "os/4/Q30/0")
    with pytest.raises(
        DataError, match=r"Q30\.json: item 1: field 'evaluation\.check\.file': .*check/same\.py"
    ) as caught:
        read(broken)
    assert "os_interaction/" in str(caught.value.hint)


def test_a_script_cannot_be_taken_from_elsewhere(root: Path) -> None:
    record = {**MATCHED, "start": {"file": "../dev/init/a.sh"}}
    write(root / "data" / "os_interaction" / "data" / "4" / "N11.json", record)
    with pytest.raises(DataError, match="was not found"):
        ids(root)


def test_broken_json_in_an_archive_names_member_and_line(root: Path, tmp_path: Path) -> None:
    with write(root / "data" / "dbbench" / "dev.jsonl", [TABLE]).open("a") as lines:
        lines.write("{broken\n")
    path = packed(root, tmp_path / "x.tgz", "A")
    with pytest.raises(DataError, match=r"x\.tgz: A/data/dbbench/dev\.jsonl:2: broken JSON"):
        read_layout(path, pytest.fail)


def test_files_that_upstream_does_not_run_are_reported(root: Path) -> None:
    write(root / "data" / "os_interaction" / "data" / "6-backup.json", [MATCHED])
    notes: list[str] = []
    rows = read_layout(root, notes.append)[0]
    assert len(rows) == len(DB_IDS + OS_IDS)
    assert "6-backup.json: left out" in notes[0]


@each_case("name", ["flat.jsonl", "flat.json", "flat.jsonl.gz"])
def test_a_flat_file_is_read(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name.removesuffix(".gz"), [FLAT])
    if name.endswith(".gz"):
        (tmp_path / name).write_bytes(gzip.compress(path.read_bytes()))
    assert ids(tmp_path / name) == ["f-1"]


def test_a_flat_file_in_a_project_with_scripts_is_read(tmp_path: Path) -> None:
    write(tmp_path / "scripts" / "run.sh", "echo")
    assert ids(write(tmp_path / "data" / "flat.jsonl", [FLAT])) == ["f-1"]


def test_a_file_of_shell_tasks_anywhere_is_read(tmp_path: Path) -> None:
    assert ids(write(tmp_path / "mine.json", [MATCHED])) == ["os/mine/0"]
    assert ids(write(tmp_path / "one.json", MATCHED)) == ["os/one"]


def test_a_folder_without_records_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "notes.txt", "nothing")
    with pytest.raises(DataError, match="holds no records of AgentBench") as caught:
        read_layout(tmp_path, pytest.fail)
    assert "os_interaction/" in str(caught.value.hint)


def test_two_folders_of_one_environment_are_refused(root: Path) -> None:
    shutil.copytree(root / "data", root / "old" / "data")
    with pytest.raises(DataError, match="more than once"):
        read_layout(root, pytest.fail)
