from __future__ import annotations

import importlib
import io
import json
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from attempt_records import make_manifest
from viewer_fixtures import read_page_texts

from harness.core.errors import UsageError
from harness.core.types import AttemptRecord, Status
from harness.reports.formats import format_names, load_format
from harness.reports.recorded_attempts import WallTime
from harness.reports.run_folder import read_attempt, read_run
from harness.runs.records import to_json
from harness.runs.store import ATTEMPTS, MANIFEST, SUMMARY, RunStore

RECORD = AttemptRecord("t", 0, None, "c", True, Status.PASSED, 1.0, {}, "out", "out", 0.25, None)
# Attempts of three tasks, of which one has no record, in the order that they ended.
TIMED = [
    replace(RECORD, task_id="c", duration_seconds=40.0, started_at="2026-01-01T00:00:05Z"),
    replace(RECORD, task_id="a", duration_seconds=40.0, attempt=1, started_at="2026-01-01T00:00:01Z"),
    replace(RECORD, task_id="a", duration_seconds=40.0, started_at="2026-01-01T00:00:00Z"),
]
MANIFEST_VALUES = make_manifest()
SUMMARY_VALUES = {
    "total": 1,
    "attempts": 1,
    "resolved": 1,
    "rate": 1.0,
    "pass_at_k": {"1": 1.0},
    "statuses": {"passed": 1},
    "by_category": {},
    "integrity": {},
    "metrics": {},
    "scores": {"overall": {"score": 0.5, "method": "mean", "weights": {"os": 10.8}}},
}


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    documents = {
        MANIFEST: MANIFEST_VALUES,
        SUMMARY: {"source": "path", "duration_seconds": 1.5, **SUMMARY_VALUES},
        ATTEMPTS: json.loads(to_json(RECORD)),
    }
    for name, document in documents.items():
        (tmp_path / name).write_text(json.dumps(document) + "\n")
    return tmp_path


def write(name: str, folder: Path) -> str:
    file = io.BytesIO()
    stream = io.TextIOWrapper(file, encoding="latin-1", newline="\n")
    load_format(name)(read_run(folder), stream)
    stream.flush()
    return file.getvalue().decode("latin-1")


def test_a_format_is_a_file_with_a_description() -> None:
    modules = {name: importlib.import_module(f"harness.reports.formats.{name}") for name in format_names()}
    assert {"html", "json", "table"} <= set(modules)
    assert [
        name for name, module in modules.items() if not (module.__doc__ or "").rstrip().endswith(".")
    ] == []


def test_an_unknown_format_is_refused_with_the_names_of_all() -> None:
    with pytest.raises(UsageError, match="unknown report format 'htlm'") as raised:
        load_format("htlm")
    assert raised.value.hint == f"did you mean 'html'? known: {', '.join(format_names())}"


def test_every_format_writes_the_run(run_folder: Path) -> None:
    written = {name: write(name, run_folder) for name in format_names()}
    assert {name for name, text in written.items() if not text} == set()
    assert [name for name, text in written.items() if not text.endswith("\n")] == ["parquet"]


def test_json_holds_everything_in_the_run_folder(run_folder: Path) -> None:
    results = json.loads(write("json", run_folder))
    headline = results["summary"].pop("headline")
    assert (headline["value"], headline["high"], headline["clusters"]) == (SUMMARY_VALUES["rate"], 1.0, 1)
    run = {**MANIFEST_VALUES, "folder": str(run_folder), "state": "finished", "duration_seconds": 1.5}
    del run["schema_version"]
    assert results == {
        "schema_version": 2,
        "run": run,
        # An earlier version wrote the summary.
        "summary": {**SUMMARY_VALUES, "schema_version": 2, "first_attempt_rate": 1.0},
        "attempts": [json.loads(to_json(RECORD))],
    }


def test_table_and_page_show_the_rate(run_folder: Path) -> None:
    assert "rate           100.0 %" in write("table", run_folder)
    assert write("html", run_folder).startswith("<!doctype html>")


def test_a_run_that_was_stopped_is_shown_without_the_attempts_that_it_lacks(run_folder: Path) -> None:
    summary = {
        **SUMMARY_VALUES,
        "attempts": 9,
        "statuses": {"passed": 1, "cancelled": 8},
        "duration_seconds": 1,
    }
    (run_folder / SUMMARY).write_text(json.dumps(summary))
    assert "stopped after" in write("html", run_folder)


@pytest.fixture
def killed_run(run_folder: Path) -> Path:
    """Return a run of four attempts at three tasks, of which two have ended, and no summary."""
    manifest = {**MANIFEST_VALUES, "planned": {"tasks": 3, "attempts": 4}}
    (run_folder / MANIFEST).write_text(json.dumps(manifest))
    (run_folder / SUMMARY).unlink()
    other = replace(RECORD, task_id="u", resolved=False, status=Status.FAILED)
    (run_folder / ATTEMPTS).write_text(f"{to_json(RECORD)}\n{to_json(other)}\n")
    return run_folder


def test_a_run_under_way_is_reported_as_running(killed_run: Path) -> None:
    with closing(RunStore(killed_run)):
        text, page = write("table", killed_run), write("html", killed_run)
    assert "note: running: 2 of 4 attempts so far\n" in text
    assert "running: 2 of 4 attempts: 1 passed so far\n" in text
    assert "to come" in text
    assert '"headline":["running: 2 of 4 attempts",' in page
    shown = text + read_page_texts(page)
    assert not any(word in shown for word in ("interrupted", "stopped", "--resume"))


