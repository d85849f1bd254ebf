"""The formats that `harness compare` writes. To add one, add a file to this folder.

The name of the file is the name of the format. The file holds `write_report(comparison, stream)`, which
writes a `Comparison` to a text stream, and the first line of its docstring describes the format.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from harness.reports.format_files import import_format, list_formats

if TYPE_CHECKING:
    from harness.runs.comparison import Comparison

WriteComparison = Callable[["Comparison", TextIO], None]


def comparison_format_names() -> list[str]:
    """Return the names of all formats. It imports none, because the command line lists them in its help."""
    return list_formats(__path__)


def load_comparison_format(name: str) -> WriteComparison:
    """Return the function that writes a comparison in the format `name`.

    Raises:
        UsageError: There is no such format.
    """
    module = import_format(__name__, __path__, name, subject="format of a comparison")
    write: WriteComparison = module.write_report
    return write
