"""Spawners: small processes that fork the children of one role, so that PID 1 need not.

PID 1 handles tests, so a candidate forked from it would carry them in its memory. The spawners are
forked off before the first frame is read, and all they are ever told is a user, a folder and limits;
what else a child needs it reads from descriptors that are handed through. It is cheap too: a fork
makes its parent copy every page that it writes to afterwards, and PID 1 writes to many.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
from typing import NamedTuple

from . import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MAX_ORDER_BYTES = 64 * 1024
MAX_DESCRIPTORS = 3


class Spawner:
    """PID 1's end: `spawn` starts a child, `on_end` hears of it when it has ended."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self._waiting: dict[int, Callable[[int, float], None]] = {}

    def spawn(
        self, order: dict[str, Any], descriptors: list[int], ended: Callable[[int, float], None]
    ) -> None:
        """Start a child; `ended(wait status, CPU seconds)` is called once it is gone.

        `descriptors` are what its role takes. Raises OSError where the spawner is gone.
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


class Role(NamedTuple):
    """What a spawner's children are.

    The spawner calls `prepare()` once and `before(order)` ahead of each fork: what is done there, no
    child has to copy pages for. Each child calls `live(order, descriptors)`, which must not return.
    """

    prepare: Callable[[], None]
    before: Callable[[dict[str, Any]], None]
    live: Callable[[dict[str, Any], list[int]], None]


def start(role: Role) -> Spawner:
    """Fork a spawner of this role and return PID 1's end of it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        try:
            ours.close()
            _serve(theirs, role)
        finally:
            os._exit(0)
    theirs.close()
    return Spawner(ours)


def _serve(link: socket.socket, role: Role) -> None:
    null = os.open("/dev/null", os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    processes.close_others([link.fileno()])
    role.prepare()
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
            data, descriptors, _flags, _address = socket.recv_fds(link, MAX_ORDER_BYTES, MAX_DESCRIPTORS)
            if not data:
                return
            order = json.loads(data)
            role.before(order)
            try:
                pid = os.fork()
            except OSError:
                _report(link, order["uid"], signal.SIGKILL, 0.0)
            else:
                if pid == 0:
                    try:
                        role.live(order, descriptors)
                    finally:
                        os._exit(1)
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
