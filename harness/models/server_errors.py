"""The meaning of a model server's error: retry, shorten the messages, give up, or end the run."""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any

from harness.core.errors import HarnessError, UsageError

RETRIED_STATUSES = frozenset({408, 409, 425, 429})
# A server that asks for a longer pause than this is asked again before.
MOST_RETRY_AFTER_SECONDS = 300.0
# Sources: OpenAI's and Azure's code `context_length_exceeded`; vLLM and SGLang "maximum context length";
# llama.cpp `exceed_context_size_error`; Anthropic's "prompt is too long"; Gemini's "input token count".
_CONTEXT = re.compile(
    r"context_length_exceeded|exceed_context_size|(maximum|model's|available) context (length|size|window)"
    r"|context (length|window|size)[^.]{0,40}exceed|exceeds? the[^.]{0,40}context"
    r"|exceeds? context limit|(prompt|input) is too long|input token count[^.]{0,60}exceeds"
    r"|longer than the model's context",
    re.IGNORECASE,
)
_NO_CREDIT = re.compile(
    r"insufficient_quota|billing|payment required|out of credits?|spend_limit_reached", re.IGNORECASE
)
# Anthropic answers 400 with the code of any invalid request. Only the start counts, because the rest of a
# message may quote the conversation.
_NO_CREDIT_MESSAGE = re.compile(r"(HTTP \d+: )?Your credit balance is too low")
# The server cannot take this kind of request at all, whichever status it sends. Sources: llama.cpp without
# --jinja and chat templates of models without a system role (500); OpenRouter (404).
_UNABLE = re.compile(
    r"requires --jinja|unsupported param: tools|system role not supported|conversation roles must alternate"
    r"|no endpoints found that support|does not support tools|items are not persisted",
    re.IGNORECASE,
)
# Sources: OpenAI "Unsupported parameter: 'stop'"; Gemini "Unknown name \"seed\""; Groq "property 'seed' is
# unsupported"; vLLM and Mistral "'type': 'extra_forbidden', 'loc': ('body', 'seed')"; Anthropic's
# "`temperature` is deprecated for this model", "output_config.effort: Extra inputs are not permitted" and
# "This model does not support the effort parameter".
_REFUSALS = (
    re.compile(
        r"(?:unsupported|unknown|unrecognized|unexpected)[^'\"`]{0,60}['\"`](\w+)(?:\.\w+)*['\"`]", re.I
    ),
    re.compile(
        r"['\"`](\w+)(?:\.\w+)*['\"`][^'\"`]{0,40}(?:not supported|unsupported|not permitted|deprecated)",
        re.I,
    ),
    re.compile(r"(?:^|: )(\w+)(?:\.\w+)*: Extra inputs are not permitted"),
    re.compile(r"does not support the (\w+) parameter"),
    re.compile(r"extra_forbidden['\"],\s*['\"]loc['\"]:\s*[\[(]['\"]body['\"],\s*['\"](\w+)['\"]\s*[\])]"),
)
_UNSUPPORTED = re.compile(r"unsupported|not supported|does not support|not permitted|not allowed", re.I)
# The fields of a request that hold a parameter, if an error may name it by another name.
_FIELDS = {"effort": "output_config"}
# Codes of errors that come with status 200. Sources: OpenAI's Responses API, OpenRouter, whose codes are HTTP
# statuses, and the types of Anthropic's errors, which come with status 200 behind some gateways.
_STATUS_OF_CODE = {
    "server_error": 500,
    "rate_limit_exceeded": 429,
    "invalid_prompt": 400,
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "overloaded_error": 529,
}
# The status of Anthropic's server while it has too many requests of all its users.
_OVERLOADED = 529


class ErrorKind(StrEnum):
    """The meaning of an error reply."""

    RATE_LIMIT = "rate limit"
    # The server failed, or the connection broke. Another try may succeed.
    SERVER = "server"
    CONTEXT = "context"
    # Every request of the run would fail in the same way.
    REFUSED = "refused"
    INVALID = "invalid"


def classify_error(status: int, body: Any, text: str) -> ErrorKind:
    """Return the meaning of an error reply.

    Args:
        status: the HTTP status.
        body: the JSON of the error, if it has one.
        text: the message of the error.
    """
    detail = f"{_read_code(body)} {text}"
    if status == 413 or (status in (400, 422, 500) and _CONTEXT.search(detail)):
        return ErrorKind.CONTEXT
    if _UNABLE.search(text):
        return ErrorKind.INVALID
    if status in (401, 402, 403, 404) or 300 <= status < 400 or _NO_CREDIT.search(_read_code(body)):
        return ErrorKind.REFUSED
    if _NO_CREDIT_MESSAGE.match(text):
        return ErrorKind.REFUSED
    if status in (429, _OVERLOADED):
        return ErrorKind.RATE_LIMIT
    if (status >= 500 and status != 501) or status in RETRIED_STATUSES:
        return ErrorKind.SERVER
    # The message may quote the conversation, where a model or a tool can write anything.
    if "model_not_found" in _read_code(body):
        return ErrorKind.REFUSED
    return ErrorKind.INVALID


def find_error(raw: Any) -> tuple[int, Mapping[str, Any]] | None:
    """Return the HTTP status and the JSON of an error that came with status 200, or None."""
    error = raw.get("error") if isinstance(raw, Mapping) else None
    if not error or raw.get("choices"):
        return None
    code = error.get("code") if isinstance(error, Mapping) else None
    if type(code) is int and 400 <= code < 600:
        return code, raw
    if code is None and raw.get("type") == "error" and isinstance(error, Mapping):
        code = error.get("type")
    return _STATUS_OF_CODE.get(str(code), 500), raw


def find_refused_parameter(body: Any, text: str, sent: Collection[str]) -> str | None:
    """Return the parameter that an error reply names as unsupported, None if it names none.

    Args:
        body: the JSON of the error, if it has one.
        text: the message of the error.
        sent: the names of the parameters that a request can do without.

    Source: OpenAI's codes `unsupported_parameter` and `unsupported_value`, whose `param` names the field.
    """
    error = _read_error(body)
    named = str(error.get("param") or "").partition(".")[0]
    code = str(error.get("code") or "")
    if named in sent and (code.startswith("unsupported_") or _UNSUPPORTED.search(text)):
        return named
    for pattern in _REFUSALS:
        for found in pattern.finditer(text):
            name = _FIELDS.get(found[1], found[1])
            if name in sent:
                return name
    return None


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the pause in seconds that a reply asks for, None without one.

    Source: RFC 9110, section 10.2.3, and OpenAI's `retry-after-ms`.
    """
    milliseconds, value = headers.get("retry-after-ms"), headers.get("retry-after")
    try:
        if milliseconds is not None:
            seconds = float(milliseconds) / 1000
        elif value is None:
            return None
        elif re.fullmatch(r"\s*\d+(\.\d+)?\s*", value):
            seconds = float(value)
        else:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(seconds, 0.0), MOST_RETRY_AFTER_SECONDS) if seconds == seconds else None


def _read_code(body: Any) -> str:
    error = _read_error(body)
    details = error.get("details")
    codes = [error.get("code"), error.get("type"), isinstance(details, Mapping) and details.get("error_code")]
    return " ".join(str(code) for code in codes if code)


def _read_error(body: Any) -> Mapping[str, Any]:
    """Return the object of an error. Some servers wrap it in `error`, as the API says, and others do not."""
    if not isinstance(body, Mapping):
        return {}
    inner = body.get("error")
    return inner if isinstance(inner, Mapping) else body


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
