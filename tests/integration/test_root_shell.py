"""A persistent shell in a real sandbox keeps its state, returns all output, and never hangs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from effort import one_in_two

from harness.core.errors import UsageError
from harness.environments.os.root_sandbox import MAX_COMMAND_BYTES, RootSandbox, ShellEnd
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.limits import Limits

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(60)]

# Other tests write to the engine's disk as well. Room that they take must not look like that of a sandbox
# whose files cannot be counted.
LIMITS = Limits(memory_mb=512, processes=64, output_mb=4, disk_mb=2048)
# The limit in seconds of calls that must be interrupted.
SOON = 0.4


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def module_sandbox(backend: DockerBackend) -> AsyncIterator[RootSandbox]:
    async with RootSandbox.open("os", backend=backend, limits=LIMITS) as sandbox:
        await sandbox.open_shell()
        yield sandbox


@pytest_asyncio.fixture(loop_scope="module")
async def sandbox(module_sandbox: RootSandbox) -> RootSandbox:
    """Yield the sandbox of all tests here. Each gets a new shell and finds no process of the test before."""
    await module_sandbox.end_all()
    await module_sandbox.run("true")
    return module_sandbox


async def output_of(sandbox: RootSandbox, command: str) -> str:
    return str((await sandbox.run(command)).output)


async def goes_on(sandbox: RootSandbox) -> bool:
    """Return whether the next command finds the same shell."""
    result = await sandbox.run("echo on")
    assert result.output.data.endswith(b"on\n")
    return not result.renewed


async def test_folder_variables_and_functions_stay(sandbox: RootSandbox) -> None:
    await sandbox.run("cd /usr/lib; word=here; f() { echo $1; }; export shared=yes; exec 7>/tmp/seven")
    assert await output_of(sandbox, "f $word; pwd; sh -c 'echo $shared'; echo x >&7; cat /tmp/seven") == (
        "here\n/usr/lib\nyes\nx\n"
    )


async def test_background_jobs_stay(sandbox: RootSandbox) -> None:
    await sandbox.run("sleep 600 &")
    assert "Running" in await output_of(sandbox, "jobs")


async def test_the_agent_is_root_at_home(sandbox: RootSandbox) -> None:
    assert await output_of(sandbox, "id -u; pwd; echo $HOME; echo x > /etc/new; cat /etc/new") == (
        "0\n/root\n/root\nx\n"
    )


async def test_other_users_can_be_made_and_become(sandbox: RootSandbox) -> None:
    assert await output_of(sandbox, "useradd -m eve && su - eve -c 'id -un; pwd'") == ("eve\n/home/eve\n")


async def test_there_is_no_network(sandbox: RootSandbox) -> None:
    assert (await output_of(sandbox, "ls /sys/class/net; tail -n +2 /proc/net/route")) == "lo\n"


@pytest.mark.parametrize(
    ("command", "code"), [("true", 0), ("false", 1), ("(exit 77)", 77), ("nonsense", 127)]
)
async def test_the_exit_code_is_returned_and_the_next_command_finds_it(
    sandbox: RootSandbox, command: str, code: int
) -> None:
    result = await sandbox.run(command)
    assert (result.ended, result.exit_code) == (ShellEnd.DONE, code)
    assert await output_of(sandbox, "echo $?") == f"{code}\n"


async def test_stdout_and_stderr_come_in_order(sandbox: RootSandbox) -> None:
    assert await output_of(sandbox, "for n in 1 2 3; do echo out $n; echo err $n >&2; done") == "".join(
        f"out {number}\nerr {number}\n" for number in (1, 2, 3)
    )


async def test_bytes_that_are_not_text_survive(sandbox: RootSandbox) -> None:
    result = await sandbox.run(r"printf '\377\0\1\n'")
    assert result.output.data == b"\xff\0\1\n"


async def test_of_a_long_output_head_and_tail_are_kept(sandbox: RootSandbox) -> None:
    result = await sandbox.run("seq 100000", keep_bytes=100)
    assert (result.output.head[:4], result.output.tail[-7:]) == (b"1\n2\n", b"100000\n")
    assert (result.output.total, result.output.truncated) == (588_895, True)


async def test_output_of_a_background_job_comes_with_the_next_command(sandbox: RootSandbox) -> None:
    await sandbox.run("(sleep 0.05; echo later; touch /tmp/written) &")
    assert "later\n" in await output_of(sandbox, "while [ ! -e /tmp/written ]; do sleep 0.01; done")


@pytest.mark.parametrize(
    "command",
    [
        *("cat", "read line", "python3", "sqlite3", "bash", "sh", "bc", "ed", "sort", "less /etc/passwd"),
        *("stty raw -echo", "passwd", "su", "git commit", "apt-get remove bash", "ssh nobody@nowhere"),
        *("echo 'unclosed", 'echo "$(', "cat <<END\nopen", "if true", "}", "echo `", "((", "case x in"),
        *("exec > /dev/null", "exec 2>&1 | cat", "exec < /dev/zero", "exec 1>&- 2>&-"),
        *("exec 187>&- 188>&- 189>&-", "disown -a", "cd /tmp && rmdir .", "umask 777", "sleep 600 &"),
        *("break", "continue", "return", "set -n", "set -u; echo $none", "set -o posix", "set -v -x"),
        *("IFS=0123456789", "unset PATH", "trap 'echo x' DEBUG RETURN ERR", "shopt -s extdebug"),
        "alias builtin=false eval=false",
    ],
)
async def test_unusual_commands_neither_end_nor_delay_the_shell(sandbox: RootSandbox, command: str) -> None:
    result = await sandbox.run(command, timeout=60)
    assert (result.ended, result.shell_lives) == (ShellEnd.DONE, True)
    assert await goes_on(sandbox)
    await sandbox.run("exit")


@pytest.mark.parametrize(
    "command", ["exit", "exit 3", "exec true", "kill -9 $$", "set -e; false", "logout; exit"]
)
async def test_the_end_of_a_shell_is_reported_and_the_shell_is_renewed(
    sandbox: RootSandbox, command: str
) -> None:
    # A background job has the name of the shell until its program has begun.
    await sandbox.run("word=old; cd /tmp; sleep 600 & disown; until pgrep -x sleep; do :; done")
    result = await sandbox.run(command)
    assert (result.ended, result.shell_lives) == (ShellEnd.SHELL_ENDED, False)
    after = await sandbox.run("echo $word; pwd; pgrep -c sleep")
    assert (after.renewed, after.output.data) == (True, b"\n/root\n1\n")


async def test_a_command_that_an_ending_shell_has_not_read_runs_in_a_new_one(sandbox: RootSandbox) -> None:
    # The shell stops before its second prompt. The job kills it once the next command waits in its input.
    await sandbox.run(
        "(until read -t 0 < /proc/$$/fd/0; do sleep 0.01; done; kill -9 $$) & "
        "prompts=0; PROMPT_COMMAND='((prompts++)) && kill -STOP $$'"
    )
    result = await sandbox.run("echo on", timeout=20)
    assert (result.ended, result.renewed, result.output.data) == (ShellEnd.DONE, True, b"on\n")


async def test_a_command_that_a_stopped_shell_has_not_read_ends_at_its_limit(sandbox: RootSandbox) -> None:
    await sandbox.run("prompts=0; PROMPT_COMMAND='((prompts++)) && kill -STOP $$'")
    result = await sandbox.run("echo on", timeout=SOON)
    assert (result.ended, result.renewed, result.output.data) == (ShellEnd.WALL, False, b"")
    assert not await goes_on(sandbox)


@pytest.mark.parametrize(
    "command",
    one_in_two(
        [
            *(
                "sleep 600",
                "sleep 600 | cat",
                "while :; do :; done",
                "while :; do sleep 1; done",
                "tail -f /dev/null",
            ),
            *(
                "(trap '' INT TERM HUP; sleep 600)",
                "setsid sleep 600; sleep 600",
                "mkfifo /tmp/p$$; cat /tmp/p$$",
            ),
            *(
                "sleep 600 & wait",
                "python3 -c 'import time, signal; signal.signal(2, print); time.sleep(600)'",
            ),
            *("set -m; sleep 600", "timeout 600 sleep 600", "read -t 600 < <(sleep 600)", "vim"),
        ],
        0,
    ),
)
async def test_a_command_that_takes_too_long_is_interrupted_and_the_shell_goes_on(
    sandbox: RootSandbox, command: str
) -> None:
    result = await sandbox.run(command, timeout=SOON)
    assert (result.ended, result.shell_lives) == (ShellEnd.WALL, True)
    assert await goes_on(sandbox)
    assert await output_of(sandbox, "pgrep -cf 'sleep |tail |vim|600'") == "0\n"


@pytest.mark.parametrize(
    "command",
    one_in_two(
        [
            *(
                "trap '' INT; while :; do :; done",
                "kill -STOP $$",
                "exec sleep 600",
                "exec 3>&1; trap : INT; while :; do :; done",
            ),
            *("(sleep 0.1; kill -STOP $PPID $$) & sleep 600", "builtin() { :; }"),
            "enable -n printf",
        ],
        0,
    ),
)
async def test_a_shell_that_cannot_be_interrupted_is_renewed(sandbox: RootSandbox, command: str) -> None:
    result = await sandbox.run(command, timeout=SOON)
    assert (result.ended, result.shell_lives) == (ShellEnd.WALL, False)
    assert not await goes_on(sandbox)


async def test_an_interrupt_spares_older_jobs(sandbox: RootSandbox) -> None:
    await sandbox.run("sleep 600 &")
    await sandbox.run("sleep 0.02; setsid sleep 700", timeout=SOON)
    assert await output_of(sandbox, "pgrep -a sleep | cut -d' ' -f2-") == "sleep 600\n"


async def test_a_flood_is_ended(sandbox: RootSandbox) -> None:
    result = await sandbox.run("yes", timeout=20)
    assert (result.ended, result.shell_lives) == (ShellEnd.OUTPUT, True)
    assert await goes_on(sandbox)


async def test_a_flood_in_the_background_is_ended_in_the_end(sandbox: RootSandbox) -> None:
    await sandbox.run("yes &")
    result = await sandbox.run("sleep 600", timeout=20)
    assert (result.ended, result.shell_lives) == (ShellEnd.OUTPUT, True)
    assert await goes_on(sandbox)
    assert await output_of(sandbox, "pgrep -c yes") == "0\n"


async def test_a_fork_bomb_ends_with_all_processes(sandbox: RootSandbox) -> None:
    await sandbox.run("bomb() { bomb | bomb & }; bomb", timeout=5)
    await sandbox.run("ls | cat; sleep 600", timeout=SOON)
    # A shell that was killed may have reported an interrupted fork before. Only the new shell is left.
    output = await output_of(sandbox, "ls -d /etc | cat; pgrep -c bash")
    assert output.splitlines()[-2:] == ["/etc", "1"]


async def test_memory_is_taken_from_the_command_and_not_from_the_shell(sandbox: RootSandbox) -> None:
    await sandbox.run("word=kept")
    await sandbox.run("python3 -c 'bytes(1 << 30)'; tail /dev/zero", timeout=20)
    assert await goes_on(sandbox)


async def test_a_typed_command_may_replace_the_shell(sandbox: RootSandbox) -> None:
    await sandbox.run("useradd -m -s /bin/bash typist && cd /home/typist && su - typist", typed=True)
    assert await output_of(sandbox, "id -un; pwd; word=x") == "typist\n/home/typist\n"
    assert await output_of(sandbox, "echo $word") == "x\n"
    result = await sandbox.run("exit 4")
    assert (result.exit_code, result.shell_lives, await output_of(sandbox, "id -un")) == (4, True, "root\n")


async def test_a_typed_command_leaves_its_daemon_and_its_variables(sandbox: RootSandbox) -> None:
    await sandbox.run("word=typed; sleep 600 &", typed=True)
    # The daemon has the name of the shell until it is ready.
    ready = "until pgrep -x sleep > /dev/null; do :; done"
    assert await output_of(sandbox, f"echo $word; {ready}; pgrep -c sleep") == "typed\n1\n"


async def test_many_lines_and_quotes_are_run_as_they_are(sandbox: RootSandbox) -> None:
    script = "x=\"it's\"\nfor i in 1 2\ndo\n  cat <<'END'\n$x '\"\\\nEND\ndone # ' unclosed\necho \"$x\""
    assert await output_of(sandbox, script) == "$x '\"\\\n" * 2 + "it's\n"


async def test_tabs_are_no_keys(sandbox: RootSandbox) -> None:
    assert await output_of(sandbox, "cat <<'END'\n\tone\n\t\ttwo\nEND") == "\tone\n\t\ttwo\n"


async def test_typed_tabs_are_no_keys_either(sandbox: RootSandbox) -> None:
    await sandbox.run("word='\tone\t'", typed=True)
    assert await output_of(sandbox, 'printf %s "$word"') == "\tone\t"


async def test_start_up_files_are_read_before_the_agent_can_write_them(backend: DockerBackend) -> None:
    async with RootSandbox.open("os", backend=backend, limits=LIMITS) as own:
        await own.open_shell()
        await own.run_script(["/bin/sh", "-c", "echo 'PATH=/nowhere' >> /root/.bashrc"])
        assert await output_of(own, "command -v ls") == "/usr/bin/ls\n"


async def test_no_trace_of_the_harness_is_in_the_history(sandbox: RootSandbox) -> None:
    assert "builtin" not in await output_of(sandbox, "history; cat ~/.bash_history")


@pytest.mark.parametrize("command", ["echo \0", "x" * (MAX_COMMAND_BYTES + 1)])
async def test_text_that_cannot_be_a_command_is_refused(sandbox: RootSandbox, command: str) -> None:
    with pytest.raises(UsageError):
        await sandbox.run(command)


async def test_a_command_of_the_largest_size_runs(sandbox: RootSandbox) -> None:
    assert await output_of(sandbox, ": " + "x' '" * (MAX_COMMAND_BYTES // 4 - 5) + "; echo ok") == "ok\n"


async def test_only_the_guest_is_left_after_all_is_ended(sandbox: RootSandbox) -> None:
    await sandbox.run("useradd other; su other -c 'setsid sleep 600 &'; (trap '' TERM; sleep 600) &")
    await sandbox.run("setsid sh -c 'sleep 600 &'; kill -STOP $(pgrep sleep)")
    await sandbox.end_all()
    listed = await sandbox.run_script(["/bin/ps", "-eo", "pid,args", "--no-headers"])
    assert [line.split()[0] for line in str(listed.stdout).splitlines() if "/bin/ps" not in line] == ["1"]


async def test_a_script_leaves_its_daemons_alive(sandbox: RootSandbox) -> None:
    result = await sandbox.run_script(
        ["/bin/bash", "-c", "(while sleep 0.01; do echo x; done) & echo started"]
    )
    assert (result.exit_code, result.stdout.head[:8]) == (0, b"started\n")
    assert await output_of(sandbox, "pgrep -cf 'while sleep'") == "1\n"
