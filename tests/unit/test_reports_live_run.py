from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.types import AttemptRecord, Status
from harness.reports.formats import load_format
from harness.reports.recorded_attempts import WallTime
from harness.reports.run_folder import read_run
from harness.runs.records import to_json
from harness.runs.store import ATTEMPTS, MANIFEST, RunStore

RECORD = AttemptRecord("c", 0, None, None, True, Status.PASSED, 1.0, {}, "out", "out", 40.0, None)
RECORDS = [
    replace(RECORD, started_at="2026-01-01T00:00:05Z"),
    replace(RECORD, task_id="a", attempt=1, started_at="2026-01-01T00:00:01Z"),
    replace(RECORD, task_id="a", started_at="2026-01-01T00:00:00Z"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3600))
    manifest = {
        "schema_version": 1,
        "run_id": "r",
        "started_at": started,
        "benchmark": "b",
        "agent": "oracle",
        "source": "path",
        "data": {"kind": "path", "location": "p", "sha256": "0" * 64, "rows": 3},
        "images": {},
        "config": {"benchmark": "b"},
        "planned": {"tasks": 3, "attempts": 6, "task_ids": ["a", "b", "c"]},
    }
    (tmp_path / MANIFEST).write_text(json.dumps(manifest))
    (tmp_path / ATTEMPTS).write_text("".join(f"{to_json(record)}\n" for record in RECORDS))
    return tmp_path


@pytest.fixture
def live_folder(folder: Path) -> Iterator[Path]:
    with closing(RunStore(folder)):
        yield folder


def write(name: str, folder: Path) -> str:
    stream = io.StringIO()
    load_format(name)(read_run(folder), stream)
    return stream.getvalue()


def test_attempts_that_have_not_begun_are_to_come_while_the_run_goes_on(live_folder: Path) -> None:
    results = json.loads(write("json", live_folder))
    assert results["run"]["state"] == "running"
    assert results["summary"]["statuses"] == {"passed": 3, "to_come": 3}
    assert results["summary"]["rate"] is None
    texts = {name: write(name, live_folder) for name in ("table", "markdown", "html")}
    assert {name for name, text in texts.items() if "to come" not in text} == set()
    assert "| cancelled" not in texts["markdown"]
    assert ">cancelled<" not in texts["html"]


def test_attempts_that_have_not_begun_are_cancelled_after_a_kill(folder: Path) -> None:
    results = json.loads(write("json", folder))
    assert results["run"]["state"] == "interrupted"
    assert results["summary"]["statuses"] == {"passed": 3, "cancelled": 3}


def test_the_duration_of_a_run_under_way_begins_with_its_start(live_folder: Path) -> None:
    assert read_run(live_folder).duration_seconds >= 3600


def test_the_duration_of_a_killed_run_counts_parallel_attempts_once(folder: Path) -> None:
    assert read_run(folder).duration_seconds == pytest.approx(45.0)


def test_time_between_two_parts_of_a_run_does_not_count() -> None:
    times = WallTime()
    times.add(replace(RECORD, started_at="2026-01-01T00:00:00Z"))
    times.add(replace(RECORD, started_at="2026-01-01T08:00:00Z"))
    assert times.seconds == pytest.approx(80.0)


def test_attempts_are_in_the_order_of_the_plan(folder: Path) -> None:
    assert [(each.task_id, each.attempt) for each in read_run(folder).attempts()] == [
        ("a", 0),
        ("a", 1),
        ("c", 0),
    ]


def test_markdown_has_no_two_empty_lines_in_a_row(folder: Path) -> None:
    assert "\n\n\n" not in write("markdown", folder)
