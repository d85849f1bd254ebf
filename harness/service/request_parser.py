"""The parser of requests, which ignores upgrades to other protocols than WebSocket."""

from __future__ import annotations

from typing import Protocol

import httptools

_DROPPED = frozenset({b"upgrade", b"connection", b"http2-settings"})


class ParsedConnection(Protocol):
    """The connection that gets the parts of requests. It has those of the last head."""

    url: bytes
    headers: list[tuple[bytes, bytes]]


class RequestParser:
    """Parse requests as httptools does, and never lose the body of one.

    A client may offer another protocol in any request, as `curl --http2` and the client of Java do. A server
    may ignore the offer (RFC 9110, section 7.8). httptools reads nothing behind the head of such a request,
    so this parser parses the head again without the offer.
    """

    def __init__(self, connection: ParsedConnection) -> None:
        self._connection = connection
        self._parser = self._make_parser()

    def feed_data(self, data: bytes) -> None:
        """Parse data. Raises as httptools does, with HttpParserUpgrade only for a WebSocket and CONNECT."""
        rest = memoryview(data)
        while True:
            try:
                self._parser.feed_data(rest)
            except httptools.HttpParserUpgrade as upgrade:
                if not self.ignores_upgrade():
                    raise
                rest = rest[upgrade.args[0] :]
            else:
                return
            head = self._write_head()
            self._parser = self._make_parser()
            self._parser.feed_data(head)

    def ignores_upgrade(self) -> bool:
        """Return whether the request offers an upgrade that is ignored. Its head is then parsed twice."""
        if not self._parser.should_upgrade() or self._parser.get_method() == b"CONNECT":
            return False
        offers = [value.lower() for name, value in self._connection.headers if name == b"upgrade"]
        return b"websocket" not in offers

    def should_upgrade(self) -> bool:
        """Return whether the request asks for a WebSocket, or is a CONNECT."""
        return self._parser.should_upgrade()

    def get_method(self) -> bytes:
        """Return the method of the request."""
        return self._parser.get_method()

    def get_http_version(self) -> str:
        """Return the version of HTTP, such as 1.1."""
        return self._parser.get_http_version()

    def should_keep_alive(self) -> bool:
        """Return whether the connection stays open behind the reply."""
        return self._parser.should_keep_alive()

    def _make_parser(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self._connection)
        # As uvicorn sets it, so that a request that came with the last one gets its reply.
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser

    def _write_head(self) -> bytes:
        """Return the head of the request without the offer."""
        kept = [pair for pair in self._connection.headers if pair[0] not in _DROPPED]
        options = [
            option.strip()
            for name, value in self._connection.headers
            if name == b"connection"
            for option in value.split(b",")
            if option.strip().lower() not in _DROPPED
        ]
        if options:
            kept.append((b"connection", b", ".join(options)))
        version = self._parser.get_http_version().encode()
        first = b"%b %b HTTP/%b\r\n" % (self._parser.get_method(), self._connection.url, version)
        return b"".join([first, *(b"%b: %b\r\n" % pair for pair in kept), b"\r\n"])
