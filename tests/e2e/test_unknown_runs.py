"""Run folders of somebody else: what they name is neither run nor taken, unless the user accepts it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from e2e.command_line import NO_ENGINE, FinishedRun, Harness, RunFolder

from harness.runs.trust import is_signed

QUICK = ("run", "-b", "gsm8k", "--data", "bundled", "-n", "1")
AGENT = """
open({place!r}, "a").write("ran ")

async def attempt(context):
    return "#### 0"
"""
BENCHMARK = """
open({place!r}, "a").write("ran ")

NAME = "sums"
METRIC = "number"

def tasks():
    return [{{"prompt": "What is 1 + 1?", "reference": 2}}]
"""


def make_unknown(run: RunFolder, **settings: Any) -> None:
    """Change a run folder to one that somebody else has made, with other settings."""
    run.change_manifest("config", **settings)
    manifest = {name: value for name, value in run.manifest.items() if name != "signature"}
    (run.path / "manifest.json").write_text(json.dumps(manifest))


def make_run(harness: Harness, *command: str | Path) -> RunFolder:
    before = {*harness.folder.glob("runs/*")}
    harness.succeed(*command, env=NO_ENGINE)
    (folder,) = {*harness.folder.glob("runs/*")} - before
    return RunFolder(folder)


@pytest.fixture(scope="module")
def agent(module_harness: Harness) -> Path:
    """Return the file of an agent, which leaves the mark beside it when it is imported."""
    path = module_harness.folder / "agent.py"
    path.write_text(AGENT.format(place=str(module_harness.folder / "mark")))
    return path


@pytest.fixture(scope="module")
def made(module_harness: Harness, agent: Path) -> RunFolder:
    return make_run(module_harness, *QUICK, "--agent", agent)


@pytest.fixture
def mark(module_harness: Harness) -> Path:
    """Return the file that shows that a user's code has run."""
    path = module_harness.folder / "mark"
    path.unlink(missing_ok=True)
    return path


@pytest.fixture
def of_agent(made: RunFolder, mark: Path, tmp_path: Path) -> RunFolder:
    """Return a copy of a run of that agent."""
    return made.copy_to(tmp_path / "of-agent")


@pytest.fixture
def of_programs(finished_run: Callable[..., FinishedRun], tmp_path: Path) -> RunFolder:
    return finished_run("run", "-b", "mbpp", "--data", "bundled", "-n", "1").folder.copy_to(tmp_path / "copy")


def test_a_run_of_the_user_needs_no_consent(harness: Harness, of_agent: RunFolder, mark: Path) -> None:
    harness.succeed("run", "--resume", of_agent.path, "--retry-failed")
    harness.succeed("rerun", of_agent.path)
    assert mark.exists()


@pytest.mark.parametrize("command", [("run", "--resume"), ("run", "--retry-failed", "--resume"), ("rerun",)])
def test_the_code_of_an_unknown_run_is_not_run_before_the_user_accepts_it(
    harness: Harness, of_agent: RunFolder, agent: Path, mark: Path, command: tuple[str, ...]
) -> None:
    make_unknown(of_agent)
    for dry in ((), ("--dry-run",)):
        stderr = harness.expect_refusal(*command, of_agent.path, *dry)
        assert f"run the agent {agent} as Python on this machine" in stderr
        assert "--trust" in stderr
    assert not mark.exists()
    harness.succeed(*command, of_agent.path, "--trust")
    assert mark.exists()


def test_a_folder_that_was_accepted_once_is_known_from_then_on(harness: Harness, of_agent: RunFolder) -> None:
    make_unknown(of_agent)
    harness.succeed("run", "--resume", of_agent.path, "--trust")
    harness.succeed("run", "--resume", of_agent.path)


def test_an_accepted_change_keeps_a_run_known(harness: Harness, of_agent: RunFolder, agent: Path) -> None:
    config = f"benchmark: gsm8k\nagent: {agent}\ntimeout_seconds: 200\n"
    (harness.folder / "config.yaml").write_text(config)
    accepted = ("-c", "config.yaml", "--accept", "config.timeout_seconds")
    harness.succeed("run", "--resume", of_agent.path, *accepted)
    assert of_agent.manifest["config"]["timeout_seconds"] == 200
    harness.succeed("run", "--resume", of_agent.path)


