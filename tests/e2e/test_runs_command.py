"""`harness runs`, the names of runs in commands, and the lines with which a run ends."""

from __future__ import annotations

import json
import shlex
import signal
from collections.abc import Callable

import pytest
from e2e.command_line import NO_ENGINE, FinishedRun, Harness


@pytest.fixture
def failed(finished_run: Callable[..., FinishedRun]) -> FinishedRun:
    return finished_run("run", "-b", "gsm8k", "--data", "bundled", "--agent", "null", "-n", "3")


def test_a_run_ends_with_its_report_and_a_line_that_shows_a_failure(
    failed: FinishedRun, harness: Harness
) -> None:
    *_, report, command = failed.stdout.splitlines()
    assert report == f"report: {failed.folder.path / 'report.html'}"
    label, _, line = command.partition(": ")
    assert label == "show a failure"
    program, *arguments = shlex.split(line)
    assert program == "harness"
    shown = harness.succeed(*arguments, env=NO_ENGINE)
    assert f"{arguments[-1]}: " in shown.stdout


def test_a_run_without_a_failure_ends_with_its_report(finished_run: Callable[..., FinishedRun]) -> None:
    passed = finished_run("run", "-b", "gsm8k", "--data", "bundled", "-n", "2")
    assert passed.stdout.endswith(f"report: {passed.folder.path / 'report.html'}\n")


def test_runs_are_listed_as_a_table_and_as_json(failed: FinishedRun, harness: Harness) -> None:
    runs = failed.folder.path.parent
    table = harness("runs", "--output-dir", runs, env=NO_ENGINE).stdout
    assert f"{failed.folder.path.name}  gsm8k (bundled sample)  null   3/3 finished     0/3  0.0 %" in table
    (listed,) = json.loads(harness("runs", "--output-dir", runs, "--json", env=NO_ENGINE).stdout)
    assert (listed["name"], listed["state"]) == (failed.folder.path.name, "finished")


def test_without_runs_the_list_is_empty(harness: Harness) -> None:
    assert harness("runs", env=NO_ENGINE).stdout == "no runs in runs\n"
    assert json.loads(harness("runs", "--json", env=NO_ENGINE).stdout) == []


def test_commands_accept_latest_and_a_name(failed: FinishedRun, harness: Harness) -> None:
    runs, name = failed.folder.path.parent, failed.folder.path.name
    for command in (("show", "latest"), ("report", name, "--format", "table")):
        ended = harness(*command, "--output-dir", runs, env=NO_ENGINE)
        assert f"run folder: {failed.folder.path}" in ended.stdout, ended.stderr


def test_a_run_under_way_is_running_and_a_killed_one_is_shown_reported_and_resumed(harness: Harness) -> None:
    run = harness.start_run("--n-samples", "200")
    place = ("--output-dir", run.folder.path.parent)
    shown = harness("show", "latest", *place, env=NO_ENGINE).stdout
    assert "note: running: " in shown
    assert "interrupted" not in shown
    assert " running " in harness("runs", *place, env=NO_ENGINE).stdout
    run.end(signal.SIGKILL)
    assert " interrupted " in harness("runs", *place, env=NO_ENGINE).stdout
    attempts = run.folder.attempts
    shown = harness.succeed("show", "latest", *place, env=NO_ENGINE).stdout
    assert f"interrupted: {len(attempts):,} of " in shown
    harness.succeed("show", "latest", attempts[0]["task_id"], *place, env=NO_ENGINE)
    harness.succeed("report", "latest", *place, env=NO_ENGINE)
    assert (run.folder.path / "report.html").exists()
    planned = harness("run", "--resume", "latest", *place, "--dry-run", env=NO_ENGINE)
    assert "remaining" in planned.stdout, planned.stderr
