"""The errors of the service. Each has the status of the HTTP reply and a short, stable code for programs."""

from __future__ import annotations

import errno
import json
import math
from typing import TYPE_CHECKING

from harness.core.errors import EngineUnavailableError, HarnessError, UsageError
from harness.core.logger import get_logger
from harness.core.text import escape_terminal

if TYPE_CHECKING:
    from starlette.responses import Response

_LOGGER = get_logger(__name__)
MAX_MESSAGE_CHARACTERS = 2000


class ServiceError(Exception):
    """A request that the service refuses.

    Args:
        status: the status of the HTTP reply.
        code: a short name for programs. It stays the same when the message changes.
        message: the fault, the value, the limit and the next step.
        retry_seconds: the time after which the same request may succeed, None if it never will.
    """

    def __init__(self, status: int, code: str, message: str, *, retry_seconds: float | None = None) -> None:
        super().__init__(escape_terminal(message, MAX_MESSAGE_CHARACTERS))
        self.status = status
        self.code = code
        self.retry_seconds = retry_seconds


class InvalidRequestError(ServiceError):
    """The request itself is at fault."""

    def __init__(self, message: str, *, code: str = "invalid_request", status: int = 400) -> None:
        super().__init__(status, code, message)


class BusyError(ServiceError):
    """The queue cannot clear within the time of the request, so the service refuses it at once."""

    def __init__(self, message: str, *, retry_seconds: float) -> None:
        # Clients of code sandboxes try again after 504 and after no other status.
        super().__init__(504, "busy", message, retry_seconds=retry_seconds)


class ShareUsedError(ServiceError):
    """The client already has as many requests in the service as it may have."""

    def __init__(self, message: str, *, retry_seconds: float) -> None:
        super().__init__(429, "too_many_requests", message, retry_seconds=retry_seconds)


class DrainingError(ServiceError):
    """The service is about to end, and finishes only the requests that it has."""

    def __init__(self) -> None:
        super().__init__(503, "draining", "the service is about to end and takes no new requests")


def explain(error: UsageError) -> str:
    """Return the message and the hint of an error, for a client that gets only one text."""
    return f"{error.message}; {error.hint}" if error.hint else error.message


def explain_error(error: Exception) -> ServiceError:
    """Return the error of a reply. The log gets the details of a fault of the service."""
    match error:
        case ServiceError():
            return error
        case UsageError():
            return InvalidRequestError(error.message, status=422)
        case HarnessError():
            _LOGGER.error("fault: %s", error.message)
            unavailable = isinstance(error, EngineUnavailableError)
            code = "engine_unavailable" if unavailable else "sandbox_failed"
            return ServiceError(503, code, error.message, retry_seconds=1.0)
    if is_exhausted(error):
        message = "the service has reached its limit of open files, which its connections use up"
        _LOGGER.error("fault: %s", message)
        return BusyError(message, retry_seconds=1.0)
    _LOGGER.error("the service failed", exc_info=error)
    return ServiceError(500, "internal_error", "the service failed; its log has the details")


def encode_error(error: ServiceError) -> bytes:
    """Return the body of an error's reply, in JSON."""
    return json.dumps({"error": {"code": error.code, "message": str(error)}}).encode()


def make_error_response(error: ServiceError) -> Response:
    """Return the reply to a refused request. It also refuses a WebSocket."""
    from starlette.responses import Response

    # The header has whole seconds only (RFC 9110, section 10.2.3).
    seconds = error.retry_seconds
    headers = {} if seconds is None else {"retry-after": str(max(1, math.ceil(seconds)))}
    return Response(encode_error(error), error.status, headers, "application/json")


def is_exhausted(error: BaseException) -> bool:
    """Return whether an error says that no more files can be opened."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)
