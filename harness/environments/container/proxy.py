"""A proxy on the host for the programs of a machine without a network, which reach it by a relay.

It admits the hosts of a task's `allowed_hosts` alone. A program may send CONNECT, a request with a whole URL,
a request with the header Host, or the first message of TLS with the name of its server. A name is resolved
once, on the host, and the connection goes to an address that was checked. So no answer of a name server leads
to another machine than the one that was judged.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import h11
import psutil

from harness.core.errors import SandboxError
from harness.core.logger import get_logger
from harness.core.text import escape_text
from harness.sandbox.sandbox import Sandbox

_RESOLVE_SECONDS = 20.0
# The last 32 bits of these networks are an address of IPv4 that a gateway connects to.
_TRANSLATED = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
HTTP_PORT, HTTPS_PORT = 80, 443
CONNECT_SECONDS = 15.0
# How long a client may take for a part of its first message.
HEAD_SECONDS = 30.0
CHUNK_BYTES = 1 << 16
# A first message of TLS has at most two records of this size.
MAX_HELLO_BYTES = 1 << 15
_HANDSHAKE = b"\x16"
# The headers between a client and its proxy, and the one that the proxy writes itself.
_REPLACED = frozenset(
    (b"connection", b"host", b"keep-alive", b"proxy-authorization", b"proxy-connection", b"te", b"upgrade")
)
_LOGGER = get_logger(__name__)


class HostRefused(Exception):
    """The list does not admit a host, or the addresses of its name."""


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The entries of `allowed_hosts` in their normal form: names, `*.name`, addresses and networks."""

    names: frozenset[str]
    suffixes: tuple[str, ...]
    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]

    def admits_name(self, name: str) -> bool:
        """Return whether the list has a name, or a pattern of it. `*.host` does not mean `host` itself."""
        plain = name.lower().rstrip(".")
        return plain in self.names or plain.endswith(self.suffixes)

    async def find_addresses(self, host: str, port: int) -> list[str]:
        """Return the addresses that a connection to a host may go to, the best first.

        Addresses that are not public, and this machine's own, count only if the list has them, or a
        private network around them. Loopback addresses never count, because they would mean this machine.
        Raises HostRefused.
        """
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            if not self.admits_name(host):
                raise HostRefused(f"{host} is not in allowed_hosts") from None
            found = await _resolve(host, port)
            admitted = [each for each in found if self._is_admitted(each, has_name=True)]
            if not admitted:
                listed = ", ".join(map(str, found))
                raise HostRefused(
                    f"{host} has the addresses {listed}, which allowed_hosts does not name"
                ) from None
            return list(map(str, admitted))
        if not self._is_admitted(address, has_name=False):
            raise HostRefused(f"{host} is not in allowed_hosts")
        return [str(address)]

    def _is_admitted(self, address: Address, *, has_name: bool) -> bool:
        meant = _unwrap(address)
        if meant.is_loopback or meant.is_unspecified or meant.is_multicast:
            return False
        is_open = _is_public(meant) and _is_public(address) and str(meant) not in _list_own_addresses()
        around = [network for network in self.networks if address in network or meant in network]
        if is_open:
            return has_name or bool(around)
        # A network such as 0.0.0.0/0 does not name the private ones in it.
        return any(network.is_private or network.num_addresses == 1 for network in around)


def read_allowed_hosts(entries: Iterable[str]) -> AllowedHosts:
    """Return the rules of a task's `allowed_hosts`, which `task_toml` has checked."""
    names, suffixes, networks = set(), [], []
    for entry in entries:
        try:
            networks.append(ipaddress.ip_network(entry, strict=False))
        except ValueError:
            if entry.startswith("*."):
                suffixes.append(entry[1:])
            else:
                names.add(entry)
    return AllowedHosts(frozenset(names), tuple(suffixes), tuple(networks))


def _is_public(address: Address) -> bool:
    is_old = isinstance(address, ipaddress.IPv6Address) and address.is_site_local
    is_translated = any(address in network for network in _TRANSLATED)
    return address.is_global and not is_old and (is_translated or not address.is_reserved)


