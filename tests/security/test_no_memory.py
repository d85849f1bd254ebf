"""Nothing that one program does to a container can be read by the next program in it."""

from __future__ import annotations

import ctypes
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from case_checks import each_case
from security.memory_channels import CLOSED, MARKS, NUMBERS, PRELUDE, Channel

from harness import Sandbox
from harness.environments.python.client import run_on_inputs, run_tests
from harness.sandbox.backends.docker.backend import DockerBackend

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    async with Sandbox.open("python", backend=backend, seccomp="strict", deadline_seconds=1200.0) as sandbox:
        yield sandbox


def source(*parts: str, number: int, settings: str = "") -> str:
    shown = "\nprint('found', repr(found), flush=True)\n"
    return "\n".join((PRELUDE, f"NUMBER = {number}", settings, *parts, shown))


async def on_stdin(sandbox: Sandbox, program: str) -> str:
    (run,) = await run_on_inputs(
        sandbox, program=program.encode(), inputs=[b"input\n" * 1000], stdout_bytes=1 << 16
    )
    assert run.succeeded, run
    return run.stdout.data.decode().partition("found ")[2].strip()


async def under_tests(sandbox: Sandbox, program: str) -> str:
    report = await run_tests(sandbox, program=program, statements=["f"], exports={"f": "print"})
    return report.stdout.data.decode().partition("found ")[2].strip()


def landlock_version() -> int:
    version: int = ctypes.CDLL(None).syscall(444, None, 0, 1)
    return version


WAYS = {"stdin": on_stdin, "tests": under_tests}


@each_case("channel", CLOSED, ids=[channel.name for channel in CLOSED])
@each_case("way", WAYS)
async def test_a_program_reads_nothing_that_the_one_before_it_wrote(
    sandbox: Sandbox, channel: Channel, way: str
) -> None:
    if channel.needs_landlock and landlock_version() < 2:
        pytest.skip("this kernel has no Landlock")
    for number in NUMBERS:
        if channel.works_within:
            both = await WAYS[way](sandbox, source(channel.write, channel.read, number=number))
            assert both == str(number), "the program does not even read its own number"
        await WAYS[way](sandbox, source(channel.write, number=number))
        assert await WAYS[way](sandbox, source(channel.read, number=number)) == "None"
        assert sandbox.clean


@each_case("channel", MARKS, ids=[channel.name for channel in MARKS])
@each_case("way", WAYS)
async def test_a_counter_that_was_driven_up_marks_the_container(
    sandbox: Sandbox, channel: Channel, way: str
) -> None:
    sandbox.marked = False
    await WAYS[way](sandbox, source(number=0))
    assert not sandbox.marked
    await WAYS[way](sandbox, source(channel.write, number=1))
    assert sandbox.marked
    assert sandbox.clean


async def test_the_number_of_runs_that_a_program_survives_marks_the_container(sandbox: Sandbox) -> None:
    program = b"raise SystemExit(input() == 'b')"
    for inputs, marked in (([b"a\n"] * 3, False), ([b"a\n", b"b\n", b"a\n"], True)):
        sandbox.marked = False
        await run_on_inputs(sandbox, program=program, inputs=inputs, stdout_bytes=100)
        assert sandbox.marked == marked


async def test_a_wrong_answer_leaves_no_mark(sandbox: Sandbox) -> None:
    sandbox.marked = False
    for program in ("def f(): return 1", "def f(): return 2", "def f(): raise ValueError"):
        await run_tests(sandbox, program=program, statements=["assert f() == 1"], exports={"f": "f"})
    assert not sandbox.marked


async def test_user_ids_and_folders_say_nothing_of_the_users_before(sandbox: Sandbox) -> None:
    program = "import os\nprint('found', os.getuid(), os.getgid(), os.path.basename(os.getcwd()))"
    seen = [(await on_stdin(sandbox, program)).split() for _ in range(12)]
    users = [int(user) for user, _, _ in seen]
    assert len(set(users)) == 12
    assert [[user, user, user] for user, _, _ in seen] == seen
    assert users not in (sorted(users), sorted(users, reverse=True))
