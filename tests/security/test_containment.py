"""Several programs are graded in one container, and none finds a trace of the one before it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from case_checks import each_case

from harness import Sandbox
from harness.environments.python.client import TestReport, run_tests
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.limits import Limits

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(60)]

LIMITS = Limits(wall_seconds=5, disk_mb=16, inodes=2000, processes=64)

# Traces that a program can leave. Each is left before the test ends, so that nothing depends on speed.
LEFT = {
    "file in the temporary folder": "open('/tmp/left', 'w').write('x')",
    "hidden file": "open('/tmp/.left', 'w').write('x')",
    "file in shared memory": "open('/dev/shm/left', 'w').write('x')",
    "file in its own folder": "open('left', 'w').write('x')",
    "message queue": (
        "try: os.close(os.open('/dev/mqueue/left', os.O_CREAT | os.O_RDWR, 0o666))\n"
        "except PermissionError: pass"
    ),
    "semaphore": "from _multiprocessing import SemLock\nSemLock(0, 1, 1, '/left', False)",
    "shared memory": "keep = shared_memory.SharedMemory('left', create=True, size=100)",
    "closed folder": "os.mkdir('/tmp/left'); open('/tmp/left/inner', 'w'); os.chmod('/tmp/left', 0)",
    "read-only file": "open('/tmp/left', 'w'); os.chmod('/tmp/left', 0o400)",
    "file for everyone": "open('/tmp/left', 'w'); os.chmod('/tmp/left', 0o666)",
    "link": "os.symlink('/etc/passwd', '/tmp/left')",
    "hard links": "open('/tmp/left', 'w'); os.link('/tmp/left', '/tmp/other')",
    "named pipe": "os.mkfifo('/tmp/left')",
    "named socket": "socket.socket(socket.AF_UNIX).bind('/tmp/left')",
    "abstract socket": "keep = socket.socket(socket.AF_UNIX); keep.bind('\\0left'); keep.listen()",
    "odd names": "[open(b'/tmp/' + name, 'w') for name in (b'a\\nb', b'\\xff', b' ', b'-rf', b'x' * 255)]",
    "many files": "[open(f'/tmp/left{number}', 'w') for number in range(200)]",
    "many folders": "os.makedirs('/tmp/left/' + '/'.join('d' * 200))",
    "whole disk": "open('/tmp/left', 'wb').write(bytes(15 << 20))",
    "open file without a name": "keep = open('/tmp/x', 'wb'); keep.write(bytes(9999)); os.unlink('/tmp/x')",
    "working folder elsewhere": "os.mkdir('/tmp/left'); os.chdir('/tmp/left')",
    "daemon": "if os.fork() == 0: stay()",
    "daemon in a session of its own": (
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork(): os._exit(0)\n    stay()"
    ),
    "daemon that listens": (
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    keep = socket.socket(socket.AF_UNIX); keep.bind('\\0left'); keep.listen(); stay()"
    ),
    "daemon that is stopped": "if os.fork() == 0: os.kill(os.getpid(), signal.SIGSTOP)",
    "daemon that ignores signals": (
        "if os.fork() == 0:\n"
        "    [signal.signal(n, signal.SIG_IGN) for n in range(1, 32) if n not in (9, 19)]; stay()"
    ),
    "daemon that writes": "if os.fork() == 0:\n    while True: open('/tmp/left', 'a').write('x')",
    "daemons until no more fit": (
        "try:\n    while True:\n        if os.fork() == 0: stay()\nexcept OSError: pass"
    ),
    "daemon whose first thread has ended": (
        "ended, end = os.pipe()\n"
        "def outlive(thread):\n"
        "    libc.pthread_join(ctypes.c_ulong(thread), None); os.write(end, b'x'); stay()\n"
        "if os.fork() == 0:\n"
        "    threading.Thread(target=outlive, args=(threading.get_ident(),)).start()\n"
        "    libc.pthread_exit(None)\n"
        "os.read(ended, 1)"
    ),
    "another program": "subprocess.Popen(['sleep', '600'], start_new_session=True)",
    "pseudo-terminal": "keep = os.open('/dev/ptmx', os.O_RDWR)",
    "lock": "keep = open('/etc/passwd'); fcntl.flock(keep, fcntl.LOCK_SH)",
    "System V memory": "libc.shmget(0x1234, 4096, 0o1666)",
    "System V semaphore": "libc.semget(0x1234, 1, 0o1666)",
    "System V queue": "libc.msgget(0x1234, 0o1666)",
    "key": "libc.syscall(248, b'user', b'left', b'x', 1, -4)",
    "key of the user": "libc.syscall(248, b'user', b'left', b'x', 1, -5)",
    "time of the temporary folder": "os.utime('/tmp')",
    "modules and environment": "sys.modules['left'] = sys; os.environ['LEFT'] = 'x'; os.umask(0)",
    "limits": "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20)); os.nice(19)",
    "patched interpreter": "builtins.print = None; sys.path[:] = []; sys.setrecursionlimit(50)",
}
LEAVE = """
import builtins, ctypes, fcntl, multiprocessing, os, signal, socket, subprocess, sys, threading, time
from multiprocessing import shared_memory, resource_tracker
resource_tracker.register = lambda *_: None
libc = ctypes.CDLL(None)
def stay():
    while True: time.sleep(600)
