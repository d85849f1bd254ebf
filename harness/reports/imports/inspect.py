"""The log of inspect_ai as JSON, which `inspect log convert --to json` writes from its own format.

Source: https://inspect.aisi.org.uk/eval-logs.html
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.core.errors import DataError
from harness.core.inputs.files import MAX_DATA_BYTES, read_input
from harness.core.inputs.json_text import BrokenJSONError, parse_json
from harness.reports.imports import Content, ImportedText, KnownTasks, require_text

FIELD = "reply"


def read_texts(path: Path, tasks: KnownTasks) -> Iterator[ImportedText]:
    """Yield the last reply of the model in each sample, the epochs of a task in order. Raises DataError."""
    try:
        log = parse_json(read_input(path, max_bytes=MAX_DATA_BYTES), allow_nan=True)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=path) from error
    except BrokenJSONError as error:
        hint = "convert a log that ends in .eval: inspect log convert --to json --output-dir DIR FILE"
        raise DataError(f"is not JSON: {error}", path=path, line=error.line, hint=hint) from error
    samples = log.get("samples") if isinstance(log, dict) and "eval" in log else None
    if not isinstance(samples, list):
        raise DataError("is not the log of inspect with its samples", path=path)
    for place, sample in enumerate(samples, start=1):
        task_id = require_text(sample, "id", path, None, what=f"sample {place}")
        yield ImportedText(task_id, _read_reply(sample.get("output")))


def recognizes(content: Content) -> bool:
    """Return whether a file is a log, also in inspect's own format, which must be converted first."""
    if isinstance(content.value, dict):
        return {"eval", "samples"} <= content.value.keys()
    return content.path.suffix == ".eval"


def _read_reply(output: Any) -> str | None:
    choices = output.get("choices") if isinstance(output, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
    return "".join(part for part in parts if isinstance(part, str))
