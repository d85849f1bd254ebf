"""Commands in a real sandbox: their surroundings, their output, and their complete end."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from case_checks import each_case

from harness import Sandbox
from harness.core.errors import UsageError
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.results import ExecResult

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

# Prints the command line of every process of this user but its own. A zombie whose threads live counts.
OTHERS = """
import os
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        status = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status"))
    except OSError:
        continue
    ended = status["State"].split()[0] == "Z" and int(status["Threads"]) <= 1
    if str(os.getuid()) in status["Uid"].split() and int(pid) != os.getpid() and not ended:
        print(pid, status["Name"].strip(), open(f"/proc/{pid}/cmdline").read())
"""

# Ends once the daemon that it has started runs. The daemon stays for ever.
LEADER = """
import os, time
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    os.write(write, b"x")
    while True: time.sleep(600)
os.read(read, 1)
"""
# Four lines of processes: each forks the next one and ends, so that none is ever seen twice.
CHAINS = """
import os
read, write = os.pipe()
for _ in range(4):
    if os.fork() == 0:
        os.setsid()
        os.write(write, b"x")
        while True:
            if os.fork(): os._exit(0)
for _ in range(4): os.read(read, 1)
"""
# Ends with 1 if processes are being made, because the kernel counts even those that no listing shows.
QUIET = """
import sys, time
def made(): return open('/proc/loadavg').read().split()[-1]
before = made()
time.sleep(0.05)
sys.exit(made() != before)
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    """Yield the sandbox of all tests here. A command leaves only files in the agent's folder."""
    async with Sandbox.open("python", backend=backend) as sandbox:
        yield sandbox


async def shell(sandbox: Sandbox, script: str, **options: object) -> ExecResult:
    return await sandbox.exec(["sh", "-c", script], **options)  # type: ignore[arg-type]


async def python(sandbox: Sandbox, program: str, **options: object) -> ExecResult:
    return await sandbox.exec(["python3", "-c", program], **options)  # type: ignore[arg-type]


async def others(sandbox: Sandbox) -> str:
    """Return the agent's processes in the sandbox, without the one that lists them."""
    return str((await python(sandbox, OTHERS)).stdout)


# The output of a command.


@each_case("name", ["SIGTERM", "SIGKILL", "SIGSEGV", "SIGABRT", "SIGHUP", "SIGINT", "SIGPIPE"])
async def test_a_signal_is_a_negative_exit_code_and_no_limit(sandbox: Sandbox, name: str) -> None:
    number = signal.Signals[name]
    result = await shell(sandbox, f"kill -{number.value} $$")
    assert (result.exit_code, result.limit) == (-number, None)


async def test_output_before_a_crash_is_kept(sandbox: Sandbox) -> None:
    result = await shell(sandbox, "echo before; kill -SEGV $$")
    assert result.stdout.data == b"before\n"


async def test_bytes_that_are_not_utf8_are_shown_escaped(sandbox: Sandbox) -> None:
    assert str((await shell(sandbox, r"printf '\377caf\303\251'")).stdout) == "\\xffcafé"


async def test_output_on_stderr_alone_is_drained(sandbox: Sandbox) -> None:
    result = await shell(sandbox, "head -c 3000000 /dev/zero >&2")
    assert (result.stdout.total, result.stderr.total) == (0, 3_000_000)


async def test_cut_output_says_how_much_is_missing(sandbox: Sandbox) -> None:
    result = await shell(sandbox, "head -c 1000 /dev/zero", keep_bytes=100)
    assert b"\n[... 900 bytes left out ...]\n" in result.stdout.data


async def test_output_that_fits_is_not_called_cut(sandbox: Sandbox) -> None:
    assert not (await shell(sandbox, "head -c 100 /dev/zero", keep_bytes=100)).stdout.truncated


async def test_a_command_can_be_run_without_keeping_output(sandbox: Sandbox) -> None:
    result = await shell(sandbox, "echo unwanted", keep_bytes=0)
    assert (result.stdout.data[:0], len(result.stdout.tail), result.stdout.total) == (b"", 0, 9)


@each_case("name", ["stdout", "stderr"])
async def test_a_script_can_write_to_its_streams_by_name(sandbox: Sandbox, name: str) -> None:
    result = await shell(sandbox, f"echo said > /dev/{name}")
    assert getattr(result, name).data == b"said\n"


async def test_stdin_can_be_read_by_name(sandbox: Sandbox) -> None:
    assert (await shell(sandbox, "cat /dev/stdin", stdin=b"said")).stdout.data == b"said"


# The surroundings of a command.


