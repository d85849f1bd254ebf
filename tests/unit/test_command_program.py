"""The command of an agent: its arguments, its settings, and its end on the host."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from case_checks import each_case

from harness.benchmarks import load_benchmark
from harness.core.errors import UsageError
from harness.runs.agents.agent import AgentError, settings_for
from harness.runs.agents.command.agent import CommandAgent, override
from harness.runs.agents.command.place import KEEP_BYTES, HostPlace, open_host_place
from harness.runs.agents.command.profiles import PROFILES
from harness.runs.agents.command.program import MAX_ARGUMENT_BYTES, fill_arguments, split_command
from harness.runs.config import RunConfig, load_config
from harness.runs.settings.agents import CommandSettings
from harness.sandbox.machine.agent_images import read_agent_source

WAIT_SECONDS = 30.0


def test_a_command_is_split_as_a_shell_splits_it_and_no_shell_runs_it() -> None:
    argv = split_command("agent --task={prompt} 'a b' $HOME;x {model}")
    assert argv == ("agent", "--task={prompt}", "a b", "$HOME;x", "{model}")
    filled = fill_arguments(argv, {"prompt": "'; rm -rf / {model}", "model": "m"})
    assert filled == ["agent", "--task='; rm -rf / {model}", "a b", "$HOME;x", "m"]


def test_a_variable_of_a_shell_or_of_another_program_is_no_placeholder() -> None:
    argv = split_command("agent '${HOME}/{model}' ${prompt}")
    assert fill_arguments(argv, {"model": "m"}) == ["agent", "${HOME}/m", "${prompt}"]


@each_case(
    ("command", "complaint"),
    [
        ("bash -c 'agent {prompt}'", "only a part of the argument"),
        ("agent 'it", "No closing quotation"),
        ("agent {task}", "{task} has no meaning"),
        ("  ", "is empty"),
    ],
)
def test_a_command_that_cannot_be_used_is_refused(command: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        split_command(command)


@each_case("prompt", ["x" * (MAX_ARGUMENT_BYTES + 1), "a\0b"], ids=["long", "NUL"])
def test_a_prompt_that_cannot_be_an_argument_is_an_error_that_names_the_remedy(prompt: str) -> None:
    with pytest.raises(AgentError, match=r"use \{prompt_file\}"):
        fill_arguments(("agent", "{prompt}"), {"prompt": prompt})


@each_case(
    ("command", "complaint"),
    [
        ({"cmd": "x", "pass_env": ["HOME"]}, "no variable of the harness enters a sandbox"),
        ({"cmd": "x", "where": "host", "image": "tiny"}, "has image, which a program on the host"),
        ({"cmd": "x", "where": "host", "machine": "own"}, "has machine, which a program on the host"),
        ({"cmd": "x", "submission": "submit", "submission_file": "y"}, "only one counts"),
        ({"cmd": "x", "where": "host", "submission_file": "/etc/x"}, "not below the folder"),
        ({"cmd": "x", "where": "host", "submission_file": "a/../../x"}, "not below the folder"),
        ({"cmd": "x", "env": {"A=B": ""}}, "not 'A=B'"),
        ({"cmd": "x", "shell": "bash"}, "unknown key 'command.shell'"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(command: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        load_config(None, {"benchmark": "mbpp", "command": command})


@each_case(
    "command",
    [{"cmd": "x", "where": "host"}, {"cmd": "x", "submission_file": "y"}, {"cmd": "x", "machine": "own"}],
)
def test_a_run_folder_holds_the_settings_that_are_set(command: dict[str, Any]) -> None:
    config = load_config(None, {"benchmark": "mbpp", "command": command})
    kept = config.model_dump(mode="json")
    assert kept["command"] == command
    assert RunConfig.model_validate(kept).command == config.command


def test_a_command_chooses_its_agent() -> None:
    assert load_config(None, {"benchmark": "mbpp", "command": {"cmd": "x"}, "model": "m"}).agent == "command"


def test_the_config_overrides_the_settings_of_a_public_agent() -> None:
    defaults = PROFILES["mini-swe-agent"].command
    given = CommandSettings(env={"MSWEA_SILENT_STARTUP": "0", "MORE": "1"}, submission_file="answer")
    chosen = override(defaults, given)
    assert (chosen.cmd, chosen.image, chosen.submission_file) == (defaults.cmd, defaults.image, "answer")
    assert chosen.env == {**defaults.env, "MSWEA_SILENT_STARTUP": "0", "MORE": "1"}


def test_the_command_of_every_public_agent_can_be_split() -> None:
    for profile in PROFILES.values():
        assert split_command(str(profile.command.cmd))


# --- on the host


@pytest.fixture
def pid_file(tmp_path: Path) -> Iterator[Path]:
    """Yield the file into which a program writes the ids of its processes. They are ended after the test."""
    path = tmp_path / "pids"
    yield path
    for pid in read_pids(path):
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(pid).kill()


def read_pids(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def list_living(path: Path) -> list[int]:
    found = []
    for pid in read_pids(path):
        with contextlib.suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.append(pid)
    return found


def scatter(path: Path, *, then: str) -> list[str]:
    """Return a program that leaves a child, a daemon in a new session and an orphan, and then does `then`."""
    script = f"""
        sleep 500 & echo $! >> {path}
        setsid sh -c 'trap "" TERM HUP INT; echo $$ >> {path}; sleep 500' &
        (sh -c 'echo $$ >> {path}; sleep 500' &)
        while [ "$(wc -l < {path})" -lt 3 ]; do sleep 0.01; done
        echo $$ >> {path}; {then}
    """
    return ["sh", "-c", script]


async def start_on(place: HostPlace, argv: list[str], pids: Path) -> asyncio.Task[Any]:
    """Return the running program once it has started all of its processes."""
    running = asyncio.create_task(place.run(argv, env={"PATH": place.path}, seconds=WAIT_SECONDS))
    await asyncio.to_thread(wait_for, lambda: len(read_pids(pids)) == 4)
    return running


async def test_the_end_of_a_program_ends_all_of_its_processes(pid_file: Path) -> None:
    async with open_host_place([]) as place:
        argv = scatter(pid_file, then="echo out; echo err >&2; exit 3")
        result = await place.run(argv, env={"PATH": place.path}, seconds=WAIT_SECONDS)
        assert list_living(pid_file) == []
    assert (result.exit_code, str(result.stdout), str(result.stderr)) == (3, "out\n", "err\n")
    assert result.clean


async def test_a_cancelled_program_leaves_no_process(pid_file: Path) -> None:
    async with open_host_place([]) as place:
        running = await start_on(place, scatter(pid_file, then="sleep 500"), pid_file)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert list_living(pid_file) == []


def test_a_killed_harness_leaves_no_process_of_a_program(tmp_path: Path, pid_file: Path) -> None:
    source = f"""
