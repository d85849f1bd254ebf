"""Standard output and error: the form of an error, and streams that are full, closed or without a reader."""

from __future__ import annotations

import io
import os
import select
import signal
import sys
from typing import TYPE_CHECKING, TextIO

from harness.core.errors import HarnessError
from harness.core.text import escape_text

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class OutputError(HarnessError):
    """Standard output cannot be written."""

    exit_code = 3


class ReaderGoneError(OutputError):
    """The reader of standard output has exited, as `head` does. This error has no message."""

    exit_code = 128 + signal.SIGPIPE


def print_error(message: str, hint: str | None = None) -> None:
    """Print `error: ...` and `hint: ...` to standard error. Each exit code but 0 has such a line."""
    for label, text in (("error", message), ("hint", hint)):
        if text:
            print(format_block(label, text), file=sys.stderr)


def format_block(label: str, text: str) -> str:
    """Return `label: text` with aligned lines and visible terminal escape sequences."""
    return f"{label}: " + escape_text(text, multiline=True).replace("\n", "\n" + " " * (len(label) + 2))


def guard_standard_streams() -> None:
    """Replace both streams. Standard output then fails with OutputError, and standard error never fails.

    Results go to standard output, while a run can go on without its messages on standard error. A stream that
    was closed from the start is replaced by /dev/null, because the next opened file would get its descriptor.
    Characters that the encoding of a stream lacks are written as escapes.
    """
    for descriptor in (0, 1, 2):
        _open_if_closed(descriptor)
    sys.stdout = _guard(sys.stdout, 1, required=True)
    sys.stderr = _guard(sys.stderr, 2, required=False)


def _open_if_closed(descriptor: int) -> None:
    try:
        os.fstat(descriptor)
    except OSError:
        null = os.open(os.devnull, os.O_RDWR)
        if null != descriptor:
            os.dup2(null, descriptor)
            os.close(null)


def _guard(stream: TextIO | None, descriptor: int, *, required: bool) -> TextIO:
    if stream is not None:
        try:
            if stream.fileno() != descriptor:
                return stream
        except (OSError, ValueError):  # a stream without a descriptor, such as one of a test
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
    """A standard stream that fails at most once. It discards later output."""

    def __init__(self, descriptor: int, original: TextIO | None, *, required: bool) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self._original = original  # its destructor would close the descriptor
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
