"""The process that starts the containers of one process of harness, and ends them when that process is gone.

It uses the standard library only, and imports nothing of harness but files beside it, so that it starts in
some milliseconds. It is not a child of its owner, because a program such as Ray kills the children of a
process together with it. It holds a pidfd of its owner. It has a mount namespace of its own, so that the
mounts of its containers vanish with it, and it adopts their first processes, so that it gets their exit
codes. For an ordinary user it is root of a user namespace (`user_namespace`), and the first process of a
process namespace, so that the kernel ends its containers together with it.

Its folder has a socket, where every process of the user can ask it to start or destroy a container. Each
connection carries one request and its answer, as JSON in a packet. The folder of a container has these files:

| file | written by | contents |
| --- | --- | --- |
| `config.json` | the backend | the configuration, in the form of the runtime |
| `container.json` | the backend | labels, control group, image and folders |
| `pid` | the runtime | the first process |
| `end.json` | the supervisor | the exit code, and whether the kernel has killed for memory |
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

if TYPE_CHECKING or __package__:
    from harness.sandbox.backends.oci import cgroups, promises, user_namespace
else:
    # The packages above this file would import all of harness.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import cgroups
    import promises
    import user_namespace

SOCKET, END, DESCRIPTION, PID = "socket", "end.json", "container.json", "pid"
# The group of all containers follows.
READY = b"ready "
MAX_BYTES = 64 * 1024
REQUEST_SECONDS = 5.0
CLEAN_SECONDS = 1.0
STREAMS = 3
NEW_MOUNTS, NEW_PROCESSES = 0x00020000, 0x20000000
SUBREAPER = 36
BIND, RECURSIVE, SLAVE, READ_ONLY, OF_KERNEL = 0x1000, 0x4000, 0x80000, 0x1, 0xE
DETACH = 2
MOST_REMOVAL_TRIES = 400
WATCH_MILLISECONDS = 100
# Folders that every user can reach, where an ordinary user's supervisor sees its own folder too. Root of a
# container cannot reach it below the user's home.
REACHABLE = ("/mnt", "/media", "/srv", "/opt", "/dev/shm")

call = user_namespace.call


class Container:
    """A container of this supervisor, from its request until its first process has ended."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        with open(f"{folder}/{DESCRIPTION}") as file:
            self.description = json.load(file)
        self.cgroup: str = self.description["cgroup"]
        self.layers: list[str] = self.description["layers"]
        self.writable: bool = self.description["writable"]
        # In a user namespace the kernel refuses overlays the attributes that only root may write.
        self.attributes = ",userxattr" if is_rootless() else ""
        self.root = f"{folder}/root"
        # The runtime while it starts the container, then the container's first process.
        self.pid = 0
        self.is_running = False
        self.is_unwanted = False
        # Whether it was ended because it took too much memory, which no control group bounds.
        self.took_too_much = False
        # The connections that wait for the start, and for the end.
        self.starting: socket.socket | None = None
        self.ending: list[socket.socket] = []

    def mount(self) -> None:
        """Mount the root file system. Raises OSError."""
        os.mkdir(self.root)
        options = f"lowerdir={':'.join(map(escape, self.layers))}"
        if self.writable:
            for name in ("upper", "work"):
                # For an ordinary user the two belong to the user.
                os.chown(f"{self.folder}/{name}", 0, 0)
            upper = escape(self.folder)
            options += f",upperdir={upper}/upper,workdir={upper}/work,index=off{self.attributes}"
        flags = 0 if self.writable else READ_ONLY
        call("mount", b"overlay", self.root.encode(), b"overlay", flags, options.encode())

    def examine(self) -> dict[str, Any] | None:
        """Return what the kernel holds of each promise, None if the process has ended. Raises OSError."""
        try:
            return promises.examine(self.pid, self.description)
        except (OSError, KeyError):
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                raise
            return None

    def bound_memory(self) -> None:
        """End a container that takes more memory than it may, if no control group bounds it."""
        if self.is_running and not self.took_too_much and not self.is_unwanted:
            most = self.description["memory_bytes"]
            self.took_too_much = promises.measure_memory(self.pid, self.description["folders"], most) > most
            if self.took_too_much:
                with_no_error(os.kill, self.pid, signal.SIGKILL)

    def clean(self) -> None:
        """Remove the mount and the control group of a container that has ended.

        If the group stays, the one who removes the container tries again. Other containers do not wait.
        """
        cgroups.kill_all(self.cgroup, CLEAN_SECONDS)
        with_no_error(call, "umount2", self.root.encode(), DETACH)
        with_no_error(os.rmdir, self.root)


