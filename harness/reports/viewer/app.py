"""The app of the viewer: one page, and the values that the page asks for as JSON."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from harness.core.errors import HarnessError, UsageError, describe_installation
from harness.core.types import Status
from harness.reports.page_file import describe_policy, encode, generate_page
from harness.reports.viewer.attempt_query import MOST_ROWS, Query, find_attempts
from harness.reports.viewer.catalogue import Catalogue, RemovedRunError, UnknownRunError, describe_audit
from harness.reports.viewer.run_view import (
    MOST_RUNS,
    RunOrder,
    describe_attempt,
    describe_charts,
    describe_comparison,
    describe_matrix,
    describe_run,
    list_facts,
    list_runs,
)
from harness.reports.viewer.transcript_follower import TranscriptFollowers
from harness.runs.transcripts import find_transcript

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


# A page of another site may have a name that leads to 127.0.0.1, but the browser sends that name as the host.
_HOSTS = frozenset({"127.0.0.1", "localhost"})
_COOKIE = "harness-view"
_OWN_SITES = frozenset({"same-origin", "none"})
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_WITHOUT_SCRIPT = "This page needs JavaScript. `harness report` prints the same figures."
_STATUSES: Mapping[type[Exception], int] = {UnknownRunError: 404, RemovedRunError: 410}
_LOG = logging.getLogger(__name__)


@lru_cache(maxsize=1)
def _list_headers() -> list[tuple[bytes, bytes]]:
    policy = f"{describe_policy(is_served=True)}; frame-ancestors 'none'"
    return [(b"content-security-policy", policy.encode()), *_HEADERS]


def _make_secret() -> str:
    return secrets.token_urlsafe(32)


def _is_same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode(), secret.encode())


@dataclass(frozen=True, slots=True)
class Access:
    """The secrets of one viewer.

    The cookie is bound to a path that cannot be guessed. Otherwise the browser would also send it to every
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
            more = _list_headers() if cookie is None else [*_list_headers(), (b"set-cookie", cookie)]
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        await send(message)

    return send_with_headers


async def _refuse(send: Send, status: int, text: str) -> None:
    body = f"{text}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *_list_headers()]})
    await send({"type": "http.response.body", "body": body})


def make_viewer_app(catalogue: Catalogue, access: Access) -> ASGIApp:
    """Return the app of the viewer.

    Raises UsageError if the packages of the extra `view` are not installed.
    """
    try:
        from starlette.applications import Starlette
        from starlette.responses import HTMLResponse
        from starlette.routing import Mount, Route
    except ImportError as error:
        raise UsageError(
            f"the viewer needs the packages starlette and uvicorn: {error}",
            hint=describe_installation("view"),
        ) from error
    views = _Views(catalogue)

    async def serve_page(_request: Request) -> Response:
        return HTMLResponse("".join(generate_page(title="harness view", without_script=_WITHOUT_SCRIPT)))

    routes = [Route("/", serve_page)]
    routes += [Route(f"/api/{name}", _serve_values(view)) for name, view in views.by_name().items()]
    return Guard(Starlette(routes=[Mount(access.path, routes=routes)]), access)


def _serve_values(view: Callable[[Mapping[str, str]], Any]) -> Callable[[Request], Any]:
    """Return the endpoint of a view, which runs on a thread because it reads files."""
    from starlette.responses import Response

    def answer(parameters: Mapping[str, str]) -> tuple[int, str]:
        try:
            return 200, encode(view(parameters))
        except HarnessError as error:
            return _STATUSES.get(type(error), 400), encode({"error": error.message, "hint": error.hint})
        except OSError as error:
            text = f"the run folder cannot be read: {error.strerror or error}"
            return 409, encode({"error": text, "hint": None})
        except Exception:
            _LOG.exception("the viewer failed")
            return 500, encode({"error": "the viewer failed; its terminal has the traceback", "hint": None})

    async def serve(request: Request) -> Response:
        status, body = await asyncio.to_thread(answer, request.query_params)
        return Response(body, status_code=status, media_type="application/json")

    return serve


