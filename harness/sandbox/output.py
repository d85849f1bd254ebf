"""The standard input of a command, and its output as it comes, passed on to a function of the caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from harness.errors import UsageError
from harness.sandbox.connection import Exchange
from harness.sandbox.guest.frames import FrameError

# The guest sends at most this many bytes that the host has not acknowledged, and some more at the end.
WINDOW_BYTES = 1 << 18

OnOutput = Callable[[Literal["stdout", "stderr"], bytes], None]


def encode_stdin(stdin: bytes | str) -> bytes:
    """Return the standard input of a command in bytes. Raises UsageError for text that UTF-8 lacks."""
    try:
        return stdin.encode() if isinstance(stdin, str) else stdin
    except UnicodeEncodeError as error:
        raise UsageError(
            f"stdin cannot have {error.object[error.start]!r} in it: UTF-8 has no such character"
        ) from error


def read_stream_name(header: Mapping[str, Any]) -> Literal["stdout", "stderr"]:
    """Return the stream of a piece of output. Raises FrameError for a piece of no stream."""
    stream = header.get("stream")
    if stream != "stdout" and stream != "stderr":
        raise FrameError("it sent output of a stream that a command does not have")
    return "stdout" if stream == "stdout" else "stderr"


class PassedOutput:
    """Passes pieces of output on. An error of the caller's function ends the command and is kept."""

    def __init__(self, on_output: OnOutput) -> None:
        self._on_output = on_output
        self.error: Exception | None = None

    def begin(self, exchange: Exchange) -> None:
        """Do nothing, because each piece comes with the exchange."""

    def receive(self, exchange: Exchange, header: dict[str, Any], data: bytes) -> None:
        """Pass one piece on and acknowledge it. Raises FrameError for a piece of no stream."""
        stream = read_stream_name(header)
        if self.error is not None:
            return
        try:
            self._on_output(stream, data)
        except Exception as error:  # the stream of the sandbox, which carries other requests, must go on
            self.error = error
            exchange.send({"verb": "kill"})
        else:
            exchange.send({"verb": "seen", "bytes": len(data)})
