"""How a benchmark is named: by a recipe that any process can load, and as one of ours or a user's own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.discovery import find_declared

_SUFFIXES = (".py", ".yaml", ".yml")
# The files that list task folders.
_SETS = ("dataset.toml", "registry.json")


@dataclass(frozen=True, slots=True)
class BenchmarkRecipe:
    """A benchmark's name, options and data, as plain data. `load_recipe` loads it."""

    name: str
    """The name of a benchmark, or the absolute path of a user's own."""
    split: str
    data: str | None
    """`hub`, `bundled`, an absolute path, or None for the data that the benchmark itself names."""
    sha256: str
    """The SHA-256 (hex) that the data must have."""
    options: Mapping[str, Any]
    extract: str | None = None
    """The rule for code that the user named, None for the benchmark's own."""
    categories: tuple[str, ...] = ()
    """The categories whose data are loaded, none for all."""


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
