"""Runs one program on this machine and ends all of its processes. A script of the standard library alone.

Every process that the program starts stays below this one, because the kernel gives it the orphans. It ends
them when the program has ended, when the harness asks for it, and when the harness is gone.

The arguments are the descriptors of two pipes, a folder or "", and the command. The harness writes a byte
into the first pipe to end the program. The end of that pipe means that the harness is gone, and then the
folder is also removed. The facts about the program go into the second pipe, or the reason why it was not
started.

The harness imports the functions that find and end processes, because a supervisor may be killed itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36
IS_LINUX = sys.platform == "linux"
# The exit codes of a program that cannot be started, and of a supervisor that has not started its program.
CANNOT_START, CANNOT_SUPERVISE = 127, 125
# How long the processes may take to end after the first signal.
END_SECONDS = 5.0
PAUSE_SECONDS = 0.002
# Linux has ignored this limit since 2.4, but children inherit it, and only a privileged process can raise it.
RLIMIT_LOCKS = 10
_UNLIMITED = 2**63 - 1
# The signals to the newest processes between two looks at all of them.
_STRIKES = 100


class Process(NamedTuple):
    """A process, its parent and its process group. `has_ended` is true for a zombie."""

    pid: int
    parent: int
    group: int
    has_ended: bool


def main() -> int:
    """Run the command, and write its exit code and its resources into the second pipe."""
    control, result = int(sys.argv[1]), int(sys.argv[2])
    folder, command = sys.argv[3], sys.argv[4:]
    for descriptor in (control, result):
        os.set_inheritable(descriptor, False)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        # The two that the C library keeps for its threads cannot be ignored.
        with contextlib.suppress(OSError):
            signal.signal(number, signal.SIG_IGN)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    started = time.monotonic()
    try:
        if not set_option(PR_SET_CHILD_SUBREAPER, 1):
            raise OSError("the kernel does not give orphans to this process")
        # Unprivileged processes of the same user can then neither trace this one nor open its pipes.
        set_option(PR_SET_DUMPABLE, 0)
        # The program may have stopped this process when the harness ends.
        set_option(PR_SET_PDEATHSIG, signal.SIGCONT)
        supervisor = os.getpid()
        leader = os.fork()
    except OSError as error:
        os.write(result, f"{command[0]}: cannot be supervised: {error}".encode())
        return CANNOT_SUPERVISE
    if leader == 0:
        _become(command, supervisor)
    _leave_streams()
    code = _wait(leader, control, woken)
    seconds = time.monotonic() - started
    left = end_processes(list_descendants, list_children, _reap)
    if not IS_LINUX:
        with contextlib.suppress(OSError):
            os.killpg(leader, signal.SIGKILL)
    used = os.times()
    cpu = used.children_user + used.children_system
    facts = {"exit_code": code, "seconds": seconds, "cpu_seconds": cpu, "left": left}
    # The harness may be gone.
    with contextlib.suppress(OSError):
        os.write(result, json.dumps(facts).encode())
    if folder and _is_at_end(control):
        remove_folder(folder)
    return 0


def set_option(option: int, value: int) -> bool:
    """Set an option of this process that only Linux has. Return False if the kernel refuses it."""
    return not IS_LINUX or ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) == 0


def _become(command: list[str], supervisor: int) -> None:
    """Turn this child into the program."""
    try:
        os.setsid()
        _set_mark()
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            with contextlib.suppress(OSError):
                signal.signal(number, signal.SIG_DFL)
        # The program ends even if somebody kills the supervisor.
        set_option(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == supervisor:
            os.execvp(command[0], command)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        os.write(2, f"{command[0]}: cannot be started: {reason}\n".encode())
    finally:
        os._exit(CANNOT_START)


def _leave_streams() -> None:
    """Close the program's streams here, so that the harness sees their end when the program closes them."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)


def _wait(leader: int, control: int, woken: int) -> int | None:
    """Return the exit code of the first process, None if the harness asked for its end or is gone."""
    while True:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == leader:
                return os.waitstatus_to_exitcode(status)
            if pid == 0:
                break
        ready, _, _ = select.select([control, woken], [], [])
        if control in ready:
            return None
        os.read(woken, 1 << 10)