def escape(path: str) -> str:
    """Return a path as a mount option has it."""
    return "".join(f"\\{character}" if character in "\\:," else character for character in path)


def with_no_error(function: Any, *arguments: Any) -> None:
    """Call a function, and ignore an error of the system."""
    with contextlib.suppress(OSError):
        function(*arguments)


class Supervisor:
    """Answers requests until the owner has ended, or has closed its backend and no container is left."""

    def __init__(self, folder: str, runtime: str, owner: int, has_groups: bool = True) -> None:
        self.folder = folder
        self.runtime = runtime
        # Without a group to use, crun would fail to make one.
        is_crun = os.path.basename(runtime) == "crun"
        self.options = ["--cgroup-manager=disabled"] if is_crun and not has_groups else []
        self.owner = owner
        self.is_closing = False
        self.containers: dict[str, Container] = {}
        self.by_pid: dict[int, Container] = {}
        # The exit codes of first processes that ended before the runtime did.
        self.ended_early: dict[int, int] = {}
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        os.chdir(folder)
        self.listener.bind(SOCKET)
        facts = os.stat(".")
        os.chown(SOCKET, facts.st_uid, facts.st_gid)
        self.listener.listen(128)
        # The signal of an ended child wakes the loop up.
        self.alarm, alarm = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(alarm, False)
        signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)

    def run(self) -> None:
        """Answer requests until there is nothing left to do, then remove what is left."""
        poll = select.poll()
        for descriptor in (self.listener.fileno(), self.owner, self.alarm):
            poll.register(descriptor, select.POLLIN)
        while not (self.is_closing and not self.containers):
            watched = [each for each in self.containers.values() if not each.cgroup]
            ready = {descriptor for descriptor, _ in poll.poll(WATCH_MILLISECONDS if watched else None)}
            for container in watched:
                container.bound_memory()
            if self.owner in ready:
                break
            if self.alarm in ready:
                with_no_error(os.read, self.alarm, MAX_BYTES)
                self.reap()
            if self.listener.fileno() in ready:
                self.accept()
        self.end()

    def accept(self) -> None:
        connection, _ = self.listener.accept()
        connection.settimeout(REQUEST_SECONDS)
        streams: list[int] = []
        try:
            data, streams, _, _ = socket.recv_fds(connection, MAX_BYTES, STREAMS)
            request = json.loads(data)
            verb = request["verb"]
            if verb == "start":
                self.start(connection, request["name"], streams)
            elif verb == "destroy":
                self.destroy(connection, request["name"])
            elif verb == "close":
                self.is_closing = True
                answer(connection)
        except (OSError, ValueError, KeyError) as error:
            answer(connection, error=str(error))
        finally:
            for stream in streams:
                os.close(stream)

    def start(self, connection: socket.socket, name: str, streams: list[int]) -> None:
        """Have the runtime start a container whose folder is ready. Its end is the answer."""
        container = Container(f"{self.folder}/{name}")
        try:
            container.mount()
            stdin, stdout, stderr = streams
            container.pid = os.posix_spawnp(
                self.runtime,
                [
                    *(self.runtime, "--root", f"{self.folder}/runtime", *self.options, "run", "--detach"),
                    *("--bundle", container.folder, "--pid-file", f"{container.folder}/{PID}", name),
                ],
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, stdin, 0),
                    (os.POSIX_SPAWN_DUP2, stdout, 1),
                    (os.POSIX_SPAWN_DUP2, stderr, 2),
                ],
                setsigdef=[signal.SIGPIPE, signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT],
            )
        except BaseException:
            container.clean()
            raise
        container.starting = connection
        self.containers[name] = self.by_pid[container.pid] = container

    def destroy(self, connection: socket.socket, name: str) -> None:
        """Kill a container. The answer follows once it has ended, also if it is still starting."""
        container = self.containers.get(name)
        if container is None:
            answer(connection)
            return
        container.ending.append(connection)
        container.is_unwanted = True
        if container.is_running:
            with_no_error(os.kill, container.pid, signal.SIGKILL)

    def reap(self) -> None:
        """Note the end of every child that has ended: runtimes, and first processes of containers."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            code = code if code >= 0 else 128 - code
            container = self.by_pid.pop(pid, None)
            if container is None:
                self.ended_early[pid] = code
            elif container.is_running:
                self.note_end(container, code)
            else:
                self.note_start(container, code)

    def note_start(self, container: Container, code: int) -> None:
        """Note that the runtime has ended, with the container running if the exit code is 0."""
        connection, container.starting = container.starting, None
        if code == 0:
            try:
                with open(f"{container.folder}/{PID}") as file:
                    container.pid = int(file.read())
                container.is_running = True
            except (OSError, ValueError):
                # Somebody has removed the folder. The clean-up kills all that the group holds.
                code = 1
        try:
            held = container.examine() if code == 0 and container.pid not in self.ended_early else None
        except (OSError, ValueError, KeyError, IndexError) as error:
            held, container.is_unwanted = {"error": repr(error)}, True
        failure = {} if code == 0 else {"error": f"the runtime ended with exit code {code}"}
        answer(connection, held=held, **failure)
        if code != 0:
            self.note_end(container, code)
        elif container.pid in self.ended_early:
            self.note_end(container, self.ended_early.pop(container.pid))
        else:
            self.by_pid[container.pid] = container
            if container.is_unwanted:
                os.kill(container.pid, signal.SIGKILL)
        if not any(not other.is_running for other in self.containers.values()):
            self.ended_early.clear()

    def note_end(self, container: Container, code: int) -> None:
        """Write how a container has ended, and remove what the kernel holds of it."""
        kills = 0 if container.is_unwanted else cgroups.count_memory_kills(container.cgroup)
        kills += container.took_too_much
        end = {"code": code, "memory_kills": kills}
        container.clean()
        name = os.path.basename(container.folder)
        with_no_error(write_whole, f"{container.folder}/{END}", json.dumps(end))
        shutil.rmtree(f"{self.folder}/runtime/{name}", ignore_errors=True)
        del self.containers[name]
        for connection in container.ending:
            answer(connection)

    def end(self) -> None:
        """Kill all containers, and remove the folder with everything in it."""
        for container in self.containers.values():
            container.is_unwanted = True
            if container.is_running:
                with_no_error(os.kill, container.pid, signal.SIGKILL)
        for _ in range(MOST_REMOVAL_TRIES):
            self.reap()
            if not self.containers:
                break
            time.sleep(0.05)
        self.listener.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def is_rootless() -> bool:
    """Return whether this process is root of a user namespace alone."""
    with open("/proc/self/uid_map") as file:
        return file.read().split() != ["0", "0", "4294967295"]


def answer(connection: socket.socket | None, **facts: Any) -> None:
    """Answer a request, and close its connection. The one who asked may be gone."""
    if connection is not None:
        with_no_error(connection.send, json.dumps(facts).encode(), socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
        connection.close()


def write_whole(path: str, text: str) -> None:
    """Write a file that nobody sees before it is whole."""
    with open(f"{path}.part", "w") as file:
        file.write(text)
    os.rename(f"{path}.part", path)


def prepare(folder: str) -> str:
    """Enter the namespaces of an ordinary user's supervisor; return where it then finds its folder."""
    user_namespace.enter([int(first) for first in sys.argv[4:]])
    call("unshare", NEW_MOUNTS | NEW_PROCESSES)
    if os.fork():
        os._exit(0)
    call("mount", None, b"/", None, RECURSIVE | SLAVE, None)
    call("mount", b"proc", b"/proc", b"proc", OF_KERNEL, None)
    place = next(
        path for path in REACHABLE if os.path.isdir(path) and not os.path.realpath(folder).startswith(path)
    )
    call("mount", folder.encode(), place.encode(), None, BIND, None)
    return place


def main() -> None:
    """Leave the owner's process group, report that the socket is there, and supervise."""
    folder, runtime, owner = sys.argv[1], sys.argv[2], int(sys.argv[3])
    starter = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == starter:
        # Its control group can give nothing to groups below it as long as it holds that process.
        time.sleep(0.001)
    os.setsid()
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    os.umask(0o022)
    parent = cgroups.PARENT
    if sys.argv[4:]:
        parent = cgroups.find_delegated(f"harness-{os.path.basename(folder)}")
        folder = prepare(folder)
    else:
        call("unshare", NEW_MOUNTS)
        # Mounts of the machine still arrive here, and none of ours leaves.
        call("mount", None, b"/", None, RECURSIVE | SLAVE, None)
    call("prctl", SUBREAPER, 1, 0, 0, 0)
    supervisor = Supervisor(folder, runtime, owner, bool(parent))
    os.write(1, READY + parent.encode())
    null = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    supervisor.run()
    if sys.argv[4:]:
        with_no_error(os.rmdir, sys.argv[1])
        cgroups.kill_all(parent, CLEAN_SECONDS)


if __name__ == "__main__":
    main()
