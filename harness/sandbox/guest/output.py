"""The output of a job: read without blocking, counted in full, kept in part."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .loop import Loop

# The wait before the next write to a pipe that was full.
PASS_ON_SECONDS = 0.005
READ_BYTES = 1 << 16
# One callback reads at most this often, so that a flood on one pipe cannot starve timers.
READS_A_TURN = 16
# More reads than a full pipe needs.
LAST_READS = 64


class Output:
    """One stream of a job. Keeps the first and the last `keep_bytes / 2` bytes."""

    def __init__(self, loop: Loop, descriptor: int, keep_bytes: int, grew: Callable[[], None]) -> None:
        self._loop = loop
        self._descriptor = descriptor
        self._half = keep_bytes // 2
        self._grew = grew
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0
        self._open = True
        self._kept = False
        # Gets each piece of the output as it comes, if the host wants to have it.
        self.pass_on: Callable[[bytes], None] | None = None
        os.set_blocking(descriptor, False)
        loop.watch(descriptor, self._ready)

    @property
    def is_open(self) -> bool:
        """Whether a process may still write, as far as this side knows."""
        return self._open

    def pause(self) -> None:
        """Leave further output in the pipe until `resume`. Its writer waits once the pipe is full."""
        self._loop.unwatch(self._descriptor)

    def resume(self) -> None:
        """Read on."""
        if self._open:
            self._loop.watch(self._descriptor, self._ready)

    def close(self) -> None:
        """Read the rest of the pipe and close it. The reads are bounded, because a writer may live on."""
        if self._open:
            self._read(LAST_READS)
        self._end()

    def stop_keeping(self) -> None:
        """Drop further output from now on. It is still read, because a writer may live on."""
        if self._open:
            self._read(LAST_READS)
        self._kept = True

    def read_kept(self) -> tuple[bytes, bytes]:
        """Return the kept head and tail. If nothing was cut, `head + tail` is the whole output."""
        return bytes(self._head), bytes(self._tail[max(0, len(self._tail) - self._half) :])

    def _ready(self) -> None:
        self._read(READS_A_TURN if self.pass_on is None else 1)
        if not self._kept:
            self._grew()

    def _read(self, turns: int) -> bool:
        for _ in range(turns):
            try:
                data = os.read(self._descriptor, READ_BYTES)
            except BlockingIOError:
                return False
            if not data:
                self._end()
                return False
            self._keep(data)
        return True

    def _keep(self, data: bytes) -> None:
        if self._kept:
            return
        self.total += len(data)
        if self.pass_on is not None:
            self.pass_on(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > self._half + READ_BYTES * READS_A_TURN:
            del self._tail[: len(self._tail) - self._half]

    def _end(self) -> None:
        if self._open:
            self._open = False
            self._loop.unwatch(self._descriptor)
            os.close(self._descriptor)
