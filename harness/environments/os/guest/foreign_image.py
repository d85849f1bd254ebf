"""The parts of a machine that its image decides: the shell, the users, and the main process.

The guest knows to talk to bash, and to the plain sh of images without bash. It looks up users in the lists of
the image, as container engines do, because the image may lack the tools for that. The entry point of a
foreign image often starts services and then replaces itself by its arguments. No event shows that they serve,
so the wait lasts until the arguments run and no process of the machine has work to do.
"""

from __future__ import annotations

import os
import time

from harness.sandbox.guest import processes
from harness.sandbox.guest.jobs import execute
from harness.sandbox.guest.users import User

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.sandbox.guest.loop import Loop
    from harness.sandbox.guest.users import User

    from .messages import StartMain

# The history must not show the guest's own commands, neither now nor in a file later.
HISTORY = b"\\builtin set +o history; \\builtin history -c\n"


class Dialect:
    """A shell's program, its word before commands of the guest, and its own descriptors.

    No function or alias that the agent defines replaces a command behind the word. The descriptors are the
    output of commands, their empty input, and the marks. Scripts use other numbers.
    """

    def __init__(
        self,
        path: str,
        word: bytes,
        first_descriptor: int,
        *,
        first: tuple[str, ...] = (),
        later: tuple[str, ...] = (),
        greeting: bytes = b"",
        forgets_input: bool = False,
    ) -> None:
        self.path = path
        self.word = word
        self.out, self.input, self.mark = range(first_descriptor, first_descriptor + 3)
        # The first lines that the shell reads.
        self.greeting = greeting
        # Whether an interrupt makes it forget the lines that it has read ahead.
        self.forgets_input = forgets_input
        self._first = first
        self._later = later

    def make_argv(self, *, first: bool) -> list[str]:
        """Return the command of the first shell, or of a later one.

        A later one reads no start-up files, because the agent may have changed them.
        """
        return [self.path, *(self._first if first else self._later), "-i"]


def speak_bash(path: str, *, login: bool) -> Dialect:
    """Return the dialect of a bash. A login reads more start-up files, which may set another PATH."""
    return Dialect(
        path,
        b"\\builtin",
        187,
        first=("--noediting", *(("--login",) if login else ())),
        later=("--noediting", "--noprofile", "--norc"),
        greeting=HISTORY,
    )


LOGIN = speak_bash("/bin/bash", login=True)


def find_dialect(shells: list[str]) -> Dialect | None:
    """Return the dialect of the first of these shells that the image has, None if it has none."""
    path = next((each for each in shells if os.path.exists(each)), None)
    if path is None or path.endswith("bash"):
        return None if path is None else speak_bash(path, login=False)
    # A plain sh knows descriptors of one digit alone.
    return Dialect(path, b"\\command", 7, forgets_input=True)


USERS, GROUPS = "/etc/passwd", "/etc/group"
MAX_LIST_BYTES = 1 << 20
MOST_GROUPS = 1000
ROOT_HOME, NO_HOME = "/root", "/"


class ImageUser:
    """A user of the machine, with its home and its name, which is empty if the list has no such number."""

    def __init__(self, user: User, name: str) -> None:
        self.user = user
        self.name = name

    def describe(self) -> dict[str, str]:
        """Return the variables that name the user."""
        named = {"USER": self.name, "LOGNAME": self.name} if self.name else {}
        return {"HOME": self.user.folder, **named}


def find_user(text: str) -> ImageUser:
    """Return the user for `user` or `user:group`, each a name or a number; empty text means root.

    Raises ValueError for a name that the machine does not have.
    """
    user, _, group = text.partition(":")
    user = user or "0"
    name, uid, gid, home = _find_entry(user)
    groups = [gid]
    if group:
        groups = [_find_group(group)]
    elif name:
        of_user = (_to_id(parts[2]) for parts in _read_list(GROUPS, 4) if name in parts[3].split(","))
        groups += [each for each in of_user if each is not None and each != gid]
    return ImageUser(User(uid, home, tuple(groups[:MOST_GROUPS])), name)


