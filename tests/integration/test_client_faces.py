"""A sandbox on this machine and one of a service pass the same tests, and so do both graders."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from case_checks import each_case
from service_fixtures import TOKEN, Served, serve

from harness import (
    Grader,
    Limits,
    Sandbox,
    SandboxClosed,
    SandboxOutOfMemory,
    SyncGrader,
    UsageError,
    build_assert_tests,
    build_call_tests,
    build_stdin_tests,
    load_benchmark,
    open_grader,
    open_grader_sync,
)
from harness.client import Remote, connect
from harness.client.grader import RemoteGrader
from harness.client.sandbox import RemoteSandbox
from harness.core.types import PlainData, Status
from harness.sandbox.sync import SyncSandbox

MBPP = load_benchmark("mbpp", data="bundled")
LIMITS = Limits(memory_mb=128, wall_seconds=20)
ADD = "def add(a, b):\n    return a + b\n"

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[Served]:
    async with serve(benchmarks=(MBPP,)) as running:
        yield running


@dataclass(frozen=True)
class Place:
    """Where sandboxes and graders live: on this machine, or at a service."""

    remote: Remote | None

    def open(self, **options: Any) -> contextlib.AbstractAsyncContextManager[Sandbox | RemoteSandbox]:
        opened: Any = Sandbox if self.remote is None else self.remote
        opening: contextlib.AbstractAsyncContextManager[Any] = opened.open(
            "python", **{"limits": LIMITS, **options}
        )
        return opening

    def open_sync(self) -> contextlib.AbstractContextManager[SyncSandbox]:
        opened: Any = Sandbox if self.remote is None else self.remote
        opening: contextlib.AbstractContextManager[SyncSandbox] = opened.open_sync("python", limits=LIMITS)
        return opening

    def open_grader_sync(self) -> contextlib.AbstractContextManager[SyncGrader]:
        return open_grader_sync() if self.remote is None else self.remote.open_grader_sync()

    def open_grader(self) -> contextlib.AbstractAsyncContextManager[Grader | RemoteGrader]:
        opening: Any = open_grader() if self.remote is None else self.remote.open_grader()
        return opening  # type: ignore[no-any-return]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["local", "remote"])
async def place(request: pytest.FixtureRequest, served: Served) -> Place:
    return Place(None if request.param == "local" else connect(f"{served.url}/{TOKEN}"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(place: Place) -> AsyncIterator[Sandbox | RemoteSandbox]:
    """A sandbox that no test ends."""
    async with place.open() as opened:
        yield opened


async def test_a_command_returns_its_result(sandbox: Sandbox) -> None:
    script = "cat; echo $NAME; pwd; printf '\\377\\0' >&2; exit 3"
    result = await sandbox.exec(
        ["sh", "-c", script], stdin=b"\xfein\n", env={"NAME": "value"}, cwd="/tmp", timeout=10
    )
    assert result.stdout.data == b"\xfein\nvalue\n/tmp\n"
    assert (result.stderr.data, result.stderr.total) == (b"\xff\0", 2)
    assert (result.exit_code, result.limit, result.clean) == (3, None, True)
    assert result.duration_seconds > 0


async def test_a_long_output_is_cut_in_the_middle(sandbox: Sandbox) -> None:
    script = "printf start; head -c 9000 /dev/zero; printf end"
    stdout = (await sandbox.exec(["sh", "-c", script], keep_bytes=100)).stdout
    assert (stdout.total, stdout.truncated) == (9008, True)
    assert stdout.head.startswith(b"start")
    assert stdout.tail.endswith(b"end")
    assert b"bytes left out" in stdout.data


async def test_a_slow_command_names_its_limit(sandbox: Sandbox) -> None:
    result = await sandbox.exec(["sh", "-c", "echo early; sleep 60"], timeout=0.5)
    assert (result.limit, result.stdout.data) == ("wall_seconds", b"early\n")


async def test_a_command_that_is_not_there_ends_with_127(sandbox: Sandbox) -> None:
    assert (await sandbox.exec(["no-such-command"])).exit_code == 127


@each_case("argv", ["ls", [], ["a\0b"], [1]])
async def test_a_command_that_cannot_be_used_is_refused(sandbox: Sandbox, argv: Any) -> None:
    with pytest.raises(UsageError, match="non-empty list of strings"):
        await sandbox.exec(argv)


async def test_a_timeout_that_cannot_be_used_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(UsageError, match="timeout must be a positive and finite number"):
        await sandbox.exec(["true"], timeout=-1)


@each_case("path", ["file", "a b/ü?#%.txt", "/tmp/absolute", "folder/../other", "..x/...y"])
async def test_a_file_is_read_as_it_was_written(sandbox: Sandbox, path: str) -> None:
    data = bytes(range(256)) * 3000
    await sandbox.write_file(path, data, mode=0o640)
    assert await sandbox.read_file(path) == data
    listed = await sandbox.exec(["stat", "-c", "%a", path])
    assert listed.stdout.data == b"640\n"


async def test_a_file_that_cannot_be_used_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(UsageError, match="cannot read missing"):
        await sandbox.read_file("missing")
    await sandbox.write_file("large", b"12345")
    with pytest.raises(UsageError, match="cannot read large"):
        await sandbox.read_file("large", limit=4)
    with pytest.raises(UsageError, match="cannot write /proc/file"):
        await sandbox.write_file("/proc/file", b"")


async def test_output_comes_before_the_command_ends(sandbox: Sandbox) -> None:
    script = "echo first; until test -e go; do sleep 0.02; done; echo last >&2; exit 7"
    async with sandbox.stream(["sh", "-c", script], timeout=20) as stream:
        chunk = await stream.read()
        assert chunk is not None
        assert (chunk.stream, chunk.data) == ("stdout", b"first\n")
        with pytest.raises(UsageError, match="has no result"):
            stream.result  # noqa: B018
        await sandbox.write_file("go", b"")
        assert [(each.stream, each.data) async for each in stream] == [("stderr", b"last\n")]
    assert (stream.result.exit_code, stream.result.stdout.data) == (7, b"first\n")


async def test_a_function_gets_the_output_as_it_comes(sandbox: Sandbox) -> None:
    pieces: list[tuple[str, bytes]] = []

    def take(stream: str, data: bytes) -> None:
        pieces.append((stream, data))

    result = await sandbox.exec(["sh", "-c", "echo out; echo err >&2"], on_output=take)
    assert sorted(pieces) == [("stderr", b"err\n"), ("stdout", b"out\n")]
    assert result.exit_code == 0


async def test_every_byte_of_a_large_output_streams(sandbox: Sandbox) -> None:
    async with sandbox.stream(["head", "-c", "3000000", "/dev/zero"], keep_bytes=0) as stream:
        assert sum([len(chunk.data) async for chunk in stream]) == 3_000_000
    assert (stream.result.stdout.total, stream.result.stdout.data[:2]) == (3_000_000, b"\n[")


async def test_leaving_a_stream_early_ends_its_command(sandbox: Sandbox) -> None:
    async with sandbox.stream(["sh", "-c", "echo 1; exec sleep 654"]) as stream:
        assert await stream.read() is not None
    await wait_until_gone(sandbox, "sleep 654")


async def test_a_cancelled_call_ends_its_command(sandbox: Sandbox) -> None:
    running = asyncio.create_task(sandbox.exec(["sh", "-c", "echo > begun; exec sleep 655"], timeout=60))
    await sandbox.exec(["sh", "-c", "until test -e begun; do sleep 0.02; done"])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await wait_until_gone(sandbox, "sleep 655")


async def wait_until_gone(sandbox: Sandbox | RemoteSandbox, command: str) -> None:
    """Wait until no process of the sandbox has these arguments."""
    # The brackets keep the pattern from matching the arguments of this search.
    number = command.split()[1]
    pattern = f"{number[0]}[{number[1]}]{number[2:]}"
    script = f"while cat /proc/[0-9]*/cmdline | grep -qa '{pattern}'; do sleep 0.05; done"
    result = await sandbox.exec(["sh", "-c", script], timeout=15)
    assert result.limit is None


async def test_keys_reach_a_program_on_a_terminal_and_its_screen_comes_back(place: Place) -> None:
    async with place.open(terminals=True) as sandbox:
        script = "stty size; read line; stty size; echo $line; exit 3"
        command = ("/bin/bash", "-c", script)
        async with sandbox.terminal(command, rows=30, columns=100, timeout=20) as terminal:
            screen = await terminal.read()
            while b"30 100" not in screen:
                screen += await terminal.read()
            terminal.resize(12, 34)
            terminal.type("wörds\n".encode())
            await terminal.drain()
            while data := await terminal.read():
                screen += data
            end = await terminal.end()
            assert await terminal.read() == b""
        assert b"12 34\r\nw\xc3\xb6rds" in screen
        assert (end.exit_code, end.ended) == (3, "exited")


async def test_the_end_of_a_terminals_block_ends_its_program(place: Place) -> None:
    async with place.open(terminals=True) as sandbox:
        command = ("/bin/sh", "-c", "yes 656 & wait")
        async with sandbox.terminal(command, rows=24, columns=80, timeout=60) as terminal:
            assert await terminal.read()
        await wait_until_gone(sandbox, "yes 656")


async def test_a_terminal_names_its_limit_on_time(place: Place) -> None:
    async with place.open(terminals=True) as sandbox:
        opening = sandbox.terminal(("/bin/sleep", "60"), rows=24, columns=80, timeout=0.5)
        async with opening as terminal:
            assert (await terminal.end()).ended == "wall"


async def test_a_terminal_that_cannot_be_opened_is_refused(place: Place) -> None:
    async with place.open(terminals=True) as sandbox:
        with pytest.raises(UsageError, match="timeout must be a positive and finite number"):
            sandbox.terminal(rows=24, columns=80, timeout=-1)


async def test_the_loss_of_a_sandbox_to_its_memory_limit_is_an_error(place: Place) -> None:
    async with place.open(limits=Limits(memory_mb=64, disk_mb=64)) as sandbox:
        with pytest.raises(SandboxOutOfMemory):
            await fill_memory(sandbox)


async def fill_memory(sandbox: Sandbox | RemoteSandbox) -> None:
    """Make PID 1 allocate more memory than there is."""
    for number in range(3):
        await sandbox.write_file(f"file{number}", bytes(28 << 20))


async def test_a_sandbox_is_closed_after_its_block(place: Place) -> None:
    async with place.open() as sandbox:
        pass
    with pytest.raises(SandboxClosed):
        await sandbox.exec(["true"])


async def test_blocking_calls_need_no_event_loop(place: Place) -> None:
    def work() -> Iterator[Any]:
        with place.open_sync() as sandbox:
            sandbox.write_file("in", b"\0data")
            yield sandbox.exec(["cat", "in"], timeout=10).stdout.data
            with sandbox.stream(["echo", "hello"]) as stream:
                yield [chunk.data for chunk in stream]
            yield stream.result.exit_code
            yield sandbox.read_file("in")

    assert await asyncio.to_thread(lambda: list(work())) == [b"\0data", [b"hello\n"], 0, b"\0data"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def grader(place: Place) -> AsyncIterator[Grader | RemoteGrader]:
    async with place.open_grader() as opened:
        yield opened


TARGETS: dict[str, tuple[PlainData, str, str]] = {
    "stdin": (
        build_stdin_tests([("3 4\n", "7\n"), ("1 1\n", "2\n")]),
        "print(sum(map(int, input().split())))",
        "print(7)",
    ),
    "calls": (
        build_call_tests("add", [([1, 2], 3), (["a", "b"], "ab")], seconds=2.0),
        ADD,
        "def add(a, b): return 3",
    ),
    "asserts": (
        build_assert_tests(["assert add(1, 2) == 3", "assert add(20, 22) == 42"]),
        ADD,
        "def add(a, b): return 3",
    ),
}


@each_case("kind", TARGETS)
async def test_a_right_program_passes_and_a_wrong_one_fails(grader: Grader, kind: str) -> None:
    target, right, wrong = TARGETS[kind]
    verdicts = await asyncio.gather(grader.grade(target, right), grader.grade(target, wrong))
    assert [(each.status, each.score) for each in verdicts] == [(Status.PASSED, 1.0), (Status.FAILED, 0.0)]
    assert verdicts[1].evidence


async def test_a_task_of_a_benchmark_is_graded(grader: Grader | RemoteGrader) -> None:
    task = MBPP.tasks[0]
    named: Any = MBPP if isinstance(grader, Grader) else "mbpp"
    right = await grader.grade_task(named, task.id, MBPP.references[task.id].solution)
    wrong = await grader.grade_task(named, task.id, "pass")
    assert (right.status, wrong.status) == (Status.PASSED, Status.FAILED)


async def test_a_task_that_is_not_there_is_refused(grader: Grader | RemoteGrader) -> None:
    named: Any = MBPP if isinstance(grader, Grader) else "mbpp"
    with pytest.raises(UsageError, match="unknown task"):
        await grader.grade_task(named, "no-such-task", "pass")


async def test_blocking_grading_needs_no_event_loop(place: Place) -> None:
    target, right, wrong = TARGETS["calls"]

    def work() -> SyncGrader:
        with place.open_grader_sync() as grader:
            assert grader.grade(target, right).status is Status.PASSED
            assert grader.grade(target, wrong).status is Status.FAILED
        return grader

    grader = await asyncio.to_thread(work)
    with pytest.raises(UsageError, match="the grader is closed"):
        grader.grade(target, right)


async def test_a_grader_is_closed_after_its_block(place: Place) -> None:
    async with place.open_grader() as grader:
        pass
    with pytest.raises(UsageError, match="the grader is closed"):
        await grader.grade(TARGETS["calls"][0], ADD)
