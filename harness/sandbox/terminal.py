"""The host's end of a terminal inside a sandbox."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.errors import SandboxError
from harness.sandbox.connection import Connection, ConnectionLost, Exchange

if TYPE_CHECKING:
    from harness.sandbox.guest.messages import OpenTerminal

Explain = Callable[[ConnectionLost], Awaitable[SandboxError]]


@dataclass(frozen=True, slots=True)
class TerminalEnd:
    """The end of the program on a terminal: `ended` is `wall` if the limit on wall time ended it."""

    exit_code: int
    ended: str


class Terminal:
    """The keys and the screen of a program in a sandbox. `explain` returns the error for a lost sandbox."""

    def __init__(self, exchange: Exchange, explain: Explain) -> None:
        self._exchange = exchange
        self._explain = explain

    async def read(self) -> bytes:
        """Return the next output on the screen, or b"" once the program has ended."""
        data = await self._exchange.read_piece()
        if data:
            self._exchange.send({"verb": "seen", "bytes": len(data)})
        return data

    def type(self, data: bytes) -> None:
        """Press keys. The guest keeps at most 64 KiB that the program has not read yet."""
        self._exchange.send({"verb": "type"}, data)

    async def drain(self) -> None:
        """Wait until the stream to the sandbox has taken most of the keys, so that memory stays bounded."""
        await self._exchange.drain()

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the screen, in characters."""
        self._exchange.send({"verb": "resize", "rows": rows, "columns": columns})

    async def end(self) -> TerminalEnd:
        """Wait for the program's end and return it. Raises SandboxError if the sandbox was lost."""
        try:
            header, _ = await self._exchange.answer
        except ConnectionLost as error:
            raise await self._explain(error) from error
        if "error" in header:
            raise SandboxError(f"the guest could not open a terminal: {str(header['error'])[:500]}")
        return TerminalEnd(int(header["exit_code"]), str(header["ended"]))


@contextlib.asynccontextmanager
async def open_terminal(
    connection: Connection, request: OpenTerminal, explain: Explain
) -> AsyncIterator[Terminal]:
    """Open a terminal and hang it up at the end of the block. Raises SandboxError."""
    try:
        async with connection.exchange({"verb": "terminal", **request}) as exchange:
            yield Terminal(exchange, explain)
    except ConnectionLost as error:
        raise await explain(error) from error
