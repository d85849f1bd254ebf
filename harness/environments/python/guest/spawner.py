"""Spawners: small processes that fork the children of one role, so that PID 1 does not have to.

PID 1 handles tests, so a candidate forked from it would have them in its memory. The spawners are forked
before the first frame is read. They only ever receive a user, a folder, limits and an environment. A child
reads everything else from descriptors that pass through its spawner. This is cheap too. After a fork, the
parent copies every page that it writes to, and PID 1 writes to many pages. For the same reason, a spawner
does little for each child.

A spawner learns nothing about its children but their process ids, because every later child can read all of
its memory. If it waited for a child, the exit status and the counters of that child would reach the next one.
Each child is therefore a sibling of the spawner, which only PID 1 can wait for. Linux makes one by clone(2)
with CLONE_PARENT, and neither Python nor the C library has a function for it. Where the kernel makes no
siblings, a short-lived fork of the spawner starts the child, and its end makes PID 1 the parent.
"""

from __future__ import annotations

import _ctypes
import errno
import gc
import marshal
import os
from _socket import MSG_DONTWAIT
from _thread import get_native_id
from marshal import dumps, loads
from os import _exit, close, fork, pipe, read, waitpid, write

from harness.sandbox.guest import links, processes
from harness.sandbox.guest.jobs import NOT_STARTED
from harness.sandbox.guest.links import receive_with_descriptors
from harness.sandbox.guest.signals import SIG_DFL, SIGCHLD, set_handler, set_wakeup_fd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from harness.sandbox.guest.links import Link
    from harness.sandbox.guest.loop import Loop

# The child, and the fork that starts it.
PROCESSES_OF_A_STARTER = 2
MAX_ORDER_BYTES = 64 * 1024


class Spawner:
    """PID 1's end of a spawner. `spawn` starts a child, and its callback runs when the child has ended."""

    def __init__(self, link: Link, attach: Callable[[], int], loop: Loop, pid: int = 0) -> None:
        # The process id of the spawner.
        self.pid = pid
        self._link = link
        self._attach = attach
        self._loop = loop
        loop.watch(link.fileno(), self._read)
        loop.before_orphans(self._read)
        # The number of processes that the children have taken.
        self.spawned = 0
        self._waiting: dict[int, Callable[[int, float], None]] = {}

    def spawn(
        self,
        child: Child,
        settings: dict[str, Any],
        descriptors: list[int],
        ended: Callable[[int, float], None],
    ) -> None:
        """Start a child. `ended(wait status, CPU seconds)` is called when it is dead.

        `settings` and `descriptors` are the ones that its role needs. Settings that differ from the
        previous child take extra time. Raises OSError if the spawner is dead.
        """
        self._loop.collect_ended()
        # Reports may be read while another request is served, or none.
        self._waiting[child.uid] = self._loop.keep_owner(ended)
        order = marshal.dumps((child.uid, child.folder, child.cpu_seconds, marshal.dumps(settings)))
        attached = self._attach()
        try:
            passed = descriptors if attached < 0 else [*descriptors, attached]
            links.send_with_descriptors(self._link, order, passed)
        finally:
            if attached >= 0:
                os.close(attached)

    def _read(self) -> None:
        """Handle every report that has arrived. Raises EOFError if the spawner is dead."""
        while True:
            try:
                data = self._link.recv(MAX_ORDER_BYTES, MSG_DONTWAIT)
            except BlockingIOError:
                return
            if not data:
                raise EOFError("the spawner is dead")
            uid, pid, processes_taken = marshal.loads(data)
            self.spawned += processes_taken
            ended = self._waiting.pop(uid, None)
            if ended is None:
                continue
            if pid and processes_taken == PROCESSES_OF_A_STARTER:
                self._loop.on_exit(pid, ended)
            elif pid:
                self._loop.on_exit_of_sibling(pid, ended)
            else:
                self._loop.after(0.0, lambda call=ended: call(NOT_STARTED, 0.0))  # type: ignore[misc]


class Child:
    """The user of a child, its folder, its limit of CPU time, and the pipe that reports its adoption."""

    def __init__(self, uid: int, folder: str, cpu_seconds: int) -> None:
        self.uid = uid
        self.folder = folder
        self.cpu_seconds = cpu_seconds
        self.adoption = -1


