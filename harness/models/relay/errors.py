"""Errors in the form of each API, so that every client's library understands them."""

from __future__ import annotations

import json
from typing import Any

from harness.core.text import escape_terminal
from harness.models.endpoint import Api
from harness.models.server_errors import (
    ContextTooLongError,
    InvalidRequestError,
    ModelError,
    ModelRefusedError,
)
from harness.models.spending import BudgetReached

_MOST_CHARACTERS = 1000
_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


class RelayError(Exception):
    """A request that the relay answers with an error. `code` is short and stable, for programs."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(escape_terminal(message, _MOST_CHARACTERS))
        self.status = status
        self.code = code


def explain_failure(error: Exception) -> RelayError:
    """Return the error for a client after a failure of the model layer, without any address of the host."""
    match error:
        case RelayError():
            return error
        case BudgetReached():
            return RelayError(400, "budget_reached", f"{error}; no further request will be answered")
        case ContextTooLongError():
            # Programs that shorten their conversation look for these words.
            message = f"prompt is too long: this model's maximum context length is exceeded: {error}"
            return RelayError(400, "context_length_exceeded", message)
        case InvalidRequestError():
            return RelayError(400, "invalid_request", str(error))
        case ModelError():
            return RelayError(502, "model_failed", f"the model's server failed: {error.reply}")
        case ModelRefusedError():
            return RelayError(502, "model_refused", f"the model's server refuses all requests: {error.reply}")
    # The details are in the transcript, because a traceback tells an agent about the host.
    return RelayError(500, "internal_error", "the relay has failed")


def encode_error(api: Api | None, error: RelayError) -> bytes:
    """Return the JSON of an error in the form of an API."""
    return json.dumps(_describe(api, error)).encode()


def encode_error_event(api: Api, error: RelayError) -> bytes:
    """Return the event that ends a stream of an API with an error."""
    body = _describe(api, error)
    if api == "responses":
        body |= {"type": "error", "code": error.code, "message": str(error), "param": None}
        body["sequence_number"] = 0
    name = "" if api == "chat" else "event: error\n"
    # The empty line ends an event that the server has left unfinished.
    return f"\n{name}data: {json.dumps(body)}\n\n".encode()


def _describe(api: Api | None, error: RelayError) -> dict[str, Any]:
    message = str(error)
    if api == "messages":
        kind = _ANTHROPIC_TYPES.get(error.status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}}
    kind = "invalid_request_error" if error.status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": error.code}}
