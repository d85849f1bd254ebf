"""Users and processes: starting as a job's user, and leaving none of them alive."""

from __future__ import annotations

import os
import resource
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable
    from typing import Any

ENDED_STATES = ("Z", "X", "x")


PYTHON_SIGNALS: dict[int, Any] = {
    signal.SIGPIPE: signal.SIG_IGN,
    signal.SIGXFSZ: signal.SIG_IGN,
    signal.SIGINT: signal.default_int_handler,
}


def default_signals() -> None:
    """Undo what Python does to signals, once for all commands to inherit.

    The kernel spares PID 1 signals that it has no handler for, so it loses nothing by this.
    """
    for number in PYTHON_SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def python_signals() -> None:
    """Do again what Python does to signals: a program that runs in a fork finds what it would in a file."""
    for number, handler in PYTHON_SIGNALS.items():
        signal.signal(number, handler)


def become(uid: int, folder: str, limits: dict[str, Any], keep: Iterable[int]) -> None:
    """Turn this freshly forked child into a job: own session, limits, folder, user and descriptors.

    `keep` are the descriptors above 2 that stay open. Only ever called in a child.
    """
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    adjust = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    os.write(adjust, b"1000")
    os.close(adjust)
    # The soft limit of CPU time kills with a signal of its own, the hard one who ignores that.
    resource.setrlimit(resource.RLIMIT_CPU, (limits["cpu_seconds"], limits["cpu_seconds"] + 1))
    for kind, value in (
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (value, value))
    close_others(keep)
    os.umask(0o022)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    os.chdir(folder)


def close_others(keep: Iterable[int]) -> None:
    """Close every descriptor above 2 that is not in `keep`."""
    kept = set(keep)
    for name in os.listdir("/proc/self/fd"):
        descriptor = int(name)
        if descriptor > 2 and descriptor not in kept:
            try:
                os.close(descriptor)
            except OSError:
                pass  # the one that listdir itself used


def processes_of(uids: frozenset[int]) -> list[int]:
    """Return the ids of all living processes of these users.

    A process whose first thread has ended looks like a zombie while its other threads live on.
    The owner of /proc/PID is root for a process that may not be dumped, so the users are read
    from its status file, which everyone may read.
    """
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/status", "rb") as file:
                text = file.read(4096)
        except OSError:
            continue  # it ended meanwhile
        state = text.partition(b"\nState:\t")[2][:1].decode()
        threads = text.partition(b"\nThreads:\t")[2].partition(b"\n")[0]
        if state in ENDED_STATES and threads in (b"0", b"1"):
            continue
        owners = text.partition(b"\nUid:\t")[2].partition(b"\n")[0].split()
        if any(int(owner) in uids for owner in owners):
            found.append(int(name))
    return found


def send(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def end_processes(uids: frozenset[int], *, spare: Container[int] = (), seconds: float = 5.0) -> bool:
    """Kill every process of these users but those to `spare`, and return whether none is left.

    All are stopped before any is killed, so that nothing can fork away between a look and a kill;
    the round repeats until a look finds none. It forks nothing, so it works in a full cgroup.
    """
    deadline = time.monotonic() + seconds
    while True:
        seen: set[int] = set()
        found = _but(spare, processes_of(uids))
        if not found:
            return True
        while found and time.monotonic() < deadline:
            send(found, signal.SIGSTOP)
            seen.update(found)
            found = [pid for pid in _but(spare, processes_of(uids)) if pid not in seen]
        send(seen, signal.SIGKILL)
        if time.monotonic() > deadline:
            return not _but(spare, processes_of(uids))
        time.sleep(0.0005)


def _but(spare: Container[int], pids: list[int]) -> list[int]:
    return [pid for pid in pids if pid not in spare]
