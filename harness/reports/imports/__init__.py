"""The formats that `harness samples import` reads. To add one, add a file to this folder.

The name of the file is the name of the format. The file holds `read_texts(path, tasks)`, which yields an
`ImportedText` for each sample, `recognizes(content)`, which returns whether a file is of the format, and
`FIELD`, the field of the lines that its texts become. The first line of its docstring describes the format.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from harness.core.errors import DataError, UsageError
from harness.core.inputs.files import MAX_DATA_BYTES, MIB, open_input, read_input
from harness.core.inputs.json_text import BrokenJSONError, parse_json
from harness.core.text import quote_argument
from harness.reports.format_files import import_format, list_formats

# A larger file is recognized by its first line alone.
_WHOLE_BYTES = 64 * MIB


@dataclass(slots=True)
class KnownTasks:
    """The benchmark whose tasks a file has samples of, None if the user has not named it."""

    benchmark: str | None = None
    data: str | None = None
    split: str | None = None
    _ids: dict[str, str] | None = field(default=None, init=False)

    def find(self, text: str, path: Path, *, line: int | None = None) -> str:
        """Return the id of the task whose problem is `text`, or whose problem `text` contains.

        Raises DataError if the benchmark is not named or has no such task.
        """
        if self.benchmark is None:
            raise DataError(
                "does not name the tasks, so that they are found by their problems",
                path=path,
                line=line,
                hint="name the benchmark, and its data as in a run: -b NAME --data PATH",
            )
        if self._ids is None:
            self._ids = self._read()
        wanted = _reduce(text)
        exact = self._ids.get(wanted)
        if exact is not None:
            return exact
        # The longest problem, because one may be a part of another.
        within = max((each for each in self._ids if each in wanted), key=len, default=None)
        if within is None:
            raise DataError(
                f"{self.benchmark} has no task with this problem: {text[:60]!r}",
                path=path,
                line=line,
                hint="name the data that the other project used: --data PATH --split NAME",
            )
        return self._ids[within]

    def _read(self) -> dict[str, str]:
        from harness.benchmarks.loading import load_benchmark

        assert self.benchmark is not None  # noqa: S101  because `find` has checked it
        found = load_benchmark(self.benchmark, data=self.data, split=self.split)
        return {_reduce(task.statement or task.prompt): task.id for task in found.tasks}


def _reduce(text: str) -> str:
    """Return a text with all its space alike, because projects strip it differently."""
    return " ".join(text.split())


@dataclass(frozen=True, slots=True)
class ImportedText:
    """The text that a model wrote for a task. `text` is None if the other project has no reply of it."""

    task_id: str
    text: str | None
    # The field of the line if it is not the format's.
    field: str | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a file that shows its format."""

    path: Path
    # The value of the whole file, or of its first line, None if it is not JSON.
    value: Any


class ImportFormat(Protocol):
    """The module of a format."""

    FIELD: str

    def read_texts(self, path: Path, tasks: KnownTasks) -> Iterator[ImportedText]:
        """Yield what a model wrote for each sample. Raises DataError."""

    def recognizes(self, content: Content) -> bool:
        """Return whether a file or a folder is of this format."""


def import_names() -> list[str]:
    """Return the names of all formats. It imports none, because the command line lists them in its help."""
    return list_formats(__path__)


def load_import(name: str) -> ImportFormat:
    """Return the module of the format `name`. Raises UsageError if there is none."""
    return cast("ImportFormat", import_format(__name__, __path__, name, subject="import format"))


def recognize(path: Path) -> str | None:
    """Return the name of the format of a file or a folder, None if it is of none of them."""
    content = Content(path, None if path.is_dir() else _read_value(path))
    return next((name for name in import_names() if load_import(name).recognizes(content)), None)


