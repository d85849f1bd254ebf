"""Start processes as the user of a job, and leave none of them alive."""

from __future__ import annotations

import os
import resource
import time

# Imported by name, because an attribute look-up in a child writes to the attribute's name, and the fork then
# copies that page too.
from os import O_RDONLY, O_WRONLY, chdir, close, closerange, read, setresgid, setresuid, setsid, write
from os import open as os_open
from resource import RLIMIT_CPU, setrlimit

from . import apart
from .durations import MOST_PROCESSOR_SECONDS, bound_processor_seconds
from .signals import (
    SIG_DFL,
    SIG_IGN,
    SIGCHLD,
    SIGINT,
    SIGKILL,
    SIGPIPE,
    SIGXFSZ,
    default_int_handler,
    set_handler,
    set_wakeup_fd,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

ENDED_STATES = ("Z", "X", "x")
# The errors of a look at a process that has ended since it was listed.
ENDED_MEANWHILE = (FileNotFoundError, ProcessLookupError)
MAX_DESCRIPTOR = 1 << 20
BACKSTOP_SHARE, BACKSTOP_SECONDS = 4, 4
# The kernel counts these for a user on the whole machine, and root of a container is root of the machine. A
# program may queue this many signals and timers. It gets no message queues, which can also be made as files.
SHARED_COUNTS = {"core": 0, "sigpending": 1024, "msgqueue": 0}
# No job ever runs as this user.
NOBODY = apart.REAL

PYTHON_SIGNALS: dict[int, Any] = {
    SIGPIPE: SIG_IGN,
    SIGXFSZ: SIG_IGN,
    SIGINT: default_int_handler,
}


def reset_signals() -> None:
    """Reset the signal handlers that Python installs, so that all commands inherit the defaults.

    PID 1 loses nothing, because the kernel sends it no signal without a handler.
    """
    for number in PYTHON_SIGNALS:
        set_handler(number, SIG_DFL)


def restore_python_signals() -> None:
    """Restore the signal handlers of Python, so that a program in a fork finds a new interpreter's."""
    for number, handler in PYTHON_SIGNALS.items():
        set_handler(number, handler)


def limit_children(limits: Mapping[str, Any]) -> None:
    """Set the limits that all jobs of a container share, so that children of this process inherit them.

    A spawner calls this once instead of in each child, because the pages that a child copies cost much more
    than the calls.
    """
    # The engine may allow fewer open files than the limits name.
    most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most_files == resource.RLIM_INFINITY:
        most_files = limits["open_files"]
    for kind, value in (
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        (resource.RLIMIT_NOFILE, min(limits["open_files"], most_files)),
        (resource.RLIMIT_CORE, SHARED_COUNTS["core"]),
    ):
        resource.setrlimit(kind, (value, value))
    for kind, value in (
        # A process that has lowered its priority must not raise it again, because `waiting`, in the
        # environment `python`, does not count the time that such a process waits.
        (resource.RLIMIT_NICE, 0),
        # Some engines do not set these, such as Podman without root.
        (resource.RLIMIT_SIGPENDING, SHARED_COUNTS["sigpending"]),
        (resource.RLIMIT_MSGQUEUE, SHARED_COUNTS["msgqueue"]),
    ):
        if not 0 <= resource.getrlimit(kind)[1] <= value:
            try:
                resource.setrlimit(kind, (value, value))
            except ValueError:
                pass  # gVisor has none of them
    os.umask(0o022)
    os.setgroups([])


def compute_backstop(cpu_seconds: float) -> int:
    """Return the kernel's limit on the processor time of each process of a job.

    For its limit, the kernel counts the whole ticks when it saw a process run. On a busy machine that may
    be much more than the process has used. The guest counts exactly, so the guest enforces the limit of the
    job. The kernel's limit ends only a process that the guest has failed to end.
    """
    return bound_processor_seconds(cpu_seconds * BACKSTOP_SHARE + BACKSTOP_SECONDS)


def loosen(limits: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits of a job with the kernel's limit on processor time instead of the guest's."""
    return {**limits, "cpu_seconds": compute_backstop(limits["cpu_seconds"])}


def become(
    uid: int,
    folder: str,
    limits: Mapping[str, Any],
    keep: Iterable[int],
    groups: tuple[int, ...] = (),
) -> None:
    """Turn this freshly forked child into a job, with a new session and its limits, folder and user.

    `keep` are the descriptors above 2 that stay open. The first of `groups` is the main group, which by
    default has the number of the user. Call it only in a child.
    """
    apart.act_as_root()
    limit_children(limits)
    if groups:
        os.setgroups(groups)
    become_limited(uid, folder, limits["cpu_seconds"], keep, groups[0] if groups else uid)
    apart.shut_out()


def become_limited(
    uid: int, folder: str, cpu_seconds: int, keep: Iterable[int], gid: int | None = None
) -> None:
    """Do the rest of `become` in a child of a process that has called `limit_children`."""
    _confine(cpu_seconds, keep)
    gid = uid if gid is None else gid
    setresgid(gid, gid, gid)
    setresuid(uid, uid, uid)
    chdir(folder)


def act_for(
    uid: int,
    folder: str,
    limits: Mapping[str, Any],
    keep: Iterable[int],
    groups: tuple[int, ...] = (),
) -> None:
    """Make this freshly forked child read and write as `uid`, without giving that user power over it.

    Its real user stays PID 1's. Processes of `uid` therefore cannot trace it, and only those of root
    can stop or kill it. Call it only for our own code that executes no other program.
    """
    apart.act_as_root()
    limit_children(limits)
    if groups:
        os.setgroups(groups)
    _confine(limits["cpu_seconds"], keep)
    os.setegid(groups[0] if groups else uid)
    os.seteuid(uid)
    chdir(folder)


def _confine(cpu_seconds: int, keep: Iterable[int]) -> None:
    set_wakeup_fd(-1)
    set_handler(SIGCHLD, SIG_DFL)
    setsid()
    # First of all, because the descriptors of PID 1 count against a small limit on open files.
    close_others(keep)
    adjust = os_open("/proc/self/oom_score_adj", O_WRONLY)
    write(adjust, b"1000")
    close(adjust)
    # The soft limit on CPU time sends SIGXCPU. The hard limit kills a process that ignores it.
    seconds = min(cpu_seconds, MOST_PROCESSOR_SECONDS)
    setrlimit(RLIMIT_CPU, (seconds, seconds + 1))


def close_others(keep: Iterable[int]) -> None:
    """Close every descriptor above 2 that is not in `keep`."""
    first = 3
    for descriptor in sorted(keep):
        closerange(first, descriptor)
        first = descriptor + 1
    closerange(first, MAX_DESCRIPTOR)


# The processes of our own code. Listings of jobs' processes leave them out.
our_pids = {1}


def list_processes_of(uids: frozenset[int]) -> list[int]:
    """Return the ids of all living processes of these users. Raises OSError if they cannot be listed.

    A process whose first thread has ended looks like a zombie while its other threads live on. The user comes
    from the status file, because the owner of /proc/PID is root for a process that may not be dumped.
    """
    if not any(map(_may_have_process, uids)):
        return []
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in our_pids:
            continue
        try:
            file = os_open(f"/proc/{name}/status", O_RDONLY)
            try:
                text = read(file, 4096)
            finally:
                close(file)
        except ENDED_MEANWHILE:
            continue
        state = text.partition(b"\nState:\t")[2][:1].decode()
        threads = text.partition(b"\nThreads:\t")[2].partition(b"\n")[0]
        if state in ENDED_STATES and threads in (b"0", b"1"):
            continue
        real_user = text.partition(b"\nUid:\t")[2].partition(b"\t")[0]
        if int(real_user) in uids:
            found.append(int(name))
    return found


def _may_have_process(uid: int) -> bool:
    """Return whether a process of this container may have this real user, without a look at each of them.

    The kernel adds a new process behind all others in the list that this call walks, so the call misses no
    process of a chain. A process that has ended counts until its parent has waited for it. For user 0 the
    call means the caller's user, who has a process.
    """
    try:
        os.getpriority(os.PRIO_USER, uid)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # The list of processes decides.
    return True


def get_session(pid: int) -> int | None:
    """Return the session of a process, or None if it has ended."""
    try:
        return os.getsid(pid)
    except OSError:
        return None


def send(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def end_processes(uids: frozenset[int], *, seconds: float = 5.0) -> bool:
    """Kill every process of these users and return whether none is left.

    A listing of processes is not a snapshot. It may miss a chain of processes that each fork the next one
    and end. So the kernel kills all processes of a user in one step, which no fork can escape. This function
    forks nothing, so it works in a full cgroup.
    """
    deadline = time.monotonic() + seconds
    while True:
        for uid in uids:
            kill_all_of(uid)
        try:
            if not list_processes_of(uids):
                return True
        except OSError:
            pass  # no descriptor was free; the end of the processes frees some
        if time.monotonic() > deadline:
            return False
        time.sleep(0.0005)


def list_processes() -> list[tuple[int, int]]:
    """Return id and start (in clock ticks since the boot) of every living process but PID 1.

    Raises OSError if they cannot be listed, for instance because no descriptor is free. A process that cannot
    be examined must not count as ended.
    """
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or name == "1":
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # Split after the last bracket, because a process may choose any name, brackets included.
                facts = file.read(4096).rpartition(b")")[2].split()
        except ENDED_MEANWHILE:
            continue
        if len(facts) < 20:
            continue
        if facts[0].decode() in ENDED_STATES and int(facts[17]) <= 1:
            continue
        found.append((int(name), int(facts[19])))
    return found


def list_processes_since(ticks: int) -> list[int]:
    """Return the ids of the living processes that were started at `ticks` or later."""
    return [pid for pid, started in list_processes() if started >= ticks]


def end_everyone(*, seconds: float = 5.0) -> bool:
    """Kill every process but PID 1, which must be the caller; return whether none is left."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            os.kill(-1, SIGKILL)
        except ProcessLookupError:
            pass
        try:
            if not list_processes():
                return True
        except OSError:
            pass  # no descriptor was free; the end of the processes frees some
        if time.monotonic() > deadline:
            return False
        time.sleep(0.0005)


def kill_all_of(uid: int) -> None:
    """Kill every process that `uid` may kill.

    The real user must not be root meanwhile, because the kernel also checks the rights of the real user.
    """
    os.setresuid(NOBODY, uid, 0)
    try:
        os.kill(-1, SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # the user has no process
    finally:
        os.setresuid(0, 0, 0)
