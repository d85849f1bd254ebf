"""Look up every name of /proc and /sys first, so that no program finds out which ones another has looked up.

The kernel makes an entry of /proc, /sys or a control group at its first look-up. That look-up takes longer
than later ones, and its moment becomes the times of the entry. Programs need no right for a look-up. The
backend masks the folders that no program needs, and PID 1 looks up all other names before the first program.
A missing name leaves nothing in /proc. The entries of a process end with it.

A program can undo this in two ways, and both are marks. The kernel drops entries when the container is out of
memory. Every user may set the times of links, and of some files of a process, to the present moment. The
kernel reports that to PID 1. The use of a link would also change its access time, which PID 1 prevents.
"""

from __future__ import annotations

import fcntl
import os
import time
from os import O_CLOEXEC, O_DIRECTORY, O_RDONLY

from .cgroup import has_filled_memory
from .confinement import CONSTANTS
from .signals import SIGIO, set_handler
from .timestamps import ALWAYS_NS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

PROCESSES, SYSTEM, CGROUPS = "/proc", "/sys", "/sys/fs/cgroup"
# Empty in containers for programs under tests, because the backend masks it there.
MASKED = "/proc/sys"
# The folders of a process whose names nobody can look up, or whose entries the kernel does not keep.
WITHOUT_NAMES = frozenset(("fd", "fdinfo", "map_files", "net"))
# Several times as many as there are.
MOST_NAMES = 4096
BY_OTHERS = 0o001
# A use changes the access time, unless that is after the change time, which is the moment of the last change.
AFTER_NS = 1_000_000


class KnownNames:
    """The names in a container for programs under tests. In any other container, it does nothing."""

    def __init__(self, processes: Iterable[int]) -> None:
        self._may_differ = False
        self._left = MOST_NAMES
        self._folders: list[int] = []
        self._links: list[tuple[str, int | None]] = [(path, None) for path in CONSTANTS]
        if os.listdir(MASKED):
            return
        _close_control_groups()
        # Nobody can set times there, because it is mounted read-only.
        self._look_up(SYSTEM)
        for folder in self._folders:
            os.close(folder)
        self._folders.clear()
        self._look_up(PROCESSES)
        for process in processes:
            self._look_up_in_process(f"{PROCESSES}/{process}")
        try:
            self._watch_times()
        except OSError:
            self._may_differ = True

    def may_differ(self) -> bool:
        """Return whether a program may have left a message in the names."""
        return self._may_differ or has_filled_memory()

    def _look_up(self, path: str) -> None:
        """Look up the names in a folder and in those below it, except for processes and masked folders."""
        folder = self._open(path)
        device = os.fstat(folder).st_dev
        for entry in os.scandir(folder):
            if path == PROCESSES and entry.name.isdigit():
                continue
            self._left -= 1
            if self._left < 0:
                self._may_differ = True
                return
            facts = entry.stat(follow_symlinks=False)
            below = f"{path}/{entry.name}"
            if entry.is_symlink():
                self._links.append((entry.name, folder))
            elif not entry.is_dir() or not facts.st_mode & BY_OTHERS:
                continue
            elif facts.st_dev == device or below.startswith(CGROUPS):
                self._look_up(below)

    def _look_up_in_process(self, path: str) -> None:
        """Look up the names in a folder of a process and in those below it.

        The kernel makes these entries itself when it lists the folder.
        """
        folder = self._open(path)
        for entry in os.scandir(folder):
            if entry.is_symlink():
                self._links.append((entry.name, folder))
            elif entry.is_dir() and entry.name not in WITHOUT_NAMES:
                self._look_up_in_process(f"{path}/{entry.name}")

    def _open(self, path: str) -> int:
        folder = os.open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        self._folders.append(folder)
        return folder

    def _watch_times(self) -> None:
        """Keep uses of links from changing their times, and have the kernel report every other change."""
        for name, folder in self._links:
            times = time.time_ns() + AFTER_NS, ALWAYS_NS
            os.utime(name, ns=times, dir_fd=folder, follow_symlinks=False)
        set_handler(SIGIO, self._note_change)
        for folder in self._folders:
            fcntl.fcntl(folder, fcntl.F_NOTIFY, fcntl.DN_ATTRIB)

    def _note_change(self, _signal: int, _frame: object) -> None:
        self._may_differ = True


def _close_control_groups() -> None:
    """Close the folder of the control groups to all others. With version 2 it is mounted read-only."""
    try:
        os.chmod(CGROUPS, 0o700)
    except OSError:
        pass
