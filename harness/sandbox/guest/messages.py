"""The types of the kernel's requests and replies, which are the headers of frames. Host and guest use both.

The guest imports this module for type checks only, because every container would pay for the import.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypedDict


class Watch(TypedDict):
    """Limits that the guest enforces because the runtime does not."""

    processes: int
    memory_bytes: int


class _Hello(TypedDict):
    first_uid: int
    last_uid: int
    # The folder that holds the folder of each user.
    work_folder: str
    # The folders that all users can write to.
    shared_folders: list[str]
    deadline_seconds: float
    # Whether the agent is root, which only some images allow.
    root_agent: bool


class Hello(_Hello, total=False):
    """The first request to a guest, which runs jobs from then on."""

    watch: Watch
    # The number of open sockets that ends the sandbox when programs exceed it, because their buffers are not
    # counted in its memory.
    most_sockets: int


class HelloReply(TypedDict):
    """The guest's own facts."""

    python: str
    pid: int


class Call(TypedDict):
    """Call a procedure that the image's environment has added. The reply is the procedure's."""

    procedure: str
    request: Mapping[str, object]


class _JobLimits(TypedDict):
    cpu_seconds: float
    wall_seconds: float
    file_bytes: int
    open_files: int
    # The bytes that a job may write to both streams together, and the bytes of each that are kept.
    output_bytes: int
    keep_bytes: int


class JobLimits(_JobLimits, total=False):
    """The limits of one job."""

    # The bytes of stdout that are kept, if they are not `keep_bytes`.
    stdout_bytes: int


class _Exec(TypedDict):
    argv: list[str]
    environment: dict[str, str]
    # A path relative to the agent's folder.
    folder: str
    limits: JobLimits


class Exec(_Exec, total=False):
    """Run a command as the agent's user. The body is its stdin."""

    # The output is also sent as it comes, up to this many bytes that the host has not acknowledged.
    window_bytes: int


class OutputPiece(TypedDict):
    """A reply of a command before the last one. The body is output."""

    more: bool
    stream: Literal["stdout", "stderr"]


class StreamFacts(TypedDict):
    """One output stream of a job: its length, and the lengths of the two parts that the body holds."""

    total: int
    head: int
    tail: int


class JobFacts(TypedDict):
    """The facts of every job. The body is the kept head and tail of stdout, then of stderr."""

    # Negative for a signal.
    exit_code: int
    cpu_seconds: float
    duration_seconds: float
    memory_kills: int
    refused_forks: int
    # Whether all processes of the job are gone.
    clean: bool
    stdout: StreamFacts
    stderr: StreamFacts


class JobReply(JobFacts):
    """The end of a job."""

    # `exited`, `signal`, `killed`, or the limit that ended it.
    ended: str


class Put(TypedDict):
    """Write the body to a file as the agent's user."""

    path: str
    mode: int


class Get(TypedDict):
    """Read a file as the agent's user. The reply's body is its content."""

    path: str
    limit: int


class FileReply(TypedDict, total=False):
    """The reply to a request on files."""

    # The reason why the request was not carried out.
    refused: str


class OpenTerminal(TypedDict):
    """Run a program on a terminal of this size as the agent's user."""

    argv: list[str]
    environment: dict[str, str]
    rows: int
    columns: int
    limits: JobLimits


class TerminalPiece(TypedDict):
    """A reply of a terminal before the last one. The body is output on the screen."""

    more: bool


class TerminalReply(TypedDict):
    """The end of the program on a terminal."""

    ended: str
    exit_code: int


class Resize(TypedDict):
    """Change the size of the terminal of request `job`. `Resize`, `Seen` and `Type` have no reply."""

    job: int
    rows: int
    columns: int


class Seen(TypedDict):
    """Acknowledge bytes of the screen or of a command's output, so that the guest sends more."""

    job: int
    bytes: int


class Type(TypedDict):
    """Press keys, the body, on the terminal of request `job`."""

    job: int


class OpenRelay(TypedDict):
    """Listen on a loopback port, and carry connections to the host until the request is killed."""

    # The number of connections that are carried at the same time. Further ones wait.
    connections: int
    # Each side sends at most this many bytes of a connection that the other has not acknowledged.
    window_bytes: int


class _RelayPiece(TypedDict):
    more: bool
    # `listening` comes once and has the port. `open` announces a connection. `data` has bytes of its client
    # as the body, and `end` follows the last of them. `seen` acknowledges bytes that the client's socket has
    # taken. `close` is the last event of a connection.
    event: Literal["listening", "open", "data", "end", "seen", "close"]


class RelayPiece(_RelayPiece, total=False):
    """A reply of a relay before the last one."""

    port: int
    # Connections are numbered from 1, and no number is used twice.
    connection: int
    bytes: int


class _Relayed(TypedDict):
    connection: int
    # `data` has bytes for the client as the body, and `end` follows the last of them. `seen` acknowledges
    # bytes of the client. `close` gives up the connection, after the bytes that were sent.
    event: Literal["data", "end", "seen", "close"]


class Relayed(_Relayed, total=False):
    """An event of a connection of the relay of request `job`. It has no reply."""

    job: int
    bytes: int


class RelayReply(TypedDict):
    """The end of a relay. Its port and all of its connections are closed."""

    ended: str


class Kill(TypedDict):
    """End the job of request `job`."""

    job: int


class KillReply(TypedDict):
    """The reply to `Kill`: whether there was such a job."""

    killed: bool
