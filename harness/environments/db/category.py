"""AgentBench's `dbbench`: records of tasks on one table, the trial of their references, and the oracle.

Source: the task `dbbench` of AgentBench (Liu et al. 2023, arXiv 2308.03688).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.benchmarks.benchmark import CategoryFacts
from harness.benchmarks.category import (
    Category,
    CategoryFiles,
    CategoryOptions,
    Outcome,
    name_record,
    success_rate,
)
from harness.benchmarks.data.rows import Row, describe
from harness.core.types import Reference, Task
from harness.environments.db.client import Table, TableUnreadable, replay_all
from harness.environments.db.environment import Database, DatabaseSetup, make_table, play
from harness.environments.db.grader import DatabaseAnswer, DatabaseState, is_hash_of
from harness.sandbox.pool import SandboxPool, SandboxSettings

NAME, FOLDER = "db", "dbbench"
AVERAGED_KINDS = ("SELECT", "INSERT", "UPDATE")
"""The kinds in the mean that is upstream's database score. DELETE is reported but not counted."""

_RECORDS = re.compile(r"[^/]+\.jsonl?", re.IGNORECASE)
_MUTATIONS = ("INSERT", "UPDATE", "DELETE")
_HASH = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")
# The time for the trial of all references, in seconds, and the time that each of them adds.
_SECONDS, _SECONDS_EACH = 30.0, 20.0

_PROMPT = """\
You work on a SQLite database with the tool `sql`, which runs SQL and returns the first rows. The dialect is \
SQLite's, and every column is of type TEXT: use CAST to compare or sum numbers, mind that a cell may hold \
thousands separators, units or blanks, and quote the names of tables and columns: "like this".

{end}

{about}Task: {task}
"""
_SELECT_END = """\
When you know the answer, call `submit` with a JSON list of strings, one for each value asked for, as the \
table has them: ["42"] or ["Ada", "Grace"]. Where nothing fits, submit ["none"]."""
_MUTATION_END = """\
Change the table as the task says, once and nothing else in it: the state of the table is what counts. \
Then call `submit` with `done`."""
_PUBLISHED_PROMPT = """\
You work on a SQLite database with the tool `execute_sql`, which runs SQL and returns the first rows. The \
dialect is SQLite's, and every column is of type TEXT: use CAST to compare or sum numbers, and quote the \
names of tables and columns: "like this". When you know the answer, call `commit_final_answer` with a list \
of texts, one for each value asked for, as the table has them. Where the question asks for a change, make \
it, and then commit any list.

{about}Question: {task}
"""

Cell = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class DatabaseRecord:
    """A task on one table."""

    task_id: str
    description: str
    add_description: str
    table: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    type: str
    """The type as the data names it."""
    kind: str
    """SELECT, INSERT, UPDATE or DELETE."""
    labels: tuple[str, ...]
    """The gold answers of a SELECT."""
    sql: str | None
    """The gold SQL of a task that changes the table."""
    answer_md5: str | None
    """The hash of the table after `sql`, 32 hexadecimal digits, None if the record has none."""


def list_rows(files: CategoryFiles, _options: CategoryOptions) -> Iterator[Row]:
    """Yield the records of the folder's files. Raises DataError."""
    for name in files.tree.contents:
        if _RECORDS.fullmatch(name):
            yield from files.parse(name)


def owns(row: Row) -> bool:
    """Return whether a row is one of upstream's records of this category."""
    # The hub's rows have every field of every record, as null.
    return row.values.get("table") is not None


def read(row: Row, options: CategoryOptions) -> tuple[Task, Reference]:
    """Return the task and the reference of a record. Raises DataError with the row's place and the field."""
    record = read_record(row)
    try:
        table = make_table(record.table, record.columns, record.rows)
    except ValueError as error:
        raise row.error(str(error), field="table") from error
    setup = DatabaseSetup((table,))
    evidence = row.optional_text("evidence") or ""
    prompt = show_prompt(record, evidence) if options.protocol == "fc" else show_prompt(record)
    task = Task(record.task_id, "agentbench", NAME, prompt, category=NAME, setup=setup)
    if record.kind == "SELECT":
        answer = json.dumps(record.labels, ensure_ascii=False)
        return task, Reference(record.task_id, answer, DatabaseAnswer(record.labels), answer)
    sql = str(record.sql)
    target = DatabaseState((table,), table.name, sql, record.answer_md5)
    return task, Reference(record.task_id, sql, target, sql)


