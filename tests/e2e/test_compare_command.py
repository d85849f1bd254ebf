"""`harness compare`: its exit codes, and its formats on the command line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from e2e.command_line import NO_ENGINE, FinishedRun, Harness

RUN = ("run", "-b", "gsm8k", "--data", "bundled", "-n", "5")


@pytest.fixture(scope="module")
def runs(finished_run: Callable[..., FinishedRun], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the runs `right`, `again` and `wrong`."""
    folder = tmp_path_factory.mktemp("compared")
    # The seed is the default one, but the arguments differ, so that this is another run.
    for name, arguments in (
        ("right", ("--agent", "oracle")),
        ("again", ("--agent", "oracle", "--seed", "0")),
        ("wrong", ("--agent", "null")),
    ):
        made = finished_run(*RUN, *arguments)
        shutil.copytree(made.folder.path, folder / name)
    return folder


def test_a_regression_exits_with_1_and_an_improvement_with_0(runs: Path, harness: Harness) -> None:
    place = ("--output-dir", runs, "--regression-threshold", "0.1")
    worse = harness("compare", "right", "wrong", *place, env=NO_ENGINE)
    assert worse.returncode == 1, worse.stderr
    assert "the rate fell by 1.0, more than --regression-threshold 0.1" in worse.stderr
    assert "\nlost (5)\n" in worse.stdout
    better = harness.succeed("compare", "wrong", "right", *place, env=NO_ENGINE)
    assert "no regression" in better.stdout


def test_without_a_threshold_nothing_is_judged(runs: Path, harness: Harness) -> None:
    ended = harness("compare", "right", "wrong", "--output-dir", runs, env=NO_ENGINE)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_an_unfinished_run_is_never_a_passed_gate(runs: Path, harness: Harness, tmp_path: Path) -> None:
    for name in ("right", "wrong"):
        shutil.copytree(runs / name, tmp_path / name)
    lines = (tmp_path / "wrong" / "attempts.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "wrong" / "attempts.jsonl").write_text("".join(lines[:3]))
    (tmp_path / "wrong" / "summary.json").unlink()
    place = ("--output-dir", tmp_path, "--regression-threshold", "1")
    ended = harness("compare", "right", "wrong", *place, env=NO_ENGINE)
    assert ended.returncode == 3
    assert "the candidate is interrupted: 3 of 5 attempts" in ended.stdout
    assert "attempts without a verdict: 2" in ended.stderr
    assert "warning: " not in ended.stderr, "the table has it"
    document = harness("compare", "right", "wrong", *place, "--json", env=NO_ENGINE)
    assert "warning: the candidate is interrupted: 3 of 5 attempts" in document.stderr


def test_json_and_markdown_are_written_to_a_file(runs: Path, harness: Harness) -> None:
    command = ("compare", "right", "wrong", "--output-dir", runs)
    repeated = harness(*command, "--baseline-run", "again", "--json", env=NO_ENGINE)
    found = json.loads(repeated.stdout)
    assert [Path(run["folder"]).name for run in found["baseline"]["runs"]] == ["right", "again"]
    assert found["noise_floor"] == {"spread": 0.0, "flips": 0, "is_exceeded": True}
    written = harness(*command, "--format", "markdown", "-o", "comment.md", env=NO_ENGINE)
    assert (written.returncode, written.stdout) == (0, "")
    assert (harness.folder / "comment.md").read_text().startswith("### `gsm8k`: comparison\n")


def test_runs_and_options_that_cannot_be_used_are_refused(runs: Path, harness: Harness) -> None:
    for arguments, reason in (
        (("right", "rigth"), "did you mean right?"),
        (("right", "wrong", "--json", "--format", "table"), "cannot be combined"),
        (("right", "wrong", "--format", "xml"), "unknown format of a comparison 'xml'"),
    ):
        code, _, error = harness.refused("compare", *arguments, "--output-dir", runs)
        assert (code, reason in error) == (2, True), error
