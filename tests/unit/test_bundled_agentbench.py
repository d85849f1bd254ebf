"""AgentBench's bundled sample: every kind of task, and gold answers that SQLite confirms."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path

import pytest
from case_checks import each_case

from harness.benchmarks.agentbench.layout import read_layout
from harness.benchmarks.data import source
from harness.environments.db import category as db
from harness.environments.db.category import Cell, DatabaseRecord
from harness.environments.os import category as os
from harness.environments.os.category import OsRecord
from harness.environments.os.soundness import why_quarantined

SAMPLE = Path(source.__file__).parent / "bundled" / "agentbench"
# The categories whose worlds live on the host have tests of their own samples.
ROWS = [row for row in read_layout(SAMPLE, lambda _line: None)[0] if os.owns(row) or db.owns(row)]
SHELL = [os.read_record(row) for row in ROWS if os.owns(row)]
DATABASE = [db.read_record(row) for row in ROWS if db.owns(row)]
RECORDS: list[OsRecord | DatabaseRecord] = [*SHELL, *DATABASE]
QUESTIONS = [record for record in DATABASE if record.kind == "SELECT"]
CHANGES = [record for record in DATABASE if record.kind != "SELECT"]


def name(record: DatabaseRecord) -> str:
    return record.task_id


def test_the_sample_has_every_kind_of_task_and_of_script() -> None:
    matches = [record.match for record in SHELL if record.match is not None]
    checked = [record.checks for record in SHELL if record.match is None]
    starts = [record.start.code for record in SHELL if record.start]
    scripts = [script for row in ROWS if "evaluation" in row.values for script in _scripts(dict(row.values))]
    forms = {tuple(sorted(script)) if isinstance(script, dict) else type(script) for script in scripts}
    sums = {f"aggregation-{name}" for name in ("SUM", "AVG", "MAX", "MIN")}
    found = {
        "ways to match": {(match.text is not None, match.strip) for match in matches}
        >= {(True, True), (True, False), (False, True)},
        "a computed answer": any(None in checks for checks in checked),
        "several checks": any(len(checks) > 2 for checks in checked),
        "languages": {script.language for checks in checked for script in checks if script}
        == {"bash", "python"},
        "forms of a script": forms >= {str, ("code",), ("file",), ("code", "language"), ("file", "language")},
        "a job in the background": any(start.rstrip().endswith("&") for start in starts),
        "a folder": any(start.startswith("cd ") for start in starts),
        "a variable": any("=" in start and " " not in start for start in starts),
        "kinds of queries": {record.type for record in DATABASE}
        == {"counting", "ranking", "comparison", "other", "INSERT", "UPDATE", "DELETE"} | sums,
        "a change without a hash": any(record.answer_md5 is None for record in CHANGES),
        "a column without a name": any("" in record.columns for record in DATABASE),
    }
    assert [name for name, is_there in found.items() if not is_there] == []


def _scripts(values: dict[str, object]) -> list[object]:
    evaluation, create = values["evaluation"], values.get("create")
    assert isinstance(evaluation, dict)
    assert isinstance(create, dict)
    found: list[object] = []
    for each in (evaluation.get("check"), evaluation.get("example"), create.get("init")):
        found.extend(each if isinstance(each, list) else [each])
    return [script for script in found if script is not None]


def test_a_constant_answer_fails() -> None:
    answers = [record.match.text for record in SHELL if record.match] + [r.labels[0] for r in QUESTIONS]
    assert {"0", ""}.isdisjoint(answers)


def test_no_task_of_ours_is_quarantined() -> None:
    assert [record.task_id for record in RECORDS if why_quarantined(record.task_id)] == []


@each_case("record", QUESTIONS, ids=name)
def test_the_query_of_a_question_gives_its_answer(record: DatabaseRecord) -> None:
    database = opened(record)
    assert record.sql is not None
    found = [value for row in database.execute(record.sql) for value in row]
    if record.labels == ("none",):
        assert found == []
    elif all(_is_number(label) for label in record.labels):
        assert [float(value) for value in found] == pytest.approx(
            [float(label) for label in record.labels], abs=0.01
        )
    else:
        assert found == list(record.labels)


@each_case("record", CHANGES, ids=name)
def test_the_statement_of_a_change_leaves_the_published_hash(record: DatabaseRecord) -> None:
    database = opened(record)
    before = hashed(database, record.table)
    assert record.sql is not None
    assert database.execute(record.sql).rowcount > 0
    after = hashed(database, record.table)
    assert after != before
    if record.answer_md5 is not None:
        assert after == record.answer_md5


def test_prompts_hold_the_task_and_neither_gold_nor_a_limit_that_the_run_decides() -> None:
    for record in SHELL:
        prompt = os.show_prompt(record)
        assert record.description in prompt
        assert "rounds" not in prompt
        assert record.example is None or record.example.code not in prompt
    for kept in DATABASE:
        prompt = db.show_prompt(kept)
        assert kept.description in prompt
        assert "rounds" not in prompt
        assert "SQLite" in prompt
        assert kept.table in prompt
        assert kept.sql is None or kept.sql not in prompt


def opened(record: DatabaseRecord) -> sqlite3.Connection:
    """Return a database with the record's table, whose unnamed column becomes `column_1`."""
    database = sqlite3.connect(":memory:")
    columns = ", ".join(f"`{column or 'column_1'}` TEXT" for column in record.columns)
    database.execute(f"CREATE TABLE `{record.table}` ({columns})")
    marks = ", ".join("?" * len(record.columns))
    database.executemany(f"INSERT INTO `{record.table}` VALUES ({marks})", record.rows)
    return database


def hashed(database: sqlite3.Connection, table: str) -> str:
    """Return upstream's hash of a table: of each row five digits, sorted."""
    rows: list[tuple[Cell, ...]] = database.execute(f"SELECT * FROM `{table}`").fetchall()
    cells = (",".join(str(cell) for cell in row if cell is not None) for row in rows)
    return md5(",".join(sorted(md5(row)[:5] for row in cells)))


def md5(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()


def _is_number(text: str) -> bool:
    try:
        return isinstance(json.loads(text), int | float)
    except ValueError:
        return False
