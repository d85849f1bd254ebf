"""Every program of the containment suite: its end, its cost for the host, and the next program."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path

import psutil
import pytest
import pytest_asyncio
from case_checks import check_together
from docker import APIClient
from security.hostile_programs import BOOTY, CANDIDATES, COMMANDS, LIMITS, SHIMS, TOOLS

from harness import Sandbox
from harness.core.errors import UsageError
from harness.core.text import escape_bytes, escape_terminal
from harness.core.types import ProgramTests, Status, Submission, Verdict
from harness.environments.python.programs import grade_program
from harness.sandbox import reaper
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.backends.seccomp import ProfileName
from harness.sandbox.failures import SandboxOutOfMemory
from harness.sandbox.guest_calls import GRACE_SECONDS
from harness.sandbox.limits import MIB, Limits
from harness.sandbox.machine.images import build_images
from harness.sandbox.results import ExecResult
from harness.sandbox.sandbox import FILE_SECONDS

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

# The programs that run side by side. Many wait for a limit.
LANES = 3
# The growth in bytes that a hostile program may cause in the host's process.
GROWTH = 64 * MIB
# The limit has ended a flood by then, independent of its length.
FLOOD = 64 * MIB
TESTS = ProgramTests(statements=("assert f(2) == 4", "assert f('ab') == 'abab'"), exports={"f": "f"})

# Uses resources that the program before may have taken, and searches for traces of it.
HONEST = """
import os
alone = True
for pid in filter(str.isdigit, os.listdir("/proc")):
    try: status = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status"))
    except OSError: continue
    ended = status["State"].split()[0] == "Z" and int(status["Threads"]) <= 1
    if str(os.getuid()) in status["Uid"].split() and int(pid) != os.getpid() and not ended: alone = False
for folder in (".", "/tmp", "/dev/shm"):
    path = folder + "/honest"
    with open(path, "wb") as file: file.write(bytes(100_000))
    os.unlink(path)
pid = os.fork()
if pid == 0: os._exit(7)
print(alone, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), len(bytes(8 << 20)))
"""
HONEST_CANDIDATE = """
import os
open("honest", "wb").write(bytes(100_000))
def f(x):
    alone = x != 2 or len([pid for pid in range(1, 33_000) if os.path.exists(f"/proc/{pid}")]) <= 5
    return x * 2 if alone and os.listdir("/tmp") == os.listdir("/dev/shm") == [] else None
"""


class Grounds:
    """The sandboxes where the programs run: one of each kind, replaced as soon as one is in doubt."""

    def __init__(self, client: APIClient) -> None:
        self.client = client
        self.run_id = f"hostile-{secrets.token_hex(6)}"
        self._open: dict[tuple[ProfileName, Limits], tuple[Sandbox, contextlib.AsyncExitStack]] = {}

    @contextlib.asynccontextmanager
    async def lend(
        self, profile: ProfileName, limits: Limits = LIMITS, *, spoils: bool = False
    ) -> AsyncIterator[Sandbox]:
        """Yield a sandbox for one program. The next program gets it too only if it is clean."""
        kind = (profile, limits)
        if kind not in self._open:
            stack = contextlib.AsyncExitStack()
            opening = Sandbox.open(
                "python",
                backend=DockerBackend(self.client),
                limits=limits,
                seccomp=profile,
                run_id=self.run_id,
            )
            self._open[kind] = (await stack.enter_async_context(opening), stack)
        sandbox, _ = self._open[kind]
        as_new = False
        try:
            yield sandbox
            as_new = sandbox.clean and not spoils
        finally:
            if not as_new:
                await self._close(kind)
        await self._assert_none_is_left()

    async def close_all(self) -> None:
        for kind in list(self._open):
            await self._close(kind)
        await self._assert_none_is_left()

    async def _close(self, kind: tuple[ProfileName, Limits]) -> None:
        _, stack = self._open.pop(kind)
        await stack.aclose()

    async def _assert_none_is_left(self) -> None:
        """Assert that the engine has the containers of open sandboxes, and no other."""
        label = f"{reaper.RUN}={self.run_id}"
        listed = await asyncio.to_thread(self.client.containers, all=True, filters={"label": label})
        assert {each["Id"] for each in listed} == {one.container_id for one, _ in self._open.values()}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lanes(client: APIClient) -> AsyncIterator[list[Grounds]]:
    """Yield grounds for programs that run side by side."""
    build_images(client, ["python"], notify=print)
    lanes = [Grounds(client) for _ in range(LANES)]
    yield lanes
    for lane in lanes:
        await lane.close_all()


@pytest.fixture
def grounds(lanes: list[Grounds]) -> Grounds:
    return lanes[0]


async def check_in_lanes(
    lanes: list[Grounds], names: Iterable[str], check: Callable[[Grounds, str], Awaitable[None]]
) -> None:
    """Check programs side by side, each with grounds that no other uses meanwhile."""
    free = list(lanes)

    async def check_one(name: str) -> None:
        grounds = free.pop()
        try:
            await check(grounds, name)
        finally:
            free.append(grounds)

    before = _peak_of_memory(start=True)
    await check_together(names, check_one, at_once=len(lanes))
    _require_little_growth(before)


@contextlib.asynccontextmanager
async def harmless(seconds: float) -> AsyncIterator[None]:
    """Assert that the block ends within the host's deadline, and that its peak of memory is low."""
    before = _peak_of_memory(start=True)
    async with asyncio.timeout(seconds):
        yield
    _require_little_growth(before)


