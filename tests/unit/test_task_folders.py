"""Task folders: their tables, files, digests, limits and sets, and the conversion from Terminal-Bench 1."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import tarfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case

from harness.benchmarks import Benchmark, load_benchmark
from harness.benchmarks.data.terminal_bench import convert, convert_all
from harness.core.errors import HarnessError, UsageError
from harness.environments.container.environment import describe_offers
from harness.environments.container.target import TaskFolderSetup, TaskFolderTarget
from harness.environments.container.task_folder import list_included_files, read_task_folder, resolve_env
from harness.environments.container.task_toml import EnvironmentTable
from harness.runs.filters import TaskFilters, filter_tasks
from harness.runs.plan import limit_times, require_sound

_FILES = {
    "task.toml": 'version = "1.0"\n[metadata]\ndifficulty = "hard"\ncategory = "maths"\ntags = ["a", "b"]\n',
    "instruction.md": "<!-- harbor-canary GUID 1 -->\n# a Canary\n\nDo it.\n",
    "environment/Dockerfile": "FROM debian\n",
    "tests/test.sh": "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n",
}
_TB1 = {
    "task.yaml": "instruction: Do it.\ndifficulty: easy\ncategory: c\ntags: [t]\n",
    "run-tests.sh": "pytest $TEST_DIR/test_it.py\n",
    "solution.sh": "touch done\n",
    "docker-compose.yaml": "services:\n  client:\n    build: {dockerfile: Dockerfile}\n"
    "    environment: ['TEST_DIR=${T_BENCH_TEST_DIR}', 'LEVEL=3']\n    working_dir: /work\n",
    "Dockerfile": "FROM debian\nCOPY data /data\n",
    "data/x": "1",
    "tests/test_it.py": "def test_it(): pass\n",
}


def _make(folder: Path, files: Mapping[str, str | None], base: Mapping[str, str] = _FILES) -> Path:
    for name, text in {**base, **files}.items():
        if text is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    return folder


def _load(path: Path, **options: Any) -> Benchmark:
    return load_benchmark(str(path), **options)


@each_case(
    ("toml", "found"),
    [
        ("", {}),
        ('[environment]\nmemory = "2G"\nstorage = "10G"', {"memory_mb": 2048, "storage_mb": 10240}),
        ('[environment]\nmemory = "512M"\nmemory_mb = 512', {"memory_mb": 512}),
        ("[environment]\nallow_internet = false", {"network_mode": "no-network"}),
        ("[environment]\nallow_internet = true", {"network_mode": "public"}),
        ("[environment]\ngpus = 0", {"gpus": 0}),
        (
            '[environment]\nnetwork_mode = "allowlist"\nallowed_hosts = ["*.A.org.", "10.0.0.0/8", "::1"]',
            {"network_mode": "allowlist", "allowed_hosts": ("*.a.org", "10.0.0.0/8", "::1")},
        ),
    ],
)
def test_both_spellings_of_a_machine_are_read(toml: str, found: dict[str, Any], tmp_path: Path) -> None:
    machine = read_task_folder(_make(tmp_path, {"task.toml": toml})).toml.environment
    assert machine.model_dump(exclude_defaults=True) == found


@each_case(
    ("files", "place", "message"),
    [
        ({"task.toml": '\n[environment]\nos = "Windows"'}, "task.toml:3", "Windows"),
        ({"task.toml": "[environment]\ngpus = 2"}, "task.toml:2", "GPUs"),
        ({"task.toml": '[environment]\ntpu = {type = "v6e", topology = "2x4"}'}, "task.toml:2", "TPUs"),
        ({"task.toml": 'schema_version = "2.0"'}, "task.toml:1", "up to 1.4"),
        ({"task.toml": '[environment]\nmemory = "2G"\nmemory_mb = 1'}, "task.toml:2", "remove memory"),
        (
            {"task.toml": '[environment]\nallow_internet = true\nnetwork_mode = "no-network"'},
            "task.toml:2",
            "remove allow_internet",
        ),
        ({"task.toml": "[agent]\n\ntimeout_sec = 0"}, "task.toml:3", "must be more than 0, not 0"),
        ({"task.toml": '[environment]\nallowed_hosts = ["a.b"]'}, "task.toml:2", "allowlist"),
        ({"task.toml": 'artifacts = ["/a", "../b"]'}, "task.toml:1", "absolute path"),
        ({"task.toml": '[task]\nname = "alone"'}, "task.toml:2", "ORG/NAME"),
        ({"task.toml": '[[steps]]\nname = "a"\n[[steps]]\nname = "A"'}, "task.toml", "used twice"),
        ({"task.toml": '[[steps]]\nname = "../a"'}, "task.toml:2", "portable"),
        ({"task.toml": '[[steps]]\nname = "a"'}, "steps/a", "missing"),
        (
            {"task.toml": '[verifier]\nenvironment_mode = "shared"\n[verifier.environment]'},
            "task.toml",
            "remove one",
        ),
        ({"task.toml": "a = 1\nb = ["}, "task.toml", "is not TOML"),
        ({"instruction.md": None}, "instruction.md", "cannot be read"),
        ({"environment/Dockerfile": None}, "", "names no docker_image"),
        ({"tests/test.sh": None}, "tests/test.sh", "is missing"),
        ({"tests/test.sh": None, "tests/test.bat": ""}, "tests/test.bat", "Windows"),
        ({"tests/.harborignore": "*.sh"}, "tests/test.sh", "left out by .harborignore"),
        ({"solution/solve.sh": "", "solution/.harborignore": "*"}, "solution/solve.sh", "left out"),
    ],
)
def test_an_unusable_folder_is_refused_with_its_place(
    files: dict[str, str | None], place: str, message: str, tmp_path: Path
) -> None:
    kept = {name: text for name, text in _FILES.items() if name not in files}
    with pytest.raises(HarnessError) as caught:
        read_task_folder(_make(tmp_path, files, kept))
    assert message in caught.value.message
    assert str(tmp_path / place) in caught.value.message


def test_a_link_out_of_the_folder_is_refused_and_one_inside_is_not(tmp_path: Path) -> None:
    folder = _make(tmp_path / "task", {})
    (folder / "tests/same").symlink_to("test.sh")
    read_task_folder(folder)
    (folder / "environment/leak").symlink_to("/etc/passwd")
    with pytest.raises(HarnessError, match="leaves the task folder, to /etc/passwd"):
        read_task_folder(folder)


def test_an_unknown_key_is_a_warning_with_the_nearest_name(tmp_path: Path) -> None:
    toml = '[agent]\ntimeout = 1\n[[verifier.collect]]\ncommand = "a"\nservise = "b"\n[other]\nx = 1'
    folder = read_task_folder(_make(tmp_path, {"task.toml": toml}))
    assert [each.removeprefix(f"{tmp_path}/task.toml:") for each in sorted(folder.warnings)] == [
        "2: the key 'agent.timeout' is unknown and ignored; did you mean 'timeout_sec'?",
        "5: the key 'verifier.collect.0.servise' is unknown and ignored; did you mean 'service'?",
        "6: the key 'other' is unknown and ignored",
    ]


def test_a_folder_is_plain_data_without_canary_lines(tmp_path: Path) -> None:
    folder = read_task_folder(_make(tmp_path / "t", {}))
    assert pickle.loads(pickle.dumps(folder)) == folder
    assert (folder.name, folder.instruction, folder.has_solution) == ("t", "Do it.\n", False)


def test_ignored_files_are_in_no_list_and_no_digest(tmp_path: Path) -> None:
    ignoring = {"tests/.harborignore": "big/\n*.log\n!keep.log\n", "tests/sub/.harborignore": "x\n"}
    kept = {"tests/keep.log": "", "tests/sub/y": ""}
    whole = _make(
        tmp_path / "a", {**ignoring, **kept, "tests/big/z": "", "tests/a.log": "", "tests/sub/x": ""}
    )
    assert list_included_files(whole, "tests") == ["keep.log", "sub", "sub/y", "test.sh"]
    assert read_task_folder(whole).digest == read_task_folder(_make(tmp_path / "b", kept)).digest
    other = _make(tmp_path / "c", {**kept, "tests/sub/y": "1"})
    assert read_task_folder(whole).digest != read_task_folder(other).digest


def test_only_listed_variables_of_this_machine_are_read() -> None:
    host = {"A": "1", "SECRET": "x"}
    values = {"a": "${A}", "b": "${SECRET:-none}", "c": "as ${A} is"}
    found = resolve_env(values, ["A"], place="task.toml", environment=host)
    assert found == {"a": "1", "b": "none", "c": "as ${A} is"}
    with pytest.raises(HarnessError, match="SECRET, which the run does not pass on"):
        resolve_env({"a": "${SECRET}"}, ["A"], place="task.toml", environment=host)


def test_a_folder_of_folders_is_a_benchmark(tmp_path: Path) -> None:
    named = '[task]\nname = "org/second"\nkeywords = ["k"]\n[agent]\ntimeout_sec = 900'
    _make(tmp_path / "set/tasks/one", {"solution/solve.sh": ""})
    _make(tmp_path / "set/tasks/two", {"task.toml": named})
    loaded = _load(tmp_path / "set", harbor={"pass_at": 0.5, "pass_env": ["TOKEN"]})
    assert (loaded.name, [task.id for task in loaded.tasks]) == ("set", ["one", "org/second"])
    one, two = loaded.tasks
    assert (one.prompt, one.category, one.difficulty, one.tags) == ("Do it.\n", "maths", "hard", ("a", "b"))
    assert (two.tags, two.agent_seconds, two.tests_seconds) == (("k",), 900, 600)
    folder = read_task_folder(tmp_path / "set/tasks/one")
    assert one.setup == TaskFolderSetup(folder.path, folder.digest, ("TOKEN",))
    target = loaded.references["one"].target
    assert target == TaskFolderTarget(folder.path, folder.digest, ("TOKEN",), 0.5)
    assert [task.id for task in filter_tasks(loaded, TaskFilters(tags=["a"]))] == ["one"]
    assert [task.id for task in filter_tasks(loaded, TaskFilters(difficulties=["hard"]))] == ["one"]


def test_the_metadata_of_a_task_is_for_people(tmp_path: Path) -> None:
    toml = '[task]\nname = "org/a"\ndescription = "Why."\nauthors = [{name = "Ada"}]\n'
    toml += '[metadata]\ncategory = "maths"\nestimate = 5\n[environment]\ncpus = 2\n'
    loaded = _load(_make(tmp_path, {"task.toml": toml}))
    assert loaded.definition.describe_task(loaded.tasks[0]) == {
        "description": "Why.",
        "authors": "Ada",
        "estimate": 5,
        "cpus": 2.0,
        "network": "public",
        "verifier": "shared",
    }


def test_a_task_that_cannot_run_is_listed_with_the_reason(tmp_path: Path) -> None:
    compose = "services:\n  db: {image: redis, privileged: true}"
    _make(tmp_path / "set/compose", {"environment/docker-compose.yaml": compose})
    _make(tmp_path / "set/gpu", {"task.toml": "[environment]\ngpus = 1"})
    _make(tmp_path / "set/good", {})
    loaded = _load(tmp_path / "set")
    assert [task.id for task in loaded.tasks] == ["compose", "good", "gpu"]
    assert "compose.yaml:2: field 'services.db.privileged': is not supp" in loaded.quarantined["compose"]
    assert "gpu/task.toml:2: field 'environment': gpus = 1" in loaded.quarantined["gpu"]
    with pytest.raises(UsageError, match="is quarantined") as refused:
        require_sound(loaded, loaded.tasks, named=["gpu"])
    assert refused.value.hint is None, "no option makes it run"
    with pytest.raises(HarnessError, match="GPUs"):
        _load(tmp_path / "set/gpu")


@each_case(
    ("name", "hint"),
    [
        ("set", "did you mean "),
        ("set/inner/task/tests", "a task folder has"),
        ("gone/x", "a folder of tasks"),
    ],
)
def test_a_path_without_tasks_gets_a_hint(name: str, hint: str, tmp_path: Path) -> None:
    _make(tmp_path / "set/inner/task", {})
    with pytest.raises(HarnessError) as caught:
        _load(tmp_path / name)
    assert hint in (caught.value.hint or "")


def test_a_name_without_a_path_is_a_folder_only_if_it_holds_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _make(tmp_path / "mine/one", {})
    _make(tmp_path / "mbpp/one", {})
    (tmp_path / "empty").mkdir()
    assert load_benchmark("mine").name == "mine"
    assert load_benchmark("mbpp", data="bundled").definition.environments == ("python",)
    with pytest.raises(HarnessError, match="empty: holds no task folder"):
        load_benchmark("empty")


def test_a_dataset_lists_the_tasks_with_their_digests(tmp_path: Path) -> None:
    _make(tmp_path / "a", {"task.toml": '[task]\nname = "org/a"'})
    _make(tmp_path / "b", {"task.toml": '[task]\nname = "org/b"'})
    digest = read_task_folder(tmp_path / "a").digest
    entry = '[dataset]\nname = "org/set"\n[[tasks]]\nname = "org/{}"\ndigest = "{}"\n'
    notes: list[str] = []
    (tmp_path / "dataset.toml").write_text(entry.format("a", digest))
    assert [task.id for task in _load(tmp_path, notify=notes.append).tasks] == ["org/a"]
    assert "1 folders are not listed and left out, such as org/b" in notes[0]
    (tmp_path / "dataset.toml").write_text(entry.format("a", f"sha256:{'0' * 64}"))
    with pytest.raises(HarnessError, match="but the dataset lists sha256:000"):
        _load(tmp_path)
    (tmp_path / "dataset.toml").write_text(entry.format("c", digest))
    with pytest.raises(HarnessError, match="1 of 1 tasks are not in the folder, such as org/c"):
        _load(tmp_path)


def test_a_registry_names_local_folders_and_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path / "cache"))
    _make(tmp_path / "here/local", {})
    remote = tmp_path / "remote"
    _make(remote / "tasks/far", {})
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
        identity = ["-c", "user.name=x", "-c", "user.email=x@y"]
        subprocess.run(["git", "-C", str(remote), *identity, *command], check=True)
    commit = subprocess.check_output(["git", "-C", str(remote), "rev-parse", "HEAD"], text=True).strip()
    far = {"name": "far", "git_url": remote.as_uri(), "git_commit_id": commit, "path": "tasks/far"}
    datasets = [
        {"name": "org/set", "version": "1", "tasks": [{"name": "local", "path": "local"}, far]},
        {"name": "org/other", "version": "2", "tasks": [far]},
    ]
    registry = tmp_path / "here/registry.json"
    registry.write_text(json.dumps(datasets))
    chosen = _load(registry, dataset="org/set")
    assert [task.id for task in chosen.tasks] == ["local", "far"]
    # The commit stays in the cache.
    shutil.rmtree(remote)
    assert [task.id for task in _load(registry, dataset="org/other@2").tasks] == ["far"]
    with pytest.raises(HarnessError, match="has 2 datasets"):
        _load(registry)
    datasets[1]["tasks"] = [{**far, "git_url": "ext::sh -c touch% /tmp/x"}]
    registry.write_text(json.dumps(datasets))
    with pytest.raises(HarnessError, match="cannot fetch"):
        _load(registry, dataset="org/other")


def test_the_limits_of_tasks_hold_unless_a_run_changes_them(tmp_path: Path) -> None:
    toml = "[agent]\ntimeout_sec = 1000\n[verifier]\ntimeout_sec = 2000"
    tasks = _load(_make(tmp_path / "t", {"task.toml": toml})).tasks

    def limits(seconds: int | None, multiplier: float) -> tuple[float | None, float | None]:
        (task,) = limit_times(tasks, seconds, multiplier)
        return task.agent_seconds, task.tests_seconds

    assert limits(None, 1.0) == (1000, 2000)
    assert limits(None, 2.0) == (2000, 4000)
    assert limits(300, 1.0) == (300, 300)
    assert limits(None, 100.0) == (86400, 86400)
    unlimited = _load(_make(tmp_path / "u", {"task.toml": ""})).tasks
    assert limit_times(unlimited, None, 1.0)[0].agent_seconds == 86400


def test_a_folder_of_terminal_bench_becomes_one_of_harbor(tmp_path: Path) -> None:
    convert(_make(tmp_path / "old", {}, _TB1), tmp_path / "new")
    folder = read_task_folder(tmp_path / "new")
    toml = folder.toml
    assert (folder.instruction, folder.has_tests, folder.has_solution) == ("Do it.\n", True, True)
    assert (toml.agent.timeout_sec, toml.verifier.timeout_sec) == (360, 60)
    assert (toml.environment.env, toml.environment.workdir) == ({"LEVEL": "3"}, "/work")
    assert toml.verifier.env == {"TEST_DIR": "/tests"}
    assert list_included_files(folder.path, "environment") == ["Dockerfile", "data", "data/x"]
    assert list_included_files(folder.path, "tests") == ["run-tests.sh", "test.sh", "test_it.py"]


@each_case(
    ("parser", "script", "reward"),
    [
        ("pytest", "exit 0", "1"),
        ("pytest", "set -e; false; true", "0"),
        (
            "swebench",
            "echo SWEBench results starts here; echo PASSED; echo SWEBench results ends here; false",
            "1",
        ),
        ("swebench", "echo SWEBench results starts here; echo FAILED; echo SWEBench results ends here", "0"),
        ("swebench", "echo PASSED", "0"),
    ],
)
def test_a_converted_script_writes_the_reward(parser: str, script: str, reward: str, tmp_path: Path) -> None:
    files = {"task.yaml": f"instruction: x\nparser_name: {parser}\n", "run-tests.sh": script}
    convert(_make(tmp_path / "old", files, _TB1), tmp_path / "new")
    logs = tmp_path / "logs"
    text = (tmp_path / "new/tests/test.sh").read_text()
    text = text.replace("/tests/", f"{tmp_path}/new/tests/").replace("/logs/verifier", str(logs))
    subprocess.run(["bash", "-c", text], check=False, stdout=subprocess.DEVNULL)
    assert (logs / "reward.txt").read_text().strip() == reward


@each_case(
    ("files", "reason"),
    [
        ({"tests/test_it.py": None}, "tests: holds no files"),
        ({"run-tests.sh": None}, "run-tests.sh: is missing"),
        ({"Dockerfile": "FROM a\nCOPY tests/ /x"}, "copies tests/ into the agent's machine"),
        ({"Dockerfile": None}, "Dockerfile: is missing"),
        ({"task.yaml": "instruction: 1"}, "'instruction': needs a text"),
        ({"task.yaml": "instruction: x\nmax_test_timeout_sec: no"}, "must be a number of seconds"),
        ({"docker-compose.yaml": "services: {web: {image: a}}"}, "no service 'client'"),
        ({"docker-compose.yaml": "services: {client: {build: ../x}}"}, "is not in the folder"),
    ],
)
def test_a_folder_that_cannot_be_converted_is_listed(
    files: dict[str, str | None], reason: str, tmp_path: Path
) -> None:
    kept = {name: text for name, text in _TB1.items() if name not in files}
    _make(tmp_path / "old/broken", files, kept)
    converted, failures = convert_all(tmp_path / "old", tmp_path / "new")
    assert (converted, [*failures]) == ([], ["broken"])
    assert reason in failures["broken"]
    assert os.listdir(tmp_path / "new") == []


def test_other_services_of_terminal_bench_stay_a_compose_file(tmp_path: Path) -> None:
    compose = "services:\n  client: {build: ., cap_add: [SYS_PTRACE]}\n  db: {image: redis}\n"
    convert(_make(tmp_path / "old", {"docker-compose.yaml": compose}, _TB1), tmp_path / "new")
    with pytest.raises(HarnessError, match=r"services\.main\.cap_add.: is not supported"):
        _load(tmp_path / "new")


def test_all_whole_published_folders_load(shared_data: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path / "cache"))
    counts = {}
    for path in sorted((shared_data / "tasks").glob("*/*.tar.gz")):
        if path.parent.name in ("harbor", "terminal-bench-1"):
            with tarfile.open(path) as archive:
                archive.extractall(tmp_path / path.name, filter="data")
            loaded = _load(tmp_path / path.name)
            missing = [
                reason for reason in loaded.quarantined.values() if "run-tests.sh needs them" in reason
            ]
            counts[path.name] = (len(loaded.tasks), len(loaded.quarantined), len(missing))
    assert counts == {
        "cookbook-6.tar.gz": (6, 1, 0),
        "evoeval-60.tar.gz": (60, 5, 5),
        "termigen-20.tar.gz": (20, 0, 0),
    }


def test_a_converted_text_is_toml_whatever_it_holds(tmp_path: Path) -> None:
    text = 'instruction: x\nauthor_name: "a\\"b\\\\ \\x7f \\u0001 ü"\ntags: ["1", 2.5, true]\n'
    convert(_make(tmp_path / "old", {"task.yaml": text}, _TB1), tmp_path / "new")
    metadata = tomllib.loads((tmp_path / "new/task.toml").read_text())["metadata"]
    assert metadata["author_name"] == 'a"b\\ \x7f \x01 ü'
    assert metadata["tags"] == ["1", 2.5, True]


def test_an_agent_is_told_of_the_servers_and_the_skills_of_its_task() -> None:
    table = EnvironmentTable.model_validate(
        {
            "skills_dir": "/skills",
            "mcp_servers": [
                {"name": "web", "transport": "http", "url": "http://web:8000/mcp"},
                {"name": "own", "transport": "stdio", "command": "serve", "args": ["--all"]},
            ],
        }
    )
    text = describe_offers(table)
    assert "web (streamable-http, http://web:8000/mcp), own (stdio, serve --all)" in text
    assert "/skills" in text
    assert describe_offers(EnvironmentTable()) == ""
