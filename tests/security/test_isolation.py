"""The view and the rights of a job in its container: a command of an agent, and a program under tests."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from case_checks import each_case

from harness import Sandbox
from harness.environments.python.client import run_tests
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.backends.seccomp import ProfileName

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

TOOLS = r'''
import ctypes, errno, functools, os, re, resource, signal, socket, stat, subprocess, sys

DESCRIPTORS = set(os.listdir("/proc/self/fd"))  # and the one that lists them
libc = ctypes.CDLL(None, use_errno=True)
STATUS = dict(line.rstrip("\n").split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line)

def others():
    """Every process that is not this job's."""
    found = []
    for pid in range(1, 1000):
        try:
            os.kill(pid, 0)
        except PermissionError:
            found.append(pid)
        except ProcessLookupError:
            continue
    return found

def neighbours():
    """The folders of the other users, of which a test must see to it that there is one."""
    return [folder for name in os.listdir("/work") if (folder := f"/work/{name}") != os.getcwd()]

def denied(action, *codes):
    """Whether an action fails for lack of rights."""
    try:
        action()
    except OSError as error:
        return error.errno in (codes or (errno.EPERM, errno.EACCES, errno.EROFS))
    return False

def call(number, *arguments):
    """Make a system call by its number on this machine; raise OSError where it fails."""
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    if result == -1:
        raise OSError(ctypes.get_errno(), "refused")
    return result

def confined():
    """Whether this kernel has the Landlock that the guest uses."""
    return libc.syscall(444, None, 0, 1) >= 2

def refused(numbers, *arguments):
    number = numbers[0 if os.uname().machine == "x86_64" else 1]
    return denied(lambda: call(number, *arguments), errno.EPERM)

def tops():
    """The folders at the top, of which a program under tests has to know the names."""
    try:
        names = os.listdir("/")
    except PermissionError:
        names = "boot dev etc home media mnt opt root run srv tmp usr var work".split()
    return ["/" + name for name in names if name not in ("proc", "sys")]

def tree():
    for top in tops():
        yield from os.walk(top)

def writable_folders():
    found = []
    for folder, folders, _ in tree():
        path = os.path.join(folder, "probe")
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            os.unlink(path)
        except OSError:
            continue
        found.append(folder)
        folders.clear()
    return set(found)

@functools.cache
def files_outside():
    """Every file that is not in a place which this job may write to."""
    found = []
    own = {"/tmp", "/dev/shm", "/dev/mqueue", os.getcwd()}
    for folder, folders, names in tree():
        folders[:] = [name for name in folders if os.path.join(folder, name) not in own]
        found += [os.path.join(folder, name) for name in names]
    return found

def writable_files():
    found = []
    for path in files_outside():
        if stat.S_ISREG(os.lstat(path).st_mode) and os.access(path, os.W_OK):
            found.append(path)
    return found

def connect(family, kind, address):
    socket.socket(family, kind).connect(address)

SECRETS_OF_A_PROCESS = (
    "mem environ maps smaps auxv syscall stack pagemap io personality mountstats "
    "fdinfo map_files fd cwd root exe ns/pid"
).split()

def closed(pid, name):
    path = f"/proc/{pid}/{name}"
    if name in ("fd", "fdinfo", "map_files"):
        return denied(lambda: os.listdir(path))
    if name in ("cwd", "root", "exe", "ns/pid"):
        return denied(lambda: os.readlink(path))
    return denied(lambda: open(path, "rb").read(1), errno.EPERM, errno.EACCES, errno.ENOENT)
