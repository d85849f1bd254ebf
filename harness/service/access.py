"""Check that a client sends the token, as a header or as the first part of the path."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from harness.core.errors import UsageError
from harness.service.errors import ServiceError

MIN_TOKEN_CHARACTERS = 16
# The characters that need no escape in a URL (RFC 3986, section 2.3).
_USABLE = re.compile(r"[A-Za-z0-9._~-]+")


def make_token() -> str:
    """Return a random token, which needs no escape in a URL."""
    return secrets.token_urlsafe(32)


@dataclass(frozen=True, slots=True)
class Admission:
    """A request that may enter: the path behind the token, and whose share of the service it uses."""

    path: str
    client: str


def admit(token: str, path: str, headers: Mapping[str, str], address: str) -> Admission:
    """Return the admission of a request.

    Several clients of code sandboxes take a URL and send no header, so the token may also be the first part
    of the path: `/TOKEN/run_code`. Further slashes before the token and behind it do not count, because a
    base URL with a slash at its end is common, and clients take a 404 for a wrong answer. Each comparison
    takes the same time for every wrong token.

    Args:
        token: the token of the service.
        path: the path of the request.
        headers: its headers, with names in lower case.
        address: the address of the client.

    Raises:
        ServiceError: 401 for a request without the token.
    """
    path = f"/{path.lstrip('/')}"
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and _is_same(bearer.strip(), token):
        first, _, rest = path.removeprefix("/").partition("/")
        # A client may be configured with both.
        return Admission(f"/{rest.lstrip('/')}" if _is_same(first, token) else path, address)
    first, _, rest = path.removeprefix("/").partition("/")
    if _is_same(first, token):
        return Admission(f"/{rest.lstrip('/')}", address)
    raise ServiceError(
        401,
        "unauthorized",
        "the token of the service is missing or wrong: send 'Authorization: Bearer TOKEN', or put the token "
        "before the path, as in /TOKEN/run_code",
    )


def require_own_origin(headers: Mapping[str, str]) -> None:
    """Raise ServiceError for a WebSocket that a page of another site opens.

    Browsers let every page open a WebSocket to any address, and name the page's origin. Other clients send
    none.
    """
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2] != headers.get("host"):
        raise ServiceError(403, "foreign_origin", "pages of other sites may not open a WebSocket here")


def _is_same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), token.encode())


def require_usable_token(token: str) -> None:
    """Raise UsageError for a token that is easy to guess, or that cannot be part of a URL."""
    if len(token) < MIN_TOKEN_CHARACTERS:
        raise UsageError(
            f"the token has {len(token)} characters, and needs at least {MIN_TOKEN_CHARACTERS}",
            hint="leave --token and HARNESS_SERVE_TOKEN out to get a random one",
        )
    if not _USABLE.fullmatch(token):
        raise UsageError(
            "the token has characters that a URL cannot have",
            hint="use letters, digits, and the characters - . _ ~",
        )
