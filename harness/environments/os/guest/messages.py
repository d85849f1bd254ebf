"""The requests and replies of a machine's procedures. The guest imports this module for type checks only.

`end_all`, `end_shell`, `pause_all`, `resume_all`, `begin` and `clock` have no arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional, TypedDict

from harness.sandbox.guest.messages import JobLimits, StreamFacts


class OpenShellOptions(TypedDict, total=False):
    """In a foreign image, the shell belongs to a user of the image, `user` or `user:group`."""

    user: str
    # The shell is the first of these that the image has.
    shells: list[str]


class OpenShell(OpenShellOptions):
    """`open_shell`: start the agent's shell. The reply has its path, or a refusal."""

    environment: dict[str, str]
    folder: str
    limits: JobLimits


class StartMain(TypedDict):
    """`start_main`: start the main process of a foreign image, and wait until it has prepared the machine.

    The reply has whether it has, by all that can be seen.
    """

    argv: list[str]
    # Its further arguments, which are a command that does nothing.
    waits_for: list[str]
    environment: dict[str, str]
    folder: str
    limits: JobLimits
    user: str


class Run(TypedDict):
    """`run`: run the body as a command in the shell. The reply is a `RunReply`."""

    limits: JobLimits
    # Whether a shell that the command starts replaces this one.
    typed: bool


class RunReply(TypedDict):
    """How a command in the shell ended. The body holds the first and the last part of its output."""

    # A value of `ShellEnd`.
    ended: str
    exit_code: int
    stdout: StreamFacts
    stderr: StreamFacts
    # Whether the next command finds the same shell, and whether this command started a new one.
    shell: bool
    renewed: bool
    refused_forks: int
    duration_seconds: float


class RunScriptOptions(TypedDict, total=False):
    """In a foreign image, the command belongs to a user of the image, `user` or `user:group`."""

    user: str


class RunScript(RunScriptOptions):
    """`run_script`: run a trusted command apart from the shell. The body is its stdin.

    The reply is a `JobReply`, or a refusal.
    """

    argv: list[str]
    environment: dict[str, str]
    folder: str
    limits: JobLimits
    confined: bool


class EndAllReply(TypedDict):
    """The reply of `end_all`: the ids of the processes that could not be ended."""

    left: list[int]


class BeginReply(TypedDict):
    """The reply of `begin`: a time that is later than every earlier change."""

    now_ns: int


class ClockReply(TypedDict):
    """The reply of `clock`: how far the clock was set back since the sandbox started, in nanoseconds."""

    back_ns: int


class ListOptions(TypedDict, total=False):
    """With `after`, the reply's body is a page: the entries behind this path, and whether it is the last."""

    after: str


class List(ListOptions):
    """`list`: list changed files. The reply's body is JSON, a list of entries, as for `Describe`."""

    # None means the start of the sandbox.
    since_ns: Optional[int]


class Describe(TypedDict):
    """`describe`: list the paths among these that exist."""

    paths: list[str]


class ReadRanges(TypedDict):
    """`read_ranges`: read each `(path, offset, length)` in order. The reply's body is the bytes."""

    ranges: list[tuple[str, int, int]]


class Make(TypedDict):
    """`make`: create entries, fill ranges with the body, and finish entries (owners, modes, times)."""

    make: Sequence[Mapping[str, Any]]
    fill: list[tuple[str, int, int]]
    finish: Sequence[Mapping[str, Any]]


class RemoveLinks(TypedDict):
    """`remove_links`: remove links that lead to or below `kept_out`. The reply's body has their paths."""

    paths: list[str]
    kept_out: list[str]
