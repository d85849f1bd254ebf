"""The life of the containers that hold network namespaces, and the sandboxes that join these."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import sys
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from docker import APIClient

from harness import Sandbox
from harness.core.errors import UsageError
from harness.core.types import ProgramTests, Status, Submission
from harness.environments.grading import GradingContext, grade_submission
from harness.environments.python import SPEC
from harness.environments.python.client import run_tests
from harness.sandbox import reaper
from harness.sandbox.backends.docker import shared_network
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.pool import SandboxPool

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

GONE_SECONDS = 20.0
OWNER = """
import asyncio, sys
from harness import Sandbox
from harness.sandbox.backends.docker.backend import connect

async def main():
    backend = connect()
    backend.shared_networks.starts_without_holder = 0
    options = {"seccomp": "strict", "network": "shared", "run_id": sys.argv[1], "backend": backend}
    async with Sandbox.open(**options) as sandbox:
        print(sandbox.container_id, flush=True)
        if sys.argv[2] == "stay":
            await asyncio.sleep(600)

asyncio.run(main())
"""
SERVERS = {
    "a manager": """
from multiprocessing import Manager
def f():
    with Manager() as manager:
        numbers = manager.list([1])
        numbers.append(2)
        return list(numbers)
""",
    "a server of local sockets": """
import socket, socketserver, threading
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(self.rfile.readline())
def f():
    with socketserver.UnixStreamServer("server", Handler) as server:
        threading.Thread(target=server.handle_request).start()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect("server")
            client.sendall(b"x\\n")
            return [1, 2] if client.recv(9) == b"x\\n" else []
""",
    "a server of asyncio": """
import asyncio
async def answer(reader, writer):
    writer.write(await reader.readline())
    writer.close()
async def main():
    async with await asyncio.start_unix_server(answer, "server"):
        reader, writer = await asyncio.open_unix_connection("server")
        writer.write(b"x\\n")
        return [1, 2] if await reader.readline() == b"x\\n" else []
def f():
    return asyncio.run(main())