def leave():
    global keep
{body}
    return True
"""

# The observations of the next program. All of them are the same for a program that comes first.
LOOK = """
import ctypes, fcntl, json, os, socket, sys

def processes():
    found = []
    for pid in range(1, 33_000):
        try:
            os.kill(pid, 0)
        except PermissionError:
            found.append("another's")
        except ProcessLookupError:
            continue
        else:
            found.append("mine")
    return sorted(found)

def listing(folder):
    return sorted(os.listdir(folder))

def used(folder):
    facts = os.statvfs(folder)
    return [facts.f_blocks - facts.f_bfree, facts.f_files - facts.f_ffree]

def connects(address):
    try:
        socket.socket(socket.AF_UNIX).connect(address)
        return True
    except OSError:
        return False

def look():
    libc = ctypes.CDLL(None)
    return json.dumps({
        "processes": processes(),
        "files": {folder: listing(folder) for folder in ("/tmp", "/dev/shm", "/dev/mqueue", ".", "/dev/pts")},
        "folders": [name for name in listing("/work") if name != os.path.basename(os.getcwd())],
        "used": {folder: used(folder) for folder in ("/tmp", "/dev/shm", "/work")},
        "abstract socket": connects("\\0left"),
        "System V": [libc.shmget(0x1234, 0, 0), libc.semget(0x1234, 0, 0), libc.msgget(0x1234, 0)],
        "key": libc.syscall(250, 10, -5, b"user", b"left", 0),
        "lock": fcntl.flock(open("/etc/passwd"), fcntl.LOCK_EX | fcntl.LOCK_NB),
        "environment": sorted(set(os.environ) - {"HOME"}),
        "modules": "left" in sys.modules,
        "interpreter": [sys.getrecursionlimit(), len(sys.path), os.umask(0o022), os.nice(0)],
        "descriptors": len(os.listdir("/proc/self/fd")),
    })
print(look(), flush=True)
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    async with Sandbox.open("python", backend=backend, limits=LIMITS, seccomp="strict") as sandbox:
        yield sandbox


async def look(sandbox: Sandbox) -> object:
    report = await run_tests(sandbox, program=LOOK, statements=["pass"], exports={})
    assert report.results == (True,), report.evidence
    return json.loads(report.stdout.data)


