"""Run as root of a user namespace, so that an ordinary user can start containers.

The namespace has the user's subordinate ids, from `/etc/subuid` and `/etc/subgid`, as 0 to 65534. The user's
own id comes after these, so that root of the namespace can use the user's files. A container gets a further
namespace without that last id, so that nobody in it is the user.

The supervisor imports this file by itself, and it is a program too: it enters a namespace and becomes another
program. So it uses the standard library only.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import sys

NEW_USERS = 0x10000000
# The ids of a container, which include `nobody`. The next id is the user's own.
COUNT = 65535
SUBORDINATE_IDS = ("/etc/subuid", "/etc/subgid")
MAPPERS = ("newuidmap", "newgidmap")

_library = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: object) -> None:
    """Call a function of the C library. Raises OSError."""
    if getattr(_library, name)(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")


def is_needed() -> bool:
    """Return whether this process is not root, so that it needs such a namespace."""
    return os.geteuid() != 0


def find_first_ids() -> list[int]:
    """Return the first of the subordinate user ids of this user, and of the group ids.

    Raises LookupError if the user has too few of them in a row.
    """
    uid = os.getuid()
    try:
        names = {str(uid), pwd.getpwuid(uid).pw_name}
    except KeyError:
        names = {str(uid)}
    firsts = []
    for path in SUBORDINATE_IDS:
        try:
            with open(path) as file:
                entries = [line.strip().split(":") for line in file]
        except OSError:
            entries = []
        found = [
            int(entry[1])
            for entry in entries
            if len(entry) == 3 and entry[0] in names and entry[1].isdigit() and int(entry[2]) >= COUNT
        ]
        if not found:
            raise LookupError(f"{path} gives user {uid} no {COUNT} subordinate ids in a row")
        firsts.append(found[0])
    return firsts


def wrap(command: list[str]) -> list[str]:
    """Return a command that runs `command` as root of the namespace; as it is if this process is root."""
    if not is_needed():
        return command
    firsts = map(str, find_first_ids())
    return [sys.executable, "-I", "-S", "-B", os.path.abspath(__file__), *firsts, *command]


def enter(firsts: list[int]) -> None:
    """Make this process root of a new user namespace, without further groups. Raises OSError."""
    target = os.getpid()
    own = (os.getuid(), os.getgid())
    is_there, tell = os.pipe()
    mapper = os.fork()
    if mapper == 0:
        # Only a process outside of the namespace may map these ids.
        os.close(tell)
        code = 0
        if os.read(is_there, 1):
            for program, first, last in zip(MAPPERS, firsts, own, strict=True):
                numbers = map(str, (target, 0, first, COUNT, COUNT, last, 1))
                code = code or os.spawnvp(os.P_WAIT, program, [program, *numbers])
        os._exit(code)
    os.close(is_there)
    try:
        call("unshare", NEW_USERS)
        os.write(tell, b"x")
    finally:
        os.close(tell)
        _, status = os.waitpid(mapper, 0)
    if status != 0:
        raise OSError(f"{' or '.join(MAPPERS)} failed with exit code {os.waitstatus_to_exitcode(status)}")
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


def find_mappers(path: str) -> str | None:
    """Return the first program for the mapping of ids that is missing in `path`, None if both are there."""
    return next((name for name in MAPPERS if shutil.which(name, path=path) is None), None)


def main() -> None:
    """Enter a namespace, and become the program that the arguments name."""
    try:
        enter([int(sys.argv[1]), int(sys.argv[2])])
        os.execvp(sys.argv[3], sys.argv[3:])
    except OSError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
