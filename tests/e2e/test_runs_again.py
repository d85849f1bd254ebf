"""Runs that are made again: retries, `harness rerun`, `harness grade --run`, and changed settings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from e2e.command_line import FinishedRun, Harness, RunFolder, remove_times_and_ids

# It needs no container.
QUICK = ("run", "-b", "gsm8k", "--data", "bundled", "--agent", "null", "-n", "4")
AGENT = """
from pathlib import Path

async def attempt(context):
    place = Path({place!r})
    if place.exists():
        return "So it is 18. #### " + place.read_text()
    if context.number == 1:
        raise RuntimeError("not this time")
    return "#### 0"
"""


@pytest.fixture
def run(finished_run: Callable[..., FinishedRun], tmp_path: Path) -> RunFolder:
    """Return a copy of a finished run's folder, which a test may change."""
    return finished_run(*QUICK).folder.copy_to(tmp_path / "copy")


@pytest.fixture(scope="module")
def failed(module_harness: Harness) -> RunFolder:
    """Make a run where no attempt passes. All pass from now on, because the file `answer` exists."""
    place = module_harness.folder
    (place / "flaky.py").write_text(AGENT.format(place=str(place / "answer")))
    command = ("run", "-b", "gsm8k", "--data", "bundled", "-n", "1", "--n-samples", "2")
    module_harness.succeed(*command, "--agent", place / "flaky.py")
    folder = module_harness.only_run()
    (expected,) = {attempt["expected_output"] for attempt in folder.attempts}
    (place / "answer").write_text(expected)
    return folder


@pytest.fixture(scope="module")
def retried(module_harness: Harness, failed: RunFolder) -> tuple[RunFolder, str]:
    """Return a copy of that run with its attempts repeated, and the output of the command."""
    folder = failed.copy_to(module_harness.folder / "retried" / failed.path.name)
    ended = module_harness.succeed("run", "--resume", folder.path, "--retry-failed")
    return folder, ended.stdout


def read_files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


# --- retries


def test_failed_attempts_are_repeated_and_their_verdicts_stay_in_the_file(
    failed: RunFolder, retried: tuple[RunFolder, str]
) -> None:
    folder, _ = retried
    assert folder.raw_attempts.startswith(failed.raw_attempts)
    statuses = [(attempt["attempt"], attempt["status"]) for attempt in folder.attempts]
    assert sorted(statuses[:2]) == [(0, "failed"), (1, "agent_error")]
    assert statuses[2:4] == [(0, "cancelled"), (1, "cancelled")]
    assert sorted(statuses[4:]) == [(0, "passed"), (1, "passed")]
    superseded = [attempt["metrics"]["superseded"] for attempt in folder.attempts[2:4]]
    assert superseded == ["failed", "agent_error"]


def test_a_report_shows_that_verdicts_were_superseded(
    harness: Harness, retried: tuple[RunFolder, str]
) -> None:
    folder, stdout = retried
    shown = "2 attempts had a verdict and were repeated; 2 of them passed then"
    assert shown in stdout
    assert shown in harness("show", folder.path).stdout
    assert folder.summary["superseded"] == {"attempts": 2, "resolved": 2}
    assert folder.manifest["superseded_verdicts"] == 2


def test_transcripts_of_superseded_verdicts_are_kept(
    failed: RunFolder, retried: tuple[RunFolder, str]
) -> None:
    before, after = (read_files(each.path / "transcripts") for each in (failed, retried[0]))
    assert before != after, "the attempts were made again"
    kept = read_files(retried[0].path / "superseded")
    assert kept == {name.replace(".jsonl", "-0.jsonl"): text for name, text in before.items()}


def test_a_retry_that_was_killed_is_continued(
    harness: Harness, retried: tuple[RunFolder, str], tmp_path: Path
) -> None:
    def list_states() -> list[tuple[str, int]]:
        listed = json.loads(harness("runs", "--json").stdout)
        return [(each["state"], each["finished_attempts"]) for each in listed]

    folder = retried[0].copy_to(tmp_path / "runs" / "killed")
    lines = folder.raw_attempts.splitlines(keepends=True)
    (folder.path / "attempts.jsonl").write_bytes(b"".join(lines[:4]))
    assert list_states() == [("finished", 2)]
    (folder.path / "summary.json").unlink()
    assert list_states() == [("interrupted", 0)]
    shown = harness("run", "--resume", folder.path, "--retry-failed", "--dry-run")
    assert ["remaining", "2"] in [line.split() for line in shown.stdout.splitlines()]
    harness.succeed("run", "--resume", folder.path)
    assert folder.summary["statuses"] == {"passed": 2}
    assert folder.summary["superseded"] == {"attempts": 2, "resolved": 2}


