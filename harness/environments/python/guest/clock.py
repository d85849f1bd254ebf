"""Bound the steps of a candidate from within the process of its tests."""

from __future__ import annotations

import os
import time

from harness.sandbox.guest import processes
from harness.sandbox.guest.cgroup import PROCESSORS
from harness.sandbox.guest.durations import bound_wait, find_longest
from harness.sandbox.guest.processor_time import UntrustedClock, sum_seconds
from harness.sandbox.guest.signals import ITIMER_REAL, SIGALRM, set_handler, setitimer
from harness.sandbox.guest.waiting import Waiting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

# The shortest time between two checks of the clock.
LOOK_SECONDS = 0.05


class TimeIsUp(BaseException):
    """A call has used up its time. `limit` is `cpu` or `wall`, or `machine` if that was too busy for it."""

    def __init__(self, limit: str) -> None:
        super().__init__(limit)
        self.limit = limit


class Clock:
    """Bounds each step of the candidate: its CPU time, and the wall time of a step that only waits.

    The CPU time covers all processes of the user. A step may pass its limit and end before the next
    check, so it may exceed the limit by LOOK_SECONDS at most.
    """

    def __init__(self, uid: int, cpu_seconds: float, wall_seconds: float) -> None:
        self._uids = frozenset((uid,))
        self._cpu_seconds = cpu_seconds
        self._wall_seconds = wall_seconds
        # The most that a finished step has used.
        self.most_cpu_seconds = 0.0
        self._untrusted = UntrustedClock((*processes.our_pids, os.getpid()))
        self._pids: list[int] = []
        # When the step began, when it was last looked at, and how long the candidate was not there yet.
        self._began = self._looked = self._idle = 0.0
        self._used_before = 0.0
        self._waiting = Waiting()
        set_handler(SIGALRM, self._look)

    def start(self, *, first: bool = False) -> None:
        """Begin a step. Raises TimeIsUp during the step."""
        if not first and not self._pids:
            # The process may not have changed to its user yet.
            self._pids = processes.list_processes_of(self._uids)
        self._used_before = self._used()
        self._waiting = Waiting(since_their_start=True) if first else Waiting(self._pids)
        self._began = self._looked = time.monotonic()
        self._idle = 0.0
        # Until that much wall time has passed, it cannot have used more CPU time.
        self._look_after(min(self._cpu_seconds / PROCESSORS, self._wall_seconds))

    def stop(self) -> None:
        setitimer(ITIMER_REAL, 0)
        self.most_cpu_seconds = max(self.most_cpu_seconds, self._used() - self._used_before)

    def _look_after(self, seconds: float) -> None:
        setitimer(ITIMER_REAL, max(bound_wait(seconds), LOOK_SECONDS))

    def _look(self, _number: int, _frame: FrameType | None) -> None:
        self._pids = processes.list_processes_of(self._uids)
        used = self._used() - self._used_before
        cpu_left = self._cpu_seconds - used
        now = time.monotonic()
        if not self._pids:
            # The candidate has not become its user yet, so nothing of it has run.
            self._idle += now - self._looked
        self._looked = now
        wall = now - self._began
        wall_left = self._wall_seconds - wall + self._idle + self._waiting.seconds(self._pids, used)
        if cpu_left <= 0:
            raise TimeIsUp("cpu")
        if wall_left <= 0:
            raise TimeIsUp("wall")
        if wall >= find_longest(self._wall_seconds):
            raise TimeIsUp("machine")
        self._look_after(min(cpu_left / PROCESSORS, wall_left))

    def _used(self) -> float:
        seconds = self._untrusted.seconds()
        return sum_seconds(self._pids) if seconds is None else seconds
