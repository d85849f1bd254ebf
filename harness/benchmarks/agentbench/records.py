"""A record of AgentBench's data, in upstream's format or the flat one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from harness.benchmarks.agentbench.category import CATEGORIES, category_of
from harness.benchmarks.data.rows import Row, describe

SCRIPTS = "scripts"
"""The field with the texts of the script files that a record names. `layout` adds it."""
TASK_ID = "task_id"
SHELL_TASK = "evaluation"
"""The field that is an object in records of shell tasks only."""
LANGUAGES = ("bash", "python", "c", "c++")

_MUTATIONS = ("INSERT", "UPDATE", "DELETE")
_HASH = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")
_SUFFIX = re.compile(r"\.jsonl?(\.gz)?$", re.IGNORECASE)
# The number of field names in an error about a row that is no record.
_SHOWN_FIELDS = 8


@dataclass(frozen=True, slots=True)
class Script:
    """Code that runs in a task's environment. `language` is one of LANGUAGES."""

    language: str
    code: str


@dataclass(frozen=True, slots=True)
class Match:
    """A rule: the answer equals `text` or has a match of `pattern`; `strip` first removes outer blanks."""

    text: str | None
    pattern: str | None
    strip: bool


@dataclass(frozen=True, slots=True)
class OsRecord:
    """A task in a shell, graded by `match` or by `checks`."""

    task_id: str
    description: str
    image: str
    """The name of one of upstream's images."""
    inits: tuple[Script, ...]
    """The scripts that run before the agent."""
    start: Script | None
    """The script that runs in the agent's shell before the agent acts."""
    match: Match | None
    checks: tuple[Script | None, ...]
    """The scripts of the check, in which None stands for `example`."""
    example: Script | None
    labels: tuple[str, ...]


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


@dataclass(frozen=True, slots=True)
class FlatRecord:
    """A task of any category that is graded by a text, which the answer should contain."""

    task_id: str
    category: str
    instruction: str
    expected_output: str


Record = OsRecord | DatabaseRecord | FlatRecord


def parse(row: Row) -> Record:
    """Return the record of a row in either format. Raises DataError with the row's place and the field."""
    match category_by_fields(row):
        case "os":
            return _os(row)
        case "db":
            return _database(row)
        case _:
            return _flat(row)


def category_by_fields(row: Row) -> str:
    """Return the category of one of upstream's records by its fields, or `flat`. Raises DataError.

    Records of the worlds on the host are known by `Category.owns` before.
    """

    def has(field: str) -> bool:
        # The hub's rows have every field of every record, as null.
        return row.values.get(field) is not None

    if isinstance(row.values.get(SHELL_TASK), Mapping):
        return "os"
    if has("table"):
        return "db"
    if has("s_expression"):
        return "kg"
    if has("environment") or has("expected_output"):
        return "flat"
    raise row.error(
        f"is not a record of AgentBench: its fields are {_list_fields(row)}",
        hint="a record has evaluation (os), table (db), s_expression (kg), story_keys (lateral), "
        "or environment and expected_output (flat); "
        "web is read by the names of its files, and house from lists of games",
    )


def _list_fields(row: Row) -> str:
    names = sorted(row.values)
    more = f" and {len(names) - _SHOWN_FIELDS:,} more" if len(names) > _SHOWN_FIELDS else ""
    return f"{', '.join(names[:_SHOWN_FIELDS]) or 'none'}{more}"


def kind_of(values: Mapping[str, Any]) -> str | None:
    """Return SELECT, INSERT, UPDATE or DELETE for one of upstream's records on a table, else None."""
    types = values.get("type")
    kind = types[0] if isinstance(types, list) and types else types
    if not isinstance(kind, str):
        return None
    return kind.upper() if kind.upper() in _MUTATIONS else "SELECT"


def script_files(row: Row) -> Iterator[str]:
    """Yield the script files that a record of a shell task names, in the order of the record."""
    evaluation = row.values.get("evaluation")
    created = row.values.get("create")
    inits = created.get("init") if isinstance(created, Mapping) else None
    checked = [evaluation.get(key) for key in ("check", "example")] if isinstance(evaluation, Mapping) else []
    for value in [inits, row.values.get("start"), *checked, row.values.get("example")]:
        for script in value if isinstance(value, list) else [value]:
            if isinstance(script, Mapping) and isinstance(script.get("file"), str):
                yield script["file"]