def test_passed_attempts_are_never_repeated(harness: Harness, retried: tuple[RunFolder, str]) -> None:
    folder, _ = retried
    before = folder.raw_attempts
    ended = harness.succeed("run", "--resume", folder.path, "--retry-failed")
    assert "no attempt is repeated" in ended.stderr
    assert folder.raw_attempts == before


def test_only_infra_errors_are_repeated(harness: Harness, run: RunFolder) -> None:
    first, second, *_ = run.attempts
    lost = {"resolved": False, "status": "infra_error", "score": None}
    lines = [json.dumps({**first, **lost}), json.dumps(second)]
    (run.path / "attempts.jsonl").write_text("".join(f"{line}\n" for line in lines))
    ended = harness("run", "--resume", run.path, "--retry-infra")
    assert ended.returncode == 3, "the attempts that were never made are still missing"
    assert [(each["task_id"], each["status"]) for each in run.attempts] == [
        (first["task_id"], "infra_error"),
        (second["task_id"], "failed"),
        (first["task_id"], "failed"),
    ]
    assert "superseded" not in run.summary, "an infra error is not a verdict"


# --- settings of a resumed run


def test_another_setting_of_a_config_file_is_refused_unless_it_is_accepted(
    harness: Harness, run: RunFolder
) -> None:
    config = harness.folder / "config.yaml"
    config.write_text("benchmark: gsm8k\nagent: 'null'\ntimeout_seconds: 200\n")
    stderr = harness.expect_refusal("run", "--resume", run.path, "-c", config)
    assert "config.timeout_seconds was 180 when this run started, and is 200 now" in stderr
    assert "--accept config.timeout_seconds" in stderr
    harness.succeed("run", "--resume", run.path, "-c", config, "--accept", "config.timeout_seconds")
    (change,) = run.manifest["accepted_changes"]
    assert (change["field"], change["before"], change["after"]) == ("config.timeout_seconds", 180, 200)
    assert run.manifest["config"]["timeout_seconds"] == 200
    assert set(run.manifest["timeouts"].values()) == {200}
    assert harness("run", "--resume", run.path).returncode == 0, "the change is accepted for good"


def test_changed_data_are_accepted_only_on_request(harness: Harness, run: RunFolder) -> None:
    now = run.manifest["data"]["sha256"]
    run.change_manifest("data", sha256="0" * 64)
    stderr = harness.expect_refusal("run", "--resume", run.path)
    assert f'data.sha256 was "{"0" * 64}", and is "{now}" now' in stderr
    assert "--accept data.sha256" in stderr
    harness.succeed("run", "--resume", run.path, "--accept", "data")
    assert run.manifest["data"]["sha256"] == now
    assert [change["field"] for change in run.manifest["accepted_changes"]] == ["data.sha256"]


# --- rerun


def test_a_run_is_made_again_from_its_manifest_alone_and_equals_it(harness: Harness, run: RunFolder) -> None:
    before = run.raw_attempts
    (run.path / "attempts.jsonl").unlink()
    (run.path / "summary.json").unlink()
    harness.succeed("rerun", run.path)
    again = harness.only_run()
    assert again.manifest["rerun_of"] == run.run_id
    lines = [
        sorted(remove_times_and_ids(text.decode()).splitlines()) for text in (before, again.raw_attempts)
    ]
    assert len(lines[0]) == 4
    assert lines[0] == lines[1]


def test_a_rerun_with_changed_data_is_refused_before_a_folder_is_made(
    harness: Harness, run: RunFolder
) -> None:
    run.change_manifest("data", sha256="0" * 64)
    assert "--accept data.sha256" in harness.expect_refusal("rerun", run.path)
    assert not (harness.folder / "runs").exists()
    harness.succeed("rerun", run.path, "--accept", "data")
    again = harness.only_run()
    assert [change["field"] for change in again.manifest["accepted_changes"]] == ["data.sha256"]


# --- grade --run


def test_submissions_are_graded_again_without_the_agent(harness: Harness, failed: RunFolder) -> None:
    agent = Path(failed.manifest["config"]["agent"])
    text = agent.read_text()
    agent.write_text("raise RuntimeError('nobody may import this')")
    harness.succeed("grade", "--run", failed.path, "--output-dir", "again")
    agent.write_text(text)
    again = harness.only_run("again")
    assert [(each["task_id"], each["attempt"], each["status"]) for each in again.attempts] == [
        (each["task_id"], each["attempt"], each["status"]) for each in failed.attempts
    ]
    assert again.manifest["replay"]["run_id"] == failed.run_id


def test_a_run_and_samples_together_are_refused(harness: Harness, run: RunFolder) -> None:
    stderr = harness.expect_refusal("grade", "--run", run.path, "--samples", "x.jsonl")
    assert "--run and --samples both name what is graded" in stderr
