"""A relay in front of the scripted model server, and the libraries of agents as its clients."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from contexts import ListTranscript
from model_server import ModelServer

from harness.models.access import ModelAccess
from harness.models.client import open_client
from harness.models.endpoint import Endpoint, Prices
from harness.models.relay.app import make_relay_app
from harness.models.relay.serving import AppServer, listen_on_loopback, serve_app
from harness.models.session import ModelSession

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI

# To load the certificates takes longer than a test.
_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
TOKEN = "token-of-this-attempt"


class WatchedTranscript(ListTranscript):
    """A transcript that shows when a request to the model was written."""

    def __init__(self) -> None:
        super().__init__()
        self.has_request = asyncio.Event()

    def write(self, entry: Mapping[str, Any], *, is_end: bool = False) -> None:
        super().write(entry)
        if entry.get("kind") == "model":
            self.has_request.set()


def connect_to(server: AppServer) -> socket.socket:
    """Return the client's end of a new connection, as a tunnel from a sandbox would make it."""
    ours, theirs = socket.socketpair()
    server.accept(theirs)
    ours.setblocking(False)
    return ours


@dataclass(frozen=True)
class Relay:
    """The relay of one attempt while it is open."""

    url: str
    server: AppServer
    session: ModelSession
    transcript: WatchedTranscript
    openai: AsyncOpenAI
    anthropic: AsyncAnthropic

    def connect(self) -> socket.socket:
        """Return the client's end of a new connection to this relay."""
        return connect_to(self.server)

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The requests to the model in the transcript."""
        return [entry for entry in self.transcript.entries if entry.get("kind") == "model"]


@contextlib.asynccontextmanager
async def open_relay(
    server: ModelServer,
    *,
    prices: Prices | None = None,
    endpoint: dict[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[Relay]:
    """Yield a relay whose model is the scripted server. `settings` are arguments of ModelAccess."""
    # The import takes a second, so it must not be a part of the collection of all tests.
    from anthropic import AsyncAnthropic
    from anthropic import DefaultAsyncHttpxClient as DefaultAnthropicClient
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    transcript = WatchedTranscript()
    asked = Endpoint(model="scripted", base_url=server.url, prices=prices, **(endpoint or {}))
    async with open_client(asked) as client:
        session = ModelAccess(client, **settings).open_session(number=0, seed=7, transcript=transcript)
        app = make_relay_app(TOKEN, model=session, mcp=None)
        async with (
            listen_on_loopback(app) as url,
            serve_app(app) as sockets,
            AsyncOpenAI(
                api_key=TOKEN, base_url=f"{url}/v1", http_client=DefaultAsyncHttpxClient(verify=_NO_TLS)
            ) as openai,
            AsyncAnthropic(
                api_key=TOKEN, base_url=url, http_client=DefaultAnthropicClient(verify=_NO_TLS)
            ) as anthropic,
        ):
            yield Relay(url, sockets, session, transcript, openai, anthropic)


async def exchange(connected: socket.socket, request: bytes) -> bytes:
    """Send bytes over a connection, and return all that comes back until the relay closes it."""
    loop = asyncio.get_running_loop()
    with connected:
        sending = asyncio.ensure_future(loop.sock_sendall(connected, request))
        received = bytearray()
        with contextlib.suppress(ConnectionError):
            while piece := await loop.sock_recv(connected, 65536):
                received += piece
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    return bytes(received)
