"""A benchmark in Python: a file that declares definitions, or returns tasks and names a metric."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import ModuleType

from harness.benchmarks.benchmark import Definition
from harness.benchmarks.custom.metric import AnswerKey, find_metric
from harness.benchmarks.custom.records import Record, build_definition, read_tags
from harness.benchmarks.data.rows import Row, describe
from harness.core.discovery import describe_user_error, import_user_file
from harness.core.errors import DataError, HarnessError, UsageError

MAX_TASKS = 1_000_000
_KEYS = {"id", "prompt", "reference", "tests", "setup", "category", "difficulty", "tags"}
_EXAMPLE = "NAME = 'sums', METRIC = 'number', and def tasks() that returns a list of dicts"


def read_module(path: Path) -> Definition:
    """Import a user's file, on the host, and return its benchmark.

    The file has `BENCHMARKS` with one Definition, as our own modules have it; or `NAME`, `METRIC` and a
    function `tasks` that returns dicts with `prompt`, `reference` and, optionally, the other `_KEYS`.
    Raises UsageError if the file cannot be imported or used.
    """
    module = import_user_file(path, subject=str(path))
    declared = getattr(module, "BENCHMARKS", None)
    if declared is not None:
        if not isinstance(declared, (tuple, list)) or len(declared) != 1:
            raise UsageError(f"{path}: BENCHMARKS needs to be a tuple of one Definition")
        if not isinstance(declared[0], Definition):
            raise UsageError(f"{path}: BENCHMARKS holds {describe(declared[0])}, not a Definition")
        return replace(declared[0], source=str(path))
    name = _text(module, path, "NAME")
    metric = find_metric(_text(module, path, "METRIC"), path, "METRIC")
    if not callable(getattr(module, "tasks", None)):
        raise UsageError(f"{path}: has no function 'tasks' and no BENCHMARKS", hint=_EXAMPLE)
    return build_definition(
        name,
        metric,
        _record,
        description=getattr(module, "DESCRIPTION", "") or (module.__doc__ or "").partition("\n")[0],
        licence=getattr(module, "LICENCE", "unknown"),
        source=str(path),
        answer_after=getattr(module, "ANSWER_AFTER", None),
        make_rows=lambda: _rows(module, path),
    )


def _text(module: ModuleType, path: Path, constant: str) -> str:
    value = getattr(module, constant, None)
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{path}: needs the text {constant}, found {describe(value)}", hint=_EXAMPLE)
    return value


def _rows(module: ModuleType, path: Path) -> tuple[list[Row], str]:
    """Call `tasks` and return its rows, with the SHA-256 of them as JSON."""
    try:
        found = list(islice(module.tasks(), MAX_TASKS + 1))
    except HarnessError:
        raise
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise UsageError(f"{path}: tasks(): {describe_user_error(error, path)}") from error
    if len(found) > MAX_TASKS:
        raise DataError(f"tasks() returned more than {MAX_TASKS:,} tasks", path=path)
    rows = []
    for number, values in enumerate(found, start=1):
        row = Row(values if isinstance(values, Mapping) else {}, str(path), item=number)
        if not isinstance(values, Mapping):
            raise row.error(f"needs a dict, found {describe(values)}")
        if unknown := sorted(set(values) - _KEYS):
            raise row.error(f"is not a known key; known keys: {', '.join(sorted(_KEYS))}", field=unknown[0])
        rows.append(row)
    if not rows:
        raise DataError("tasks() returned no task", path=path)
    try:
        text = json.dumps([dict(row.values) for row in rows], sort_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"tasks() returned a value that is not plain data: {error}", path=path) from error
    return rows, hashlib.sha256(text.encode()).hexdigest()


def _record(row: Row) -> Record:
    answer_key = AnswerKey(
        row, row.values.get("reference"), row.values.get("tests"), row.optional_text("setup") or ""
    )
    return Record(
        id=row.name("id") if "id" in row.values else str(row.place),
        prompt=row.text("prompt"),
        answer_key=answer_key,
        category=row.optional_text("category"),
        difficulty=None if row.values.get("difficulty") is None else row.name("difficulty"),
        tags=read_tags(row, "tags"),
    )
