"""The programs of the canaries, which run INSIDE a sandbox as jobs, on Python 3.9 or newer alone.

`python3 -c <this text> NAME ARGUMENTS` calls one of the functions (its arguments are a JSON list) and prints
its return value as JSON. Each function goes beyond its limit and still ends by itself, because the machine
must not suffer if the limit is missing.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MIB = 1024 * 1024
PIECE = b"\1" * (MIB // 4)
DATAGRAM = b"\1" * (16 * 1024)
# The cgroup of this container, as versions 2 and 1 show it.
CGROUP = "/sys/fs/cgroup"


def memory(mebibytes: int) -> int:
    """Allocate `mebibytes`, write to every page, and return the number of mebibytes."""
    blocks = [b"\1" * MIB for _ in range(mebibytes)]
    return len(blocks)


def swap() -> dict[str, int | None]:
    """Return the bytes of swap that this container may use (None: nothing counts it) and those that exist."""
    with open("/proc/meminfo") as file:
        total = next(int(line.split()[1]) * 1024 for line in file if line.startswith("SwapTotal:"))
    allowed = _number(f"{CGROUP}/memory.swap.max")
    if allowed is None:
        memory_and_swap = _number(f"{CGROUP}/memory/memory.memsw.limit_in_bytes")
        limit = _number(f"{CGROUP}/memory/memory.limit_in_bytes")
        if memory_and_swap is not None and limit is not None:
            allowed = memory_and_swap - limit
    return {"allowed": allowed, "total": total}


def processes(most: int) -> dict[str, Any]:
    """Fork up to `most` children that live on; return their number and the error that refused the next."""
    children: list[int] = []
    refused = None
    try:
        while len(children) < most:
            child = os.fork()
            if child == 0:
                signal.pause()
                os._exit(0)
            children.append(child)
    except OSError as error:
        refused = _name(error)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return {"started": len(children), "refused": refused}


def burn(cpu_seconds: float) -> float:
    """Use `cpu_seconds` of CPU time and return the seconds used."""
    while time.process_time() < cpu_seconds:
        pass
    return time.process_time()


def share(wall_seconds: float) -> dict[str, float | None]:
    """Be busy for `wall_seconds`; return the CPUs that were used, and those that the cgroup allows."""
    start, spent = time.monotonic(), time.process_time()
    while time.monotonic() < start + wall_seconds:
        pass
    used = (time.process_time() - spent) / (time.monotonic() - start)
    quota = _number(f"{CGROUP}/cpu/cpu.cfs_quota_us")
    period = _number(f"{CGROUP}/cpu/cpu.cfs_period_us")
    if quota is None:
        quota = _number(f"{CGROUP}/cpu.max")
        period = _number(f"{CGROUP}/cpu.max", word=1)
    return {"used": used, "allowed": quota / period if quota is not None and period else None}


def sleep(seconds: float) -> None:
    """Sleep for `seconds`."""
    time.sleep(seconds)


def output(mebibytes: int) -> None:
    """Write `mebibytes` to stdout."""
    for _ in range(mebibytes * MIB // len(PIECE)):
        os.write(1, PIECE)


def fill(folder: str, mebibytes: int) -> dict[str, Any]:
    """Write up to `mebibytes` into files of a folder; return the bytes that fit and the error for more."""
    written, refused = 0, None
    names: list[str] = []
    try:
        while written < mebibytes * MIB:
            names.append(os.path.join(folder, f"fill-{len(names)}"))
            with open(names[-1], "wb", buffering=0) as file:
                written += file.write(PIECE)
    except OSError as error:
        refused = _name(error)
    _remove(names)
    return {"bytes": written, "refused": refused}


def inodes(folder: str, most: int) -> dict[str, Any]:
    """Make up to `most` empty files in a folder; return their number and the error that refused the next."""
    names: list[str] = []
    refused = None
    try:
        while len(names) < most:
            name = os.path.join(folder, f"inode-{len(names)}")
            os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o600))
            names.append(name)
    except OSError as error:
        refused = _name(error)
    _remove(names)
    return {"files": len(names), "refused": refused}


def file_size(path: str, mebibytes: int) -> dict[str, Any]:
    """Write up to `mebibytes` into one file; return the bytes that fit and the error that refused more."""
    written, refused = 0, None
    try:
        with open(path, "wb", buffering=0) as file:
            while written < mebibytes * MIB:
                written += file.write(PIECE)
    except OSError as error:
        refused = _name(error)
    _remove([path])
    return {"bytes": written, "refused": refused}


def open_files(most: int) -> dict[str, Any]:
    """Open up to `most` files at once; return their number and the error that refused the next."""
    descriptors: list[int] = []
    refused = None
    try:
        while len(descriptors) < most:
            descriptors.append(os.open("/dev/null", os.O_RDONLY))
    except OSError as error:
        refused = _name(error)
    for descriptor in descriptors:
        os.close(descriptor)
    return {"files": len(descriptors), "refused": refused}


def socket_memory(kind: str, mebibytes: int, seconds: float = 0.0) -> dict[str, Any]:
    """Leave `mebibytes` unread in sockets of a kind for some seconds.

    Return the bytes that fit and the error for more.
    """
    kept: list[Any] = []
    written, refused = 0, None
    try:
        while written < mebibytes * MIB:
            sender, receiver = CONNECTIONS[kind]()
            kept.append((sender, receiver))
            written += _fill_socket(sender, mebibytes * MIB - written)
    except OSError as error:
        refused = _name(error)
    time.sleep(seconds)
    return {"bytes": written, "refused": refused}


def exchange(port: int, size: int) -> dict[str, Any]:
    """Send bytes to a port and return the number of bytes that came back, and the error that refused it.

    The next piece is sent when the one before has come back, because an echo that nobody reads would stop.
    """
    received = 0
    try:
        with socket.create_connection(("127.0.0.1", port)) as link:
            while received < size:
                link.sendall(DATAGRAM[: size - received])
                received += len(link.recv(len(DATAGRAM), socket.MSG_WAITALL))
            link.shutdown(socket.SHUT_WR)
            received += len(link.recv(1))
    except OSError as error:
        return {"bytes": received, "refused": _name(error)}
    return {"bytes": received, "refused": None}


def _fill_socket(sender: socket.socket, most: int) -> int:
    written = 0
    sender.setblocking(False)
    try:
        # At most the size of a default buffer, because the kernel drops further datagrams silently.
        most = min(most, 128 * 1024 if sender.type & socket.SOCK_DGRAM else most)
        while written < most:
            written += sender.send(DATAGRAM)
    except (BlockingIOError, ConnectionRefusedError):
        pass
    except OSError as error:
        if error.errno != errno.ENOBUFS:
            raise
    return written


def _tcp() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = socket.create_connection(server.getsockname())
        return sender, server.accept()[0]


def _udp() -> tuple[socket.socket, socket.socket]:
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("127.0.0.1", 0))
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.connect(receiver.getsockname())
    return sender, receiver


def _netlink() -> tuple[socket.socket, socket.socket]:
    # Family 2, NETLINK_USERSOCK, is for programs alone.
    sender, receiver = [socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 2) for _ in range(2)]
    receiver.bind((0, 0))
    sender.connect(receiver.getsockname())
    return sender, receiver


CONNECTIONS: dict[str, Callable[[], tuple[socket.socket, socket.socket]]] = {
    "TCP": _tcp,
    "UDP": _udp,
    "netlink": _netlink,
    "local": socket.socketpair,
}


def shared_counts(most: int) -> dict[str, int]:
    """Take up to `most` of each resource that all containers of a machine share; return their numbers."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    setup, add_key = {"x86_64": (206, 248), "aarch64": (0, 217)}.get(os.uname().machine, (-1, -1))
    room = ctypes.create_string_buffer(64)

    def asynchronous(_number: int) -> int:
        context = ctypes.c_ulong(0)
        return int(libc.syscall(ctypes.c_long(setup), ctypes.c_long(1), ctypes.byref(context)))

    def key(number: int) -> int:
        name = b"canary%d" % number
        arguments = (b"user", name, b"x", ctypes.c_long(1), ctypes.c_long(-1))
        return int(libc.syscall(ctypes.c_long(add_key), *arguments))

    takers: dict[str, Callable[[int], int]] = {
        "inotify instances": lambda _number: int(libc.inotify_init1(0)),
        "pseudo-terminals": lambda _number: _open_terminal(),
        "asynchronous requests": asynchronous,
        "keys": key,
        "message queues": lambda number: _make_queue(number),
        "epoll instances": lambda _number: int(libc.epoll_create1(0)),
        "timers": lambda _number: int(libc.timer_create(1, None, room)),
    }
    return {name: _count_taken(take, most) for name, take in takers.items()}


