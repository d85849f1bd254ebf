"""The pause of a machine, whose files do not change meanwhile.

A process may have set a timer that lets it go on. So nothing of a verdict depends on a pause: it only keeps
files from changing while they are read, and processes from working in the time of no agent.
"""

from __future__ import annotations

import os
import time

from harness.sandbox.guest import processes
from harness.sandbox.guest.signals import SIGCONT, SIGSTOP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

STOPPED_STATES = ("T", "t")
# The kernel holds up such a process, for instance in a vfork. It finds the signal before its next step.
HELD_STATE = "D"
STOP_SECONDS = 5.0


def list_stopped() -> tuple[list[int], list[int]]:
    """Return the ids of the processes but PID 1 that are stopped, and of those that run or may run soon."""
    stopped, running = [], []
    for pid, _started in processes.list_processes():
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                # Split after the last bracket, because a process may choose any name, brackets included.
                state = file.read(4096).rpartition(b")")[2].split()[0].decode()
        except processes.ENDED_MEANWHILE:
            continue
        if state in STOPPED_STATES:
            stopped.append(pid)
        elif state != HELD_STATE:
            running.append(pid)
    return stopped, running


def stop_everyone() -> list[int]:
    """Stop every process but PID 1, which must be the caller; return those that were stopped before.

    Raises OSError if a process does not stop.
    """
    before, running = list_stopped()
    deadline = time.monotonic() + STOP_SECONDS
    while running:
        if time.monotonic() > deadline:
            raise OSError(f"the processes {running[:20]} do not stop")
        try:
            os.kill(-1, SIGSTOP)
        except ProcessLookupError:
            pass
        time.sleep(0.0005)
        running = list_stopped()[1]
    return before


def continue_everyone(stopped_before: Iterable[int]) -> None:
    """Let all processes go on that `stop_everyone` has stopped, children before shells that watch them."""
    processes.send(sorted(set(list_stopped()[0]).difference(stopped_before), reverse=True), SIGCONT)
