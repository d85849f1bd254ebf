"""Requests to a service from many connections, with little processor time for the clients."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlsplit

_HEAD = "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"


async def send_all(
    url: str, path: str, requests: Iterable[dict[str, Any]], *, connections: int
) -> list[dict[str, Any]]:
    """Return the JSON of the replies, in the order of the requests.

    A client library would use a millisecond of a processor for each request, on the cores that the service
    needs. Raises RuntimeError for a status other than 200.
    """
    parts = urlsplit(url)
    waiting = enumerate(requests)
    replies: dict[int, dict[str, Any]] = {}

    async def work() -> None:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        for number, request in waiting:
            body = json.dumps(request).encode()
            writer.write(_HEAD.format(parts.path + path, parts.netloc, len(body)).encode() + body)
            replies[number] = await _read_reply(reader)
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*(work() for _ in range(connections)))
    return [replies[number] for number in sorted(replies)]


async def _read_reply(reader: asyncio.StreamReader) -> dict[str, Any]:
    head = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
    length = next(int(line.partition(b":")[2]) for line in head if line.startswith(b"content-length:"))
    body = await reader.readexactly(length)
    if head[0].split()[1] != b"200":
        raise RuntimeError(f"the service replied: {body[:500].decode(errors='replace')}")
    reply: dict[str, Any] = json.loads(body)
    return reply


def batches(values: Sequence[Any], size: int) -> list[Sequence[Any]]:
    """Return the values in consecutive batches of at most `size`."""
    return [values[start : start + size] for start in range(0, len(values), size)]
