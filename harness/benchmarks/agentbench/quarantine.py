"""Upstream's tasks whose gold is wrong, or depends on the host: they are not run unless asked for."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

_HOST_PROCESSES = "its gold counts processes, and how many there are depends on the host and the moment"
_NO_SUCH_SHELL = (
    "its set-up ends in `su - jack`, which has no effect on the agent's shell, so that ~/test is not there"
)


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Task ids, as a pattern in which `*` stands for the name of a file, and why."""

    tasks: str
    reason: str


QUARANTINE = (
    Quarantined(
        "os/dev/8", 'its check reads sizes as integers, and fails on "8.0K", what its own example answers'
    ),
    Quarantined("os/dev/24", _NO_SUCH_SHELL),
    Quarantined(
        "os/4/N11", "its example leaves out names with a k, where the text asks for names without a u"
    ),
    Quarantined(
        "os/4/Q09/0",
        "its set-up writes to file descriptor 123321, a blank being left out before >: that fails where "
        "the host's limit of open files (nofile) is not above it",
    ),
    Quarantined("os/6/new/0", _NO_SUCH_SHELL),
    Quarantined("os/6/new/1", _NO_SUCH_SHELL),
    Quarantined("os/6/new/8", "its gold installs a package from the network, which no sandbox has"),
    Quarantined("os/7/*/0", _HOST_PROCESSES),
    Quarantined("os/7/*/4", _HOST_PROCESSES),
    Quarantined("os/7/*/75", _HOST_PROCESSES),
)


def why_quarantined(task_id: str) -> str | None:
    """Return why a task is quarantined, None where it is not."""
    return next((each.reason for each in QUARANTINE if fnmatchcase(task_id, each.tasks)), None)
