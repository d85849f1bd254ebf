"""The backend `oci` as an ordinary user, who exists in a mount namespace of the tests only."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import pytest
from backend.oci_fixtures import connect_oci

from harness.sandbox.backends.oci import images
from harness.sandbox.backends.oci.promises import WEAKER
from harness.sandbox.backends.oci.user_namespace import COUNT
from harness.sandbox.machine.installation import scratch_dir

UID, FIRST = 54321, 2_000_000_000
CHECKOUT = Path(__file__).parents[2]
WAIT_SECONDS = 30.0
# The user's own copy of the image, whose files belong to subordinate ids.
UNPACK = """
import json, sys
from harness.sandbox.backends.oci import images
with images.new_image() as root, open(sys.argv[1], "rb") as layer:
    images.unpack_layer(layer, root)
    images.keep(images.StoredImage(**json.loads(sys.argv[2])), root)
"""
DESCRIBE = """
from harness.core.errors import HarnessError
from harness.sandbox.backends.oci.backend import connect
try:
    backend = connect(allow_weaker=len(sys.argv) > 1)
    print(json.dumps(backend.describe(runtime="runc", images=["python"]).runtime))
except HarnessError as error:
    print(error.message)
"""
CHECK = """
import asyncio
from harness.sandbox.backends.oci.backend import connect
from harness.sandbox.selfcheck import Level, check_backend
backend = connect(allow_weaker=True)
checks = asyncio.run(check_backend(backend))
print(json.dumps({check.name: check.found for check in checks if check.level is Level.FAIL}))
backend.close()
"""
OWN = """
import asyncio
from harness import Sandbox
from harness.sandbox.backends.oci.backend import connect, find_container
async def main():
    async with Sandbox.open("python", writable_root=True, backend=connect(allow_weaker=True)) as sandbox:
        await sandbox.exec(["sh", "-c", "echo x > /var/tmp/file"])
        print(json.dumps(str(find_container(sandbox.container_id).parent)), flush=True)
        await sandbox.exec(["sh", "-c", f"setsid sleep {sys.argv[1]} & sleep {sys.argv[1]}"], timeout=600)
asyncio.run(main())
"""
# Forks share the memory of their parent, so that four with 40 MiB each fit into 64 MiB.
FILL = """
import asyncio
from harness import Sandbox
from harness.sandbox.failures import SandboxOutOfMemory
from harness.sandbox.limits import Limits
from harness.sandbox.backends.oci.backend import connect
PROGRAMS = (
    "data = b'x' * (40 << 20); pids = [os.fork() for _ in range(2)]; time.sleep(1)",
    "data = b'x' * (80 << 20); time.sleep(60)",
    "[open(f'/tmp/{name}', 'wb').write(b'x' * (40 << 20)) for name in 'ab']; time.sleep(60)",
)
async def main():
    found, backend = [], connect(allow_weaker=True)
    limits = Limits(memory_mb=64, disk_mb=128)
    for program in PROGRAMS:
        async with Sandbox.open("python", limits=limits, backend=backend) as sandbox:
            argv = ["python3", "-c", "import os, time; " + program]
            try:
                found.append((await sandbox.exec(argv, timeout=60)).exit_code)
            except SandboxOutOfMemory:
                found.append("memory")
    print(json.dumps(found))
    backend.close()
