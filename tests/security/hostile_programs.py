"""Hostile programs as data: each with its source, the effects that it must not have, and its required end.

A `Command` is run as an agent's, a `Candidate` is submitted and graded, and a `Booty` is a file that an agent
leaves for the host to read. `test_hostile_programs` runs them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from effort import THOROUGH

from harness.core.types import Status
from harness.sandbox.limits import Limits

LIMITS = Limits(
    # Programs that attack the network may have sockets.
    uncounted_sockets=True,
    cpu_seconds=1,
    wall_seconds=30,
    memory_mb=128,
    processes=32,
    output_mb=1,
    disk_mb=8,
    inodes=200,
    file_mb=4,
    open_files=64,
)
# Limits for candidates that wait. Their time ends with that of the sandbox.
HASTY = LIMITS.model_copy(update={"cpu_seconds": 5, "wall_seconds": 1.0})
# The timeout in seconds of commands that wait.
SOON = 0.5
# Three writable folders of this size exceed the memory.
ROOMY = Limits(memory_mb=64, disk_mb=64, wall_seconds=30)
# The largest possible file.
VAST = LIMITS.model_copy(update={"file_mb": 65536})

# Every program here starts with this. `tell` prints the end of an attempt; `works` returns whether it
# succeeds. A missing object counts as a refusal, because kernels and engines differ in the objects that they
# have.
TOOLS = """
import ctypes, errno, mmap, os, signal, socket, stat, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
REFUSED = (errno.EPERM, errno.EACCES, errno.EROFS, errno.ENOENT)
def outcome(attempt):
    try: attempt()
    except OSError as error:
        return "refused" if error.errno in REFUSED else errno.errorcode.get(error.errno, repr(error))
    return "done"
def tell(*attempts):
    for attempt in attempts: print(outcome(attempt), flush=True)
def works(attempt):
    return outcome(attempt) == "done"
def call(x86, arm, *arguments):
    ctypes.set_errno(0)
    number = x86 if os.uname().machine == "x86_64" else arm
    if libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments)) == -1:
        raise OSError(ctypes.get_errno(), "")
def write(path, data=b"x"):
    with open(path, "wb") as file: file.write(data)
def others():
    return [pid for pid in range(1, 1000) if pid != os.getpid() and os.path.exists(f"/proc/{pid}")]
def stay():
    while True: time.sleep(600)
