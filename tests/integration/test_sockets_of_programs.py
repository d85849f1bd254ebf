"""Programs that may want sockets get them, and sandboxes for all others have none and run no commands."""

from __future__ import annotations

import pytest

from harness import Sandbox
from harness.core.errors import UsageError
from harness.core.types import ProgramTests, Status, Submission
from harness.environments.grading import GradingContext, grade_submission
from harness.environments.python import SPEC
from harness.environments.python.client import run_tests
from harness.sandbox.backends.base import Backend
from harness.sandbox.pool import SandboxPool

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

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


async def test_programs_with_servers_pass(backend: Backend) -> None:
    tests = ProgramTests(statements=("assert f() == [1, 2]",), exports={"f": "f"})
    programs = {**SERVERS, "none": "def f():\n    return [1, 2]\n"}
    async with SandboxPool(backend) as pool:
        context = GradingContext(pool, 60.0, fresh=SPEC.fresh_sandbox(), key="task")
        verdicts = {
            name: await grade_submission(tests, Submission(program, ""), context)
            for name, program in programs.items()
        }
    assert {name: each for name, each in verdicts.items() if each.status is not Status.PASSED} == {}


async def test_a_sandbox_without_sockets_has_none_and_runs_no_commands(backend: Backend) -> None:
    program = "import socket\ntry:\n    socket.socket(socket.AF_UNIX)\nexcept OSError as e:\n    n = e.errno"
    async with Sandbox.open(seccomp="strict", network="shared", backend=backend) as sandbox:
        report = await run_tests(sandbox, program=program, statements=["assert n == 1"], exports={"n": "n"})
        assert report.results == (True,)
        with pytest.raises(UsageError, match="network='shared'"):
            await sandbox.exec(["true"])
        with pytest.raises(UsageError, match="network='shared'"):
            sandbox.terminal(rows=24, columns=80, timeout=5)


async def test_only_graders_with_the_strict_profile_have_no_sockets(backend: Backend) -> None:
    for options, why in (
        ({}, "seccomp='strict'"),
        ({"seccomp": "strict", "terminals": True}, "no terminals"),
    ):
        with pytest.raises(UsageError, match=why):
            async with Sandbox.open(network="shared", backend=backend, **options):  # type: ignore[arg-type]
                pass
