"""The files of a command: samples on standard input, and outputs that appear only when they are complete."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from harness.core.errors import HarnessError, UsageError
from harness.core.inputs.files import MAX_DATA_BYTES, MIB
from harness.core.text import escape_text
from harness.runs.run_files import StorageError, replace_file
from harness.runs.settings import RunConfig
from harness.sandbox.host_programs.folders import open_folder

STDIN = "-"


@contextlib.contextmanager
def store_stdin_samples(config: RunConfig) -> Iterator[RunConfig]:
    """Yield a config whose samples are a temporary file with the content of standard input.

    The run folder keeps a copy of the file, because a resumed run cannot read standard input again. An error
    that leaves the block names standard input instead of the file. Raises UsageError if standard input
    cannot be read.
    """
    if config.samples != STDIN:
        yield config
        return
    if sys.stdin is None:
        raise UsageError("--samples -: there is no standard input", hint="name a file: --samples FILE.jsonl")
    # `harness gc` removes the folder if this process is killed.
    with open_folder() as folder:
        path = folder.path / "standard-input.jsonl"
        try:
            with open(path, "wb") as file:
                left = MAX_DATA_BYTES
                while left and (chunk := sys.stdin.buffer.read(min(left, MIB))):
                    left -= file.write(chunk)
                if not left and sys.stdin.buffer.read(1):
                    raise UsageError(f"--samples -: holds more than {MAX_DATA_BYTES:,} bytes")
        except OSError as error:
            raise UsageError(f"--samples -: standard input cannot be read: {error.strerror}") from error
        try:
            yield config.model_copy(update={"samples": str(path)})
        except HarnessError as error:
            error.message = error.message.replace(str(path), "standard input")
            raise


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
    _require_place(path, force=force)
    with replace_file(path) as file:
        yield file


def check_results_path(path: Path, *, force: bool) -> None:
    """Raise UsageError before the run starts if its results file could not be written."""
    if path.is_dir():
        raise UsageError(
            f"{path}: is a folder, and results are written to a file",
            hint=f"name a file: -o {path / 'results.json'}; --output-dir names the folder of the run folders",
        )
    _require_place(path, force=force)
    try:
        # Write a trial file, because permissions do not show a read-only file system or a full disk.
        with tempfile.TemporaryFile(dir=path.parent) as trial:  # without a name, so a kill leaves no file
            trial.write(b"{}")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def _require_place(path: Path, *, force: bool) -> None:
    """Raise UsageError unless a file can be made or replaced here."""
    if path.exists() and not path.is_file():
        raise UsageError(f"{path}: is not a regular file", hint="name a file")
    if path.exists() and not force:
        raise UsageError(f"{path}: already exists", hint="choose another name, or add --force")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent}: is not a folder", hint=f"run: mkdir -p {path.parent}")
