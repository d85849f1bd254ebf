"""Each way in which a program could leave a number for the next program in its container.

Each has source that writes `NUMBER`, and source that sets `found` to the number that it reads, or leaves it
None. If `works_within` is true, one process that does both reads its number, which shows that the pair works.
"""

from __future__ import annotations

from dataclasses import dataclass

NUMBERS = (1, 3)

PRELUDE = """
import ctypes, errno, fcntl, mmap, os, resource, socket, struct, sys, threading, time
found = None
libc = ctypes.CDLL(None, use_errno=True)
SHARED = ["/tmp", "/dev/shm", "/dev/mqueue", "/work", "/dev", "/dev/pts"]
DEVICES = ["/dev/" + name for name in ("null", "zero", "full", "random", "urandom", "tty", "ptmx")]
LINKS = ["/dev/" + name for name in ("fd", "stdin", "stdout", "stderr")]

def attempt(function, *arguments):
    try:
        return function(*arguments)
    except (OSError, ValueError, IndexError):
        return None

def slot(seconds):
    return int(seconds * 4) % 8

def wait_for(number):
    # Not at once: times of files come from a clock that is late by a tick.
    while slot(time.time()) != number or not 0.1 < time.time() * 4 % 1 < 0.5:
        time.sleep(0.005)

def descriptors():
    return [number for number in range(256) if attempt(os.fstat, number) is not None]
"""


@dataclass(frozen=True, slots=True)
class Channel:
    """A way from one program to the next."""

    name: str
    write: str
    read: str
    works_within: bool = True
    needs_landlock: bool = False