class Role:
    """The code that a spawner's children run.

    The spawner calls `prepare()` once, `configure(settings)` when the settings have changed, `warm_up()`
    before its second fork, and `before(child)` before each fork. Pages that these write are not copied in the
    children. Each child calls `live(child, descriptors)`, which must not return, and which calls
    `wait_for_adoption` before it runs an untrusted program. PID 1 calls `attach()` for each child, and adds
    the descriptor that it returns to the child's, unless it is -1. Such work is done in PID 1, because
    a spawner that has forked copies every page that it writes to.
    """

    def __init__(
        self,
        prepare: Callable[[], None],
        configure: Callable[[dict[str, Any]], None],
        warm_up: Callable[[], None],
        before: Callable[[Child], None],
        live: Callable[[Child, tuple[int, ...]], None],
        attach: Callable[[], int] = lambda: -1,
    ) -> None:
        self.prepare = prepare
        self.configure = configure
        self.warm_up = warm_up
        self.before = before
        self.live = live
        self.attach = attach


def start(role: Role, loop: Loop) -> Spawner:
    """Fork a spawner of this role and return PID 1's end of it, which reads its reports in this loop."""
    ours, theirs = links.message_pair()
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            processes.our_pids.add(os.getpid())
            _serve(theirs, role)
        finally:
            os._exit(0)
    theirs.close()
    processes.our_pids.add(pid)
    return Spawner(ours, role.attach, loop, pid)


