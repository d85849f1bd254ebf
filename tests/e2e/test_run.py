"""`harness run` on the bundled samples: verdicts, table, run folder and results file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from docker import APIClient
from e2e.command_line import NO_ENGINE, FinishedRun, Harness, RunFolder
from effort import THOROUGH

import harness as package
from harness.benchmarks import load_benchmark
from harness.runs.plan import select_tasks

RUN = ("run", "-b", "mbpp", "--data", "bundled")
# These need no sandbox.
ANSWERS = ("run", "-b", "gsm8k", "--data", "bundled")
# The tasks of a quick run. A thorough one makes them all.
SOME = () if THOROUGH else ("-n", "3")
ORACLE = (*RUN, *SOME)
CORRECT = {"mbpp": ORACLE, "humaneval": ("run", "-b", "humaneval", "--data", "bundled", *SOME)}
SHAPED = ("run", "-b", "mbpp-humaneval", "--data", "bundled", *(() if THOROUGH else ("-n", "1")))
Runs = Callable[..., FinishedRun]


@pytest.fixture
def oracle(finished_run: Runs) -> FinishedRun:
    return finished_run(*ORACLE)


@pytest.fixture
def null(finished_run: Runs) -> FinishedRun:
    return finished_run(*RUN, "-n", "3", "--agent", "null")


# --- verdicts


@pytest.mark.parametrize("arguments", [*CORRECT.values(), SHAPED], ids=[*CORRECT, "mbpp-humaneval"])
def test_oracle_passes_every_task(finished_run: Runs, arguments: tuple[str, ...]) -> None:
    run = finished_run(*arguments)
    assert [attempt for attempt in run.results["attempts"] if attempt["status"] != "passed"] == []
    assert run.results["summary"]["resolved"] == run.results["summary"]["total"] >= 1
    assert run.exit_code == 0


def test_null_passes_no_task(null: FinishedRun) -> None:
    assert {attempt["status"] for attempt in null.results["attempts"]} == {"failed"}
    assert (null.results["summary"]["total"], null.results["summary"]["rate"]) == (3, 0.0)
    assert null.exit_code == 0, "a bad score is not an error"


# --- harness show


def test_show_prints_the_verdict_of_an_attempt(harness: Harness, null: FinishedRun) -> None:
    task_id = null.results["attempts"][0]["task_id"]
    shown = harness("show", str(null.folder.path), task_id)
    prompt, _, verdict = shown.stdout.partition("[output]")
    assert prompt.strip()
    assert f"\n{task_id}: failed" in verdict


def test_show_names_the_tasks_of_the_run(harness: Harness, null: FinishedRun) -> None:
    refused = harness("show", str(null.folder.path), "no-such-task")
    assert refused.returncode == 2
    # The hint names some tasks, in the order that they ended.
    assert any(attempt["task_id"] in refused.stderr for attempt in null.results["attempts"])


def test_show_without_a_task_prints_the_table_of_the_run(harness: Harness, null: FinishedRun) -> None:
    shown = harness("show", str(null.folder.path)).stdout
    assert ["failed", "3", "100.0", "%"] in [line.split() for line in shown.splitlines()]


def test_show_of_another_folder_is_a_usage_error(harness: Harness, tmp_path: Path) -> None:
    refused = harness("show", str(tmp_path), "1")
    hint = refused.stderr.splitlines()[1]
    assert (refused.returncode, hint) == (2, "hint: name a run folder, such as one in runs/")


# --- output


def test_table_shows_the_numbers_and_the_run_folder(oracle: FinishedRun) -> None:
    lines = [line.split() for line in oracle.stdout.splitlines()]
    total = str(oracle.results["summary"]["total"])
    for expected in (["tasks", total], ["resolved", total], ["passed", total, "100.0", "%"]):
        assert expected in lines
    assert f"run folder: {oracle.folder.path}" in oracle.stdout
    assert oracle.results["run"]["folder"] == str(oracle.folder.path)


def test_progress_goes_to_stderr_in_plain_lines(oracle: FinishedRun) -> None:
    total = oracle.results["summary"]["total"]
    assert f"{total}/{total} attempts: passed {total}, failed 0" in oracle.stderr
    assert "\x1b" not in oracle.stdout + oracle.stderr


def test_unresolved_tasks_are_listed_with_their_error(null: FinishedRun) -> None:
    attempt = null.results["attempts"][0]
    assert any(
        line.startswith(attempt["task_id"]) and attempt["status"] in line for line in null.stdout.splitlines()
    )


def test_a_run_without_agent_and_model_says_that_it_runs_the_references(harness: Harness) -> None:
    ended = harness("run", "-b", "mbpp", "--data", "bundled", "--dry-run", env=NO_ENGINE)
    assert "no model is set: running the reference solutions (agent oracle)" in ended.stderr


def test_a_quiet_run_prints_its_table_alone_and_writes_only_where_it_was_told(harness: Harness) -> None:
    folder = harness.folder / "there"
    folder.mkdir()
    ended = harness(*RUN, "-t", "9001", "-q", "-o", folder / "results.json")
    assert ended.stderr == ""
    assert "resolved" in ended.stdout
    run = harness.only_run().path
    assert RunFolder(run).summary["resolved"] == 1
    assert [path.name for path in folder.iterdir()] == ["results.json"]


def test_a_verbose_run_shows_every_attempt_and_overwrites_by_force(harness: Harness) -> None:
    results = harness.folder / "results.json"
    results.write_text("old")
    ended = harness.succeed(*RUN, "-t", "9001", "-q", "-v", "-o", results, "--force", "--fail-under", "0.5")
    assert "9001: passed" in ended.stderr
    assert "def parking_fee" in ended.stderr
    assert json.loads(results.read_text())["summary"]["resolved"] == 1


# --- run folder


def test_run_folder_is_complete(oracle: FinishedRun) -> None:
    names = {path.name for path in oracle.folder.path.iterdir()}
    files = {"manifest.json", "attempts.jsonl", "summary.json", "report.html", "run.log"}
    assert names == {*files, "transcripts"}


def test_manifest_names_the_ingredients_of_the_run(oracle: FinishedRun) -> None:
    manifest = oracle.folder.manifest
    assert manifest["harness_version"] == package.__version__
    assert manifest["seed"] == 0
    assert manifest["data"]["sha256"] == load_benchmark("mbpp", data="bundled").source.sha256
    assert manifest["config"]["benchmark"] == "mbpp"
    assert manifest["engine"]["version"]
    assert manifest["runtime"]["name"] == "runc"
    assert manifest["runtime"]["limits_not_enforced"] == {}
    assert manifest["host"]["cores"] >= 1
    assert manifest["python_version"].startswith("3.")
    assert {"git_revision", "started_at", "source", "agent"} <= manifest.keys()


def test_manifest_pins_the_image_by_id(oracle: FinishedRun, client: APIClient) -> None:
    (image,) = oracle.folder.manifest["images"].values()
    assert image.startswith("sha256:")
    assert client.inspect_image(image)["Id"] == image  # type: ignore[no-untyped-call]


def test_attempts_file_has_one_line_for_each_attempt(oracle: FinishedRun) -> None:
    def key(attempt: dict[str, Any]) -> tuple[str, int]:
        return attempt["task_id"], attempt["attempt"]

    # Attempts are written as they end. results.json is in task order.
    whole = {"agent_output_full", "submission"}
    stored = [{name: attempt[name] for name in attempt.keys() - whole} for attempt in oracle.folder.attempts]
    assert sorted(stored, key=key) == sorted(oracle.results["attempts"], key=key)
    assert all(whole <= attempt.keys() for attempt in oracle.folder.attempts)


def test_summary_file_agrees_with_the_results(oracle: FinishedRun) -> None:
    summary = oracle.folder.summary
    assert summary["source"] == "bundled"
    assert {name: summary[name] for name in oracle.results["summary"]} == oracle.results["summary"]


FORMATS = {
    "r.xml": b"<?xml",
    "r.csv": b"run,benchmark",
    "r.parquet": b"PAR1",
    "r.md": b"### ",
    "r.html": b"<!doctype html>",
    "r.txt": b"\n",
}


def test_report_writes_the_format_that_the_ending_of_the_file_names(
    harness: Harness, oracle: FinishedRun
) -> None:
    page = oracle.folder.path / "report.html"
    before = page.stat().st_mtime_ns
    for name, start in FORMATS.items():
        ended = harness("report", oracle.folder.path, "-o", name, env=NO_ENGINE)
        assert (ended.returncode, ended.stdout) == (0, ""), name
        assert (harness.folder / name).read_bytes().startswith(start)
    assert page.stat().st_mtime_ns == before
    again = harness("report", oracle.folder.path, "-o", "r.csv", env=NO_ENGINE)
    assert again.returncode == 2
    assert "already exists" in again.stderr


def test_report_writes_the_results_of_a_stored_run(harness: Harness, oracle: FinishedRun) -> None:
    ended = harness("report", oracle.folder.path, "--format", "json")
    stored = json.loads(ended.stdout)
    by_task = {attempt["task_id"]: attempt for attempt in stored.pop("attempts")}
    results = dict(oracle.results)
    assert by_task == {attempt["task_id"]: attempt for attempt in results.pop("attempts")}
    assert stored == results


def test_no_container_of_the_run_is_left(oracle: FinishedRun, client: APIClient) -> None:
    assert oracle.folder.containers(client) == []


# --- results.json


def test_results_and_their_summary_have_exactly_the_parts_of_the_contract(oracle: FinishedRun) -> None:
    assert list(oracle.results) == ["schema_version", "run", "summary", "attempts"]
    assert oracle.results["schema_version"] == 2
    summary = dict(oracle.results["summary"])
    total = len(load_benchmark("mbpp", data="bundled").tasks) if THOROUGH else 3
    headline = summary.pop("headline")
    assert (headline["value"], headline["high"]) == (1.0, 1.0)
    assert summary == {
        "total": total,
        "attempts": total,
        "resolved": total,
        "rate": 1.0,
        "pass_at_k": {"1": 1.0},
        "statuses": {"passed": total},
        "by_category": {},
        "integrity": {},
        "metrics": {},
        "first_attempt_rate": 1.0,
        "schema_version": 2,
    }


def test_results_attempts_have_exactly_the_fields_of_the_contract(null: FinishedRun) -> None:
    for attempt in null.results["attempts"]:
        assert list(attempt) == [
            *("task_id", "attempt", "sample_line", "category", "resolved", "status", "score", "metrics"),
            *("agent_output", "expected_output", "duration_seconds", "error"),
            *("agent_output_cut", "expected_output_cut", "started_at"),
        ]
        fixed: dict[str, Any] = {
            "attempt": 0,
            "sample_line": None,
            "category": None,
            "resolved": False,
            "status": "failed",
        }
        fixed |= {"score": 0.0, "agent_output": ""}
        assert {name: attempt[name] for name in fixed} == fixed
        assert isinstance(attempt["task_id"], str)
        assert isinstance(attempt["metrics"], dict)
        assert len(attempt["expected_output"]) in range(1, 501)
        assert attempt["duration_seconds"] > 0
        assert isinstance(attempt["error"], str)


def test_results_are_in_task_order(oracle: FinishedRun) -> None:
    tasks = [task.id for task in load_benchmark("mbpp", data="bundled").tasks]
    made = [attempt["task_id"] for attempt in oracle.results["attempts"]]
    assert made == [task for task in tasks if task in made]
    assert len(made) == (len(tasks) if THOROUGH else 3)


# --- data that is not the benchmark


@pytest.fixture
def fallen_back(finished_run: Runs) -> FinishedRun:
    """Make a run without --data while no hub answers."""
    return finished_run("run", "-b", "mbpp", "-n", "1")


def test_bundled_rows_in_place_of_the_hub_are_announced_and_marked(fallen_back: FinishedRun) -> None:
    assert "WARNING: THIS IS NOT MBPP" in fallen_back.stderr
    assert "BUNDLED SAMPLE" in fallen_back.stdout
    assert fallen_back.results["run"]["source"] == "bundled"
    assert fallen_back.folder.summary["source"] == "bundled"
    assert fallen_back.folder.manifest["source"] == "bundled"
    assert "bundled" in (fallen_back.folder.path / "report.html").read_text().lower()


def test_hub_alone_never_falls_back(harness: Harness) -> None:
    ended = harness("run", "-b", "mbpp", "--data", "hub", env=NO_ENGINE)
    assert ended.returncode == 2
    assert "hub" in ended.stderr
    assert list(harness.folder.iterdir()) == []


# --- attempts and pass@k


def test_each_task_gets_n_attempts_and_pass_at_k_for_each_k(finished_run: Runs) -> None:
    run = finished_run(*RUN, "-t", "9001", "-t", "9002", "--n-samples", "2", "--k", "1", "--k", "2")
    numbered = [(attempt["task_id"], attempt["attempt"]) for attempt in run.results["attempts"]]
    assert numbered == [("9001", 0), ("9001", 1), ("9002", 0), ("9002", 1)]
    assert run.results["summary"]["pass_at_k"] == {"1": 1.0, "2": 1.0}


# --- the choice of tasks


def test_names_or_the_seed_choose_the_tasks_which_run_in_the_order_of_the_data(harness: Harness) -> None:
    benchmark = load_benchmark("gsm8k", data="bundled")
    ids = [task.id for task in benchmark.tasks]
    drawn = [task.id for task in select_tasks(benchmark, sample_size=2, seed=7)]
    chosen = {("-t", ids[2], "-t", ids[0]): [ids[0], ids[2]], ("-n", "2", "--seed", "7"): drawn}
    for options, expected in chosen.items():
        harness.succeed(*ANSWERS, *options, "-o", "results.json", "--force", env=NO_ENGINE)
        attempts = harness.read_json()["attempts"]
        assert [attempt["task_id"] for attempt in attempts] == expected


def test_dry_run_starts_nothing_and_leaves_nothing(harness: Harness) -> None:
    ended = harness.succeed(*RUN, "-n", "5", "--n-samples", "3", "--dry-run", env=NO_ENGINE)
    lines = [line.split() for line in ended.stdout.splitlines()]
    assert ["attempts", "15"] in lines
    assert ["sampling", "random,", "seed", "0"] in lines
    assert [len(line) for line in lines if line[0] == "ids"] == [6]
    assert list(harness.folder.iterdir()) == []


# --- gates


def test_a_rate_below_fail_under_ends_with_1(harness: Harness) -> None:
    ended = harness(*ANSWERS, "-n", "1", "--agent", "null", "--fail-under", "0.5", env=NO_ENGINE)
    assert (ended.returncode, "below --fail-under 0.5" in ended.stderr) == (1, True)


# --- output files


def test_results_file_that_exists_is_not_overwritten(harness: Harness) -> None:
    results = harness.folder / "results.json"
    results.write_text("precious")
    ended = harness(*RUN, "-o", results, env=NO_ENGINE)
    assert ended.returncode == 2
    assert f"{results}: already exists" in ended.stderr
    assert "--force" in ended.stderr
    assert results.read_text() == "precious"
