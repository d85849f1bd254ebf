"""System calls that our seccomp profiles refuse or allow, tried inside a container."""

from __future__ import annotations

import errno
import json
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from case_checks import each_case
from docker import APIClient

from harness.sandbox.backends import seccomp
from harness.sandbox.backends.docker.engine import connect
from harness.sandbox.backends.docker.images import require_image
from harness.sandbox.backends.seccomp import ProfileName, Sockets
from harness.sandbox.machine.images import build_images

PROFILES: tuple[ProfileName, ...] = get_args(ProfileName)

# name -> (number on x86_64, number on aarch64, arguments). The arguments are such that an unfiltered
# kernel grants the call or complains about something else wherever it can.
CALLS: dict[str, tuple[int, int, list[int]]] = {
    "io_uring_setup": (425, 425, [1, 0]),
    "io_uring_enter": (426, 426, [-1, 0, 0, 0, 0, 0]),
    "io_uring_register": (427, 427, [-1, 0, 0, 0]),
    "add_key": (248, 217, [0, 0, 0, 0, -3]),
    "request_key": (249, 218, [0, 0, 0, 0]),
    "keyctl": (250, 219, [0, -3, 0]),
    "bpf": (321, 280, [0, 0, 0]),
    "perf_event_open": (298, 241, [0, 0, -1, -1, 0]),
    "userfaultfd": (323, 282, [1]),
    "ptrace": (101, 117, [0, 0, 0, 0]),
    "process_vm_readv": (310, 270, [1, 0, 0, 0, 0, 0]),
    "process_vm_writev": (311, 271, [1, 0, 0, 0, 0, 0]),
    "process_madvise": (440, 440, [-1, 0, 0, 0, 0]),
    "pidfd_getfd": (438, 438, [-1, 0, 0]),
    "kcmp": (312, 272, [1, 1, 1, 0, 0]),
    "personality_change": (135, 92, [0x0008]),
    "clone_newuser": (56, 220, [0x10000000 | 17, 0, 0, 0, 0]),
    "clone_newnet": (56, 220, [0x40000000 | 17, 0, 0, 0, 0]),
    "unshare": (272, 97, [0x10000000]),
    "setns": (308, 268, [-1, 0]),
    "mount": (165, 40, [0, 0, 0, 0, 0]),
    "umount2": (166, 39, [0, 0]),
    "pivot_root": (155, 41, [0, 0]),
    "open_tree": (428, 428, [-1, 0, 0]),
    "move_mount": (429, 429, [-1, 0, -1, 0, 0]),
    "fsopen": (430, 430, [0, 0]),
    "fsconfig": (431, 431, [-1, 0, 0, 0, 0]),
    "fsmount": (432, 432, [-1, 0, 0]),
    "fspick": (433, 433, [-1, 0, 0]),
    "mount_setattr": (442, 442, [-1, 0, 0, 0, 0]),
    "name_to_handle_at": (303, 264, [-1, 0, 0, 0, 0]),
    "open_by_handle_at": (304, 265, [-1, 0, 0]),
    "fanotify_init": (300, 262, [0, 0]),
    "memfd_secret": (447, 447, [0]),
    "kexec_load": (246, 104, [0, 0, 0, 0]),
    "init_module": (175, 105, [0, 0, 0]),
    "swapon": (167, 224, [0, 0]),
    "syslog": (103, 116, [10, 0, 0]),
    "chroot": (161, 51, [0]),
    "mbind": (237, 235, [0, 0, 0, 0, 0, 0]),
}
# The number of the call `socket`, on x86 and on ARM.
SOCKET = (41, 198)
FAMILIES = {"netlink": 16, "packet": 17, "alg": 38, "vsock": 40, "xdp": 44}
# The kernel reads 32 bits of the family, a filter 64: with a high bit set it must not slip through.
SOCKETS = {
    **{f"socket_{name}": [family, 3, 0] for name, family in FAMILIES.items()},
    "socket_alg_high_bit": [38 | 1 << 32, 5, 0],
    "socket_inet": [2, 1, 0],
    "socket_inet6": [10, 1, 0],
    "socket_unix": [1, 1, 0],
    "socket_inet_icmp": [2, 2, 1],
    "socket_inet6_icmp": [10, 2, 58],
    "socket_inet_udp": [2, 2, 17],
    "socket_inet_high_bit": [2 | 1 << 32, 1, 0],
    "socket_netlink_high_bit": [16 | 1 << 32, 3, 0],
}
# Sockets whose buffers are memory of the container with cgroup version 2, and sockets whose buffers never
# are.
INTERNET = ["socket_inet", "socket_inet6", "socket_inet_udp"]
UNCOUNTED = ["socket_netlink", "socket_inet_icmp", "socket_inet6_icmp"]
# All containers of a machine share these resources. The profile answers as a kernel without them would.
SHARED = {
    "inotify_init1": (294, 26, [0], errno.ENOSYS),
    "inotify_add_watch": (254, 27, [-1, 0, 0], errno.ENOSYS),
    "io_setup": (206, 0, [1, 0], errno.ENOSYS),
    "io_submit": (209, 2, [0, 0, 0], errno.ENOSYS),
    "setxattr": (188, 5, [0, 0, 0, 0, 0], errno.EOPNOTSUPP),
    "lsetxattr": (189, 6, [0, 0, 0, 0, 0], errno.EOPNOTSUPP),
    "fsetxattr": (190, 7, [-1, 0, 0, 0, 0], errno.EOPNOTSUPP),
}
IPC = {
    "shmget": (29, 194, [0, 4096, 0o1600]),
    "msgget": (68, 186, [0, 0o1600]),
    "semget": (64, 190, [0, 1, 0o1600]),
    "mq_open": (240, 180, [0, 0, 0, 0]),
    "mq_unlink": (241, 181, [0]),
}
ALLOWED = {
    "personality_query": (135, 92, [0xFFFFFFFF]),
    "memfd_create_without_name": (319, 279, [0, 0]),
}
EVERYWHERE = [
    *CALLS,
    *(name for name in SOCKETS if name not in ("socket_unix", *INTERNET, *UNCOUNTED)),
]
STRICT_ONLY = [*IPC]
ANSWERED: dict[Sockets, list[str]] = {
    "local": [],
    "relayed": ["socket_inet"],
    "internet": INTERNET,
    "all": [*INTERNET, *UNCOUNTED],
}
# The level and the option of setsockopt, some with bits that the kernel does not read.
OPTIONS = {
    "SO_SNDBUF": [1, 7],
    "SO_RCVBUF": [1, 8],
    "level_high_bit": [1 | 1 << 32, 7],
    "option_high_bit": [1, 8 | 1 << 32],
    "SO_KEEPALIVE": [1, 9],
    "SO_REUSEADDR": [1, 2],
    "TCP_NODELAY": [6, 1],
    "TCP_KEEPCNT_and_others": [6, 7],
    "level_0": [0, 8],
}
BUFFERS = ["SO_SNDBUF", "SO_RCVBUF", "level_high_bit", "option_high_bit"]
SETSOCKOPT = {"x86_64": 54, "aarch64": 208}