async def test_stdin_that_is_text_arrives_as_utf_8(sandbox: Sandbox) -> None:
    assert (await sandbox.exec(["cat"], stdin="é\n")).stdout.data == "é\n".encode()


async def test_stdin_that_cannot_be_encoded_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(UsageError, match="UTF-8"):
        await sandbox.exec(["cat"], stdin="\ud800")


async def test_several_megabytes_of_stdin_arrive_whole(sandbox: Sandbox) -> None:
    data = os.urandom(1 << 20) * 8
    result = await sandbox.exec(["md5sum"], stdin=data)
    assert str(result.stdout).split()[0] == hashlib.md5(data).hexdigest()


async def test_stdin_that_nobody_reads_holds_up_nothing(sandbox: Sandbox) -> None:
    assert (await sandbox.exec(["true"], stdin=b"x" * (4 << 20))).exit_code == 0


async def test_without_stdin_there_is_an_end_at_once(sandbox: Sandbox) -> None:
    assert (await sandbox.exec(["cat"])).stdout.data == b""


async def test_arguments_arrive_byte_for_byte(sandbox: Sandbox) -> None:
    arguments = ["", "two words", "$HOME `id` ; |", "line\nbreak", "é\U0001f600", "-n", "\udcff"]
    result = await sandbox.exec(["printf", "%s\\0", *arguments])
    assert result.stdout.data == b"".join(os.fsencode(argument) + b"\0" for argument in arguments)


async def test_a_long_list_of_arguments_arrives(sandbox: Sandbox) -> None:
    arguments = ["x" * 1000] * 1500
    result = await sandbox.exec(["python3", "-c", "import sys; print(len(sys.argv) - 1)", *arguments])
    assert str(result.stdout) == "1500\n"


async def test_more_arguments_than_the_kernel_takes_cannot_be_executed(sandbox: Sandbox) -> None:
    result = await sandbox.exec(["echo", *["x" * 1000] * 3000])
    assert (result.exit_code, b"too long" in result.stderr.data) == (126, True)


@each_case("argv", ["true", ["echo", "a\0b"], ["echo", 1], ["echo", None], ["echo", b"x"]])
async def test_a_malformed_command_is_refused(sandbox: Sandbox, argv: list[str]) -> None:
    with pytest.raises(UsageError):
        await sandbox.exec(argv)


async def test_more_than_fits_one_request_is_refused_and_the_sandbox_lives(sandbox: Sandbox) -> None:
    with pytest.raises(UsageError, match="too much"):
        await sandbox.exec(["cat"], stdin=bytes(65 << 20))
    assert (await sandbox.exec(["true"])).exit_code == 0


@each_case("timeout", [0, -1, float("nan"), float("inf")])
async def test_an_invalid_timeout_is_refused(sandbox: Sandbox, timeout: float) -> None:
    with pytest.raises(UsageError, match="timeout"):
        await sandbox.exec(["true"], timeout=timeout)


@each_case("command", ["no-such-command", "/no/such/command", "./missing"])
async def test_a_command_that_is_not_there_ends_with_127_and_its_name(sandbox: Sandbox, command: str) -> None:
    result = await sandbox.exec([command])
    assert (result.exit_code, result.stderr.data) == (127, f"{command}: not found\n".encode())


@each_case("command", ["/etc/passwd", "/tmp", "./not-executable", "./no-format"])
async def test_a_file_that_cannot_be_executed_ends_with_126(sandbox: Sandbox, command: str) -> None:
    await sandbox.write_file("not-executable", b"#!/bin/sh\n", mode=0o644)
    await sandbox.write_file("no-format", b"\x00\x01", mode=0o755)
    assert (await sandbox.exec([command])).exit_code == 126


async def test_a_script_of_the_agents_can_be_executed(sandbox: Sandbox) -> None:
    await sandbox.write_file("bin/script", b'#!/bin/sh\necho "$0 $1"\n', mode=0o755)
    assert (await sandbox.exec(["bin/script", "one"])).stdout.data == b"bin/script one\n"


async def test_the_environment_is_small_and_clean(sandbox: Sandbox) -> None:
    names = {line.split("=")[0] for line in str((await sandbox.exec(["env"])).stdout).splitlines()}
    assert names == {"HOME", "LANG", "PATH"}


async def test_the_environment_can_be_added_to(sandbox: Sandbox) -> None:
    result = await shell(sandbox, 'echo "$ONE|$LANG"', env={"ONE": "a b\nc", "LANG": "C"})
    assert result.stdout.data == b"a b\nc|C\n"


