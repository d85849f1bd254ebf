"""A run refuses unusable input before anything starts, and names the place and a remedy."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from case_checks import each_case
from e2e.command_line import NO_ENGINE, Harness

import harness as package
from harness.benchmarks.data.local import read_rows

BUNDLED_MBPP = Path(package.__file__).parent / "benchmarks/data/bundled/mbpp.json"
RUN = ("run", "-b", "mbpp", "--data", "bundled")

# Arguments, and the parts of the message. No engine is asked, because its absence would be another message.
REFUSED = {
    "a category as a benchmark": (("run", "-b", "os"), ["-b agentbench --filter-category os"]),
    "unknown benchmark": (("run", "-b", "mbpb"), ["unknown benchmark 'mbpb'", "did you mean 'mbpp'?"]),
    "unknown agent": ((*RUN, "--agent", "oracel"), ["unknown agent 'oracel'", "did you mean 'oracle'?"]),
    "unknown option": (("run", "--sample-sise", "3"), ["--sample-sise", "--sample-size"]),
    "unknown command": (("rnu",), ["harness has no command 'rnu'", "did you mean 'run'?"]),
    "unknown command of a group": (("data", "ftch"), ["harness data has no command 'ftch'", "'fetch'?"]),
    "option of no command": (("--sed", "run"), ["harness has no option --sed", "harness --help"]),
    "option without its value": (("run", "-b"), ["harness run: option '-b' requires", "run --help"]),
    "missing argument": (("show",), ["harness show: missing argument 'run'", "show --help"]),
    "argument too many": (
        ("show", "a", "b", "c"),
        ["harness show takes 2 arguments, but got 'c' as another one"],
    ),
    "value that is not a number": (
        ("audit", "mbpp", "-n", "x"),
        ['--sample-size must be a whole number, not "x"'],
    ),
    "unknown task": ((*RUN, "-t", "9001x"), ["unknown task '9001x'", "did you mean '9001'?"]),
    "unknown category": ((*RUN, "--filter-category", "sorting"), ["mbpp has no categories"]),
    "unknown data source": (("run", "-b", "mbpp", "--data", "bundeld"), ["did you mean 'bundled'?"]),
    "missing data file": (("run", "-b", "mbpp", "--data", "no/such.jsonl"), ["no/such.jsonl: no such file"]),
    "unknown runtime": ((*RUN, "--runtime", "crun"), ["runtime", "'runc' or 'runsc'"]),
    "no benchmark": (("run",), ["the benchmark is missing", "harness run -b mbpp"]),
    "time limit too short": (
        (*RUN, "--timeout-seconds", "179"),
        ["must be 180 to 600 whole seconds, not 179"],
    ),
    "time limit too long": (
        (*RUN, "--timeout-seconds", "601"),
        ["must be 180 to 600 whole seconds, not 601"],
    ),
    "number that is none": ((*RUN, "-n", "x"), ['--sample-size must be a whole number, not "x"']),
    "no tasks wanted": ((*RUN, "-n", "0"), ["--sample-size must be at least 1, not 0"]),
    "k of nothing": ((*RUN, "--k", "0"), ["k must be at least 1"]),
    "gate in percent": ((*RUN, "--fail-under", "95"), ['--fail-under must be at most 1, not "95"']),
    "gate of a replay without one": ((*RUN, "--fail-on-difference"), ["only to a replay", "--from latest"]),
    "results in a missing folder": ((*RUN, "-o", "no/results.json"), ["no: is not a folder", "mkdir -p no"]),
    "results below a file": ((*RUN, "-o", "file/results.json"), ["file: is not a folder"]),
    "results where nothing can be": ((*RUN, "-o", "/proc/results.json"), ["/proc/results.json: cannot be w"]),
    "results in place of a folder": ((*RUN, "--force", "-o", "folder"), ["folder: is a folder"]),
    "results that name a folder": ((*RUN, "-o", "folder"), ["folder: is a folder", "-o folder/results.json"]),
    "config that is missing": (("run", "-c", "no.yaml"), ["no.yaml: cannot be read"]),
    "resume of no run": (("run", "--resume", "folder"), ["folder: is not a run folder"]),
    "resume of a missing folder": (("run", "--resume", "gone"), ["gone: is not a run folder"]),
    "option of another tool": (
        (*RUN, "--limit", "5"),
        ["no option --limit", "did you mean -n, --sample-size"],
    ),
    "short name of an option": ((*RUN, "--n", "5"), ["no option --n", "did you mean -n, --sample-size"]),
    "option that is a config key": ((*RUN, "--rounds", "5"), ["'rounds' is a key of the config file"]),
    "benchmark without its option": (("run", "mbpp"), ["no argument", "got 'mbpp'", "harness run -b mbpp"]),
    "model that nobody reads": (
        (*RUN, "--agent", "oracle", "--model", "m"),
        ["agent 'oracle' does not read --model"],
    ),
    "k beyond the attempts": ((*RUN, "--k", "10"), ["--k 10", "no task has more than 1", "--n-samples 10"]),
    "number of a task": (
        ("run", "-b", "gsm8k", "--data", "bundled", "-t", "0"),
        ["unknown task '0'", "did you mean 'gsm8k/0'?", "such as 'gsm8k/"],
    ),
    "grade on the sample by itself": (("grade", "-b", "mbpp", "--samples", "file"), ["cannot be reached"]),
    "grade without samples": (
        ("grade", "-b", "mbpp"),
        ["error: grade needs samples\n", "harness grade -b mbpp --samples"],
    ),
}


@each_case(("arguments", "said"), REFUSED.values(), ids=REFUSED)
def test_unusable_input_is_refused_at_once(
    harness: Harness, arguments: tuple[str, ...], said: list[str]
) -> None:
    (harness.folder / "file").touch()
    (harness.folder / "folder").mkdir(exist_ok=True)
    exit_code, stdout, stderr = harness.refused(*arguments)
    assert exit_code == 2, stderr
    assert [text for text in said if text not in stderr] == [], stderr
    assert "Traceback" not in stderr
    labels = [line.partition(": ")[0] for line in stderr.splitlines() if line[:1] != " "]
    assert labels in (["error"], ["error", "hint"])
    assert stdout == ""
    assert sorted(path.name for path in harness.folder.rglob("*")) == ["file", "folder"]


def test_broken_row_names_file_item_and_field(harness: Harness) -> None:
    rows = json.loads(BUNDLED_MBPP.read_text())
    rows[2]["test_list"] = "assert True"
    data = harness.folder / "mbpp.json"
    data.write_text(json.dumps(rows))
    stderr = harness.expect_refusal("run", "-b", "mbpp", "--data", data)
    assert f"{data}: item 3: field 'test_list': needs a list of strings" in stderr


def test_broken_row_of_json_lines_names_its_line(harness: Harness) -> None:
    rows = [dict(row.values) for row in read_rows(BUNDLED_MBPP)[0]]
    del rows[1]["code"]
    data = harness.folder / "mbpp.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert f"{data}:2: field 'code': missing" in harness.expect_refusal("run", "-b", "mbpp", "--data", data)


# --- the config file


def planned(harness: Harness, config: str, *arguments: str, **env: str) -> tuple[str, str]:
    """Return stdout and stderr of a dry run with a config."""
    (harness.folder / "config.yaml").write_text(config)
    _, stdout, stderr = harness.refused("run", "-c", "config.yaml", "--dry-run", *arguments, env=env)
    return stdout, stderr


def test_config_takes_values_from_the_environment(harness: Harness) -> None:
    config = "benchmark: ${BENCH}\ndata: ${DATA:-bundled}\nsample_size: ${N}\n"
    stdout, stderr = planned(harness, config, BENCH="mbpp", N="3")
    assert ["attempts", "3"] in [line.split() for line in stdout.splitlines()], stderr


def test_command_line_overrides_the_config(harness: Harness) -> None:
    config = "benchmark: humaneval\ndata: bundled\nsample_size: 3\n"
    stdout, stderr = planned(harness, config, "-n", "2", "-b", "mbpp")
    lines = [line.split() for line in stdout.splitlines()]
    assert ["attempts", "2"] in lines, stderr
    assert lines[0][:2] == ["benchmark", "mbpp"]


def test_unknown_config_key_names_the_nearest(harness: Harness) -> None:
    _, stderr = planned(harness, "benchmark: mbpp\ntimeout_second: 200\n")
    assert "config.yaml:2: unknown key 'timeout_second'" in stderr
    assert "did you mean 'timeout_seconds'?" in stderr


def test_value_of_the_command_line_is_blamed_on_the_command_line(harness: Harness) -> None:
    config = "benchmark: mbpp\ntimeout_seconds: 200\n"
    _, stderr = planned(harness, config, "--timeout-seconds", "7")
    assert "--timeout-seconds must be 180 to 600 whole seconds, not 7" in stderr


# --- folders that cannot be written


def test_output_folder_below_a_file_is_refused(harness: Harness) -> None:
    (harness.folder / "file").touch()
    ended = harness(*RUN, "--output-dir", "file/runs")
    assert ended.returncode == 2
    assert "file/runs: cannot make a run folder" in ended.stderr
    assert "--output-dir" in ended.stderr


def test_disk_that_cannot_hold_a_manifest_is_refused_and_nothing_is_left(harness: Harness) -> None:
    ended = harness(*RUN, file_bytes=100)
    assert ended.returncode == 2
    assert "manifest.json: cannot be written" in ended.stderr
    assert list((harness.folder / "runs").iterdir()) == []


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """Yield the folder of a file system without a free byte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        with contextlib.suppress(OSError), open(disk / "filler", "wb", 0) as filler:
            while True:
                filler.write(bytes(4096))
        yield disk
    finally:
        subprocess.run(["umount", disk], check=True)


