"""The command works for a user id that has no name on the machine, as in many containers."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from e2e.command_line import SCRIPT

import harness

UID = "54321"
SOCKET = Path("/var/run/docker.sock")
NAMES = ("HOME", "USER", "LOGNAME", "LNAME", "USERNAME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "DOCKER_HOST")
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


def run_nameless(
    command: Sequence[str], folder: Path, groups: Sequence[str], **env: str
) -> subprocess.CompletedProcess[str]:
    """Run the command as a user without a name, who may read all files, because Python may be root's."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can become a user without a name, and needs setpriv")
    folder.chmod(0o777)
    kept = {name: value for name, value in os.environ.items() if name not in NAMES}
    return subprocess.run(
        [
            *("setpriv", "--reuid", UID, "--regid", UID, *groups),
            *("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search", str(SCRIPT), *command),
        ],
        cwd=folder,
        env={**kept, **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_no_command_fails_for_lack_of_a_name_or_a_home_folder(tmp_path: Path) -> None:
    with ThreadPoolExecutor() as threads:
        ended = threads.map(lambda command: run_nameless(command, tmp_path, ["--clear-groups"]), COMMANDS)
        outputs = {command: each.stderr for command, each in zip(COMMANDS, ended, strict=True)}
    assert {command: text for command, text in outputs.items() if "bug in harness" in text} == {}


def test_no_file_asks_in_a_way_that_fails_for_a_user_without_a_name() -> None:
    failing = ("Path.home(", ".expanduser()", "getpass", "getlogin(")
    sources = {path: path.read_text(encoding="utf-8") for path in Path(harness.__file__).parent.rglob("*.py")}
    found = [(path.name, words) for path, text in sources.items() for words in failing if words in text]
    assert found == []


def test_a_nameless_user_with_access_to_the_engine_runs_a_benchmark(tmp_path: Path) -> None:
    if not SOCKET.exists() or not SOCKET.stat().st_mode & stat.S_IWGRP:
        pytest.skip(f"no group may use {SOCKET}")
    command = ("run", "-b", "humaneval", "--data", "bundled", "-n", "1", "--agent", "oracle")
    ended = run_nameless(command, tmp_path, ["--groups", str(SOCKET.stat().st_gid)])
    assert ended.returncode == 0, ended.stderr