def until_refused(step):
    try:
        while True: step()
    except OSError as error: return errno.errorcode[error.errno]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """An agent's command: a Python program that follows `TOOLS`.

    It ends by `limit`, or by itself after it has printed `says`. If it `spoils` the agent's folders, which it
    may, no other program uses them afterwards.
    """

    program: str
    never: str
    limit: str | None = None
    says: bytes = b""
    seconds: float | None = None
    limits: Limits = LIMITS
    spoils: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A submitted program. Its `body` runs in a call by the tests, or `at_load`.

    It answers wrongly, unless it has set `won`, which reports that it achieved a forbidden effect.
    """

    body: str
    never: str
    status: Status
    limit: str | None = None
    at_load: bool = False
    limits: Limits = LIMITS

    @property
    def program(self) -> str:
        lines = self.body.splitlines()
        in_load, in_call = (lines, []) if self.at_load else ([], lines)
        return "\n".join(
            [
                TOOLS,
                "won = False",
                *in_load,
                "def f(x):",
                "    global won",
                *(f"    {line}" for line in in_call),
                "    return x * (2 if won else 3)",
            ]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Booty:
    """A file that `program` leaves at `path` for the host. It is refused, or has `size` bytes."""

    program: str
    path: str
    never: str
    refused: str | None = None
    size: int | None = None
    limits: Limits = LIMITS


BUSY = "while True: pass"
HOG = "hog = []\nwhile True: hog.append(bytearray(b'x' * (1 << 20)))"
FORKS = "while True:\n    if os.fork() == 0: stay()"
THREADS = "while True: threading.Thread(target=time.sleep, args=(600,), daemon=True).start()"
DEAF = "for n in set(signal.Signals) - {9, 19}: signal.signal(n, signal.SIG_IGN)\n"
SHARED = "maps = []\nwhile True: maps.append(mmap.mmap(-1, 1 << 20)); maps[-1].write(bytes(b'x' * (1 << 20)))"
# A command that ends as soon as the process that it started reports that it runs.
LEADER = """
out, ready = os.pipe()
def live():
    os.write(ready, b"x"); stay()
{start}
os.read(out, 1); print("early", flush=True)
"""
DAEMONS = {
    "child": "if os.fork() == 0: live()",
    "daemon in a session of its own": "if os.fork() == 0: os.setsid(); live()",
    "daemon of two forks": "if os.fork() == 0:\n    os.setsid()\n    if os.fork(): os._exit(0)\n    live()",
    "daemon in a group of its own": "if os.fork() == 0: os.setpgid(0, 0); live()",
    "daemon that ignores signals": f"if os.fork() == 0:\n    {DEAF}    live()",
    "daemon that is stopped": (
        "if os.fork() == 0: os.write(ready, b'x'); os.kill(os.getpid(), signal.SIGSTOP)"
    ),
    "daemon that has let go of all": (
        "if os.fork() == 0:\n    for number in (0, 1, 2): os.close(number)\n    os.chdir('/'); live()"
    ),
    "daemon of another program": "os.posix_spawn('/bin/sleep', ['sleep', '600'], {}); os.write(ready, b'x')",
    "daemon whose first thread has ended": (
        "if os.fork() == 0:\n    threading.Thread(target=live).start(); libc.pthread_exit(None)"
    ),
    "daemon that writes on and on": (
        "if os.fork() == 0:\n"
        "    os.setsid(); os.write(ready, b'x')\n"
        "    while True: os.write(2, b'late'); time.sleep(0.001)"
    ),
    "many daemons": "for _ in range(20):\n    if os.fork() == 0: os.setsid(); live()",
}

TIME: Mapping[str, Command] = {
    "busy loop": Command(program=BUSY, never="more CPU time than its limit", limit="cpu_seconds"),
    "busy loop that ignores the warning": Command(
        program=DEAF + BUSY, never="more CPU time than its limit", limit="cpu_seconds"
    ),
    "busy loop in a child of a shell": Command(
        program="os.execvp('sh', ['sh', '-c', '(while :; do :; done); exit $?'])",
        never="a limit that is taken for an exit code",
        limit="cpu_seconds",
    ),
    "busy crowd": Command(
        program=f"for _ in range(20):\n    if os.fork() == 0: os.setsid(); break\n{BUSY}",
        never="time, since CPU time is counted for each process",
        limit="wall_seconds",
        seconds=SOON,
    ),
    "sleep": Command(
        program="time.sleep(600)", never="more time than its limit", limit="wall_seconds", seconds=SOON
    ),
    "sleep that ignores signals": Command(
        program=DEAF + "time.sleep(600)", never="a life after SIGTERM", limit="wall_seconds", seconds=SOON
    ),
    "wait for standard input": Command(
        program="tell(lambda: print(sys.stdin.read() == ''))",
        never="a wait for input that nobody sends",
        says=b"True\ndone\n",
    ),
    "wait for a terminal": Command(
        program="tell(lambda: os.open('/dev/tty', os.O_RDWR))",
        never="a terminal to ask",
        says=b"ENXIO\n",
    ),
    "wait for itself": Command(
        program="os.read(os.pipe()[0], 1)", never="a deadlock", limit="wall_seconds", seconds=SOON
    ),
    "stop of itself": Command(
        program="os.kill(os.getpid(), signal.SIGSTOP)",
        never="a process that no signal but SIGKILL ends",
        limit="wall_seconds",
        seconds=SOON,
    ),
    "first thread that ends": Command(
        program="threading.Thread(target=stay).start()\nlibc.pthread_exit(None)",
        never="threads that live on behind a zombie",
        limit="wall_seconds",
        seconds=SOON,
    ),
}

PROCESSES: Mapping[str, Command] = {
    "fork bomb": Command(program=FORKS, never="more processes than its limit", limit="processes"),
    "fork bomb that never gives up": Command(
        program="while True:\n    try: os.fork()\n    except OSError: pass",
        never="to outrun its own end",
        limit="wall_seconds",
        seconds=SOON,
    ),
    "thread bomb": Command(program=THREADS, never="more threads than its limit", limit="processes"),
    **{
        name: Command(
            program=LEADER.format(start=start),
            never="a process that outlives its command, or a host that waits for the end of a pipe",
            says=b"early\n",
        )
        for name, start in DAEMONS.items()
    },
    "stop of its parent and of PID 1": Command(
        program="tell(*(lambda pid=pid: os.kill(pid, signal.SIGSTOP) for pid in others()))",
        never="a guest that answers no more",
        says=b"refused\n" * 3,
    ),
    "kill of all": Command(
        program="for n in (15, 9, 9): outcome(lambda: os.kill(-1, n))\n"
        "print([pid for pid in others() if works(lambda: os.kill(pid, 9))], 'alive')",
        never="the death of PID 1 or of a spawner",
        says=b"[] alive\n",
    ),
}

MEMORY: Mapping[str, Command] = {
    "memory that is touched": Command(program=HOG, never="more memory than its limit", limit="memory_mb"),
    "memory of a child": Command(
        program=f"if os.fork(): os._exit(os.wait()[1])\n{HOG}",
        never="a limit that is taken for an exit code",
        limit="memory_mb",
    ),
    "memory of shared mappings": Command(
        program=SHARED, never="memory that nobody is charged for", limit="memory_mb"
    ),
    "memory of files without a name": Command(
        program="keep = []\nwhile True:\n"
        "    keep.append(os.memfd_create('x')); os.write(keep[-1], b'x' * (4 << 20))",
        never="memory that nobody is charged for",
        limit="memory_mb",
    ),
    "memory that is paged out": Command(
        program="keep = []\nwhile True:\n"
        "    keep.append(mmap.mmap(-1, 1 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))\n"
        "    keep[-1].write(b'x' * (1 << 20)); keep[-1].madvise(21)",
        never="swap in place of memory",
        limit="memory_mb",
    ),
    "memory of a crowd that volunteers others": Command(
        program="write('/proc/self/oom_score_adj', b'0')\nfd = os.memfd_create('x')\n"
        "for _ in range(20):\n    if os.fork() == 0: break\nwhile True: os.write(fd, bytes(100000))",
        never="a dead PID 1 that is taken for a fault of ours",
        limit="memory_mb",
        limits=ROOMY,
        spoils=True,
    ),
    "memory of System V segments": Command(
        program="libc.shmat.restype = ctypes.c_void_p\nwhile True:\n"
        "    segment = libc.shmget(0, 1 << 22, 0o1600)\n"
        "    ctypes.memset(libc.shmat(segment, None, 0), 1, 1 << 22)",
        never="memory that outlives its process, charged to nobody",
        limit="memory_mb",
        spoils=True,
    ),
    "memory of full folders": Command(
        program="for folder in ('/tmp', '.', '/dev/shm'): write(folder + '/x', bytes(60 << 20))",
        never="files in memory that nobody is charged for",
        limit="memory_mb",
        limits=ROOMY,
        spoils=True,
    ),
    "compression bomb": Command(
        program="import zlib\nsmall = zlib.compress(bytes(64 << 20), 1)\nbig = [zlib.decompress(small)] * 1\n"
        "while True: big.append(zlib.decompress(small))",
        never="more memory than its limit",
        limit="memory_mb",
    ),
    "allocation beyond all memory": Command(
        program="try: bytearray(1 << 46)\nexcept MemoryError: print('caught')",
        never="anything; the program may cope",
        says=b"caught\n",
    ),
}

FOLDERS = {"work folder": ".", "temporary folder": "/tmp", "shared memory folder": "/dev/shm"}
CLEAN_UP = "\nfor name in os.listdir(folder): os.unlink(os.path.join(folder, name))"
DISK: Mapping[str, Command] = {
    **{
        f"full {name}": Command(
            program=f"folder = {folder!r}; n = 0\ndef step():\n    global n\n"
            "    write(f'{folder}/{n}', bytes(1 << 20)); n += 1\n"
            f"print(until_refused(step), n <= 8 or n){CLEAN_UP}",
            never="more bytes on disk than its limit",
            says=b"ENOSPC True\n",
        )
        for name, folder in FOLDERS.items()
    },
    **{
        f"inodes of the {name}": Command(
            program=f"folder = {folder!r}; n = 0\ndef step():\n    global n\n"
            "    write(f'{folder}/{n}', b''); n += 1\n"
            f"print(until_refused(step), n <= 200 or n){CLEAN_UP}",
            never="more files than its limit",
            says=b"ENOSPC True\n",
        )
        for name, folder in FOLDERS.items()
    },
    "one giant file": Command(
        program="file = open('giant', 'wb', 0)\n"
        "print(until_refused(lambda: file.write(bytes(1 << 20)))); print(os.path.getsize('giant') >> 20)\n"
        "os.unlink('giant')",
        never="a file larger than its limit",
        says=b"EFBIG\n4\n",
    ),
    "one terabyte that is not there": Command(
        program="signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
        "os.execvp('truncate', ['truncate', '-s', '1T', 'sparse'])",
        never="a file larger than its limit",
        limit="file_mb",
    ),
    "writes to the root file system": Command(
        program="tell(*(lambda path=path: write(path) for path in ('/x', '/etc/passwd', '/usr/bin/python3',"
        " '/opt/harness/harness/sandbox/guest/main.py', '/var/tmp/x', '/root/x', '/work/x')))",
        never="a change to the image or to the guest",
        says=b"refused\n" * 7,
    ),
    "core dump": Command(
        program="if os.fork() == 0: os.abort()\nos.wait(); print('core' in os.listdir('.'))",
        never="a core file",
        says=b"False\n",
    ),
    "open files": Command(
        program="got = []\nprint(until_refused(lambda: got.append(os.open('/', 0))), got[-1])",
        never="more descriptors than its limit",
        says=b"EMFILE 63\n",
    ),
    "open files in flight": Command(
        program="one, other = socket.socketpair()\n"
        "print(until_refused(lambda: socket.send_fds(one, [b'x'], [0])))",
        never="more descriptors than its limit, kept in a socket's queue",
        says=b"ETOOMANYREFS\n",
    ),
    "file watches": Command(
        program="print(until_refused(lambda: call(294, 26, 0)))",
        never="the watches of other sandboxes: the kernel counts them for each user",
        says=b"ENOSYS\n",
    ),
    "limits raised from inside": Command(
        program="import resource as r\n"
        "for kind in (r.RLIMIT_CPU, r.RLIMIT_FSIZE, r.RLIMIT_NOFILE, r.RLIMIT_CORE):\n"
        "    try: r.setrlimit(kind, (r.RLIM_INFINITY, r.RLIM_INFINITY)); print('raised')\n"
        "    except ValueError: print('refused')",
        never="a limit of its own choice",
        says=b"refused\n" * 4,
    ),
}

# Each tries to print ten gigabytes and prints only a few megabytes, because the output limit ends it.
OUTPUT: Mapping[str, Command] = {
    "ten gigabytes": Command(
        program="os.execvp('sh', ['sh', '-c', 'yes 0123456789 | head -c 10000000000'])",
        never="all of its output in somebody's memory",
        limit="output_mb",
    ),
    "ten gigabytes on standard error alone": Command(
        program="os.execvp('sh', ['sh', '-c', 'yes 0123456789 | head -c 10000000000 >&2'])",
        never="a host that reads one stream and waits for the other",
        limit="output_mb",
    ),
    "half on one stream, half on the other": Command(
        program="os.write(1, bytes(700_000)); os.write(2, bytes(700_000)); stay()",
        never="twice its limit",
        limit="output_mb",
    ),
    "no newline ever": Command(
        program="while True: os.write(1, b'x' * 65536)", never="a line without end", limit="output_mb"
    ),
    "one byte at a time": Command(
        program="for _ in range(60_000): os.write(1, b'x')",
        never="a loss, or a frame for every byte",
        says=b"x" * 60_000,
    ),
    "trickle that never ends": Command(
        program="while True: os.write(1, b'x'); time.sleep(0.0001)",
        never="more time than its limit by way of showing life",
        limit="wall_seconds",
        seconds=SOON,
    ),
    "nothing that can be shown": Command(
        program="os.write(1, b'\\x00\\xff\\xfe\\x80\\r\\x1b[2J\\x1b]0;owned\\x07\\x1b]52;c;eA==\\x07"
        "\\xe2\\x80\\xaetxt.exe[bold red]x[/] [/nope] :skull: <script>')",
        never="a loss of bytes here, or a command to the terminal there",
        says=b"\x00\xff\xfe\x80\r\x1b[2J\x1b]0;owned\x07\x1b]52;c;eA==\x07"
        b"\xe2\x80\xaetxt.exe[bold red]x[/] [/nope] :skull: <script>",
    ),
    "huge arguments and environment": Command(
        program="huge = 'x' * (1 << 20)\n"
        "tell(lambda: os.execve('/bin/true', ['true', huge], {}),"
        " lambda: os.execve('/bin/true', ['true'], {'HUGE': huge}),"
        " lambda: os.execve('/bin/true', ['x' * 99999] * 99, {}))",
        never="more than the kernel takes",
        says=b"E2BIG\n" * 3,
    ),
}

NETWORK: Mapping[str, Command] = {
    "TCP": Command(
        program="tell(lambda: socket.create_connection(('1.1.1.1', 80), 3))",
        never="a way out",
        says=b"ENETUNREACH\n",
    ),
    "UDP": Command(
        program="tell(lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('8.8.8.8', 53)))",
        never="a way out",
        says=b"ENETUNREACH\n",
    ),
    "IPv6": Command(
        program="way = lambda: socket.socket(socket.AF_INET6).connect(('2606:4700::1111', 80))\n"
        "print(outcome(way) in ('ENETUNREACH', 'EADDRNOTAVAIL', 'EAFNOSUPPORT'))",
        never="a way out",
        says=b"True\n",
    ),
    "DNS": Command(
        program="try: print(socket.getaddrinfo('example.org', 80))\nexcept socket.gaierror: print('no name')",
        never="a name, and with it a way to send data out",
        says=b"no name\n",
    ),
    "metadata address of clouds": Command(
        program="tell(lambda: socket.create_connection(('169.254.169.254', 80), 3))",
        never="the credentials of the machine",
        says=b"ENETUNREACH\n",
    ),
    "addresses of the engine": Command(
        program="tell(*(lambda ip=ip: socket.create_connection((ip, 2375), 3) for ip in"
        " ('172.17.0.1', '192.168.65.2')), lambda: write('/var/run/docker.sock'))",
        never="the engine that could start anything",
        says=b"ENETUNREACH\nENETUNREACH\nrefused\n",
    ),
    "raw and packet sockets": Command(
        program="kinds = (2, 3, 1), (10, 3, 58), (17, 3)\n"
        "tell(*(lambda kind=kind: socket.socket(*kind) for kind in kinds))",
        never="packets of its own making",
        says=b"refused\n" * 3,
    ),
    "sockets of the kernel's crypto, of virtual machines and of XDP": Command(
        program="tell(*(lambda kind=kind: socket.socket(*kind) for kind in ((38, 5), (40, 1), (44, 3))))",
        never="kernel code that has let containers out before",
        says=b"refused\n" * 3,
    ),
    "netlink": Command(
        program="import struct\nlink = socket.socket(16, 3, 0)\n"
        "link.send(struct.pack('=IHHII', 32, 16, 0x605, 1, 0) + bytes(16))\n"
        "print(errno.errorcode[-struct.unpack_from('=i', link.recv(4096), 16)[0]])",
        never="a new network interface",
        says=b"EPERM\n",
    ),
}

REFUSED_CALLS: Mapping[str, Command] = {
    name: Command(program=f"tell({attempts})", never=never, says=b"refused\n" * count)
    for name, attempts, never, count in (
        ("trace of PID 1", "lambda: call(101, 117, 16, 1, 0, 0)", "control of the guest", 1),
        (
            "memory and environment of other processes",
            "*(lambda path=f'/proc/{pid}/{name}': open(path, 'rb').read(1)"
            " for pid in others() for name in ('mem', 'environ', 'maps'))",
            "what the guest knows",
            9,
        ),
        (
            "descriptors of other processes",
            "lambda: os.listdir('/proc/1/fd'), lambda: call(438, 438, os.pidfd_open(1), 0, 0)",
            "the stream to the host",
            2,
        ),
        ("reads from another process", "lambda: call(310, 270, 1, 0, 0, 0, 0, 0)", "what the guest knows", 1),
        ("mount", "lambda: call(165, 40, 0, 0, 0, 0, 0), lambda: call(428, 428, -1, 0, 0)", "a mount", 2),
        ("new namespaces", "lambda: call(272, 97, 0x20000), lambda: call(308, 268, -1, 0)", "a namespace", 2),
        (
            "new user namespace",
            "lambda: call(272, 97, 0x10000000), lambda: call(56, 220, 0x10000011, 0, 0, 0, 0)",
            "root in a namespace, and kernel code for root alone",
            2,
        ),
        ("keys", "lambda: call(250, 219, 0, -3, 0), lambda: call(248, 217, 0, 0, 0, 0, -3)", "keys", 2),
        ("programs in the kernel", "lambda: call(321, 280, 0, 0, 0)", "code in the kernel", 1),
        ("performance events", "lambda: call(298, 241, 0, 0, -1, -1, 0)", "sight of the kernel", 1),
        ("page faults of its own", "lambda: call(323, 282, 1)", "a kernel that waits for it", 1),
        ("rings", "lambda: call(425, 425, 1, 0)", "system calls that no filter sees", 1),
        (
            "devices",
            "lambda: os.mknod('/tmp/disk', stat.S_IFBLK | 0o666, os.makedev(8, 0)),"
            " lambda: os.mknod('/tmp/mem', stat.S_IFCHR | 0o666, os.makedev(1, 1))",
            "the disk or the memory of the machine",
            2,
        ),
        ("clock", "lambda: time.clock_settime(time.CLOCK_REALTIME, 0)", "another time for all", 1),
        ("system request key", "lambda: write('/proc/sysrq-trigger', b'b')", "a reboot", 1),
        (
            "core pattern",
            "lambda: write('/proc/sys/kernel/core_pattern', b'|/x')",
            "a program on the host",
            1,
        ),
        ("module helper", "lambda: write('/proc/sys/kernel/modprobe', b'/x')", "a program on the host", 1),
        (
            "root by name",
            "lambda: os.setuid(0), lambda: os.setresgid(0, 0, 0), lambda: os.setgroups([0])",
            "root",
            3,
        ),
    )
}
KERNEL: Mapping[str, Command] = {
    **REFUSED_CALLS,
    "setuid binaries": Command(
        program="import shutil, subprocess\n"
        "shutil.copy('/usr/bin/id', '/tmp/id'); os.chmod('/tmp/id', 0o6755)\n"
        "print(subprocess.check_output(['/tmp/id', '-u']) == b'%d\\n' % os.getuid()); os.unlink('/tmp/id')\n"
        "print([path for folder in os.environ['PATH'].split(':') for path in os.scandir(folder)"
        " if path.stat(follow_symlinks=False).st_mode & 0o6000])",
        never="another user",
        says=b"True\n[]\n",
    ),
    "release agent of control groups": Command(
        program="import glob\nfor folder in glob.glob('/sys/fs/cgroup/**/', recursive=True):\n"
        "    for name in ('release_agent', 'notify_on_release', 'cgroup.procs', 'memory.max',"
        " 'memory.limit_in_bytes', 'pids.max'):\n"
        "        if works(lambda: open(folder + name, 'r+').write('1')): print('wrote', folder, name)\n"
        "    if works(lambda: os.mkdir(folder + 'mine')): print('made', folder)",
        never="a program on the host, or limits of its own choice",
    ),
    "secrets of the machine": Command(
        program="read = []\nfor path in ('/proc/kcore', '/proc/keys', '/proc/timer_list', '/proc/kmsg',"
        " '/etc/shadow', '/dev/mem', '/dev/kmsg', '/dev/sda', '/dev/vda'):\n"
        "    outcome(lambda: read.append(open(path, 'rb').read(64)))\nprint(b''.join(read))",
        never="memory, keys or disks of the machine",
        says=b"b''\n",
    ),
}

COMMANDS: Mapping[str, Command] = {
    **TIME,
    **PROCESSES,
    **MEMORY,
    **DISK,
    **OUTPUT,
    **NETWORK,
    **KERNEL,
}


def _takes(body: str, status: Status, never: str) -> Candidate:
    return Candidate(body=body, status=status, never=never)


def _waits(body: str) -> Candidate:
    return Candidate(
        body=body,
        status=Status.TIMEOUT,
        limit="wall_seconds",
        never="a grader that waits for ever",
        limits=HASTY,
    )


def _reaches(body: str, never: str) -> Candidate:
    return Candidate(body=body, status=Status.FAILED, never=never)


# Files that an interpreter or a shell with careless paths would run.
SHIMS = """
for folder in (".", "/tmp", "/dev/shm", ".local/lib/python3.11/site-packages"):
    if os.path.islink(folder + "/guest"): os.unlink(folder + "/guest")  # of a program before
    os.makedirs(folder + "/guest", exist_ok=True)
    for name in ("sitecustomize.py", "usercustomize.py", "json.py", "guest/main.py", "x.pth"):
        write(f"{folder}/{name}", b"import os; os._exit(0)")
    for name in ("python3", "sh", "true", "libc.so.6"):
        write(f"{folder}/{name}", b"#!/bin/true"); os.chmod(f"{folder}/{name}", 0o755)