import asyncio
from harness.runs.agents.command.place import open_host_place

async def main():
    async with open_host_place([]) as place:
        await place.run({scatter(pid_file, then="sleep 500")!r}, env={{"PATH": place.path}}, seconds=500)

asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", source]) as harness:
        wait_for(lambda: len(read_pids(pid_file)) == 4)
        harness.send_signal(signal.SIGKILL)
    wait_for(lambda: list_living(pid_file) == [])


def wait_for(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


async def test_a_program_on_the_host_gets_no_variable_that_is_not_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NAMED", "visible")
    monkeypatch.setenv("UNNAMED", "hidden")
    async with open_host_place(["NAMED"]) as place:
        result = await place.run(["env"], env={"PATH": place.path}, seconds=WAIT_SECONDS)
    assert "NAMED=visible" in str(result.stdout).splitlines()
    assert "hidden" not in str(result.stdout)


async def test_a_long_output_keeps_its_ends() -> None:
    async with open_host_place([]) as place:
        program = f"import sys; sys.stdout.write('a' + 'x' * {3 * KEEP_BYTES} + 'z')"
        result = await place.run([sys.executable, "-c", program], env={}, seconds=WAIT_SECONDS)
    stdout = result.stdout
    assert stdout.total == 3 * KEEP_BYTES + 2
    assert (stdout.head[:1], stdout.tail[-1:], stdout.truncated) == (b"a", b"z", True)
    assert len(stdout.head) + len(stdout.tail) <= KEEP_BYTES


async def test_a_file_that_is_no_file_is_no_submission(tmp_path: Path) -> None:
    async with open_host_place([]) as place:
        made = await place.run(
            ["sh", "-c", "mkfifo pipe; mkdir folder; echo 12345 > long"],
            env={"PATH": place.path},
            seconds=WAIT_SECONDS,
        )
        assert made.exit_code == 0
        found = [await place.read_file(name, limit=3) for name in ("pipe", "folder", "long", "none")]
        assert found == [None] * 4
        assert await place.read_file("long", limit=6) == b"12345\n"


async def test_a_program_that_cannot_start_ends_with_127() -> None:
    async with open_host_place([]) as place:
        result = await place.run(["no-such-program"], env={"PATH": place.path}, seconds=WAIT_SECONDS)
    assert (result.exit_code, str(result.stderr)) == (
        127,
        "no-such-program: cannot be started: No such file or directory\n",
    )


@each_case(
    ("program", "complaint"),
    [
        ("no-such-program", "is not on this machine"),
        ("./agent.py", "is relative, but each attempt starts in a new folder"),
        ("/no/such/agent", "is not executable"),
    ],
)
def test_a_program_on_the_host_that_cannot_start_is_refused(program: str, complaint: str) -> None:
    benchmark = load_benchmark("humaneval", data="bundled")
    settings = settings_for(benchmark, command=CommandSettings(cmd=program, where="host"))
    with pytest.raises(UsageError, match=complaint):
        CommandAgent(settings)


@each_case(
    "command",
    [
        CommandSettings(cmd="sh {task_file}", where="host"),
        CommandSettings(cmd="{scratch}/bin/harness-submit", where="host"),
        # Only the sandbox knows its programs.
        CommandSettings(cmd="no-such-program"),
    ],
)
def test_a_program_that_may_be_there_is_accepted(command: CommandSettings) -> None:
    CommandAgent(settings_for(load_benchmark("humaneval", data="bundled"), command=command))


@each_case("text", ["#!/usr/bin/python3\nimport os\n", "", "# FROM\n"])
def test_a_file_that_is_no_dockerfile_is_no_source_of_an_agent(tmp_path: Path, text: str) -> None:
    file = tmp_path / "agent.py"
    file.write_text(text)
    with pytest.raises(UsageError, match="is neither a folder nor a Dockerfile"):
        read_agent_source("mine", file)
    file.write_text("# An agent.\n\narg BASE\nFROM ${BASE}\n")
    assert read_agent_source("mine", file).dockerfile == file


@each_case(
    "settings",
    [
        {"cmd": "x", "where": "host", "pass_env": ["A"]},
        {"cmd": "x", "submission_file": "answer.txt"},
        {"cmd": "x", "image": "tiny", "machine": "own", "submission": "submit"},
    ],
)
def test_the_settings_of_a_program_are_read_back_as_a_run_folder_holds_them(settings: dict[str, Any]) -> None:
    command = CommandSettings.model_validate(settings)
    again = CommandSettings.model_validate(command.model_dump(mode="json"))
    assert again == command
