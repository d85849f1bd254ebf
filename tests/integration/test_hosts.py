"""This machine and a service pass the same tests as hosts."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from bundled import load_bundled
from case_checks import each_case
from service_fixtures import TOKEN, Served, serve

import harness
from harness import (
    Host,
    Limits,
    Sandbox,
    SandboxClosed,
    SandboxOutOfMemory,
    UsageError,
    build_assert_tests,
    build_call_tests,
    build_stdin_tests,
    connect,
    open_host,
    open_host_sync,
)
from harness.client import RemoteHost
from harness.client.sandbox import RemoteSandbox
from harness.core.types import AttemptRecord, PlainData, Status
from harness.reports.progress import NotesOnly

MBPP = load_bundled("mbpp")
AGENTBENCH = load_bundled("agentbench")
COUNT = "os/sample/answers/0"
LIMITS = Limits(memory_mb=128, wall_seconds=20)
ADD = "def add(a, b):\n    return a + b\n"

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[Served]:
    async with serve(benchmarks=(MBPP, AGENTBENCH)) as running:
        yield running


Opening = Callable[[], contextlib.AbstractAsyncContextManager[Host | RemoteHost]]
"""Opens a host for a block: this machine, or a service."""


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["local", "remote"])
async def opening(request: pytest.FixtureRequest, served: Served) -> Opening:
    return open_host if request.param == "local" else partial(connect, f"{served.url}/{TOKEN}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(opening: Opening) -> AsyncIterator[Host | RemoteHost]:
    """A host that no test closes."""
    async with opening() as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(host: Host) -> AsyncIterator[Sandbox | RemoteSandbox]:
    """A sandbox that no test ends."""
    async with host.sandbox(limits=LIMITS) as opened:
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


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def machine(host: Host) -> AsyncIterator[Sandbox | RemoteSandbox]:
    """A sandbox with terminals that no test ends."""
    async with host.sandbox(limits=LIMITS, terminals=True) as opened:
        yield opened


async def test_keys_reach_a_program_on_a_terminal_and_its_screen_comes_back(machine: Sandbox) -> None:
    command = ("/bin/bash", "-c", "stty size; read line; stty size; echo $line; exit 3")
    async with machine.terminal(command, rows=30, columns=100, timeout=20) as terminal:
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


async def test_the_end_of_a_terminals_block_ends_its_program(machine: Sandbox) -> None:
    command = ("/bin/sh", "-c", "yes 656 & wait")
    async with machine.terminal(command, rows=24, columns=80, timeout=60) as terminal:
        assert await terminal.read()
    await wait_until_gone(machine, "yes 656")


async def test_a_terminal_names_its_limit_on_time(machine: Sandbox) -> None:
    async with machine.terminal(("/bin/sleep", "60"), rows=24, columns=80, timeout=0.5) as terminal:
        assert (await terminal.end()).ended == "wall"


async def test_a_terminal_that_cannot_be_opened_is_refused(machine: Sandbox) -> None:
    with pytest.raises(UsageError, match="timeout must be a positive and finite number"):
        machine.terminal(rows=24, columns=80, timeout=-1)


async def test_the_loss_of_a_sandbox_to_its_memory_limit_is_an_error(host: Host) -> None:
    async with host.sandbox(limits=Limits(memory_mb=64, disk_mb=64)) as sandbox:
        with pytest.raises(SandboxOutOfMemory):
            await fill_memory(sandbox)


async def fill_memory(sandbox: Sandbox | RemoteSandbox) -> None:
    """Make PID 1 allocate more memory than there is."""
    for number in range(3):
        await sandbox.write_file(f"file{number}", bytes(28 << 20))


async def test_a_sandbox_is_closed_after_its_block(host: Host) -> None:
    async with host.sandbox() as sandbox:
        pass
    with pytest.raises(SandboxClosed):
        await sandbox.exec(["true"])


async def test_blocking_calls_need_no_event_loop(opening: Opening) -> None:
    target, right, wrong = TARGETS["calls"]

    def work() -> Iterator[Any]:
        with open_host_sync(opening()) as host:
            with host.sandbox(limits=LIMITS) as sandbox:
                sandbox.write_file("in", b"\0data")
                yield sandbox.exec(["cat", "in"], timeout=10).stdout.data
                with sandbox.stream(["echo", "hello"]) as stream:
                    yield [chunk.data for chunk in stream]
                yield stream.result.exit_code
                yield sandbox.read_file("in")
            yield host.grade(target, right).status
            yield host.grade(target, wrong).status
        with pytest.raises(UsageError, match="the host is closed"):
            host.grade(target, right)

    assert await asyncio.to_thread(lambda: list(work())) == [
        *(b"\0data", [b"hello\n"], 0, b"\0data"),
        *(Status.PASSED, Status.FAILED),
    ]


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
async def test_a_right_program_passes_and_a_wrong_one_fails(host: Host, kind: str) -> None:
    target, right, wrong = TARGETS[kind]
    verdicts = await asyncio.gather(host.grade(target, right), host.grade(target, wrong))
    assert [(each.status, each.score) for each in verdicts] == [(Status.PASSED, 1.0), (Status.FAILED, 0.0)]
    assert verdicts[1].evidence


async def test_a_task_of_a_benchmark_is_graded(host: Host) -> None:
    task = MBPP.tasks[0]
    right = await host.grade_task(MBPP, task.id, MBPP.references[task.id].solution)
    wrong = await host.grade_task(MBPP, task.id, "pass")
    assert (right.status, wrong.status) == (Status.PASSED, Status.FAILED)


async def test_a_task_that_is_not_there_is_refused(host: Host) -> None:
    with pytest.raises(UsageError, match="unknown task"):
        await host.grade_task(MBPP, "no-such-task", "pass")


async def test_an_agent_acts_in_an_environment_and_gets_its_verdict(host: Host) -> None:
    right = AGENTBENCH.references[COUNT].solution
    for answer, status in (("wrong", Status.FAILED), (right, Status.PASSED)):
        async with host.environment(AGENTBENCH, COUNT) as episode:
            assert list(episode.tools) == ["bash", "submit"]
            observation = await episode.call("bash", {"command": "echo $((6 * 7))"})
            assert "42" in observation.text
            verdict = await episode.submit(answer)
            assert (verdict.status, episode.verdict) == (status, verdict)
            with pytest.raises(UsageError, match="the episode has ended"):
                await episode.call("bash", {"command": "true"})


async def test_a_text_answers_a_task_without_tools(host: Host) -> None:
    task = MBPP.tasks[0]
    async with host.environment(MBPP, task.id) as episode:
        with pytest.raises(UsageError, match="the task has no tools"):
            await episode.call("bash", {})
        verdict = await episode.submit(MBPP.references[task.id].solution)
    assert verdict.status is Status.PASSED


async def test_a_host_is_closed_after_its_block(opening: Opening) -> None:
    async with opening() as host:
        pass
    with pytest.raises(UsageError, match="the host is closed"):
        await host.grade(TARGETS["calls"][0], ADD)
    with pytest.raises(UsageError, match="the host is closed"):
        async with host.sandbox():
            pass


async def test_a_service_needs_no_block(served: Served) -> None:
    target, right, _wrong = TARGETS["calls"]
    host = connect(f"{served.url}/{TOKEN}")
    assert (await host.grade(target, right)).resolved
    async with host.sandbox(limits=LIMITS) as sandbox:
        assert (await sandbox.exec(["true"])).exit_code == 0


async def test_a_service_takes_the_place_of_the_class_of_sandboxes(served: Served) -> None:
    def work() -> int:
        with connect(f"{served.url}/{TOKEN}").open_sync(limits=LIMITS) as sandbox:
            exit_code: int = sandbox.exec(["true"]).exit_code
            return exit_code

    assert await asyncio.to_thread(work) == 0


async def test_a_run_has_a_result(opening: Opening, tmp_path: Path) -> None:
    async with opening() as host:
        result = await host.run(
            "mbpp", data="bundled", agent="oracle", sample_size=1, output_dir=str(tmp_path), progress=False
        )
    assert (result.summary.resolved, result.summary.total) == (1, 1)


async def test_two_services_share_a_run_and_one_finishes_it_alone(tmp_path: Path) -> None:
    class LoseOne(NotesOnly):
        """Ends the second service after the first verdict."""

        def on_attempt(self, record: AttemptRecord) -> None:
            ending.set()

    async def serve_until(ending: asyncio.Event, url: asyncio.Future[str]) -> None:
        async with serve(benchmarks=(MBPP,)) as second:
            url.set_result(second.url)
            await ending.wait()

    ending, url = asyncio.Event(), asyncio.get_running_loop().create_future()
    async with serve(benchmarks=(MBPP,)) as first, asyncio.TaskGroup() as group:
        group.create_task(serve_until(ending, url))
        hosts = [connect(f"{each}/{TOKEN}") for each in (first.url, await url)]
        result = await harness.run(
            *("mbpp",),
            hosts=hosts,
            data="bundled",
            agent="oracle",
            sample_size=4,
            n_samples=3,
            output_dir=str(tmp_path),
            observer=LoseOne(sys.stderr),
        )
        assert await first.read_metric("harness_verdicts_total") < result.summary.attempts
    assert result.summary.resolved == result.summary.total


async def test_this_machine_and_a_service_share_no_run(served: Served) -> None:
    async with open_host(environments=()) as host:
        with pytest.raises(UsageError, match="cannot share a run"):
            await harness.run("mbpp", hosts=[host, connect(f"{served.url}/{TOKEN}")])


@pytest.mark.parametrize(("old", "new"), [("open_grader", "open_host"), ("Grader", "Host")])
async def test_an_old_name_warns(old: str, new: str) -> None:
    with pytest.warns(FutureWarning, match=f"harness.{old} is now harness.{new}"):
        assert getattr(harness, old) is getattr(harness, new)