def _is_at_end(control: int) -> bool:
    """Return whether the harness is gone."""
    while select.select([control], [], [], 0)[0]:
        if not os.read(control, 1 << 10):
            return True
    return False


def _reap(_found: list[Process]) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


# --- the mark of a program's processes


def _set_mark() -> None:
    """Lower a limit without effect, to tell the processes of a program from others."""
    if IS_LINUX:
        mark = _read_own_mark() - 1
        resource.setrlimit(RLIMIT_LOCKS, (mark, mark))


def is_marked(pid: int) -> bool:
    """Return whether a process descends from a program that a child of this process has started."""
    try:
        with open(f"/proc/{pid}/limits", "rb") as file:
            hard = next(line.split()[4] for line in file if line.startswith(b"Max file locks"))
    except (OSError, StopIteration):
        return False
    return hard != b"unlimited" and int(hard) < _read_own_mark()


def _read_own_mark() -> int:
    hard = resource.getrlimit(RLIMIT_LOCKS)[1]
    return _UNLIMITED if hard == resource.RLIM_INFINITY else hard


# --- the end of processes


def end_processes(
    find: Callable[[], list[Process]],
    find_newest: Callable[[], list[int]],
    reap: Callable[[list[Process]], None],
) -> list[int]:
    """End processes until none is left, for at most END_SECONDS. Return the ids of those that are left.

    Each round stops all processes before it kills one, so that none can replace another. A process that
    forks and exits again and again has another id in each look. Its group is the same, also in its children
    that have ended, and the kernel lets no fork escape a signal to a group. If it changes its group as well,
    a signal to the newest processes hits it sooner or later.

    Args:
        find: lists the processes, with those that have ended and have not been reaped.
        find_newest: lists the children of this process that may be signalled, the newest last, fast.
        reap: takes the exit codes of those that have ended.
    """
    deadline = time.monotonic() + END_SECONDS
    while found := find():
        if time.monotonic() > deadline:
            return [process.pid for process in found if not process.has_ended]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            _signal(found, number)
            found = find()
        for _ in range(_STRIKES):
            newest = find_newest()
            if not newest:
                break
            for pid in reversed(newest[-4:]):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        reap(found)
        time.sleep(PAUSE_SECONDS)
    return []


def _signal(processes: list[Process], number: int) -> None:
    # A program starts in a session of its own, so that its groups have no other members.
    for group in {process.group for process in processes} - {0, 1, os.getpgrp()}:
        # They may have ended, or run as another user.
        with contextlib.suppress(OSError):
            os.killpg(group, number)
    for process in processes:
        if not process.has_ended:
            with contextlib.suppress(OSError):
                os.kill(process.pid, number)


def list_children() -> list[int]:
    """Return the ids of the children of this process, the newest last. [] if the kernel lists none."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def list_descendants(is_wanted: Callable[[int], bool] | None = None) -> list[Process]:
    """Return the processes below this one, or only below the children that `is_wanted` accepts."""
    children: dict[int, list[Process]] = {}
    for name in os.listdir("/proc") if IS_LINUX else ():
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # Split after the last bracket, because a process may choose any name.
                state, parent, group = file.read().rpartition(b")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        process = Process(int(name), int(parent), int(group), state in (b"Z", b"X"))
        children.setdefault(process.parent, []).append(process)
    waiting = [each for each in children.get(os.getpid(), []) if is_wanted is None or is_wanted(each.pid)]
    found: list[Process] = []
    while waiting:
        process = waiting.pop()
        found.append(process)
        waiting += children.get(process.pid, [])
    return found


def remove_folder(path: str) -> None:
    """Remove a folder, even if a program has taken away its own rights. Entries that cannot go stay."""
    import shutil

    shutil.rmtree(path, ignore_errors=True)
    if not os.path.lexists(path):
        return
    with contextlib.suppress(OSError):
        os.chmod(path, 0o700)
    for parent, folders, _ in os.walk(path):
        for folder in (os.path.join(parent, name) for name in folders):
            if not os.path.islink(folder):
                with contextlib.suppress(OSError):
                    os.chmod(folder, 0o700)
    shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