# Each call runs in a child process, because a granted call may change or end its caller.
PROBE = """
import ctypes, json, mmap, os, signal, sys

libc = ctypes.CDLL(None, use_errno=True)

def attempt(number, arguments):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(5)
        ctypes.set_errno(0)
        result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
        os.write(write, str(ctypes.get_errno() if result == -1 else 0).encode())
        os._exit(0)
    os.close(write)
    os.waitpid(pid, 0)
    answer = os.read(read, 16)
    os.close(read)
    return int(answer) if answer else -1

def enter_32_bit():
    pid = os.fork()
    if pid == 0:
        code = mmap.mmap(-1, 4096, prot=7)
        code.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20 (getpid); int 0x80; ret
        address = ctypes.addressof(ctypes.c_char.from_buffer(code))
        ctypes.CFUNCTYPE(ctypes.c_int)(address)()
        os._exit(0)
    return os.waitpid(pid, 0)[1] & 127

def enter_x32():
    pid = os.fork()
    if pid == 0:
        libc.syscall(ctypes.c_long(0x40000000 | 39))  # getpid
        os._exit(0)
    return os.waitpid(pid, 0)[1] & 127

calls = json.loads(sys.argv[1])
answers = {name: attempt(number, arguments) for name, (number, arguments) in calls.items()}
if os.uname().machine == "x86_64":
    answers["32-bit signal"] = enter_32_bit()
    answers["x32 signal"] = enter_x32()
print(json.dumps(answers))
"""

