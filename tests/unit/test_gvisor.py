"""An engine's configuration file is extended, left unchanged, or refused."""

from __future__ import annotations

import json
import subprocess
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


def test_the_permissions_of_the_file_are_kept_and_nothing_else_is_left_in_its_folder(file: Path) -> None:
    file.write_text("{}")
    file.chmod(0o600)
    add(file)
    assert file.stat().st_mode & 0o777 == 0o600
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
    assert file.read_text() == text


@each_case(
    ("arguments", "expected"),
    [
        (["--config-file", "/a/b.json"], Path("/a/b.json")),
        (["--debug", "--config-file=/a/b.json"], Path("/a/b.json")),
        (["--config-file", "b.json"], Path("b.json")),
        (["--debug"], DEFAULT_CONFIG_FILE),
    ],
)
def test_the_file_of_a_daemon_is_the_one_that_it_was_given_or_the_usual_one(
    tmp_path: Path, arguments: list[str], expected: Path
) -> None:
    command = ["/bin/sh", "-c", "echo; read line", *arguments]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert config_file_of(psutil.Process(process.pid)) == tmp_path / expected
        process.communicate(b"\n")
