"""Start a supervisor of this process, and send it requests."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.core.errors import SandboxError
from harness.sandbox.backends.docker.engine import system_path
from harness.sandbox.backends.oci import cgroups, images, user_namespace
from harness.sandbox.backends.oci.supervisor import DESCRIPTION, READY, SOCKET

SUPERVISOR = Path(__file__).with_name("supervisor.py")
# A busy machine may need long for a start. The runtime itself always ends.
ANSWER_SECONDS = 120.0
MAX_ERROR_CHARACTERS = 1000
MAX_ANSWER_BYTES = 64 * 1024
# An ordinary user gets a group with controllers from systemd, or has one already.
_SCOPES = (("systemd-run", "--user", "--scope", "--quiet", "--collect", "--property=Delegate=yes", "--"), ())


def state() -> Path:
    """Return the folder with a folder for each supervisor."""
    state = images.folder() / "state"
    state.mkdir(mode=0o700, exist_ok=True)
    return state


def start(runtime: str) -> tuple[Path, str]:
    """Start a supervisor of this process; return its folder and the group of its containers.

    Raises SandboxError if it does not start.
    """
    _remove_abandoned()
    own = state() / secrets.token_hex(6)
    own.mkdir()
    # Root of a container goes through it, and cannot come from outside.
    own.chmod(0o711)
    command = [sys.executable, "-I", "-S", "-B", str(SUPERVISOR), str(own), runtime]
    output = b""
    for prefix in _SCOPES if user_namespace.is_needed() and cgroups.find_version() == 2 else ((),):
        if prefix and shutil.which(prefix[0]) is None:
            continue
        output = _run_supervisor([*prefix, *command])
        if (parent := output.rpartition(READY)[2]) != output:
            return own, parent.decode()
    images.remove_tree(own)
    text = output.decode(errors="replace").strip()[-MAX_ERROR_CHARACTERS:]
    raise SandboxError(f"the supervisor of sandboxes does not start: {text}", outside=True)


def _remove_abandoned() -> None:
    """Remove the folders of supervisors that were killed when they had no container."""
    for own in state().iterdir():
        with contextlib.suppress(OSError):
            is_old = time.time() - own.stat().st_mtime > ANSWER_SECONDS
            if is_old and not answers(own) and not any(own.glob(f"*/{DESCRIPTION}")):
                images.remove_tree(own)


def _run_supervisor(command: list[str]) -> bytes:
    """Start a supervisor, and return what it has written until it was ready or has failed."""
    owner = os.pidfd_open(os.getpid())
    first_ids = map(str, user_namespace.find_first_ids()) if user_namespace.is_needed() else ()
    try:
        process = subprocess.Popen(
            [*command, str(owner), *first_ids],
            env={**os.environ, "PATH": system_path()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[owner],
        )
    finally:
        os.close(owner)
    # The process that was started ends as soon as the supervisor, its child, is ready.
    return process.communicate()[0]


def ask(supervisor: Path, request: Mapping[str, Any], streams: Iterable[int] = ()) -> dict[str, Any]:
    """Send a request to a supervisor, with descriptors, and return its answer. Raises SandboxError."""
    try:
        with _connect(supervisor) as connection:
            connection.settimeout(ANSWER_SECONDS)
            socket.send_fds(connection, [json.dumps(request).encode()], list(streams))
            data = connection.recv(MAX_ANSWER_BYTES)
    except OSError as error:
        raise SandboxError(f"the supervisor of sandboxes does not answer: {error}", outside=True) from error
    if not data:
        raise SandboxError("the supervisor of sandboxes has ended", outside=True)
    answer: dict[str, Any] = json.loads(data)
    return answer


def answers(supervisor: Path) -> bool:
    """Return whether the supervisor with this folder lives."""
    try:
        _connect(supervisor).close()
    except OSError:
        return False
    return True


def _connect(supervisor: Path) -> socket.socket:
    """Return a connection to a supervisor. Its path may be longer than an address can be. Raises OSError."""
    folder = os.open(supervisor, os.O_PATH | os.O_DIRECTORY)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.connect(f"/proc/self/fd/{folder}/{SOCKET}")
    except BaseException:
        connection.close()
        raise
    finally:
        os.close(folder)
    return connection
