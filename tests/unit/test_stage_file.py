"""The file of a run folder that holds the stages of the attempts under way."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from contextlib import closing
from pathlib import Path

import pytest
from case_checks import each_case

from harness.core.types import Task
from harness.runs import progress
from harness.runs.progress import (
    STAGES,
    ActiveAttempt,
    ActiveStage,
    ActiveStages,
    RunProgress,
    Stage,
    format_stages,
    read_stages,
    write_stages,
)
from harness.runs.records import PlannedAttempt
from harness.runs.run_files import replace_run_file
from harness.runs.store import RunStore

PLANNED = PlannedAttempt(Task(id="a/1", benchmark="b", prompt="", environment="python"), 0, None)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PAUSE_SECONDS", 0.0)


async def wait_for_stage(folder: Path, stage: Stage) -> ActiveStages:
    while (found := read_stages(folder)).counts.get(stage) is None:  # noqa: ASYNC110 - another process polls too
        await asyncio.sleep(0)
    return found


async def test_another_process_can_read_the_stages_until_the_run_ends(tmp_path: Path, quick: None) -> None:
    under_way = RunProgress()
    async with asyncio.timeout(10), write_stages(tmp_path, under_way):
        with under_way.begin(PLANNED, place="node a") as active:
            first = await wait_for_stage(tmp_path, Stage.QUEUED)
            active.enter(Stage.GRADING)
            second = await wait_for_stage(tmp_path, Stage.GRADING)
    assert first.attempts == {("a/1", 0): ActiveStage(Stage.QUEUED, "node a")}
    assert second == ActiveStages({Stage.GRADING: 1}, {("a/1", 0): ActiveStage(Stage.GRADING, "node a")})
    assert not os.listdir(tmp_path)


async def test_a_file_that_cannot_be_written_does_not_end_the_run(
    tmp_path: Path, quick: None, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / STAGES).mkdir()
    with caplog.at_level(logging.WARNING):
        async with asyncio.timeout(10), write_stages(tmp_path, RunProgress()):
            while not caplog.records:  # noqa: ASYNC110 - the warning has no event
                await asyncio.sleep(0)
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path / STAGES}: cannot be written: Is a directory"
    ]


def test_a_version_that_a_kill_has_left_unfinished_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("kept")
    (tmp_path / f".{STAGES}.new").symlink_to(tmp_path / "target")
    replace_run_file(tmp_path, STAGES, b"whole")
    assert (tmp_path / STAGES).read_text() == "whole"
    assert (tmp_path / "target").read_text() == "kept"
    assert sorted(os.listdir(tmp_path)) == [STAGES, "target"]


async def test_a_link_is_replaced_and_its_target_is_left_as_it_is(tmp_path: Path, quick: None) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / STAGES).symlink_to(target)
    under_way = RunProgress()
    async with asyncio.timeout(10), write_stages(folder, under_way):
        with under_way.begin(PLANNED):
            await wait_for_stage(folder, Stage.QUEUED)
    assert target.read_text() == "mine"


def test_the_size_of_the_file_is_bounded_and_the_counts_cover_all_attempts(tmp_path: Path) -> None:
    active = [ActiveAttempt("x" * 5000 + str(number), 0, 0.0) for number in range(5000)]
    data = format_stages(active)
    (tmp_path / STAGES).write_bytes(data)
    stages = read_stages(tmp_path)
    assert len(data) < 1024 * 1024
    assert stages.counts == {Stage.QUEUED: 5000}
    assert min(len(task_id) for task_id, _ in stages.attempts) == 5001


@each_case(
    "content",
    [
        "",
        "{",
        "[]",
        '{"counts": 3, "attempts": {}}',
        '{"counts": {"acting": -1, "grading": true, "\\u001b[31m": 4}, "attempts": [1, {}]}',
        '{"attempts": [{"task_id": "a", "attempt": 0, "stage": "<script>"}]}',
        '{"attempts": [{"task_id": "a", "attempt": "0", "stage": "acting"}]}',
        '{"attempts": [{"task_id": "a", "attempt": 0, "stage": ["acting"]}]}',
        '{"attempts": "' + "x" * 2**20 + '"}',
    ],
)
def test_a_foreign_file_can_hold_nothing_but_stages(tmp_path: Path, content: str) -> None:
    (tmp_path / STAGES).write_text(content)
    assert read_stages(tmp_path) == ActiveStages()


def test_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "other").write_text(json.dumps({"counts": {"acting": 1}}))
    (tmp_path / STAGES).symlink_to(tmp_path / "other")
    assert read_stages(tmp_path) == ActiveStages()


def test_a_resumed_run_removes_the_stages_that_a_killed_one_has_left(tmp_path: Path) -> None:
    (tmp_path / STAGES).write_text(json.dumps({"counts": {"acting": 1}}))
    (tmp_path / f".{STAGES}.0123abcd").write_text("half")
    with closing(RunStore(tmp_path)):
        assert [path.name for path in tmp_path.iterdir()] == ["attempts.jsonl"]
