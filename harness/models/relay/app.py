"""The one app of an attempt: it checks the token and the head of a request, and finds its route."""

from __future__ import annotations

import asyncio
import hmac
import logging
from typing import TYPE_CHECKING, Any

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from harness.models.relay.errors import RelayError, encode_error
from harness.models.relay.exchange import MAX_HEAD_BYTES, Answer, BodyBudget, read_headers, repeat_body
from harness.models.relay.mcp_server import MAX_CALL_VALUES, MAX_MESSAGE_BYTES
from harness.models.relay.model_routes import API_OF_PATH, ModelRoutes

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from harness.models.endpoint import Api
    from harness.models.session import ModelSession


# More would only wait at the endpoint.
MOST_REQUESTS = 256
# The memory of the bodies of all requests under way, parsed values included.
MOST_BODY_BYTES = 64 * 1024 * 1024
_MCP_PATH = "/mcp"
# The whole head of a request must arrive within this time.
HEAD_SECONDS = 20.0
# Libraries keep idle connections for reuse. An idle one costs little, and their number is bounded.
IDLE_SECONDS = 75
_SILENT = logging.Logger("harness.models.relay", level=logging.CRITICAL + 1)


def make_relay_app(token: str, *, model: ModelSession | None, mcp: ASGIApp | None) -> ASGIApp:
    """Return the app that the programs of one attempt reach the model and the tools through.

    Args:
        token: the key that a program sends, as `Authorization: Bearer` or as `x-api-key`.
        model: the attempt's access to the model, None for an attempt without one.
        mcp: the app that answers at `/mcp`, None without one. It need not check the token.
    """
    if not token:
        raise ValueError("the token of an attempt must not be empty")
    return _RelayApp(token, model, mcp)


class _RelayApp:
    def __init__(self, token: str, model: ModelSession | None, mcp: ASGIApp | None) -> None:
        self._token = token.encode()
        self._bodies = BodyBudget(MOST_BODY_BYTES)
        self._routes = None if model is None else ModelRoutes(model, self._bodies)
        self._mcp = mcp
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        answer = Answer(send)
        # A path that would have to be decoded, joined or cut first is not a path of the relay.
        path = scope["raw_path"].decode("latin-1")
        api = API_OF_PATH.get(path)
        self._under_way += 1
        try:
            headers = read_headers(scope)
            self._check_token(headers)
            if self._under_way > MOST_REQUESTS:
                raise RelayError(
                    429, "too_many_requests", f"more than {MOST_REQUESTS} requests are under way"
                )
            if path == _MCP_PATH and self._mcp is not None:
                async with self._bodies.read(
                    headers, receive, most=MAX_MESSAGE_BYTES, most_values=MAX_CALL_VALUES
                ) as content:
                    await self._mcp(scope, repeat_body(content, receive), answer.pass_on)
            elif self._routes is not None and self._routes.has(path):
                await self._routes.answer(scope["method"], path, headers, receive, answer)
            else:
                raise RelayError(404, "unknown_path", f"the relay has no path {path}")
        except RelayError as error:
            if answer.has_begun:
                raise
            await _refuse(answer, api, error)
        except TimeoutError:
            # The client takes nothing, so the server closes the connection.
            raise
        except Exception as error:
            if self._routes is not None:
                self._routes.note_defect(error)
            if answer.has_begun:
                raise
            await _refuse(answer, api, RelayError(500, "internal_error", "the relay has failed"))
        finally:
            self._under_way -= 1

    def _check_token(self, headers: dict[str, str]) -> None:
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        given = [headers["x-api-key"]] if "x-api-key" in headers else []
        if "authorization" in headers:
            given.append(bearer.strip() if scheme.lower() == "bearer" else "")
        # Each comparison takes the same time for every token, and none is left out.
        matches = [hmac.compare_digest(each.encode("utf-8"), self._token) for each in given]
        if not matches or not all(matches):
            raise RelayError(401, "invalid_api_key", "the API key is not the token of this attempt")


async def _refuse(answer: Answer, api: Api | None, error: RelayError) -> None:
    headers = [(b"x-should-retry", b"true" if error.status == 429 else b"false")]
    if error.status == 429:
        headers.append((b"retry-after", b"1"))
    # The rest of the body is not read, so the connection cannot be used again.
    headers.append((b"connection", b"close"))
    await answer.send_whole(error.status, encode_error(api, error), headers)


class RelayProtocol(H11Protocol):
    """One connection."""

    def __init__(self, config: Config, state: ServerState) -> None:
        super().__init__(config, state, {})
        self.logger = self.access_logger = _SILENT
        self.access_log = False
        self._head_timer: asyncio.TimerHandle | None = None
        self._waits_since: float | None = None

    @property
    def waiting_seconds(self) -> float:
        """How long the connection has been without a whole request to answer, in seconds."""
        if self._waits_since is None or self.transport.is_closing():
            return 0.0
        return self.loop.time() - self._waits_since

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Handle bytes of the client. Bytes that break the protocol in mid-request end the connection."""
        try:
            super().data_received(data)
        except Exception:
            self.transport.abort()
            return
        self._watch_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch_head()

    def _watch_head(self) -> None:
        """Run the time of a head from its first byte, and of the first head from the beginning."""
        is_busy = self.cycle is not None and not self.cycle.response_complete
        if is_busy:
            self._waits_since = None
        elif self._waits_since is None:
            self._waits_since = self.loop.time()
        # The beginning of the next head may have come before the end of the answer.
        is_idle = self.timeout_keep_alive_task is not None and not self.conn.trailing_data[0]
        if is_busy or is_idle or self.transport.is_closing():
            self._stop_timer()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def make_config(app: ASGIApp) -> Config:
    """Return the settings of uvicorn for connections of the relay."""
    config = Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=IDLE_SECONDS,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
    )
    config.load()
    return config


def make_protocol(config: Any, state: Any) -> RelayProtocol:
    """Return the protocol of a new connection."""
    return RelayProtocol(config, state)
