"""`harness runs`: the states of run folders, and their numbers."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from attempt_records import make_record
from case_checks import each_case

from harness.core.errors import UsageError
from harness.core.types import AttemptRecord, Status
from harness.reports.run_list import ListedRun, print_runs, read_run_list, write_runs
from harness.runs.records import to_json
from harness.runs.store import RunStore

PASSED = make_record("t", Status.PASSED)
FAILED = make_record("u")
CANCELLED = make_record("v", Status.CANCELLED)
MANIFEST: dict[str, Any] = {
    "schema_version": 1,
    "run_id": "r",
    "started_at": "2026-08-01T10:00:00Z",
    "benchmark": "mbpp",
    "agent": "chat",
    "source": "path",
    "data": {"kind": "path", "location": "p", "sha256": "0" * 64, "rows": 3},
    "images": {},
    "planned": {"tasks": 3, "attempts": 3},
    "config": {"benchmark": "mbpp", "model": "qwen"},
}
SUMMARY: dict[str, Any] = {
    "total": 3,
    "attempts": 3,
    "resolved": 2,
    "rate": 2 / 3,
    "statuses": {"passed": 2, "failed": 1},
    "duration_seconds": 61.0,
    "model": {"model_requests": 3, "cost": 0.125},
}


def make_run(
    folder: Path,
    summary: dict[str, Any] | None = None,
    records: Sequence[AttemptRecord] = (),
    **manifest: Any,
) -> Path:
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({**MANIFEST, **manifest}))
    (folder / "attempts.jsonl").write_text("".join(to_json(record) + "\n" for record in records))
    if summary is not None:
        (folder / "summary.json").write_text(json.dumps(summary))
    return folder


def only(folder: Path) -> ListedRun:
    (found,) = read_run_list(folder).runs
    return found


def table(folder: Path, **options: Any) -> list[str]:
    stream = io.StringIO()
    print_runs(read_run_list(folder, **options), stream=stream)
    return stream.getvalue().splitlines()


def test_a_finished_run_has_the_numbers_of_its_summary(tmp_path: Path) -> None:
    make_run(tmp_path / "a", SUMMARY)
    found = only(tmp_path)
    assert (found.state, found.finished_attempts, found.planned_attempts) == ("finished", 3, 3)
    assert (found.resolved, found.total, found.cost) == (2, 3, 0.125)
    headings, row = table(tmp_path)
    assert headings.split() == [
        *("run", "benchmark", "agent", "model", "progress"),
        *("passed", "rate", "cost", "duration", "started"),
    ]
    assert row.startswith("a    mbpp       chat   qwen   3/3 finished")
    assert "  2/3  66.7 % (20.8 % to 93.9 %)  0.125  1 min 01 s  " in row


def test_a_narrow_terminal_shows_each_run_on_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    long: dict[str, Any] = {"benchmark": "humaneval", "source": "bundled", "config": {"model": "gpt-5-mini"}}
    make_run(tmp_path / "20261121-091838-humaneval-28f4", SUMMARY, **long)
    shown = {}
    for columns in (200, 120, 80):
        monkeypatch.setenv("COLUMNS", str(columns))
        stream = Terminal()
        print_runs(read_run_list(tmp_path), stream=stream)
        shown[columns] = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
        headings, row = shown[columns].splitlines()
        assert max(len(headings), len(row)) <= columns
        assert "66.7 %" in row
    assert "started" in shown[200]
    assert "humaneval (sample)  gpt-5-mini" in shown[80]


def test_the_bundled_sample_is_marked(tmp_path: Path) -> None:
    make_run(tmp_path / "a", SUMMARY, source="bundled")
    assert only(tmp_path).bundled
    assert " mbpp (bundled sample) " in table(tmp_path)[1]


def test_the_rate_of_an_earlier_version_is_that_of_all_attempts(tmp_path: Path) -> None:
    summary = {
        **SUMMARY,
        "total": 2,
        "attempts": 4,
        "resolved": 0,
        "rate": 0.0,
        "pass_at_k": {},
        "by_category": {},
        "statuses": {"passed": 1, "failed": 3},
    }
    records = [FAILED, replace(FAILED, task_id="t"), replace(FAILED, attempt=1), replace(PASSED, attempt=1)]
    make_run(tmp_path / "a", summary, records, planned={"tasks": 2, "attempts": 4})
    found = only(tmp_path)
    assert (found.rate, found.first_attempt_rate, found.passed_attempts) == (0.25, 0.0, 1)


def test_a_killed_run_is_interrupted_and_counts_its_verdicts(tmp_path: Path) -> None:
    tricky = replace(FAILED, agent_output='"status": "cancelled"', task_id='"status": "passed')
    make_run(tmp_path / "a", None, [PASSED, tricky, CANCELLED])
    found = only(tmp_path)
    assert (found.state, found.finished_attempts, found.planned_attempts) == ("interrupted", 2, 3)
    assert found.rate is None


def test_a_stopped_run_is_interrupted_although_it_has_a_summary(tmp_path: Path) -> None:
    stopped = {**SUMMARY, "statuses": {"passed": 1, "cancelled": 2}}
    # The run was resumed after the summary, made an attempt, and was killed.
    make_run(tmp_path / "a", stopped, [PASSED, CANCELLED, replace(FAILED, task_id="v")])
    found = only(tmp_path)
    assert (found.state, found.finished_attempts, found.rate) == ("interrupted", 2, None)
    assert found.duration_seconds == 61.0


def test_a_run_under_way_is_running(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a", SUMMARY, [PASSED])
    with closing(RunStore(folder)):
        assert only(tmp_path).state == "running"
        assert "1/3 running" in table(tmp_path)[1]
    assert only(tmp_path).state == "finished"


def test_attempts_that_ended_in_an_infra_error_are_not_finished(tmp_path: Path) -> None:
    make_run(tmp_path / "a", {**SUMMARY, "statuses": {"passed": 2, "infra_error": 1}})
    found = only(tmp_path)
    assert (found.state, found.finished_attempts) == ("finished", 2)


BROKEN = {
    "no manifest": ("manifest.json", None, "manifest.json: No such file"),
    "a manifest that is not JSON": ("manifest.json", "{", "manifest.json:1: is not JSON"),
    "a manifest of a later version": ("manifest.json", {**MANIFEST, "schema_version": 9}, "schema_version 9"),
    "a summary that is not JSON": ("summary.json", "[", "summary.json:1: is not JSON"),
    "a summary of something else": ("summary.json", {"total": -1}, "'total' must be at least 0"),
    "a rate that is not a number": ("summary.json", {**SUMMARY, "rate": "no"}, "'rate'"),
    "a manifest whose agent is not a text": ("manifest.json", {**MANIFEST, "agent": 3}, "'agent'"),
    "a manifest whose plan is not a number": (
        "manifest.json",
        {**MANIFEST, "planned": {"tasks": 1, "attempts": "many"}},
        "planned.attempts",
    ),
}


@each_case("case", BROKEN)
def test_a_broken_folder_is_listed_with_the_reason(tmp_path: Path, case: str) -> None:
    name, content, reason = BROKEN[case]
    make_run(tmp_path / "good", SUMMARY)
    broken = make_run(tmp_path / "bad\x1b[2J", SUMMARY)
    if content is None:
        (broken / name).unlink()
    else:
        (broken / name).write_text(content if isinstance(content, str) else json.dumps(content))
    found = {run.name: run for run in read_run_list(tmp_path).runs}
    assert found["good"].state == "finished"
    assert found[broken.name].state == "broken"
    assert reason in (found[broken.name].reason or "")
    lines = table(tmp_path)
    assert lines[-1].startswith("broken: ")
    assert reason in lines[-1]
    assert "\x1b" not in "".join(lines)


def test_attempts_that_are_a_folder_are_a_reason(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a")
    (folder / "attempts.jsonl").unlink()
    (folder / "attempts.jsonl").mkdir()
    assert "is a folder" in (only(tmp_path).reason or "")


def test_only_the_newest_runs_are_shown_on_request(tmp_path: Path) -> None:
    for day in range(1, 10):
        make_run(tmp_path / f"run{day}", SUMMARY, started_at=f"2026-08-0{day}T10:00:00Z")
    lines = table(tmp_path, number=2)
    assert [line.split()[0] for line in lines] == ["run", "run9", "run8", "2"]
    assert lines[-1] == "2 of 9 runs"


def test_columns_of_models_and_costs_are_left_out_without_any(tmp_path: Path) -> None:
    summary = {name: value for name, value in SUMMARY.items() if name != "model"}
    make_run(tmp_path / "a", summary, config={"benchmark": "mbpp", "model": None})
    assert not {"model", "cost"} & set(table(tmp_path)[0].split())


SERVERS = [{"name": "search", "command": "npx"}, {"name": "wiki", "url": "https://wiki.example"}]


@each_case(
    ("config", "replay", "variant"),
    [
        ({"mcp_servers": SERVERS}, {}, "with search, wiki"),
        ({"mcp_servers": SERVERS, "baseline": True}, {}, "baseline without search, wiki"),
        ({"replay_from": "/runs/first"}, {"different": 0}, "of first"),
        ({"replay_from": "/runs/first"}, {"different": 3}, "of first, 3 different"),
    ],
)
def test_runs_of_one_agent_differ_in_the_variant(
    tmp_path: Path, config: dict[str, Any], replay: dict[str, int], variant: str
) -> None:
    config = {"benchmark": "mbpp", "model": "qwen", **config}
    make_run(tmp_path / "a", {**SUMMARY, "replay": replay}, config=config)
    make_run(tmp_path / "b", SUMMARY, started_at="2026-07-01T10:00:00Z")
    headings, first, second = table(tmp_path)
    place = headings.index("variant")
    assert first[place:].startswith(f"{variant}  3/3 finished")
    assert second[place:].split()[0] == "3/3"


def test_an_unknown_cost_is_named(tmp_path: Path) -> None:
    make_run(tmp_path / "a", {**SUMMARY, "model": {"model_requests": 3, "cost": None}})
    assert " unknown " in table(tmp_path)[1]


def test_json_holds_the_same_runs(tmp_path: Path) -> None:
    make_run(tmp_path / "a", SUMMARY)
    stream = io.StringIO()
    write_runs(read_run_list(tmp_path), stream)
    (run,) = json.loads(stream.getvalue())
    assert (run["name"], run["state"], run["rate"]) == ("a", "finished", 2 / 3)


def test_a_folder_without_runs_is_named(tmp_path: Path) -> None:
    assert table(tmp_path) == [f"no runs in {tmp_path}"]
    with pytest.raises(UsageError, match="is not a folder"):
        read_run_list(tmp_path / "gone")


def test_the_attempts_of_a_finished_run_are_not_read(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a", SUMMARY)
    (folder / "attempts.jsonl").unlink()
    (folder / "attempts.jsonl").mkdir()
    assert only(tmp_path).state == "finished"
