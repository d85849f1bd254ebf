"""The connection to a model server: it posts a JSON body and returns the JSON of the reply.

Everything that the server sends is bounded, and the key is replaced in all of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from harness.core.errors import UsageError, describe_installation
from harness.models.endpoint import PAGE, Api, Endpoint, describe_page, describe_proxy, read_key
from harness.models.messages import map_texts, read_server_json
from harness.models.server_errors import MalformedReplyError, PageReplyError, find_error
from harness.models.settings import HiddenKey
from harness.models.streamed_replies import ReplyTooLongError, read_reply, receive_reply

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Request, Response
    from openai import AsyncOpenAI

# The rest of a longer error is cut off, because only its code and the start of its message are of use.
MAX_ERROR_BYTES = 64 * 1024
CONNECT_SECONDS = 30.0
# How long a question about the address itself may take.
_PROBE_SECONDS = 1.5
# The version of the Messages API that all its servers speak. The later one, 2026-10-21, refuses `temperature`
# and `top_p` for all models, although the older models have them.
ANTHROPIC_VERSION = "2023-06-01"
# The path of each API below the URL of an endpoint.
API_PATHS: Mapping[Api, str] = {"chat": "chat/completions", "responses": "responses", "messages": "messages"}
# The library sends OPENAI_CUSTOM_HEADERS, OPENAI_ORG_ID and OPENAI_PROJECT_ID to every server. They may hold
# secrets, and no manifest shows them.
SENT_HEADERS = frozenset(
    (
        *("host", "accept", "accept-encoding", "anthropic-version", "connection"),
        *("content-length", "content-type", "transfer-encoding", "user-agent"),
    )
)
# At each request, a client looks at all its connections. Few for each keep the cost of a request the same,
# however many are under way.
REQUESTS_PER_CLIENT = 2


class ErrorReply(Exception):
    """The server answered with an error. The message is the server's."""

    def __init__(
        self,
        status: int,
        body: Any,
        message: str,
        headers: Mapping[str, str] | None = None,
        *,
        is_page: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        # The JSON of the error, None if it is not JSON.
        self.body = body
        # Whether the error is a web page.
        self.is_page = is_page
        self.headers = headers or {}


class NoReplyError(Exception):
    """The connection failed or broke, or the time of one try was over.

    `is_unreached` if there was no connection at all.
    """

    def __init__(self, message: str, *, is_unreached: bool = False) -> None:
        super().__init__(message)
        self.is_unreached = is_unreached


@dataclass(slots=True, eq=False)
class _Client:
    openai: AsyncOpenAI
    http: AsyncClient
    requests: int = 0


@dataclass(frozen=True, slots=True)
class OpenReply:
    """A reply whose body is still on its way. The end of `pieces` is the end of the body."""

    content_type: str
    pieces: AsyncGenerator[bytes, None]


class Connection:
    """Posts requests to one endpoint. `open_client` returns a further client of the library."""

    def __init__(
        self, endpoint: Endpoint, key: str, open_client: Callable[[], tuple[AsyncOpenAI, AsyncClient]]
    ) -> None:
        self._endpoint = endpoint
        self._open_client = open_client
        self._clients: list[_Client] = []
        path = API_PATHS[endpoint.api]
        # The library would parse and join the two parts of the address at each request.
        self._url = f"{endpoint.base_url.rstrip('/')}/{path}"
        self.hide_key = HiddenKey(key).remove_from

    async def post(self, body: Mapping[str, Any]) -> Any:
        """Return the JSON of the reply to a body, within the time of one try.

        Raises:
            ErrorReply: if the server answers with an error.
            NoReplyError: if the connection fails, or the reply does not come in time.
            MalformedReplyError: if the reply is not JSON.
            ReplyTooLongError: if the reply is too long or has too many values.
        """
        import httpx2
        from openai import APIConnectionError

        try:
            async with asyncio.timeout(self._endpoint.try_seconds):
                received = await self._receive(body)
        except (APIConnectionError, httpx2.HTTPError) as error:
            cause = error.__cause__ or error
            is_unreached = isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout)
            text = self.hide_key(f"{type(cause).__name__}: {cause}")
            raise NoReplyError(text, is_unreached=is_unreached) from None
        except TimeoutError:
            raise NoReplyError(f"no reply within {self._endpoint.try_seconds:g} s") from None
        except (OSError, ExceptionGroup, httpx2.InvalidURL) as error:
            # The library lets some faults of an address through as they are.
            raise NoReplyError(self.hide_key(f"{type(error).__name__}: {error}")) from None
        except _ErrorBytes as error:
            raise self._read_error(error) from None
        try:
            return await read_reply(received, self.hide_key)
        except (ValueError, RecursionError) as error:
            raise make_malformed(received, self.hide_key(str(error)), self.hide_key) from None

    @contextlib.asynccontextmanager
    async def open(self, api: Api, content: bytes) -> AsyncIterator[OpenReply]:
        """Post a body to the path of an API, and yield the reply as soon as its head has come.

        Raises ErrorReply and NoReplyError, as the pieces of the reply do.
        """
        url = f"{self._endpoint.base_url}/{API_PATHS[api]}"
        # A compressed event would wait for the next one, and its size would be unknown.
        headers = {"content-type": "application/json", "accept-encoding": "identity", **_list_headers(api)}
        with self._choose_client() as client:
            with self._explain_faults():
                request = client.http.build_request("POST", url, content=content, headers=headers)
                response = await client.http.send(request, stream=True)
            async with contextlib.aclosing(response):
                yield OpenReply(response.headers.get("content-type", ""), self._read_pieces(response))

    async def find_base_url(self, likely: Sequence[str]) -> str | None:
        """Return the first of these URLs that an API answers at, or None."""

        async def answers(url: str) -> bool:
            with contextlib.suppress(NoReplyError, ErrorReply, TimeoutError, ValueError, ReplyTooLongError):
                async with asyncio.timeout(_PROBE_SECONDS):
                    with self._choose_client() as client, self._explain_faults():
                        request = client.http.build_request("GET", f"{url}/models")
                        response = await client.http.send(request, stream=True)
                        async with contextlib.aclosing(response):
                            received = await receive_reply(response.aiter_bytes())
                    return isinstance(await read_reply(received, self.hide_key), dict | list)
            return False

        found = await asyncio.gather(*map(answers, likely))
        return next((url for url, is_right in zip(likely, found, strict=True) if is_right), None)

    async def find_obstacle(self) -> str | None:
        """Return why no connection to the server, or to the proxy before it, can be made. None if one can."""
        parts = urlsplit(self._endpoint.base_url)
        if describe_proxy(self._endpoint.base_url) is not None:
            return None
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                _, writer = await asyncio.open_connection(parts.hostname, port)
        except TimeoutError:
            return f"no connection within {_PROBE_SECONDS:g} s"
        except OSError as error:
            return str(error)
        writer.close()
        return None

    async def _read_pieces(self, response: Response) -> AsyncGenerator[bytes, None]:
        with self._explain_faults():
            async for piece in response.aiter_bytes():
                yield piece

    @contextlib.contextmanager
    def _explain_faults(self) -> Iterator[None]:
        """Raise ErrorReply or NoReplyError for each exception that the library reports a fault with."""
        import httpx2

        try:
            yield
        except (httpx2.HTTPError, OSError, ExceptionGroup, httpx2.InvalidURL) as error:
            is_unreached = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
            text = self.hide_key(f"{type(error).__name__}: {error}")
            raise NoReplyError(text, is_unreached=is_unreached) from None
        except _ErrorBytes as error:
            raise self._read_error(error) from None

    async def _receive(self, body: Mapping[str, Any]) -> bytes:
        import httpx2
        from openai import AsyncStream

        whole = {**body, **self._endpoint.extra_body}
        text = json.dumps(whole, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        with self._choose_client() as client:
            # The library's method for the API would check and copy the whole conversation.
            posted: Any = await client.openai.post(
                self._url,
                cast_to=httpx2.Response,
                # Each lone surrogate becomes a question mark, because no UTF-8 body can carry it.
                content=text.encode("utf-8", "replace"),
                options={"headers": _list_headers(self._endpoint.api)},
                stream=True,
                stream_cls=AsyncStream[Any],
            )
            response: Response = posted
            async with contextlib.aclosing(response):
                return await receive_reply(response.aiter_bytes())

    @contextlib.contextmanager
    def _choose_client(self) -> Iterator[_Client]:
        """Yield the first client with a free place, so that its open connections are used again."""
        free = (each for each in self._clients if each.requests < REQUESTS_PER_CLIENT)
        client = next(free, None)
        if client is None:
            client = _Client(*self._open_client())
            self._clients.append(client)
        client.requests += 1
        try:
            yield client
        finally:
            client.requests -= 1

    def open_first_client(self) -> None:
        """Open a client before the first request. Raises UsageError if the environment prevents that."""
        with _explain_environment(self._endpoint):
            self._clients.append(_Client(*self._open_client()))

    async def close(self) -> None:
        """Close all connections to the server."""
        for client in self._clients:
            await client.openai.close()

    def _read_error(self, error: _ErrorBytes) -> ErrorReply:
        text = error.received.decode("utf-8", "replace").strip()
        try:
            body = map_texts(read_server_json(text), self.hide_key)
        except (ValueError, RecursionError):
            body = None
        headers = {name.lower(): self.hide_key(value) for name, value in error.headers.items()}
        if 300 <= error.status < 400:
            place = headers.get("location", "another address")
            message = (
                f"it redirects to {place}, which harness does not follow; set base_url to the new address"
            )
        else:
            message = read_message(body) or self.hide_key(text)
            if body is None and (page := describe_page(message)) is not None:
                message = f"it answers with {page}"
        text = f"HTTP {error.status}: {message}".removesuffix(": ")
        return ErrorReply(error.status, body, text, headers, is_page=PAGE in message and body is None)


@contextlib.asynccontextmanager
async def open_connection(endpoint: Endpoint) -> AsyncIterator[Connection]:
    """Yield a connection to an endpoint, and close it at the end of the block.

    Raises UsageError if the endpoint needs a key that the environment does not hold, or if the package openai
    is not installed.
    """
    load_library()
    from httpx2 import Headers, Timeout
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    key = read_key(endpoint)
    timeout = Timeout(endpoint.try_seconds, connect=min(CONNECT_SECONDS, endpoint.try_seconds))
    # A cookie would tie the attempts of a run together.
    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
    tls = _make_tls_context(endpoint)

    async def clean_headers(request: Request) -> None:
        sent = {name: value for name, value in request.headers.items() if name in SENT_HEADERS}
        if "anthropic-version" in sent:
            sent["x-api-key"] = key
        if not (endpoint.is_anthropic and "anthropic-version" in sent):
            sent["authorization"] = f"Bearer {key}"
        request.headers = Headers(sent)

    def open_client() -> tuple[AsyncOpenAI, AsyncClient]:
        # A redirect could carry the key and the prompts to a host that the user has not named.
        http = DefaultAsyncHttpxClient(
            timeout=timeout,
            follow_redirects=False,
            verify=tls,
            event_hooks={"request": [clean_headers], "response": [_raise_error]},
            cookies=no_cookies,
        )
        openai = AsyncOpenAI(
            api_key=key, base_url=endpoint.base_url, max_retries=0, timeout=timeout, http_client=http
        )
        return openai, http

    connection = Connection(endpoint, key, open_client)
    try:
        # The first client shows whether the environment allows connections at all.
        connection.open_first_client()
        yield connection
    finally:
        await connection.close()


def _list_headers(api: Api) -> dict[str, str]:
    """Return the headers that an API needs in addition to HTTP's own."""
    return {"anthropic-version": ANTHROPIC_VERSION} if api == "messages" else {}


def load_library() -> None:
    """Import the package openai, which takes most of a second. Raises UsageError if it is not installed."""
    try:
        import openai  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"a model needs the package openai: {error}", hint=describe_installation("models")
        ) from error