def _read_value(path: Path) -> Any:
    try:
        if path.stat().st_size <= _WHOLE_BYTES:
            try:
                return parse_json(read_input(path, max_bytes=_WHOLE_BYTES), allow_nan=True)
            except BrokenJSONError:
                pass
        with open_input(path, max_bytes=MAX_DATA_BYTES) as stream:
            return parse_json(stream.readline(_WHOLE_BYTES), allow_nan=True)
    except (OSError, BrokenJSONError):
        return None


def describe_command(path: Path, name: str, benchmark: str | None = None) -> str:
    """Return the hint with the command that reads a file of the format `name`."""
    named = f" -b {benchmark}" if benchmark is not None else ""
    file = quote_argument(os.fspath(path))
    return f"this is a file of {name}: harness samples import {file} --from {name}{named} -o samples.jsonl"


def import_samples(
    path: Path,
    name: str,
    field: str | None,
    *,
    notify: Callable[[str], None],
    tasks: KnownTasks | None = None,
) -> Iterator[str]:
    """Yield a line of JSON for each sample in a file of another project.

    A sample without a reply gets an empty text, because without its line a task would have fewer attempts,
    and pass@k another value.

    Args:
        path: the file.
        name: the name of its format.
        field: the field of the lines, such as `reply` or `completion`, None for the format's.
        notify: shows a message to the user.
        tasks: the tasks of the samples, for a format that does not name them.

    Raises:
        UsageError: if there is no such format.
        DataError: for a file that is not of this format.
    """
    chosen = load_import(name)
    number = empty = 0
    try:
        for each in chosen.read_texts(path, tasks or KnownTasks()):
            number += 1
            empty += each.text is None
            line = {"task_id": each.task_id, field or each.field or chosen.FIELD: each.text or ""}
            yield json.dumps(line) + "\n"
    except DataError as error:
        other = None if error.hint is not None else recognize(path)
        if other in (None, name):
            raise
        raise DataError(error.message, hint=describe_command(path, str(other))) from error
    if not number:
        raise DataError("has no sample", path=path)
    if empty:
        notify(f"samples without a reply, whose lines hold an empty text: {empty:,} of {number:,}")


def read_value(path: Path) -> Any:
    """Return the value of a JSON file. Raises DataError."""
    try:
        return parse_json(read_input(path, max_bytes=MAX_DATA_BYTES), allow_nan=True)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=path) from error
    except BrokenJSONError as error:
        raise DataError(f"is not JSON: {error}", path=path, line=error.line) from error


def read_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the number and the value of each line of a JSONL file. Raises DataError, with the line."""
    try:
        with open_input(path, max_bytes=MAX_DATA_BYTES) as stream:
            for number, line in enumerate(stream, start=1):
                try:
                    yield number, parse_json(line, allow_nan=True)
                except BrokenJSONError as error:
                    raise DataError(f"is not JSON: {error}", path=path, line=number) from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=path) from error


def require_text(values: Any, name: str, path: Path, line: int | None, *, what: str) -> str:
    """Return a field of an object that must be a text or a whole number. Raises DataError."""
    value = values.get(name) if isinstance(values, dict) else None
    if type(value) not in (str, int):
        raise DataError(f"{what}: '{name}' is not a text", path=path, line=line)
    return str(value)


def hint_at_format(error: DataError, samples: str | None, benchmark: str) -> DataError:
    """Return an error about a samples file, with the command that reads a file of another project."""
    if samples is None or samples not in error.message:
        return error
    name = recognize(Path(samples))
    if name is None:
        return error
    needed = benchmark if load_import(name).FIELD == "reply" or name == "bigcode" else None
    return DataError(error.message, hint=describe_command(Path(samples), name, needed))


def load_tasks(benchmark: str | None, data: str | None, split: str | None) -> KnownTasks:
    """Return the tasks that a user names, whose data are read only if a format needs them.

    Raises UsageError for data without a benchmark.
    """
    if benchmark is None and (data is not None or split is not None):
        raise UsageError("--data and --split need a benchmark", hint="add -b NAME")
    return KnownTasks(benchmark, data, split)
