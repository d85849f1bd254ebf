"""A user's own benchmarks: a Python file, a YAML file that maps a dataset, or a folder of task folders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from harness.core.discovery import find_declared, names_python_file
from harness.core.errors import UsageError
from harness.core.inputs.files import MAX_TEXT_BYTES, open_input

if TYPE_CHECKING:
    from harness.benchmarks.benchmark import Definition

SUFFIXES = (".py", ".yaml", ".yml")
# The files that list task folders.
SETS = ("dataset.toml", "registry.json")


def is_own(name: str) -> bool:
    """Return whether a benchmark's name is the path of a user's file or of task folders."""
    return name.lower().endswith(SUFFIXES) or names_task_folders(name)


def names_task_folders(name: str) -> bool:
    """Return whether a benchmark's name is the path of task folders.

    A name without a `/` is one only if such a folder exists and no benchmark of ours has the name.
    """
    if name.lower().endswith(SUFFIXES):
        return False
    if os.sep in name or name in (".", "..", "~"):
        return True
    path = Path(name)
    if path.name in SETS:
        return path.is_file()
    if not path.is_dir():
        return False
    from harness.benchmarks.data.task_sets import holds_task, list_children

    known = {each.name for each in find_declared("harness.benchmarks", "BENCHMARKS", name)}
    return name not in known and (holds_task(path) or (path / SETS[0]).is_file() or bool(list_children(path)))


def own_definition(path: Path) -> Definition:
    """Return the benchmark that a user's file or folder describes.

    A Python file is imported, and so runs, on the host, because it is the user's own code and trusted as
    this package is. A YAML file is data. Raises UsageError with file and key if the file cannot be used.
    """
    if names_task_folders(str(path)):
        from harness.benchmarks.task_folders import folder_definition

        return folder_definition(Path(os.path.expanduser(path)).absolute())
    from harness.benchmarks.custom.mapping import read_mapping
    from harness.benchmarks.custom.module import read_module

    path = Path(os.path.expanduser(path)).absolute()
    try:
        open_input(path, max_bytes=MAX_TEXT_BYTES).close()
    except FileNotFoundError as error:
        raise UsageError(
            f"{path}: no such file", hint="-b takes the name of a benchmark, or your own file"
        ) from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    return read_module(path) if names_python_file(path.name) else read_mapping(path)
