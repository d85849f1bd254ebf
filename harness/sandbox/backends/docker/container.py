"""Start, remove and list containers on a Docker engine."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from harness.core.errors import ImageMissingError
from harness.sandbox.backends.base import FoundContainer, SandboxSpec, StartedContainer
from harness.sandbox.backends.docker.engine import (
    INTERNAL_ERROR,
    engine_answers,
    engine_errors,
    is_going,
    is_gone,
)
from harness.sandbox.backends.hardening import WATCHED_BY_GUEST
from harness.sandbox.guest.frames import FrameError
from harness.sandbox.time_factor import extend_wait

if TYPE_CHECKING:
    from collections.abc import Mapping

    from docker import APIClient


PIECE = struct.Struct(">BxxxI")
STDOUT = 1
MAX_PIECE_BYTES = 16 * 1024 * 1024


class PieceSplitter:
    """Splits the bytes of an attached stream, which may be cut at any byte."""

    def __init__(self) -> None:
        self._pieces = bytearray()

    def split(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the bytes of stdout and of stderr in the pieces that `data` completes. Raises FrameError."""
        if not self._pieces and len(data) >= PIECE.size:
            kind, length = PIECE.unpack_from(data)
            # Almost every answer of a guest is one whole piece, which needs no copy into a buffer.
            if kind == STDOUT and len(data) == PIECE.size + length:
                return data[PIECE.size :], b""
        self._pieces += data
        stdout: list[bytearray] = []
        stderr: list[bytearray] = []
        while len(self._pieces) >= PIECE.size:
            kind, length = PIECE.unpack_from(self._pieces)
            if length > MAX_PIECE_BYTES:
                raise FrameError(f"the engine announced a piece of {length} bytes")
            end = PIECE.size + length
            if len(self._pieces) < end:
                break
            output = stdout if kind == STDOUT else stderr
            output.append(self._pieces[PIECE.size : end])
            del self._pieces[:end]
        return b"".join(stdout), b"".join(stderr)


# A shell, because it takes a millisecond and a megabyte. A second Python would take hundreds of milliseconds
# and ten megabytes. It reads a line for each change: 1 if containers remain, and 0 if none does. Its stdin
# ends with our process.
#
# The first shell ends at once, so that the watch is not our child. A supervisor such as Ray kills our
# children together with us, and a program that waits for all of its children must not wait for this one.
_SCRIPT = """
exec 3<&0 0</dev/null
pauses=$1
shift
{
    remains=0
    while read -r line <&3; do remains=$line; done
    [ "$remains" = 0 ] && exit
    exec 3<&-
    for pause in $pauses; do
        sleep "$pause"
        "$@" && exit
    done
} &
"""
_COLLECT = ("-P", "-c", "from harness.cli.entry import main; main()", "gc")
# Seconds before each try. The engine may be restarting.
_PAUSES = "0 5 30 120"
_SEND_FLAGS = getattr(socket, "MSG_NOSIGNAL", 0) | socket.MSG_DONTWAIT

# The same thread can take it twice, because a signal handler may fork while its thread holds it.
_lock = threading.RLock()
# Our end of the watch, and the names of the containers that this process has to remove.
_watch: socket.socket | None = None
_unremoved: set[str] = set()


def expect_removal(name: str) -> None:
    """Leave the removal of this container to the watch unless `note_removal` is called for it.

    Call it before the container is created. If no watch can be started, no error is raised, because the next
    run or `harness gc` removes the same containers.
    """
    global _watch
    with _lock:
        _unremoved.add(name)
        if _report() or not sys.executable:
            return
        with contextlib.suppress(OSError):
            _watch = _start()
            _report()


def note_removal(name: str) -> None:
    """Note that this container is gone."""
    with _lock:
        _unremoved.discard(name)
        _report()


def _report() -> bool:
    """Report to the watch whether containers remain; return whether it is alive. Close our end if not."""
    global _watch
    if _watch is None:
        return False
    try:
        _watch.send(b"1\n" if _unremoved else b"0\n", _SEND_FLAGS)
    except OSError:
        _watch.close()
        _watch = None
    return _watch is not None