def test_a_resumed_run_under_way_is_reported_as_running_despite_its_summary(killed_run: Path) -> None:
    stopped = {**SUMMARY_VALUES, "attempts": 4, "statuses": {"passed": 1, "failed": 1, "cancelled": 2}}
    (killed_run / SUMMARY).write_text(json.dumps({**stopped, "duration_seconds": 1}))
    assert "running" not in write("table", killed_run)
    with closing(RunStore(killed_run)):
        assert "note: running: 2 of 4 attempts so far\n" in write("table", killed_run)


def test_a_run_without_a_summary_is_reported_as_interrupted(killed_run: Path) -> None:
    table = write("table", killed_run)
    assert "interrupted: 2 of 4 attempts" in table
    # The manifest has no signature, so that the run counts as somebody else's.
    assert "--trust" in table
    assert "stopped after 2 of 4: 1 passed so far" in table
    summary = json.loads(write("json", killed_run))["summary"]
    assert (summary["total"], summary["attempts"], summary["resolved"]) == (3, 4, 1)
    assert summary["statuses"] == {"passed": 1, "failed": 1, "cancelled": 2}
    assert summary["pass_at_k"] == {"1": None}
    assert "2 of 4" in write("html", killed_run)


def test_a_run_that_was_killed_before_its_first_attempt_is_reported(killed_run: Path) -> None:
    (killed_run / ATTEMPTS).write_text("")
    assert "interrupted: 0 of 4 attempts" in write("table", killed_run)


def test_the_summary_of_an_earlier_interruption_is_computed_again(killed_run: Path) -> None:
    old = {
        **SUMMARY_VALUES,
        "total": 3,
        "attempts": 4,
        "rate": 1 / 3,
        "statuses": {"passed": 1, "cancelled": 3},
        "duration_seconds": 1.5,
    }
    (killed_run / SUMMARY).write_text(json.dumps(old))
    assert read_run(killed_run).summary.statuses[Status.FAILED] == 1


def test_a_killed_run_whose_attempts_all_ended_has_its_rate(killed_run: Path) -> None:
    manifest = {**MANIFEST_VALUES, "planned": {"tasks": 2, "attempts": 2}}
    (killed_run / MANIFEST).write_text(json.dumps(manifest))
    summary = read_run(killed_run).summary
    assert (summary.rate, summary.pass_at_k) == (0.5, {1: 0.5})


def test_an_unknown_task_of_a_run_counts_the_tasks_with_an_attempt(killed_run: Path) -> None:
    with pytest.raises(UsageError) as raised:
        read_attempt(killed_run, "x", 0)
    assert "has 2 tasks with an attempt, such as 't' and 'u'" in str(raised.value.hint)


def test_an_attempt_of_a_line_that_was_changed_by_hand_is_found(killed_run: Path) -> None:
    text = (killed_run / ATTEMPTS).read_text()
    (killed_run / ATTEMPTS).write_text(text.replace('"task_id": "u"', '"task_id": "\\u0075"'))
    assert read_attempt(killed_run, "u", 0).task_id == "u"


def test_an_attempt_that_a_task_lacks_is_refused_with_those_that_it_has(killed_run: Path) -> None:
    with pytest.raises(UsageError, match="u has no attempt 7 in this run") as raised:
        read_attempt(killed_run, "u", 7)
    assert raised.value.hint == "its attempts: 0"


def test_another_folder_is_no_run_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is not a run folder: manifest\.json"):
        read_run(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3600))
    planned = {"tasks": 3, "attempts": 6, "task_ids": ["a", "b", "c"]}
    manifest = {**MANIFEST_VALUES, "started_at": started, "planned": planned}
    (tmp_path / MANIFEST).write_text(json.dumps(manifest))
    (tmp_path / ATTEMPTS).write_text("".join(f"{to_json(record)}\n" for record in TIMED))
    return tmp_path


@pytest.fixture
def live_folder(folder: Path) -> Iterator[Path]:
    with closing(RunStore(folder)):
        yield folder


def test_attempts_that_have_not_begun_are_to_come_while_the_run_goes_on(live_folder: Path) -> None:
    results = json.loads(write("json", live_folder))
    assert results["run"]["state"] == "running"
    assert results["summary"]["statuses"] == {"passed": 3, "to_come": 3}
    assert results["summary"]["rate"] is None
    texts = {name: write(name, live_folder) for name in ("table", "markdown", "html")}
    assert {name for name, text in texts.items() if "to come" not in text} == set()
    assert "| cancelled" not in texts["markdown"]
    assert ">cancelled<" not in texts["html"]


def test_the_duration_of_a_run_under_way_begins_with_its_start(live_folder: Path) -> None:
    assert read_run(live_folder).duration_seconds >= 3600


def test_the_duration_of_a_killed_run_counts_parallel_attempts_once(folder: Path) -> None:
    assert read_run(folder).duration_seconds == pytest.approx(45.0)


def test_time_between_two_parts_of_a_run_does_not_count() -> None:
    times = WallTime()
    times.add(replace(TIMED[0], started_at="2026-01-01T00:00:00Z"))
    times.add(replace(TIMED[0], started_at="2026-01-01T08:00:00Z"))
    assert times.seconds == pytest.approx(80.0)


def test_attempts_are_in_the_order_of_the_plan(folder: Path) -> None:
    assert [(each.task_id, each.attempt) for each in read_run(folder).attempts()] == [
        ("a", 0),
        ("a", 1),
        ("c", 0),
    ]


def test_markdown_has_no_two_empty_lines_in_a_row(folder: Path) -> None:
    assert "\n\n\n" not in write("markdown", folder)