def _serve(link: Link, role: Role) -> None:
    null = os.open("/dev/null", os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    processes.close_others([link.fileno()])
    set_wakeup_fd(-1)
    set_handler(SIGCHLD, SIG_DFL)
    role.prepare()
    configured = b""
    forks = 0
    forker = Forker()
    gc.freeze()
    while True:
        data, descriptors = receive_with_descriptors(link, MAX_ORDER_BYTES)
        if not data:
            return
        uid, folder, cpu_seconds, settings = loads(data)
        adoption, adopted = pipe()
        child = Child(uid, folder, cpu_seconds)
        child.adoption = adoption
        if settings != configured:
            role.configure(loads(settings))
            configured = settings
        forks += 1
        if forks == 2:
            # Not before the first fork, because many containers have only one.
            role.warm_up()
            gc.freeze()
        role.before(child)
        if forker.is_possible:
            _start_sibling(link, role, child, descriptors, adopted, forker)
        if not forker.is_possible:
            _start_by_starter(link, role, child, descriptors, adopted)
        for descriptor in descriptors:
            close(descriptor)
        close(adoption)
        close(adopted)


def _start_sibling(
    link: Link, role: Role, child: Child, descriptors: tuple[int, ...], adopted: int, forker: Forker
) -> None:
    """Start a child of PID 1, and report its process id, or 0 if there is no room for it.

    Nothing is reported if the kernel makes no siblings. `forker.is_possible` is then False.
    """
    try:
        pid = forker.fork()
    except OSError:
        if not forker.is_possible:
            return
        pid = 0
    else:
        if pid == 0:
            try:
                role.live(child, descriptors)
            finally:
                os._exit(1)
    link.send(dumps((child.uid, pid, 1 if pid else 0)))
    write(adopted, b"1")


def _start_by_starter(
    link: Link, role: Role, child: Child, descriptors: tuple[int, ...], adopted: int
) -> None:
    """Start a child by a fork that exits, so that PID 1 adopts the child, and report its process id."""
    try:
        starter = fork()
    except OSError:
        link.send(dumps((child.uid, 0, 0)))
        return
    if starter == 0:
        _start(link, role, child, descriptors)
    if waitpid(starter, 0)[1] == 0:
        write(adopted, b"1")
    else:
        # Something has killed it, perhaps before its report. PID 1 ignores a second report.
        link.send(dumps((child.uid, 0, 0)))


def _start(link: Link, role: Role, child: Child, descriptors: tuple[int, ...]) -> None:
    """Start a child, report its process id, or 0 if there is no room for it, and exit.

    The report is sent before PID 1 becomes the parent. A child that PID 1 reaps is therefore always reported.
    """
    status = 1
    try:
        try:
            pid = fork()
        except OSError:
            pid = 0
        else:
            if pid == 0:
                role.live(child, descriptors)
        link.send(dumps((child.uid, pid, PROCESSES_OF_A_STARTER)))
        status = 0
    finally:
        os._exit(status)


def wait_for_adoption(child: Child) -> None:
    """Wait until this child is reported and PID 1 is its parent. Its other end of the pipe must be closed.

    If it has a starter, that is then reaped, so that the child finds the same processes in each run. One
    blocking call leaves the same memory however long it takes. A loop would not, because Python counts its
    rounds.

    The child exits if its starter was killed. PID 1 may then not know the child, and has ended its job.
    """
    if not read(child.adoption, 1):
        _exit(1)
    close(child.adoption)


PARENT, SET_ID, CLEAR_ID = 0x8000, 0x1000000, 0x200000
CDECL, WITH_PYTHONS_LOCK, WITH_ERRNO = 0x1, 0x4, 0x8
# The C library keeps the id of a thread in front of the thread's list of robust locks.
ID_TO_LIST, LIST_BYTES = 16, 24


class _Calls:
    """The numbers of clone, set_robust_list and get_robust_list.

    `place` is the index of the address of the child's id among the arguments of clone.
    """

    def __init__(self, clone: int, set_list: int, get_list: int, place: int) -> None:
        self.clone = clone
        self.set_list = set_list
        self.get_list = get_list
        self.place = place


CALLS = {"x86_64": _Calls(56, 273, 274, 3), "aarch64": _Calls(220, 99, 100, 4)}


class _Long(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "l"


class _OfPython(_ctypes.CFuncPtr):
    """A function of Python's own, which needs its lock."""

    _flags_ = CDECL | WITH_PYTHONS_LOCK
    _argtypes_ = ()
    _restype_ = None


class _SystemCall(_ctypes.CFuncPtr):
    # Python's lock is held, because the child must have it.
    _flags_ = CDECL | WITH_PYTHONS_LOCK | WITH_ERRNO
    _argtypes_ = (_Long,) * 6
    _restype_ = _Long


class Forker:
    """Forks siblings of a process with one thread. `is_possible` is whether the machine can."""

    def __init__(self) -> None:
        library = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]

        def find(kind: Any, name: str) -> Any:
            return kind(_ctypes.dlsym(library, name))

        self._call = find(_SystemCall, "syscall")
        self._before = find(_OfPython, "PyOS_BeforeFork")
        self._after_in_parent = find(_OfPython, "PyOS_AfterFork_Parent")
        self._after_in_child = find(_OfPython, "PyOS_AfterFork_Child")
        self._calls = CALLS.get(os.uname().machine)
        self._list = self._find_list()
        self.is_possible = self._list > 0

    def _find_list(self) -> int:
        """Return the address of this thread's robust locks, or 0 if the id of the thread is not before it."""
        if self._calls is None:
            return 0
        found, size = _Long(), _Long()
        places = _ctypes.addressof(found), _ctypes.addressof(size)
        if self._call(self._calls.get_list, 0, *places, 0, 0) != 0 or size.value != LIST_BYTES:
            return 0
        # Half of the number is the id, in four bytes.
        kept = _Long.from_address(found.value - ID_TO_LIST).value & 0xFFFFFFFF
        return found.value if kept == get_native_id() else 0

    def fork(self) -> int:
        """Return 0 in the sibling, and its process id here.

        Raises OSError if there is no room for it. If the machine cannot make siblings, `is_possible` is then
        False.
        """
        calls = self._calls
        if calls is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        arguments = [PARENT | SET_ID | CLEAR_ID | SIGCHLD, 0, 0, 0, 0]
        arguments[calls.place] = self._list - ID_TO_LIST
        self._before()
        pid: int = self._call(calls.clone, *arguments)
        if pid == 0:
            self._call(calls.set_list, self._list, LIST_BYTES, 0, 0, 0)
            self._after_in_child()
            return 0
        self._after_in_parent()
        if pid < 0:
            number = _ctypes.get_errno()
            self.is_possible = number in (errno.EAGAIN, errno.ENOMEM)
            raise OSError(number, os.strerror(number))
        return pid
