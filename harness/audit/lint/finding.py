"""A fault of a task folder, with its place and the change that mends it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How much a fault matters. An error makes verdicts on the task wrong, or cannot be published."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of a task folder."""

    # The name of the check, such as `canary`.
    check: str
    severity: Severity
    task_id: str
    message: str
    hint: str
    # The path from the task folder on, and the line in it, if there are such.
    file: str | None = None
    line: int | None = None

    @property
    def place(self) -> str:
        """The task, and the file and the line in it if they are known."""
        where = [self.task_id, *([self.file] if self.file else [])]
        return "/".join(where) + (f":{self.line}" if self.line else "")