""",
}


@pytest.fixture
def sharing(client: APIClient) -> Iterator[DockerBackend]:
    """Yield a backend whose first container shares a namespace."""
    backend = DockerBackend(client)
    backend.shared_networks.starts_without_holder = 0
    yield backend
    backend.shared_networks.close()


@pytest.fixture
def run_id(sharing: DockerBackend) -> Iterator[str]:
    """Yield the id of a new run, by which the test finds its containers."""
    run_id = f"test-{secrets.token_hex(6)}"
    yield run_id
    reaper.remove_run(sharing, run_id)


@contextlib.asynccontextmanager
async def open_shared(backend: DockerBackend, run_id: str) -> AsyncIterator[Sandbox]:
    async with Sandbox.open(seccomp="strict", network="shared", run_id=run_id, backend=backend) as sandbox:
        yield sandbox


def holders(client: APIClient, run_id: str) -> list[str]:
    labels = [f"{reaper.RUN}={run_id}", f"{reaper.ROLE}={shared_network.ROLE}"]
    return [container["Id"] for container in client.containers(all=True, filters={"label": labels})]


def network_of(client: APIClient, sandbox: Sandbox) -> str:
    return str(client.inspect_container(sandbox.container_id)["HostConfig"]["NetworkMode"])


async def works(sandbox: Sandbox) -> bool:
    report = await run_tests(sandbox, program="x = 1", statements=["assert x == 1"], exports={"x": "x"})
    return report.results == (True,)


async def become_empty(client: APIClient, run_id: str) -> bool:
    """Return whether all containers of a run are gone within GONE_SECONDS."""
    last = time.monotonic() + GONE_SECONDS
    while client.containers(all=True, filters={"label": f"{reaper.RUN}={run_id}"}):
        if time.monotonic() > last:
            return False
        await asyncio.sleep(0.05)
    return True


async def test_sandboxes_of_a_run_share_one_holder(
    client: APIClient, sharing: DockerBackend, run_id: str
) -> None:
    async with open_shared(sharing, run_id) as one, open_shared(sharing, run_id) as other:
        (holder,) = holders(client, run_id)
        assert {network_of(client, one), network_of(client, other)} == {f"container:{holder}"}
        assert await works(one)
        assert await works(other)


async def test_a_program_sees_the_same_hostname_and_processors_as_in_its_own_network(
    sharing: DockerBackend, run_id: str
) -> None:
    program = "import os\nprint(os.uname().nodename, os.cpu_count(), flush=True)"
    async with (
        open_shared(sharing, run_id) as shared,
        Sandbox.open(seccomp="strict", run_id=run_id, backend=sharing) as own,
    ):
        seen = [
            str((await run_tests(sandbox, program=program, statements=["pass"], exports={})).stdout)
            for sandbox in (shared, own)
        ]
    assert seen[0] == seen[1]
    assert seen[0].startswith("sandbox ")


async def test_two_runs_share_nothing(client: APIClient, sharing: DockerBackend, run_id: str) -> None:
    second = f"{run_id}-2"
    async with open_shared(sharing, run_id) as one, open_shared(sharing, second) as other:
        assert network_of(client, one) != network_of(client, other)
        reaper.remove_run(sharing, second)
        assert holders(client, second) == []
        assert await works(one)


async def test_the_first_sandboxes_of_a_run_have_no_holder(client: APIClient, run_id: str) -> None:
    backend = DockerBackend(client)
    try:
        for _ in range(shared_network.STARTS_WITHOUT_HOLDER):
            async with open_shared(backend, run_id) as sandbox:
                assert network_of(client, sandbox) == "none"
                assert holders(client, run_id) == []
        async with open_shared(backend, run_id) as sandbox:
            assert network_of(client, sandbox) != "none"
    finally:
        backend.shared_networks.close()


async def test_a_run_goes_on_after_its_holder_was_killed(
    client: APIClient, sharing: DockerBackend, run_id: str
) -> None:
    async with open_shared(sharing, run_id) as before:
        (holder,) = holders(client, run_id)
        client.kill(holder)
        assert await works(before)
        async with open_shared(sharing, run_id) as during:
            assert await works(during)
        async with open_shared(sharing, run_id) as after:
            assert await works(after)
            (second,) = holders(client, run_id)
            assert second != holder
            assert network_of(client, after) == f"container:{second}"
        assert await works(before)


async def test_the_end_of_a_run_removes_its_holder(
    client: APIClient, sharing: DockerBackend, run_id: str
) -> None:
    async with open_shared(sharing, run_id):
        pass
    assert len(holders(client, run_id)) == 1
    reaper.remove_run(sharing, run_id)
    assert holders(client, run_id) == []
    async with open_shared(sharing, run_id) as sandbox:
        assert await works(sandbox)


async def test_a_holder_that_is_too_old_is_replaced(
    client: APIClient, sharing: DockerBackend, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_network, "HOLDER_SECONDS", 0.0)
    async with open_shared(sharing, run_id) as one, open_shared(sharing, run_id) as other:
        assert network_of(client, one) != network_of(client, other)
        assert await works(one)


@pytest.mark.parametrize("end", ["stay", "leave"])
async def test_no_holder_outlives_its_owner(client: APIClient, run_id: str, end: str) -> None:
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OWNER, run_id, end, stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout is not None
    assert await owner.stdout.readline()
    if end == "stay":
        assert len(holders(client, run_id)) == 1
        owner.kill()
    await owner.wait()
    assert await become_empty(client, run_id)


async def test_a_kernel_without_landlock_gets_no_shared_namespace(
    client: APIClient, sharing: DockerBackend, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_network, "NEEDED_VERSION", 1000)
    async with open_shared(sharing, run_id) as sandbox:
        assert network_of(client, sandbox) == "none"
        assert await works(sandbox)
    assert holders(client, run_id) == []


async def test_commands_are_refused_in_a_shared_namespace(sharing: DockerBackend, run_id: str) -> None:
    async with open_shared(sharing, run_id) as sandbox:
        with pytest.raises(UsageError, match="network='shared'"):
            await sandbox.exec(["true"])
        with pytest.raises(UsageError, match="network='shared'"):
            sandbox.terminal(rows=24, columns=80, timeout=5)


async def test_only_graders_with_the_strict_profile_share(sharing: DockerBackend, run_id: str) -> None:
    with pytest.raises(UsageError, match="seccomp='strict'"):
        async with Sandbox.open(network="shared", run_id=run_id, backend=sharing):
            pass
    with pytest.raises(UsageError, match="no terminals"):
        async with Sandbox.open(
            network="shared", seccomp="strict", terminals=True, run_id=run_id, backend=sharing
        ):
            pass


@pytest.mark.parametrize("name", SERVERS)
async def test_programs_with_servers_pass_in_their_own_network(
    client: APIClient, sharing: DockerBackend, run_id: str, name: str
) -> None:
    tests = ProgramTests(statements=("assert f() == [1, 2]",), exports={"f": "f"})
    async with SandboxPool(sharing, run_id=run_id) as pool:
        context = GradingContext(pool, 60.0, fresh=SPEC.fresh_sandbox(), key="task")
        verdict = await grade_submission(tests, Submission(SERVERS[name], ""), context)
        assert verdict.status is Status.PASSED, verdict
        assert holders(client, run_id) == []
        plain = Submission("def f():\n    return [1, 2]\n", "")
        assert (await grade_submission(tests, plain, context)).status is Status.PASSED
        assert len(holders(client, run_id)) == 1