def _count_taken(take: Callable[[int], int], most: int) -> int:
    for number in range(most):
        try:
            if take(number) == -1:
                return number
        except OSError:
            return number
    return most


def _open_terminal() -> int:
    master, slave = os.openpty()
    os.close(slave)
    return master


def _make_queue(number: int) -> int:
    return os.open(f"/dev/mqueue/canary-{number}", os.O_CREAT | os.O_RDWR, 0o600)


def attribute(folder: str) -> str | None:
    """Try to give a new file an extended attribute; return the error that refused it, or None."""
    path = os.path.join(folder, "harness-canary")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        os.setxattr(path, "user.canary", b"x")
        return None
    except OSError as error:
        return _name(error)
    finally:
        _remove([path])


def hold(folder: str, mebibytes: int, seconds: float) -> None:
    """Keep a deleted file of `mebibytes` open for `seconds`."""
    path = os.path.join(folder, "harness-canary")
    with open(path, "wb", buffering=0) as file:
        os.unlink(path)
        for _ in range(mebibytes * MIB // len(PIECE)):
            file.write(PIECE)
        time.sleep(seconds)


def create(folders: list[str]) -> dict[str, str | None]:
    """Try to make a file in each folder; return the error that refused it, or None, for each."""
    answers: dict[str, str | None] = {}
    for folder in folders:
        path = os.path.join(folder, "harness-canary")
        try:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
            os.unlink(path)
            answers[folder] = None
        except OSError as error:
            answers[folder] = _name(error)
    return answers


def network(addresses: list[str]) -> dict[str, Any]:
    """Return the interfaces that are up, and for each address the error that refused a route, or None."""
    ways: dict[str, str | None] = {}
    for address in addresses:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        # Connecting a datagram socket looks up a route and sends nothing.
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((address, 9))
            ways[address] = None
        except OSError as error:
            ways[address] = _name(error)
    return {"interfaces": [name for name in _interfaces() if _is_up(name)], "ways": ways}


def status() -> dict[str, dict[str, str]]:
    """Return the kernel's status of this process and of PID 1."""
    return {"job": _status("self"), "guest": _status("1")}


def system_calls() -> dict[str, str | None]:
    """Try calls that no sandbox needs; return for each the error that refused it, or None.

    Without a filter none of them would fail with EPERM. They would succeed, or fail because of their
    arguments.
    """
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    # These calls have the same numbers on every architecture.
    calls = {"io_uring_setup": (425, 1, 0), "open_tree": (428, -1, 0, 0), "pidfd_getfd": (438, -1, 0, 0)}
    keyctl = {"x86_64": 250, "aarch64": 219}.get(os.uname().machine)
    if keyctl is not None:
        calls["keyctl"] = (keyctl, 0, -3, 0)
    answers: dict[str, str | None] = {}
    for name, arguments in calls.items():
        failed = libc.syscall(*map(ctypes.c_long, arguments)) == -1
        answers[name] = _name(OSError(ctypes.get_errno(), "")) if failed else None
    try:
        socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET, 0).close()
        answers["socket(AF_ALG)"] = None
    except OSError as error:
        answers["socket(AF_ALG)"] = _name(error)
    return answers


