"""Root in one sandbox uses up nothing that the kernel counts for root of all sandboxes and of the machine."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from docker import APIClient

from harness import Sandbox
from harness.environments.maths.grader import ask
from harness.environments.os.root_sandbox import RootSandbox
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.guest.processes import SHARED_COUNTS
from harness.sandbox.limits import Limits
from harness.sandbox.machine.images import build_images
from harness.sandbox.selfcheck import probe

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

PROBE = Path(probe.__file__).read_text(encoding="utf-8")
# Take every pipe that a user may have at full size, as root and as other users, and keep them.
PIPES = """
import os, time
for uid in (0, 1000, 65534):
    if os.fork() == 0:
        os.setresuid(uid, uid, uid)
        pipes = []
        try:
            while True:
                pipes.append(os.pipe())
        except OSError:
            open(f"/tmp/taken-by-{uid}", "w").close()
        time.sleep(60)
while len([name for name in os.listdir("/tmp") if name.startswith("taken-by")]) < 3:
    time.sleep(0.01)
print("taken", flush=True)
"""
ECHO = ("/usr/bin/python3", "-u", "-c", "import sys\nfor line in sys.stdin: print(len(line))")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hostile(client: APIClient, backend: DockerBackend) -> AsyncIterator[RootSandbox]:
    build_images(client, ["os", "python"], notify=print)
    limits = Limits(memory_mb=512, open_files=4096)
    async with RootSandbox.open("os", backend=backend, limits=limits) as sandbox:
        await sandbox.open_shell()
        yield sandbox


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def taken(hostile: RootSandbox) -> dict[str, int]:
    """Return the amount that root got of each count when it took all that it could, up to 5000."""
    argv = ["python3", "-c", PROBE, "shared_counts", "[5000]"]
    counts: dict[str, int] = json.loads(str((await hostile.run_script(argv)).stdout))
    return counts


@pytest.mark.parametrize(
    "name",
    [
        "inotify instances",
        "pseudo-terminals",
        "asynchronous requests",
        "keys",
        "message queues",
        "epoll instances",
    ],
)
async def test_root_in_a_sandbox_gets_nothing_of_a_shared_count(taken: dict[str, int], name: str) -> None:
    assert taken[name] == 0


async def test_asyncio_of_root_does_without_epoll(hostile: RootSandbox) -> None:
    program = "import asyncio; asyncio.run(asyncio.sleep(0)); print('slept')"
    assert str((await hostile.run_script(["python3", "-c", program])).stdout) == "slept\n"


async def test_root_in_a_sandbox_gets_few_timers(taken: dict[str, int]) -> None:
    assert 0 < taken["timers"] <= SHARED_COUNTS["sigpending"]


async def test_root_in_a_sandbox_cannot_raise_its_limit(hostile: RootSandbox) -> None:
    ended = await hostile.run("ulimit -i 5000; ulimit -q 5000; ulimit -n 5000")
    assert str(ended.output).count("Operation not permitted") == 3


async def test_a_message_queue_cannot_be_made_by_its_system_call(hostile: RootSandbox) -> None:
    program = "import ctypes; print(ctypes.CDLL(None, use_errno=True).mq_open(b'/q', 66, 384, None))"
    assert str((await hostile.run_script(["python3", "-c", program])).stdout) == "-1\n"


async def test_a_terminal_cannot_be_opened_under_another_name(hostile: RootSandbox) -> None:
    script = "mknod /root/ptmx c 5 2; ln -sf pts/ptmx /dev/ptmx; umount /dev/pts/ptmx"
    said = str((await hostile.run(f"{script}; stat -c %t:%T /dev/pts/ptmx")).output)
    # The null device replaces the multiplexer.
    assert said.splitlines()[-1] == "1:3"


async def test_no_descriptor_is_beyond_the_limit_of_the_sandbox(backend: DockerBackend) -> None:
    async with RootSandbox.open("os", backend=backend, limits=Limits(open_files=64)) as sandbox:
        await sandbox.open_shell()
        program = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))"
        assert str((await sandbox.run_script(["python3", "-c", program])).stdout) == "(64, 64)\n"


async def test_long_commands_reach_a_sandbox_whose_neighbour_took_all_pipes(
    backend: DockerBackend, hostile: RootSandbox
) -> None:
    await hostile.write_file("/root/pipes.py", PIPES.encode())
    said = await hostile.run("python3 /root/pipes.py & wait %1 2>/dev/null || true")
    assert str(said.output).endswith("taken\n")
    async with (
        RootSandbox.open("os", backend=backend) as machine,
        Sandbox.open("maths", backend=backend) as grader,
    ):
        await machine.open_shell()
        command = f"echo {'x' * 40_000} | wc -c"
        assert str((await machine.run(command)).output) == "40001\n"
        answer = await ask(grader, ECHO, b"q" * 40_000, timeout=10, start_timeout=5)
        assert answer.line == b"40001"