def _require_little_growth(before: int) -> None:
    grown = _peak_of_memory() - before
    assert grown < GROWTH, f"the host's process grew by {grown // MIB} MiB"


def _peak_of_memory(*, start: bool = False) -> int:
    """Return the peak of this process's memory since `start` in bytes, or its present memory."""
    with contextlib.suppress(OSError):
        if start:
            Path("/proc/self/clear_refs").write_text("5")
        kilobytes = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
        if kilobytes is not None:
            return int(kilobytes[1]) * 1024
    return int(psutil.Process().memory_info().rss)


async def assert_next_command_is_unaffected(grounds: Grounds, limits: Limits = LIMITS) -> None:
    async with grounds.lend("default", limits) as sandbox:
        result = await sandbox.exec(["python3", "-c", HONEST])
        said = (result.stdout.data, result.limit, sandbox.clean)
        assert said == (b"True 7 8388608\n", None, True), str(result.stderr)


async def assert_next_candidate_is_unaffected(grounds: Grounds, limits: Limits = LIMITS) -> None:
    async with grounds.lend("strict", limits) as sandbox:
        verdict = await grade(sandbox, HONEST_CANDIDATE)
        assert (verdict.status, sandbox.clean) == (Status.PASSED, True), verdict


async def run(sandbox: Sandbox, program: str, seconds: float | None = None) -> ExecResult:
    return await sandbox.exec(["python3", "-c", TOOLS + program], timeout=seconds)


async def grade(sandbox: Sandbox, program: str) -> Verdict:
    return await grade_program(sandbox, TESTS, Submission(program, agent_output=""))


async def check_command(grounds: Grounds, name: str) -> None:
    command = COMMANDS[name]
    wall = command.seconds or command.limits.wall_seconds
    async with grounds.lend("default", command.limits, spoils=command.spoils) as sandbox:
        try:
            async with asyncio.timeout(wall + GRACE_SECONDS):
                result = await run(sandbox, command.program, command.seconds)
        except SandboxOutOfMemory:
            limit: str | None = (
                "memory_mb"  # The kernel chose PID 1, and the error distinguishes that from a fault of ours.
            )
        else:
            limit = result.limit
            assert result.stdout.total + result.stderr.total < FLOOD
            assert (result.exit_code == 0) == (limit is None), str(result.stderr)
            assert all(line.isprintable() for line in escape_bytes(result.stdout.data).split("\n"))
            if limit is None:
                assert result.stdout.data == command.says, f"never: {command.never}; {result.stderr}"
        assert limit == command.limit, f"never: {command.never}"
    await assert_next_command_is_unaffected(grounds)


@pytest.mark.timeout(600)
async def test_every_command_ends_as_required(lanes: list[Grounds]) -> None:
    await check_in_lanes(lanes, COMMANDS, check_command)


async def check_candidate(grounds: Grounds, name: str) -> None:
    candidate = CANDIDATES[name]
    async with grounds.lend("strict", candidate.limits) as sandbox:
        async with asyncio.timeout(candidate.limits.wall_seconds + GRACE_SECONDS):
            verdict = await grade(sandbox, candidate.program)
        got = (verdict.status, verdict.score)
        assert got == (candidate.status, 0.0), f"never: {candidate.never}; {verdict}"
        assert candidate.limit in (None, verdict.limit)
        assert len(verdict.evidence or "") < 5000
        assert escape_terminal(verdict.evidence or "").isprintable()
    await assert_next_candidate_is_unaffected(grounds, candidate.limits)


@pytest.mark.timeout(600)
async def test_every_candidate_gets_the_required_status(lanes: list[Grounds]) -> None:
    await check_in_lanes(lanes, CANDIDATES, check_candidate)