def readable(paths: list[str]) -> list[str]:
    """Return the files and folders that can be read."""
    found = []
    for path in paths:
        try:
            if os.path.isdir(path):
                os.listdir(path)
            else:
                open(path, "rb").close()
            found.append(path)
        except OSError:
            continue
    return found


def namespaces() -> dict[str, str]:
    """Return the namespaces of this process: kind -> identity."""
    folder = "/proc/self/ns"
    return {kind: os.readlink(os.path.join(folder, kind)) for kind in os.listdir(folder)}


def _interfaces() -> list[str]:
    """Return the names of all interfaces, from files, because sockets that list them are refused."""
    try:
        return sorted(os.listdir("/sys/class/net"))
    except OSError:
        return [name for _index, name in socket.if_nameindex()]


def _is_up(interface: str) -> bool:
    """Return whether an interface is up. Some kernels put others (tunl0, sit0) into every namespace."""
    try:
        with open(f"/sys/class/net/{interface}/flags") as file:
            return bool(int(file.read(), 16) & 1)
    except OSError:
        return True


def _number(path: str, word: int = 0) -> int | None:
    """Return the number in a file of the kernel: a huge one for "no limit", None if there is no such file."""
    try:
        with open(path) as file:
            text = file.read().split()[word]
    except OSError:
        return None
    return sys.maxsize if text in ("max", "-1") else int(text)


def _status(pid: str) -> dict[str, str]:
    with open(f"/proc/{pid}/status") as file:
        fields = (line.partition(":") for line in file)
        return {name: value.strip() for name, _colon, value in fields}


def _name(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, str(error))


def _remove(paths: list[str]) -> None:
    for path in paths:
        if os.path.exists(path):
            os.unlink(path)


if __name__ == "__main__":
    probe: Callable[..., Any] = globals()[sys.argv[1]]
    print(json.dumps(probe(*json.loads(sys.argv[2]))))
