"""Records of AgentBench: the contents of each format, and refusals that name the place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from case_checks import each_case

from harness.benchmarks.agentbench.tasks import read as read_task
from harness.benchmarks.data.rows import Row
from harness.core.errors import DataError
from harness.environments.db import category as db
from harness.environments.db.category import DatabaseRecord
from harness.environments.os import category as os
from harness.environments.os.category import Match, OsRecord
from harness.environments.os.scripts import Script

SHELL: dict[str, Any] = {"description": "d", "evaluation": {"match": "x"}}
TABLE: dict[str, Any] = {
    "description": "d",
    "table": {
        "table_name": "t",
        "table_info": {"columns": [{"name": "a"}, {"name": ""}], "rows": [["1", None]]},
    },
    "type": ["INSERT"],
    "label": ["INSERT INTO t VALUES ('2', '3')"],
    "answer_md5": "[('09aa8fbf72f39362970f95a1276b957c',)]",
}
FLAT: dict[str, Any] = {"task_id": "f", "environment": "OS", "instruction": "i", "expected_output": "7"}


@dataclass(frozen=True)
class FlatRecord:
    """The fields of a flat record, as its task and its reference show them."""

    task_id: str
    category: str | None
    instruction: str
    expected_output: str


Record = OsRecord | DatabaseRecord | FlatRecord


def parse(row: Row) -> Record:
    if os.owns(row):
        return os.read_record(row)
    if db.owns(row):
        return db.read_record(row)
    task, reference = read_task(row)
    instruction = task.prompt.rpartition("Task: ")[2].rstrip("\n")
    return FlatRecord(task.id, task.category, instruction, reference.expected_output)


def read(values: dict[str, Any], **changed: Any) -> Record:
    return parse(Row({**values, **changed}, "some/file.jsonl", line=3))


def shell(**evaluation: Any) -> OsRecord:
    record = read(SHELL, evaluation=evaluation)
    assert isinstance(record, OsRecord)
    return record


@each_case(
    ("match", "expected"),
    [
        ("love", Match("love", None, True)),
        ({"answer": "a"}, Match("a", None, True)),
        ({"answer": "a", "strip": False}, Match("a", None, False)),
        ({"regex": "^a+$", "strip": True}, Match(None, "^a+$", True)),
    ],
)
def test_a_match_is_a_text_or_a_pattern(match: Any, expected: Match) -> None:
    assert shell(match=match).match == expected


@each_case(
    ("script", "expected"),
    [
        ("echo 1", Script("bash", "echo 1")),
        ({"code": "echo 1"}, Script("bash", "echo 1")),
        ({"language": "python", "code": "print(1)"}, Script("python", "print(1)")),
    ],
)
def test_a_script_has_three_forms(script: Any, expected: Script) -> None:
    assert shell(check=[None, script], example=script).checks == (None, expected)
    assert shell(check=script).checks == (expected,)


def test_a_script_may_be_a_file() -> None:
    record = read(SHELL, start={"file": "init/a.sh"}, scripts={"init/a.sh": "echo file"})
    assert isinstance(record, OsRecord)
    assert record.start == Script("bash", "echo file")


def test_values_that_upstream_ignores_are_ignored() -> None:
    record = read(SHELL, create=[None, {"language": "python", "file": "check/integer-match.py"}])
    assert isinstance(record, OsRecord)
    assert (record.inits, record.image) == ((), "default")


def test_an_example_next_to_the_evaluation_is_read() -> None:
    record = read(SHELL, example={"code": "echo x"})
    assert isinstance(record, OsRecord)
    assert record.example == Script("bash", "echo x")


def test_the_hint_of_a_record_is_not_read() -> None:
    record = read(SHELL, explanation="look under the carpet")
    assert "carpet" not in repr(record)


def test_rows_of_the_hub_have_every_field_as_null() -> None:
    nulls = dict.fromkeys(
        ["table", "evaluation", "s_expression", "start", "create", "label", "example", "task_id"]
    )
    assert isinstance(parse(Row({**nulls, **FLAT}, "x.jsonl", line=1)), FlatRecord)
    assert isinstance(parse(Row({**nulls, **SHELL}, "x.jsonl", line=1)), OsRecord)


def test_a_change_has_its_gold_in_the_label() -> None:
    record = read(TABLE)
    assert isinstance(record, DatabaseRecord)
    assert (record.kind, record.sql, record.labels) == ("INSERT", TABLE["label"][0], ())
    assert record.answer_md5 == "09aa8fbf72f39362970f95a1276b957c"
    assert (record.columns, record.rows) == (("a", ""), (("1", None),))


def test_a_question_has_its_answers_in_the_label() -> None:
    record = read(
        TABLE, type=["aggregation-SUM"], label=["1", 2.5], sql={"query": "SELECT 1"}, answer_md5=None
    )
    assert isinstance(record, DatabaseRecord)
    assert (record.kind, record.type) == ("SELECT", "aggregation-SUM")
    assert (record.labels, record.sql, record.answer_md5) == (("1", "2.5"), "SELECT 1", None)


def test_a_record_without_an_id_gets_one_from_its_place() -> None:
    assert read(TABLE).task_id == "db/file/2"
    assert read(SHELL).task_id == "os/file/2"
    assert parse(Row(SHELL, "some/file.json", item=1)).task_id == "os/file/0"


def test_flat_records_take_either_name_of_the_task_and_any_case_of_the_category() -> None:
    assert read(FLAT) == FlatRecord("f", "os", "i", "7")
    assert read({**FLAT, "instruction": None}, description="other") == FlatRecord("f", "os", "other", "7")
    assert read(FLAT, expected_output=7, task_id=3) == FlatRecord("3", "os", "i", "7")
    assert read(FLAT, expected_output=None) == FlatRecord("f", "os", "i", "")


BROKEN: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"question": "q"}, {}, "is not a record of AgentBench"),
    (SHELL, {"evaluation": {}}, "needs 'match' or 'check'"),
    (SHELL, {"evaluation": {"match": 3}}, "field 'evaluation.match': needs a string or an object"),
    (
        SHELL,
        {"evaluation": {"match": {"regex": "("}}},
        "field 'evaluation.match.regex': is not a regular expression",
    ),
    (SHELL, {"evaluation": {"check": [None]}}, "no example"),
    (SHELL, {"evaluation": {"check": []}}, "checks nothing"),
    (SHELL, {"start": {"language": "perl", "code": "1"}}, "field 'start.language'"),
    (SHELL, {"start": {"language": "bash"}}, "needs 'code' or 'file'"),
    (SHELL, {"start": {"file": "a.sh"}}, "'a.sh', which was not found"),
    (TABLE, {"table": "t"}, "field 'table'"),
    (TABLE, {"label": []}, "no gold SQL"),
    (TABLE, {"type": None}, "field 'type'"),
    (TABLE, {"answer_md5": "xyz"}, "field 'answer_md5'"),
    (
        TABLE,
        {"table": {"table_name": "t", "table_info": {"columns": [{"name": "a"}], "rows": [["1", "2"]]}}},
        "1 cells",
    ),
    (FLAT, {"environment": "general"}, "needs one of os, db"),
    (FLAT, {"instruction": " "}, "field 'instruction'"),
    (FLAT, {"expected_output": ["7"]}, "field 'expected_output'"),
]


@each_case(("values", "changed", "said"), BROKEN, ids=[said for _, _, said in BROKEN])
def test_an_unusable_record_is_refused_with_its_place(
    values: dict[str, Any], changed: dict[str, Any], said: str
) -> None:
    with pytest.raises(DataError) as caught:
        read(values, **changed)
    assert str(caught.value).startswith("some/file.jsonl:3:")
    assert said in str(caught.value)
