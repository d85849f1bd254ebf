"""The time limits in a real sandbox: every process of a job counts, and waiting is credited."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest
import pytest_asyncio
from case_checks import check_together
from effort import one_in_two

from harness import Sandbox
from harness.core.errors import SandboxError
from harness.environments.python.client import InputRun, run_calls, run_on_inputs, run_tests
from harness.environments.python.guest.testing_job import TestJob
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.guest.durations import MOST_PATIENCE
from harness.sandbox.guest.jobs import BUSY
from harness.sandbox.limits import Limits

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

CPU_SECONDS = 0.2
# The time that a job may use between two checks of the clock, and before PID 1 gets a processor to check it.
LATE_SECONDS = 0.5

BURN = """
import ctypes, os, signal, threading, time
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
"""
# Each program uses several times the limit, mostly in processes that stay below it.
RELAYS = {
    "children that are waited for": """
for _ in range(15):
    if os.fork() == 0:
        burn(0.1)
        os._exit(0)
    os.wait()
""",
    "children that nobody waits for": """
for _ in range(15):
    read_end, write_end = os.pipe()
    if os.fork() == 0:
        burn(0.1)
        os._exit(0)
    os.close(write_end)
    os.read(read_end, 1)
    os.close(read_end)
""",
    "children that the kernel reaps": """
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(15):
    if os.fork() == 0:
        burn(0.1)
        os._exit(0)
    try:
        os.wait()
    except ChildProcessError:
        pass
""",
    "children that send no signal when they end": """
libc = ctypes.CDLL(None, use_errno=True)
CLONE, WAIT_FOR_CLONES = 56 if os.uname().machine == "x86_64" else 220, -0x80000000
for _ in range(15):
    child = libc.syscall(CLONE, 0, 0, 0, 0, 0)
    if child == 0:
        burn(0.1)
        os._exit(0)
    os.waitpid(child, WAIT_FOR_CLONES)
""",
    "a chain of which each forks the next and ends": """
if os.fork() == 0:
    for _ in range(15):
        burn(0.1)
        if os.fork():
            os._exit(0)
    os._exit(0)
time.sleep(60)
""",
    "a chain in sessions of their own": """
if os.fork() == 0:
    for _ in range(15):
        os.setsid()
        burn(0.1)
        if os.fork():
            os._exit(0)
    os._exit(0)
time.sleep(60)
""",
    "processes at the same time": """
for _ in range(15):
    if os.fork() == 0:
        burn(0.1)
        os._exit(0)
for _ in range(15):
    os.wait()
""",
    "threads": """
for _ in range(15):
    thread = threading.Thread(target=burn, args=(0.1,))
    thread.start()
    thread.join()
""",
    "a niced child": """
if os.fork() == 0:
    os.nice(19)
    burn(60)
time.sleep(60)
""",
    "children of a shell": """