class _Views:
    """The views of one viewer. Each gets the parameters of a request, and returns plain values."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._followers = TranscriptFollowers()

    def by_name(self) -> dict[str, Callable[[Mapping[str, str]], Any]]:
        return {
            "runs": self._list_runs,
            "matrix": lambda _parameters: describe_matrix(self._catalogue),
            "run": lambda parameters: describe_run(self._catalogue, _read(parameters, "run")),
            "charts": lambda parameters: describe_charts(self._find(parameters)),
            "manifest": lambda parameters: list_facts(self._find(parameters)),
            "attempts": self._list_attempts,
            "attempt": self._describe_attempt,
            "transcript": self._read_transcript,
            "comparison": lambda parameters: describe_comparison(
                self._find(parameters, "baseline"), self._find(parameters, "candidate")
            ),
            "audit": lambda parameters: describe_audit(
                self._catalogue.find_audit(_read(parameters, "audit"))
            ),
        }

    def _find(self, parameters: Mapping[str, str], name: str = "run") -> Path:
        return self._catalogue.find_run(_read(parameters, name))

    def _list_runs(self, parameters: Mapping[str, str]) -> dict[str, Any]:
        first, number = (
            _read_number(parameters, name, default) for name, default in (("first", 0), ("number", MOST_RUNS))
        )
        order = RunOrder(parameters.get("sort") or "started", parameters.get("descending", "1") == "1")
        return list_runs(
            self._catalogue, parameters.get("search", "")[:200], first, min(number, MOST_RUNS), order
        )

    def _list_attempts(self, parameters: Mapping[str, str]) -> dict[str, Any]:
        index = self._catalogue.read_attempts(self._find(parameters))
        first = _read_number(parameters, "first", 0)
        number = min(_read_number(parameters, "number", 100), MOST_ROWS)
        found, rows = find_attempts(index, read_query(parameters), first, number)
        return {
            "all": len(index),
            "found": found,
            "first": first,
            "is_complete": index.is_complete,
            "rows": rows,
        }

    def _describe_attempt(self, parameters: Mapping[str, str]) -> dict[str, Any]:
        folder = self._find(parameters)
        index = self._catalogue.read_attempts(folder)
        task_id, attempt = _read(parameters, "task"), _read_number(parameters, "attempt", 0)
        return describe_attempt(folder, index, task_id, attempt)

    def _read_transcript(self, parameters: Mapping[str, str]) -> dict[str, Any]:
        task_id, attempt = _read(parameters, "task"), _read_number(parameters, "attempt", 0)
        path = find_transcript(self._find(parameters), task_id, attempt)
        first = _read_number(parameters, "first", 0)
        return self._followers.find(path).read(first, _read_number(parameters, "generation", 0))


def read_query(parameters: Mapping[str, str]) -> Query:
    """Return the query of a request for attempts. Raises UsageError for a value that cannot be used."""
    status = parameters.get("status") or None
    if status is not None and status not in set(Status):
        raise UsageError(f"{status!r} is not a status", hint=f"use one of {', '.join(Status)}")
    return Query(
        status=None if status is None else Status(status),
        category=parameters.get("category"),
        task=parameters.get("task"),
        search=parameters.get("search", "")[:200],
        sort=parameters.get("sort") or "ended",
        descending=parameters.get("descending", "1") == "1",
    )


def _read(parameters: Mapping[str, str], name: str) -> str:
    if name not in parameters:
        raise UsageError(f"the parameter {name!r} is missing")
    return parameters[name]


def _read_number(parameters: Mapping[str, str], name: str, default: int) -> int:
    text = parameters.get(name, str(default))
    if not (text.isdecimal() and text.isascii() and len(text) < 16):
        raise UsageError(f"the parameter {name!r} must be a whole number from 0 on, not {text[:40]!r}")
    return int(text)
