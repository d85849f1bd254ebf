"""Patches of a repository from a file of predictions, and from an agent that changes its files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from docker import APIClient
from e2e.command_line import Harness, RunFolder
from samples.repository import make_rows
from sealed_tasks import build_image

# A patch that is right needs five machines the first time, one after the other.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def options(tmp_path: Path, client: APIClient) -> tuple[str, ...]:
    """Return the options of two tasks, whose base image is replaced by one with pytest and git."""
    rows = [row for row in make_rows() if row["instance_id"].endswith(("total", "leap"))]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    base = f"python:*={build_image(client)}"
    return ("-b", "swebench-verified", "--data", str(path), "--base-image", base)


def test_wrong_predictions_fail_by_both_rules(harness: Harness, options: tuple[str, ...]) -> None:
    gold = {row["instance_id"]: row["patch"] for row in make_rows()}
    predictions = [
        {"instance_id": "harness__stock-total", "model_patch": patch, "model_name_or_path": "m"}
        for patch in (gold["harness__stock-leap"], "no patch", "")
    ]
    path = harness.folder / "preds.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in predictions))
    harness.succeed("grade", *options, "--samples", str(path))
    folder = harness.only_run()
    records = {(each["task_id"], each["attempt"]): each for each in folder.attempts}
    found = [records["harness__stock-total", number] for number in range(3)]
    assert [each["status"] for each in found] == ["failed"] * 3
    assert [each["metrics"]["resolved_strict"] for each in found] == [0, 0, 0]
    assert found[0]["metrics"]["fail_to_pass"] == "0/1"
    assert found[1]["metrics"]["reason"] == "patch_does_not_apply"
    # A task without a prediction is in the denominator.
    assert records["harness__stock-leap", 0]["status"] == "agent_error"


def test_the_files_that_an_agent_leaves_are_its_patch(harness: Harness, options: tuple[str, ...]) -> None:
    change = (
        "sed -i 's/ if len.*//; s/counts\\[:-1\\]/counts/' stock/counting.py && echo new > stock/new.txt"
        " && git log --all --oneline > log.txt && echo 'raise 1' > tests/test_counting.py"
    )
    harness.succeed(
        *("run", *options, "-t", "harness__stock-total"),
        *("--agent", "command", "--agent-cmd", f'sh -c "{change}"'),
    )
    folder = next((harness.folder / "runs").iterdir())
    (record,) = RunFolder(folder).attempts
    assert (record["status"], record["metrics"]["resolved_strict"]) == ("passed", 1), record["error"]
    (transcript,) = (folder / "transcripts").rglob("*.jsonl")
    entries = [json.loads(line) for line in transcript.read_text().splitlines()]
    (patch,) = [entry["patch"] for entry in entries if entry.get("kind") == "patch"]
    assert "+    return sum(counts)\n" in patch
    assert "b/stock/new.txt" in patch
    # The hidden tests bring this file, and git knows one commit.
    assert "test_counting.py" not in patch
    assert [line for line in patch.splitlines() if line.startswith("+") and line.endswith(" fixed")] == []
    assert patch.count(" base\n") == 1