def show_prompt(record: DatabaseRecord, evidence: str | None = None) -> str:
    """Return the prompt of a task. It names the table and its columns, as upstream's does.

    `evidence`, which may be empty, is for the published function calls, whose prompt begins with it.
    """
    about = record.add_description.strip() or (
        f"The table is named {record.table}; its columns are {', '.join(record.columns)}."
    )
    if evidence is not None:
        facts = "\n".join(filter(None, (evidence.strip(), about)))
        return _PUBLISHED_PROMPT.format(about=f"{facts}\n\n", task=record.description.strip())
    end = _SELECT_END if record.kind == "SELECT" else _MUTATION_END
    return _PROMPT.format(end=end, about=f"{about}\n\n", task=record.description.strip())


async def solve(environment: Database, reference: Reference) -> str:
    """Change the table as the reference does, if it does, and return the answer."""
    if not isinstance(reference.target, DatabaseState):
        return reference.solution
    # A failure needs no report here, because the grader runs the same SQL and reports it.
    await play(environment, reference.solution)
    return "done"


async def find_unsound(
    pool: SandboxPool, settings: SandboxSettings, tried: Sequence[tuple[Task, Reference]]
) -> Mapping[str, str]:
    """Return the reason for each reference that no grader can rely on, by task id. Raises SandboxError."""
    states = {
        reference.task_id: reference.target
        for _task, reference in tried
        if isinstance(reference.target, DatabaseState)
    }
    if not states:
        return {}
    async with pool.lease(settings, seconds=_SECONDS + _SECONDS_EACH * len(states)) as sandbox:
        made = await replay_all(sandbox, [state.change for state in states.values()])
    reasons = (why_unsound(state, table) for state, table in zip(states.values(), made, strict=True))
    return {task_id: reason for task_id, reason in zip(states, reasons, strict=True) if reason is not None}


def why_unsound(state: DatabaseState, made: Table | TableUnreadable) -> str | None:
    """Return the reason why no grader can rely on a state, or None for a sound one.

    `made` is the table after the state's own SQL. If the published hash belongs to the table before it,
    MySQL refused the SQL. MySQL refuses more than SQLite does, for instance an UPDATE that compares a number
    with a text such as `2012-13`.
    """
    if isinstance(made, TableUnreadable):
        return f"its reference's own SQL fails: {made}"
    published = state.published_hash
    if published is None or is_hash_of(published, made.rows) or not is_hash_of(published, state.before.rows):
        return None
    return (
        "its published hash belongs to the unchanged table, because its reference's own SQL failed upstream"
    )


