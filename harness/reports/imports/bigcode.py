"""The `generations_*.json` of bigcode-evaluation-harness: a list of programs for each task, in order.

The file names no task. Its name ends in the benchmark's, `humaneval` or `mbpp`, and the first list
belongs to the first task. MBPP's test split begins with the task 11.
Source: https://github.com/bigcode-project/bigcode-evaluation-harness
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from harness.core.errors import DataError
from harness.reports.imports import Content, ImportedText, KnownTasks, read_value

FIELD = "solution"
_KNOWN = re.compile(r"(?:^|[_-])(humaneval|mbpp)(?:[_.-]|$)", re.IGNORECASE)
_FIRST_OF_MBPP = 11


def read_texts(path: Path, tasks: KnownTasks) -> Iterator[ImportedText]:
    """Yield each program, a task's in their order. Raises DataError."""
    value = read_value(path)
    if not recognizes(Content(path, value)):
        raise DataError("is not a list with a list of programs for each task", path=path)
    found = _KNOWN.search(path.name)
    name = tasks.benchmark or (None if found is None else found[1].lower())
    benchmark = None if name is None else name.partition("-")[0]
    if benchmark not in ("humaneval", "mbpp"):
        raise DataError(
            "does not name its benchmark", path=path, hint="add -b humaneval or -b mbpp, which have an order"
        )
    for place, programs in enumerate(value):
        task_id = f"HumanEval/{place}" if benchmark == "humaneval" else str(_FIRST_OF_MBPP + place)
        yield from (ImportedText(task_id, program) for program in programs or [None])


def recognizes(content: Content) -> bool:
    """Return whether the value is a list of lists of texts."""
    return (
        isinstance(content.value, list)
        and bool(content.value)
        and all(
            isinstance(each, list) and all(text is None or isinstance(text, str) for text in each)
            for each in content.value
        )
    )
