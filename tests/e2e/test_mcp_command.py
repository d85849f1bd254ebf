"""`harness mcp`: an unmodified client of the protocol acts in a task and is graded."""

from __future__ import annotations

import contextlib
import json
import pty
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import pytest
from docker import APIClient
from e2e.command_line import SCRIPT, Harness, RunFolder, wait_until

from harness.cli.app import main

if TYPE_CHECKING:
    from mcp import Client

LAMP = ("mcp", "agentbench", "os/sample/answers/0", "--data", "bundled")
FIND_LAMP = {"command": r"grep -rhoP 'the \K\w+(?= lamp)' /root/shelves"}
POUR = (
    "filled = []",
    "for capacity in capacities:",
    "    filled.append(min(capacity, litres))",
    "    litres -= filled[-1]",
    "return filled",
)
# The requests in a pipe below are of the older era.
BOTH_ERAS = pytest.mark.parametrize("mode", [pytest.param("legacy", marks=pytest.mark.thorough), "auto"])


def open_errors(harness: Harness) -> TextIO:
    return open(harness.folder / "stderr", "w", encoding="utf-8")


@contextlib.asynccontextmanager
async def connect(harness: Harness, *arguments: str, mode: str = "auto") -> AsyncIterator[Client]:
    """Start the command as a client does. It ends with the block, and its messages are in `stderr`."""
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    parameters = StdioServerParameters(
        command=str(SCRIPT), args=list(arguments), env=harness.environment, cwd=harness.folder
    )
    with open_errors(harness) as errors:
        async with Client(stdio_client(parameters, errlog=errors), mode=mode) as client:
            yield client
            wait_until(lambda: "run folder: " in messages(harness), "the verdict")


def messages(harness: Harness) -> str:
    return (harness.folder / "stderr").read_text(encoding="utf-8")


def find_run(harness: Harness) -> RunFolder:
    (found,) = (harness.folder / "runs").iterdir()
    return RunFolder(found)


def start(harness: Harness, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [SCRIPT, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=harness.folder,
        env=harness.environment,
    )


def request(number: int, method: str, **parameters: object) -> bytes:
    return (
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}).encode() + b"\n"
    )


HELLO = request(
    1,
    "initialize",
    protocolVersion="2025-11-25",
    capabilities={},
    clientInfo={"name": "test", "version": "1"},
)


def wait_for_sandbox(harness: Harness, process: subprocess.Popen[bytes], client: APIClient) -> RunFolder:
    """Shake hands, and return the run folder once the client could act."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(HELLO)
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["id"] == 1
    run = find_run(harness)
    assert len(run.containers(client, running=True)) == 1
    return run


@BOTH_ERAS
@pytest.mark.timeout(180)
async def test_a_client_acts_in_a_sandbox_and_passes(harness: Harness, client: APIClient, mode: str) -> None:
    async with connect(harness, *LAMP, mode=mode) as served:
        assert "speaks of a lamp" in (served.instructions or "")
        found = await served.call_tool("bash", FIND_LAMP)
        assert "copper" in str(found.content)
        await served.call_tool("submit", {"answer": "copper"})
    run = find_run(harness)
    assert [each["status"] for each in run.attempts] == ["passed"]
    assert run.attempts[0]["metrics"]["rounds"] == 2
    assert run.containers(client) == []
    assert "100.0 %" in messages(harness)


def pipe(*requests: bytes) -> str:
    """Return the standard input of a client that sends requests and waits for no answer."""
    return b"".join(
        [HELLO, b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n', *requests]
    ).decode()


@pytest.mark.timeout(180)
def test_a_task_without_an_environment_offers_submit_alone(harness: Harness) -> None:
    program = "def pour(capacities, litres):\n" + "".join(f"    {line}\n" for line in POUR)
    requests = (
        request(2, "tools/list"),
        request(3, "tools/call", name="submit", arguments={"answer": program}),
    )
    ended = harness("mcp", "humaneval", "HumanEval-sample/0", "--data", "bundled", stdin=pipe(*requests))
    answers = {each["id"]: each["result"] for each in map(json.loads, ended.stdout.splitlines())}
    assert [tool["name"] for tool in answers[2]["tools"]] == ["submit"]
    (attempt,) = find_run(harness).attempts
    assert (attempt["status"], attempt["agent_output_full"]) == ("passed", program)


@pytest.mark.timeout(180)
def test_requests_in_a_closed_pipe_are_answered_and_graded(harness: Harness, client: APIClient) -> None:
    requests = (
        request(2, "tools/call", name="bash", arguments=FIND_LAMP),
        request(3, "tools/call", name="submit", arguments={"answer": "copper"}),
    )
    ended = harness(*LAMP, stdin=pipe(*requests))
    assert ended.returncode == 0, ended.stderr
    assert {json.loads(line)["id"] for line in ended.stdout.splitlines()} == {1, 2, 3}
    run = find_run(harness)
    assert [each["status"] for each in run.attempts] == ["passed"]
    assert run.containers(client) == []


@pytest.mark.timeout(180)
def test_a_client_that_leaves_without_an_answer_is_graded(harness: Harness, client: APIClient) -> None:
    ended = harness(*LAMP, stdin=HELLO.decode())
    assert ended.returncode == 0, ended.stderr
    assert "the client has left without an answer" in ended.stderr
    run = find_run(harness)
    assert [each["status"] for each in run.attempts] == ["failed"]
    assert run.containers(client) == []


@pytest.mark.timeout(180)
def test_a_signal_ends_the_command_and_its_container(harness: Harness, client: APIClient) -> None:
    process = start(harness, *LAMP)
    run = wait_for_sandbox(harness, process, client)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, errors
    assert run.containers(client) == []
    assert run.attempts == []


@pytest.mark.timeout(180)
def test_no_container_runs_on_after_the_command_was_killed(harness: Harness, client: APIClient) -> None:
    process = start(harness, *LAMP)
    run = wait_for_sandbox(harness, process, client)
    process.kill()
    process.communicate(timeout=60)
    wait_until(lambda: not run.containers(client, running=True), "the end of the container")
    assert harness("gc").returncode == 0
    assert run.containers(client) == []


def test_a_terminal_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, theirs = pty.openpty()
    with open(ours), open(theirs) as terminal:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["harness", *LAMP])
        monkeypatch.setattr(sys, "stdin", terminal)
        with pytest.raises(SystemExit) as end:
            main()
    assert end.value.code == 2
    assert "harness shell TASK" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_run_refuses_the_client_and_names_the_command(harness: Harness) -> None:
    refused = harness("run", "-b", "agentbench", "--agent", "client", "-t", "os/sample/answers/0")
    assert refused.returncode == 2
    assert "harness mcp agentbench os/sample/answers/0" in refused.stderr