for name in (".bashrc", ".profile", ".pythonrc.py"): write(name, b"exit()")
os.environ.update(PATH="/tmp", PYTHONPATH="/tmp", LD_PRELOAD="/tmp/libc.so.6", PYTHONSTARTUP=".pythonrc.py")
"""

EXHAUSTING: Mapping[str, Candidate] = {
    "busy loop": Candidate(
        body=BUSY, status=Status.TIMEOUT, limit="cpu_seconds", never="more CPU time than its limit"
    ),
    "busy loop that ignores the warning": Candidate(
        body=DEAF + BUSY, status=Status.TIMEOUT, limit="cpu_seconds", never="more CPU time than its limit"
    ),
    "catastrophic pattern": _takes(
        "import re; re.match('(a+)+$', 'a' * 60 + 'b')", Status.TIMEOUT, "an interpreter that hears no more"
    ),
    "memory hog": _takes(HOG, Status.MEMORY_LIMIT, "more memory than its limit"),
    "memory hog in a child": _takes(
        f"if os.fork():\n os.wait(); os._exit(1)\n{HOG}", Status.MEMORY_LIMIT, "more memory than its limit"
    ),
    "memory of shared mappings": _takes(SHARED, Status.MEMORY_LIMIT, "memory that nobody is charged for"),
    "impossible allocation": _takes(
        "x = bytearray(1 << 46)", Status.MEMORY_LIMIT, "more memory than its limit"
    ),
    "fork bomb": _takes(FORKS, Status.PROCESS_LIMIT, "more processes than its limit"),
    "fork bomb of equals": _takes(
        "while True: os.fork()", Status.PROCESS_LIMIT, "an answer by whoever is left of them"
    ),
    "fork bomb of daemons, then an answer": _takes(
        "def step():\n    if os.fork() == 0: os.setsid(); stay()\nuntil_refused(step)",
        Status.PROCESS_LIMIT,
        "a process table that is full when its answer, or the next program, is graded",
    ),
    "thread bomb": _takes(THREADS, Status.PROCESS_LIMIT, "more threads than its limit"),
    "flood on standard output": _takes(
        "while True: print('passed' * 1000)", Status.OUTPUT_LIMIT, "all of its output in somebody's memory"
    ),
    "flood on standard error": _takes(
        "while True: os.write(2, b'x' * 10000)", Status.OUTPUT_LIMIT, "all of its output in somebody's memory"
    ),
}

WAITING: Mapping[str, Candidate] = {
    "sleep": _waits("time.sleep(600)"),
    "sleep after a fork": _waits("if os.fork(): stay()\nelse: os._exit(0)"),
    "sleep that ignores signals": _waits(DEAF + "stay()"),
    "stop of itself": _waits("os.kill(os.getpid(), signal.SIGSTOP)"),
    "wait for itself": _waits("os.read(os.pipe()[0], 1)"),
    "deadlock": _waits("threading.Lock().acquire(); threading.Event().wait()"),
    "first thread that ends": _waits("threading.Thread(target=stay).start()\nlibc.pthread_exit(None)"),
}

REACHING: Mapping[str, Candidate] = {
    "wait for standard input": _reaches("won = bool(sys.stdin.read())", "input that nobody has sent"),
    "stop of its parent, of PID 1 and of the tests": _reaches(
        "won = any([works(lambda: os.kill(pid, signal.SIGSTOP)) for pid in others()])",
        "a grader that waits for ever",
    ),
    "kill of its parent, of PID 1 and of the tests": _reaches(
        "outcome(lambda: os.kill(-1, 9))\nwon = any([works(lambda: os.kill(pid, 9)) for pid in others()])",
        "an end of its tests before they fail it",
    ),
    "memory, environment and descriptors of its tests": _reaches(
        "won = any([works(lambda: open(f'/proc/{pid}/{name}', 'rb').read(1))"
        " for pid in others()"
        " for name in ('mem', 'environ', 'fd/0', 'fd/3', 'maps')])",
        "the expected answers",
    ),
    "trace of its tests": _reaches(
        "pids = others()\n"
        "won = any([works(lambda: call(101, 117, 16, pid, 0, 0)) for pid in pids]"
        " + [works(lambda: call(310, 270, pid, 0, 0, 0, 0, 0)) for pid in pids]"
        " + [works(lambda: call(438, 438, os.pidfd_open(pid), 0, 0)) for pid in pids])",
        "the expected answers",
    ),
    "sockets": _reaches(
        "won = any([works(lambda: socket.socket(*kind)) for kind in"
        " ((2, 1), (2, 2), (10, 1), (2, 3, 1), (16, 3), (17, 3), (38, 5), (40, 1))])",
        "anyone to talk to",
    ),
    "System V memory and message queues": _reaches(
        "won = any([works(lambda: call(29, 194, 1, 4096, 0o1600)), works(lambda: call(68, 186, 1, 0o1600)),"
        " works(lambda: call(240, 180, 0, 0, 0, 0))])",
        "a place to leave a message for the next program",
    ),
    "kernel": _reaches(
        "won = any([works(lambda: call(*arguments)) for arguments in ((165, 40, 0, 0, 0, 0, 0),"
        " (272, 97, 0x10000000), (250, 219, 0, -3, 0), (321, 280, 0, 0, 0), (298, 241, 0, 0, -1, -1, 0),"
        " (323, 282, 1), (425, 425, 1, 0))])",
        "kernel code that has let containers out before",
    ),
    "full disk": _reaches(
        "for folder in ('.', '/tmp'):\n"
        "    until_refused(lambda: write(f'{folder}/{time.monotonic_ns()}', bytes(1 << 20)))",
        "a full disk for the next program",
    ),
    "no inode left": _reaches(
        "for folder in ('.', '/tmp', '/dev/shm'):\n"
        "    until_refused(lambda: write(f'{folder}/{time.monotonic_ns()}', b''))",
        "a full disk for the next program",
    ),
    "no descriptor left": _reaches("until_refused(lambda: os.open('/', 0))", "a channel that breaks"),
    "modules and commands of our names": _reaches(
        SHIMS,
        "code of its own in the next program's interpreter, or in the tests'",
    ),
    "message that nothing can show": _reaches(
        "raise ValueError('\\0\\x1b[2J\\x1b]0;owned\\x07\\u202e[bold red]x[/] [/nope]\\ud800' + 'A' * 10**7)",
        "a command to the terminal, or a report of any length",
    ),
}

IN_CALL: Mapping[str, Candidate] = {**EXHAUSTING, **WAITING, **REACHING}
AT_LOAD = (
    *("memory hog", "fork bomb"),
    *(("busy loop", "impossible allocation", "fork bomb of equals", "flood on standard output") * THOROUGH),
    "kill of its parent, of PID 1 and of the tests",
    "memory, environment and descriptors of its tests",
    "modules and commands of our names",
)
CANDIDATES: Mapping[str, Candidate] = {
    **IN_CALL,
    **{f"{name}, at load": replace(IN_CALL[name], at_load=True) for name in AT_LOAD},
}

BOOTY: Mapping[str, Booty] = {
    "link": Booty(
        program="os.symlink('/etc/passwd', 'link')",
        path="link",
        never="a file of another place under this name",
        refused="symbolic link",
    ),
    "link to what only root reads": Booty(
        program="os.symlink('/proc/1', 'guest')",
        path="guest/environ",
        never="what the guest knows",
        refused="Permission denied",
    ),
    "path that climbs": Booty(
        program="os.mkdir('deep')",
        path="deep/" + "../" * 20 + "etc/shadow",
        never="a file of the machine, or one of root's",
        refused="Permission denied",
    ),
    "hard link": Booty(
        program="tell(lambda: os.link('/etc/shadow', 'hard'), lambda: os.link('/proc/1/environ', 'hard'))",
        path="hard",
        never="a file of root's under this name",
        refused="No such file",
    ),
    "named pipe": Booty(
        program="os.mkfifo('pipe')", path="pipe", never="a host that waits", refused="not a regular file"
    ),
    "named pipe that somebody fills": Booty(
        program="os.mkfifo('full')\nif os.fork() == 0: os.setsid(); write('full', b'x' * 99999)",
        path="full",
        never="a host that reads for ever",
        refused="not a regular file",
    ),
    "socket": Booty(
        program="socket.socket(socket.AF_UNIX).bind('socket')",
        path="socket",
        never="a host that waits",
        refused="No such device",
    ),
    "device without end": Booty(
        program="tell(lambda: os.mknod('device', stat.S_IFCHR | 0o666, os.makedev(1, 5)))",
        path="/dev/zero",
        never="data without end",
        refused="not a regular file",
    ),
    "terabyte": Booty(
        program="tell(lambda: os.truncate(os.open('sparse', os.O_RDWR | os.O_CREAT), 1 << 40))",
        path="sparse",
        never="bytes that are not there",
        size=0,
    ),
    "sparse file as large as there can be": Booty(
        program="os.truncate(os.open('sparse', os.O_RDWR | os.O_CREAT), 1 << 36)",
        path="sparse",
        never="all of it in the memory of the host",
        refused="larger than",
        limits=VAST,
    ),
    "compression bomb": Booty(
        program="import zlib\nwrite('bomb', zlib.compress(bytes(64 << 20), 1)[:50_000])",
        path="bomb",
        never="its contents: files are read as they are",
        size=50_000,
    ),
    "name that nothing can show": Booty(
        program="write(b'\\xff\\n\\x1b[2J')",
        path="\udcff\n\x1b[2J",
        never="another file",
        size=1,
    ),
}
