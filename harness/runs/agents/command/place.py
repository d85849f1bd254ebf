"""The places where the program of an agent runs. This one is a sandbox, and `host` has the other one."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from harness.core.errors import UsageError
from harness.environments.workspace import Workspace, find_agent_folder
from harness.runs.agents.command.program import SUBMIT_COMMAND
from harness.sandbox.results import ExecResult, OnOutput, Stream

if TYPE_CHECKING:
    from starlette.types import ASGIApp

KEEP_BYTES = 1 << 20
FIND_SECONDS = 30.0
_FIND = ("/bin/sh", "-c", 'command -v -- "$1" > /dev/null', "sh")
# The exit codes of `command -v` in dash and bash for a program that cannot be found.
_NOT_FOUND = (1, 127)


class KeptOutput:
    """The first and the last bytes of an output, at most `KEEP_BYTES`."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, data: bytes) -> None:
        """Add the next bytes."""
        self._total += len(data)
        room = KEEP_BYTES // 2 - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > KEEP_BYTES:
            del self._tail[: -KEEP_BYTES // 2]

    @property
    def stream(self) -> Stream:
        """The output so far."""
        return Stream(bytes(self._head), bytes(self._tail[-KEEP_BYTES // 2 :]), self._total)


class Place(Protocol):
    """A place where a program runs."""

    # Whether the program runs in the sandbox of the task's environment.
    is_in_task: bool
    # The folder for the files of the harness, and for files of the program that are not part of the task.
    scratch: str
    # The folders of programs.
    path: str
    # The command that submits the program's answer, as its prompt names it.
    submit_command: str
    # The reason why the processes of the last program did not end in order. None otherwise, and in a sandbox,
    # whose owner ends what is left.
    unclean_end: str | None

    async def has_program(self, program: str, env: Mapping[str, str]) -> bool:
        """Return whether a program can be found and executed. `env` has the PATH."""

    async def write_file(self, name: str, data: bytes, *, mode: int) -> None:
        """Write a file in the scratch folder."""

    async def read_file(self, path: str, *, limit: int) -> bytes | None:
        """Return the content of a file, None if there is no readable file of at most `limit` bytes."""

    def serve(self, app: ASGIApp) -> contextlib.AbstractAsyncContextManager[str]:
        """Return a context manager that yields the URL of `app` for the program.

        At the end of the block no process reaches it any more.
        """

    async def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        seconds: float,
        on_output: OnOutput | None = None,
    ) -> ExecResult:
        """Run a program and return its result. A cancelled call leaves no process outside of a sandbox.

        `on_output` gets all output as it comes, as `Sandbox.exec` passes it on.
        """


class SandboxPlace:
    """A workspace as the place of a program."""

    def __init__(self, workspace: Workspace, image: str | None) -> None:
        self._workspace = workspace
        self.unclean_end: str | None = None
        self.is_in_task = workspace.is_in_environment
        self.scratch = workspace.scratch
        # A login shell sets another PATH. Every attempt has the same prompt, because this folder is the same.
        self.submit_command = f"{self.scratch}/{SUBMIT_COMMAND}"
        own = "" if image is None else f"{find_agent_folder(image)}/bin:"
        self.path = own + workspace.search_path

    async def has_program(self, program: str, env: Mapping[str, str]) -> bool:
        # PIDs, memory or time may be used up, which does not show that the program is not there.
        found = await self._workspace.run([*_FIND, program], env={"PATH": env["PATH"]}, timeout=FIND_SECONDS)
        return found.limit is not None or found.exit_code not in _NOT_FOUND

    async def write_file(self, name: str, data: bytes, *, mode: int) -> None:
        await self._workspace.write_file(f"{self.scratch}/{name}", data, mode=mode)

    async def read_file(self, path: str, *, limit: int) -> bytes | None:
        try:
            return await self._workspace.read_file(path, limit=limit)
        except UsageError:
            return None

    @contextlib.asynccontextmanager
    async def serve(self, app: ASGIApp) -> AsyncIterator[str]:
        from harness.models.relay.serving import serve_app

        # The port is closed first, so that no connection comes to a server that has ended.
        async with serve_app(app) as server, self._workspace.relay(server.accept) as listener:
            yield f"http://127.0.0.1:{listener.port}"

    async def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        seconds: float,
        on_output: OnOutput | None = None,
    ) -> ExecResult:
        return await self._workspace.run(
            argv, env=env, timeout=seconds, keep_bytes=KEEP_BYTES, on_output=on_output
        )
