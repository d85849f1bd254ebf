"""Who may use the viewer: the browser of the user who started it, and no other program or site.

Texts of a run may be secret, and every user and every web page of the machine can reach a loopback port.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

# A page of another site may have a name that leads to 127.0.0.1, but the browser sends that name as the host.
_HOSTS = frozenset({"127.0.0.1", "localhost"})
_COOKIE = "harness-view"
_OWN_SITES = frozenset({"same-origin", "none"})
_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


def _make_secret() -> str:
    return secrets.token_urlsafe(32)


def _is_same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode(), secret.encode())


@dataclass(frozen=True, slots=True)
class Access:
    """The secrets of one viewer.

    The cookie is bound to a path that nobody can guess. Otherwise the browser would also send it to every
    other server on a port of this host.
    """

    token: str = field(default_factory=_make_secret)
    session: str = field(default_factory=_make_secret)
    path: str = field(default_factory=lambda: f"/{secrets.token_urlsafe(12)}")
    # The tokens that open the page once.
    _unused: set[str] = field(default_factory=set)

    def describe_url(self, origin: str) -> str:
        """Return the address that opens the viewer at an origin such as `http://127.0.0.1:8000`."""
        return self._describe_url(origin, self.token)

    def issue_url(self, origin: str) -> str:
        """Return an address that opens the viewer once."""
        token = _make_secret()
        self._unused.add(token)
        return self._describe_url(origin, token)

    def take_token(self, given: str) -> bool:
        """Return whether a token opens the page. A token that opens it once is used up."""
        if _is_same(given, self.token):
            return True
        used = [token for token in self._unused if _is_same(given, token)]
        self._unused.difference_update(used)
        return bool(used)

    def _describe_url(self, origin: str, token: str) -> str:
        return f"{origin}{self.path}/?token={token}"


class Guard:
    """Answers a request only if it comes from the user's own browser, and adds the headers of safety."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        names = [name for name, _ in scope["headers"]]
        if names.count(b"host") != 1 or headers["host"].rpartition(":")[0] not in _HOSTS:
            await _refuse(send, 421, "This server answers only at 127.0.0.1 and localhost.")
        elif scope["method"] not in ("GET", "HEAD"):
            await _refuse(send, 405, "The viewer only reads.")
        elif headers.get("sec-fetch-site", "none") not in _OWN_SITES and not self._opens_page(scope, headers):
            await _refuse(send, 403, "Another site must not read the viewer.")
        elif self._takes_token(scope):
            await self._app(scope, receive, _add_headers(send, self._make_cookie()))
        elif self._has_cookie(headers):
            await self._app(scope, receive, _add_headers(send))
        else:
            await _refuse(send, 401, "Open the address that `harness view` has printed, with its token.")

    def _opens_page(self, scope: Scope, headers: dict[str, str]) -> bool:
        """Return whether the user follows a link to the page itself, which some other page may show."""
        return headers.get("sec-fetch-mode") == "navigate" and scope["path"] == f"{self._access.path}/"

    def _takes_token(self, scope: Scope) -> bool:
        """Return whether the request is for the page itself and has a token that opens it."""
        if scope["path"] != f"{self._access.path}/":
            return False
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        return self._access.take_token(given)

    def _has_cookie(self, headers: dict[str, str]) -> bool:
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(_COOKIE)
        except CookieError:
            return False
        given = "" if cookie is None else cookie.value
        return _is_same(given, self._access.session)

    def _make_cookie(self) -> bytes:
        return (
            f"{_COOKIE}={self._access.session}; Path={self._access.path}/; HttpOnly; SameSite=Strict"
        ).encode()


def _add_headers(send: Send, cookie: bytes | None = None) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            more = [*_HEADERS] if cookie is None else [*_HEADERS, (b"set-cookie", cookie)]
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        await send(message)

    return send_with_headers


async def _refuse(send: Send, status: int, text: str) -> None:
    body = f"{text}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *_HEADERS]})
    await send({"type": "http.response.body", "body": body})
