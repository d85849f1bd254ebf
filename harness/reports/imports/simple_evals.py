"""The `*_allresults.json` of simple-evals, whose `convos` hold the prompt and the replies of each example.

It names no task, so the tasks are found by the problems in the prompts. Its HumanEval keeps only the
programs that it took from the replies, without the signature, and one conversation has all samples of a task.
Source: https://github.com/openai/simple-evals
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.core.errors import DataError
from harness.reports.imports import Content, ImportedText, KnownTasks, read_value

FIELD = "reply"


def read_texts(path: Path, tasks: KnownTasks) -> Iterator[ImportedText]:
    """Yield each reply of each conversation. Raises DataError."""
    value = read_value(path)
    if not recognizes(Content(path, value)):
        raise DataError("is not the results of simple-evals", path=path)
    convos = value.get("convos")
    if not isinstance(convos, list):
        hint = "the replies are in the file beside it whose name ends in _allresults.json"
        raise DataError("has only the scores of simple-evals", path=path, hint=hint)
    field = "completion" if str(tasks.benchmark).startswith("humaneval") else None
    for place, convo in enumerate(convos, start=1):
        messages = [each for each in convo if isinstance(each, dict)] if isinstance(convo, list) else []
        asked = "\n".join(_read_content(each) or "" for each in messages if each.get("role") == "user")
        if not asked:
            raise DataError(f"conversation {place}: has no message of the user", path=path)
        task_id = tasks.find(asked, path)
        replies = [_read_content(each) for each in messages if each.get("role") == "assistant"]
        yield from (ImportedText(task_id, reply, field) for reply in replies or [None])


def recognizes(content: Content) -> bool:
    """Return whether the value has conversations, or the scores of a report."""
    value = content.value
    if not isinstance(value, dict):
        return False
    return "convos" in value or ("score" in value and "eval" not in value and "task_id" not in value)


def _read_content(message: dict[str, Any]) -> str | None:
    content = message.get("content")
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else None