def test_full_disk_is_refused_and_nothing_is_left(harness: Harness, full_disk: Path) -> None:
    ended = harness(*RUN, "--output-dir", full_disk / "runs")
    assert ended.returncode == 2
    assert "No space left on device" in ended.stderr
    assert list((full_disk / "runs").rglob("*")) == []


# --- the engine


def test_a_missing_engine_ends_the_run_with_a_remedy(harness: Harness) -> None:
    ended = harness(*RUN, env=NO_ENGINE)
    assert ended.returncode == 2
    assert "error: no Docker engine answers at DOCKER_HOST=tcp://127.0.0.1:1" in ended.stderr
    assert "hint: start the engine" in ended.stderr
    assert list(harness.folder.iterdir()) == []


def test_runtime_that_the_engine_lacks_is_refused(harness: Harness, runtimes: list[str]) -> None:
    if "runsc" in runtimes:
        pytest.skip("this engine knows runsc")
    ended = harness(*RUN, "--runtime", "runsc")
    assert ended.returncode == 2
    assert "does not know the runtime 'runsc'" in ended.stderr
    assert list(harness.folder.iterdir()) == []


def test_a_missing_image_is_reported_with_a_remedy(harness: Harness) -> None:
    # The name of an image has the hash of its sources, so a copy with other sources has no image yet.
    root = Path(package.__file__).parents[1]
    copy = harness.folder / "copy"
    shutil.copytree(root / "harness", copy / "harness", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(root / "images", copy / "images")
    with open(copy / "harness/sandbox/guest/main.py", "a") as guest:
        guest.write("# another guest\n")
    ended = subprocess.run(
        [sys.executable, "-c", "from harness.cli.app import main; main()", *RUN],
        env={**harness.environment, "PYTHONPATH": str(copy)},
        cwd=copy,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2, ended.stderr
    assert "image" in ended.stderr
    assert "harness setup" in ended.stderr or "harness images build" in ended.stderr
    assert not (copy / "runs").exists()
