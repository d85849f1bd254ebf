"""The errors of a sandbox."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from harness.core.errors import SandboxError, UsageError

_REASON_CHARACTERS = 500
# "[Errno 2] No such file or directory: 'data.csv'"
_OS_ERROR = re.compile(r"\[Errno \d+\] ([^:]+): .*", re.DOTALL)


class SandboxClosed(SandboxError):
    """The sandbox is gone, because the block that opened it has ended.

    This is a mistake of the caller, but no UsageError. A grader takes a UsageError for a request that the
    submission has made impossible, and this mistake must not become a verdict.
    """

    def __init__(self) -> None:
        super().__init__("the sandbox is closed, because the block that opened it has ended", outside=True)


class SandboxUnresponsive(SandboxError):
    """The guest did not answer within a limit that it enforces itself."""


class SandboxLimitReached(SandboxError):
    """A program in the sandbox reached a limit, a field of `Limits`, which cost the whole sandbox."""

    limit: str


class SandboxOutOfMemory(SandboxLimitReached):
    """The programs in the sandbox took so much memory that the kernel killed PID 1."""

    limit = "memory_mb"


class SandboxOutOfDisk(SandboxLimitReached):
    """The programs in the sandbox wrote more to its root file system than they may."""

    limit = "disk_mb"


def build_fault(what: object) -> SandboxError:
    """Return the error for an unmeasured limit, such as a wait for an engine that was slow.

    A limit counts against a program or an agent only if it was measured that they reached it. Whatever else
    ends their work is a fault of the machine, the engine or the harness, whose attempt is retried.
    """
    return SandboxError(str(what)[:_REASON_CHARACTERS], outside=True)


def raise_refusal(action: str, header: Mapping[str, Any]) -> None:
    """Raise UsageError if an answer of the guest refuses the request. `action` names the path."""
    if "refused" in header:
        reason = str(header["refused"])[:_REASON_CHARACTERS]
        system_error = _OS_ERROR.fullmatch(reason)
        raise UsageError(f"{action}: {system_error[1] if system_error else reason}")
