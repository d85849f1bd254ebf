"""`harness exec` runs untrusted code once, and passes on its output and its exit code safely."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker import APIClient
from e2e.command_line import HANG_SECONDS, NO_ENGINE, SCRIPT, Harness
from effort import THOROUGH

# --- commands and programs


def test_command_runs_with_its_arguments(harness: Harness) -> None:
    ended = harness("exec", "python3", "-c", "import sys; print(sys.argv[1:])", "--help", "-x", "a b")
    assert (ended.stdout, ended.stderr, ended.returncode) == ("['--help', '-x', 'a b']\n", "", 0)


def test_python_file_runs_with_its_arguments_and_standard_input(harness: Harness) -> None:
    (harness.folder / "program.py").write_text("import sys\nprint(sys.argv[1:], sys.stdin.read())\n")
    ended = harness("exec", "program.py", "one", "-2", stdin="piped")
    assert ended.stdout == "['one', '-2'] piped\n"


def test_bytes_reach_a_command_and_a_pipe_as_they_are(harness: Harness) -> None:
    data = b"\x1b[31m\xff\x00\r\n"
    assert harness.raw("exec", "--", "cat", stdin=data).stdout == data


def test_closed_standard_input_is_an_empty_one(harness: Harness) -> None:
    ended = subprocess.run(
        ["sh", "-c", f'exec "{SCRIPT}" exec cat <&-'],
        env=harness.environment,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("", "", 0)


# --- exit codes


def test_exit_code_is_passed_through_and_a_double_dash_ends_the_options(harness: Harness) -> None:
    script = 'echo "$0" "$@"; echo err >&2; exit 37'
    ended = harness("exec", "--timeout", "20", "--", "sh", "-c", script, "--", "--timeout")
    assert (ended.stdout, ended.stderr, ended.returncode) == ("-- --timeout\n", "err\n", 37)


def test_signal_becomes_128_and_its_number(harness: Harness) -> None:
    ended = harness("exec", "--", "sh", "-c", "kill -SEGV $$")
    assert ended.returncode == 139
    assert "killed by signal 11" in ended.stderr


def test_unknown_command_ends_with_127(harness: Harness) -> None:
    ended = harness("exec", "no-such-command")
    assert ended.returncode == 127
    assert "no-such-command" in ended.stderr


LIMITS = {
    "CPU of one process": (("--cpu-seconds", "1"), "while True: pass", "--cpu-seconds 1"),
    "memory": (("--memory-mb", "64"), "x = bytearray(1 << 28)", "--memory-mb 64"),
    "output": (("--output-mb", "1"), "while True: print('y' * 9999)", "--output-mb 1"),
}
FURTHER = {
    "busy until the wall": (("--timeout", "1"), "while True: pass", "--timeout 1"),
    "processes": (("--processes", "16"), "import os\nwhile True: os.fork()", "--processes 16"),
}


def test_limit_ends_the_command_with_124_and_is_named(harness: Harness) -> None:
    for name, (options, program, said) in {**LIMITS, **(FURTHER if THOROUGH else {})}.items():
        ended = harness("exec", *options, "-", stdin=program)
        assert ended.returncode == 124, (name, ended.stderr[-500:])
        assert f"harness: ended by the limit {said}" in ended.stderr, name


def test_a_program_on_standard_input_keeps_its_output_before_a_limit(harness: Harness) -> None:
    program = "import sys, time\nprint(sys.argv[1:], flush=True)\ntime.sleep(60)\n"
    ended = harness("exec", "--timeout", "1", "-", "one", stdin=program)
    assert (ended.stdout, ended.returncode) == ("['one']\n", 124)
    assert "harness: ended by the limit --timeout 1" in ended.stderr


# --- output


def test_long_output_comes_whole(harness: Harness) -> None:
    ended = harness.raw("exec", "--", "python3", "-c", "print('a' + 'b' * 3_000_000 + 'c')")
    assert (ended.stdout, ended.stderr) == (b"a" + b"b" * 3_000_000 + b"c\n", b"")
    assert ended.returncode == 0


ENDLESS = "echo first; echo second >&2; exec sleep 90"


def test_output_reaches_a_pipe_before_an_interrupt_ends_the_command_and_its_container(
    harness: Harness, client: APIClient
) -> None:
    process = harness.start("exec", "--timeout", "100", "--", "sh", "-c", ENDLESS)
    assert process.stdout is not None
    assert process.stderr is not None
    assert (process.stdout.readline(), process.stderr.readline()) == ("first\n", "second\n")
    assert process.poll() is None
    label = {"label": f"harness.pid={process.pid}"}
    assert len(client.containers(filters=label)) == 1
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130
    assert client.containers(all=True, filters=label) == []


@contextlib.contextmanager
def start_on_terminal(harness: Harness, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Yield the command on a terminal, and the descriptor that reads its screen."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [SCRIPT, *arguments],
        env=harness.environment,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        yield process, ours
        process.wait()
        os.close(ours)


@pytest.mark.thorough
def test_output_reaches_a_terminal_before_the_command_ends(harness: Harness) -> None:
    command = ("exec", "--timeout", "100", "--", "sh", "-c", ENDLESS)
    with start_on_terminal(harness, *command) as (process, screen):
        shown = b""
        while b"first" not in shown or b"second" not in shown:
            shown += os.read(screen, 4096)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
    assert process.returncode == 130


def test_interrupt_ends_a_command_whose_reader_takes_nothing(harness: Harness, client: APIClient) -> None:
    process = harness.start("exec", "--timeout", "100", "--", "cat", "/dev/zero")
    assert process.stdout is not None
    assert process.stdout.read(1) == "\0"
    process.send_signal(signal.SIGINT)
    process.wait()
    assert process.returncode == 130
    assert client.containers(all=True, filters={"label": f"harness.pid={process.pid}"}) == []


def test_escape_sequences_do_not_reach_a_terminal(harness: Harness) -> None:
    script = r"printf 'a\033[2J\377\ab'; printf '\033]0;x\a' >&2"
    shown = b""
    command = ("exec", "--", "sh", "-c", script)
    # Reading fails once the last process has closed the terminal.
    with start_on_terminal(harness, *command) as (process, screen), contextlib.suppress(OSError):
        while data := os.read(screen, 4096):
            shown += data
    assert process.returncode == 0
    assert shown == rb"a\x1b[2J\xff\x07b" + rb"\x1b]0;x\x07"


def test_a_closed_pipe_is_no_fault(harness: Harness) -> None:
    ended = subprocess.run(
        ["sh", "-c", f'"{SCRIPT}" exec -- seq 300000 </dev/null | head -n 1'],
        env=harness.environment,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert ended.stdout == "1\n"
    assert "Error" not in ended.stderr
    assert "Traceback" not in ended.stderr


# --- isolation


def test_the_command_sees_nothing_of_the_host_or_of_another(harness: Harness) -> None:
    secret = "the-host-alone-knows"
    leave = "env; pwd; ls -A; for d in . /tmp /dev/shm; do echo here > $d/left; done"
    ended = harness.succeed("exec", "--", "sh", "-c", leave, env={**harness.environment, "TOKEN": secret})
    assert secret not in ended.stdout
    assert harness("exec", "--", "sh", "-c", "ls -A . /tmp /dev/shm | grep left").returncode == 1


# --- refusals

REFUSED = {
    "unknown environment": (("--env", "pyton", "true"), "did you mean 'python'?"),
    "time of nothing": (("--timeout", "0", "true"), "--timeout must be "),
    "time without end": (("--timeout", "inf", "true"), "--timeout must be "),
    "time that is not a number": (("--timeout", "nan", "true"), "--timeout must be "),
    "too little memory": (("--memory-mb", "1", "true"), "--memory-mb must be "),
}


def test_unusable_arguments_are_refused(harness: Harness) -> None:
    for name, (arguments, said) in REFUSED.items():
        exit_code, stdout, stderr = harness.refused("exec", *arguments)
        assert (exit_code, stdout, said in stderr) == (2, "", True), (name, stderr)


def test_a_missing_engine_is_reported_with_a_remedy(harness: Harness) -> None:
    ended = harness("exec", "true", env=NO_ENGINE)
    assert ended.returncode == 2
    assert "no Docker engine answers" in ended.stderr
    assert "hint: " in ended.stderr


def test_runtime_that_the_engine_lacks_is_refused(harness: Harness, runtimes: list[str]) -> None:
    if "runsc" in runtimes:
        pytest.skip("this engine knows runsc")
    ended = harness("exec", "--runtime", "runsc", "true")
    assert ended.returncode == 2
    assert "does not know the runtime 'runsc'" in ended.stderr


def test_unreadable_file_is_refused(harness: Harness) -> None:
    Path(harness.folder / "folder.py").mkdir()
    assert "folder.py: cannot be read: is a folder, not a file" in harness.expect_refusal("exec", "folder.py")
