"""Requests to a service: the token, the tries, and errors without the token."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import random
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from harness.core.errors import (
    EngineUnavailableError,
    HarnessError,
    SandboxError,
    UsageError,
    describe_installation,
)
from harness.core.version import __version__
from harness.sandbox.failures import SandboxClosed, SandboxOutOfDisk, SandboxOutOfMemory

if TYPE_CHECKING:
    import httpx
    from websockets.asyncio.client import ClientConnection


# A message of a service is shown up to this length.
_MESSAGE_CHARACTERS = 2000
# The service has not begun the work of a request that it refuses with one of these codes.
REFUSED_CODES = frozenset({"busy", "too_many_requests", "too_many_bytes", "draining"})
TOKEN_VARIABLE = "HARNESS_SERVE_TOKEN"
_CONNECT_SECONDS = 10.0
# A reply that needs no sandbox comes at once.
REPLY_SECONDS = 30.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 10.0
_NAME = re.compile(r"[A-Za-z0-9._~-]+")
_OPEN_SECONDS = 30.0
_CLOSE_SECONDS = 2.0


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
    # When the same request may succeed, None if the service does not say.
    retry_seconds: float | None = None


_lost: Callable[[str], HarnessError] = partial(SandboxError, outside=True)
_BY_CODE: dict[str, Callable[[str], HarnessError]] = {
    "busy": ServiceBusyError,
    "too_many_requests": ServiceBusyError,
    "too_many_bytes": ServiceBusyError,
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


@dataclass(frozen=True, slots=True)
class Address:
    """A service and its token. Its text never has the token."""

    # Without the token, and without a slash at the end.
    url: str
    token: SecretStr = field(repr=False)

    def __str__(self) -> str:
        return self.url


def read_address(url: str, token: str | None = None) -> Address:
    """Return the address of a service.

    If `token` is None, it is the last part of the URL. For a URL without a path it is HARNESS_SERVE_TOKEN.
    Raises UsageError for a URL that cannot be used, or without a token. The message never has the path.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https"):
        raise UsageError(
            "the URL of a service must begin with http:// or https:// and name a host",
            hint="use the URL that harness serve prints",
        )
    if parts.username is not None or parts.query or parts.fragment:
        raise UsageError("the URL of a service cannot have a user, a query or a fragment")
    path = parts.path.rstrip("/")
    if token is None and not path:
        token = os.environ.get(TOKEN_VARIABLE)
    if token is None:
        path, _, token = path.rpartition("/")
    elif path.endswith(f"/{token}"):
        path = path.removesuffix(f"/{token}")
    if not _NAME.fullmatch(token):
        raise UsageError(
            "the URL of the service has no token, or one that a URL cannot have",
            hint=f"use the URL that harness serve prints, pass token=, or set {TOKEN_VARIABLE}",
        )
    name = f"[{host}]" if ":" in host else host
    return Address(f"{parts.scheme}://{name}{f':{port}' if port else ''}{path}", SecretStr(token))


