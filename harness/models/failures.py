"""The ways in which a request to a model fails, and what each of them means for the run."""

from __future__ import annotations

from typing import Any

from harness.errors import HarnessError, UsageError


class ModelError(HarnessError):
    """A request failed although it was retried. The agent is not to blame.

    `reply` is the reason without the address of the server. `is_outage` if no other request has succeeded
    since this one began, so that the server seems to be down.
    """

    exit_code = 3
    is_outage = False
    reply = ""


class ModelRefusedError(UsageError):
    """The endpoint refuses every request: a wrong key, an unknown model, or no credit.

    All other requests would fail alike, so the run ends at once. `reply` is the error of the server.
    `is_of_address` if the URL seems to be a wrong one.
    """

    reply = ""
    is_of_address = False


class UnknownSpendingError(UsageError):
    """A budget cannot be kept, because the figure that it bounds is unknown for this endpoint."""


class ContextTooLongError(Exception):
    """The messages do not fit into the model's context. The message is the server's."""


class InvalidRequestError(Exception):
    """The server refuses this request as invalid, so that another try would not help."""

    # The JSON of the server's error, None without one.
    body: Any = None


class UnspokenApiError(InvalidRequestError):
    """The server answers nothing in the API of a request, but in another one."""


class MalformedReplyError(Exception):
    """The server's reply is not what its protocol promises. Another try may help."""


class PageReplyError(MalformedReplyError):
    """The server's reply is a web page, so its address is likely to be a wrong one."""