def _os(row: Row) -> OsRecord:
    evaluation: Mapping[str, Any] = row.values["evaluation"]
    # One of upstream's records has a list here, which upstream ignores.
    created = row.values.get("create")
    create: Mapping[str, Any] = created if isinstance(created, Mapping) else {}
    match, check = evaluation.get("match"), evaluation.get("check")
    if match is None and check is None:
        raise row.error("needs 'match' or 'check'", field="evaluation")
    # One of upstream's records has its example outside of the evaluation.
    example = evaluation.get("example")
    example = row.values.get("example") if example is None else example
    record = OsRecord(
        task_id=_task_id(row, "os"),
        description=row.text("description"),
        image=str(create.get("local") or "default"),
        inits=tuple(_scripts(row, "create.init", create.get("init"))),
        start=_script(row, "start", row.values["start"]) if row.values.get("start") is not None else None,
        match=None if match is None else _match(row, match),
        checks=() if match is not None else tuple(_checks(row, check)),
        example=None if not example else _script(row, "evaluation.example", example),
        labels=tuple(row.texts("labels")) if row.values.get("labels") is not None else (),
    )
    if None in record.checks and record.example is None:
        raise row.error(
            "has a null, which stands for the example, but the record has no example",
            field="evaluation.check",
        )
    return record


def _match(row: Row, match: Any) -> Match:
    field = "evaluation.match"
    if isinstance(match, str):
        return Match(match, None, strip=True)
    if not isinstance(match, Mapping):
        raise row.error(f"needs a string or an object, found {describe(match)}", field=field)
    text, pattern, strip = match.get("answer"), match.get("regex"), match.get("strip", True)
    if text is None and pattern is None:
        raise row.error("needs 'answer' or 'regex'", field=field)
    for value in (text, pattern):
        if not isinstance(value, str | None):
            raise row.error(f"needs strings, found {describe(value)}", field=field)
    if text is not None:
        return Match(text, None, bool(strip))
    try:
        re.compile(str(pattern))
    except re.error as error:
        raise row.error(f"is not a regular expression: {error}", field=f"{field}.regex") from error
    return Match(None, pattern, bool(strip))


def _scripts(row: Row, field: str, value: Any) -> Iterator[Script]:
    for script in value if isinstance(value, list) else [value]:
        if script is not None:
            yield _script(row, field, script)


def _checks(row: Row, value: Any) -> Iterator[Script | None]:
    field = "evaluation.check"
    checks = value if isinstance(value, list) else [value]
    if not checks:
        raise row.error("is an empty list, so that it checks nothing", field=field)
    for script in checks:
        yield None if script is None else _script(row, field, script)


def _script(row: Row, field: str, value: Any) -> Script:
    if isinstance(value, str):
        return Script("bash", value)
    if not isinstance(value, Mapping):
        raise row.error(f"needs a script, found {describe(value)}", field=field)
    language = value.get("language") or "bash"
    if language not in LANGUAGES:
        raise row.error(
            f"needs one of {', '.join(LANGUAGES)}, found {describe(language)}", field=f"{field}.language"
        )
    file, code = value.get("file"), value.get("code")
    if isinstance(file, str):
        texts = row.values.get(SCRIPTS)
        if not isinstance(texts, Mapping) or file not in texts:
            raise row.error(
                f"names the script {file!r}, which was not found",
                field=f"{field}.file",
                hint="scripts are read from the folder scripts/ next to data/; "
                "give the path of the whole folder os_interaction/",
            )
        return Script(language, texts[file])
    if not isinstance(code, str):
        raise row.error("needs 'code' or 'file'", field=field)
    return Script(language, code)


def _database(row: Row) -> DatabaseRecord:
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
    types, kind = row.values.get("type"), kind_of(row.values)
    if kind is None:
        raise row.error(f"needs a kind of task, found {describe(types)}", field="type")
    mutation = kind in _MUTATIONS
    labels = tuple(_label(row, label) for label in _list(row, "label", row.values))
    if mutation and not labels:
        raise row.error("has no gold SQL", field="label")
    sql = row.values.get("sql")
    query = sql.get("query") if isinstance(sql, Mapping) else sql
    return DatabaseRecord(
        task_id=_task_id(row, "db"),
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


def _flat(row: Row) -> FlatRecord:
    environment = row.text("environment")
    category = category_of(environment)
    if category not in CATEGORIES:
        raise row.error(f"needs one of {', '.join(CATEGORIES)}, found '{environment}'", field="environment")
    instruction = row.optional_text("instruction") or row.optional_text("description")
    if not instruction or not instruction.strip():
        raise row.error("missing, needs a string", field="instruction")
    expected = row.values.get("expected_output")
    if not isinstance(expected, str | int | float | None):
        raise row.error(f"needs a string, found {describe(expected)}", field="expected_output")
    text = expected if isinstance(expected, str) else "" if expected is None else json.dumps(expected)
    return FlatRecord(_task_id(row, category), category, instruction, text)


def _task_id(row: Row, category: str) -> str:
    """Return the record's id, or its category, file and place from 0, as in `db/dev/17`."""
    task_id = row.values.get(TASK_ID)
    if task_id is None:
        place = row.line if row.item is None else row.item
        stem = _SUFFIX.sub("", PurePath(row.path).name)
        return f"{category}/{stem}" if place is None else f"{category}/{stem}/{place - 1}"
    if isinstance(task_id, bool) or not isinstance(task_id, str | int) or task_id == "":
        raise row.error(f"needs a string, found {describe(task_id)}", field=TASK_ID)
    return str(task_id)
