"""Clients that ask a service for more than it can do, and everything that each of them saw."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

# Clients of code sandboxes wait for both time limits and this much longer (verl: `API_TIMEOUT`).
CLIENT_SECONDS = 10.0
# The clients run on this many hosts, as the workers of a training job do. Every address of the loopback
# network is this machine, so that each host can have an address of its own.
HOSTS = 8
LOOPBACK = "127.0.1.{}"


@dataclass(frozen=True)
class Program:
    """A program, and the request that runs it."""

    name: str
    code: str
    run_timeout: float

    def build_request(self, compile_timeout: float) -> dict[str, Any]:
        return {
            "code": self.code,
            "language": "python",
            "stdin": "21\n",
            "compile_timeout": compile_timeout,
            "run_timeout": self.run_timeout,
        }


@dataclass(frozen=True)
class Seen:
    """The reply to one request, as its client saw it."""

    program: Program
    # 0 without a reply.
    status: int
    # Seconds from the request to the reply.
    seconds: float
    # The verdict in the reply: the status, the return code and the output.
    verdict: tuple[Any, ...] | None
    # The error of the client, empty with a reply.
    error: str = ""


async def ask(http: httpx.AsyncClient, url: str, program: Program, compile_timeout: float) -> Seen:
    """Send one request, as a client that tries only once."""
    started = time.monotonic()
    timeout = compile_timeout + program.run_timeout + CLIENT_SECONDS
    try:
        async with asyncio.timeout(timeout):
            response = await http.post(f"{url}/run_code", json=program.build_request(compile_timeout))
    except (httpx.HTTPError, TimeoutError) as error:
        return Seen(program, 0, time.monotonic() - started, None, repr(error))
    seconds = time.monotonic() - started
    return Seen(program, response.status_code, seconds, _read_verdict(response))


def _read_verdict(response: httpx.Response) -> tuple[Any, ...] | None:
    if response.status_code != 200:
        return None
    body = response.json()
    run = body["run_result"] or {}
    return body["status"], run.get("status"), run.get("return_code"), run.get("stdout")


async def measure_capacity(
    url: str, programs: Sequence[Program], *, at_once: int, requests: int, compile_timeout: float
) -> tuple[float, list[Seen]]:
    """Return the requests a second that the service answers when all of its places are in use."""
    left: Iterator[Program] = itertools.islice(itertools.cycle(programs), requests)
    seen: list[Seen] = []

    async def work(http: httpx.AsyncClient) -> None:
        for program in left:
            seen.append(await ask(http, url, program, compile_timeout))

    async with httpx.AsyncClient(trust_env=False, timeout=None) as http:
        await work_once(http, url, programs, compile_timeout)
        started = time.monotonic()
        await asyncio.gather(*(work(http) for _ in range(at_once)))
        return requests / (time.monotonic() - started), seen


async def work_once(
    http: httpx.AsyncClient, url: str, programs: Sequence[Program], compile_timeout: float
) -> list[Seen]:
    """Return the replies to each program, one after the other."""
    return [await ask(http, url, program, compile_timeout) for program in programs]


async def overload(
    url: str,
    programs: Sequence[Program],
    *,
    clients: int,
    requests_a_second: float,
    seconds: float,
    compile_timeout: float,
) -> list[Seen]:
    """Return the replies that clients got, which send so many requests a second together.

    Each client has one request under way at most. A client that is late sends its next request at once, so
    that a slow service gets no rest.
    """
    seen: list[Seen] = []
    pause = clients / requests_a_second

    async def work(http: httpx.AsyncClient, number: int, due: float) -> None:
        mine = itertools.islice(itertools.cycle(programs), number, None)
        while due < end:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            seen.append(await ask(http, url, next(mine), compile_timeout))
            due = max(due + pause, time.monotonic())

    async with contextlib.AsyncExitStack() as stack:
        hosts = [await stack.enter_async_context(_open_host(number)) for number in range(HOSTS)]
        started = time.monotonic()
        end = started + seconds
        await asyncio.gather(
            *(
                work(hosts[number % HOSTS], number, started + pause * number / clients)
                for number in range(clients)
            )
        )
    return seen


def _open_host(number: int) -> httpx.AsyncClient:
    """Return a client with the address of one host, and with a connection for each of its requests."""
    transport = httpx.AsyncHTTPTransport(
        local_address=LOOPBACK.format(1 + number), limits=httpx.Limits(max_connections=None)
    )
    return httpx.AsyncClient(transport=transport, trust_env=False, timeout=None)
