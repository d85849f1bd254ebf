"""Which hosts and addresses a list admits, and how the proxy of a machine uses it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator

import pytest
from contexts import find_own_address

from harness.environments.container import proxy
from harness.environments.container.proxy import HostRefused, Proxy, read_allowed_hosts

PUBLIC, PRIVATE, LINK_LOCAL = "8.8.8.8", "10.1.2.3", "169.254.169.254"
Answers = dict[str, list[str]]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Return the answers of the name server, which tests may change."""
    given: Answers = {}

    async def getaddrinfo(
        _loop: object, host: str, port: int, **_options: object
    ) -> list[tuple[object, ...]]:
        if host not in given:
            raise socket.gaierror("unknown")
        return [(0, 0, 0, "", (address, port)) for address in given[host]]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
    return given


@pytest.fixture
def own_address() -> str:
    return find_own_address()


async def test_only_listed_hosts_at_public_or_listed_addresses_are_admitted(answers: Answers) -> None:
    answers |= {
        "a.example": [PUBLIC],
        "b.example": [PRIVATE],
        "x.c.example": [LINK_LOCAL, PUBLIC],
        "c.example": [PUBLIC],
        "six.example": ["::ffff:10.9.9.9"],
        "wide.example": ["64:ff9b::a01:203"],
        "here.example": ["127.0.0.1"],
        "other.example": [PUBLIC],
    }
    rules = read_allowed_hosts(
        ["a.example", "b.example", "*.c.example", "six.example", "wide.example", "here.example", "9.9.9.9"]
    )
    named = read_allowed_hosts(["b.example", "here.example", "10.1.0.0/16", "127.0.0.0/8", LINK_LOCAL])
    every = read_allowed_hosts(["0.0.0.0/0", "::/0", "a.example", "b.example"])
    wrong = []
    for hosts, host, wanted in (
        (rules, "a.example", [PUBLIC]),
        (rules, "b.example", None),
        (rules, "x.c.example", [PUBLIC]),
        (rules, "c.example", None),
        (rules, "six.example", None),
        (rules, "wide.example", None),
        (rules, "here.example", None),
        (rules, "other.example", None),
        (rules, "unknown.example", None),
        (rules, "9.9.9.9", ["9.9.9.9"]),
        (rules, "9.9.9.10", None),
        (rules, "2130706433", None),
        (rules, "0x7f.1", None),
        (rules, PUBLIC, None),
        (named, "b.example", [PRIVATE]),
        (named, PRIVATE, [PRIVATE]),
        (named, LINK_LOCAL, [LINK_LOCAL]),
        (named, "::ffff:10.1.2.3", ["::ffff:a01:203"]),
        (named, "here.example", None),
        (named, "127.0.0.1", None),
        (named, "0.0.0.0", None),
        (named, "::1", None),
        (every, PUBLIC, [PUBLIC]),
        (every, "a.example", [PUBLIC]),
        (every, "b.example", None),
        (every, PRIVATE, None),
        (every, LINK_LOCAL, None),
        (every, "::ffff:10.1.2.3", None),
        (every, "fec0::1", None),
        (every, "2002:a01:203::1", None),
    ):
        try:
            found: list[str] | None = await hosts.find_addresses(host, 443)
        except HostRefused:
            found = None
        if found != wanted:
            wrong.append((host, found))
    assert wrong == []


async def test_a_name_that_leads_to_this_machine_is_refused_unless_its_address_is_listed(
    answers: Answers, own_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers["a.example"] = [PUBLIC]
    monkeypatch.setattr(proxy, "_list_own_addresses", lambda: {PUBLIC})
    with pytest.raises(HostRefused, match=f"a.example has the addresses {PUBLIC}"):
        await read_allowed_hosts(["a.example"]).find_addresses("a.example", 80)
    monkeypatch.undo()
    assert own_address in proxy._list_own_addresses()


@contextlib.asynccontextmanager
async def served(address: str, answer: bytes) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Run a server that answers each first message, and yield its port and the messages."""
    got: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if message := await reader.read(1 << 16):
            got.append(message)
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, address, 0)
    async with server:
        yield server.sockets[0].getsockname()[1], got


async def ask(asked: Proxy, *messages: bytes) -> bytes:
    """Return all that the proxy sends to a client with these messages, each sent after an answer."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
    asked.accept(theirs)
    reader, writer = await asyncio.open_connection(sock=ours)
    answer = b""
    for message in messages:
        writer.write(message)
        answer += await reader.read(1 << 16)
    answer += await reader.read(1 << 16)
    writer.close()
    return answer


def hello(name: str) -> bytes:
    """Return a client's first message of TLS."""
    out = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return out.read()


async def test_a_request_reaches_the_host_that_was_checked_and_names_it(own_address: str) -> None:
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    # A second request in the same connection is for nobody.
    rest = "Proxy-Connection: keep-alive\r\nContent-Length: 4\r\n\r\nbodyGET http://evil.example/ HTTP/1.1"
    async with served(own_address, reply) as (port, got):
        allowed, place = Proxy(read_allowed_hosts([own_address])), f"{own_address}:{port}"
        for target, host in ((f"http://{place}/a?b=1", "evil.example"), ("/a?b=1", place)):
            request = f"POST {target} HTTP/1.1\r\nHost: {host}\r\n{rest}\r\n\r\n"
            assert await ask(allowed, request.encode()) == reply
        head = f"POST /a?b=1 HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n"
        want = f"{head}content-length: 4\r\n\r\nbody"
        assert got == [want.encode()] * 2
        refused = await ask(Proxy(read_allowed_hosts(["a.example"])), request.encode())
        assert refused.startswith(b"HTTP/1.1 403 ")
        assert b"is not in allowed_hosts" in refused
        assert len(got) == 2
        await allowed.close()


async def test_a_tunnel_carries_bytes_and_checks_the_server_that_tls_names(
    own_address: str, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers["a.example"] = [own_address]
    rules = read_allowed_hosts(["a.example", own_address])
    async with served(own_address, b"pong") as (port, got):
        monkeypatch.setattr(proxy, "HTTPS_PORT", port)
        connect = f"CONNECT a.example:{port} HTTP/1.1\r\nHost: any\r\n\r\n".encode()
        established = b"HTTP/1.1 200 Connection established\r\n\r\n"
        for messages, wanted, reached in (
            ((connect, b"ping"), established + b"pong", 1),
            ((connect, hello("a.example")), established + b"pong", 1),
            ((connect, hello("evil.example")), None, 0),
            ((hello("A.example"),), b"pong", 1),
            ((hello("evil.example"),), None, 0),
            ((b"CONNECT evil.example:443 HTTP/1.1\r\nHost: any\r\n\r\n",), None, 0),
            ((b"CONNECT a.example:99999 HTTP/1.1\r\nHost: any\r\n\r\n",), None, 0),
            ((b"\x16\x03 no message of TLS at all" + bytes(40000),), None, 0),
        ):
            got.clear()
            answer = await ask(Proxy(rules), *messages)
            assert answer == wanted or (wanted is None and b"HTTP/1.1 403 " in answer), (messages, answer)
            assert len(got) == reached, messages
