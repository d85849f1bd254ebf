"""The index of attempts behind the viewer: what it keeps of each line, and how it follows the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from case_checks import each_case
from viewer_fixtures import add_records, make_record

from harness.core.types import Status
from harness.reports.viewer.attempt_index import AttemptIndex, IndexedAttempts
from harness.reports.viewer.attempt_query import Query, describe_rows, find_attempts
from harness.runs.records import from_json, to_json
from harness.runs.store import ATTEMPTS

FOREVER = 3600.0


def follow(folder: Path) -> tuple[AttemptIndex, IndexedAttempts]:
    index = AttemptIndex(folder)
    return index, index.advance(FOREVER)


def names(indexed: IndexedAttempts, query: Query) -> list[str]:
    rows = describe_rows(indexed, find_attempts(indexed, query).tolist())
    return [f"{row['task_id']}#{row['attempt']}" for row in rows]


def test_a_record_is_found_by_its_task_and_number(tmp_path: Path) -> None:
    records = [make_record(task, attempt) for task in range(3) for attempt in range(2)]
    add_records(tmp_path, *records)
    index, indexed = follow(tmp_path)
    row = indexed.find("Task/2", 1)
    assert row is not None
    assert index.read(int(indexed.offsets[row])) == records[5]
    assert indexed.find("Task/2", 7) is None
    assert indexed.find("Task/2", 2**70) is None


def test_a_run_without_an_attempt_has_an_empty_index(tmp_path: Path) -> None:
    index, indexed = follow(tmp_path)
    assert index.is_complete
    assert indexed.count_statuses() == {}
    assert names(indexed, Query(sort="task", search="x")) == []


def test_new_lines_join_the_index(tmp_path: Path) -> None:
    add_records(tmp_path, make_record(0))
    index, _ = follow(tmp_path)
    add_records(tmp_path, make_record(1))
    assert names(index.advance(FOREVER), Query()) == ["Task/1#0", "Task/0#0"]


def test_a_last_line_without_its_end_waits(tmp_path: Path) -> None:
    line = to_json(make_record(1)).encode() + b"\n"
    add_records(tmp_path, make_record(0))
    index, _ = follow(tmp_path)
    with open(tmp_path / ATTEMPTS, "ab", buffering=0) as file:
        file.write(line[:50])
        assert names(index.advance(FOREVER), Query()) == ["Task/0#0"]
        file.write(line[50:])
        assert names(index.advance(FOREVER), Query()) == ["Task/1#0", "Task/0#0"]


def test_a_file_that_was_cut_is_read_again(tmp_path: Path) -> None:
    add_records(tmp_path, make_record(0), make_record(1))
    index, _ = follow(tmp_path)
    (tmp_path / ATTEMPTS).write_text(to_json(make_record(7)) + "\n")
    assert names(index.advance(FOREVER), Query()) == ["Task/7#0"]


def test_a_file_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    add_records(tmp_path, make_record(0))
    index, _ = follow(tmp_path)
    # It is as long as the first, and so is its line.
    (tmp_path / "new").write_text((tmp_path / ATTEMPTS).read_text().replace("Task/0", "Task/4"))
    (tmp_path / "new").replace(tmp_path / ATTEMPTS)
    assert names(index.advance(FOREVER), Query()) == ["Task/4#0"]


def test_a_removed_folder_is_an_error(tmp_path: Path) -> None:
    index = AttemptIndex(tmp_path / "gone")
    with pytest.raises(FileNotFoundError):
        index.advance(FOREVER)


def test_the_last_record_of_a_repeated_attempt_counts(tmp_path: Path) -> None:
    add_records(
        tmp_path, make_record(0, status=Status.INFRA_ERROR), make_record(1), make_record(0), make_record(0, 1)
    )
    _, indexed = follow(tmp_path)
    assert indexed.count_statuses() == {Status.PASSED: 2, Status.FAILED: 1}
    assert names(indexed, Query(descending=False)) == ["Task/1#0", "Task/0#0", "Task/0#1"]


def test_only_first_attempts_resolve_tasks(tmp_path: Path) -> None:
    add_records(tmp_path, make_record(0, 1), make_record(1, 0), make_record(4, 0))
    _, indexed = follow(tmp_path)
    assert indexed.count_resolved() == 1
    assert indexed.count_categories() == {"graphs": (2, 1), "strings": (1, 1)}
    assert sorted(indexed.list_shares()) == [("graphs", 0.0), ("graphs", 1.0), ("strings", 1.0)]


@each_case(
    "line",
    [
        "not json",
        "",
        "[]",
        "[" * 100_000,
        json.dumps({"task_id": "x"}),
        to_json(make_record(1)).replace('"failed"', '"no such status"'),
        to_json(make_record(1)).replace('"resolved": false', '"resolved": true'),
        to_json(make_record(1)).replace('"attempt": 0', f'"attempt": {2**70}'),
        to_json(make_record(1)).replace('"score": 0.0', '"score": NaN'),
        to_json(make_record(1)).replace('"duration_seconds": 7.0', '"duration_seconds": Infinity'),
        to_json(make_record(1)) + to_json(make_record(3)),
    ],
    ids=[
        *("text", "empty", "list", "nested", "few fields", "status", "resolved", "huge number"),
        *("nan", "infinity", "two records"),
    ],
)
def test_a_line_that_is_no_record_is_left_out_and_named(tmp_path: Path, line: str) -> None:
    lines = [to_json(make_record(0)), line, to_json(make_record(2))]
    (tmp_path / ATTEMPTS).write_text("".join(f"{each}\n" for each in lines))
    index, indexed = follow(tmp_path)
    assert names(indexed, Query(descending=False)) == ["Task/0#0", "Task/2#0"]
    assert index.problem is not None
    assert f"{ATTEMPTS}:2: is not an attempt record" in index.problem


RECORD = to_json(make_record(1))


def add_field(text: str) -> str:
    return f"{RECORD[:-1]}, {text}}}"


@each_case(
    "line",
    [
        RECORD,
        add_field('"x": 1'),
        add_field('"x": ' + "[" * 100_000 + "]" * 100_000),
        add_field('"status": "passed", "resolved": true'),
        add_field('"status": "passed"'),
        '{"status": "passed", "resolved": true, ' + RECORD[1:],
        add_field(r'"st\u0061tus": "passed", "resolve\u0064": true'),
        RECORD.replace('"status"', r'"st\u0061tus"'),
        RECORD.replace('"agent_output": "', '"agent_output": 5, "agent_output_full": "'),
        RECORD.replace('"metrics"', '"metric"'),
        RECORD.replace('"attempt": 0', '"attempt": 0.0'),
        RECORD.replace('"attempt": 0', '"attempt": true'),
        RECORD.replace('"attempt": 0', '"attempt": -0'),
        RECORD.replace('"score": 0.0', '"score": 0'),
        RECORD.replace('"score": 0.0', f'"score": {10**40}'),
        RECORD.replace('"score": 0.0', '"score": 1e999'),
        RECORD.replace('"rounds": 1', f'"rounds": {"1" * 301}'),
        RECORD.replace('"rounds": 1', '"rounds": [{"a": -1e400}]'),
        RECORD.replace('"rounds": 1', '"rounds": NaN'),
        *(RECORD.replace('"rounds": 1', f'"rounds": {"[" * n + "]" * n}') for n in (97, 98, 99, 100, 150)),
        RECORD.replace('"error": "', r'"error": "\ud800'),
        RECORD.replace('"error": "', '"error": "\x01'),
        "\ufeff" + RECORD,
        f" {RECORD} ",
        RECORD + "\r",
        RECORD + " x",
    ],
)
def test_the_viewer_shows_exactly_the_records_that_other_commands_read(tmp_path: Path, line: str) -> None:
    (tmp_path / ATTEMPTS).write_bytes(f"{line}\n".encode())
    try:
        expected = [from_json(line.encode()).status]
    except (ValueError, TypeError, KeyError):
        expected = []
    index, indexed = follow(tmp_path)
    assert [*indexed.count_statuses()] == expected
    assert (index.problem is None) == bool(expected)


def test_half_a_surrogate_pair_in_a_text_does_not_hide_the_record(tmp_path: Path) -> None:
    add_records(
        tmp_path, make_record(0, error="\ud800", status=Status.FAILED), make_record(1, task_id="\udfff")
    )
    _, indexed = follow(tmp_path)
    (first, second) = describe_rows(indexed, [0, 1])
    assert first["error"] == r"\ud800"
    assert second["task_id"] == r"\udfff"


def test_many_small_parts_are_joined(tmp_path: Path) -> None:
    index = AttemptIndex(tmp_path)
    for task in range(70):
        add_records(tmp_path, make_record(task))
        indexed = index.advance(FOREVER)
    assert indexed.table["task_id"].num_chunks < 70
    assert names(indexed, Query(sort="task", descending=False)) == [f"Task/{task}#0" for task in range(70)]


@pytest.fixture
def indexed(tmp_path: Path) -> IndexedAttempts:
    add_records(tmp_path, *(make_record(task, attempt) for attempt in range(2) for task in range(12)))
    return follow(tmp_path)[1]


def test_numbers_in_ids_are_sorted_as_numbers(indexed: IndexedAttempts) -> None:
    found = names(indexed, Query(sort="task", descending=False))
    assert found[:3] == ["Task/0#0", "Task/0#1", "Task/1#0"]
    assert found[-1] == "Task/11#1"
    assert names(indexed, Query(sort="task", descending=True)) == found[::-1]


@each_case("sort", ["status", "category", "score", "duration", "error"])
def test_each_column_sorts(indexed: IndexedAttempts, sort: str) -> None:
    rows = describe_rows(indexed, find_attempts(indexed, Query(sort=sort, descending=False)).tolist())
    field = "duration_seconds" if sort == "duration" else sort
    values = [row[field] for row in rows]
    if sort == "status":
        values = [list(Status).index(Status(value)) for value in values]
    assert len(set(values)) > 1
    assert values == sorted(values)


def test_status_category_and_search_are_combined(indexed: IndexedAttempts) -> None:
    query = Query(status=Status.TIMEOUT, category="strings", search="ASSERT #1", descending=False)
    assert names(indexed, query) == ["Task/6#1"]
    assert names(indexed, Query(search="task/11 #0")) == ["Task/11#0"]
    assert names(indexed, Query(search="memory limit #0", descending=False)) == [
        "Task/3#0",
        "Task/7#0",
        "Task/11#0",
    ]
    assert names(indexed, Query(search="[a-z]")) == []
    assert names(indexed, Query(category="no such")) == []
