"""The place of an export: standard output, or a file that appears only when it is complete."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from harness.core.errors import UsageError
from harness.core.text import escape_text
from harness.runs.run_files import StorageError, replace_file


def print_written(path: Path | None) -> None:
    """Print the file that was written to standard error, nothing if the output was not a file."""
    if path is not None:
        print(escape_text(f"wrote {path}"), file=sys.stderr)


@contextlib.contextmanager
def open_export_folder(path: Path, *, force: bool) -> Iterator[Path]:
    """Yield a temporary folder that becomes `path` once the block has ended.

    Raises UsageError if `path` exists and `force` is false, and StorageError if it cannot be written.
    """
    if path.exists() and not force:
        raise UsageError(f"{path}: already exists", hint="choose another folder, or add --force")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".export-") as made:
            folder = Path(made, "folder")
            folder.mkdir()
            yield folder
            if path.exists():
                path.rename(Path(made, "replaced"))
            folder.rename(path)
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror}") from error


@contextlib.contextmanager
def open_export(path: Path | None, *, force: bool) -> Iterator[TextIO]:
    """Yield standard output, or a temporary file that becomes `path` once the block has ended.

    Raises UsageError if `path` exists and `force` is false, and StorageError if it cannot be written.
    """
    if path is None:
        yield sys.stdout
        return
    if path.exists() and not path.is_file():
        raise UsageError(f"{path}: is not a regular file", hint="name a file")
    if path.exists() and not force:
        raise UsageError(f"{path}: already exists", hint="choose another name, or add --force")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent}: is not a folder", hint=f"run: mkdir -p {path.parent}")
    with replace_file(path) as file:
        yield file
