"""Programs that try to meet in a network namespace, in every way that is known. They run in sandboxes.

`leave` leaves something to find, and keeps it there for a while. `search` looks for it until it has found
everything, or for a while, and prints as JSON the ways by which it found something.
"""

from __future__ import annotations

WAYS = (
    *("abstract stream", "abstract datagram", "tcp", "udp", "netlink", "autobound datagram"),
    *("proc net", "proc net of a thread", "proc net by number", "system times"),
    *("lock on hosts", "lock on hostname", "lock on resolv.conf"),
)

TOOLS = """
import contextlib, fcntl, json, os, socket, struct, sys, time

PORT, PID, NAMES = 4567, 4321, 0x800
FILES = ("hosts", "hostname", "resolv.conf")
SYSTEM = ("/sys/kernel/fscaps", "/sys/kernel/mm/ksm", "/sys/class/net/lo/mtu", "/sys/fs/ext4/features",
          "/sys/module/kernel", "/sys/power/state", "/sys/devices/virtual/mem")
held = []

def dropped_pair(kind):
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    theirs.close()
    with contextlib.suppress(OSError):
        ours.send(b"x")
    return ours

def named_pair(kind):
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    ours.send(b"x")
    return ours, theirs
"""

LEAVE = """
def abstract_stream():
    server = socket.socket(socket.AF_UNIX); held.append(server)
    server.bind("\\0harness-stream"); server.listen(9)

def abstract_datagram():
    server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); held.append(server)
    server.bind("\\0harness-datagram")

def tcp():
    server = socket.socket(); held.append(server)
    server.bind(("127.0.0.1", PORT)); server.listen(9)

def udp():
    server = socket.socket(type=socket.SOCK_DGRAM); held.append(server)
    server.bind(("127.0.0.1", PORT))

def netlink():
    server = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 2); held.append(server)
    server.bind((PID, 0))

def autobound_datagram():
    while True:
        pair = named_pair(socket.SOCK_DGRAM)
        if int(pair[0].getsockname()[1:], 16) < NAMES:
            # Without its peer, the socket takes messages of anyone.
            pair[1].close()
            with contextlib.suppress(OSError):
                pair[0].send(b"x")
            held.append(pair)
            return

def pairs():
    for _ in range(60):
        held.append(socket.socketpair())

def system_times():
    for path in SYSTEM:
        with contextlib.suppress(OSError):
            os.stat(path)

def locks():
    for name in FILES:
        descriptor = os.open("/etc/" + name, os.O_RDONLY); held.append(descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX)

refused = {}
acts = [abstract_stream, abstract_datagram, tcp, udp, netlink, autobound_datagram, pairs, system_times, locks]
for act in acts:
    try:
        act()
    except OSError as error:
        refused[act.__name__] = str(error)
print(json.dumps(refused), flush=True)
sys.stdin.read()
time.sleep(SECONDS)
"""

SEARCH = """
def abstract_stream():
    socket.socket(socket.AF_UNIX).connect("\\0harness-stream")
    return True

def abstract_datagram():
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", "\\0harness-datagram")
    return True

def tcp():
    socket.socket().connect(("127.0.0.1", PORT))
    return True

def udp():
    one = socket.socket(type=socket.SOCK_DGRAM)
    one.connect(("127.0.0.1", PORT))
    one.send(b"x")
    time.sleep(0.01)
    one.send(b"x")
    return True

def netlink():
    one = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 2)
    one.connect((PID, 0))
    one.send(struct.pack("=IHHII", 16, 0, 0, 0, 0))
    return True

def autobound_datagram():
    one = dropped_pair(socket.SOCK_DGRAM)
    for number in range(NAMES):
        with contextlib.suppress(OSError):
            one.sendto(b"x", b"\\0%05x" % number)
            return True

def lists_pairs(folder):
    with open(folder + "/unix") as file:
        return len(file.readlines()) > 100

def proc_net():
    return lists_pairs("/proc/net")

def proc_net_of_a_thread():
    return lists_pairs("/proc/thread-self/net")

def proc_net_by_number():
    return lists_pairs(f"/proc/{os.getpid()}/net") or lists_pairs("/proc/1/net")

def system_times():
    # The time of an entry is that of the first look-up, so the search must not be the first, and looks once.
    others = all(found[name] for name in found if name != "system times")
    if not looked and (others or time.monotonic() > last - 0.5):
        looked.append(True)
        time.sleep(0.3)
        now = time.time()
        times = []
        for path in SYSTEM:
            with contextlib.suppress(OSError):
                times.append(os.stat(path).st_ctime)
        return any(now - when > 0.2 for when in times)

def lock(name):
    descriptor = os.open("/etc/" + name, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)

ways = [abstract_stream, abstract_datagram, tcp, udp, netlink, autobound_datagram,
        proc_net, proc_net_of_a_thread, proc_net_by_number]
looks = {way.__name__.replace("_", " "): way for way in ways}
looks |= {"lock on " + name: lambda name=name: lock(name) for name in FILES}
looks["system times"] = system_times
found, looked = dict.fromkeys(looks, False), []
last = time.monotonic() + SECONDS
while time.monotonic() < last and not all(found.values()):
    for name, look in looks.items():
        if not found[name]:
            with contextlib.suppress(OSError):
                found[name] = bool(look())
    time.sleep(0.02)
print(json.dumps(sorted(name for name in found if found[name])), flush=True)
"""


def leave(seconds: float) -> str:
    """Return the program that leaves something by every way, and stays for `seconds` after its stdin ends."""
    return f"SECONDS = {seconds}\n{TOOLS}{LEAVE}"


def search(seconds: float) -> str:
    """Return the program that prints as JSON the ways by which it found something within `seconds`."""
    return f"SECONDS = {seconds}\n{TOOLS}{SEARCH}"
