"""Cases that every backend must pass, about commands, their output and files in a sandbox.

Each case is a function of a sandbox. It returns a pair: the observed value and the expected value. All cases
of a group may share a sandbox, because each of them leaves it as it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import signal
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from harness.core.errors import UsageError
from harness.sandbox.layout import TEMPORARY_FOLDER
from harness.sandbox.limits import MIB, Limits
from harness.sandbox.results import ExecResult
from harness.sandbox.sandbox import Sandbox
from harness.sandbox.selfcheck.check import Finding, Level

Case = Callable[[Sandbox], Awaitable[tuple[object, object]]]

# The wall limit is wide, because a busy machine may take long to give a job its second of CPU time.
LIMITS = Limits(
    cpu_seconds=1, wall_seconds=120, memory_mb=192, processes=24, output_mb=1, disk_mb=4, file_mb=2
)
# A program that prints every other process of its user. A zombie whose threads live counts.
OTHERS = """
import os
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        with open(f"/proc/{pid}/status") as file:
            status = dict(line.split(":", 1) for line in file)
    except OSError:
        continue
    ended = status["State"].split()[0] == "Z" and int(status["Threads"]) <= 1
    if str(os.getuid()) in status["Uid"].split() and int(pid) != os.getpid() and not ended:
        print(pid, status["Name"].strip())
"""


async def _shell(sandbox: Sandbox, script: str, **options: Any) -> ExecResult:
    return await sandbox.exec(["sh", "-c", script], **options)


async def _python(sandbox: Sandbox, program: str, **options: Any) -> ExecResult:
    return await sandbox.exec(["python3", "-c", program], **options)


async def _refuses(call: Awaitable[object]) -> bool:
    """Return whether a call raises UsageError."""
    try:
        await call
    except UsageError:
        return True
    return False


async def streams(sandbox: Sandbox) -> tuple[object, object]:
    """Check that a command's stdout and stderr arrive separately."""
    result = await _shell(sandbox, "echo out; echo err >&2")
    return (result.stdout.data, result.stderr.data), (b"out\n", b"err\n")


async def exit_codes(sandbox: Sandbox) -> tuple[object, object]:
    """Check that the exit code is the command's."""
    codes = (0, 1, 255)
    return [(await _shell(sandbox, f"exit {code}")).exit_code for code in codes], list(codes)


async def signals(sandbox: Sandbox) -> tuple[object, object]:
    """Check that a signal is a negative exit code, and no limit."""
    result = await _shell(sandbox, "kill -SEGV $$")
    return (result.exit_code, result.limit), (-signal.SIGSEGV, None)


async def stdin(sandbox: Sandbox) -> tuple[object, object]:
    """Check that a mebibyte of any bytes arrives whole."""
    data = bytes(range(256)) * 4096
    result = await sandbox.exec(["sha256sum"], stdin=data)
    return str(result.stdout).split()[:1], [hashlib.sha256(data).hexdigest()]


async def environment(sandbox: Sandbox) -> tuple[object, object]:
    """Check that a command gets its environment variables."""
    return str((await _shell(sandbox, 'echo "$GIVEN"', env={"GIVEN": "a b"})).stdout), "a b\n"


async def folder(sandbox: Sandbox) -> tuple[object, object]:
    """Check that a command starts in the requested folder."""
    return str((await sandbox.exec(["pwd"], cwd=TEMPORARY_FOLDER)).stdout), f"{TEMPORARY_FOLDER}\n"


async def unknown_command(sandbox: Sandbox) -> tuple[object, object]:
    """Check that a command that cannot be found ends with 127."""
    return (await sandbox.exec(["no-such-command"])).exit_code, 127


async def no_command(sandbox: Sandbox) -> tuple[object, object]:
    """Check that an empty command, and one with a NUL byte, are refused."""
    return [await _refuses(sandbox.exec(argv)) for argv in ([], ["a\0b"])], [True, True]


async def commands_at_once(sandbox: Sandbox) -> tuple[object, object]:
    """Check that each of several commands at once gets its own answer."""
    results = await asyncio.gather(*(sandbox.exec(["echo", str(number)]) for number in range(8)))
    return [str(result.stdout) for result in results], [f"{number}\n" for number in range(8)]


