"""Protect PID 1 from an agent that is root, by users that no other process can become.

The kernel lets a process control the processors, scheduling, priority and limits of another process if they
have a user in common. An agent that is root can become any user. PID 1 therefore changes to reserved users,
and a filter of system calls refuses these to every process that PID 1 starts. PID 1 keeps the capabilities
with which it ends processes and starts children. Only its children act as root.
"""

from __future__ import annotations

import errno
import os
import struct

from .confinement import (
    ALLOW,
    AT_LEAST,
    EQUAL,
    FILTER,
    INSTRUCTION,
    LOAD,
    REFUSE,
    RETURN,
    SET_SECCOMP,
    library_function,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable

# The three differ from each other, because a process that has all users of another one may look into it.
REAL, EFFECTIVE, SAVED = 65533, 65532, 65531
RESERVED = range(SAVED, REAL + 1)
KEEP_CAPABILITIES = 8
CAPABILITIES_VERSION = 0x20080522
CHOWN, KILL, SET_GID, SET_UID = 1 << 0, 1 << 5, 1 << 6, 1 << 7
# The low halves of the first three arguments, which are all that the kernel reads of a user id.
ARGUMENTS = (16, 24, 32)


# The numbers of the system calls that change users, in groups: those that take one user, two, and three.
CALLS = {
    "x86_64": ((105, 122), (113,), (117,)),
    "aarch64": ((146, 151), (145,), (147,)),
}


class _Apart:
    """The preparations of `leave_root` for the children. They are empty as long as PID 1 is root."""

    control: Callable[..., int] | None = None
    program: array[int] | None = None
    processors: frozenset[int] = frozenset()


def leave_root() -> None:
    """Change PID 1 to the reserved users. Raises OSError if the kernel refuses."""
    # Imported here, because most containers never call this.
    import array

    _Apart.control = library_function("prctl")
    _Apart.program = array.array("B", b"".join(_instructions(CALLS[os.uname().machine])))
    _Apart.processors = frozenset(os.sched_getaffinity(0))
    permitted = _permitted_capabilities()
    _succeed(_Apart.control(KEEP_CAPABILITIES, 1, 0, 0, 0), "keep its capabilities")
    os.setresuid(REAL, EFFECTIVE, SAVED)
    effective = permitted & (CHOWN | KILL | SET_GID | SET_UID)
    head = struct.pack("=Ii", CAPABILITIES_VERSION, 0)
    data = struct.pack("=6I", effective, permitted, 0, 0, 0, 0)
    _succeed(library_function("capset")(head, data), "use its capabilities")


def act_as_root() -> None:
    """Make root, with all its capabilities in this container, the effective user of this child of PID 1."""
    if os.geteuid() != 0:
        os.seteuid(0)


def shut_out() -> None:
    """Refuse PID 1's users to this child and to its later processes, and reset its scheduling.

    It does nothing in a container where PID 1 is root, because no agent is root there. Raises OSError.
    """
    if _Apart.control is None or _Apart.program is None:
        return
    os.sched_setaffinity(0, _Apart.processors)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    address, size = _Apart.program.buffer_info()
    settings = struct.pack("=HxxxxxxQ", size // INSTRUCTION.size, address)
    _succeed(_Apart.control(SET_SECCOMP, FILTER, settings), "keep a child from PID 1's users")


def _permitted_capabilities() -> int:
    with open("/proc/self/status", "rb") as file:
        return int(file.read().partition(b"\nCapPrm:\t")[2].partition(b"\n")[0], 16)


def _succeed(result: int, action: str) -> None:
    if result != 0:
        raise OSError(errno.EPERM, f"the kernel does not let PID 1 {action}")


def _instructions(calls: tuple[tuple[int, ...], ...]) -> list[bytes]:
    """Return a program for the kernel's filter machine, whose jumps count the instructions to skip.

    The system call determines how many arguments are checked, from the last one to the first.
    """
    pack = INSTRUCTION.pack
    checks = [check for offset in reversed(ARGUMENTS) for check in _check(offset)]
    size = len(checks) // len(ARGUMENTS)
    starts = {number: place * size for place, group in enumerate(reversed(calls)) for number in group}
    selection = [pack(LOAD, 0, 0, 0)]
    for place, (number, start) in enumerate(starts.items()):
        # Skips the rest of the selection and the instruction that allows all other calls.
        selection.append(pack(EQUAL, len(starts) - place + start, 0, number))
    selection.append(pack(RETURN, 0, 0, ALLOW))
    return [*selection, *checks, pack(RETURN, 0, 0, ALLOW)]


def _check(offset: int) -> list[bytes]:
    """Return instructions that refuse the call if this argument is a reserved user."""
    pack = INSTRUCTION.pack
    return [
        pack(LOAD, 0, 0, offset),
        pack(AT_LEAST, 0, 2, RESERVED.start),
        pack(AT_LEAST, 1, 0, RESERVED.stop),
        pack(RETURN, 0, 0, REFUSE | errno.EINVAL),
    ]