# The features that programs and graders need. This ends with a traceback if one is missing.
PYTHON = """
import asyncio, multiprocessing, os, socket, subprocess, sys, tempfile, threading, time

def square(number):
    return number * number

async def main():
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "print(7)", stdout=-1)
    assert (await process.communicate())[0] == b"7\\n"
    assert await asyncio.to_thread(square, 5) == 25
    await asyncio.wait_for(asyncio.sleep(0.01), 1)

if __name__ == "__main__":
    assert subprocess.run(["sh", "-c", "echo a | cat"], capture_output=True).stdout == b"a\\n"
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(square, range(4)) == [0, 1, 4, 9]
    with multiprocessing.Manager() as manager:
        shared = manager.dict(a=1)
        assert shared["a"] == 1
    asyncio.run(main())
    threads = [threading.Thread(target=square, args=(n,)) for n in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    one, other = socket.socketpair()
    with tempfile.TemporaryFile() as file:
        socket.send_fds(one, [b"x"], [file.fileno()])
        assert len(socket.recv_fds(other, 1, 1)[1]) == 1
    os.mkfifo("/tmp/fifo")
    os.chown("/tmp/fifo", 1000, 1000)
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setresgid(1000, 1000, 1000)
        os.setresuid(1000, 1000, 1000)
        time.sleep(60)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    print("all works")
"""


@pytest.fixture(scope="module")
def client() -> Iterator[APIClient]:
    client = connect()
    build_images(client, ["python"], notify=print)
    yield client
    client.close()


@pytest.fixture(scope="module", params=PROFILES)
def answers(request: pytest.FixtureRequest, client: APIClient) -> tuple[str, dict[str, int]]:
    """Return the profile's name, and for each call 0 or the errno, from one container with that profile."""
    column = {"x86_64": 0, "aarch64": 1}[platform.machine()]
    calls: dict[str, Any] = {
        name: (numbers[column], arguments)
        for name, (*numbers, arguments) in {**CALLS, **IPC, **ALLOWED}.items()
    }
    calls |= {name: (numbers[column], arguments) for name, (*numbers, arguments, _) in SHARED.items()}
    calls |= {name: (SOCKET[column], arguments) for name, arguments in SOCKETS.items()}
    calls["clone3"] = (435, [0, 0])
    output = run(client, request.param, ["python3", "-I", "-S", "-c", PROBE, json.dumps(calls)])
    return request.param, json.loads(output)


def run(
    client: APIClient,
    profile: ProfileName,
    command: list[str],
    capabilities: tuple[str, ...] = (),
    sockets: Sockets = "local",
) -> str:
    container = client.create_container(
        require_image(client, "python"),
        entrypoint=[],
        command=command,
        host_config=client.create_host_config(
            network_mode="none",
            cap_drop=["ALL"],
            cap_add=list(capabilities),
            security_opt=["no-new-privileges", f"seccomp={seccomp.profile(profile, sockets=sockets)}"],
            tmpfs={"/tmp": "mode=1777"},
        ),
    )["Id"]
    try:
        client.start(container)
        status = client.wait(container, timeout=60)["StatusCode"]
        output = client.logs(container).decode()
    finally:
        client.remove_container(container, force=True, v=True)
    assert status == 0, output
    return output


@each_case("name", EVERYWHERE)
def test_a_dangerous_call_is_refused_by_both_profiles(answers: tuple[str, dict[str, int]], name: str) -> None:
    assert answers[1][name] == errno.EPERM


@each_case("name", [*INTERNET, *UNCOUNTED])
def test_an_uncounted_socket_looks_unimplemented(answers: tuple[str, dict[str, int]], name: str) -> None:
    assert answers[1][name] == errno.EAFNOSUPPORT


@each_case("name", SHARED)
def test_calls_for_resources_of_the_machine_look_unimplemented(
    answers: tuple[str, dict[str, int]], name: str
) -> None:
    assert answers[1][name] == SHARED[name][-1]


@pytest.fixture(scope="module")
def errnos_of_sockets(client: APIClient) -> dict[Sockets, dict[str, int]]:
    """Return for each choice of sockets the errno of each call for a socket, or for an option of one."""
    number = SOCKET[{"x86_64": 0, "aarch64": 1}[platform.machine()]]
    calls = {name: (number, SOCKETS[name]) for name in [*INTERNET, *UNCOUNTED]}
    calls |= {name: (SETSOCKOPT[platform.machine()], [-1, *pair, 0, 4]) for name, pair in OPTIONS.items()}
    command = ["python3", "-I", "-S", "-c", PROBE, json.dumps(calls)]
    return {sockets: json.loads(run(client, "default", command, sockets=sockets)) for sockets in ANSWERED}


