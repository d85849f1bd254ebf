"""A private Docker engine for tests, which they can kill and restart without effect on anybody else.

It has a separate folder and a separate network namespace. Without the latter, `--bridge none` would delete
the bridge of the machine's engine.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
from docker import APIClient
from docker.errors import APIError, DockerException

from harness.sandbox.backends.docker.images import image_tag

START_SECONDS = 60.0
# Longer than the guest waits for its first request. A daemon that is killed while it starts a container
# forgets it, and the container's shim keeps the guest's stream open, so only the guest itself can end the
# container.
END_SECONDS = 75.0
PR_SET_PDEATHSIG = 1
RUNC_INIT = "runc init"
PATH = os.environ.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin"


def find_obstacle() -> str | None:
    """Return why there can be no private engine on this machine; None if there can be one."""
    if os.geteuid() != 0:
        return "a private engine needs root"
    missing = [name for name in ("dockerd", "unshare") if shutil.which(name, path=PATH) is None]
    return f"a private engine needs {' and '.join(missing)}" if missing else None


class PrivateEngine:
    """One engine in one folder. `address` is for DOCKER_HOST; `close` returns what the engine left behind."""

    def __init__(self) -> None:
        # Below /tmp, because the path of a socket may have at most about a hundred bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="harness-engine-", dir="/tmp"))
        self.address = f"unix://{self.folder}/docker.sock"
        self._daemon: subprocess.Popen[bytes] | None = None

    @contextlib.contextmanager
    def client(self, seconds: float = 10.0) -> Iterator[APIClient]:
        """Yield a client with this timeout. Raises DockerException if the engine is down."""
        client = APIClient(base_url=self.address, version="auto", timeout=seconds)  # type: ignore[arg-type]
        try:
            yield client
        finally:
            client.close()

    @property
    def is_up(self) -> bool:
        with contextlib.suppress(DockerException, OSError), self.client(2.0) as client:
            return bool(client.ping())
        return False

    def start(self, *, wait: bool = True) -> None:
        """Start the daemon with the data in the folder, unless it runs and is only slow to answer."""
        deadline = time.monotonic() + END_SECONDS
        # A daemon that ends with the thread that started it looks alive for a moment.
        while self._daemon is not None and self._daemon.poll() is None and time.monotonic() < deadline:
            if not wait or self.is_up:
                return
            time.sleep(0.05)

        def end_with_parent() -> None:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)

        options = {"data-root": "data", "exec-root": "exec", "pidfile": "dockerd.pid"}
        # A daemon that was killed leaves these files. The next daemon would take it for running if its pid is
        # in use again, or if nobody has waited for its zombie.
        for left in ("dockerd.pid", "exec/containerd/containerd.pid"):
            (self.folder / left).unlink(missing_ok=True)
        with open(self.folder / "dockerd.log", "ab") as log:
            self._daemon = subprocess.Popen(
                [
                    *("unshare", "--net", "dockerd", "--host", self.address),
                    *(part for name, place in options.items() for part in (f"--{name}", self.folder / place)),
                    *("--bridge", "none", "--iptables=false", "--ip-forward=false", "--ip-masq=false"),
                ],
                env={**os.environ, "PATH": PATH},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=end_with_parent,
                start_new_session=True,
            )
        if wait:
            self.wait_until_up()

    def wait_until_up(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self.is_up:
            if self._daemon is None or self._daemon.poll() is not None or time.monotonic() > deadline:
                log = (self.folder / "dockerd.log").read_text(errors="replace")
                raise RuntimeError(f"the engine does not start; the end of its log:\n{log[-3000:]}")
            time.sleep(0.05)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the daemon. After SIGSTOP, return once every thread of it has stopped."""
        if self._daemon is None:
            return
        self._daemon.send_signal(number)
        if number == signal.SIGSTOP:
            while not self._is_stopped(self._daemon.pid):
                time.sleep(0.01)

    @staticmethod
    def _is_stopped(pid: int) -> bool:
        threads = psutil.Process(pid).threads()
        return all(psutil.Process(thread.id).status() == psutil.STATUS_STOPPED for thread in threads)

    def kill(self) -> None:
        """Kill the daemon as a crash would. Its containers run on."""
        if self._daemon is not None:
            self._daemon.kill()
            self._daemon.wait()

    def stop(self) -> None:
        """Stop the daemon as a service manager would, with all containers."""
        if self._daemon is not None:
            self._daemon.send_signal(signal.SIGCONT)
            self._daemon.terminate()
            self._daemon.wait()

    def take_image(self, source: APIClient, name: str = "python") -> None:
        """Copy an image from another engine, with its id."""
        with self.client(120.0) as client:
            client.load_image(source.get_image(image_tag(name)))  # type: ignore[no-untyped-call]

    def containers(self) -> list[str]:
        with self.client() as client:
            return [container["Id"] for container in client.containers(all=True)]

    def processes(self) -> list[str]:
        """Return the processes of this engine: its daemons, and all processes on its images.

        The list leaves out idle shims, which a killed daemon leaves for ever: those of containers that have
        ended meanwhile, and those of containers that it was about to start, which run nothing but `runc
        init`.
        """
        return [process for process in self._processes() if not _is_idle(process)]

    def _processes(self) -> list[str]:
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal():
                continue
            with contextlib.suppress(OSError):
                command = _command(entry)
                mounts = (entry / "mountinfo").read_text(errors="replace").splitlines()
                root = next((line for line in mounts if line.split()[4] == "/"), "")
                if str(self.folder) in command or str(self.folder) in root:
                    found.append(f"{entry.name} {command[:120]}")
        return found

    def mounts(self) -> list[str]:
        """Return the mounts in its folder, without that of the data folder on itself.

        A daemon makes that mount, and leaves it behind if an earlier daemon was killed.
        """
        return [place for place in self._mounts() if place != f"{self.folder}/data"]

    def _mounts(self) -> list[str]:
        lines = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
        return [place for line in lines if str(self.folder) in (place := line.split()[4])]

    def close(self) -> list[str]:
        """End the engine, remove its folder, and return what it left that should not have been there."""
        try:
            if self._daemon is not None:
                if self._daemon.poll() is not None:
                    self.start()
                self._remove_containers()
                self.stop()
            deadline = time.monotonic() + END_SECONDS
            while (left := self.processes() + self.mounts()) and time.monotonic() < deadline:
                time.sleep(0.1)
        finally:
            self._end_the_rest()
            shutil.rmtree(self.folder, ignore_errors=True)
        return left

    def _remove_containers(self) -> None:
        with self.client(60.0) as client:
            for container in client.containers(all=True):
                with contextlib.suppress(APIError):
                    client.remove_container(container["Id"], force=True, v=True)

    def _end_the_rest(self) -> None:
        for process in self._processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process.split()[0]), signal.SIGKILL)
        for mount in reversed(self._mounts()):
            subprocess.run(["umount", "--lazy", mount], check=False, capture_output=True)


def _is_idle(process: str) -> bool:
    """Return whether a process only waits for a container to start, or is the shim of an empty container."""
    pid, _, command = process.partition(" ")
    if command == RUNC_INIT:
        return True
    if "containerd-shim" not in command.partition(" ")[0]:
        return False
    with contextlib.suppress(OSError):
        children = "".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children"))
        return all(_command(Path("/proc", child)) in (RUNC_INIT, "") for child in children.split())
    return True


def _command(process: Path) -> str:
    """Return the command line of a process; "" if it is gone, or a zombie."""
    with contextlib.suppress(OSError):
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return ""
