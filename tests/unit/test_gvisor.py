"""An engine's configuration file is extended, left unchanged, or refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from case_checks import each_case

from harness.core.errors import SandboxError
from harness.sandbox.machine.gvisor import DEFAULT_CONFIG_FILE, add_runtime, config_file_of, read_config

ENTRY = {"path": "/usr/bin/runsc", "runtimeArgs": ["--network=none"]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "daemon.json"


def add(file: Path) -> None:
    add_runtime(file, "/usr/bin/runsc", ["--network=none"])


def test_a_missing_file_is_created(tmp_path: Path) -> None:
    file = tmp_path / "etc" / "docker" / "daemon.json"
    add(file)
    assert json.loads(file.read_text()) == {"runtimes": {"runsc": ENTRY}}


@each_case("text", ["", " \n", "{}"])
def test_an_empty_file_is_an_empty_configuration(file: Path, text: str) -> None:
    file.write_text(text)
    assert read_config(file) == {}


def test_existing_settings_are_kept(file: Path) -> None:
    before = {"data-root": "/data", "runtimes": {"other": {"path": "/opt/other"}}, "labels": ["ä"]}
    file.write_text(json.dumps(before))
    add(file)
    assert json.loads(file.read_text()) == {
        **before,
        "runtimes": {"other": {"path": "/opt/other"}, "runsc": ENTRY},
    }


def test_the_permissions_of_the_file_are_kept(file: Path) -> None:
    file.write_text("{}")
    file.chmod(0o600)
    add(file)
    assert file.stat().st_mode & 0o777 == 0o600


def test_nothing_else_is_left_in_its_folder(file: Path) -> None:
    add(file)
    assert [path.name for path in file.parent.iterdir()] == [file.name]


@each_case(
    ("text", "word"),
    [
        ("{'a': 1}", "not JSON"),
        ('{"a": 1,}', "not JSON"),
        ("[]", "not a JSON object"),
        ('{"runtimes": []}', "'runtimes'"),
    ],
)
def test_a_file_that_the_engine_would_refuse_is_refused_with_the_reason(
    file: Path, text: str, word: str
) -> None:
    file.write_text(text)
    with pytest.raises(SandboxError, match=word):
        add(file)


def test_a_refused_file_stays_as_it_was(file: Path) -> None:
    file.write_text("{oops")
    with pytest.raises(SandboxError):
        add(file)
    assert file.read_text() == "{oops"


@pytest.fixture
def daemon(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[psutil.Process]:
    """Yield a process that was started with these arguments in an empty folder."""
    command = [sys.executable, "-c", "print(flush=True); input()", *request.param]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield psutil.Process(process.pid)
        process.communicate(b"\n")


@pytest.mark.parametrize(
    "daemon", [["--config-file", "/a/b.json"], ["--debug", "--config-file=/a/b.json"]], indirect=True
)
def test_the_file_that_the_daemon_was_given_is_its_file(daemon: psutil.Process) -> None:
    assert config_file_of(daemon) == Path("/a/b.json")


@pytest.mark.parametrize("daemon", [["--config-file", "b.json"]], indirect=True)
def test_a_relative_file_is_one_of_the_daemons_folder(daemon: psutil.Process, tmp_path: Path) -> None:
    assert config_file_of(daemon) == tmp_path / "b.json"


@pytest.mark.parametrize("daemon", [["--debug"]], indirect=True)
def test_a_daemon_that_was_given_none_has_the_usual_one(daemon: psutil.Process) -> None:
    assert config_file_of(daemon) == DEFAULT_CONFIG_FILE