def _unwrap(address: Address) -> Address:
    """Return the address of IPv4 that one of IPv6 contains, or the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if any(address in network for network in _TRANSLATED):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _list_own_addresses() -> set[str]:
    return {each.address.partition("%")[0] for own in psutil.net_if_addrs().values() for each in own}


async def _resolve(host: str, port: int) -> list[Address]:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_RESOLVE_SECONDS):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError) as error:
        raise HostRefused(f"{host} has no address: {error or 'no answer'}") from error
    return list(dict.fromkeys(ipaddress.ip_address(str(each[4][0]).partition("%")[0]) for each in found))


@contextlib.asynccontextmanager
async def open_proxy(sandbox: Sandbox, hosts: AllowedHosts) -> AsyncIterator[int]:
    """Open the proxy for a sandbox that has a relay, and yield its port there. Raises SandboxError."""
    proxy = Proxy(hosts)
    async with contextlib.AsyncExitStack() as stack:
        listener = await stack.enter_async_context(sandbox.relay(proxy.accept))
        try:
            yield listener.port
        finally:
            await proxy.close()
            # The sandbox may be gone, and its relay with it.
            with contextlib.suppress(SandboxError):
                await stack.aclose()


class Proxy:
    """Serves connections. Each has one request, whose answer ends with the connection."""

    def __init__(self, hosts: AllowedHosts) -> None:
        self._hosts = hosts
        self._tasks: set[asyncio.Task[None]] = set()

    def accept(self, client: socket.socket) -> None:
        """Serve a connected socket, and close it at the end."""
        task = asyncio.get_running_loop().create_task(self._serve(client))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, client: socket.socket) -> None:
        try:
            reader, writer = await asyncio.open_connection(sock=client, limit=CHUNK_BYTES)
        except OSError:
            client.close()
            return
        with contextlib.suppress(OSError, TimeoutError, _Done):
            async with _closing(writer):
                try:
                    await self._serve_request(reader, writer)
                except (HostRefused, h11.ProtocolError) as error:
                    _LOGGER.info("the proxy of a machine refused a connection: %s", escape_text(str(error)))
                    # Without an answer, a client of TLS reads the text as a broken record.
                    await _answer(writer, 403, f"{error}\n")

    async def _serve_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HEAD_SECONDS):
            first = await reader.read(CHUNK_BYTES)
        if first.startswith(_HANDSHAKE):
            first, name = await _read_hello(reader, first)
            if name is None:
                raise HostRefused("a connection of TLS names no server")
            await self._carry(reader, writer, name, HTTPS_PORT, first)
            return
        parser = h11.Connection(h11.SERVER, max_incomplete_event_size=CHUNK_BYTES)
        parser.receive_data(first)
        async with asyncio.timeout(HEAD_SECONDS):
            request = await _next_event(parser, reader)
        if not isinstance(request, h11.Request):
            raise _Done
        host, port, path = _find_target(request)
        if request.method == b"CONNECT":
            await self._tunnel(reader, writer, host, port)
        else:
            await self._forward(parser, reader, writer, request, (host, port, path))

    async def _tunnel(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int
    ) -> None:
        """Connect a client to a host. If it speaks TLS, the name of its server must be admitted too."""

        async def check(first: bytes) -> bytes:
            if first.startswith(_HANDSHAKE):
                first, name = await _read_hello(reader, first)
                if name is not None and name != host and not self._hosts.admits_name(name):
                    raise HostRefused(f"{name} is not in allowed_hosts")
            return first

        async with await self._connect(host, port) as (from_server, to_server):
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await _join(_pump(reader, to_server, check), _pump(from_server, writer))

    async def _forward(
        self,
        parser: h11.Connection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        request: h11.Request,
        target: tuple[str, int, bytes],
    ) -> None:
        """Send one request to its host, whose header Host says the host that was checked."""
        host, port, path = target
        named = f"[{host}]" if ":" in host else host
        place = named if port == HTTP_PORT else f"{named}:{port}"
        headers = [(b"Host", place.encode()), (b"Connection", b"close")]
        headers += [(bytes(n), bytes(v)) for n, v in request.headers if n not in _REPLACED]
        sent = h11.Request(method=request.method, target=path, headers=headers)
        other = h11.Connection(h11.CLIENT)

        async def send_body(to_server: asyncio.StreamWriter) -> None:
            to_server.write(other.send(sent) or b"")
            while not isinstance(event := await _next_event(parser, reader), h11.ConnectionClosed):
                if isinstance(event, h11.Data | h11.EndOfMessage):
                    to_server.write(other.send(event) or b"")
                    await to_server.drain()
                if isinstance(event, h11.EndOfMessage):
                    return

        async with await self._connect(host, port) as (from_server, to_server):
            # The answer may come before the whole body has been sent.
            sending = asyncio.create_task(send_body(to_server))
            try:
                await _pump(from_server, writer)
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int, first: bytes
    ) -> None:
        async with await self._connect(host, port) as (from_server, to_server):
            to_server.write(first)
            await _join(_pump(reader, to_server), _pump(from_server, writer))

    async def _connect(
        self, host: str, port: int
    ) -> contextlib.AbstractAsyncContextManager[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Return the open connection to a host, by an address that was checked. Raises HostRefused."""
        failure: Exception | None = None
        for address in await self._hosts.find_addresses(host, port):
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    reader, writer = await asyncio.open_connection(address, port, limit=CHUNK_BYTES)
            except (OSError, TimeoutError) as error:
                failure = error
                continue
            return _hold(reader, writer)
        raise HostRefused(f"{host}:{port} cannot be reached: {failure or 'no answer'}")


