"""A process that runs the agent's SQL, one call after another, because a fork takes longer than most SQL.

It belongs to the agent's user, which owns the database anyway, so nothing that SQL could do to the process
gains the agent anything. Each call has a new connection, and with it its transactions, temporary tables and
settings end. Between two calls PID 1 stops the process. Before trusted code reads the database, PID 1 kills
every process of the agent.
"""

from __future__ import annotations

import os
import resource
import time

from harness.sandbox.guest import links, processes
from harness.sandbox.guest.signals import SIGCONT, SIGKILL, SIGSTOP

from . import routine_job, translator
from .database import prepare, query, rehearse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from harness.sandbox.guest.links import Link
    from harness.sandbox.guest.loop import Loop, Timer
    from harness.sandbox.guest.users import User

    from .database import Prepared

# The process has these limits from its fork.
LIMITS = ("cpu_seconds", "file_bytes", "open_files")
# After a call, the process has this long to prepare for the next one, before PID 1 stops it.
STOP_SECONDS = 0.05
# A process that has used more than this does not stay, so that each call starts with nearly the same limits.
MOST_CPU_SECONDS = 0.5
MOST_GROWTH_KIB = 16 * 1024
START = b"\0"


class QueryProcess:
    """A process of the agent's user that waits for queries, and serves one at a time."""

    def __init__(self, loop: Loop, user: User, limits: Mapping[str, Any]) -> None:
        """Fork the process. Raises OSError if that is not possible."""
        self.user = user
        self._loop = loop
        self._limits = {name: limits[name] for name in LIMITS}
        self._translates = translator.is_loaded()
        self._link, theirs = links.message_pair()
        try:
            self.pid = os.fork()
            if self.pid == 0:
                _serve(theirs, user, self._limits)
        except OSError:
            self._link.close()
            raise
        finally:
            theirs.close()
        self._lives = True
        self._is_stopped = False
        self._timer: Timer | None = None
        self.rest()

    def fits(self, user: User, limits: Mapping[str, Any]) -> bool:
        """Return whether the process can serve a call of this user with these limits at once."""
        return (
            self._lives
            and user is self.user
            and self._translates == translator.is_loaded()
            and all(limits[name] == value for name, value in self._limits.items())
        )

    def start(self, streams: tuple[int, int, int], stayed: Callable[[int], None]) -> None:
        """Let the process serve a call with these streams. Raises OSError if it has ended.

        `stayed(exit code)` is called if the process has served the call and waits for another one. Otherwise
        it ends with the exit code of the call. The caller watches for the end.
        """
        if self._timer is not None:
            self._timer.cancel()
        if self._is_stopped:
            self._is_stopped = False
            processes.send([self.pid], SIGCONT)
        links.send_with_descriptors(self._link, START, list(streams))
        self._loop.watch(self._link.fileno(), lambda: self._read(stayed))

    def rest(self) -> None:
        """Expect no call for now. The process is stopped when it has had time to prepare for one."""
        self._loop.on_exit(self.pid, lambda _status, _cpu_seconds: self.note_end())
        self._timer = self._loop.after(STOP_SECONDS, self._stop)

    def end(self) -> None:
        """Kill the process, because no call will need it. Its end is not awaited."""
        self._close()
        if self._lives:
            processes.send([self.pid], SIGKILL)

    def note_end(self) -> None:
        """Record that the process has ended."""
        self._lives = False
        self._close()

    def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._loop.unwatch(self._link.fileno())
        self._link.close()

    def _read(self, stayed: Callable[[int], None]) -> None:
        self._loop.unwatch(self._link.fileno())
        try:
            word = self._link.recv(1)
        except OSError:
            word = b""
        if word and word[0] in routine_job.ANSWERED:
            stayed(word[0])
        elif word:
            processes.send([self.pid], SIGKILL)

    def _stop(self) -> None:
        if self._lives:
            self._is_stopped = True
            processes.send([self.pid], SIGSTOP)


def _serve(link: Link, user: User, limits: Mapping[str, Any]) -> None:
    """Serve calls, and exit with the code of the last one. Runs in the process."""
    status = routine_job.FAILED
    try:
        # The streams of PID 1 must not be within reach of a call.
        null = os.open(os.devnull, os.O_RDWR)
        nothing = (null, null, null)
        routine_job.take_streams(nothing)
        processes.become(user.uid, user.folder, processes.loosen(limits), [link.fileno(), null])
        rehearse()
        least = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        while True:
            prepared = prepare()
            word, streams = links.receive_with_descriptors(link, len(START))
            if word != START:
                break
            status = _serve_one(prepared, streams)
            if status not in routine_job.ANSWERED or not _may_stay(least):
                break
            # Whoever reads the output must not have to wait for this process.
            routine_job.take_streams(nothing)
            link.send(bytes((status,)))
            prepared.connection.close()
    finally:
        os._exit(status)


def _serve_one(prepared: Prepared, streams: tuple[int, ...]) -> int:
    stdin, stdout, stderr = streams
    routine_job.take_streams((stdin, stdout, stderr))
    for descriptor in streams:
        os.close(descriptor)
    return routine_job.work(lambda request: query(request, [], prepared))


def _may_stay(least: int) -> bool:
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - least
    return time.process_time() < MOST_CPU_SECONDS and grown < MOST_GROWTH_KIB
