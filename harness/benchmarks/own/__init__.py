"""A user's own benchmarks: a Python file with definitions or tasks, or a YAML file that maps a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.benchmarks.benchmark import Definition

SUFFIXES = (".py", ".yaml", ".yml")


def is_own(name: str) -> bool:
    """Return whether a benchmark's name is the path of a user's file."""
    return name.lower().endswith(SUFFIXES)


def own_definition(path: Path) -> Definition:
    """Return the benchmark that a user's file describes.

    A Python file is imported, and so run, on the host: it is the user's own code, trusted as this
    package is. A YAML file is data. Raises UsageError with file and key for what cannot be used.
    """
    from harness.benchmarks.own.mapping import read_mapping
    from harness.benchmarks.own.module import read_module

    path = path.expanduser().absolute()
    if not path.is_file():
        raise UsageError(f"{path}: no such file", hint="-b takes a name, or a file of your own")
    return read_module(path) if path.suffix.lower() == ".py" else read_mapping(path)
