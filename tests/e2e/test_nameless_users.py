"""The command works for a user id that has no name on the machine, as in many containers."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from e2e.command_line import ForkServer

import harness

UID = "54321"
SOCKET = Path("/var/run/docker.sock")
NAMES = ("HOME", "USER", "LOGNAME", "LNAME", "USERNAME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "DOCKER_HOST")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in NAMES}
# The user may not ask the engine, has no home folder, or names that of somebody who does not exist.
COMMANDS = (
    ("exec", "--", "true"),
    ("doctor",),
    ("setup",),
    ("data", "list"),
    ("run", "-b", "mbpp", "-n", "1"),
    ("run", "-b", "~nobody-at-all/own.yaml"),
    ("--install-completion", "bash"),
)


Start = Callable[..., ForkServer]


@pytest.fixture
def start_nameless(record_process: Callable[[int], None], tmp_path: Path) -> Iterator[Start]:
    """Yield a function that starts commands as a user without a name.

    The user may read all files, because Python may be root's.
    """
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can become a user without a name, and needs setpriv")
    tmp_path.chmod(0o777)
    with contextlib.ExitStack() as stack:

        def start(*groups: str) -> ForkServer:
            user = ("setpriv", "--reuid", UID, "--regid", UID, *groups, "--inh-caps", "+dac_read_search")
            server = ForkServer(ENVIRONMENT, record_process, (*user, "--ambient-caps", "+dac_read_search"))
            stack.callback(server.close)
            return server

        yield start


def test_no_command_fails_for_lack_of_a_name_or_a_home_folder(start_nameless: Start, tmp_path: Path) -> None:
    server = start_nameless("--clear-groups")
    outputs = {command: server.run(command, tmp_path, ENVIRONMENT).stderr for command in COMMANDS}
    assert {command: text for command, text in outputs.items() if "bug in harness" in text} == {}


def test_no_file_asks_in_a_way_that_fails_for_a_user_without_a_name() -> None:
    failing = ("Path.home(", ".expanduser()", "getpass", "getlogin(")
    sources = {path: path.read_text(encoding="utf-8") for path in Path(harness.__file__).parent.rglob("*.py")}
    found = [(path.name, words) for path, text in sources.items() for words in failing if words in text]
    assert found == []


def test_a_nameless_user_with_access_to_the_engine_runs_a_benchmark(
    start_nameless: Start, tmp_path: Path
) -> None:
    if not SOCKET.exists() or not SOCKET.stat().st_mode & stat.S_IWGRP:
        pytest.skip(f"no group may use {SOCKET}")
    server = start_nameless("--groups", str(SOCKET.stat().st_gid))
    command = ("run", "-b", "humaneval", "--data", "bundled", "-n", "1", "--agent", "oracle")
    ended = server.run(command, tmp_path, ENVIRONMENT)
    assert ended.returncode == 0, ended.stderr
