"""The HTTP session with a server that takes spans. Needs the extra `otlp`.

The library counts every status below 400 as success, and tries again for half a minute if nothing listens.
"""

from __future__ import annotations

from typing import Any

import requests
from urllib3.exceptions import MaxRetryError, NewConnectionError

from harness.text import escape_terminal

_REASON_CHARACTERS = 200


class _RefusedError(Exception):
    """The request has failed, and another try would fail as well."""


class CollectorSession(requests.Session):
    """A session that takes only a status of 2xx for success, and gives up if no connection can be made."""

    def __init__(self) -> None:
        super().__init__()
        self.reason = ""
        """Why the last request failed, safe to print."""
        # Otherwise a password of ~/.netrc would replace the key of the user.
        self.auth = _keep_headers

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Send a request.

        Raises requests.ConnectionError if another try may succeed, and _RefusedError if it would not.
        """
        self.reason = ""
        try:
            response = super().send(request, **options)
        except requests.ConnectionError as error:
            self.reason = _explain(error)
            if _find_connection_fault(error) is not None:
                raise _RefusedError(self.reason) from error
            raise
        except requests.Timeout:
            self.reason = "it did not answer in time"
            raise
        if response.status_code >= 300:
            self.reason = _shorten(f"HTTP status {response.status_code} {response.reason or ''}".rstrip())
        if 300 <= response.status_code < 400:
            target = response.headers.get("location")
            self.reason += f", which leads to {_shorten(target)}" if target else ""
            response.close()
            raise _RefusedError(self.reason)
        return response


def _keep_headers(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


def _explain(error: requests.ConnectionError) -> str:
    fault = _find_connection_fault(error)
    cause = None if fault is None else fault.__cause__ or fault.__context__
    if isinstance(cause, OSError) and cause.strerror:
        return _shorten(cause.strerror)
    return "it cannot be reached" if fault is not None else "the connection broke"


def _find_connection_fault(error: requests.ConnectionError) -> NewConnectionError | None:
    """Return the error of a connection that could not be made, None for one that broke later."""
    inner = error.args[0] if error.args else None
    if isinstance(inner, MaxRetryError):
        inner = inner.reason
    return inner if isinstance(inner, NewConnectionError) else None


def _shorten(text: str) -> str:
    return escape_terminal(text, _REASON_CHARACTERS)