'''

# name -> an expression that is True in every job.
EVERYWHERE = {
    # Its user.
    "is not root": "0 not in (os.getuid(), os.geteuid(), os.getgid(), os.getegid())",
    "has no other user or group": "len({*os.getresuid(), *os.getresgid()}) == 1 and not os.getgroups()",
    "cannot become root": "denied(lambda: os.setuid(0)) and denied(lambda: os.setresgid(0, 0, 0))",
    "cannot become another user": "denied(lambda: os.setuid(os.getuid() + 1))",
    "cannot join a group": "denied(lambda: os.setgroups([0]))",
    "has no capability": "all(int(STATUS[f'Cap{kind}'], 16) == 0 for kind in ('Inh', 'Prm', 'Eff', 'Amb'))",
    "can gain no privilege": "STATUS['NoNewPrivs'] == '1'",
    "is filtered": "STATUS['Seccomp'] == '2'",
    "has no terminal": "denied(lambda: os.open('/dev/tty', os.O_RDWR), errno.ENXIO)",
    "leads its session": "os.getsid(0) == os.getpid() == os.getpgrp()",
    "leaves no core": "resource.getrlimit(resource.RLIMIT_CORE) == (0, 0)",
    "has no signal blocked": "STATUS['SigBlk'] == '0' * 16",
    "can be terminated": "signal.getsignal(signal.SIGTERM) is signal.SIG_DFL",
    "has a clean environment": (
        "set(os.environ) <= {'PATH', 'LANG', 'HOME', 'TMPDIR', 'LC_CTYPE'}"
        " and os.environ['HOME'] == os.getcwd()"
    ),
    # Its surroundings.
    "sees only the container's processes": "len(others()) <= 5 and os.getpid() < 10_000",
    "has a host name that says nothing": "os.uname().nodename == 'sandbox'",
    "has no socket of the engine's": "not os.path.exists('/run/docker.sock')",
    "has few devices": (
        "set(os.listdir('/dev')) <= {'core', 'fd', 'full', 'mqueue', 'null', 'ptmx', 'pts', 'random', 'shm',"
        " 'stderr', 'stdin', 'stdout', 'tty', 'urandom', 'zero', 'console'}"
    ),
    "has no block device": "not any(stat.S_ISBLK(os.lstat(path).st_mode) for path in files_outside())",
    # Writable files, and files that raise privileges.
    "can write to no file": "writable_files() == []",
    "finds no file that lends rights": "not any(os.lstat(path).st_mode & 0o6000 for path in files_outside())",
    "cannot make a device": "denied(lambda: os.mknod('/tmp/device', 0o600 | stat.S_IFBLK, os.makedev(8, 0)))",
    "cannot lend rights to a program of another's": "denied(lambda: os.chmod('/usr/bin/python3', 0o4755))",
    "cannot give files away": "denied(lambda: os.chown('.', 0, 0))",
    "cannot list its neighbours' folders": (
        "neighbours() != [] and all(denied(lambda: os.listdir(folder)) for folder in neighbours())"
    ),
    "cannot read a password": "denied(lambda: open('/etc/shadow'))",
    "cannot change the kernel": (
        "all(denied(lambda: open(path, 'w'), errno.EACCES, errno.EROFS, errno.ENOENT) for path in"
        " ('/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger', '/sys/kernel/mm/ksm/run'))"
    ),
    "cannot read the kernel": (
        "all(denied(lambda: open(f'/proc/{n}', 'rb').read(9)) or open(f'/proc/{n}', 'rb').read(9) == b''"
        " for n in ('kcore', 'keys', 'timer_list', 'kmsg') if os.path.exists(f'/proc/{n}'))"
    ),
    "cannot change its groups": (
        "not any(os.access(os.path.join(folder, name), os.W_OK)"
        " for folder, _, names in os.walk('/sys/fs/cgroup') for name in names)"
    ),
    # Attacks on other processes.
    "finds others to try": "1 in others()",
    "cannot signal others": "all(denied(lambda: os.kill(p, n)) for p in others() for n in (0, 9, 15, 19))",
    "cannot signal others by handle": (
        "all(denied(lambda: signal.pidfd_send_signal(os.pidfd_open(pid), 9)) for pid in others())"
    ),
    "cannot look into others": "all(closed(pid, name) for pid in others() for name in SECRETS_OF_A_PROCESS)",
    "cannot write into others": (
        "all(denied(lambda: os.open(f'/proc/{pid}/{name}', os.O_WRONLY), errno.EPERM, errno.EACCES)"
        " for pid in others() for name in ('mem', 'oom_score_adj', 'comm', 'clear_refs'))"
    ),
    "cannot trace others": "all(refused((101, 117), 16, pid, 0, 0) for pid in others())",
    "cannot read others' memory": "all(refused((310, 270), pid, 0, 0, 0, 0, 0) for pid in others())",
    "cannot take others' descriptors": "all(refused((438, 438), -1, 1, 0) for pid in others())",
    "cannot change others' limits": (
        "all(denied(lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (1, 1))) for pid in others())"
    ),
    "cannot change others' priority": (
        "all(denied(lambda: os.setpriority(os.PRIO_PROCESS, pid, 19)) and"
        " denied(lambda: os.sched_setaffinity(pid, {0})) for pid in others())"
    ),
    "cannot raise its own priority": "denied(lambda: os.setpriority(os.PRIO_PROCESS, 0, -1))",
    # System calls that the kernel refuses (test_seccomp.py has more of them).
    "cannot mount": "refused((165, 40), 0, 0, 0, 0, 0) and refused((166, 39), 0, 0)",
    "cannot make namespaces": "all(refused((272, 97), 1 << bit) for bit in (17, 25, 26, 27, 28, 29, 30))",
    "cannot change its root": "refused((161, 51), 0) and refused((155, 41), 0, 0)",
    "cannot use keys": "refused((250, 219), 0, -3, 0) and refused((248, 217), 0, 0, 0, 0, -3)",
    "cannot run programs in the kernel": "refused((321, 280), 0, 0, 0)",
    "cannot observe the kernel": "refused((298, 241), 0, 0, -1, -1, 0)",
    "cannot handle its own page faults": "refused((323, 282), 1)",
    "cannot use rings": "refused((425, 425), 1, 0)",
    "cannot open special sockets": (
        "all(denied(lambda: socket.socket(*kind), errno.EPERM, errno.EAFNOSUPPORT) for kind in"
        " ((38, 5), (40, 1), (17, 3), (2, 3, 1), (10, 3, 58), (44, 3)))"
    ),
    "cannot load modules or set the clock": "refused((175, 105), 0, 0, 0) and refused((227, 112), 0, 0)",
}
COMMAND_ONLY = {
    "is killed first when memory is short": "open('/proc/self/oom_score_adj').read() == '1000\\n'",
    "does not see its name on the host": "not re.search('[0-9a-f]{64}', open('/proc/self/cgroup').read())",
    "has no network but loopback": "re.findall(r'(\\w+):', open('/proc/net/dev').read()) == ['lo']",
    "has no route": "len(open('/proc/net/route').readlines()) <= 1",
    "can write to its own folders alone": ("writable_folders() == {os.getcwd(), '/tmp', '/dev/shm'}"),
    "has three descriptors": "DESCRIPTORS == {'0', '1', '2', '3'}",
    "reaches no network": (
        "all(denied(lambda: connect(*way), errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)"
        " for way in"
        " ((2, 1, ('1.1.1.1', 53)), (10, 1, ('2606:4700::1111', 53))))"
    ),
}
PROGRAM_ONLY = {
    "can write to its own folders alone": "writable_folders() == {os.getcwd(), '/tmp', '/dev/shm'}",
    "reads nothing of others": (
        "all(denied(lambda: open(f'/proc/{pid}/{name}')) for pid in others() for name in"
        " ('status', 'stat', 'statm', 'schedstat', 'cmdline', 'limits', 'oom_score', f'task/{pid}/stat'))"
        " if confined() else True"
    ),
    "reads no counter of its container": (
        "all(denied(lambda: open(path)) for path in ('/proc/loadavg', '/proc/stat', '/proc/meminfo',"
        " '/proc/net/unix', '/proc/self/net/unix')) and not any(map("
        "os.path.exists, ('/proc/sysvipc/shm', '/proc/sys/fs/inode-nr', '/sys/devices/system')))"
        " and denied(lambda: os.listdir('/sys/fs/cgroup')) if confined() else True"
    ),
    "is still killed first when memory is short": (
        "denied(lambda: open('/proc/self/oom_score_adj', 'w')) if confined() else True"
    ),
    "has three descriptors and a channel": "len(DESCRIPTORS) == 5",
    "sees its tests, PID 1 and the spawners": "len(others()) == 4",
    "has no network at all": (
        "all(denied(lambda: socket.socket(family), errno.EAFNOSUPPORT) for family in (2, 10, 16))"
    ),
    "has nothing of System V": (
        "all(refused(numbers, 1, 1, 0o1600) for numbers in ((29, 194), (64, 190), (68, 186)))"
    ),
}
PLACES = {
    "command": EVERYWHERE | COMMAND_ONLY,
    "command in a grader": EVERYWHERE | COMMAND_ONLY,
    "program": EVERYWHERE | PROGRAM_ONLY,
}
RUN = """
import json
def outcome(expression):
    try:
        return eval(expression) is True or f"{expression} is not True"[:300]
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
print(json.dumps([outcome(expression) for expression in json.loads(EXPRESSIONS)]), flush=True)
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def outcomes(backend: DockerBackend) -> dict[str, dict[str, object]]:
    """Return for each place the value of each of its expressions: True, or the actual state."""
    return {place: await outcomes_of(backend, place) for place in PLACES}


async def outcomes_of(backend: DockerBackend, place: str) -> dict[str, object]:
    program = f"EXPRESSIONS = {json.dumps(list(PLACES[place].values()))!r}\n{TOOLS}{RUN}"
    profile: ProfileName = "default" if place == "command" else "strict"
    async with Sandbox.open("python", backend=backend, seccomp=profile) as sandbox:
        if place == "program":
            await sandbox.exec(["true"])  # From now on the agent has a folder.
            said = (await run_tests(sandbox, program=program, statements=["pass"], exports={})).stdout
        else:
            async with neighbour(sandbox):
                said = (await asyncio.create_task(sandbox.exec(["python3", "-c", program]))).stdout
    return dict(zip(PLACES[place], json.loads(said.data), strict=True))


@contextlib.asynccontextmanager
async def neighbour(sandbox: Sandbox) -> AsyncIterator[None]:
    """Run a program under tests during the block. Its request goes out before those of later tasks."""
    running = asyncio.create_task(
        run_tests(sandbox, program="import time; time.sleep(60)", statements=["pass"], exports={})
    )
    try:
        yield
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


@each_case(("place", "name"), [(place, name) for place in PLACES for name in PLACES[place]])
async def test_an_expression_holds_in_a_job(
    outcomes: dict[str, dict[str, object]], place: str, name: str
) -> None:
    assert outcomes[place][name] is True
