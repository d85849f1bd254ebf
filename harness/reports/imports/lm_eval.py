"""The samples of lm-evaluation-harness, which `--log_samples` writes as `samples_*.jsonl`.

`doc` is the row of the dataset, `doc_id` its place, and `resps` has the replies of the model before any
filter. A task with several filters has a line for each, with the same replies, so only the lines of
the first filter are read.
Source: https://github.com/EleutherAI/lm-evaluation-harness
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.reports.imports import Content, ImportedText, KnownTasks, read_lines, require_text

FIELD = "reply"
# The field of a row with its problem, and the beginning of our ids, which end in the place.
_PROBLEMS = {"question": "gsm8k", "problem": "math"}
# These tasks are subjects of MATH, so that a place in one is not that in the whole.
_PARTS = re.compile(r"(algebra|counting|geometry|num_theory|number_theory|prealgebra|precalc)", re.IGNORECASE)


def read_texts(path: Path, tasks: KnownTasks) -> Iterator[ImportedText]:
    """Yield each reply in the file, one line at a time. Raises DataError, with the line."""
    first: str | None = None
    for number, row in read_lines(path):
        row = row if isinstance(row, dict) else {}
        name = str(row.get("filter"))
        first = name if first is None else first
        if name == first:
            task_id = _find_task(row, path, number, tasks)
            yield from (ImportedText(task_id, reply) for reply in _list_replies(row.get("resps")))


def recognizes(content: Content) -> bool:
    """Return whether the first line has a row and the replies to it."""
    return isinstance(content.value, dict) and {"doc", "resps"} <= content.value.keys()


def _find_task(row: dict[str, Any], path: Path, line: int, tasks: KnownTasks) -> str:
    doc = row.get("doc")
    if isinstance(doc, dict) and "task_id" not in doc:
        field = next((name for name in _PROBLEMS if isinstance(doc.get(name), str)), None)
        if field is not None and (tasks.benchmark is not None or _PARTS.search(path.name)):
            return tasks.find(doc[field], path, line=line)
        if field is not None and type(row.get("doc_id")) is int:
            return f"{_PROBLEMS[field]}/{row['doc_id']}"
    return require_text(doc, "task_id", path, line, what="doc")


def _list_replies(responses: Any) -> list[str | None]:
    """Return the replies, which lie in a list for each request. A task with none counts as one without."""
    listed = responses if isinstance(responses, list) else []
    replies = [each for group in listed for each in (group if isinstance(group, list) else [group])]
    return [each for each in replies if isinstance(each, str)] or [None]