class Connection:
    """A connection to a service, which any number of calls may use at once."""

    def __init__(self, address: Address, http: httpx.AsyncClient, *, wait_seconds: float) -> None:
        self.address = address
        self.wait_seconds = wait_seconds
        self._http = http

    @property
    def is_closed(self) -> bool:
        """Whether the block of the connection has ended."""
        return self._http.is_closed

    async def request(
        self,
        method: str,
        path: str,
        *,
        seconds: float = REPLY_SECONDS,
        retry_seconds: float | None = None,
        values: Mapping[str, Any] | None = None,
        content: bytes | None = None,
        query: Mapping[str, str] | None = None,
    ) -> bytes:
        """Return the body of a reply.

        A request that the service has refused before it began is sent again until `retry_seconds` are over,
        no sooner than the service asks for. No other request is, because it may have acted.

        Args:
            method: the method of HTTP.
            path: the path behind the token.
            seconds: the time of the work. No reply can come later.
            retry_seconds: how long the request is sent again, by default `wait_seconds`.
            values: the body as JSON.
            content: the body as bytes.
            query: the parameters of the URL.

        Raises HarnessError, of the class that a local call would raise if there is one.
        """
        sending = {"json": values} if values is not None else {"content": content}
        replying = self.stream(
            method, path, seconds=seconds, retry_seconds=retry_seconds, query=query, **sending
        )
        async with replying as response:
            with self.catch_lost():
                return await response.aread()

    async def fetch(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """Return the JSON of a reply. Takes the arguments of `request`, and raises its errors."""
        body = await self.request(method, path, **options)
        try:
            value = json.loads(body)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise self._not_ours()
        return value

    @contextlib.asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        seconds: float,
        retry_seconds: float | None = None,
        query: Mapping[str, str] | None = None,
        **sending: Any,
    ) -> AsyncIterator[httpx.Response]:
        """Yield a reply whose body has not been read. The end of the block ends the request at the service.

        Repeats and raises as `request` does.
        """
        import httpx

        timeout = httpx.Timeout(seconds + REPLY_SECONDS, connect=_CONNECT_SECONDS)
        ends = time.monotonic() + (self.wait_seconds if retry_seconds is None else retry_seconds)
        pause = _FIRST_PAUSE_SECONDS
        while True:
            request = self._http.build_request(
                method, self.address.url + path, params=query, timeout=timeout, **sending
            )
            with self.catch_lost():
                response = await self._http.send(request, stream=True)
            async with contextlib.aclosing(response):
                if response.is_success:
                    yield response
                    return
                with self.catch_lost():
                    refusal = self._read_refusal(response, await response.aread())
            wait = max(refusal.retry_seconds or 0.0, pause) * random.uniform(1.0, 1.5)
            if refusal.code not in REFUSED_CODES or time.monotonic() + wait > ends:
                raise build_error(refusal, str(self.address))
            await asyncio.sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def require_same_version(self) -> None:
        """Raise UsageError if the service has another version, whose requests may differ."""
        found = await self.fetch("GET", "/health")
        theirs = str(found.get("version", ""))[:40]
        if "status" not in found or not theirs:
            raise self._not_ours()
        if theirs.split(".")[:2] != __version__.split(".")[:2]:
            raise UsageError(
                f"the service at {self.address} has harness {theirs}, and this client has {__version__}",
                hint=f"install harness {theirs} here, or {__version__} there",
            )

    def _read_refusal(self, response: httpx.Response, body: bytes) -> Refusal:
        try:
            error = json.loads(body)["error"]
            code, message = str(error["code"]), str(error["message"])
        except (ValueError, LookupError, TypeError):
            if response.status_code < 500:
                raise self._not_ours() from None
            # A proxy between may have sent the request on, so that it may have acted.
            code, message = "", "the reply is not from harness serve"
        after = response.headers.get("retry-after", "")
        seconds = float(after) if after.isascii() and after.isdigit() else None
        return Refusal(response.status_code, code, message, seconds)

    def _not_ours(self) -> UsageError:
        return UsageError(
            f"the server at {self.address} is not harness serve", hint="use the URL that harness serve prints"
        )

    @contextlib.contextmanager
    def catch_lost(self) -> Iterator[None]:
        """Raise ServiceUnreachableError if the block loses the service."""
        import httpx

        try:
            yield
        except httpx.ConnectError as error:
            # The error of the library holds the request and with it the token. Its text has neither.
            raise ServiceUnreachableError(
                f"no service answers at {self.address}: {error}",
                hint="start it with: harness serve; or correct the address",
            ) from None
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise ServiceUnreachableError(
                f"the connection to the service at {self.address} was lost: {type(error).__name__}",
                hint="look whether the service still runs; it may have begun the request",
            ) from None


@contextlib.asynccontextmanager
async def open_connection(address: Address, *, wait_seconds: float) -> AsyncIterator[Connection]:
    """Yield a connection to a service of this version, whose token was accepted.

    Raises UsageError for a wrong token, for a service of another version, and without the packages of the
    extra `client`. Raises ServiceUnreachableError if no service answers.
    """
    try:
        import httpx
    except ImportError as error:
        raise UsageError(
            "the client needs httpx, which is not installed", hint=describe_installation("client")
        ) from error
    async with httpx.AsyncClient(
        # A header, because a library may log a URL. No local variable holds it, because some tracebacks show
        # those.
        headers={"authorization": f"Bearer {address.token.get_secret_value()}"},
        # The environment's proxies would see the token.
        trust_env=False,
        # The service decides how many requests it takes.
        limits=httpx.Limits(max_connections=None),
    ) as http:
        connection = Connection(address, http, wait_seconds=wait_seconds)
        await connection.require_same_version()
        yield connection


@contextlib.asynccontextmanager
async def open_socket(address: Address, path: str, *, most_bytes: int) -> AsyncIterator[ClientConnection]:
    """Yield a WebSocket to a service, whose messages have at most `most_bytes`.

    Raises UsageError without the packages of the extra `client`, and HarnessError if the service refuses it
    or is away.
    """
    try:
        from websockets.asyncio.client import connect
        from websockets.exceptions import InvalidHandshake, InvalidStatus
    except ImportError as error:
        raise UsageError(
            "a WebSocket to a service needs websockets, which is not installed",
            hint=describe_installation("client"),
        ) from error
    # The library logs the head of the request, which has the token.
    silent = logging.getLogger(f"{__name__}.silent")
    silent.disabled = True
    connecting = connect(
        f"ws{address.url.removeprefix('http')}{path}",
        additional_headers={"authorization": f"Bearer {address.token.get_secret_value()}"},
        # The environment's proxies would see the token.
        proxy=None,
        compression=None,
        max_size=most_bytes,
        open_timeout=_OPEN_SECONDS,
        close_timeout=_CLOSE_SECONDS,
        logger=silent,
    )
    async with contextlib.AsyncExitStack() as stack:
        try:
            socket = await stack.enter_async_context(connecting)
        except InvalidStatus as error:
            try:
                refused = json.loads(error.response.body or b"")["error"]
                refusal = Refusal(error.response.status_code, str(refused["code"]), str(refused["message"]))
            except (ValueError, LookupError, TypeError):
                raise ServiceUnreachableError(
                    f"the server at {address} answered a WebSocket with status {error.response.status_code}",
                    hint="let the proxy between pass WebSockets on",
                ) from None
            raise build_error(refusal, str(address)) from None
        except (OSError, TimeoutError, InvalidHandshake) as error:
            raise ServiceUnreachableError(
                f"no service answers at {address}: {type(error).__name__}"
            ) from None
        yield socket