def test_an_unknown_run_without_effects_is_resumed_and_made_again(harness: Harness) -> None:
    run = make_run(harness, *QUICK, "--agent", "null")
    make_unknown(run)
    harness.succeed("run", "--resume", run.path)
    again = make_run(harness, "rerun", run.path)
    assert not is_signed(run.manifest)
    assert not is_signed(again.manifest), "its config is still that of somebody else"


def test_a_run_starts_where_the_secret_cannot_be_kept_and_is_unknown_later(
    harness: Harness, agent: Path
) -> None:
    unwritable = {**NO_ENGINE, "XDG_STATE_HOME": "/dev/null"}
    harness.succeed(*QUICK, "--agent", agent, env=unwritable)
    run = harness.only_run()
    assert "signature" not in run.manifest
    stderr = harness.expect_refusal("run", "--resume", run.path)
    assert "nothing shows that you started it on this machine" in stderr
    stderr = harness.expect_refusal("run", "--resume", run.path, env=unwritable)
    assert "/dev/null/harness/signing-secret, which would show" in " ".join(stderr.split())


# --- benchmarks of the user in a file


@pytest.mark.parametrize("command", [("merge",), ("samples", "export")], ids=lambda command: command[0])
def test_the_benchmark_of_an_unknown_folder_is_not_imported(
    harness: Harness, mark: Path, command: tuple[str, ...]
) -> None:
    (harness.folder / "sums.py").write_text(BENCHMARK.format(place=str(mark)))
    run = make_run(harness, "run", "-b", "sums.py", "--agent", "null", "--shard", "1/1")
    make_unknown(run)
    mark.unlink()
    stderr = harness.expect_refusal(*command, run.path)
    assert f"run the benchmark {harness.folder / 'sums.py'} as Python on this machine" in stderr
    assert not mark.exists()
    harness.succeed(*command, run.path, "--trust", env=NO_ENGINE)


def test_a_merged_run_is_as_known_as_all_of_its_shards(harness: Harness) -> None:
    for number in (1, 2):
        shard = make_run(harness, *QUICK[:-1], "2", "--agent", "null", "--shard", f"{number}/2")
        if number == 2:
            place = ("--output-dir", "known")
            harness.succeed("merge", *harness.folder.glob("runs/*"), *place)
            make_unknown(shard)
            place = ("--output-dir", "unknown")
            harness.succeed("merge", *harness.folder.glob("runs/*"), *place)
    known, unknown = (RunFolder(next(harness.folder.glob(f"{name}/*"))) for name in ("known", "unknown"))
    assert is_signed(known.manifest)
    assert "signature" not in unknown.manifest


# --- limits


@pytest.mark.parametrize("command", [("run", "--from"), ("grade", "--run"), ("rerun",)])
def test_limits_of_an_unknown_run_are_not_taken_and_a_notice_names_them(
    harness: Harness, of_programs: RunFolder, command: tuple[str, ...]
) -> None:
    usual = of_programs.manifest["limits"]["python"]
    limits = {"memory_mb": 8192, "processes": 4096, "uncounted_sockets": True, "cpu_seconds": 5}
    make_unknown(of_programs, limits=limits)
    notice = " ".join(harness.succeed(*command, of_programs.path).stderr.split())
    assert "limits.memory_mb 8192, limits.processes 4096, limits.uncounted_sockets True" in notice
    assert harness.only_run().manifest["limits"]["python"] == {**usual, "cpu_seconds": 5}


def test_limits_of_an_unknown_run_are_accepted_before_it_is_resumed(
    harness: Harness, of_programs: RunFolder
) -> None:
    make_unknown(of_programs, limits={"memory_mb": 2048})
    assert "use limits.memory_mb 2048" in harness.expect_refusal("run", "--resume", of_programs.path)
    harness.succeed("run", "--resume", of_programs.path, "--trust")
