"""Keep the tests of a task and the code of an agent apart by the users and the rights of the kernel.

The tests stay root, but without the rights to pass over the modes of files and to change them. The files of
the agent belong to a user without processes, and only the agent's group may read and execute them. So no
process of the tests can load, execute or source one, whatever program it is. The agent's code has a user of
its own, in that group. It can write to its home alone, and sees neither the tests nor their logs.

This file runs in the machine of the tests: as a program of the guest's interpreter, before anything else, and
as a module of pytest's.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import stat
import sys
import time
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn

# No image is expected to have these numbers.
FILES_UID, AGENT_UID, AGENT_GID = 61997, 61998, 61998
FOLDER = "/opt/grading/proxied"
# The home of the agent's code, and the folder of the reports that the tests' process makes for the host.
HOME, REPORTS = f"{FOLDER}/home", f"{FOLDER}/reports"
# Only root may enter these.
CLOSED = ("/tests", "/logs/verifier", REPORTS)
GUEST_FOLDER = "/opt/harness"
# The host gives back the values of others in this variable: lines `NAME=value`, or `NAME` for none.
RESTORED = "HARNESS_RESTORED"
# The names that objects of the agent may have, separated by spaces. Without the variable, every name.
OBJECT_NAMES = "HARNESS_OBJECT_NAMES"
# A killed process needs a processor to die.
DYING_SECONDS = 60.0
SKIPPED = frozenset(("/proc", "/sys"))
# The rights of root that the tests keep: KILL, SETGID, SETUID and NET_BIND_SERVICE. SETPCAP goes last.
KEPT, SETPCAP = (5, 6, 7, 10), 8
READ_RIGHT, DROP_RIGHT = 23, 24


def prepare(argv: list[str]) -> NoReturn:
    """Shut every place of the machine that the agent's code could write to, and become the tests."""
    if os.getuid() != 0:
        raise SystemExit("the level 'proxied' needs tests that run as root")
    for path, owner, mode in ((HOME, AGENT_UID, 0o700), (REPORTS, 0, 0o700)):
        os.mkdir(path)
        os.chown(path, owner, owner)
        os.chmod(path, mode)
    for path in CLOSED:
        if os.path.isdir(path):
            os.chown(path, 0, 0)
            os.chmod(path, 0o700)
    shut_open_places("/")
    sys.path.insert(0, GUEST_FOLDER)
    from harness.sandbox.guest.confinement import library_function

    control = library_function("prctl")
    known = itertools.takewhile(lambda right: control(READ_RIGHT, right, 0, 0, 0) >= 0, itertools.count())
    dropped = [*(right for right in known if right not in (*KEPT, SETPCAP)), SETPCAP]
    if any(control(DROP_RIGHT, right, 0, 0, 0) != 0 for right in dropped):
        raise SystemExit("the tests' rights cannot be given up")
    os.execv(argv[0], argv)


def shut_open_places(top: str) -> None:
    """Take the rights over whatever everybody may write to from the agent's group, below a folder.

    A group's rights come before everybody's. Devices stay as they are.
    """
    folders = [top]
    while folders:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.path in SKIPPED or entry.is_symlink():
                continue
            facts = entry.stat(follow_symlinks=False)
            if facts.st_mode & 0o002 and (stat.S_ISDIR(facts.st_mode) or stat.S_ISREG(facts.st_mode)):
                os.chown(entry.path, -1, AGENT_GID)
                os.chmod(entry.path, stat.S_IMODE(facts.st_mode) & ~0o2070)
            if stat.S_ISDIR(facts.st_mode):
                folders.append(entry.path)


def belongs_to_agent(path: object) -> bool:
    """Return whether a path is the agent's, or leads through a link of the agent's."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        return False
    try:
        text = os.path.abspath(os.fsdecode(path))
        return any(map(_is_marked, (text, os.path.realpath(text))))
    except (OSError, ValueError):
        return False


def _is_marked(path: str) -> bool:
    """Return whether a path or a part of it has the agent's group. Folders that were shut have it too."""
    while path != "/":
        try:
            facts = os.lstat(path)
        except OSError:
            facts = None
        if facts is not None and facts.st_gid == AGENT_GID and facts.st_uid in (FILES_UID, AGENT_UID):
            return True
        path = os.path.dirname(path)
    return False


@contextlib.contextmanager
def as_agent() -> Iterator[None]:
    """See files as the agent's code does. No process of the agent can trace or signal this one meanwhile."""
    group = os.getegid()
    os.setegid(AGENT_GID)
    try:
        os.seteuid(AGENT_UID)
        try:
            yield
        finally:
            os.seteuid(0)
    finally:
        os.setegid(group)


def end_agent() -> None:
    """Kill all processes of the agent's code, by one call of the kernel, and wait until they are dead.

    The agent's code cannot signal the process that kills. Raises RuntimeError if one of them still lives.
    """
    with warnings.catch_warnings():
        # Python warns of threads, and this child calls the kernel alone.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresuid(FILES_UID, AGENT_UID, FILES_UID)
            os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    deadline = time.monotonic() + DYING_SECONDS
    while _is_agent_alive():
        if time.monotonic() > deadline:
            raise RuntimeError("a process of the agent's code did not die")
        time.sleep(0.005)


def _is_agent_alive() -> bool:
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/status", encoding="utf-8", errors="replace") as file:
                facts = dict(line.split(":", 1) for line in file if ":" in line)
        except OSError:
            continue  # It has ended.
        is_dead = facts.get("State", "Z").split()[0] in ("Z", "X")
        if not is_dead and str(AGENT_UID) in facts.get("Uid", "").split():
            return True
    return False


if __name__ == "__main__":
    prepare(sys.argv[1:])