CLOSED = (
    Channel(
        "status flags of inherited descriptors",
        """
for number in descriptors():
    flags = fcntl.fcntl(number, fcntl.F_GETFL) & ~(os.O_APPEND | os.O_NONBLOCK)
    for bit, flag in enumerate((os.O_APPEND, os.O_NONBLOCK)):
        flags |= flag if NUMBER >> bit & 1 else 0
    attempt(fcntl.fcntl, number, fcntl.F_SETFL, flags)
""",
        """
for number in descriptors():
    flags = fcntl.fcntl(number, fcntl.F_GETFL)
    value = bool(flags & os.O_APPEND) + 2 * bool(flags & os.O_NONBLOCK)
    found = found or value or None
""",
    ),
    Channel(
        "signals of inherited descriptors",
        "for number in descriptors(): attempt(fcntl.fcntl, number, fcntl.F_SETSIG, 34 + NUMBER)",
        """
for number in descriptors():
    found = found or attempt(fcntl.fcntl, number, fcntl.F_GETSIG) or None
found = found and found - 34
""",
    ),
    Channel(
        "owners of inherited descriptors",
        "for number in descriptors(): attempt(fcntl.fcntl, number, fcntl.F_SETOWN, os.getpid())",
        """
for number in descriptors():
    if attempt(fcntl.fcntl, number, fcntl.F_GETOWN):
        found = NUMBER
""",
    ),
    Channel(
        "offsets of inherited descriptors",
        """
for number in descriptors():
    attempt(os.lseek, number, 1000 + NUMBER, os.SEEK_SET)
""",
        """
for number in descriptors():
    offset = attempt(os.lseek, number, 0, os.SEEK_CUR) or 0
    found = offset - 1000 if offset > 1000 else found
""",
        works_within=False,
    ),
    Channel(
        "locks on device files",
        """
held = [os.open(path, os.O_RDWR) for path in DEVICES[:5]]
for number in (*held, 0):
    attempt(fcntl.flock, number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, NUMBER, 1, 0)
    attempt(fcntl.fcntl, number, 37, lock)
""",
        """
for path in DEVICES[:5]:
    number = os.open(path, os.O_RDWR)
    if attempt(fcntl.flock, number, fcntl.LOCK_EX | fcntl.LOCK_NB) is None:
        asked = fcntl.fcntl(number, 36, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
        kind, _, start, _, _ = struct.unpack("hhqqi4x", asked)
        found = start if kind != fcntl.F_UNLCK else found
""",
        works_within=False,
    ),
    Channel(
        "leases and write hints",
        """
for number in descriptors():
    attempt(fcntl.fcntl, number, fcntl.F_SETLEASE, fcntl.F_RDLCK)
for path in (*DEVICES, *SHARED):
    number = attempt(os.open, path, os.O_RDONLY)
    if number is not None:
        attempt(fcntl.fcntl, number, 1036, struct.pack("Q", NUMBER))
        attempt(fcntl.fcntl, number, 1040, struct.pack("Q", NUMBER))
""",
        """
for path in (*DEVICES, *SHARED):
    number = attempt(os.open, path, os.O_RDONLY)
    for command in (1035, 1039):
        hint = number is not None and attempt(fcntl.fcntl, number, command, bytes(8))
        found = found or (hint and struct.unpack("Q", hint)[0]) or None
""",
        works_within=False,
    ),
    Channel(
        "times of shared folders, devices and links",
        """
wait_for(NUMBER)
for path in (*SHARED, *DEVICES, *LINKS):
    attempt(lambda: os.utime(path))
    attempt(lambda: os.utime(path, follow_symlinks=False))
""",
        """
for path in (*SHARED, *DEVICES, *LINKS):
    moment = os.lstat(path).st_mtime
    # The times of queues are whole seconds, and nobody but root may set those of /dev/pts.
    if moment > 10**9 and path not in ("/dev/mqueue", "/dev/pts"):
        found = slot(moment)
""",
    ),
    Channel(
        "change and access times from before the reader began",
        """
for path in (*SHARED, *DEVICES, *LINKS):
    attempt(lambda: os.utime(path))
""",
        """
began = int(os.stat(".").st_ctime)
for path in ("/tmp", "/dev/shm", "/dev/mqueue", "/work", *DEVICES[:5], *LINKS):
    facts = os.lstat(path)
    if facts.st_ctime < began or 10**9 < facts.st_atime < began:
        found = path
""",
        works_within=False,
    ),
    Channel(
        "extended attributes of what is shared",
        """
for path in (*SHARED, *DEVICES):
    attempt(os.setxattr, path, "user.number", str(NUMBER).encode())
""",
        """
for path in (*SHARED, *DEVICES):
    value = attempt(os.getxattr, path, "user.number")
    found = int(value) if value else found
""",
        works_within=False,
    ),
    Channel(
        "modes of what is shared",
        "for path in (*SHARED, *DEVICES): attempt(os.chmod, path, 0o1770 + NUMBER)",
        """
for path in ("/tmp", "/dev/shm", "/dev/mqueue"):
    found = found or (os.stat(path).st_mode & 0o777 != 0o777 and NUMBER) or None
""",
        works_within=False,
    ),
    Channel(
        "files and names in shared folders",
        """
for folder in (*SHARED, "."):
    attempt(lambda: open(os.path.join(folder, f"left-{NUMBER}"), "w").write("x"))
""",
        """
for folder in (*SHARED, "."):
    for name in attempt(os.listdir, folder) or ():
        found = int(name[5:]) if name.startswith("left-") else found
""",
    ),
    Channel(
        "room in shared folders",
        """
kept = open(f"/tmp/{os.getpid()}", "wb")
os.unlink(kept.name)
kept.write(bytes(NUMBER << 20))
kept.flush()
""",
        """
for folder in ("/tmp", "/dev/shm", "/work"):
    room = os.statvfs(folder)
    used = (room.f_blocks - room.f_bfree) * room.f_frsize >> 20
    found = used or found
""",
    ),
    Channel(
        "names of local sockets",
        """
kept = []
for name in (f"\\0left-{NUMBER}", f"/tmp/left-{NUMBER}"):
    kept.append(socket.socket(socket.AF_UNIX))
    kept[-1].bind(name)
""",
        """
for number in range(10):
    for name in (f"\\0left-{number}", f"/tmp/left-{number}"):
        end = socket.socket(socket.AF_UNIX)
        try:
            end.bind(name)
        except OSError:
            found = number
        else:
            attempt(os.unlink, name)
        end.close()
""",
    ),
    Channel(
        "System V objects",
        "libc.shmget(77, 4096 * NUMBER, 0o1666), libc.semget(77, NUMBER, 0o1666), libc.msgget(77, 0o1666)",
        """
if max(libc.shmget(77, 0, 0), libc.semget(77, 0, 0), libc.msgget(77, 0)) >= 0:
    found = NUMBER
""",
        works_within=False,
    ),
    Channel(
        "POSIX message queues",
        """
libc.mq_open(f"/left-{NUMBER}".encode(), os.O_CREAT | os.O_RDWR, 0o666, None)
attempt(lambda: open(f"/dev/mqueue/left-{NUMBER}", "w").close())
""",
        """
for name in os.listdir("/dev/mqueue"):
    found = int(name[5:])
""",
        works_within=False,
        needs_landlock=True,
    ),
    Channel(
        "keyrings",
        """
add = 248 if os.uname().machine == "x86_64" else 217
for ring in (-3, -4, -5):
    libc.syscall(add, b"user", b"number", str(NUMBER).encode(), 1, ring)
""",
        """
control = 250 if os.uname().machine == "x86_64" else 219
for ring in (-3, -4, -5):
    found = NUMBER if libc.syscall(control, 10, ring, b"user", b"number", 0) > 0 else found
""",
        works_within=False,
    ),
    Channel(
        "peaks and counters of the cgroup",
        """
block = mmap.mmap(-1, 64 + NUMBER << 20)
for place in range(0, len(block), 4096):
    block[place] = 1
block.close()
""",
        """
for folder, _, files in os.walk("/sys/fs/cgroup"):
    for name in files:
        found = attempt(lambda: open(os.path.join(folder, name)).read()) or found
for name in ("memory/memory.max_usage_in_bytes", "memory.peak", "pids.events", "cpu.stat"):
    found = attempt(lambda: open("/sys/fs/cgroup/" + name).read()) or found
""",
        works_within=False,
        needs_landlock=True,
    ),
    Channel(
        "counters of the kernel and of other processes",
        "for _ in range(NUMBER): attempt(os.wait) if os.fork() else os._exit(0)",
        """
places = ["loadavg", "stat", "meminfo", "uptime", "vmstat", "schedstat", "key-users", "sysvipc/shm", "locks"]
places += ["sys/fs/file-nr", "sys/fs/inode-nr", "sys/fs/dentry-state", "sys/kernel/ns_last_pid"]
places += ["net/dev", "net/unix", "net/sockstat", "net/protocols", "interrupts", "softirqs", "slabinfo"]
for process in {1, os.getppid(), *range(2, 12)} - {os.getpid()}:
    places += [f"{process}/{name}" for name in ("stat", "status", "statm", "schedstat", "sched", "io")]
    places += [f"{process}/{name}" for name in ("oom_score", "cmdline", "wchan", "maps", "limits")]
    places += [f"{process}/task/{process}/{name}" for name in ("stat", "status", "schedstat")]
for place in places:
    if attempt(lambda: open("/proc/" + place).read()):
        found = place
""",
        works_within=False,
        needs_landlock=True,
    ),
    Channel(
        "counters of the program before, in the memory of the process that starts programs",
        "block = b'x' * (64 + NUMBER << 20)",
        """
import gc
frame, values = sys._getframe(), gc.get_objects()
while frame is not None:
    values += frame.f_locals.values()
    frame = frame.f_back
for value in values:
    if type(value) is resource.struct_rusage:
        found = value.ru_maxrss
""",
        works_within=False,
    ),
    Channel(
        "clocks of other processes",
        "",
        """
for process in {1, os.getppid(), *range(2, 12)} - {os.getpid()}:
    for kind in (0, 1, 2):
        if attempt(time.clock_gettime, ~process << 3 | kind) is not None:
            found = process
""",
        works_within=False,
    ),
    Channel(
        "priority, affinity and limits of the parent",
        """
for process in (1, os.getppid()):
    attempt(os.setpriority, os.PRIO_PROCESS, process, NUMBER)
    attempt(os.sched_setaffinity, process, {0})
    attempt(os.sched_setscheduler, process, os.SCHED_BATCH, os.sched_param(0))
    attempt(resource.prlimit, process, resource.RLIMIT_NOFILE, (60 + NUMBER, 60 + NUMBER))
    attempt(lambda: open(f"/proc/{process}/oom_score_adj", "w").write(str(NUMBER)))
os.nice(NUMBER)
os.umask(NUMBER)
os.sched_setaffinity(0, {0})
libc.prctl(29, 50_000 + NUMBER, 0, 0, 0)
resource.setrlimit(resource.RLIMIT_NOFILE, (60 + NUMBER, 60 + NUMBER))
os.environ["NUMBER"] = str(NUMBER)
""",
        """
found = {
    os.nice(0), os.umask(0o22) - 0o22, libc.prctl(30, 0, 0, 0, 0) - 50_000, int(os.environ.get("NUMBER", 0)),
    os.sched_getscheduler(os.getppid()), os.getpriority(os.PRIO_PROCESS, os.getppid()),
    min(resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 256, 0),
    min(len(os.sched_getaffinity(0)) - os.cpu_count(), 0),
} - {0} or None
""",
        works_within=False,
    ),
    Channel(
        "pages of files in the cache",
        """
number = os.open(sys.executable, os.O_RDONLY)
os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
""",
        """
number = os.open(sys.executable, os.O_RDONLY)
if attempt(os.preadv, number, [bytearray(1)], 0, os.RWF_NOWAIT) is not None:
    found = "a read from the cache alone"
if libc.syscall(451, number, struct.pack("QQ", 0, 4096), bytes(40), 0) == 0:
    found = "cachestat"
""",
        works_within=False,
    ),
    Channel(
        "a process that lives on",
        """
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        end = socket.socket(socket.AF_UNIX)
        attempt(end.bind, f"\\0alive-{NUMBER}")
        attempt(end.listen)
        for number in range(3):
            os.close(number)
        time.sleep(60)
        os._exit(0)
time.sleep(0.2)
""",
        """
for number in range(10):
    end = socket.socket(socket.AF_UNIX)
    if attempt(end.connect, f"\\0alive-{number}") is None and end.fileno() >= 0:
        found = number if attempt(end.getpeername) is not None else found
    end.close()
""",
    ),
)

# Nobody can reset these counters. The guest notices them instead, and the container is not used again.
MARKS = (
    Channel(
        "inode numbers of /tmp",
        "for _ in range(NUMBER): open('/tmp/x', 'w').close(), os.unlink('/tmp/x')",
        "",
    ),
    Channel(
        "inode numbers of /dev/shm",
        "for _ in range(NUMBER): os.mkdir('/dev/shm/x'), os.rmdir('/dev/shm/x')",
        "",
    ),
    Channel("inode numbers of /work", "for _ in range(NUMBER): os.symlink('x', 'x'), os.unlink('x')", ""),
    Channel(
        "inode numbers by files without a name",
        "for _ in range(NUMBER): os.close(os.open('/tmp', os.O_TMPFILE | os.O_WRONLY))",
        "",
    ),
    Channel(
        "process ids by threads",
        "for _ in range(NUMBER): threading.Thread(target=int).start()",
        "",
    ),
    Channel("process ids by forks", "for _ in range(NUMBER): os.fork() and os.wait() or os._exit(0)", ""),
)
