"""The errors of a sandbox, and the party that caused each of them."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from harness.core.errors import SandboxError, UsageError
from harness.sandbox.backends.base import Backend, Cause
from harness.sandbox.connection import ConnectionLost

MAX_STDERR_CHARACTERS = 2000
# Code that reads an answer raises these if the answer does not have the expected form.
UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
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
    """Return the error for a limit that nobody has measured, such as a wait for an engine that was slow.

    A limit counts against a program or an agent only if it was measured that they reached it. Whatever else
    ends their work is a fault of the machine, the engine or the harness, whose attempt is retried.
    """
    return SandboxError(str(what)[:_REASON_CHARACTERS], outside=True)


async def explain_loss(
    backend: Backend, container_id: str, lost: ConnectionLost, *, stderr: str, acted_in: bool
) -> SandboxError:
    """Return the error that names the cause of a lost stream. Raises SandboxError.

    `stderr` is the guest's own, and `acted_in` is whether an agent had acted in the sandbox.
    """
    if lost.breach:
        return SandboxError(str(lost), acted_in=acted_in)
    fate = await asyncio.to_thread(backend.find_fate, container_id)
    if fate.cause is Cause.MEMORY:
        return SandboxOutOfMemory("the whole sandbox ran out of memory")
    detail = f"{lost}; exit code {fate.exit_code}"
    if fate.cause is Cause.OUTSIDE:
        return SandboxError(f"{detail}; the engine or one of its users ended it", outside=True)
    traceback = f"; {stderr[-MAX_STDERR_CHARACTERS:]}" if stderr else ""
    return SandboxError(f"{detail}{traceback}", acted_in=acted_in)


async def explain_silence(
    backend: Backend, container_id: str, request: str, seconds: float, *, acted: bool
) -> SandboxUnresponsive:
    """Return the error for a sandbox that has not answered a request in time.

    Its `outside` is set unless programs in the sandbox are measured to keep it from answering.
    """
    try:
        fate = await asyncio.to_thread(backend.find_fate, container_id, silent=True)
        outside = fate.cause is Cause.OUTSIDE
    except SandboxError as error:
        outside = error.outside
    message = f"the sandbox did not answer '{request}' in {seconds:.0f} s and was destroyed"
    return SandboxUnresponsive(message, outside=outside, acted_in=acted)


async def destroy(backend: Backend, container_id: str) -> None:
    """Destroy a sandbox that has failed. The end of its block tries again and reports a failure."""
    with contextlib.suppress(SandboxError):
        await asyncio.to_thread(backend.destroy, container_id)


@contextlib.contextmanager
def catch_unreadable(failure: Callable[[str], SandboxError]) -> Iterator[None]:
    """Raise the error that `failure` returns if the block cannot read an answer of the guest."""
    try:
        yield
    except SandboxError as error:
        raise failure(error.message) from error
    except UNREADABLE as error:
        raise failure(f"the guest's answer cannot be read: {type(error).__name__}") from error


def raise_refusal(action: str, header: Mapping[str, Any]) -> None:
    """Raise UsageError if an answer of the guest refuses the request. `action` names the path."""
    if "refused" in header:
        reason = str(header["refused"])[:_REASON_CHARACTERS]
        system_error = _OS_ERROR.fullmatch(reason)
        raise UsageError(f"{action}: {system_error[1] if system_error else reason}")
