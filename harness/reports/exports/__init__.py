"""The formats that `harness export` writes. To add one, add a file to this folder.

The name of the file is the name of the format. The file holds `write_export(run, stream)`, which writes an
`ExportedRun` to a text stream, one attempt at a time, and `SUFFIXES`, the ends of the names of files that the
readers of the format accept. A format of several files holds `write_tree(run, folder)` instead, which writes
into a new folder. The first line of its docstring describes the format.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from harness.core.errors import UsageError
from harness.reports.format_files import import_format, list_formats

if TYPE_CHECKING:
    from harness.reports.trajectories.attempts import ExportedRun

WriteExport = Callable[["ExportedRun", TextIO], None]
WriteTree = Callable[["ExportedRun", Path], None]


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """A format of an export."""

    name: str
    # None for a format of several files, which `write_tree` writes.
    write: WriteExport | None
    suffixes: tuple[str, ...]
    # Returns the name of the file in a folder, None if readers find any name there.
    name_file: Callable[[ExportedRun], str] | None = None
    write_tree: WriteTree | None = None

    def choose_path(self, path: Path | None, run: ExportedRun) -> Path | None:
        """Return the path of the export: in a folder, under a name that the readers of the format find."""
        if path is None or not path.is_dir():
            return path
        made = None if self.name_file is None else self.name_file(run)
        return path / (made or f"{re.sub(r'[^A-Za-z0-9._-]+', '-', run.run_id)}{self.suffixes[0]}")

    def require_name(self, path: Path | None) -> None:
        """Raise UsageError for a path that no reader of the format would open. None is standard output."""
        if self.write_tree is not None:
            if path is None:
                raise UsageError(f"{self.name} writes a folder, not a file", hint="name the folder: -o jobs")
        elif path is not None and not path.is_dir() and not path.name.endswith(self.suffixes):
            raise UsageError(
                f"{path}: readers of {self.name} open only files whose name ends in "
                f"{' or '.join(self.suffixes)}",
                hint=f"write it to {path.with_suffix(self.suffixes[0])}",
            )


def export_names() -> list[str]:
    """Return the names of all formats. It imports none, because the command line lists them in its help."""
    return list_formats(__path__)


def load_export(name: str) -> ExportFormat:
    """Return the format `name`. Raises UsageError if there is none."""
    module = import_format(__name__, __path__, name, subject="export format")
    return ExportFormat(
        name,
        getattr(module, "write_export", None),
        module.SUFFIXES,
        getattr(module, "name_file", None),
        getattr(module, "write_tree", None),
    )
