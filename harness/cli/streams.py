"""Standard output and error that cannot be written: a full disk, a closed pipe, none at all."""

from __future__ import annotations

import io
import os
import select
import signal
import sys
from typing import TYPE_CHECKING, TextIO

from harness.errors import HarnessError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class OutputError(HarnessError):
    """Standard output cannot be written."""

    exit_code = 3


class ReaderGoneError(OutputError):
    """The reader of standard output has gone, as `head` does once it has enough. That needs no message."""

    exit_code = 128 + signal.SIGPIPE


def guard_standard_streams() -> None:
    """Let a standard output that fails end the command with one clear error, and a standard error with none.

    Results go to standard output. What goes to standard error can be done without, so a run goes on.
    A stream that was closed from the start leads nowhere, because the next file that is opened would get
    its place. Letters that the encoding of a stream lacks are written as escapes.
    """
    for descriptor in (0, 1, 2):
        _open_where_closed(descriptor)
    sys.stdout = _guarded(sys.stdout, 1, required=True)
    sys.stderr = _guarded(sys.stderr, 2, required=False)


def _open_where_closed(descriptor: int) -> None:
    try:
        os.fstat(descriptor)
    except OSError:
        opened = os.open(os.devnull, os.O_RDWR)
        if opened != descriptor:
            os.dup2(opened, descriptor)
            os.close(opened)


def _guarded(stream: TextIO | None, descriptor: int, *, required: bool) -> TextIO:
    if stream is not None:
        try:
            if stream.fileno() != descriptor:
                return stream
        except (OSError, ValueError):  # a stream of somebody's own making
            return stream
        stream.flush()
    raw = _Output(descriptor, stream, required=required)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding if stream is not None else "utf-8",
        errors="backslashreplace",
        line_buffering=not required or raw.isatty(),
    )


class _Output(io.FileIO):
    """A standard stream. It fails at most once; what is written to it later goes nowhere."""

    def __init__(self, descriptor: int, original: TextIO | None, *, required: bool) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self._original = original  # would close the descriptor if it went
        self._required = required
        self._failed = False

    def write(self, data: ReadableBuffer) -> int:
        if not self._failed:
            try:
                return self._write(data)
            except OSError as error:
                self._failed = True
                if self._required:
                    raise _output_error(error) from error
        return memoryview(data).nbytes

    def _write(self, data: ReadableBuffer) -> int:
        # Another program may have made a shared terminal or pipe non-blocking.
        while (count := super().write(data)) is None:
            select.select((), (self,), ())
        return count


def _output_error(error: OSError) -> OutputError:
    if isinstance(error, BrokenPipeError):
        return ReaderGoneError("")
    return OutputError(f"standard output: cannot be written: {error.strerror}")
