"""Run a program on a new terminal, whose keys and screen are the host's."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
import time

from . import processes
from .processor_time import Account
from .signals import SIGKILL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .loop import Loop
    from .users import User

READ_BYTES = 1 << 16
# This much output may be under way before the host has acknowledged it.
WINDOW_BYTES = 1 << 18
# Typed bytes that the program has not read yet. Further ones are dropped, as a terminal drops them.
TYPED_BYTES = 1 << 16
TYPE_AGAIN_SECONDS = 0.01


class TerminalJob:
    """Runs until its first process ends. Its other processes live on, unless the hang-up ends them."""

    def __init__(
        self,
        loop: Loop,
        request: dict[str, Any],
        user: User,
        send: Callable[[bytes], None],
        finished: Callable[[dict[str, Any], bytes], None],
    ) -> None:
        self._loop = loop
        self._send = send
        self._finished = finished
        self._started = time.monotonic()
        self._stopped_by: str | None = None
        self._typed = bytearray()
        self._unseen = 0
        self._reading = True
        self._master, slave = os.openpty()
        try:
            self.resize(request["rows"], request["columns"])
            os.set_blocking(self._master, False)
            try:
                os.fchown(slave, user.uid, user.uid)
            except PermissionError:
                pass  # gVisor
            self._pid = os.fork()
            if self._pid == 0:
                _be_on_terminal(request, user, slave)
        except OSError:
            os.close(self._master)
            raise
        finally:
            os.close(slave)
        # Its own account, because jobs that run at the same time must not pay for its processor time.
        self._account = Account(loop, lambda: [self._pid])
        loop.watch(self._master, self._read)
        loop.on_exit(self._pid, self._on_exit)
        self._timer = loop.after(request["limits"]["wall_seconds"], lambda: self.stop("wall"))

    def stop(self, reason: str) -> None:
        """Kill the program. The hang-up then ends its processes in the foreground."""
        if self._stopped_by is None:
            self._stopped_by = reason
            processes.send([self._pid], SIGKILL)

    def type(self, data: bytes) -> None:
        """Press keys."""
        self._typed += data[: max(0, TYPED_BYTES - len(self._typed))]
        self._pass_on_typed()

    def resize(self, rows: int, columns: int) -> None:
        """Change the size, in characters. The processes in the foreground get a signal."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def acknowledge(self, size: int) -> None:
        """Record that the host has read `size` bytes, and read on if there is room again."""
        self._unseen -= size
        if not self._reading and self._unseen < WINDOW_BYTES:
            self._reading = True
            self._loop.watch(self._master, self._read)

    def _pass_on_typed(self) -> None:
        if not self._typed or self._master < 0:
            return
        try:
            del self._typed[: os.write(self._master, self._typed)]
        except BlockingIOError:
            pass
        except OSError:
            return
        if self._typed:
            self._loop.after(TYPE_AGAIN_SECONDS, self._pass_on_typed)

    def _read(self) -> None:
        data = self._output()
        if data:
            self._unseen += len(data)
            self._send(data)
        if not data or self._unseen >= WINDOW_BYTES:
            # No process has the terminal open any more, or the host is behind. The program's end, or
            # `acknowledge`, arrives in either case.
            self._reading = bool(data) and self._unseen < WINDOW_BYTES
            self._loop.unwatch(self._master)

    def _output(self) -> bytes:
        try:
            return os.read(self._master, READ_BYTES)
        except OSError:
            return b""

    def _on_exit(self, status: int, _cpu_seconds: float) -> None:
        self._timer.cancel()
        self._account.close()
        self._loop.unwatch(self._master)
        # The rest of the program's output. Later output of other processes is dropped.
        room = WINDOW_BYTES
        while room > 0 and (data := self._output()):
            room -= len(data)
            self._send(data)
        os.close(self._master)
        self._master = -1
        self._finished(
            {
                "ended": self._stopped_by or "exited",
                "exit_code": os.waitstatus_to_exitcode(status),
                "duration_seconds": time.monotonic() - self._started,
            },
            b"",
        )


def _be_on_terminal(request: dict[str, Any], user: User, slave: int) -> None:
    try:
        processes.become(user.uid, user.folder, request["limits"], [slave], user.groups)
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        for descriptor in (0, 1, 2):
            os.dup2(slave, descriptor)
        os.close(slave)
        argv = request["argv"]
        os.execve(argv[0], argv, request["environment"])
    finally:
        os._exit(127)
