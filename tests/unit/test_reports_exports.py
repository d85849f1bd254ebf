"""The formats of `harness report` that other programs read."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import junitparser
import pytest
from attempt_records import make_record
from case_checks import each_case
from pyarrow import parquet

from harness.core.errors import UsageError
from harness.core.types import AttemptRecord, Status
from harness.reports.formats import choose_format, load_format
from harness.reports.run_folder import read_run
from harness.runs.records import to_json
from harness.runs.store import ATTEMPTS, MANIFEST, SUMMARY

DATA = {"kind": "path", "location": "p", "sha256": "0" * 64, "rows": 3}
HOSTILE = "]]></failure><x/> =1+1 | `a` <script>alert(1)</script> \x00\x1b[31m\u202e\ufffe\ud800 \U0001f600"
FIELDS: dict[str, Any] = {
    "metrics": {"tests": 3, "cpu_seconds": 0.1, "cost": 0.02, "input_tokens": 12},
    "agent_output": "print(1)",
    "expected_output": "1",
    "agent_output_full": "print(1)" * 200,
    "submission": "print(1)",
    "started_at": "2026-08-01T09:30:00.250Z",
}
PASSED = make_record("t/1", Status.PASSED, category="easy", **FIELDS)
FAILED = make_record("t/2", attempt=1, error="assert 1 == 2\nthe second line", **FIELDS)
LOST = make_record("t/3", Status.INFRA_ERROR, attempt=1, error="the engine is gone", **FIELDS)
CANCELLED = make_record("t/4", Status.CANCELLED, attempt=1, **FIELDS)
RECORDS = [PASSED, FAILED, LOST, CANCELLED]
# The elements and attributes that Jenkins reads, by its schema junit-10.xsd of the xUnit plugin. Each element
# has its children and its attributes. Those that must be there end in an exclamation mark.
SCHEMA = {
    "testsuites": ("testsuite", "name tests failures errors time"),
    "testsuite": (
        "properties testcase",
        "name! tests! failures! errors! skipped time timestamp hostname id package",
    ),
    "properties": ("property", ""),
    "property": ("", "name! value!"),
    "testcase": ("skipped error failure system-out system-err", "name! classname time group"),
    "failure": ("", "type message"),
    "error": ("", "type message"),
    "skipped": ("", "type message"),
    "system-out": ("", ""),
}


def write_run(folder: Path, records: list[AttemptRecord], **config: str) -> Path:
    statuses = {str(status): sum(each.status is status for each in records) for status in Status}
    summary = {
        "total": len(records),
        "attempts": len(records),
        "resolved": statuses["passed"],
        "rate": statuses["passed"] / len(records),
        "pass_at_k": {},
        "statuses": statuses,
        "by_category": {},
        "duration_seconds": 1.5,
        "source": "path",
        "model": {"model_requests": 4, "input_tokens": 48, "output_tokens": 9, "cost": 0.08},
    }
    manifest = {
        "schema_version": 1,
        "run_id": "r",
        "started_at": "2026-08-01T09:30:00Z",
        "benchmark": "mbpp",
        "agent": "chat",
        "source": "path",
        "data": DATA,
        "images": {},
        "config": {"benchmark": "mbpp", "model": "some-model", **config},
    }
    folder.mkdir(exist_ok=True)
    (folder / MANIFEST).write_text(json.dumps(manifest))
    (folder / SUMMARY).write_text(json.dumps(summary))
    (folder / ATTEMPTS).write_text("".join(f"{to_json(record)}\n" for record in records))
    return folder


def change(file: Path, **values: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", RECORDS)


def write(name: str, folder: Path, encoding: str = "utf-8") -> bytes:
    file = io.BytesIO()
    stream = io.TextIOWrapper(file, encoding=encoding, newline="\n")
    load_format(name)(read_run(folder), stream)
    stream.flush()
    return file.getvalue()


def read_rows(folder: Path) -> list[dict[str, str]]:
    return [*csv.DictReader(io.StringIO(write("csv", folder).decode(), newline=""))]


def read_table(folder: Path) -> Any:
    return parquet.read_table(io.BytesIO(write("parquet", folder)))


def check_by_schema(element: ElementTree.Element) -> None:
    """Raise AssertionError for an element or an attribute that Jenkins does not read."""
    children, attributes = (words.split() for words in SCHEMA[element.tag])
    assert {*element.keys()} <= {name.removesuffix("!") for name in attributes}
    assert {name.removesuffix("!") for name in attributes if name.endswith("!")} <= {*element.keys()}
    assert {child.tag for child in element} <= {*children}
    for child in element:
        check_by_schema(child)


def test_junit_tells_failures_errors_and_skipped_attempts_apart(run_folder: Path) -> None:
    suites = junitparser.JUnitXml.fromstring(write("junit", run_folder))
    (suite,) = suites
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (5, 1, 2, 1)
    *cases, left = suite
    assert left.name == "attempts without a verdict"
    assert left.result[0].message.startswith("stopped after 3 of 4")
    assert [case.name for case in cases] == ["t/1", "t/2 #1", "t/3 #1", "t/4 #1"]
    kinds = [type(result).__name__ for case in cases for result in case.result]
    assert kinds == ["Failure", "Error", "Skipped"]
    assert [case.classname for case in cases[:2]] == ["mbpp.easy", "mbpp"]


def test_junit_of_a_killed_run_has_an_error_for_the_attempts_that_are_left(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [PASSED])
    change(folder / MANIFEST, planned={"tasks": 3, "attempts": 3})
    (folder / SUMMARY).unlink()
    written = write("junit", folder)
    check_by_schema(ElementTree.fromstring(written))
    (suite,) = junitparser.JUnitXml.fromstring(written)
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (2, 0, 1, 0)
    left = [*suite][-1]
    assert left.name == "attempts without a verdict"
    assert left.result[0].message.startswith("interrupted: 1 of 3 attempts; to finish it: harness run")


def test_junit_of_the_bundled_sample_is_marked(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [PASSED])
    change(folder / MANIFEST, data={**DATA, "kind": "bundled"})
    (suite,) = junitparser.JUnitXml.fromstring(write("junit", folder))
    (notice,) = (each.value for each in suite.properties() if each.name == "data")
    assert "These figures are not a result" in notice


def test_junit_has_real_durations_and_the_evidence(run_folder: Path) -> None:
    (suite,) = junitparser.JUnitXml.fromstring(write("junit", run_folder))
    assert [case.time for case in suite] == [0.25] * 4 + [0.0]
    assert suite.time == 1.0
    failure = [*suite][1]
    assert failure.result[0].message == "assert 1 == 2"
    assert failure.result[0].type == "failed"
    assert "the second line" in failure.system_out
    assert "print(1)" in failure.system_out


def test_junit_begins_with_the_result_and_the_cost(run_folder: Path) -> None:
    (suite,) = junitparser.JUnitXml.fromstring(write("junit", run_folder))
    properties = {each.name: each.value for each in suite.properties()}
    assert properties["result"] == "stopped after 3 of 4: 1 passed so far"
    assert "48 tokens in, 9 out, cost 0.08" in properties["usage"]


@each_case("text", ["plain", HOSTILE, ""], ids=["plain", "hostile", "empty"])
def test_junit_has_only_what_jenkins_reads_whatever_the_texts(tmp_path: Path, text: str) -> None:
    records = [
        replace(each, task_id=f"{text}{place}", category=text, error=text, agent_output=text)
        for place, each in enumerate(RECORDS)
    ]
    folder = write_run(tmp_path / "run", records, model=text or "m")
    written = write("junit", folder, encoding="ascii")
    check_by_schema(ElementTree.fromstring(written))
    (suite,) = junitparser.JUnitXml.fromstring(written)
    assert len([*suite]) == len(records) + 1


def test_csv_has_a_row_for_each_attempt(run_folder: Path) -> None:
    rows = read_rows(run_folder)
    assert [row["task_id"] for row in rows] == ["t/1", "t/2", "t/3", "t/4"]
    first = rows[0]
    expected = {"run": "run", "benchmark": "mbpp", "agent": "chat", "model": "some-model"}
    expected |= {"tests": "3", "cost": "0.02", "score": "1.0", "category": "easy"}
    assert first.items() >= expected.items()
    assert json.loads(first["metrics"])["input_tokens"] == 12
    assert rows[1]["error"] == "assert 1 == 2\nthe second line"
    assert (rows[2]["score"], rows[2]["category"], rows[2]["tries"]) == ("", "", "")


@each_case("start", ["=", "+", "-", "@", "\t=", "  =", "\uff1d"])
def test_no_text_of_a_csv_file_is_a_formula(tmp_path: Path, start: str) -> None:
    formula = f"{start}cmd|' /C calc'!A0"
    record = replace(PASSED, task_id=formula, category=formula, agent_output=formula, expected_output=formula)
    (row,) = read_rows(write_run(tmp_path / "run", [record]))
    for name in ("task_id", "category", "agent_output", "expected_output"):
        assert row[name].startswith(("'", "\\"))
    assert row["duration_seconds"] == "0.25"


def test_a_metric_of_another_type_leaves_its_cell_empty(tmp_path: Path) -> None:
    metrics = {"tests": "many", "cost": True, "rounds": 2**70, "phase": 3, "resolved_strict": "yes"}
    (row,) = read_rows(write_run(tmp_path / "run", [replace(PASSED, metrics=metrics)]))
    assert {name: row[name] for name in metrics} == dict.fromkeys(metrics, "")
    assert json.loads(row["metrics"]) == metrics


def test_hostile_text_in_a_csv_file_is_escaped(tmp_path: Path) -> None:
    record = replace(PASSED, task_id=HOSTILE, metrics={HOSTILE: HOSTILE})
    (row,) = read_rows(write_run(tmp_path / "run", [record]))
    assert r"\x00\x1b[31m\u202e\ufffe\ud800" in row["task_id"]
    assert all(char.isprintable() for char in row["task_id"])


def test_parquet_has_whole_texts_and_types(run_folder: Path) -> None:
    table = read_table(run_folder)
    rows = table.to_pylist()
    assert [row["task_id"] for row in rows] == ["t/1", "t/2", "t/3", "t/4"]
    assert rows[0]["agent_output"] == "print(1)" * 200
    assert rows[0]["submission"] == "print(1)"
    assert rows[0]["started_at"].isoformat() == "2026-08-01T09:30:00.250000+00:00"
    assert rows[2]["score"] is None
    assert {str(table.schema.field(name).type) for name in ("score", "cost")} == {"double"}


def test_a_time_that_is_none_is_missing_in_parquet(tmp_path: Path) -> None:
    times = ["yesterday", None, "2026-08-01T09:30:00"]
    records = [replace(PASSED, task_id=str(time), started_at=time) for time in times]
    rows = read_table(write_run(tmp_path / "run", records)).to_pylist()
    assert [row["started_at"] is None for row in rows] == [True, True, False]


def test_parquet_of_hostile_text_can_be_read(tmp_path: Path) -> None:
    record = replace(PASSED, task_id=HOSTILE, submission=HOSTILE)
    (row,) = read_table(write_run(tmp_path / "run", [record])).to_pylist()
    assert row["submission"] == HOSTILE.replace("\ud800", r"\ud800")


def test_parquet_of_a_run_without_an_attempt_has_all_columns(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [PASSED])
    change(folder / SUMMARY, statuses={"cancelled": 1}, resolved=0)
    (folder / ATTEMPTS).write_text("")
    assert "submission" in read_table(folder).column_names


def test_a_format_that_is_no_text_is_not_written_to_a_terminal(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(stream, "isatty", lambda: True)
    with pytest.raises(UsageError, match="parquet is not text") as raised:
        load_format("parquet")(read_run(run_folder), stream)
    assert raised.value.hint == "add -o FILE"


def test_markdown_begins_with_the_result(tmp_path: Path) -> None:
    lines = write("markdown", write_run(tmp_path / "run", [PASSED, FAILED])).decode().splitlines()
    assert lines[0] == "### `mbpp`, `chat`, `some-model`"
    assert lines[2] == (
        "**50.0 % resolved (95 % interval 9.5 % to 90.5 %, Wilson): 1 of 2 tasks, by one attempt at each**"
    )
    assert any("48 tokens in, 9 out, cost 0.08" in line for line in lines)
    assert "| `t/2` | failed | `assert 1 == 2\\nthe second line` |" in lines


def test_an_unresolved_task_without_an_error_has_an_empty_cell_in_markdown(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [replace(FAILED, error=None)])
    assert "| `t/2` | failed |  |" in write("markdown", run).decode().splitlines()


@each_case("broken", ["{", "[]", '{"total": "x"}'])
def test_a_summary_that_cannot_be_read_can_be_removed(tmp_path: Path, broken: str) -> None:
    run = write_run(tmp_path / "run", [PASSED, FAILED])
    change(run / MANIFEST, planned={"tasks": 2, "attempts": 2, "task_ids": ["t/1", "t/2"]})
    (run / SUMMARY).write_text(broken)
    with pytest.raises(UsageError) as raised:
        read_run(run)
    assert raised.value.hint == f"remove the file; the numbers are then computed from {ATTEMPTS}"
    (run / SUMMARY).unlink()
    assert read_run(run).summary.resolved == 1


def test_hostile_text_in_markdown_stays_in_its_code_span(tmp_path: Path) -> None:
    records = [replace(FAILED, task_id=HOSTILE, category=HOSTILE, error=HOSTILE)]
    text = write("markdown", write_run(tmp_path / "run", records, model=HOSTILE)).decode()
    assert all(char == "\n" or char.isprintable() for char in text)
    for line in text.splitlines():
        spans = line.split("`")
        assert len(spans) % 2 == 1
        assert "script" not in "".join(spans[::2])


@each_case(
    ("name", "expected"),
    [
        ("a.csv", "csv"),
        ("a.md", "markdown"),
        ("a.XML", "junit"),
        ("a.parquet", "parquet"),
        ("a.html", "html"),
        ("a.txt", "table"),
        ("a.htm", "html"),
        ("a", "table"),
    ],
)
def test_the_ending_of_a_file_names_the_format(name: str, expected: str) -> None:
    assert choose_format(Path(name)) == expected


@each_case(("alias", "name"), [("md", "markdown"), ("xml", "junit")])
def test_a_format_has_the_name_of_its_files_too(run_folder: Path, alias: str, name: str) -> None:
    assert write(alias, run_folder) == write(name, run_folder)


@each_case("name", ["a.xlsx", "a.tsv", "a.jsonl"])
def test_the_ending_of_no_format_is_refused_with_all_endings(name: str) -> None:
    with pytest.raises(UsageError, match="no report format has the ending") as raised:
        choose_format(Path(name))
    assert ".csv" in str(raised.value.hint)
    assert ".txt" in str(raised.value.hint)
