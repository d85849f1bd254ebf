"""MCP servers in a real sandbox: their bounds, their surroundings and their end."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from docker import APIClient
from mcp_images import FOLDER, build_server_images

from harness.environments.os.root_sandbox import RootSandbox
from harness.environments.workspace import WORKSPACE_LIMITS
from harness.models.relay.mcp_servers import connection
from harness.models.relay.mcp_servers.connection import ServerConnection, ServerError, connect
from harness.models.relay.mcp_servers.sandbox_process import ServerPlace
from harness.models.relay.mcp_servers.settings import McpServer
from harness.sandbox.sandbox import Sandbox

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def prepared(client: APIClient, tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_server_images(client, tmp_path_factory.mktemp("servers"))


@contextlib.asynccontextmanager
async def open_sandbox(prepared: str) -> AsyncIterator[Sandbox]:
    async with Sandbox.open(f"python+{prepared}", limits=WORKSPACE_LIMITS, relay=True) as sandbox:
        yield sandbox


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(prepared: str) -> AsyncIterator[Sandbox]:
    """Yield the sandbox of all tests that leave it running."""
    async with open_sandbox(prepared) as opened:
        yield opened


def settings(*args: str, **changes: Any) -> McpServer:
    given = {"name": "test", "command": "python3", "args": list(args), "where": "sandbox"}
    return McpServer.model_validate({**given, **changes})


@contextlib.asynccontextmanager
async def broken(sandbox: Sandbox, how: str, **changes: Any) -> AsyncIterator[ServerConnection]:
    place = ServerPlace(sandbox, 300.0)
    async with connect(settings(f"{FOLDER}/broken.py", how, **changes), place) as opened:
        yield opened


@pytest.mark.parametrize("kind", [Sandbox, RootSandbox], ids=["own", "machine"])
async def test_tools_of_a_server_by_the_package_are_listed_and_called(
    prepared: str, kind: type[Sandbox]
) -> None:
    image = "os" if kind is RootSandbox else "python"
    server = settings(f"{FOLDER}/tools.py", env={"PYTHONPATH": f"{FOLDER}/lib"})
    opening = kind.open(f"{image}+{prepared}", limits=WORKSPACE_LIMITS, relay=True)
    async with opening as sandbox, connect(server, ServerPlace(sandbox, 300.0)) as opened:
        assert [tool.name for tool in opened.tools] == ["add", "fail", "fill", "submit"]
        assert (await opened.call("add", {"a": 2, "b": 3})).text == "5"
        assert "no such page" in (await opened.call("fail", {"reason": "no such page"})).text
        large = await opened.call("fill", {"characters": 300_000})
        assert "300000 characters in all" in large.text[-60:]


async def test_a_server_that_watches_its_output_for_its_end_is_called(sandbox: Sandbox) -> None:
    server = settings(f"{FOLDER}/watching.py")
    async with connect(server, ServerPlace(sandbox, 300.0)) as opened:
        assert [(await opened.call("look", {})).text for _ in range(3)] == ["seen"] * 3


async def test_a_server_has_its_variables_and_nothing_of_the_host(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    env = {"MODE": "${MODE_OF_TEST:-fast}"}
    async with broken(sandbox, "variables", env=env) as opened:
        found = json.loads((await opened.call("look", {})).text)
    async with broken(sandbox, "network") as opened:
        network = (await opened.call("look", {})).text
    assert found.keys() == {"PATH", "LANG", "HOME", "MODE", "TEST_PROCESS"}
    assert found["MODE"] == "fast"
    assert network == "lo"


async def test_the_work_folder_stands_for_its_placeholder(sandbox: Sandbox) -> None:
    script = "import sys; sys.exit(sys.argv[1] + ' is the folder')"
    with pytest.raises(ServerError, match="/work/agent/a is the folder"):
        async with connect(settings("-c", script, "{workdir}/a"), ServerPlace(sandbox, 300.0)):
            raise AssertionError("it has given tools")


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("flood", "sent more than 10,000 messages that answer nothing"),
        ("endless-line", "a message is longer than 4,194,304 bytes"),
        ("large", "a message is longer than 4,194,304 bytes"),
        ("hang", "the tool did not answer within 3.5 s"),
        ("die", "out of licences"),
    ],
)
async def test_a_broken_server_costs_a_call(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, how: str, reason: str
) -> None:
    monkeypatch.setattr("harness.models.relay.mcp_servers.sandbox_process.GRACE_SECONDS", 0.1)
    # The limit of a call is longer than the limit of the start.
    limits = {"startup_timeout_ms": 3000, "tool_timeout_ms": 3500} if how == "hang" else {}
    async with broken(sandbox, how, **limits) as opened:
        result = await opened.call("look", {})
        assert result.is_error
        assert reason in result.text
        if how != "hang":
            assert (await opened.call("look", {})).is_error
    # The sandbox itself works on.
    assert (await sandbox.exec(["echo", "on"])).exit_code == 0


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("hang-at-start", "did not list its tools within 5 s"),
        ("exit-at-start", "there is no licence for this server"),
        ("thousands", f"offers more than {connection.MAX_TOOLS} tools"),
    ],
)
async def test_a_server_that_does_not_list_its_tools_gives_none(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, how: str, reason: str
) -> None:
    monkeypatch.setattr("harness.models.relay.mcp_servers.sandbox_process.GRACE_SECONDS", 0.1)
    limit = {"startup_timeout_ms": 5000} if how == "hang-at-start" else {}
    with pytest.raises(ServerError, match=reason):
        async with broken(sandbox, how, **limit):
            raise AssertionError("it has given tools")


async def test_a_command_that_is_not_there_is_named(sandbox: Sandbox) -> None:
    server = settings(command="no-such-server")
    with pytest.raises(ServerError, match="no-such-server: not found"):
        async with connect(server, ServerPlace(sandbox, 300.0)):
            raise AssertionError("it has given tools")


async def test_the_loss_of_the_sandbox_costs_a_call(prepared: str, client: APIClient) -> None:
    async with open_sandbox(prepared) as sandbox, broken(sandbox, "hang") as opened:
        client.kill(sandbox.container_id)
        result = await opened.call("look", {})
    assert result.is_error
    assert "its sandbox failed" in result.text


async def test_no_process_of_a_server_is_left_after_its_block(sandbox: Sandbox) -> None:
    async with broken(sandbox, "daemon") as opened:
        assert not (await opened.call("look", {})).is_error
    left = await sandbox.exec(["sh", "-c", "cat /proc/[0-9]*/comm"])
    assert "sleep" not in str(left.stdout)


async def test_a_connection_without_the_token_is_closed(sandbox: Sandbox) -> None:
    # It finds the port of the relay among the sockets that listen, and writes messages of its own.
    script = """
import socket
rows = [line.split() for line in open("/proc/net/tcp").readlines()[1:]]
(port,) = {int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A"}
for first in (b"", b"0" * 66, b"1wrong\\n" + b"x" * 100):
    link = socket.create_connection(("127.0.0.1", port))
    link.sendall(first + b'{"jsonrpc": "2.0", "id": 1, "result": {}}\\n')
    try:
        assert link.recv(1) == b""
    except ConnectionResetError:
        pass
    print("closed")
"""
    async with broken(sandbox, "variables") as opened:
        other = await sandbox.exec(["python3", "-c", script])
        assert str(other.stdout) == "closed\n" * 3, str(other.stderr)
        assert not (await opened.call("look", {})).is_error
