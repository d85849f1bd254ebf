"""Print the output of an untrusted command as it comes."""

from __future__ import annotations

import asyncio
import select
import sys
from typing import BinaryIO

from harness.core.text import ByteEscaper
from harness.sandbox.streaming import OutputStream

# A pipe or a terminal that is ready takes this many bytes (PIPE_BUF of Linux), so the write does not wait.
WRITE_BYTES = 4096


class _Printer:
    """Writes one stream of a command. A terminal gets it with escape sequences made visible."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._escaper = ByteEscaper() if out.isatty() else None
        self._waits = _has_readiness(out)

    async def write(self, data: bytes, *, is_last: bool = False) -> None:
        if self._escaper is not None:
            data = self._escaper.escape(data, is_last=is_last).encode("utf-8", "backslashreplace")
        for start in range(0, len(data), WRITE_BYTES):
            if self._waits:
                await _wait_until_ready(self._out.fileno())
            self._out.write(data[start : start + WRITE_BYTES])
            self._out.flush()


async def print_output(stream: OutputStream) -> None:
    """Write each chunk to standard output or standard error of this process, and wait for slow readers.

    The event loop goes on meanwhile, so that signals are handled. Raises OutputError and SandboxError.
    """
    printers = {"stdout": _Printer(sys.stdout.buffer), "stderr": _Printer(sys.stderr.buffer)}
    async for chunk in stream:
        await printers[chunk.stream].write(chunk.data)
    for printer in printers.values():
        await printer.write(b"", is_last=True)


def _has_readiness(out: BinaryIO) -> bool:
    """Return whether the event loop can wait for a stream. It cannot for a file, which is always ready."""
    try:
        with select.epoll() as epoll:
            epoll.register(out.fileno(), select.EPOLLOUT)
    except (OSError, ValueError, AttributeError):
        return False
    return True


async def _wait_until_ready(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_writer(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(descriptor)