async def threads_and_processes(sandbox: Sandbox) -> tuple[object, object]:
    """Check that a program can start threads and processes."""
    program = (
        "import subprocess, threading\n"
        "thread = threading.Thread(target=print, args=('thread',), kwargs={'flush': True})\n"
        "thread.start(); thread.join()\n"
        "subprocess.run(['echo', 'process'], check=True)"
    )
    return str((await _python(sandbox, program)).stdout), "thread\nprocess\n"


async def stream_by_name(sandbox: Sandbox) -> tuple[object, object]:
    """Check that a program can open its stdout by name."""
    return (await _shell(sandbox, "echo out > /dev/stdout")).stdout.data, b"out\n"


async def any_bytes(sandbox: Sandbox) -> tuple[object, object]:
    """Check that bytes that are not text arrive unchanged."""
    return (await _python(sandbox, "import os; os.write(1, bytes(range(256)))")).stdout.data, bytes(
        range(256)
    )


async def long_output(sandbox: Sandbox) -> tuple[object, object]:
    """Check that head, tail and length of a long output are kept."""
    kept = (await _python(sandbox, "print('a' * 50_000 + 'b' * 50_000, end='')", keep_bytes=10)).stdout
    return (kept.head, kept.tail, kept.total), (b"aaaaa", b"bbbbb", 100_000)


async def full_streams(sandbox: Sandbox) -> tuple[object, object]:
    """Check that a program does not block when both streams are full."""
    program = "import os\nfor _ in range(99): os.write(1, b'o' * 999); os.write(2, b'e' * 999)"
    result = await _python(sandbox, program)
    return (result.stdout.total, result.stderr.total, result.limit), (98_901, 98_901, None)


async def files(sandbox: Sandbox) -> tuple[object, object]:
    """Check that files are read as they were written: an empty one, a binary one, and one of a mebibyte."""
    contents = [b"", b"\0\xff\r\n", bytes(MIB)]
    found = []
    for data in contents:
        await sandbox.write_file("some/folder/file", data)
        found.append(await sandbox.read_file("some/folder/file") == data)
    return found, [True, True, True]


async def modes(sandbox: Sandbox) -> tuple[object, object]:
    """Check that a file has the requested mode."""
    await sandbox.write_file("script", b"#!/bin/sh\necho ran\n", mode=0o755)
    return str((await sandbox.exec(["./script"])).stdout), "ran\n"


async def links(sandbox: Sandbox) -> tuple[object, object]:
    """Check that links are followed neither to read nor to write."""
    await _shell(sandbox, "ln -s /etc/passwd link")
    refused = [await _refuses(sandbox.read_file("link")), await _refuses(sandbox.write_file("link", b""))]
    await _shell(sandbox, "rm link")
    return refused, [True, True]


async def unreadable_files(sandbox: Sandbox) -> tuple[object, object]:
    """Check that missing, irregular and unreadable files are refused."""
    paths = ("no-such-file", "/tmp", "/dev/zero", "/etc/shadow")
    return [path for path in paths if not await _refuses(sandbox.read_file(path))], []


async def image_files(sandbox: Sandbox) -> tuple[object, object]:
    """Check that no file of the image can be written."""
    paths = ("/new", "/etc/passwd", "/usr/bin/python3")
    return [path for path in paths if not await _refuses(sandbox.write_file(path, b""))], []


async def large_files(sandbox: Sandbox) -> tuple[object, object]:
    """Check that a file over the limit of a read is refused."""
    await sandbox.write_file("large", bytes(1001))
    return await _refuses(sandbox.read_file("large", limit=1000)), True


async def limits_of_jobs(sandbox: Sandbox) -> tuple[object, object]:
    """Check that a job that reaches a limit reports its name, and that the sandbox goes on, clean."""
    programs = {
        "cpu_seconds": "while True: pass",
        "output_mb": "print('x' * (9 << 20))",
        "processes": (
            "import threading, time\n"
            "for _ in range(60): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
            "time.sleep(600)"
        ),
    }
    found = [(await _python(sandbox, program)).limit for program in programs.values()]
    alive = str((await sandbox.exec(["echo", "alive"])).stdout)
    return (found, alive, sandbox.clean), (list(programs), "alive\n", True)


async def timeouts(sandbox: Sandbox) -> tuple[object, object]:
    """Check that a timeout ends a waiting job that ignores SIGTERM."""
    return (await _shell(sandbox, "trap '' TERM; sleep 600", timeout=0.3)).limit, "wall_seconds"


