"""A user's own benchmarks: a Python file, a YAML file that maps a dataset, or a folder of task folders."""

from __future__ import annotations

import os
from pathlib import Path

from harness.core.discovery import find_declared

_SUFFIXES = (".py", ".yaml", ".yml")
# The files that list task folders.
_SETS = ("dataset.toml", "registry.json")


def is_own(name: str) -> bool:
    """Return whether a benchmark's name is the path of a user's file or of task folders."""
    return name.lower().endswith(_SUFFIXES) or names_task_folders(name)


def names_task_folders(name: str) -> bool:
    """Return whether a benchmark's name is the path of task folders.

    A name without a `/` is one only if such a folder exists and no benchmark of ours has the name.
    """
    if name.lower().endswith(_SUFFIXES):
        return False
    if os.sep in name or name in (".", "..", "~"):
        return True
    path = Path(name)
    if path.name in _SETS:
        return path.is_file()
    if not path.is_dir():
        return False
    from harness.benchmarks.data.task_sets import holds_task, list_children

    known = {each.name for each in find_declared("harness.benchmarks", "BENCHMARKS", name)}
    return name not in known and (
        holds_task(path) or (path / _SETS[0]).is_file() or bool(list_children(path))
    )
