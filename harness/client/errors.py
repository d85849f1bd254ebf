"""The errors of a client, built from the codes in the replies of its service.

An error that a local sandbox can have too is raised as the same class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from harness.errors import EngineUnavailableError, HarnessError, SandboxError, UsageError
from harness.sandbox.failures import SandboxClosed, SandboxOutOfDisk, SandboxOutOfMemory

# A message of a service is shown up to this length.
_MESSAGE_CHARACTERS = 2000
# The service has not begun the work of a request that it refuses with one of these codes.
REFUSED_CODES = frozenset({"busy", "too_many_requests", "draining"})


class ServiceUnreachableError(HarnessError):
    """No service answers at the address, or the connection to it was lost."""

    exit_code = 3


class ServiceBusyError(HarnessError):
    """The service had no room within the time that the caller wanted to wait."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class Refusal:
    """The error in a reply of a service."""

    status: int
    code: str
    message: str
    # The time after which the same request may succeed, None if the service names none.
    retry_seconds: float | None = None


_lost: Callable[[str], HarnessError] = partial(SandboxError, outside=True)
_BY_CODE: dict[str, Callable[[str], HarnessError]] = {
    "busy": ServiceBusyError,
    "too_many_requests": ServiceBusyError,
    "draining": partial(ServiceBusyError, hint="the service is about to end; ask its operator"),
    "engine_unavailable": EngineUnavailableError,
    "sandbox_deleted": lambda _message: SandboxClosed(),
    "sandbox_out_of_memory": SandboxOutOfMemory,
    "sandbox_out_of_disk": SandboxOutOfDisk,
    # The programs in the sandbox may be at fault.
    "sandbox_failed": partial(SandboxError, acted_in=True),
    "sandbox_closed": _lost,
    "sandbox_expired": _lost,
    "sandbox_idle": _lost,
    "unknown_sandbox": _lost,
    "internal_error": _lost,
}


def build_error(refusal: Refusal, name: str) -> HarnessError:
    """Return the error for the caller.

    Args:
        refusal: the error in the reply.
        name: the address of the service without its token.
    """
    message = refusal.message[:_MESSAGE_CHARACTERS]
    if refusal.status == 401:
        return UsageError(
            f"the service at {name} does not accept the token",
            hint="use the URL that harness serve printed at its last start, or pass its token",
        )
    if refusal.code in _BY_CODE:
        return _BY_CODE[refusal.code](message)
    if refusal.status < 500:
        return UsageError(message)
    return ServiceUnreachableError(f"the service at {name} answered with status {refusal.status}: {message}")
