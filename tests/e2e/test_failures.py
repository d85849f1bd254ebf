"""A command that cannot do its work reports an error, a hint and an exit code at once."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable

import pytest

from harness.cli import app as command_line
from harness.core.errors import SandboxError, UsageError
from harness.sandbox.backends.docker.engine import CONNECT_SECONDS


def harness(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from harness.cli.app import main; main()", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture
def fail_with(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Let main() run a command that raises `error`, and return the exit code."""

    def fail(error: BaseException, *arguments: str) -> int:
        def command() -> None:
            raise error

        monkeypatch.setattr(command_line, "app", command)
        monkeypatch.setattr(sys, "argv", ["harness", *arguments])
        with pytest.raises(SystemExit) as caught:
            command_line.main()
        return int(caught.value.code or 0)

    return fail


@pytest.mark.parametrize(
    ("endpoint", "reason"),
    [
        ("unix:///nowhere/docker.sock", "there is no socket"),
        ("tcp://127.0.0.1:1", "nothing listens there"),
        ("garbage", "Invalid bind address"),
        ("tcp://127.0.0.1:999999", "Port out of range"),
        ("tcp://127.0.0.1:-1", "Port could not be cast"),
        ("tcp://[::1", "Invalid IPv6 URL"),
        ("ssh://host:999999", "Port out of range"),
    ],
)
def test_no_engine(endpoint: str, reason: str) -> None:
    result = harness("gc", DOCKER_HOST=endpoint)
    assert result.returncode == 2
    assert result.stdout == ""
    error, hint = result.stderr.splitlines()
    assert error.startswith(f"error: no Docker engine answers at DOCKER_HOST={endpoint}: ")
    assert reason in error
    assert hint.startswith("hint: ")
    assert "DOCKER_HOST" in hint


def test_an_engine_that_never_answers_ends_the_command() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        result = harness("gc", DOCKER_HOST=f"tcp://127.0.0.1:{mute.getsockname()[1]}")
    assert result.returncode == 2
    assert f"no answer in {CONNECT_SECONDS} s" in result.stderr


def test_docker_context_that_does_not_exist() -> None:
    result = harness("gc", DOCKER_CONTEXT="nowhere", DOCKER_HOST="")
    assert result.returncode == 2
    assert "docker context 'nowhere' does not exist" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "suggestion"), [(("imges",), "images"), (("images", "bild"), "build"), (("stup",), "setup")]
)
def test_unknown_command_names_the_nearest(arguments: tuple[str, ...], suggestion: str) -> None:
    result = harness(*arguments)
    assert result.returncode == 2
    assert f"did you mean '{suggestion}'?" in result.stderr


def test_a_wrong_path_of_an_agent_is_reported_before_the_engine_is_asked() -> None:
    result = harness("images", "build", "--agent", "mine=/nowhere", DOCKER_HOST="unix:///nowhere/docker.sock")
    assert result.returncode == 2
    assert "/nowhere: is neither a folder nor a Dockerfile" in result.stderr


def test_error_and_hint_without_traceback(
    fail_with: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert fail_with(UsageError("what is wrong", hint="do this\nor that")) == 2
    assert capsys.readouterr().err == "error: what is wrong\nhint: do this\n      or that\n"
    assert fail_with(SandboxError("engine gone")) == 3
    assert capsys.readouterr().err == "error: engine gone\n"


def test_traceback_on_request(
    fail_with: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fail_with(UsageError("wrong"), "run", "-vv") == 2
    assert "Traceback" in capsys.readouterr().err
    assert fail_with(UsageError("wrong"), "exec", "--", "tool", "-vv") == 2
    assert "Traceback" not in capsys.readouterr().err
    monkeypatch.setenv("HARNESS_TRACEBACK", "1")
    assert fail_with(UsageError("wrong")) == 2
    assert "Traceback" in capsys.readouterr().err


def test_fault_of_ours_is_reported_as_ours(
    fail_with: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert fail_with(KeyError("row")) == 3
    error, hint = capsys.readouterr().err.splitlines()
    assert error == "error: KeyError: 'row'"
    assert "HARNESS_TRACEBACK=1" in hint


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "not enough memory"),
        (OSError(28, "No space left on device", "/some/file"), "/some/file: No space left on device"),
    ],
)
def test_fault_of_the_machine_is_not_reported_as_ours(
    fail_with: Callable[..., int], capsys: pytest.CaptureFixture[str], error: Exception, said: str
) -> None:
    assert fail_with(error) == 3
    text = capsys.readouterr().err
    assert text.startswith(f"error: {said}\n")
    assert "bug in harness" not in text


def test_interrupt(fail_with: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert fail_with(KeyboardInterrupt()) == 130
    assert capsys.readouterr().err == "error: interrupted\n"


def test_escape_sequences_never_reach_the_terminal(
    fail_with: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    fail_with(SandboxError("log: \x1b[2Jgone\r\x07"))
    assert capsys.readouterr().err == "error: log: \\x1b[2Jgone\\r\\x07\n"
