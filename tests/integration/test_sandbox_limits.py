"""Every limit of a sandbox, reached on purpose: the job ends, its result says why, the sandbox lives."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from docker import APIClient

from harness import Sandbox
from harness.errors import SandboxError
from harness.sandbox import sandbox as sandbox_module
from harness.sandbox.images import build_images
from harness.sandbox.limits import MIB, Limits
from harness.sandbox.results import ExecResult
from harness.sandbox.sandbox import SandboxOutOfMemory

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(60)]

LIMITS = Limits(
    cpu_seconds=1,
    wall_seconds=10,
    memory_mb=128,
    processes=32,
    output_mb=1,
    disk_mb=8,
    inodes=100,
    file_mb=2,
    open_files=40,
)
HOG = "data = []\nwhile True: data.append(bytearray(b'x' * (1 << 20)))"
FORK_BOMB = """
import os, time
while True:
    try:
        if os.fork() == 0:
            time.sleep(600)
    except OSError:
        raise SystemExit(1)
"""
# Takes every free place in the process table.
FULL_HOUSE = """
import os, time
while True:
    try:
        if os.fork() == 0:
            time.sleep(600)
    except OSError:
        time.sleep(0.001)
"""


@pytest.fixture(scope="module", autouse=True)
def image(client: APIClient) -> None:
    build_images(client, ["python"], notify=print)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(client: APIClient) -> AsyncIterator[Sandbox]:
    async with Sandbox.open("python", client=client, limits=LIMITS) as sandbox:
        yield sandbox


@pytest_asyncio.fixture(loop_scope="module")
async def own_sandbox(client: APIClient) -> AsyncIterator[Sandbox]:
    """For what may cost the container its life."""
    async with Sandbox.open("python", client=client, limits=LIMITS) as sandbox:
        yield sandbox


async def shell(sandbox: Sandbox, script: str, **options: object) -> ExecResult:
    return await sandbox.exec(["sh", "-c", script], **options)  # type: ignore[arg-type]


async def python(sandbox: Sandbox, program: str, **options: object) -> ExecResult:
    return await sandbox.exec(["python3", "-c", program], **options)  # type: ignore[arg-type]


async def assert_alive(sandbox: Sandbox) -> None:
    result = await sandbox.exec(["echo", "alive"])
    assert (result.stdout.data, result.limit, sandbox.clean) == (b"alive\n", None, True)


# Limits that end a job, each with its name.


@pytest.mark.parametrize(
    ("program", "limit"),
    [
        pytest.param("while True: pass", "cpu_seconds", id="busy loop"),
        pytest.param(
            "import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass",
            "cpu_seconds",
            id="busy loop that ignores the first warning",
        ),
        pytest.param(
            "import os\nos.execvp('sh', ['sh', '-c', '(while :; do :; done); exit $?'])",
            "cpu_seconds",
            id="busy loop in a child that tells of it as shells do",
        ),
        pytest.param(HOG, "memory_mb", id="memory"),
        pytest.param(
            f"import os\nif os.fork(): os._exit(os.wait()[1])\n{HOG}", "memory_mb", id="memory of a child"
        ),
        pytest.param(
            "import mmap\nmaps = []\n"
            "while True: maps.append(mmap.mmap(-1, 1 << 20)); maps[-1].write(bytes(1 << 20))",
            "memory_mb",
            id="shared memory",
        ),
        pytest.param(FORK_BOMB, "processes", id="fork bomb"),
        pytest.param(
            "import threading, time\n"
            "while True: threading.Thread(target=time.sleep, args=(600,), daemon=True).start()",
            "processes",
            id="threads",
        ),
        pytest.param("while True: print('x' * 1000)", "output_mb", id="flood on stdout"),
        pytest.param(
            "import sys\nwhile True: sys.stderr.write('x' * 1000)", "output_mb", id="flood on stderr"
        ),
    ],
)
async def test_a_limit_that_is_reached_is_named(sandbox: Sandbox, program: str, limit: str) -> None:
    result = await python(sandbox, program)
    assert result.limit == limit
    assert result.exit_code != 0
    await assert_alive(sandbox)


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("import time; time.sleep(600)", id="sleep"),
        pytest.param("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", id="stopped"),
        pytest.param("import os; os.read(os.pipe()[0], 1)", id="waits for itself"),
        pytest.param(
            "import signal, time\n"
            "for number in set(signal.Signals) - {9, 19}: signal.signal(number, signal.SIG_IGN)\n"
            "time.sleep(600)",
            id="ignores signals",
        ),
        pytest.param(
            "import ctypes, threading, time\n"
            "threading.Thread(target=time.sleep, args=(600,)).start()\n"
            "ctypes.CDLL(None).pthread_exit(None)",
            id="first thread has ended",
        ),
    ],
)
async def test_the_wall_limit_ends_what_waits(
    own_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(sandbox_module, "GRACE_SECONDS", 2.0)
    result = await python(own_sandbox, program, timeout=0.4)
    assert (result.limit, result.exit_code) == ("wall_seconds", -9)
    assert 0.4 <= result.duration_seconds < 2.4


async def test_a_wall_limit_shorter_than_a_start_is_kept(
    own_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_module, "GRACE_SECONDS", 2.0)
    for timeout in (0.00001, 0.0005, 0.001, 0.002, 0.004):
        assert (await own_sandbox.exec(["sleep", "600"], timeout=timeout)).limit == "wall_seconds"


async def test_a_busy_crowd_is_ended_by_the_wall_limit(sandbox: Sandbox) -> None:
    crowd = "import os\nfor _ in range(20):\n if os.fork() == 0: os.setsid(); break\nwhile True: pass"
    result = await python(sandbox, crowd, timeout=0.5)
    assert result.limit == "wall_seconds"
    await assert_alive(sandbox)


async def test_a_busy_fork_bomb_is_ended_by_the_wall_limit(sandbox: Sandbox) -> None:
    bomb = "import os\nwhile True:\n try: os.fork()\n except OSError: pass"
    result = await python(sandbox, bomb, timeout=0.5)
    assert result.limit == "wall_seconds"
    await assert_alive(sandbox)


async def test_a_flood_of_any_size_is_ended_and_kept_in_part(sandbox: Sandbox) -> None:
    result = await shell(sandbox, "yes 0123456789 | head -c 10000000000", keep_bytes=1000)
    assert result.limit == "output_mb"
    assert MIB < result.stdout.total < 64 * MIB
    assert len(result.stdout.head) == len(result.stdout.tail) == 500


async def test_output_up_to_the_limit_is_no_flood(sandbox: Sandbox) -> None:
    result = await shell(sandbox, f"head -c {MIB} /dev/zero")
    assert (result.limit, result.stdout.total) == (None, MIB)


async def test_both_streams_count_as_one_for_the_limit(sandbox: Sandbox) -> None:
    result = await shell(sandbox, "head -c 700000 /dev/zero; head -c 700000 /dev/zero >&2; sleep 600")
    assert result.limit == "output_mb"


async def test_a_memory_error_is_the_programs_own_affair(sandbox: Sandbox) -> None:
    result = await python(sandbox, "try: bytearray(1 << 46)\nexcept MemoryError: print('caught')")
    assert (result.stdout.data, result.limit) == (b"caught\n", None)


async def test_a_killed_child_whose_parent_copes_is_no_limit(sandbox: Sandbox) -> None:
    result = await python(sandbox, f"import os\nif os.fork(): os.wait(); print('coped'); os._exit(0)\n{HOG}")
    assert (result.exit_code, result.limit) == (0, None)


# Limits that the program itself is told of.


async def test_the_largest_file_is_bounded(sandbox: Sandbox) -> None:
    result = await shell(sandbox, "head -c 3000000 /dev/zero > large; stat -c %s large; rm large")
    assert result.stdout.data == b"%d\n" % (2 * MIB)


async def test_a_file_over_its_limit_is_named(sandbox: Sandbox) -> None:
    result = await sandbox.exec(["truncate", "-s", "1T", "large"])
    assert result.limit == "file_mb"


async def test_open_files_are_bounded(sandbox: Sandbox) -> None:
    program = (
        "import os\nn = 3\ntry:\n while True: n = os.open('/', 0)\nexcept OSError as e: print(n, e.errno)"
    )
    assert (await python(sandbox, program)).stdout.data == b"39 24\n"


@pytest.mark.parametrize("folder", [".", "/tmp", "/dev/shm"])
async def test_the_bytes_of_each_folder_are_bounded(sandbox: Sandbox, folder: str) -> None:
    program = (
        f"import os\nos.chdir({folder!r})\nn = 0\n"
        "try:\n while True: open(f'file{n}', 'wb').write(bytes(1 << 20)); n += 1\n"
        "except OSError as e: print(n <= 8, e.errno)\n"
        "for name in os.listdir('.'): os.unlink(name)"
    )
    assert (await python(sandbox, program)).stdout.data == b"True 28\n"


@pytest.mark.parametrize("folder", [".", "/tmp", "/dev/shm"])
async def test_the_number_of_files_in_each_folder_is_bounded(sandbox: Sandbox, folder: str) -> None:
    program = (
        f"import os\nos.chdir({folder!r})\nn = 0\n"
        "try:\n while n < 1000: open(f'file{n}', 'w').close(); n += 1\n"
        "except OSError as e: print(n <= 100, e.errno)\n"
        "for name in os.listdir('.'): os.unlink(name)"
    )
    assert (await python(sandbox, program)).stdout.data == b"True 28\n"


async def test_no_core_is_left_of_a_crash(sandbox: Sandbox) -> None:
    await shell(sandbox, "ulimit -c unlimited 2>/dev/null; kill -SEGV $$")
    assert b"core" not in (await sandbox.exec(["ls", "-A"])).stdout.data


async def test_no_limit_can_be_raised_from_inside(sandbox: Sandbox) -> None:
    program = (
        "import resource as r\n"
        "for kind in (r.RLIMIT_CPU, r.RLIMIT_FSIZE, r.RLIMIT_NOFILE, r.RLIMIT_CORE):\n"
        " try: r.setrlimit(kind, (r.RLIM_INFINITY, r.RLIM_INFINITY)); print('raised', kind)\n"
        " except (ValueError, OSError): pass"
    )
    assert (await python(sandbox, program)).stdout.data == b""


async def test_the_share_of_the_cpu_is_bounded(client: APIClient) -> None:
    busy = "import time\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass"
    async with Sandbox.open("python", client=client, limits=Limits(cpus=0.2)) as sandbox:
        result = await python(sandbox, busy)
    assert result.cpu_seconds < 0.6


# When a limit of the whole container is full.


async def test_a_full_process_table_does_not_cost_the_container_its_life(own_sandbox: Sandbox) -> None:
    holder = asyncio.create_task(python(own_sandbox, FULL_HOUSE, timeout=1.5))
    while not holder.done():
        with contextlib.suppress(SandboxError):
            await own_sandbox.exec(["true"], timeout=0.2)
    assert (await holder).limit == "wall_seconds"
    await assert_alive(own_sandbox)


async def test_a_command_that_cannot_start_in_a_full_process_table_names_the_limit(
    own_sandbox: Sandbox,
) -> None:
    holder = asyncio.create_task(python(own_sandbox, FULL_HOUSE, timeout=1.5))
    results: list[ExecResult] = []
    while not holder.done():
        results.append(await own_sandbox.exec(["true"], timeout=0.2))
    await holder
    assert "processes" in {result.limit for result in results}


async def test_tests_that_cannot_start_do_not_cost_the_container_its_life(client: APIClient) -> None:
    limits = Limits(processes=32, wall_seconds=0.5)
    async with Sandbox.open("python", client=client, limits=limits) as sandbox:
        holder = asyncio.create_task(python(sandbox, FULL_HOUSE, timeout=1.5))
        while not holder.done():
            with contextlib.suppress(SandboxError):
                await sandbox.run_tests(program="", statements=["pass"], exports={})
        assert (await holder).limit == "wall_seconds"
        assert (await sandbox.exec(["true"])).exit_code == 0


async def test_a_wall_limit_shorter_than_the_start_of_a_program_is_kept(client: APIClient) -> None:
    for seconds in (0.0005, 0.002, 0.008):
        async with Sandbox.open("python", client=client, limits=Limits(wall_seconds=seconds)) as sandbox:
            reports = await asyncio.gather(
                *(
                    sandbox.run_tests(program="while True: pass", statements=["pass"], exports={})
                    for _ in range(10)
                )
            )
            assert {report.ended for report in reports} == {"wall_seconds"}


async def test_files_that_fill_the_memory_are_told_from_a_fault_of_ours(client: APIClient) -> None:
    fill = "for folder in /tmp . /dev/shm; do head -c 60000000 /dev/zero > $folder/x; done; exit 1"
    limits = Limits(memory_mb=64, disk_mb=64)
    async with Sandbox.open("python", client=client, limits=limits) as sandbox:
        try:
            result = await shell(sandbox, fill)
        except SandboxOutOfMemory:
            return  # PID 1 was the last one that could be killed
        assert result.limit == "memory_mb"


async def test_a_crowd_that_makes_itself_a_worse_victim_is_told_from_a_fault_of_ours(
    client: APIClient,
) -> None:
    """Jobs are killed first, unless they say otherwise: then PID 1 may be, and that must be told apart."""
    program = (
        "import os\n"
        "open('/proc/self/oom_score_adj', 'w').write('0')\n"
        "fd = os.memfd_create('x')\n"
        "for _ in range(20):\n if os.fork() == 0: break\n"
        "while True: os.write(fd, bytes(100000))"
    )
    limits = Limits(memory_mb=64, disk_mb=64)
    async with Sandbox.open("python", client=client, limits=limits) as sandbox:
        try:
            result = await python(sandbox, program)
        except SandboxOutOfMemory:
            return
        assert result.limit == "memory_mb"
