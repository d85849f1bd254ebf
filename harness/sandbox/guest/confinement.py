"""Have the kernel confine an untrusted program and every process that it starts.

User ids keep a program from changing files of others. They do not keep it from reading the counters of other
processes in /proc, or the container's in /sys/fs/cgroup. Landlock hides these files, and needs no
capability. A filter of system calls hides the counters that need no file. If the kernel offers neither,
programs run without them.
"""

from __future__ import annotations

import errno
import os
import struct
from os import O_CLOEXEC, O_PATH, close
from os import open as os_open

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# The rights of Landlock, with the numbers of its header.
EXECUTE, WRITE_FILE, READ_FILE, READ_FOLDER = 1 << 0, 1 << 1, 1 << 2, 1 << 3
ALL_OF_THE_FIRST_VERSION = (1 << 13) - 1
REFER, TRUNCATE, DEVICE_CONTROL = 1 << 13, 1 << 14, 1 << 15
# The first version with each right. At least version 2 is needed, because version 1 refuses to rename a file
# into another folder.
NEEDED_VERSION, TRUNCATE_VERSION, NETWORK_VERSION, DEVICE_VERSION, SCOPE_VERSION = 2, 3, 4, 5, 6
ABSTRACT_SOCKETS, SIGNALS = 1 << 0, 1 << 1
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
GET_VERSION, PATH_BENEATH = 1, 1
RULE = struct.Struct("=Qi")

READ = READ_FILE | READ_FOLDER
WRITABLE_FOLDERS = ("/work", "/tmp", "/dev/shm")
# The top folders that hold more than files of the image.
OTHER_FOLDERS = ("proc", "sys", "dev", "work", "tmp")
# Constants of the machine that C libraries and common programs read. None of them counts anything.
CONSTANTS = ("/proc/cpuinfo", "/proc/version")
# Files in a program's own folder in /proc. `net` is not one of them, because it counts the traffic of all
# programs.
OWN_FILES = ("fd", "maps", "mem", "stat", "statm", "status")
SET_SECCOMP, FILTER = 22, 2
LOAD, EQUAL, AT_LEAST, SOME_BITS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000
INSTRUCTION = struct.Struct("=HBBI")
FIRST_ARGUMENT, LAST_ARGUMENT = 16, 56
THREAD_CLOCK, FIRST_OWN_CLOCK, FIRST_NEGATIVE = 0x4, 0xFFFFFFF8, 0x80000000
ONLY_FROM_CACHE = 0x8


class Calls:
    """The numbers of the system calls that the filter looks at."""

    def __init__(
        self,
        clocks: tuple[int, ...],
        advice_on_files: int,
        cached_pages: int,
        asynchronous_files: int,
        read_with_flags: int,
    ) -> None:
        self.clocks = clocks
        self.advice_on_files = advice_on_files
        self.cached_pages = cached_pages
        self.asynchronous_files = asynchronous_files
        self.read_with_flags = read_with_flags


CALLS = {
    "x86_64": Calls((222, 228, 229, 230), 221, 451, 206, 327),
    "aarch64": Calls((107, 113, 114, 115), 223, 451, 0, 286),
}


class _Confinement:
    """The results of `prepare_rules`: the function for system calls, and the rights over each path."""

    call: Callable[..., int] | None = None
    version = 0
    # The argument of `landlock_create_ruleset`.
    attributes = b""
    rules: tuple[bytes, ...] = ()


def prepare_rules() -> None:
    """Prepare the rules that are the same for all programs, for this process and its later forks.

    The files that the rules name stay open, because the kernel forgets a rule on a file of /proc or /sys once
    it has dropped the file from memory.
    """
    call = system_call()
    version = call(CREATE_RULESET, 0, 0, GET_VERSION)
    if version < NEEDED_VERSION:
        return
    _Confinement.call = call
    rights = known_rights(version)
    fields = [rights]
    fields += [0] if version >= NETWORK_VERSION else []
    fields += [ABSTRACT_SOCKETS | SIGNALS] if version >= SCOPE_VERSION else []
    _Confinement.attributes = struct.pack(f"={len(fields)}Q", *fields)
    _Confinement.rules = tuple(_rules(rights))


def system_call() -> Callable[..., int]:
    """Return a function that makes system calls by their numbers and returns -1 for an error."""
    return library_function("syscall")


def library_function(name: str) -> Callable[..., int]:
    """Return a function of the C library that takes numbers and bytes and returns a number."""
    # The import of ctypes would take five times as long.
    import _ctypes

    address = _ctypes.dlsym(_ctypes.dlopen(None, 0), name)  # type: ignore[arg-type]

    def call(*arguments: int | bytes) -> int:
        result: int = _ctypes.call_function(address, arguments)
        return result

    return call


def known_rights(version: int) -> int:
    """Return all rights over files that this version of Landlock knows."""
    rights = ALL_OF_THE_FIRST_VERSION | REFER
    rights |= TRUNCATE if version >= TRUNCATE_VERSION else 0
    return rights | (DEVICE_CONTROL if version >= DEVICE_VERSION else 0)


