"""A small event loop for PID 1: readable and writable descriptors, timers, and children."""

from __future__ import annotations

import heapq
import os
import select
import time

from . import signals
from .durations import bound_wait, moment_after
from .signals import SIGKILL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    # A callback, its owner, and the round of the loop that made it.
    Entry = tuple[Callable[[], None], int | None, int]

READABLE = select.POLLIN | select.POLLHUP | select.POLLERR
# Ends that one round waits for. Processes that are born and end all the time must not keep timers waiting.
MOST_ENDS = 1 << 15
# The kernel reports hang-ups and errors for each watched descriptor, whatever it is watched for.
BROKEN = select.POLLHUP | select.POLLERR


class Timer:
    """A pending call. `cancel` makes it never happen."""

    def __init__(self, when: float, call: Callable[[], None], owner: int | None = None) -> None:
        self.when = when
        self.call: Callable[[], None] | None = call
        self.owner = owner

    def cancel(self) -> None:
        self.call = None

    def __lt__(self, other: Timer) -> bool:
        return self.when < other.when


class Loop:
    """Callbacks on descriptors, on the monotonic clock and on the end of child processes.

    A callback belongs to the request that it was made for, its owner. If a callback fails, the loop calls
    `on_failure` with the owner and the error, and goes on, because a failed request must not end PID 1. An
    error in a callback without an owner is raised.
    """

    def __init__(self) -> None:
        self._poll = select.poll()
        self._readers: dict[int, Entry] = {}
        self._writers: dict[int, Entry] = {}
        self._round = 0
        self._timers: list[Timer] = []
        self._children: dict[int, tuple[Callable[[int, float], None], int | None]] = {}
        self._before_orphans: list[Callable[[], None]] = []
        # The child that has just been reaped, while reports are read.
        self._collected = 0
        # The callbacks of children that are reaped, with owner, wait status and CPU seconds.
        self._ended: list[tuple[Callable[[int, float], None], int | None, int, float]] = []
        # The current request, which owns all callbacks that are made while it is served.
        self._owner: int | None = None
        self.on_failure: Callable[[int, Exception], None] | None = None
        # The processor time of the processes that PID 1 has reaped in place of their parents.
        self.orphan_seconds = 0.0
        self._wake_read, wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(wake_write, False)
        signals.set_handler(signals.SIGCHLD, lambda _signal, _frame: None)
        signals.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        self.watch(self._wake_read, self._drain_wake)

    def watch(self, descriptor: int, ready: Callable[[], None]) -> None:
        """Call `ready` whenever `descriptor` can be read, has reached its end, or is broken."""
        self._readers[descriptor] = ready, self._owner, self._round
        self._register(descriptor)

    def unwatch(self, descriptor: int) -> None:
        if self._readers.pop(descriptor, None) is not None:
            self._register(descriptor)

    def watch_writing(self, descriptor: int, ready: Callable[[], None]) -> None:
        """Call `ready` whenever `descriptor` can be written or is broken."""
        self._writers[descriptor] = ready, self._owner, self._round
        self._register(descriptor)

    def unwatch_writing(self, descriptor: int) -> None:
        if self._writers.pop(descriptor, None) is not None:
            self._register(descriptor)

    def _register(self, descriptor: int) -> None:
        events = READABLE if descriptor in self._readers else 0
        if descriptor in self._writers:
            events |= select.POLLOUT
        if events:
            self._poll.register(descriptor, events)
        else:
            self._poll.unregister(descriptor)

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Schedule one call, any number of seconds from now; return its timer. Raises ValueError for nan."""
        timer = Timer(moment_after(time.monotonic(), seconds), call, self._owner)
        heapq.heappush(self._timers, timer)
        return timer

    def on_exit(self, pid: int, call: Callable[[int, float], None]) -> None:
        """Call `call(wait status, CPU seconds)` once the child has ended and is reaped."""
        self._children[pid] = call, self._owner

    def on_exit_of_sibling(self, pid: int, call: Callable[[int, float], None]) -> None:
        """As `on_exit`, for a child that another process has forked as its sibling and reported afterwards.

        Something may have killed it, and this process reaped it as an orphan, before the report.
        """
        self.on_exit(pid, call)
        if pid == self._collected:
            return
        try:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            self._ended.append((*self._children.pop(pid), SIGKILL, 0.0))

    def before_orphans(self, read_reports: Callable[[], None]) -> None:
        """Call `read_reports` before a child counts as an orphan. It may call `on_exit` for that child.

        It must not end a request or start a child itself.
        """
        self._before_orphans.append(read_reports)

    def serve(self, owner: int | None, call: Callable[[], None]) -> bool:
        """Make a call for this owner; return whether it succeeded. Raises its error if there is no owner."""
        before, self._owner = self._owner, owner
        try:
            call()
        except Exception as error:
            if owner is None or self.on_failure is None:
                raise
            self.on_failure(owner, error)
            return False
        finally:
            self._owner = before
        return True

    def keep_owner(self, call: Callable[[int, float], None]) -> Callable[[int, float], None]:
        """Return a function that makes this call for the current request, even while another is served."""
        owner = self._owner

        def call_for_owner(status: int, seconds: float) -> None:
            self._report_end(owner, call, status, seconds)

        return call_for_owner

    def run(self) -> None:
        """Serve for ever. A callback ends the process with an exit."""
        has_reaped = False
        while True:
            while self._timers and self._timers[0].call is None:
                heapq.heappop(self._timers)
            wait = None
            if has_reaped or self._ended:
                # More children may have ended, or a timer has reaped some.
                wait = 0.0
            elif self._timers:
                # A wait that is too short does no harm, because the loop then finds no timer due and waits
                # again.
                wait = bound_wait(self._timers[0].when - time.monotonic()) * 1000 + 1
            events = self._poll.poll(wait)
            self._round += 1
            for descriptor, event in events:
                if event & ~select.POLLOUT and not self._serve_ready(self._readers.get(descriptor)):
                    # The callback has not read the data, so it would be called and fail for ever.
                    self.unwatch(descriptor)
                if event & (select.POLLOUT | BROKEN) and not self._serve_ready(self._writers.get(descriptor)):
                    self.unwatch_writing(descriptor)
            has_reaped = self.reap()
            now = time.monotonic()
            while self._timers and self._timers[0].when <= now:
                timer = heapq.heappop(self._timers)
                if timer.call is not None:
                    self.serve(timer.owner, timer.call)

    def _serve_ready(self, entry: Entry | None) -> bool:
        """Make the call of a descriptor with an event; return False if the call has failed.

        An entry of this round belongs to a descriptor whose number was free, and the event to the descriptor
        that had the number before.
        """
        return entry is None or entry[2] == self._round or self.serve(entry[1], entry[0])

    def reap(self) -> bool:
        """Wait for children that have ended, orphans of jobs included; return whether there were any."""
        has_reaped = self.collect_ended() > 0
        while self._ended:
            call, owner, status, seconds = self._ended.pop(0)
            self._report_end(owner, call, status, seconds)
        return has_reaped

    def collect_ended(self) -> int:
        """Wait for children that have ended, so that none counts against the limit on processes; count them.

        Their callbacks run later, in `reap`. Call it before a start, because a program must find as much
        room for processes after a program that has left many as after any other.
        """
        for count in range(MOST_ENDS):
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return count
            if pid == 0:
                return count
            seconds = usage.ru_utime + usage.ru_stime
            if pid not in self._children:
                self._collected = pid
                for read_reports in self._before_orphans:
                    read_reports()
                self._collected = 0
            call, owner = self._children.pop(pid, (None, None))
            if call is None:
                self.orphan_seconds += seconds
            else:
                self._ended.append((call, owner, status, seconds))
        return MOST_ENDS

    def _report_end(
        self, owner: int | None, call: Callable[[int, float], None], status: int, seconds: float
    ) -> None:
        self.serve(owner, lambda: call(status, seconds))

    def _drain_wake(self) -> None:
        try:
            while os.read(self._wake_read, 512):
                pass
        except BlockingIOError:
            pass
