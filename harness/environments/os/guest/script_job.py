"""Jobs that run trusted scripts in the agent's machine.

The kernel confines a script that runs programs of an agent. Such a program is root and a child of the script.
Without these rules, it could replace the commands that the script calls next, write to the script's memory,
and read the results that the script expects. The programs that a script starts are confined as the script is.
If the kernel has no Landlock, nothing is confined.
"""

from __future__ import annotations

import os
import signal
import struct

from harness.sandbox.guest import confinement, processes
from harness.sandbox.guest.jobs import CommandJob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from harness.sandbox.guest.loop import Loop
    from harness.sandbox.guest.output import Output
    from harness.sandbox.guest.users import User


class ScriptJob(CommandJob):
    """Runs a trusted script as root, and is patient.

    The processes that it starts live on, because a task may need its daemons.
    `confinement` is None if the script may use all rights of root.
    """

    is_patient = True

    def __init__(
        self,
        loop: Loop,
        request: dict[str, Any],
        user: User,
        confinement: ScriptConfinement | None,
        finished: Callable[[dict[str, Any], bytes], None],
        *,
        stdin: bytes = b"",
    ) -> None:
        self._confinement = confinement
        super().__init__(loop, request, stdin, user, lambda: False, finished)

    def confine(self) -> None:
        if self._confinement is not None:
            self._confinement.apply()

    def _end_processes(self) -> bool:
        if self._pid is not None:
            processes.send([self._pid], signal.SIGKILL)
            try:
                os.killpg(self._pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return True

    def _close(self, output: Output) -> None:
        output.stop_keeping()


MAKE_CHARACTER_DEVICE, MAKE_SOCKET, MAKE_BLOCK_DEVICE = 1 << 6, 1 << 9, 1 << 11
ON_FILES = confinement.EXECUTE | confinement.WRITE_FILE | confinement.READ_FILE | confinement.TRUNCATE
# These folders contain commands, libraries and their settings.
READ_ONLY = ("bin", "boot", "etc", "lib", "lib32", "lib64", "libx32", "opt", "sbin", "sys", "usr")
# These files of /proc describe the machine and no process.
OF_THE_MACHINE = (
    *("/proc/sys", "/proc/cpuinfo", "/proc/meminfo", "/proc/version", "/proc/loadavg", "/proc/stat"),
    *("/proc/uptime", "/proc/filesystems", "/proc/vmstat", "/proc/swaps", "/proc/partitions"),
)


class ScriptConfinement:
    """Finds out before any agent acts how to call the kernel and which access rights it knows."""

    def __init__(self) -> None:
        self._call: Callable[..., int] = confinement.system_call()
        version = self._call(confinement.CREATE_RULESET, 0, 0, confinement.GET_VERSION)
        self._there = version >= confinement.NEEDED_VERSION
        self._rights = confinement.known_rights(version)

    def apply(self) -> None:
        """Confine this process and its children for good. Raises OSError if the kernel refuses."""
        if not self._there:
            return
        attributes = struct.pack("=Q", self._rights)
        ruleset = self._call(confinement.CREATE_RULESET, attributes, len(attributes), 0)
        refused = ruleset < 0
        for path, rights in self._grants():
            refused = refused or not self._add(ruleset, path, rights & self._rights)
        if refused or self._call(confinement.RESTRICT_SELF, ruleset, 0) < 0:
            raise OSError("Landlock did not confine the script")
        os.close(ruleset)

    def _add(self, ruleset: int, path: str, rights: int) -> bool:
        """Add a rule unless the path does not exist. Return whether the kernel accepted it."""
        try:
            descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            if not os.path.isdir(f"/proc/self/fd/{descriptor}"):
                rights &= ON_FILES
            rule = confinement.RULE.pack(rights, descriptor)
            return self._call(confinement.ADD_RULE, ruleset, confinement.PATH_BENEATH, rule, 0) >= 0
        finally:
            os.close(descriptor)

    def _grants(self) -> Iterator[tuple[str, int]]:
        read = confinement.EXECUTE | confinement.READ
        # Later commands must not ask a service that listens on a socket for the names of users.
        makes = MAKE_CHARACTER_DEVICE | MAKE_BLOCK_DEVICE | MAKE_SOCKET
        for entry in os.scandir("/"):
            if entry.is_symlink() or entry.name in ("dev", "proc"):
                continue
            yield entry.path, read if entry.name in READ_ONLY else self._rights & ~makes
        uses = confinement.WRITE_FILE | confinement.TRUNCATE | confinement.DEVICE_CONTROL
        yield "/dev", confinement.READ | uses
        yield "/dev/shm", self._rights & ~makes
        # `find /` must work. The right covers the names in /proc and no contents of files there.
        yield "/", confinement.READ_FOLDER
        for path in OF_THE_MACHINE:
            yield path, confinement.READ