os.execv("/bin/sh", ["sh", "-c", "while :; do (i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done); done"])
""",
}
# Its children are too many for a limit of a second, too.
RELAY = RELAYS["children that the kernel reaps"].replace("range(15)", "range(30)")
RELAYING_FUNCTION = f"{BURN}\ndef relay(_line):{textwrap.indent(RELAY, '    ')}    return 1\n"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    limits = Limits(memory_mb=256, cpu_seconds=10, wall_seconds=60)
    async with Sandbox.open("python", backend=backend, limits=limits, seccomp="strict") as sandbox:
        yield sandbox


@pytest.fixture
def busy_machine() -> Iterator[None]:
    """Run a neighbour for each processor, each of which always wants one."""
    command = [sys.executable, "-c", "while True: pass"]
    neighbours = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]
    yield
    for neighbour in neighbours:
        neighbour.kill()
        neighbour.wait()


@contextmanager
def machine_may_be_blamed() -> Iterator[None]:
    """Accept that the guest blames the machine if it is too busy to give a program its second of CPU time."""
    try:
        yield
    except SandboxError as error:
        if str(error) != BUSY:
            raise


async def run(
    sandbox: Sandbox, program: str, *, cpu_seconds: float = CPU_SECONDS, wall_seconds: float = 60
) -> InputRun:
    (only,) = await run_on_inputs(
        sandbox,
        program=(BURN + program).encode(),
        inputs=[b""],
        stdout_bytes=1 << 16,
        cpu_seconds=cpu_seconds,
        wall_seconds=wall_seconds,
    )
    return only


@pytest.mark.parametrize("relay", RELAYS)
async def test_a_program_on_stdin_cannot_hand_its_processor_time_on(sandbox: Sandbox, relay: str) -> None:
    result = await run(sandbox, RELAYS[relay])
    assert result.ended == "cpu_seconds", result
    assert CPU_SECONDS <= result.cpu_seconds < CPU_SECONDS + LATE_SECONDS
    assert result.clean


async def test_commands_are_charged_for_their_own_processor_time_and_cannot_hand_it_on(
    backend: DockerBackend,
) -> None:
    limits = Limits(memory_mb=256, cpu_seconds=1, wall_seconds=60)
    burn = ["python3", "-c", BURN + "burn(0.6)"]
    async with Sandbox.open("python", backend=backend, limits=limits) as sandbox:
        results = await asyncio.gather(sandbox.exec(burn), sandbox.exec(burn))
        assert all(result.exit_code == 0 and 0.6 <= result.cpu_seconds < 1 for result in results), results
        result = await sandbox.exec(["python3", "-c", BURN + RELAY])
    assert result.limit == "cpu_seconds", result
    assert 1 <= result.cpu_seconds < 1 + LATE_SECONDS


async def test_a_program_under_tests_cannot_hand_its_processor_time_on(backend: DockerBackend) -> None:
    limits = Limits(memory_mb=256, cpu_seconds=1, wall_seconds=60)
    async with Sandbox.open("python", backend=backend, limits=limits, seccomp="strict") as sandbox:
        report = await run_tests(
            sandbox,
            program=RELAYING_FUNCTION,
            statements=["assert relay(0) == 1"],
            exports={"relay": "relay"},
        )
    assert report.ended == "cpu_seconds", report
    assert 1 <= report.cpu_seconds < 1 + LATE_SECONDS


async def test_a_function_cannot_hand_its_processor_time_on(sandbox: Sandbox) -> None:
    report = await run_calls(
        sandbox,
        program=RELAYING_FUNCTION,
        function="relay",
        calls=[(b"", b"1")],
        cpu_seconds=CPU_SECONDS,
        wall_seconds=60,
    )
    assert report.ended == "cpu_seconds", report
    assert report.cpu_seconds < CPU_SECONDS + LATE_SECONDS
    assert report.clean


async def test_each_call_has_its_own_processor_time(sandbox: Sandbox) -> None:
    report = await run_calls(
        sandbox,
        program=BURN + "def use(_line):\n    burn(0.12)\n    return 1\n",
        function="use",
        calls=[(b"0", b"1")] * 3,
        cpu_seconds=CPU_SECONDS,
        wall_seconds=60,
    )
    assert report.results == (True, True, True), report
    assert 0.36 <= report.cpu_seconds < 0.36 + LATE_SECONDS


async def test_processes_that_share_two_processors_are_stopped_as_soon_as_their_sum_is_too_large(
    backend: DockerBackend,
) -> None:
    limits = Limits(memory_mb=256, cpu_seconds=1, wall_seconds=60, cpus=2.0)
    async with Sandbox.open("python", backend=backend, limits=limits, seccomp="strict") as sandbox:
        result = await run(sandbox, RELAYS["processes at the same time"])
    assert result.ended == "cpu_seconds", result
    assert CPU_SECONDS <= result.cpu_seconds < CPU_SECONDS + LATE_SECONDS


async def test_a_program_that_nobody_stops_reaches_its_limit_too(sandbox: Sandbox) -> None:
    """On an idle machine the program ends before the first check of the clock."""
    result = await run(sandbox, "burn(0.03)", cpu_seconds=0.02)
    assert result.ended == "cpu_seconds", result


RIGHT_PROGRAMS = {
    "one process": "burn({seconds})",
    "a second thread": "t = threading.Thread(target=burn, args=({seconds},)); t.start(); t.join()",
    "a child": "os._exit(burn({seconds}) or 0) if os.fork() == 0 else os.wait()",
    "a program that has lowered its priority": "os.nice(5); burn({seconds})",
}


@pytest.mark.usefixtures("busy_machine")
async def test_a_program_that_uses_nearly_all_of_its_processor_time_passes_on_a_busy_machine(
    sandbox: Sandbox,
) -> None:
    for kind, program in RIGHT_PROGRAMS.items():
        result = await run(sandbox, program.format(seconds=0.2), cpu_seconds=0.3)
        assert result.succeeded, (kind, result)
        assert 0.2 <= result.cpu_seconds < 0.3, (kind, result)


@pytest.mark.usefixtures("busy_machine")
async def test_no_wall_limit_counts_the_time_in_which_others_had_the_processors(
    sandbox: Sandbox, backend: DockerBackend
) -> None:
    cpu_seconds, wall_seconds = 0.4, 0.6
    limits = Limits(memory_mb=256, cpu_seconds=1, wall_seconds=wall_seconds)
    async with Sandbox.open("python", backend=backend, limits=limits, seccomp="strict") as limited:
        on_stdin = run(sandbox, "burn(60)", cpu_seconds=cpu_seconds, wall_seconds=wall_seconds)
        called = run_calls(
            sandbox,
            program=BURN + "def use(_line):\n    burn(60)\n",
            function="use",
            calls=[(b"0", b"1")],
            cpu_seconds=cpu_seconds,
            wall_seconds=wall_seconds,
        )
        tested = run_tests(
            limited,
            program=BURN + "def use():\n    burn(60)\n",
            statements=["assert use() is None"],
            exports={"use": "use"},
        )
        for report, patience in (
            (on_stdin, MOST_PATIENCE),
            (called, MOST_PATIENCE),
            (tested, TestJob.patience),
        ):
            with machine_may_be_blamed():
                ended = await report
                assert ended.ended == "cpu_seconds" or ended.duration_seconds >= wall_seconds * patience, (
                    ended
                )


# Each would end well if the time in which its second process waits for a processor were credited. They sleep
# far longer than the limit, because the wait of their own start is rightly credited.
SLEEPERS = {
    "a program that sleeps": "time.sleep(6)",
    "a niced child": """
