"""The requests and replies of sandboxes that clients open, as JSON has them."""

from __future__ import annotations

import base64
import binascii
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.sandbox.limits import Limits
from harness.sandbox.results import ExecResult, Stream
from harness.sandbox.sandbox import KEEP_BYTES
from harness.service.errors import InvalidRequestError

# The bytes of each stream that a reply may have.
MOST_KEPT_BYTES = 1 << 20
Encoding = Literal["text", "base64"]


class SandboxLimits(BaseModel):
    """The limits of a sandbox, and the default limits of each command in it."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    memory_mb: int = Field(default=1024, ge=64, le=8192)
    """The memory of the sandbox in MiB, with all files on its writable folders."""
    processes: int = Field(default=128, ge=8, le=4096)
    """The number of processes and threads."""
    cpus: float = Field(default=1.0, ge=0.01, le=64, allow_inf_nan=False)
    """The number of processors."""
    disk_mb: int = Field(default=64, ge=1, le=4096)
    """The size of each writable folder in MiB."""
    open_files: int = Field(default=256, ge=32, le=65536)
    """The number of open files of each process."""
    cpu_seconds: int = Field(default=10, ge=1, le=600)
    """The processor time of a command. A longer `timeout_seconds` of the command raises it."""
    wall_seconds: float = Field(default=30.0, gt=0, le=600, allow_inf_nan=False)
    """The wall time of a command without `timeout_seconds`."""
    output_mb: int = Field(default=64, ge=1, le=4096)
    """The output of a command in MiB, both streams together."""
    file_mb: int = Field(default=64, ge=1, le=4096)
    """The largest file that a command may write, in MiB."""

    def build(self) -> Limits:
        """Return the limits for the sandbox pool."""
        return Limits(**self.model_dump())


class CreateSandboxRequest(BaseModel):
    """A sandbox to open."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    image: str = "python"
    """`python`, `os`, `db` or `maths`. No command runs as root in any of them."""
    limits: SandboxLimits = SandboxLimits()
    """The limits, each with a default."""
    deadline_seconds: float = Field(default=3600.0, ge=1, allow_inf_nan=False)
    """The time after which the sandbox ends, whatever its client does. At most one day."""
    idle_seconds: float = Field(default=300.0, ge=1, allow_inf_nan=False)
    """The time without any request after which the sandbox ends. A command that runs and an open terminal
    count as requests."""
    wait_seconds: float = Field(default=30.0, gt=0, allow_inf_nan=False)
    """The time that the request can wait in the queue and for memory."""
    terminals: bool = False
    """Whether the sandbox has terminals."""


class SandboxInfo(BaseModel):
    """A sandbox that a client has opened."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    id: str
    """The id, which cannot be guessed. Any client with the token and the id may use the sandbox."""
    image: str
    """The name of its image."""
    limits: SandboxLimits
    """Its limits."""
    terminals: bool
    """Whether it has terminals."""
    created_at: str
    """The time when it was opened, in UTC."""
    seconds_left: float
    """The time until its deadline, in seconds."""
    idle_seconds: float
    """The time without a request after which it ends."""
    idle_seconds_left: float
    """The time until it ends for lack of requests, in seconds."""
    busy: int
    """The commands, file transfers and terminals that are under way."""


class SandboxList(BaseModel):
    """The live sandboxes of a client."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    sandboxes: list[SandboxInfo]
    """The sandboxes that this client has opened, the oldest first."""


class SnapshotRequest(BaseModel):
    """A snapshot to take."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    idle_seconds: float = Field(default=600.0, ge=1, le=86_400, allow_inf_nan=False)
    """The snapshot ends after this time without a fork."""


class SnapshotInfo(BaseModel):
    """A snapshot of a client."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    name: str
    """The name, which cannot be guessed. Any client with the token and the name may fork it."""
    image: str
    """The image of the sandbox that it was taken of."""
    bytes: int
    """The size of its files as an archive."""
    idle_seconds: float
    """The time without a fork after which it ends."""


class ExecRequest(BaseModel):
    """A command to run in a sandbox."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    argv: list[str] = Field(min_length=1)
    """The command and its arguments. No shell reads them."""
    stdin: str | None = None
    """The whole standard input as text."""
    stdin_base64: str | None = None
    """The whole standard input in base64, instead of `stdin`."""
    environment: dict[str, str] = {}
    """Environment variables in addition to the few that every command has."""
    folder: str = ""
    """The working folder, relative to the home folder."""
    timeout_seconds: float | None = Field(default=None, gt=0, le=600, allow_inf_nan=False)
    """The wall time of the command. The default is the `wall_seconds` of the sandbox."""
    keep_bytes: int = Field(default=KEEP_BYTES, ge=0, le=MOST_KEPT_BYTES)
    """The bytes of each stream in the result, half from its start and half from its end."""
    encoding: Encoding = "text"
    """`text` replaces bytes that are not UTF-8. `base64` keeps every byte."""

    def read_stdin(self) -> bytes | str:
        """Return the standard input. Raises InvalidRequestError."""
        if self.stdin_base64 is None:
            return self.stdin or ""
        if self.stdin is not None:
            raise InvalidRequestError("give either 'stdin' or 'stdin_base64'", status=422)
        try:
            return base64.b64decode(self.stdin_base64, validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidRequestError(f"'stdin_base64' is not base64: {error}", status=422) from None


class ExecStream(BaseModel):
    """The kept part of an output stream. `head` and `tail` have the encoding that the request names."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    head: str
    """The start of the stream, or all of it."""
    tail: str
    """The end of the stream. Empty unless bytes are missing between head and tail."""
    total: int
    """The number of bytes that the command wrote."""
    truncated: bool
    """Whether bytes are missing between head and tail."""

    @classmethod
    def of(cls, stream: Stream, encoding: Encoding) -> ExecStream:
        """Return a stream of a result in this encoding."""
        head, tail = stream.head, stream.tail
        if not stream.truncated:
            # A cut between them may be in the middle of a character.
            head, tail = head + tail, b""
        return cls(
            head=encode_output(head, encoding),
            tail=encode_output(tail, encoding),
            total=stream.total,
            truncated=stream.truncated,
        )


class ExecReply(BaseModel):
    """The outcome of a command."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    exit_code: int
    """The exit code, negative for a signal. It comes from the untrusted program."""
    limit: str | None
    """The limit that ended the command, as a name in `limits`, or None."""
    stdout: ExecStream
    """The standard output."""
    stderr: ExecStream
    """The standard error."""
    cpu_seconds: float
    """The processor time of all processes of the command."""
    duration_seconds: float
    """The wall time."""
    clean: bool
    """Whether all processes of the command are gone."""
    encoding: Encoding
    """The encoding of the streams."""

    @classmethod
    def of(cls, result: ExecResult, encoding: Encoding) -> ExecReply:
        """Return a result in this encoding."""
        return cls(
            exit_code=result.exit_code,
            limit=result.limit,
            stdout=ExecStream.of(result.stdout, encoding),
            stderr=ExecStream.of(result.stderr, encoding),
            cpu_seconds=result.cpu_seconds,
            duration_seconds=result.duration_seconds,
            clean=result.clean,
            encoding=encoding,
        )


class ExecChunk(BaseModel):
    """The data of an event `stdout` or `stderr`: the next part of a stream."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    data: str
    """The output, in the encoding that the request names."""


def encode_output(data: bytes, encoding: Encoding) -> str:
    """Return output as text, or in base64."""
    if encoding == "base64":
        return base64.b64encode(data).decode()
    return data.decode("utf-8", "replace")
