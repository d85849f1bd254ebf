"""The output of LiveCodeBench's runner, `Scenario.codegeneration_*.json`, also with `_eval_all`.

`code_list` has the programs that the runner took from the replies in `output_list`.
Source: https://github.com/LiveCodeBench/LiveCodeBench
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.core.errors import DataError
from harness.reports.imports import Content, ImportedText, KnownTasks, read_value, require_text

FIELD = "solution"
_FIELDS = {"code_list": "solution", "output_list": "reply"}


def read_texts(path: Path, tasks: KnownTasks) -> Iterator[ImportedText]:
    """Yield each program, or each reply where the runner took no program. Raises DataError."""
    value = read_value(path)
    if not recognizes(Content(path, value)):
        raise DataError("is not the output of LiveCodeBench's runner", path=path)
    for place, row in enumerate(value, start=1):
        task_id = require_text(row, "question_id", path, None, what=f"problem {place}")
        name = next((name for name in _FIELDS if isinstance(row.get(name), list)), None)
        if name is None:
            raise DataError(f"problem {place}: has neither 'code_list' nor 'output_list'", path=path)
        yield from (ImportedText(task_id, _read_text(each), _FIELDS[name]) for each in row[name] or [None])


def recognizes(content: Content) -> bool:
    """Return whether the value is a list of problems with their programs."""
    value = content.value
    first = value[0] if isinstance(value, list) and value else None
    return isinstance(first, dict) and "question_id" in first and not _FIELDS.keys().isdisjoint(first)


def _read_text(value: Any) -> str | None:
    # Some versions keep a reply in a list of its own.
    value = value[0] if isinstance(value, list) and value else value
    return value if isinstance(value, str) else None
