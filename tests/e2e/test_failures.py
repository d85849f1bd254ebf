"""A command that cannot do its work reports an error, a hint and an exit code at once."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable

import pytest
from e2e.command_line import Harness

from harness.cli import app as command_line
from harness.core.errors import SandboxError, UsageError
from harness.sandbox.backends.docker.engine import CONNECT_SECONDS


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


ENDPOINTS = {
    "unix:///nowhere/docker.sock": "there is no socket",
    "tcp://127.0.0.1:1": "nothing listens there",
    "garbage": "Invalid bind address",
    "tcp://127.0.0.1:999999": "Port out of range",
    "tcp://127.0.0.1:-1": "Port could not be cast",
    "tcp://[::1": "Invalid IPv6 URL",
    "ssh://host:999999": "Port out of range",
}


def test_no_engine(harness: Harness) -> None:
    for endpoint, reason in ENDPOINTS.items():
        exit_code, stdout, stderr = harness.refused("gc", env={"DOCKER_HOST": endpoint})
        error, hint = stderr.splitlines()
        assert (exit_code, stdout) == (2, ""), endpoint
        assert error.startswith(f"error: no Docker engine answers at DOCKER_HOST={endpoint}: ")
        assert reason in error
        assert hint.startswith("hint: ")
        assert "DOCKER_HOST" in hint


def test_an_engine_that_never_answers_ends_the_command(harness: Harness) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"tcp://127.0.0.1:{mute.getsockname()[1]}"
        exit_code, _, stderr = harness.refused("gc", env={"DOCKER_HOST": address})
    assert exit_code == 2
    assert f"no answer in {CONNECT_SECONDS} s" in stderr


def test_docker_context_that_does_not_exist(harness: Harness) -> None:
    nowhere = {"DOCKER_CONTEXT": "nowhere", "DOCKER_HOST": ""}
    exit_code, _, stderr = harness.refused("gc", env=nowhere)
    assert exit_code == 2
    assert "docker context 'nowhere' does not exist" in stderr


def test_unknown_command_names_the_nearest(harness: Harness) -> None:
    for arguments, suggestion in {
        ("imges",): "images",
        ("images", "bild"): "build",
        ("stup",): "setup",
    }.items():
        exit_code, _, stderr = harness.refused(*arguments)
        assert (exit_code, f"did you mean '{suggestion}'?" in stderr) == (2, True), stderr


def test_a_wrong_path_of_an_agent_is_reported_before_the_engine_is_asked(harness: Harness) -> None:
    exit_code, _, stderr = harness.refused("images", "build", "--agent", "mine=/nowhere")
    assert exit_code == 2
    assert "/nowhere: is neither a folder nor a Dockerfile" in stderr


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
