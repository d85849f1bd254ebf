"""The results of jobs, read from the guest's replies. The host trusts their facts and bounds their size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from harness.core.errors import SandboxError, UsageError
from harness.sandbox.connection import Exchange
from harness.sandbox.guest.frames import FrameError

if TYPE_CHECKING:
    from harness.sandbox.guest.messages import JobFacts, JobReply

OnOutput = Callable[[Literal["stdout", "stderr"], bytes], None]
# The guest sends at most this many bytes that the host has not acknowledged, and some more at the end.
WINDOW_BYTES = 1 << 18
# The guest's word for each limit that can end a job, and the field of `Limits`.
LIMIT_NAMES = {
    "cpu": "cpu_seconds",
    "wall": "wall_seconds",
    "memory": "memory_mb",
    "processes": "processes",
    "output": "output_mb",
    "file": "file_mb",
}
# The bytes of a stream in its `repr`.
_SHOWN_BYTES = 200


@dataclass(frozen=True, slots=True)
class Stream:
    """One output stream: its first and last bytes that the guest kept, and its length."""

    head: bytes
    # Empty unless bytes are missing between head and tail.
    tail: bytes
    # The number of bytes that the job wrote.
    total: int

    @property
    def truncated(self) -> bool:
        return self.total > len(self.head) + len(self.tail)

    @property
    def data(self) -> bytes:
        """The kept bytes, with a line between head and tail that reports how many are missing."""
        if not self.truncated:
            return self.head + self.tail
        missing = self.total - len(self.head) - len(self.tail)
        return b"%s\n[... %d bytes left out ...]\n%s" % (self.head, missing, self.tail)

    def __str__(self) -> str:
        return self.data.decode("utf-8", "backslashreplace")

    def __repr__(self) -> str:
        # A notebook shows the `repr` of a result, which would otherwise have every kept byte.
        data = self.data
        start = repr(data[:_SHOWN_BYTES]) + ("..." if len(data) > _SHOWN_BYTES else "")
        return f"Stream({start}, total={self.total})"


@dataclass(frozen=True, slots=True)
class ExecResult:
    """The outcome of a command. `str(result.stdout)` is its output as text, `.data` as bytes."""

    # Negative for a signal: -9 is SIGKILL.
    exit_code: int
    # The field of `Limits` whose limit ended the command, or None.
    limit: str | None
    stdout: Stream
    stderr: Stream
    # Processor time of all processes of the command.
    cpu_seconds: float
    # Wall time.
    duration_seconds: float
    # Whether all of its processes are gone.
    clean: bool


def read_exec_result(header: JobReply, body: bytes) -> ExecResult:
    """Return the result of a command from the guest's reply to `exec`. Raises SandboxError."""
    stdout, stderr = read_streams(header, body)
    return ExecResult(
        exit_code=header["exit_code"],
        limit=LIMIT_NAMES.get(header["ended"]),
        stdout=stdout,
        stderr=stderr,
        cpu_seconds=header["cpu_seconds"],
        duration_seconds=header["duration_seconds"],
        clean=header["clean"],
    )


def read_streams(header: JobFacts, body: bytes) -> tuple[Stream, Stream]:
    """Return stdout and stderr of a job. Raises SandboxError if the body does not match the header."""
    streams = []
    position = 0
    for facts in (header["stdout"], header["stderr"]):
        head = body[position : position + facts["head"]]
        position += facts["head"]
        tail = body[position : position + facts["tail"]]
        position += facts["tail"]
        streams.append(Stream(head, tail, facts["total"]))
    if position != len(body):
        raise SandboxError("the lengths in the guest's answer do not match its body")
    return streams[0], streams[1]


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