def _make_tls_context(endpoint: Endpoint) -> ssl.SSLContext:
    """Return the context that the clients of an endpoint share. Raises UsageError."""
    import httpx2

    if urlsplit(endpoint.base_url).scheme == "https":
        with _explain_environment(endpoint):
            return httpx2.create_ssl_context()
    # To load the certificates takes a quarter of a second. A context without any accepts no server.
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@contextlib.contextmanager
def _explain_environment(endpoint: Endpoint) -> Iterator[None]:
    """Raise UsageError if the block fails by the proxy or the certificates that the environment names."""
    try:
        yield
    except (ImportError, OSError, ValueError) as error:
        raise UsageError(
            f"model '{endpoint.model}': no connection can be made with the proxy and the certificates of the "
            f"environment: {error}",
            hint="check ALL_PROXY, HTTP_PROXY, HTTPS_PROXY, SSL_CERT_FILE and SSL_CERT_DIR",
        ) from error


def make_malformed(received: bytes, reason: str, hide_key: Callable[[str], str]) -> MalformedReplyError:
    """Return the error for a reply that is not JSON. It says so if the reply is a web page."""
    page = describe_page(hide_key(received[:MAX_ERROR_BYTES].decode("utf-8", "replace")))
    return MalformedReplyError(reason) if page is None else PageReplyError(f"it answers with {page}")


def read_message(body: Any) -> str | None:
    """Return the message of an error's JSON, None if it has none in the usual places."""
    error = body.get("error", body) if isinstance(body, Mapping) else None
    message = error.get("message") if isinstance(error, Mapping) else error
    return message if isinstance(message, str) and message else None


class _ErrorBytes(Exception):
    def __init__(self, status: int, headers: Mapping[str, str], received: bytes) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status
        self.headers = headers
        self.received = received


async def _raise_error(response: Response) -> None:
    """Raise _ErrorBytes for an error reply, because the library would read its body without a bound."""
    if response.status_code < 300:
        return
    received = bytearray()
    async for piece in response.aiter_bytes():
        received += piece
        if len(received) > MAX_ERROR_BYTES:
            break
    raise _ErrorBytes(response.status_code, response.headers, bytes(received[:MAX_ERROR_BYTES]))


def raise_error_inside(raw: Any) -> None:
    """Raise ErrorReply for the JSON of an error that came with status 200."""
    if (found := find_error(raw)) is not None:
        status, error = found
        raise ErrorReply(status, error, read_message(error) or "an error without a message")
