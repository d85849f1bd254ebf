"""One row for each attempt, for spreadsheets and `pandas.read_csv`.

The columns are the same for every run. `metrics` has all metrics as JSON. A text that a spreadsheet would
calculate as a formula begins with an apostrophe.
"""

from __future__ import annotations

import csv
from typing import TextIO

from harness.core.text import escape_text, escape_unencodable
from harness.reports.columns import Kind, Value, list_columns
from harness.reports.run_folder import StoredRun

# Source: OWASP, CSV Injection. Tabs and carriage returns are in its list too, and are escaped anyway.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def write_report(run: StoredRun, stream: TextIO) -> None:
    """Write the rows in the order of the plan."""
    columns = list(list_columns(run, whole=False))
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([column.name for column in columns])
    for record in run.attempts():
        writer.writerow([_show(column.value(record), column.kind, stream) for column in columns])


def _show(value: Value, kind: Kind, stream: TextIO) -> str:
    if value is None:
        return ""
    if kind not in (Kind.TEXT, Kind.TIME):
        return str(value)
    text = escape_unencodable(escape_text(str(value), multiline=True), stream)
    # A spreadsheet may strip the blanks before a formula.
    return f"'{text}" if text.lstrip().startswith(_FORMULA_STARTS) else text