asyncio.run(main())
"""


@dataclass(frozen=True)
class Alice:
    """An ordinary user, and the folder with her home."""

    folder: Path

    def start(self, program: str, *arguments: str, ids: bool = True) -> subprocess.Popen[str]:
        """Start a Python program as her, with subordinate ids or without."""
        lines = [*self._show_folders(), *self._show_users(ids)]
        command = [
            *("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "env", "-i"),
            *(f"PATH={os.environ['PATH']}", f"HOME={self.folder}/home", f"PYTHONPATH={CHECKOUT}"),
            *(sys.executable, "-B", "-c", f"import json, sys\n{program}", *arguments),
        ]
        script = "\n".join(["set -e", *lines, f"cd {self.folder}", f"exec {shlex.join(command)}"])
        return subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, program: str, *arguments: str, ids: bool = True) -> str:
        """Run a Python program as her, and return the last line that it prints."""
        with self.start(program, *arguments, ids=ids) as process:
            output, errors = process.communicate()
        assert process.returncode == 0, errors
        return output.strip().rpartition("\n")[2]

    def _show_users(self, ids: bool) -> Iterator[str]:
        line = f"alice:{FIRST}:65536\n" if ids else ""
        own = f"alice:x:{UID}:{UID}::{self.folder}/home:/bin/sh\n"
        for name, text in (
            ("passwd", Path("/etc/passwd").read_text() + own),
            ("subuid", line),
            ("subgid", line),
        ):
            (self.folder / name).write_text(text)
            Path("/etc", name).touch()
            yield f"mount --bind {self.folder / name} /etc/{name}"

    def _show_folders(self) -> Iterator[str]:
        """Yield the commands that let her see Python and harness, wherever they are."""
        needed = [Path(path).resolve() for path in (sys.base_prefix, sys.prefix, CHECKOUT)]
        closed = {
            top: [path for path in needed if path.is_relative_to(top)]
            for top in {parent for path in needed for parent in path.parents if not parent.stat().st_mode & 1}
        }
        for number, (top, paths) in enumerate(closed.items()):
            kept = self.folder / f"kept-{number}"
            yield f"mkdir -p {kept}; mount --rbind {top} {kept}; mount -t tmpfs -o mode=755 none {top}"
            for path in paths:
                yield f"mkdir -p {path}; mount --rbind {kept / path.relative_to(top)} {path}"


@pytest.fixture(scope="module")
def alice() -> Iterator[Alice]:
    if os.geteuid() != 0 or shutil.which("newuidmap") is None:
        pytest.skip("needs root, which makes the user, and newuidmap (apt-get install uidmap)")
    connect_oci().close()
    image = images.require_image("python")
    folder = Path(tempfile.mkdtemp(dir=scratch_dir()))
    try:
        folder.chmod(0o755)
        (folder / "home").mkdir(mode=0o700)
        os.chown(folder / "home", UID, UID)
        layer = folder / "layer.tar"
        subprocess.run(["tar", "-cf", layer, "-C", images.find_root(image.id), "."], check=True)
        alice = Alice(folder)
        alice.run(UNPACK, str(layer), json.dumps(asdict(image)))
        yield alice
    finally:
        shutil.rmtree(folder)


def find_processes(argument: str) -> list[psutil.Process]:
    return [p for p in psutil.process_iter(["cmdline"]) if argument in (p.info["cmdline"] or ())]


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_user_without_subordinate_ids_is_told_how_to_get_them(alice: Alice) -> None:
    assert f"/etc/subuid gives user {UID} no {COUNT} subordinate ids" in alice.run(DESCRIBE, ids=False)


def test_limits_that_nothing_enforces_are_refused_or_named(alice: Alice) -> None:
    assert "this machine cannot enforce memory_mb, swap, processes, cpus" in alice.run(DESCRIBE)
    assert json.loads(alice.run(DESCRIBE, "allow"))["limits_not_enforced"].keys() == WEAKER.keys()


def test_the_self_check_fails_only_for_the_limits_of_control_groups(alice: Alice) -> None:
    failed = json.loads(alice.run(CHECK))
    assert failed.keys() <= {*WEAKER, "socket memory"}, failed
    assert "memory_mb" in failed


def test_a_sandbox_that_takes_too_much_memory_is_ended(alice: Alice) -> None:
    assert json.loads(alice.run(FILL)) == [0, "memory", "memory"]


@pytest.mark.parametrize("kills_supervisor", [False, True], ids=["owner", "supervisor"])
def test_a_kill_leaves_no_process(alice: Alice, kills_supervisor: bool) -> None:
    seconds = f"{600 + kills_supervisor}.{os.getpid()}"
    with alice.start(OWN, seconds) as owner:
        assert owner.stdout is not None
        supervisor = find_processes(json.loads(owner.stdout.readline()))
        wait_until(lambda: len(find_processes(seconds)) == 3)
        (_, *programs) = sorted(find_processes(seconds), key=lambda p: p.pid)
        with contextlib.suppress(psutil.NoSuchProcess):
            assert all(FIRST < p.uids().real < FIRST + COUNT for p in programs), "nobody in it is the user"
        assert [p.uids().real for p in supervisor] == [FIRST]
        for process in supervisor if kills_supervisor else [owner]:
            process.kill()
        wait_until(lambda: [p.pid for p in find_processes(seconds) if p.pid != owner.pid] == [])
        owner.kill()
