"""The main process of a foreign image, and the wait until it has prepared the machine.

An entry point often starts services and then replaces itself by its arguments. No event shows that they
serve, so the wait lasts until the arguments run and no process of the machine has work to do.
"""

from __future__ import annotations

import os
import time

from harness.sandbox.guest import processes
from harness.sandbox.guest.jobs import execute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.sandbox.guest.loop import Loop
    from harness.sandbox.guest.users import User

    from .messages import StartMain

LOOK_SECONDS = 0.2
# An entry point that does not run its arguments has this long without work.
QUIET_SECONDS = 2.0
# An entry point that works for ever keeps nobody waiting for longer.
MOST_SECONDS = 10.0
IDLE_STATES = (b"S", b"Z", b"T")


class MainProcess:
    """The main process, whose start is answered once it has prepared the machine."""

    def __init__(
        self,
        loop: Loop,
        asked: StartMain,
        user: User,
        environment: dict[str, str],
        answer: Callable[[dict[str, bool]], None],
    ) -> None:
        self._loop = loop
        self._answer = answer
        self._command = b"".join(os.fsencode(part) + b"\0" for part in asked["waits_for"])
        self._began = self._busy = time.monotonic()
        self._seen: list[tuple[str, bytes, bytes]] = []
        self._has_ended = False
        pid = os.fork()
        if pid == 0:
            _run(asked, user, environment)
        loop.on_exit(pid, self._note_end)
        loop.after(LOOK_SECONDS, self._look)

    def _note_end(self, _status: int, _cpu_seconds: float) -> None:
        self._has_ended = True

    def _look(self) -> None:
        seen, before, now = _list_work(), self._seen, time.monotonic()
        self._seen = seen
        if seen != before or any(state not in IDLE_STATES for _pid, state, _ticks in seen):
            self._busy = now
        is_quiet = self._busy < now
        is_settled = is_quiet and (self._runs_command(seen) or now - self._busy > QUIET_SECONDS)
        if self._has_ended or is_settled or now - self._began > MOST_SECONDS:
            self._answer({"settled": is_settled})
        else:
            self._loop.after(LOOK_SECONDS, self._look)

    def _runs_command(self, seen: list[tuple[str, bytes, bytes]]) -> bool:
        """Return whether a process runs the arguments of the entry point."""
        return any(_read(pid, "cmdline") == self._command for pid, _state, _ticks in seen)


def _list_work() -> list[tuple[str, bytes, bytes]]:
    """Return the id, the state and the processor time of each process but PID 1."""
    found = []
    for pid in os.listdir("/proc"):
        if pid.isdigit() and pid != "1":
            # Split after the last bracket, because a process may choose any name, brackets included.
            facts = _read(pid, "stat").rpartition(b")")[2].split()
            if len(facts) > 12:
                found.append((pid, facts[0], facts[11] + b" " + facts[12]))
    return found


def _read(pid: str, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read(4096)
    except OSError:
        return b""


def _run(asked: StartMain, user: User, environment: dict[str, str]) -> None:
    """Turn this child into the main process. Nothing reads its output."""
    try:
        null = os.open("/dev/null", os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        processes.become(user.uid, "/", asked["limits"], [], user.groups)
        os.chdir(asked["folder"])
        execute([*asked["argv"], *asked["waits_for"]], environment)
    finally:
        os._exit(127)
