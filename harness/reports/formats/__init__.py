"""The formats that `harness report` writes. To add one, add a file to this folder.

The name of the file is the name of the format. The file holds `write_report(run, stream)`, which writes the
report of a `StoredRun` to a text stream, and the first line of its docstring describes the format. A format
that is not a text sets `BINARY = True`, and gets a stream of bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from harness.core.errors import UsageError
from harness.reports.format_files import guess_format, import_format, list_endings, list_formats

if TYPE_CHECKING:
    from harness.reports.run_folder import StoredRun

WriteReport = Callable[["StoredRun", TextIO], None]


def format_names() -> list[str]:
    """Return the names of all formats. It imports none, because the command line lists them in its help."""
    return list_formats(__path__)


def choose_format(path: Path) -> str:
    """Return the format that the ending of a file names: `csv` for `run.csv`.

    A file without an ending gets the table. Raises UsageError for the ending of no format.
    """
    found = guess_format(path, __path__)
    if found is not None:
        return found
    if not path.suffix:
        return "table"
    raise UsageError(
        f"{path}: no report format has the ending '{path.suffix}'",
        hint=f"use {', '.join(list_endings(__path__))}, or name the format: --format csv -o {path}",
    )


def load_format(name: str) -> WriteReport:
    """Return the function that writes a report in the format `name`.

    The function raises UsageError if the format is binary and the stream is a terminal.

    Raises:
        UsageError: There is no such format.
    """
    module: Any = import_format(__name__, __path__, name, subject="report format")
    write: WriteReport = module.write_report
    if not getattr(module, "BINARY", False):
        return write

    def write_bytes(run: StoredRun, stream: TextIO) -> None:
        if stream.isatty():
            raise UsageError(f"{name} is not text, so a terminal cannot show it", hint="add -o FILE")
        stream.flush()
        module.write_report(run, stream.buffer)

    return write_bytes
