"""The result of a command in the agent's shell, read from the guest's reply."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, cast

from harness.sandbox.results import Stream, read_streams

if TYPE_CHECKING:
    from harness.environments.os.guest.messages import RunReply
    from harness.sandbox.guest.messages import JobFacts


class ShellEnd(StrEnum):
    """How a command in a persistent shell ended: by itself, by a limit, or with its shell."""

    DONE = "done"
    SHELL_ENDED = "shell"
    WALL = "wall"
    OUTPUT = "output"
    MEMORY = "memory"
    KILLED = "killed"


@dataclass(frozen=True, slots=True)
class ShellResult:
    """The result of one command in a persistent shell."""

    # The command's stdout and stderr, in the order in which it wrote them.
    output: Stream
    # The exit code of the command, or of the shell if the shell ended. Negative for a signal.
    exit_code: int
    ended: ShellEnd
    # Whether the next command finds the same shell.
    shell_lives: bool
    # Whether this command started a new shell.
    renewed: bool
    # Whether the command reached the limit on processes.
    refused_forks: bool
    duration_seconds: float


def read_shell_result(header: RunReply, body: bytes) -> ShellResult:
    """Return the result of a command in the shell. Raises SandboxError."""
    output, _ = read_streams(cast("JobFacts", header), body)
    return ShellResult(
        output=output,
        exit_code=header["exit_code"],
        ended=ShellEnd(header["ended"]),
        shell_lives=header["shell"],
        renewed=header["renewed"],
        refused_forks=header["refused_forks"] > 0,
        duration_seconds=header["duration_seconds"],
    )