async def background_jobs(sandbox: Sandbox) -> tuple[object, object]:
    """Check that the end of a command ends all of its processes."""
    await _shell(sandbox, "for n in 1 2 3; do setsid sh -c 'trap \"\" TERM; sleep 600' & done; sleep 0.2")
    return str((await _python(sandbox, OTHERS)).stdout), ""


async def leaderless_processes(sandbox: Sandbox) -> tuple[object, object]:
    """Check that the end of a command ends a process whose first thread has already ended."""
    program = (
        "import ctypes, os, threading, time\n"
        "read, write = os.pipe()\n"
        "if os.fork() == 0:\n"
        " threading.Thread(target=lambda: (os.write(write, b'x'), time.sleep(600))).start()\n"
        " ctypes.CDLL(None).pthread_exit(None)\n"
        "os.read(read, 1)"
    )
    await _python(sandbox, program)
    return str((await _python(sandbox, OTHERS)).stdout), ""


async def kills(sandbox: Sandbox) -> tuple[object, object]:
    """Check that a command that kills every process it can kills only itself."""
    await _python(sandbox, "import os; os.kill(-1, 9)")
    return str((await sandbox.exec(["echo", "alive"])).stdout), "alive\n"


async def cancelled_commands(sandbox: Sandbox) -> tuple[object, object]:
    """Check that a cancelled command is killed."""
    running = asyncio.create_task(_shell(sandbox, "echo > /tmp/started; exec sleep 600"))
    try:
        await _shell(sandbox, "until test -e /tmp/started; do sleep 0.02; done")
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
    return str((await _python(sandbox, OTHERS)).stdout), ""


async def privileges(sandbox: Sandbox) -> tuple[object, object]:
    """Check that a job is not root and cannot become root."""
    program = "import os\nprint(os.getuid() != 0)\ntry: os.setuid(0)\nexcept OSError: print('refused')"
    return str((await _python(sandbox, program)).stdout), "True\nrefused\n"


async def memory_of_the_guest(sandbox: Sandbox) -> tuple[object, object]:
    """Check that jobs cannot read the memory of PID 1."""
    return (await _shell(sandbox, "head -c 1 /proc/1/mem")).stdout.total, 0


async def environment_of_the_guest(sandbox: Sandbox) -> tuple[object, object]:
    """Check that jobs cannot read the environment of PID 1."""
    return await _refuses(sandbox.read_file("/proc/1/environ")), True


async def priority_of_the_guest(sandbox: Sandbox) -> tuple[object, object]:
    """Check that a job cannot slow PID 1 down."""
    result = await _python(sandbox, "import os; os.setpriority(os.PRIO_PROCESS, 1, 19)")
    return "Error" in str(result.stderr), True


async def devices(sandbox: Sandbox) -> tuple[object, object]:
    """Check that a job cannot make a device."""
    program = "import os, stat\nos.mknod('/tmp/device', 0o600 | stat.S_IFBLK, os.makedev(8, 0))"
    result = await _python(sandbox, program)
    await sandbox.exec(["rm", "-f", "/tmp/device"])
    return "Error" in str(result.stderr), True


GROUPS: Mapping[str, tuple[Case, ...]] = {
    "commands": (
        streams,
        exit_codes,
        signals,
        stdin,
        environment,
        folder,
        unknown_command,
        no_command,
        commands_at_once,
        threads_and_processes,
        stream_by_name,
    ),
    "output": (any_bytes, long_output, full_streams),
    "files": (files, modes, links, unreadable_files, image_files, large_files),
    "ends of jobs": (
        limits_of_jobs,
        timeouts,
        background_jobs,
        leaderless_processes,
        kills,
        cancelled_commands,
    ),
    "guest": (privileges, memory_of_the_guest, environment_of_the_guest, priority_of_the_guest, devices),
}


async def try_group(sandbox: Sandbox, group: str) -> Finding:
    """Try the cases of a group one after the other; return a finding that names those that do not hold."""
    broken = []
    for case in GROUPS[group]:
        found, wanted = await case(sandbox)
        if found != wanted:
            broken.append(f"{name_of(case)}: {found!r:.200}, expected {wanted!r:.200}")
    if broken:
        return Finding(Level.FAIL, "; ".join(broken))
    return Finding(Level.OK, f"{', '.join(map(name_of, GROUPS[group]))}")


def name_of(case: Case) -> str:
    """Return the name of a case in words."""
    return getattr(case, "__name__", "").replace("_", " ")
