"""Programs that read nothing hold the server up, and not the memory of the host."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import psutil
from effort import THOROUGH
from relay_fixtures import TOKEN, connect_to

from harness.models.access import ModelAccess
from harness.models.client import open_client
from harness.models.endpoint import ConcurrencyBounds, Endpoint
from harness.models.relay.app import make_relay_app
from harness.models.relay.serving import serve_app
from harness.runs.transcripts import TranscriptFile

STREAMS = 200 if THOROUGH else 60
# A relay that read ahead without a bound would hold 16 MB of each stream.
EVENTS_OF_A_STREAM, EVENT_TEXT_BYTES = 2000, 8000
MOST_GROWTH_BYTES = STREAMS * 768 * 1024
FIRST_BYTES = 64 * 1024


def make_request() -> bytes:
    question = {"role": "user", "content": "write on"}
    body = json.dumps({"model": "endless", "stream": True, "messages": [question]}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: relay\r\nAuthorization: Bearer {TOKEN}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class EndlessServer:
    """A model server whose streams are as long as their readers let them be."""

    def __init__(self) -> None:
        self.writers: list[asyncio.StreamWriter] = []
        chunk = {"choices": [{"index": 0, "delta": {"content": "a" * EVENT_TEXT_BYTES}}]}
        event = f"data: {json.dumps(chunk)}\n\n".encode()
        self._event = f"{len(event):x}\r\n".encode() + event + b"\r\n"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request with a stream."""
        head = await reader.readuntil(b"\r\n\r\n")
        (length,) = (line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.partition(b":")[2]))
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        self.writers.append(writer)
        try:
            for _ in range(EVENTS_OF_A_STREAM):
                writer.write(self._event)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def wait_until_held_up(self) -> None:
        """Wait until no stream can be written on."""
        while not self._is_held_up():  # noqa: ASYNC110  a transport has no event for a full buffer
            await asyncio.sleep(0.01)

    def _is_held_up(self) -> bool:
        unsent = [each.transport.get_write_buffer_size() for each in self.writers]
        return len(unsent) == STREAMS and all(unsent)


@asynccontextmanager
async def serve_endless() -> AsyncIterator[tuple[EndlessServer, str]]:
    endless = EndlessServer()
    server = await asyncio.start_server(endless.answer, "127.0.0.1", 0, backlog=STREAMS)
    async with server:
        yield endless, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


async def test_many_streams_that_no_client_reads_cost_little_memory(tmp_path: Path) -> None:
    # One attempt gets no more than half of the places.
    places = ConcurrencyBounds(start=2 * STREAMS, least=STREAMS, most=2 * STREAMS)
    loop = asyncio.get_running_loop()
    async with serve_endless() as (endless, url):
        endpoint = Endpoint(model="endless", base_url=url, concurrency=places)
        async with open_client(endpoint) as client:
            transcript = TranscriptFile(tmp_path / "transcript.jsonl")
            session = ModelAccess(client).open_session(number=0, seed=0, transcript=transcript)
            async with serve_app(make_relay_app(TOKEN, model=session, mcp=None)) as served:
                before = psutil.Process().memory_info().rss
                with ExitStack() as stack:
                    clients = []
                    for _ in range(STREAMS):
                        clients.append(stack.enter_context(connect_to(served)))
                    for each in clients:
                        await loop.sock_sendall(each, make_request())
                    for each in clients:
                        received = 0
                        while received < FIRST_BYTES:
                            received += len(await loop.sock_recv(each, FIRST_BYTES))
                    await endless.wait_until_held_up()
                    growth = psutil.Process().memory_info().rss - before
    assert growth < MOST_GROWTH_BYTES, f"{growth:,} bytes"
