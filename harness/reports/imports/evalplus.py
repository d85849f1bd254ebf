"""The programs of evalplus: a folder with `HumanEval_0/0.py`, or a `.jsonl` with `task_id` and `solution`.

Source: https://github.com/evalplus/evalplus (`load_solutions`)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from harness.core.errors import DataError
from harness.core.inputs.files import MAX_DATA_BYTES, read_input
from harness.reports.imports import Content, ImportedText, KnownTasks, read_lines, require_text

FIELD = "solution"
_FIELDS = ("solution", "completion")
_FOLDER = re.compile(r"(HumanEval|Mbpp)_(\d+)")
_TASK = re.compile(r"(HumanEval|Mbpp)/(\d+)")
_PROGRAM = re.compile(r"(\d+)\.py")


def read_texts(path: Path, tasks: KnownTasks) -> Iterator[ImportedText]:
    """Yield each program, the tasks and the programs of a task in order. Raises DataError."""
    if path.is_dir():
        yield from _read_folder(path)
        return
    for number, row in read_lines(path):
        task_id = require_text(row, "task_id", path, number, what="line")
        field = next((name for name in _FIELDS if isinstance(row.get(name), str)), None)
        if field is None:
            raise DataError("line: has neither 'solution' nor 'completion'", path=path, line=number)
        yield ImportedText(_name_task(task_id), row[field], field)


def recognizes(content: Content) -> bool:
    """Return whether a folder has programs of tasks, or a first line the id of a task of MBPP+."""
    if content.path.is_dir():
        return next(_list_programs(content.path), None) is not None
    value = content.value
    return isinstance(value, dict) and str(value.get("task_id")).startswith("Mbpp/")


def _read_folder(path: Path) -> Iterator[ImportedText]:
    for folder, program in _list_programs(path):
        try:
            text = read_input(program, max_bytes=MAX_DATA_BYTES).decode("utf-8", "surrogateescape")
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror}", path=program) from error
        yield ImportedText(_name_task(folder.replace("_", "/", 1)), text)


def _list_programs(path: Path) -> Iterator[tuple[str, Path]]:
    """Yield the name of each task's folder with each of its programs, by their numbers."""
    try:
        folders = [each for each in path.iterdir() if _FOLDER.fullmatch(each.name) and each.is_dir()]
        for folder in sorted(folders, key=lambda each: int(each.name.rpartition("_")[2])):
            programs = [each for each in folder.iterdir() if _PROGRAM.fullmatch(each.name)]
            yield from ((folder.name, each) for each in sorted(programs, key=lambda each: int(each.stem)))
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=path) from error


def _name_task(task_id: str) -> str:
    """Return our id of a task, which is a number for MBPP."""
    found = _TASK.fullmatch(task_id)
    return found[2] if found is not None and found[1] == "Mbpp" else task_id
