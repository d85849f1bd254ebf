"""The spawner: a process that forks candidates and that never sees a test.

PID 1 handles tests, so a candidate forked from it would carry them in its memory. The spawner is
forked off before the first frame is read, and all it is ever told is a user, a folder and limits.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
import typing  # noqa: F401 - most programs import it, and so do tests: once here, not twice in each sample

from . import candidate, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MAX_ORDER_BYTES = 64 * 1024
# A candidate's exit code once the tests have hung up: it was there to the end.
HUNG_UP = 71
PACKAGE_FOLDERS = ("/usr/local/lib/python3/dist-packages", "/usr/lib/python3/dist-packages")


class Spawner:
    """PID 1's end: `spawn` starts a candidate, `on_end` hears of it when it has ended."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self._waiting: dict[int, Callable[[int, float], None]] = {}

    def spawn(
        self, order: dict[str, Any], descriptors: list[int], ended: Callable[[int, float], None]
    ) -> None:
        """Start a candidate; `ended(wait status, CPU seconds)` is called once it is gone.

        `descriptors` are its channel, stdout and stderr. Raises OSError where the spawner is gone.
        """
        self._waiting[order["uid"]] = ended
        socket.send_fds(self.link, [json.dumps(order).encode()], descriptors)

    def read(self) -> None:
        """Handle one report. Raises EOFError where the spawner is gone."""
        data = self.link.recv(MAX_ORDER_BYTES)
        if not data:
            raise EOFError("the spawner is gone")
        report = json.loads(data)
        ended = self._waiting.pop(report["uid"], None)
        if ended is not None:
            ended(report["status"], report["cpu_seconds"])


def start() -> Spawner:
    """Fork the spawner and return PID 1's end of it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        try:
            ours.close()
            _serve(theirs)
        finally:
            os._exit(0)
    theirs.close()
    return Spawner(ours)


def _serve(link: socket.socket) -> None:
    null = os.open("/dev/null", os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    processes.close_others([link.fileno()])
    candidate.prepare_interpreter(_package_folders)
    processes.python_signals()
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_read, False)
    os.set_blocking(wake_write, False)
    signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    gc.freeze()
    users: dict[int, int] = {}
    poll = select.poll()
    poll.register(link, select.POLLIN)
    poll.register(wake_read, select.POLLIN)
    while True:
        for descriptor, _event in poll.poll():
            if descriptor == wake_read:
                os.read(wake_read, 512)
                continue
            data, descriptors, _flags, _address = socket.recv_fds(link, MAX_ORDER_BYTES, 3)
            if not data:
                return
            order = json.loads(data)
            try:
                pid = os.fork()
            except OSError:
                _report(link, order["uid"], signal.SIGKILL, 0.0)
            else:
                if pid == 0:
                    _become_candidate(order, descriptors)
                users[pid] = order["uid"]
            for received in descriptors:
                os.close(received)
        while users:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                break
            _report(link, users.pop(pid), status, usage.ru_utime + usage.ru_stime)


def _report(link: socket.socket, uid: int, status: int, cpu_seconds: float) -> None:
    link.send(json.dumps({"uid": uid, "status": status, "cpu_seconds": cpu_seconds}).encode())


def _become_candidate(order: dict[str, Any], descriptors: list[int]) -> None:
    status = 70
    try:
        channel_end, stdout, stderr = descriptors
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        processes.become(order["uid"], order["folder"], order["limits"], [channel_end])
        os.environ.clear()
        os.environ.update(order["environment"])
        candidate.serve(channel_end)
        status = HUNG_UP
    finally:
        try:
            sys.stdout.flush()
        finally:
            os._exit(status)


def _package_folders() -> list[str]:
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    local = f"/usr/local/lib/{version}/dist-packages"
    return [*sys.path, *(folder for folder in (local, *PACKAGE_FOLDERS) if os.path.isdir(folder))]