@pytest.mark.parametrize("name", BOOTY)
async def test_a_file_for_the_host_is_read_as_it_is_or_refused(grounds: Grounds, name: str) -> None:
    booty = BOOTY[name]
    async with grounds.lend("default", booty.limits) as sandbox:
        left = await run(sandbox, booty.program)
        assert left.exit_code == 0, str(left.stderr)
        async with harmless(FILE_SECONDS):
            if booty.refused is None:
                assert len(await sandbox.read_file(booty.path)) == booty.size, f"never: {booty.never}"
            else:
                with pytest.raises(UsageError, match=f"cannot read .*{booty.refused}"):
                    await sandbox.read_file(booty.path)
    await assert_next_command_is_unaffected(grounds, booty.limits)


# Attacks that take more than one program.


async def test_a_file_that_is_swapped_while_it_is_read_is_itself_or_refused(grounds: Grounds) -> None:
    swap = (
        "os.mkdir('swap'); os.chdir('swap')\n"
        "write('mine', b'mine'); os.mkfifo('pipe'); os.symlink('/proc/1/environ', 'link')\n"
        "while True:\n"
        "    for name in ('mine', 'pipe', 'link'):\n"
        "        os.link(name, 'next', follow_symlinks=False); os.rename('next', 'it')"
    )
    async with grounds.lend("default") as sandbox:
        swapping = asyncio.create_task(run(sandbox, swap, 0.8))
        seen: set[bytes] = set()
        async with harmless(FILE_SECONDS):
            while not swapping.done():
                with contextlib.suppress(UsageError):
                    seen.add(await sandbox.read_file("swap/it"))
        assert seen <= {b"mine"}
        assert (await swapping).limit == "wall_seconds"
    await assert_next_command_is_unaffected(grounds)


async def test_two_sandboxes_do_not_meet_on_loopback_or_abstract_sockets(grounds: Grounds) -> None:
    listen = (
        "abstract = socket.socket(socket.AF_UNIX); abstract.bind('\\0meeting'); abstract.listen()\n"
        "tcp = socket.socket(); tcp.bind(('127.0.0.1', 4711)); tcp.listen(); write('listening')\n"
        "while not os.path.exists('enough'): time.sleep(0.01)\n"
        "tcp.setblocking(False); tell(tcp.accept)"
    )
    connect = (
        "tell(lambda: socket.socket(socket.AF_UNIX).connect('\\0meeting'),"
        " lambda: socket.socket().connect(('127.0.0.1', 4711)))"
    )
    other_kind = LIMITS.model_copy(update={"memory_mb": 129})
    async with grounds.lend("default") as one, grounds.lend("default", other_kind, spoils=True) as other:
        listening = asyncio.create_task(run(one, listen))
        while (await one.exec(["test", "-e", "listening"])).exit_code != 0:
            pass
        met = await run(other, connect)
        await one.write_file("enough", b"")
        assert met.stdout.data == b"ECONNREFUSED\n" * 2
        assert (await listening).stdout.data == b"EAGAIN\n"
    await assert_next_command_is_unaffected(grounds)


async def test_the_host_answers_while_all_cores_are_starved(grounds: Grounds) -> None:
    crowd = "for _ in range(20):\n    if os.fork() == 0: os.setsid(); break\nwhile True: pass"
    every_core = Limits(cpus=psutil.cpu_count() or 1, processes=32)
    async with (
        grounds.lend("default") as sandbox,
        grounds.lend("default", every_core, spoils=True) as hungry,
    ):
        starving = asyncio.create_task(run(hungry, crowd, 1.0))
        answers = 0
        async with harmless(1.0 + GRACE_SECONDS):
            while not starving.done():
                answers += (await sandbox.exec(["true"])).exit_code == 0
        assert (await starving).limit == "wall_seconds"
        assert answers > 0
    await assert_next_command_is_unaffected(grounds)


async def test_used_up_processes_are_free_again_for_grading(grounds: Grounds) -> None:
    async with grounds.lend("default", spoils=True) as sandbox:
        used = await run(sandbox, "print(until_refused(lambda: os.fork() or (os.setsid(), stay())))")
        assert used.stdout.data == b"EAGAIN\n"
        assert (await grade(sandbox, HONEST_CANDIDATE)).status is Status.PASSED


async def test_files_of_an_agent_on_every_path_do_not_reach_a_grader(grounds: Grounds) -> None:
    async with grounds.lend("default", spoils=True) as sandbox:
        assert (await run(sandbox, SHIMS)).exit_code == 0
        honest = await grade(sandbox, "def f(x): return x * 2")
        wrong = await grade(sandbox, "def f(x): return x * 3")
        assert (honest.status, wrong.status) == (Status.PASSED, Status.FAILED)
