"""The edges of limits, and containers that have used one up. tests/security has programs that do more."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from harness import Sandbox
from harness.core.errors import SandboxError
from harness.environments.python.client import run_on_inputs, run_tests
from harness.sandbox import sandbox as sandbox_module
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.limits import MIB, Limits
from harness.sandbox.results import ExecResult

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

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


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    async with Sandbox.open("python", backend=backend, limits=LIMITS) as sandbox:
        yield sandbox


@pytest_asyncio.fixture(loop_scope="module")
async def own_sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    """Yield a new sandbox for a test that may end it."""
    async with Sandbox.open("python", backend=backend, limits=LIMITS) as sandbox:
        yield sandbox


async def shell(sandbox: Sandbox, script: str, **options: object) -> ExecResult:
    return await sandbox.exec(["sh", "-c", script], **options)  # type: ignore[arg-type]


async def python(sandbox: Sandbox, program: str, **options: object) -> ExecResult:
    return await sandbox.exec(["python3", "-c", program], **options)  # type: ignore[arg-type]


async def assert_alive(sandbox: Sandbox) -> None:
    result = await sandbox.exec(["echo", "alive"])
    assert (result.stdout.data, result.limit, sandbox.clean) == (b"alive\n", None, True)


# The edges of limits.


async def test_a_wall_limit_shorter_than_a_start_is_enforced(
    own_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_module, "GRACE_SECONDS", 2.0)
    for timeout in (0.00001, 0.0005, 0.001, 0.002, 0.004):
        assert (await own_sandbox.exec(["sleep", "600"], timeout=timeout)).limit == "wall_seconds"


async def test_a_command_starts_under_the_smallest_limit_of_open_files(backend: DockerBackend) -> None:
    limits = Limits(open_files=32)
    # With the three streams, this is one less than the limit allows.
    program = "import os\nfiles = [os.open('/', 0) for _ in range(28)]\nprint(len(files))"
    async with Sandbox.open("python", backend=backend, limits=limits) as sandbox:
        result = await python(sandbox, program)
    assert (result.exit_code, str(result.stdout)) == (0, "28\n")


async def test_output_up_to_the_limit_is_within_it(sandbox: Sandbox) -> None:
    result = await shell(sandbox, f"head -c {MIB} /dev/zero")
    assert (result.limit, result.stdout.total) == (None, MIB)


async def test_a_killed_child_whose_parent_copes_is_no_limit(sandbox: Sandbox) -> None:
    result = await python(sandbox, f"import os\nif os.fork(): os.wait(); print('coped'); os._exit(0)\n{HOG}")
    assert (result.exit_code, result.limit) == (0, None)


async def test_the_share_of_the_cpu_is_bounded(backend: DockerBackend) -> None:
    busy = "import time\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass"
    async with Sandbox.open("python", backend=backend, limits=Limits(cpus=0.2)) as sandbox:
        result = await python(sandbox, busy)
    assert result.cpu_seconds < 0.6


# A limit of the whole container that is used up.


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
    holder = asyncio.create_task(python(own_sandbox, FULL_HOUSE, timeout=60))
    limits: set[str | None] = set()
    while not holder.done() and "processes" not in limits:
        limits.add((await own_sandbox.exec(["true"], timeout=5)).limit)
    holder.cancel()
    await asyncio.wait([holder])
    assert "processes" in limits


async def test_tests_that_cannot_start_do_not_cost_the_container_its_life(backend: DockerBackend) -> None:
    limits = Limits(processes=32, wall_seconds=0.5)
    async with Sandbox.open("python", backend=backend, limits=limits) as sandbox:
        holder = asyncio.create_task(python(sandbox, FULL_HOUSE, timeout=1.5))
        while not holder.done():
            with contextlib.suppress(SandboxError):
                await run_tests(sandbox, program="", statements=["pass"], exports={})
        assert (await holder).limit == "wall_seconds"
        assert (await sandbox.exec(["true"])).exit_code == 0


async def test_a_wall_limit_shorter_than_the_start_of_a_program_is_enforced(backend: DockerBackend) -> None:
    for seconds in (0.0005, 0.008):
        async with Sandbox.open("python", backend=backend, limits=Limits(wall_seconds=seconds)) as sandbox:
            reports = await asyncio.gather(
                *(
                    run_tests(sandbox, program="while True: pass", statements=["pass"], exports={})
                    for _ in range(10)
                )
            )
            assert {report.ended for report in reports} == {"wall_seconds"}


# Times that are too long for a system call.


@pytest.mark.parametrize("seconds", [3600 * 1200.0, 1e12], ids=["3600 attempts", "longer than the clock"])
async def test_a_sandbox_that_may_live_for_ever_answers(backend: DockerBackend, seconds: float) -> None:
    async with Sandbox.open("python", backend=backend, deadline_seconds=seconds) as sandbox:
        assert (await sandbox.exec(["true"], timeout=seconds)).exit_code == 0
        (run,) = await run_on_inputs(
            sandbox, program=b"print(input())", inputs=[b"1"], stdout_bytes=10, wall_seconds_in_all=seconds
        )
    assert run.stdout.data == b"1\n"
