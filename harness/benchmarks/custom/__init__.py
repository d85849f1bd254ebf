"""A user's own benchmarks: a Python file, a YAML file that maps a dataset, or a folder of task folders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from harness.benchmarks.recipe import names_task_folders
from harness.core.discovery import names_python_file
from harness.core.errors import UsageError
from harness.core.inputs.files import MAX_TEXT_BYTES, open_input

if TYPE_CHECKING:
    from harness.benchmarks.benchmark import Definition


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
