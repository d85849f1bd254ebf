"""A user's own benchmarks: a Python file with definitions or tasks, or a YAML file that maps a dataset."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from harness.core.discovery import names_python_file
from harness.core.errors import UsageError
from harness.core.inputs.files import MAX_TEXT_BYTES, open_input

if TYPE_CHECKING:
    from harness.benchmarks.benchmark import Definition

SUFFIXES = (".py", ".yaml", ".yml")


def is_own(name: str) -> bool:
    """Return whether a benchmark's name is the path of a user's file."""
    return name.lower().endswith(SUFFIXES)


def own_definition(path: Path) -> Definition:
    """Return the benchmark that a user's file describes.

    A Python file is imported, and so runs, on the host, because it is the user's own code and trusted as
    this package is. A YAML file is data. Raises UsageError with file and key if the file cannot be used.
    """
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
