"""Print the seal level of each task of a run of task folders, with what proves it."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from harness.core.text import escape_terminal
from harness.reports.run_folder import read_attempts

_UNPROVEN = "unproven"


def print_levels(folder: Path, *, stream: TextIO) -> bool:
    """Print a line for each task of a run, and return whether every task has a level."""
    is_proven = True
    for record in read_attempts(folder):
        level = str(record.metrics.get("seal", _UNPROVEN))
        is_proven = is_proven and level != _UNPROVEN
        reason = record.metrics.get("seal_reason", record.error or record.status.value)
        label = ", same_process" if record.metrics.get("same_process") else ""
        print(escape_terminal(f"{record.task_id}: {level}{label}, {reason}", 500), file=stream)
    return is_proven