def _rules(known: int) -> Iterator[bytes]:
    for path, rights in _grants(known):
        try:
            descriptor = os_open(path, O_PATH | O_CLOEXEC)
        except OSError:
            continue  # this machine or this image has no such file
        yield RULE.pack(rights & known, descriptor)


def _grants(known: int) -> Iterator[tuple[str, int]]:
    """Yield every path that a program may use, and the program's rights over everything below it.

    Links and empty folders get no rule, because each rule costs time in every child.
    """
    for entry in os.scandir("/"):
        if entry.name in OTHER_FOLDERS or entry.is_symlink():
            continue
        if not entry.is_dir():
            yield entry.path, EXECUTE | READ_FILE
        elif _holds_anything(entry.path):
            yield entry.path, EXECUTE | READ
    for path in WRITABLE_FOLDERS:
        yield path, known & ~DEVICE_CONTROL
    # Without the right to make files, so that a program cannot make a message queue there.
    yield "/dev", READ | WRITE_FILE | TRUNCATE | DEVICE_CONTROL
    for path in CONSTANTS:
        yield path, READ_FILE


def _holds_anything(folder: str) -> bool:
    try:
        return bool(os.listdir(folder))
    except OSError:
        return True


def has_rules() -> bool:
    """Return whether `prepare_rules` has found Landlock in the kernel."""
    return _Confinement.call is not None


def new_ruleset() -> int:
    """Return a descriptor of the rules for one program, or -1 if there is no Landlock. Raises OSError."""
    call = _Confinement.call
    if call is None:
        return -1
    ruleset = call(CREATE_RULESET, _Confinement.attributes, len(_Confinement.attributes), 0)
    if ruleset < 0:
        raise OSError(errno.EPERM, "Landlock made no ruleset")
    for rule in _Confinement.rules:
        if call(ADD_RULE, ruleset, PATH_BENEATH, rule, 0) < 0:
            close(ruleset)
            raise OSError(errno.EPERM, "Landlock refused a rule")
    return ruleset


def confine(ruleset: int) -> None:
    """Confine this process for good to these rules and its own files in /proc, and close the ruleset.

    Raises OSError if the kernel refuses.
    """
    call = _Confinement.call
    if call is None or ruleset < 0:
        return
    refused = 0
    for name in OWN_FILES:
        own = os_open(f"/proc/self/{name}", O_PATH)
        rights = READ if name == "fd" else READ_FILE
        refused |= call(ADD_RULE, ruleset, PATH_BENEATH, RULE.pack(rights, own), 0)
        close(own)
    refused |= call(RESTRICT_SELF, ruleset, 0)
    close(ruleset)
    if refused:
        raise OSError(errno.EPERM, "Landlock did not confine the program")


def filter_calls() -> None:
    """Refuse the clocks of other processes, and hide the cache of files that all containers share.

    The filter holds for this process and its later children.

    Advice on files succeeds without effect, because it would drop pages from that cache.
    """
    import array

    calls = CALLS.get(os.uname().machine)
    if calls is None:
        return
    program = array.array("B", b"".join(_instructions(calls)))
    address, size = program.buffer_info()
    settings = struct.pack("=HxxxxxxQ", size // INSTRUCTION.size, address)
    library_function("prctl")(SET_SECCOMP, FILTER, settings)


def _instructions(calls: Calls) -> Iterator[bytes]:
    """Yield a program for the kernel's filter machine, whose jumps count the instructions to skip."""
    pack = INSTRUCTION.pack
    yield pack(LOAD, 0, 0, 0)
    for number, refusal in (
        (calls.cached_pages, REFUSE | errno.EPERM),
        (calls.asynchronous_files, REFUSE | errno.EPERM),
        # With an error of 0 the call does nothing and returns success.
        (calls.advice_on_files, REFUSE),
    ):
        yield pack(EQUAL, 0, 1, number)
        yield pack(RETURN, 0, 0, refusal)
    yield pack(EQUAL, 0, 3, calls.read_with_flags)
    yield pack(LOAD, 0, 0, LAST_ARGUMENT)
    yield pack(SOME_BITS, 0, 1 + len(calls.clocks), ONLY_FROM_CACHE)
    yield pack(RETURN, 0, 0, REFUSE | errno.EOPNOTSUPP)
    for place, number in enumerate(calls.clocks):
        yield pack(EQUAL, len(calls.clocks) - place, 0, number)
    yield pack(RETURN, 0, 0, ALLOW)
    # A negative clock belongs to a process, or to one of the caller's threads.
    yield pack(LOAD, 0, 0, FIRST_ARGUMENT)
    yield pack(AT_LEAST, 0, 3, FIRST_NEGATIVE)
    yield pack(AT_LEAST, 2, 0, FIRST_OWN_CLOCK)
    yield pack(SOME_BITS, 1, 0, THREAD_CLOCK)
    yield pack(RETURN, 0, 0, REFUSE | errno.EINVAL)
    yield pack(RETURN, 0, 0, ALLOW)