async def leave(sandbox: Sandbox, body: str) -> TestReport:
    indented = "\n".join(f"    {line}" for line in body.splitlines())
    return await run_tests(
        sandbox,
        program=LEAVE.format(body=indented),
        statements=["leave()"],
        exports={"leave": "leave"},
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def untouched(backend: DockerBackend) -> object:
    """Return the observations of a program that comes first in its container."""
    async with Sandbox.open("python", backend=backend, limits=LIMITS, seccomp="strict") as fresh:
        return await look(fresh)


async def test_a_first_program_is_alone_with_its_tests(untouched: dict[str, object]) -> None:
    # PID 1, the spawners, the tests, and the program itself.
    assert untouched["processes"] == ["another's"] * 4 + ["mine"]


@pytest.mark.parametrize("what", LEFT)
async def test_the_next_program_observes_the_same_as_a_first_one(
    sandbox: Sandbox, untouched: object, what: str
) -> None:
    report = await leave(sandbox, LEFT[what])
    assert (report.results, report.clean) == ((True,), True), report.evidence
    assert await look(sandbox) == untouched


async def test_a_program_that_is_ended_by_a_limit_leaves_nothing(sandbox: Sandbox, untouched: object) -> None:
    body = (
        "open('/tmp/left', 'w')\nfor _ in range(20):\n    if os.fork() == 0: os.setsid(); stay()\nos._exit(0)"
    )
    assert (await leave(sandbox, body)).clean
    assert await look(sandbox) == untouched


CHAINS = """
read, write = os.pipe()
for _ in range(4):
    if os.fork() == 0:
        os.setsid()
        os.write(write, b"x")
        while True:
            if os.fork(): os._exit(0)
for _ in range(4): os.read(read, 1)
"""


async def test_chains_of_forks_do_not_reach_the_next_program(backend: DockerBackend) -> None:
    program = (
        "import os\n"
        "def others():\n"
        "    found = set()\n"
        "    for _ in range(2):\n"
        "        for pid in range(1, 33_000):\n"
        "            try: os.kill(pid, 0)\n"
        "            except PermissionError: found.add(pid)\n"
        "            except ProcessLookupError: pass\n"
        "    return len(found)\n"
    )
    async with Sandbox.open("python", backend=backend, limits=LIMITS, seccomp="strict") as own:
        followed = 0
        while followed < 15 and (await leave(own, CHAINS)).clean:
            report = await run_tests(
                own, program=program, statements=["assert others() == 4"], exports={"others": "others"}
            )
            assert report.results == (True,), report.evidence
            followed += 1
    # On a loaded machine a chain may not be ended in time. No program follows in such a sandbox.
    assert followed > 0


async def test_a_grading_that_is_cancelled_leaves_nothing(backend: DockerBackend, untouched: object) -> None:
    body = "open('/tmp/left', 'w')\nfor _ in range(5):\n    if os.fork() == 0: stay()\nstay()"
    limits = LIMITS.model_copy(update={"wall_seconds": 170})
    async with Sandbox.open("python", backend=backend, limits=limits, seccomp="strict") as own:
        grading = asyncio.create_task(leave(own, body))
        while await look(own) == untouched:
            pass  # The grading has not begun yet.
        grading.cancel()
        await asyncio.wait([grading])
        async with asyncio.timeout(60):  # This is less than the grading would have taken.
            while await look(own) != untouched:
                pass


async def test_a_program_cannot_wait_for_the_next_one(sandbox: Sandbox) -> None:
    """A child that watches for the next program's folder would have to live on."""
    body = "if os.fork() == 0:\n    while True: open('/tmp/' + '-'.join(os.listdir('/work')), 'w')"
    await leave(sandbox, body)
    for _ in range(5):
        report = await run_tests(
            sandbox,
            program="import os\ndef seen(): return os.listdir('/tmp')\n",
            statements=["assert seen() == []"],
            exports={"seen": "seen"},
        )
        assert report.results == (True,), report.evidence


@each_case(
    "body",
    [
        pytest.param(
            "os.chdir('/tmp')\nfor _ in range(1500): os.mkdir('d'); os.chdir('d')", id="deeper than any path"
        ),
    ],
)
async def test_a_container_with_files_that_cannot_be_removed_is_not_used_again(
    backend: DockerBackend, body: str
) -> None:
    async with Sandbox.open("python", backend=backend, limits=LIMITS, seccomp="strict") as own:
        report = await leave(own, body)
        looked = await run_tests(
            own,
            program="import os\ndef left(): return os.listdir('/tmp')\n",
            statements=["assert left() == []"],
            exports={"left": "left"},
        )
        assert looked.results == (True,) or not (report.clean or own.clean)


async def test_programs_graded_at_once_do_not_see_each_others_files(sandbox: Sandbox) -> None:
    program = (
        "import os, time\n"
        "open('mine', 'w').write('x')\n"
        "def others():\n"
        "    found = []\n"
        "    for name in os.listdir('/work'):\n"
        "        if os.path.join('/work', name) != os.getcwd():\n"
        "            try: found += os.listdir(os.path.join('/work', name))\n"
        "            except (PermissionError, FileNotFoundError): pass\n"
        "    return found\n"
    )
    reports = await asyncio.gather(
        *(
            run_tests(
                sandbox, program=program, statements=["assert others() == []"], exports={"others": "others"}
            )
            for _ in range(8)
        )
    )
    assert [report.results for report in reports] == [(True,)] * 8