def _find_entry(user: str) -> tuple[str, int, int, str]:
    for parts in _read_list(USERS, 7):
        uid, gid = _to_id(parts[2]), _to_id(parts[3])
        if uid is not None and gid is not None and (parts[0] == user or str(uid) == user):
            return parts[0], uid, gid, parts[5] or NO_HOME
    # An image without a list of users has root nevertheless.
    number = 0 if user == "root" else _to_id(user)
    if number is None:
        raise ValueError(f"the image has no user '{user}'")
    return "", number, 0, ROOT_HOME if number == 0 else NO_HOME


def _find_group(group: str) -> int:
    for parts in _read_list(GROUPS, 4):
        gid = _to_id(parts[2])
        if gid is not None and (parts[0] == group or str(gid) == group):
            return gid
    number = _to_id(group)
    if number is None:
        raise ValueError(f"the image has no group '{group}'")
    return number


def _read_list(path: str, fields: int) -> list[list[str]]:
    """Return the lines of a list of users or groups, split into their fields. Other lines are left out."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        text = os.read(descriptor, MAX_LIST_BYTES).decode("utf-8", "surrogateescape")
    except OSError:
        return []
    finally:
        os.close(descriptor)
    lines = (line.split(":") for line in text.splitlines())
    return [parts for parts in lines if len(parts) >= fields]


def _to_id(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 11 else None


LOOK_SECONDS = 0.2
# An entry point that does not run its arguments has this long without work.
QUIET_SECONDS = 2.0
# An entry point that works for ever keeps nobody waiting for longer.
MOST_SECONDS = 10.0
IDLE_STATES = (b"S", b"Z", b"T")


class MainProcess:
    """The main process, whose start is answered once it has prepared the machine."""

    def __init__(
        self,
        loop: Loop,
        asked: StartMain,
        user: User,
        environment: dict[str, str],
        answer: Callable[[dict[str, bool]], None],
    ) -> None:
        self._loop = loop
        self._answer = answer
        self._command = b"".join(os.fsencode(part) + b"\0" for part in asked["waits_for"])
        self._began = self._busy = time.monotonic()
        self._seen: list[tuple[str, bytes, bytes]] = []
        self._has_ended = False
        pid = os.fork()
        if pid == 0:
            _run(asked, user, environment)
        loop.on_exit(pid, self._note_end)
        loop.after(LOOK_SECONDS, self._look)

    def _note_end(self, _status: int, _cpu_seconds: float) -> None:
        self._has_ended = True

    def _look(self) -> None:
        seen, before, now = _list_work(), self._seen, time.monotonic()
        self._seen = seen
        if seen != before or any(state not in IDLE_STATES for _pid, state, _ticks in seen):
            self._busy = now
        is_quiet = self._busy < now
        is_settled = is_quiet and (self._runs_command(seen) or now - self._busy > QUIET_SECONDS)
        if self._has_ended or is_settled or now - self._began > MOST_SECONDS:
            self._answer({"settled": is_settled})
        else:
            self._loop.after(LOOK_SECONDS, self._look)

    def _runs_command(self, seen: list[tuple[str, bytes, bytes]]) -> bool:
        """Return whether a process runs the arguments of the entry point."""
        return any(_read(pid, "cmdline") == self._command for pid, _state, _ticks in seen)


def _list_work() -> list[tuple[str, bytes, bytes]]:
    """Return the id, the state and the processor time of each process but PID 1."""
    found = []
    for pid in os.listdir("/proc"):
        if pid.isdigit() and pid != "1":
            # Split after the last bracket, because a process may choose any name, brackets included.
            facts = _read(pid, "stat").rpartition(b")")[2].split()
            if len(facts) > 12:
                found.append((pid, facts[0], facts[11] + b" " + facts[12]))
    return found


def _read(pid: str, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read(4096)
    except OSError:
        return b""


def _run(asked: StartMain, user: User, environment: dict[str, str]) -> None:
    """Turn this child into the main process. Nothing reads its output."""
    try:
        null = os.open("/dev/null", os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        processes.become(user.uid, "/", asked["limits"], [], user.groups)
        os.chdir(asked["folder"])
        execute([*asked["argv"], *asked["waits_for"]], environment)
    finally:
        os._exit(127)