@each_case("sockets", ANSWERED)
def test_only_counted_or_requested_sockets_reach_the_kernel(
    errnos_of_sockets: dict[Sockets, dict[str, int]], sockets: Sockets
) -> None:
    errnos = errnos_of_sockets[sockets]
    refusals = (errno.EPERM, errno.EAFNOSUPPORT)
    reached = [name for name in [*INTERNET, *UNCOUNTED] if errnos[name] not in refusals]
    assert reached == ANSWERED[sockets]


@each_case(("sockets", "refused"), [("relayed", BUFFERS), ("internet", []), ("local", [])])
def test_only_programs_with_uncounted_buffers_cannot_enlarge_them(
    errnos_of_sockets: dict[Sockets, dict[str, int]], sockets: Sockets, refused: list[str]
) -> None:
    # There is no descriptor -1, which only the kernel reports.
    expected = {name: errno.EPERM if name in refused else errno.EBADF for name in OPTIONS}
    assert {name: errnos_of_sockets[sockets][name] for name in OPTIONS} == expected


def test_strict_allows_local_sockets_only() -> None:
    assert seccomp.profile("strict", sockets="all") == seccomp.profile("strict")


@each_case("sockets", ANSWERED)
def test_a_runtime_that_knows_one_errno_gets_no_rule_with_another(sockets: Sockets) -> None:
    rules = json.loads(seccomp.profile("default", sockets=sockets, errnos=False))["syscalls"]
    assert {rule["action"] for rule in rules} == {"SCMP_ACT_ALLOW"}


@each_case("name", STRICT_ONLY)
def test_a_call_is_refused_by_strict_alone(answers: tuple[str, dict[str, int]], name: str) -> None:
    profile, errnos = answers
    assert (errnos[name] == errno.EPERM) == (profile == "strict")


def test_clone3_looks_unimplemented_so_that_libc_falls_back(answers: tuple[str, dict[str, int]]) -> None:
    assert answers[1]["clone3"] == errno.ENOSYS


@each_case(
    ("name", "expected"),
    [("socket_unix", 0), ("personality_query", 0), ("memfd_create_without_name", errno.EFAULT)],
)
def test_an_allowed_call_reaches_the_kernel(
    answers: tuple[str, dict[str, int]], name: str, expected: int
) -> None:
    assert answers[1][name] == expected


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86 has a 32-bit entry point")
def test_a_call_by_the_32_bit_entry_point_kills_the_process(answers: tuple[str, dict[str, int]]) -> None:
    assert answers[1]["32-bit signal"] in (
        31,
        11,
    )  # SIGSYS, or SIGSEGV if the kernel has no such entry point.


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86 has such calls")
def test_a_call_by_an_x32_number_kills_the_process(answers: tuple[str, dict[str, int]]) -> None:
    assert answers[1]["x32 signal"] == 31  # SIGSYS, which no kernel sends without a filter.


@each_case("profile", PROFILES)
def test_python_works_under_the_profile(client: APIClient, profile: ProfileName) -> None:
    # Python runs a file, because the spawn method of multiprocessing imports its main module again.
    command = ["sh", "-c", 'printf %s "$0" > /tmp/program.py && exec python3 /tmp/program.py', PYTHON]
    capabilities = ("CHOWN", "KILL", "SETGID", "SETUID")
    assert run(client, profile, command, capabilities).splitlines()[-1] == "all works"


def test_no_call_is_both_allowed_and_refused() -> None:
    data = json.loads(Path(seccomp.__file__).with_name("seccomp.json").read_text())
    allowed = {name for group in data["allowed"] for name in group["names"]}
    always_refused = {name for group in data["refused"]["default"] for name in group["names"]}
    with_errno = {name for group in data["refused_with_errno"] for name in group["names"]}
    strictly_refused = {name for group in data["refused"]["strict"] for name in group["names"]}
    assert not allowed & (always_refused | with_errno)
    assert not always_refused & with_errno
    assert strictly_refused <= allowed
