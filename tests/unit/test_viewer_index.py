"""The index of attempts behind the viewer: what it keeps of each line, and how it follows the file."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from case_checks import each_case
from viewer_fixtures import add_records, index_records, make_record, write_run

from harness.core.inputs.json_text import parse_json
from harness.core.types import Status
from harness.reports.viewer.attempt_query import (
    Query,
    count_categories,
    count_resolved,
    count_statuses,
    find_attempts,
    find_offset,
    list_shares,
)
from harness.reports.viewer.catalogue import Catalogue
from harness.runs import followed_index
from harness.runs.attempt_index import AttemptIndex
from harness.runs.followed_index import FinishedCount, FollowedIndex
from harness.runs.records import require_record, to_json
from harness.runs.store import ATTEMPTS
from harness.runs.stored_result import add_usage, read_usage, reduce_record

FOREVER = 3600.0


def follow(folder: Path) -> FollowedIndex:
    return advance(FollowedIndex(folder))


def advance(index: FollowedIndex) -> FollowedIndex:
    index.advance(FOREVER)
    return index


def names(index: AttemptIndex, query: Query) -> list[str]:
    return [f"{row['task_id']}#{row['attempt']}" for row in find_attempts(index, query)[1]]


def test_a_record_is_found_by_its_task_and_number(tmp_path: Path) -> None:
    records = [make_record(task, attempt) for task in range(3) for attempt in range(2)]
    add_records(tmp_path, *records)
    index = follow(tmp_path)
    offset = find_offset(index, "Task/2", 1)
    assert offset is not None
    assert index.read(offset) == records[5]
    assert find_offset(index, "Task/2", 7) is None
    assert find_offset(index, "Task/2", 2**70) is None


def test_a_run_without_an_attempt_has_an_empty_index(tmp_path: Path) -> None:
    index = follow(tmp_path)
    assert index.is_complete
    assert count_statuses(index) == {}
    assert names(index, Query(sort="task", search="x")) == []


def test_new_lines_join_the_index(tmp_path: Path) -> None:
    add_records(tmp_path, make_record(0))
    index = follow(tmp_path)
    add_records(tmp_path, make_record(1))
    assert names(advance(index), Query()) == ["Task/1#0", "Task/0#0"]


def test_a_last_line_without_its_end_waits(tmp_path: Path) -> None:
    line = to_json(make_record(1)).encode() + b"\n"
    add_records(tmp_path, make_record(0))
    index = follow(tmp_path)
    with open(tmp_path / ATTEMPTS, "ab", buffering=0) as file:
        file.write(line[:50])
        assert names(advance(index), Query()) == ["Task/0#0"]
        file.write(line[50:])
        assert names(advance(index), Query()) == ["Task/1#0", "Task/0#0"]


def test_a_file_that_was_cut_is_read_again(tmp_path: Path) -> None:
    add_records(tmp_path, make_record(0), make_record(1))
    index = follow(tmp_path)
    (tmp_path / ATTEMPTS).write_text(to_json(make_record(7)) + "\n")
    assert names(advance(index), Query()) == ["Task/7#0"]


def test_a_file_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    add_records(tmp_path, make_record(0))
    index = follow(tmp_path)
    # It is as long as the first, and so is its line.
    (tmp_path / "new").write_text((tmp_path / ATTEMPTS).read_text().replace("Task/0", "Task/4"))
    (tmp_path / "new").replace(tmp_path / ATTEMPTS)
    assert names(advance(index), Query()) == ["Task/4#0"]


def test_a_removed_folder_is_an_error(tmp_path: Path) -> None:
    index = FollowedIndex(tmp_path / "gone")
    with pytest.raises(FileNotFoundError):
        index.advance(FOREVER)


def test_the_last_record_of_a_repeated_attempt_counts(tmp_path: Path) -> None:
    add_records(
        tmp_path, make_record(0, status=Status.INFRA_ERROR), make_record(1), make_record(0), make_record(0, 1)
    )
    index = follow(tmp_path)
    assert count_statuses(index) == {Status.PASSED: 2, Status.FAILED: 1}
    assert names(index, Query(descending=False)) == ["Task/1#0", "Task/0#0", "Task/0#1"]


def test_only_first_attempts_resolve_tasks(tmp_path: Path) -> None:
    add_records(tmp_path, make_record(0, 1), make_record(1, 0), make_record(4, 0))
    index = follow(tmp_path)
    assert count_resolved(index) == 1
    assert count_categories(index) == {"graphs": (2, 1), "strings": (1, 1)}
    assert sorted(list_shares(index)) == [("graphs", 0.0), ("graphs", 1.0), ("strings", 1.0)]


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
    index = follow(tmp_path)
    assert names(index, Query(descending=False)) == ["Task/0#0", "Task/2#0"]
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
def test_the_index_holds_exactly_the_records_of_the_strict_parser(tmp_path: Path, line: str) -> None:
    (tmp_path / ATTEMPTS).write_bytes(f"{line}\n".encode())
    try:
        expected = [Status(require_record(parse_json(line.encode()))["status"])]
    except (ValueError, TypeError, KeyError):
        expected = []
    index = follow(tmp_path)
    assert [*count_statuses(index)] == expected
    assert (index.problem is None) == bool(expected)


def test_half_a_surrogate_pair_in_a_text_does_not_hide_the_record(tmp_path: Path) -> None:
    add_records(
        tmp_path, make_record(0, error="\ud800", status=Status.FAILED), make_record(1, task_id="\udfff")
    )
    index = follow(tmp_path)
    _, (first, second) = find_attempts(index, Query(descending=False))
    assert first["error"] == r"\ud800"
    assert second["task_id"] == r"\udfff"


@pytest.fixture
def index(tmp_path: Path) -> FollowedIndex:
    add_records(tmp_path, *(make_record(task, attempt) for attempt in range(2) for task in range(12)))
    return follow(tmp_path)


def test_numbers_in_ids_are_sorted_as_numbers(index: FollowedIndex) -> None:
    found = names(index, Query(sort="task", descending=False))
    assert found[:3] == ["Task/0#0", "Task/0#1", "Task/1#0"]
    assert found[-1] == "Task/11#1"
    assert names(index, Query(sort="task", descending=True)) == found[::-1]


@each_case("sort", ["status", "category", "score", "duration", "error"])
def test_each_column_sorts(index: FollowedIndex, sort: str) -> None:
    _, rows = find_attempts(index, Query(sort=sort, descending=False))
    field = "duration_seconds" if sort == "duration" else sort
    values = [row[field] for row in rows]
    if sort == "status":
        values = [list(Status).index(Status(value)) for value in values]
    assert len(set(values)) > 1
    assert values == sorted(values)


def test_status_category_and_search_are_combined(index: FollowedIndex) -> None:
    query = Query(status=Status.TIMEOUT, category="strings", search="ASSERT #1", descending=False)
    assert names(index, query) == ["Task/6#1"]
    assert names(index, Query(search="task/11 #0")) == ["Task/11#0"]
    assert names(index, Query(search="memory limit #0", descending=False)) == [
        "Task/3#0",
        "Task/7#0",
        "Task/11#0",
    ]
    assert names(index, Query(search="[a-z]")) == []
    assert names(index, Query(category="no such")) == []


def test_a_repeated_attempt_keeps_its_place_and_the_use_of_all_its_tries() -> None:
    use = {"model_requests": 2, "cost": 0.5}
    first, last = (make_record(0, status=status, metrics=use) for status in (Status.FAILED, Status.PASSED))
    index = index_records(first, make_record(1), last)
    assert list(index) == [("Task/0", 0), ("Task/1", 0)]
    result = index["Task/0", 0]
    assert (result.status, result.superseded, index.find_offset(("Task/0", 0))) == (Status.PASSED, 1, 2)
    assert result.usage == add_usage(read_usage(use), read_usage(use))


def test_results_are_read_back_as_they_were_added(tmp_path: Path) -> None:
    replayed = {"replay": "different", "observations": 3, "first_difference": "x"}
    metrics = {"integrity": "left early", "resolved_strict": False, "f1": 0.1, "mcp": {"s": {}}, **replayed}
    records = [make_record(0, metrics=metrics), make_record(1, task_id="\udfff", category="\ud800")]
    index = AttemptIndex(metrics=("f1",))
    index.add((record, 0) for record in records)
    assert dict(index) == {
        (record.task_id, record.attempt): reduce_record(record, metrics=("f1",)) for record in records
    }


def test_offsets_come_in_the_order_of_the_plan() -> None:
    keys = [("b", 1), ("b", 0), ("a", 0), ("c", 0), ("a", 2)]
    index = index_records(*(make_record(0, number, task_id=task) for task, number in keys))
    orders = [list(index.list_offsets(planned)) for planned in ((), ["a", "x", "a"], ["c", "b"])]
    assert orders == [[1, 0, 2, 4, 3], [2, 4, 1, 0, 3], [3, 1, 0, 2, 4]]


def test_a_table_that_is_read_while_it_grows_stays_whole() -> None:
    index = AttemptIndex()
    with ThreadPoolExecutor(4) as pool:
        for first in range(0, 400, 100):
            records = [make_record(task) for task in range(first, first + 100)]
            pool.submit(index.add, [(record, 0) for record in records])
            pool.submit(list, index)
    assert sorted(index) == sorted((f"Task/{task}", 0) for task in range(400))


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the kept tables. The tables of short files are kept too."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(followed_index, "KEPT_FROM_BYTES", 1)
    return tmp_path / "cache" / "harness" / "indexes"


def settle(folder: Path) -> None:
    """Date the file back, as if nobody had written to it for an hour."""
    facts = (folder / ATTEMPTS).stat()
    os.utime(folder / ATTEMPTS, (facts.st_atime, facts.st_mtime - 3600))


def fail(*_: object) -> None:
    raise AssertionError("a line was read again")


def test_a_kept_table_is_used_again_and_goes_on_with_the_file(
    tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_records(tmp_path, make_record(0), make_record(1, task_id="\ud800"))
    settle(tmp_path)
    first = dict(follow(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(followed_index, "from_json", fail)
        again = follow(tmp_path)
        assert dict(again) == first
    add_records(tmp_path, make_record(2))
    assert list(advance(again)) == [*first, ("Task/2", 0)]
    assert len([*kept.iterdir()]) == 1


@pytest.mark.parametrize("change", ["grown", "cut", "replaced", "edited"])
def test_a_kept_table_serves_only_the_file_that_it_was_made_of(
    tmp_path: Path, kept: Path, change: str
) -> None:
    add_records(tmp_path, make_record(0), make_record(1))
    settle(tmp_path)
    follow(tmp_path)
    path = tmp_path / ATTEMPTS
    lines = path.read_bytes().splitlines(keepends=True)
    if change == "grown":
        add_records(tmp_path, make_record(2))
    elif change == "replaced":
        path.rename(tmp_path / "old")
    path.write_bytes(
        {"cut": lines[0], "edited": b"".join(lines).replace(b"Task/1", b"Task/7")}.get(change)
        or (path.read_bytes() if path.exists() else b"".join(lines[::-1]))
    )
    expected = [json.loads(line)["task_id"] for line in path.read_bytes().splitlines()]
    assert [task_id for task_id, _ in follow(tmp_path)] == expected
    assert [*kept.iterdir()]


@pytest.mark.parametrize("place", ["kept", "beside"])
def test_a_table_that_is_damaged_or_lies_in_the_run_folder_is_not_read(
    tmp_path: Path, kept: Path, place: str
) -> None:
    add_records(tmp_path, *(make_record(task) for task in range(50)))
    settle(tmp_path)
    expected = dict(follow(tmp_path))
    (table,) = kept.iterdir()
    if place == "kept":
        data = bytearray(table.read_bytes())
        data[4096:8192] = b"x" * 4096
        table.write_bytes(data)
    else:
        table.rename(tmp_path / table.name)
    assert dict(follow(tmp_path)) == expected


def test_a_table_that_cannot_be_kept_is_made_each_time(
    tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    add_records(tmp_path, make_record(0))
    settle(tmp_path)
    assert [list(follow(tmp_path)) for _ in range(2)] == [[("Task/0", 0)]] * 2
    assert not kept.exists()


def test_a_table_that_nobody_has_used_for_a_month_is_removed(tmp_path: Path, kept: Path) -> None:
    kept.mkdir(parents=True)
    (kept / "old.sqlite3").touch()
    os.utime(kept / "old.sqlite3", (0, 0))
    add_records(tmp_path, make_record(0))
    settle(tmp_path)
    follow(tmp_path)
    assert [path.name for path in kept.iterdir()] != ["old.sqlite3"]
    assert not (kept / "old.sqlite3").exists()


def test_several_processes_may_keep_the_table_of_one_file(tmp_path: Path, kept: Path) -> None:
    add_records(tmp_path, *(make_record(task) for task in range(20)))
    settle(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: list(follow(tmp_path)), range(8)))
    assert found == [[(f"Task/{task}", 0) for task in range(20)]] * 8
    assert len([*kept.iterdir()]) == 1


def test_only_the_new_part_of_a_growing_file_is_read(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [make_record(0), make_record(1, status=Status.INFRA_ERROR)])
    count = FinishedCount(run)
    first = count.read()
    path = run / ATTEMPTS
    # A line that was read already, made unreadable without a change of the file's length.
    path.write_bytes(b"x" * (path.stat().st_size - 1) + b"\n")
    add_records(run, make_record(2))
    assert (first, count.read()) == (1, 2)


def test_half_a_line_waits_for_its_end_and_a_line_that_is_no_record_is_left_out(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [make_record(0)])
    count = FinishedCount(run)
    with open(run / ATTEMPTS, "ab") as file:
        file.write(b"\xffgarbage\n" + b'{"status": "')
        file.flush()
        half = count.read()
        file.write(b'passed"}\n')
    assert (half, count.read()) == (1, 2)


def test_a_file_that_is_replaced_is_counted_again(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [make_record(0), make_record(1)])
    count = FinishedCount(run)
    first = count.read()
    (run / ATTEMPTS).rename(tmp_path / "old")
    add_records(run, make_record(0))
    second = count.read()
    (run / ATTEMPTS).unlink()
    assert (first, second, count.read()) == (2, 1, 0)


def test_the_list_of_the_viewer_reads_on_in_a_long_file_until_its_count_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(tmp_path / "runs" / "long", [], planned=9, is_finished=False)
    add_records(run, *(make_record(task) for task in range(5)))
    catalogue = Catalogue(tmp_path / "runs")
    monkeypatch.setattr(followed_index, "_LINES", 2)
    monkeypatch.setattr("harness.reports.viewer.catalogue._INDEX_SECONDS", -1.0)
    looks = [catalogue.read_list().runs[0][1].finished_attempts for _ in range(4)]
    assert looks == [None, None, 5, 5]
