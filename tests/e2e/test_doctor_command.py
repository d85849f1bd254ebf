"""`harness doctor` on the command line: its lines, fixes and exit codes, and no container left behind."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from e2e.command_line import Harness

from harness.sandbox import reaper
from harness.sandbox.backends.docker.engine import connect

COMMAND = [sys.executable, "-c", "from harness.cli.app import main; main()", "doctor"]
Doctor: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]
LINE = re.compile(r"(ok  |warn|FAIL)  \S.*|\s+(fix: )?\S.*")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Keep the measured speed of the machine from other tests, whose runs would extend their limits."""
    folder = str(tmp_path / "cache")
    monkeypatch.setenv("XDG_CACHE_HOME", folder)
    return folder


@pytest.fixture
def doctor(harness: Harness, own_cache: str) -> Doctor:
    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return harness("doctor", *arguments, env={"XDG_CACHE_HOME": own_cache, **environment})

    return run


def test_every_check_is_a_plain_line_and_all_is_well(doctor: Doctor) -> None:
    result = doctor()
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
    lines = result.stdout.splitlines()
    assert len(lines) > 25
    assert all(LINE.fullmatch(line) for line in lines)
    assert not any(line.startswith("FAIL") for line in lines)
    assert "\x1b" not in result.stdout


def test_an_engine_that_does_not_answer_ends_the_doctor_at_once(doctor: Doctor) -> None:
    result = doctor(DOCKER_HOST="tcp://127.0.0.1:1")
    assert (result.returncode, result.stderr) == (2, "error: 1 check failed: engine\n")
    found, fix = result.stdout.splitlines()
    assert re.match(
        r"FAIL  engine +no Docker engine answers at DOCKER_HOST=tcp://127.0.0.1:1: nothing", found
    )
    assert fix.strip().startswith("fix: start the engine behind DOCKER_HOST")


def test_escape_sequences_are_shown_and_never_sent(doctor: Doctor) -> None:
    result = doctor(DOCKER_HOST="tcp://127.0.0.1:1/\x1b[2J\u202e")
    assert result.returncode == 2
    assert "\\x1b[2J\\u202e" in result.stdout
    assert not {"\x1b", "\u202e"} & set(result.stdout + result.stderr)


def test_unknown_runtime_fails_with_its_fix_below_and_so_does_a_folder_that_cannot_be_written(
    doctor: Doctor,
) -> None:
    result = doctor("--output-dir", "/dev/null/runs", "--runtime", "nonesuch")
    assert result.returncode == 2
    lines = result.stdout.splitlines()
    (place,) = (number for number, line in enumerate(lines) if re.match("FAIL  runtime ", line))
    assert lines[place + 1].strip().startswith("fix: known: ")
    assert re.match("FAIL  sandbox .*no limit was tried", lines[-2])
    assert re.search("(?m)^FAIL  runs disk .*/dev/null cannot be written", result.stdout)


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.thorough), signal.SIGTERM])
def test_an_interrupted_doctor_leaves_no_container(number: signal.Signals) -> None:
    client = connect()
    process = subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    its = {"label": f"{reaper.PID}={process.pid}"}
    try:
        deadline = time.monotonic() + 120
        while not client.containers(filters=its) and time.monotonic() < deadline:
            assert process.poll() is None, "it ended before it had a container"
            time.sleep(0.05)
        process.send_signal(number)
        process.communicate(timeout=120)
        assert process.returncode == 128 + number
        assert client.containers(all=True, filters=its) == []
    finally:
        process.kill()
        process.communicate()
        client.close()
