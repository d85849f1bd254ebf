"""Run the command-line client of a container engine as a process."""

from __future__ import annotations

import re
import socket
import subprocess
from dataclasses import dataclass

from harness.core.errors import EngineUnavailableError, SandboxError

CALL_SECONDS = 60.0
MISSING = re.compile("no such (container|image|object)", re.IGNORECASE)


class NotFoundError(SandboxError):
    """The engine has no such container or image."""


@dataclass(frozen=True, slots=True)
class Client:
    """A command that takes the subcommands and options of `docker`."""

    command: str

    def run(self, action: str, *arguments: str, seconds: float = CALL_SECONDS) -> str:
        """Run the client to its end and return its stdout without the space around it.

        `action` says in an error what the client was to do. Raises NotFoundError, SandboxError with
        `outside` set, and EngineUnavailableError if the client is not installed.
        """
        try:
            ended = subprocess.run(
                [self.command, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="backslashreplace",
                timeout=seconds,
                # Ctrl-C must not reach a client that removes a container.
                start_new_session=True,
            )
        except OSError as error:
            raise EngineUnavailableError(f"cannot run {self.command}: {error.strerror}") from error
        except subprocess.TimeoutExpired as error:
            raise SandboxError(f"cannot {action}: no answer in {seconds:g} s", outside=True) from error
        if ended.returncode == 0:
            return ended.stdout.strip()
        message = ended.stderr.strip()
        kind = NotFoundError if MISSING.search(message) else SandboxError
        raise kind(f"cannot {action}: {message}", outside=True)

    def attach(self, *arguments: str) -> tuple[subprocess.Popen[bytes], socket.socket, socket.socket]:
        """Start the client; return its process, a socket to its stdin and stdout, and one to its stderr.

        The sockets do not block. The client ends if the first is closed, also by the death of this process.
        """
        ours, theirs = socket.socketpair()
        our_stderr, their_stderr = socket.socketpair()
        with theirs, their_stderr:
            try:
                process = subprocess.Popen(
                    [self.command, *arguments],
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=their_stderr.fileno(),
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                our_stderr.close()
                raise
        ours.setblocking(False)
        our_stderr.setblocking(False)
        return process, ours, our_stderr