def score(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the mean of the success rates of three kinds of tasks, and the rate of each kind."""
    kinds: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        kinds.setdefault(outcome.kind or "SELECT", []).append(outcome)
    averaged = [success_rate(kinds[kind]) for kind in AVERAGED_KINDS if kind in kinds]
    return {
        "score": sum(averaged) / len(averaged) if averaged else None,
        "kinds": {
            kind: {"score": success_rate(kinds[kind]), "tasks": len(kinds[kind])} for kind in sorted(kinds)
        },
        "missing_kinds": [kind for kind in AVERAGED_KINDS if kind not in kinds],
    }


def find_kind(values: Mapping[str, Any]) -> str | None:
    """Return SELECT, INSERT, UPDATE or DELETE for one of upstream's records on a table, else None."""
    types = values.get("type")
    kind = types[0] if isinstance(types, list) and types else types
    if not isinstance(kind, str):
        return None
    return kind.upper() if kind.upper() in _MUTATIONS else "SELECT"


def read_record(row: Row) -> DatabaseRecord:
    """Return the record of a row. Raises DataError with the row's place and the field."""
    tables = row.values["table"]
    table = tables[0] if isinstance(tables, list) and len(tables) == 1 else tables
    info = table.get("table_info") if isinstance(table, Mapping) else None
    if not isinstance(table, Mapping) or not isinstance(info, Mapping):
        raise row.error(f"needs one table with its table_info, found {describe(tables)}", field="table")
    name = table.get("table_name")
    if not isinstance(name, str) or not name:
        raise row.error(f"needs a name, found {describe(name)}", field="table.table_name")
    columns = tuple(_column(row, column) for column in _list(row, "table.table_info.columns", info))
    if not columns:
        raise row.error("has no column", field="table.table_info.columns")
    types, kind = row.values.get("type"), find_kind(row.values)
    if kind is None:
        raise row.error(f"needs a kind of task, found {describe(types)}", field="type")
    mutation = kind in _MUTATIONS
    labels = tuple(_label(row, label) for label in _list(row, "label", row.values))
    if mutation and not labels:
        raise row.error("has no gold SQL", field="label")
    sql = row.values.get("sql")
    query = sql.get("query") if isinstance(sql, Mapping) else sql
    return DatabaseRecord(
        task_id=name_record(row, NAME),
        description=row.text("description"),
        add_description=row.optional_text("add_description") or "",
        table=name,
        columns=columns,
        rows=tuple(
            _cells(row, place, cells, len(columns))
            for place, cells in enumerate(_list(row, "table.table_info.rows", info))
        ),
        type=types[0] if isinstance(types, list) else str(types),
        kind=kind,
        labels=() if mutation else labels,
        sql=labels[0] if mutation else query if isinstance(query, str) else None,
        answer_md5=_hash(row) if mutation else None,
    )


def _list(row: Row, field: str, values: Mapping[str, Any]) -> list[Any]:
    value = values.get(field.rpartition(".")[2])
    if not isinstance(value, list):
        raise row.error(f"needs a list, found {describe(value)}", field=field)
    return value


def _column(row: Row, column: Any) -> str:
    name = column.get("name") if isinstance(column, Mapping) else column
    if not isinstance(name, str):
        raise row.error(f"needs columns with names, found {describe(name)}", field="table.table_info.columns")
    return name


def _cells(row: Row, place: int, cells: Any, width: int) -> tuple[Cell, ...]:
    field = f"table.table_info.rows[{place}]"
    if not isinstance(cells, list) or len(cells) != width:
        raise row.error(f"needs {width} cells, found {describe(cells)}", field=field)
    for cell in cells:
        if not isinstance(cell, str | int | float | None):
            raise row.error(f"needs plain cells, found {describe(cell)}", field=field)
    return tuple(cells)


def _label(row: Row, label: Any) -> str:
    if isinstance(label, str):
        return label
    if not isinstance(label, int | float | None):
        raise row.error(f"needs plain answers, found {describe(label)}", field="label")
    return json.dumps(label)


def _hash(row: Row) -> str | None:
    text = row.optional_text("answer_md5")
    if not text:
        return None
    found = _HASH.search(text.lower())
    if found is None:
        raise row.error(f"needs 32 hexadecimal digits, found {describe(text)}", field="answer_md5")
    return found[0]


CATEGORY = Category(
    name=NAME,
    place=2,
    weight=13.0,
    aliases=("dbbench", "database"),
    facts=CategoryFacts(
        task="answer a question from a SQLite database, or change it",
        bundled="15 tasks of ours",
        bring="data/dbbench/",
    ),
    folders=(FOLDER,),
    is_needed=lambda name: _RECORDS.fullmatch(name) is not None,
    rows=list_rows,
    owns=owns,
    read=read,
    flat_prompt=_PROMPT.replace("{about}", ""),
    flat_setup=DatabaseSetup(()),
    solve=solve,
    rehearse=find_unsound,
    turns={"fc": 15},
    find_kind=find_kind,
    score=score,
    measure="mean of the accuracies of SELECT, INSERT and UPDATE",
)