def _start() -> socket.socket:
    """Start a watch and return our end of it. Raises OSError."""
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            first = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "sh", _PAUSES, sys.executable, *_COLLECT],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # Ctrl-C, or a kill of our whole process group, must not reach the watch.
                start_new_session=True,
            )
            first.wait()
        except BaseException:
            ours.close()
            raise
    return ours


def _forget_parent() -> None:
    """Make a fork forget the watch and the containers of its parent."""
    global _lock, _watch
    _lock = threading.RLock()
    _unremoved.clear()
    if _watch is not None:
        # The end of the parent must close the last copy.
        _watch.close()
        _watch = None


# A fork waits while another thread starts a watch, because it would keep copies of that thread's sockets.
os.register_at_fork(
    before=lambda: _lock.acquire(), after_in_parent=lambda: _lock.release(), after_in_child=_forget_parent
)


# A mount of a container may be busy for a moment.
REMOVE_TRIES = 10
# A busy engine may need this long for a removal that somebody has asked for already.
REMOVAL_SECONDS = 120.0
LONGEST_PAUSE_SECONDS = 0.5
# The engine's states of a container whose PID 1 is alive.
RUNNING = frozenset(("running", "paused", "restarting"))


def start_container(client: APIClient, spec: SandboxSpec, config: Mapping[str, Any]) -> StartedContainer:
    """Create a container, attach to it and start it; return it with its stream.

    `config` holds the arguments of `APIClient.create_container` for `spec`. Raises SandboxError if the engine
    cannot create or start the container, ImageMissingError if it has no such image.
    """
    from docker.errors import ImageNotFound

    if spec.name and not config["host_config"].get("AutoRemove"):
        expect_removal(spec.name)
    with engine_errors("start a sandbox"):
        try:
            container_id: str = client.create_container(name=spec.name or None, **config)["Id"]
        except ImageNotFound as error:
            raise ImageMissingError(
                f"image {spec.image} is not on the engine", hint="run: harness setup"
            ) from error
        stream = _attach(client, container_id)
        try:
            client.start(container_id)
        except BaseException:
            stream.close()
            raise
    return StartedContainer(
        container_id,
        stream,
        split=PieceSplitter().split,
        guest_counts=WATCHED_BY_GUEST.get(spec.runtime, frozenset()),
    )


def _attach(client: APIClient, container_id: str) -> socket.socket:
    """Return a socket to the streams of a container that has not started, so that no byte is missed."""
    params = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
    attached = client.attach_socket(container_id, params=params)
    try:
        descriptor = os.dup(attached.fileno())
    finally:
        # docker-py ties socket and response into a reference cycle, so that closing the socket alone would
        # take effect only at the next garbage collection.
        getattr(attached, "_response", attached).close()
    stream = socket.socket(fileno=descriptor)
    stream.setblocking(False)
    return stream


def remove(client: APIClient, name: str) -> bool:
    """Kill and remove a container, by its name or id; return whether this call removed it.

    If the engine is already removing it, for whomever, this waits until it is gone. Raises SandboxError if
    the container stays.
    """
    from docker.errors import APIError
    from requests import Timeout

    deadline = time.monotonic() + extend_wait(REMOVAL_SECONDS)
    failed, pause = 0, 0.0
    while True:
        with engine_errors("remove a sandbox"):
            try:
                client.remove_container(name, force=True, v=True)
            except Timeout:
                # The engine goes on with the removal, unless it has stopped.
                if time.monotonic() > deadline or not engine_answers(client):
                    raise
            except APIError as error:
                if is_gone(error):
                    note_removal(name)
                    return False
                if is_going(error):
                    if time.monotonic() > deadline:
                        raise
                else:
                    failed += 1
                    if error.status_code != INTERNAL_ERROR or failed == REMOVE_TRIES:
                        raise
            else:
                note_removal(name)
                return True
        pause = min(pause + 0.1, LONGEST_PAUSE_SECONDS)
        time.sleep(pause)


def list_containers(client: APIClient, labels: Mapping[str, str | None]) -> list[FoundContainer]:
    """Return the containers, running or not, that have these labels; None matches any value."""
    wanted = [name if value is None else f"{name}={value}" for name, value in labels.items()]
    with engine_errors("list containers"):
        listed = client.containers(all=True, filters={"label": wanted})
    return [
        FoundContainer(container["Id"], container["Labels"] or {}, container["State"] in RUNNING)
        for container in listed
    ]