async def test_the_path_decides_which_command_is_meant(sandbox: Sandbox) -> None:
    await sandbox.write_file("other/true", b"#!/bin/sh\necho mine\n", mode=0o755)
    result = await sandbox.exec(["true"], env={"PATH": "/work/agent/other:/bin:/usr/bin"})
    assert result.stdout.data == b"mine\n"


async def test_a_command_starts_in_its_home(sandbox: Sandbox) -> None:
    assert (await shell(sandbox, 'pwd; echo "$HOME"; echo ~')).stdout.data == b"/work/agent\n" * 3


@each_case(("cwd", "folder"), [("sub/folder", "/work/agent/sub/folder"), ("/usr", "/usr")])
async def test_a_command_starts_in_the_given_folder(sandbox: Sandbox, cwd: str, folder: str) -> None:
    await sandbox.write_file("sub/folder/file", b"")
    assert str((await sandbox.exec(["pwd"], cwd=cwd)).stdout) == f"{folder}\n"


async def test_a_folder_that_is_not_there_is_named(sandbox: Sandbox) -> None:
    result = await sandbox.exec(["pwd"], cwd="missing-folder")
    assert result.exit_code != 0
    assert b"missing-folder" in result.stderr.data


async def test_files_stay_for_the_next_command(sandbox: Sandbox) -> None:
    await shell(sandbox, "mkdir -p kept && echo state > kept/file && echo temporary > /tmp/file")
    assert (await shell(sandbox, "cat kept/file /tmp/file")).stdout.data == b"state\ntemporary\n"


async def test_a_file_made_by_the_host_is_the_commands_own(sandbox: Sandbox) -> None:
    await sandbox.write_file("mine", b"x")
    assert (await shell(sandbox, "echo more >> mine && cat mine")).stdout.data == b"xmore\n"


async def test_wall_time_and_cpu_time_are_reported(sandbox: Sandbox) -> None:
    result = await python(sandbox, "import time; time.sleep(0.2)\nwhile time.process_time() < 0.2: pass")
    assert result.duration_seconds >= 0.4
    assert 0.2 <= result.cpu_seconds < result.duration_seconds


# The end of a command.


async def test_chains_of_forks_end_with_their_command(backend: DockerBackend) -> None:
    async with Sandbox.open("python", backend=backend) as own:
        for _ in range(15):
            result = await python(own, CHAINS)
            assert (result.exit_code, result.clean) == (0, True)
            assert (await python(own, QUIET)).exit_code == 0


async def test_a_daemon_does_not_delay_the_end_of_its_command(sandbox: Sandbox) -> None:
    result = await shell(sandbox, "sleep 600 & echo done")
    assert result.stdout.data == b"done\n"
    assert result.limit is None


async def test_a_flood_of_a_daemon_does_not_delay_the_end_of_its_command(sandbox: Sandbox) -> None:
    result = await shell(sandbox, "yes & exit 3")
    assert result.exit_code == 3


async def test_commands_at_once_do_not_end_each_other(sandbox: Sandbox) -> None:
    async def one(number: int) -> str:
        script = f"sleep 600 & sleep 0.{number}; echo {number}"
        return str((await shell(sandbox, script)).stdout)

    assert await asyncio.gather(*(one(number) for number in range(8))) == [f"{n}\n" for n in range(8)]


async def test_after_the_last_of_several_commands_nothing_is_left(sandbox: Sandbox) -> None:
    background = LEADER
    await asyncio.gather(*(python(sandbox, background) for _ in range(4)))
    assert await others(sandbox) == ""


async def test_a_timeout_ends_one_command_and_leaves_another_alone(sandbox: Sandbox) -> None:
    ended, kept = await asyncio.gather(
        shell(sandbox, "sleep 600", timeout=0.3), shell(sandbox, "sleep 1; echo kept")
    )
    assert (ended.limit, kept.limit, kept.stdout.data) == ("wall_seconds", None, b"kept\n")


async def test_a_cancelled_command_is_killed(sandbox: Sandbox) -> None:
    command = asyncio.create_task(shell(sandbox, "echo > started; sleep 8"))
    while (await sandbox.exec(["test", "-e", "started"])).exit_code != 0:
        pass
    command.cancel()
    await asyncio.wait([command])
    left = await others(sandbox)
    await sandbox.exec(["rm", "started"])
    assert "sleep" not in left


async def test_the_end_of_a_command_does_not_end_the_reading_of_a_file(backend: DockerBackend) -> None:
    async with Sandbox.open("python", backend=backend) as own:
        await own.write_file("large", bytes(8 << 20))
        for _ in range(5):
            reading = asyncio.create_task(own.read_file("large"))
            while not reading.done():
                await own.exec(["true"])
            assert len(await reading) == 8 << 20