if os.fork() == 0:
    os.nice(19)
    burn(60)
time.sleep(6)
""",
    "an idle child": """
if os.fork() == 0:
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    burn(60)
time.sleep(6)
""",
    "an idle thread": """
def idle():
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    burn(60)
threading.Thread(target=idle, daemon=True).start()
time.sleep(6)
os._exit(0)
""",
    "a batch child": """
if os.fork() == 0:
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    os.nice(19)
    burn(60)
time.sleep(6)
""",
    "children that are stopped": """
for _ in range(8):
    if os.fork() == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(6)
""",
    "a chain of idle children": """
if os.fork() == 0:
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    while True:
        burn(0.02)
        if os.fork():
            os._exit(0)
time.sleep(6)
""",
}


@pytest.mark.usefixtures("busy_machine")
async def test_a_sleeping_program_gets_no_credit_for_processes_that_it_makes_wait(
    backend: DockerBackend,
) -> None:
    async def require_end(kind: str) -> None:
        limits = Limits(memory_mb=256, cpu_seconds=10, wall_seconds=60)
        async with Sandbox.open("python", backend=backend, limits=limits, seccomp="strict") as sandbox:
            result = await run(sandbox, SLEEPERS[kind] + "\nprint('slept')", cpu_seconds=10, wall_seconds=1)
        assert result.ended == "wall_seconds", result
        assert result.stdout.total == 0

    await check_together(one_in_two([*SLEEPERS], 1), require_end, at_once=4)