class _Done(Exception):
    """The client has ended before its request was whole."""


@contextlib.asynccontextmanager
async def _hold(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    async with _closing(writer):
        yield reader, writer


@contextlib.asynccontextmanager
async def _closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    try:
        yield
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _answer(writer: asyncio.StreamWriter, status: int, text: str) -> None:
    body = text.encode()
    head = f"HTTP/1.1 {status} Refused\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()


async def _next_event(parser: h11.Connection, reader: asyncio.StreamReader) -> Any:
    """Return the next event of a client. Raises _Done if it ends in the middle of one."""
    while (event := parser.next_event()) is h11.NEED_DATA:
        data = await reader.read(CHUNK_BYTES)
        if not data:
            raise _Done
        parser.receive_data(data)
    return event


def _find_target(request: h11.Request) -> tuple[str, int, bytes]:
    """Return the host, the port and the path that a request is for. Raises HostRefused."""
    target = request.target.decode("ascii", "replace")
    try:
        if request.method == b"CONNECT":
            place = urlsplit(f"//{target}")
            if not place.hostname or place.port is None:
                raise HostRefused(f"{target} is not a host and a port")
            return place.hostname, place.port, b""
        if target.startswith("/"):
            given = next((value for name, value in request.headers if name == b"host"), b"")
            target = f"http://{given.decode('ascii', 'replace')}{target}"
        url = urlsplit(target)
        if url.scheme != "http" or not url.hostname or url.username is not None:
            raise HostRefused(f"the proxy cannot send a request to {target}")
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        return url.hostname, url.port or HTTP_PORT, path.encode()
    except ValueError as error:
        raise HostRefused(f"{target} is not a host and a port") from error


async def _read_hello(reader: asyncio.StreamReader, data: bytes) -> tuple[bytes, str | None]:
    """Return the bytes of a client's first message of TLS, and the server that it names.

    The library of TLS reads the message, and refuses it then. Raises HostRefused for anything else.
    """
    names: list[str | None] = []

    def note(_connection: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> int:
        names.append(name)
        return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = note
    incoming = ssl.MemoryBIO()
    handshake = context.wrap_bio(incoming, ssl.MemoryBIO(), server_side=True)
    whole, more = data, data
    while more and len(whole) <= MAX_HELLO_BYTES:
        incoming.write(more)
        try:
            handshake.do_handshake()
        except ssl.SSLWantReadError:
            async with asyncio.timeout(HEAD_SECONDS):
                more = await reader.read(CHUNK_BYTES)
            whole += more
            continue
        except ssl.SSLError:
            pass
        if names:
            return whole, None if names[0] is None else names[0].lower().rstrip(".")
        break
    raise HostRefused("the first message of TLS cannot be read")


async def _pump(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    check: Callable[[bytes], Coroutine[Any, Any, bytes]] | None = None,
) -> None:
    """Move bytes until their end. `check` may replace the first of them, or refuse them."""
    while data := await reader.read(CHUNK_BYTES):
        if check is not None:
            data, check = await check(data), None
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def _join(*pumps: Coroutine[Any, Any, None]) -> None:
    """Run both directions of a connection. The failure of one ends the other."""
    tasks = [asyncio.create_task(pump) for pump in pumps]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
