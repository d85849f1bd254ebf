"""Fork a sibling, which is a child of this process's parent.

fork(2) makes a child of its caller, which then has to wait for it. What a spawner learns by that, each
program that is forked from it inherits. The parent alone can wait for a sibling. Linux makes one by clone(2)
with CLONE_PARENT. Neither Python nor the C library has a function for it.
"""

from __future__ import annotations

import _ctypes
import errno
import os
from _thread import get_native_id

from harness.sandbox.guest.signals import SIGCHLD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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
