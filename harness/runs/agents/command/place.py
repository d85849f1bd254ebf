"""The places where the program of an agent runs: a sandbox, and the host."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Literal, Protocol

from harness.core.errors import SandboxError, UsageError
from harness.core.inputs.files import open_input_below
from harness.core.invalid_values import quote_value
from harness.core.shield import complete
from harness.core.text import escape_terminal
from harness.environments.workspace import Workspace, find_agent_folder
from harness.runs.agents.agent import AgentError
from harness.runs.agents.command.program import SUBMIT_COMMAND
from harness.sandbox.host_programs.folders import ProgramFolder, open_folder
from harness.sandbox.host_programs.program import (
    KILLED_SUPERVISOR,
    CannotSuperviseError,
    HostProgram,
    open_program,
)
from harness.sandbox.results import ExecResult, OnOutput, Stream

if TYPE_CHECKING:
    from starlette.types import ASGIApp

KEEP_BYTES = 1 << 20
FIND_SECONDS = 30.0
_FIND = ("/bin/sh", "-c", 'command -v -- "$1" > /dev/null', "sh")
# The exit codes of `command -v` in dash and bash for a program that cannot be found.
_NOT_FOUND = (1, 127)
READ_BYTES = 1 << 16
# How long the last output may take to arrive.
OUTPUT_SECONDS = 2.0
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
# Only these variables of the harness reach every program on the host.
INHERITED = ("LANG", "LC_ALL", "TZ")


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


def find_host_path() -> str:
    """Return the PATH that finds programs on the host."""
    return os.environ.get("PATH", DEFAULT_PATH)


class ProgramMissingError(UsageError):
    """The program of an agent is not on this machine. Another machine may have it."""


def require_program(program: str, path: str) -> None:
    """Raise UsageError for a program that no attempt could start, so that a typo does not cost a whole run.

    It is ProgramMissingError if the program is merely not on this machine.

    A program whose name holds a placeholder is known only in an attempt.
    """
    if "{" in program:
        return
    if os.sep in program and not os.path.isabs(program):
        raise UsageError(
            f"--agent-cmd: {quote_value(program)} is relative, but each attempt starts in a new folder",
            hint=f"write the absolute path: {escape_terminal(os.path.abspath(program))}",
        )
    if shutil.which(program, path=path) is None:
        raise ProgramMissingError(
            f"--agent-cmd: the program {quote_value(program)} is not on this machine, or is not executable",
            hint="install it, or write the absolute path of an executable file",
        )


def require_variables(names: Sequence[str]) -> None:
    """Raise UsageError if one of the variables that a program on the host inherits is not set."""
    for name in names:
        if name not in os.environ:
            raise UsageError(
                f"`command`: pass_env names {name}, which is not set",
                hint=f"set it: export {name}=..., or leave it out of pass_env",
            )


class HostPlace:
    """A temporary folder on the host, where a program starts."""

    def __init__(self, folder: ProgramFolder, pass_env: Sequence[str]) -> None:
        self.is_in_task = False
        self.unclean_end: str | None = None
        self.scratch = str(folder.path / "harness")
        self.path = find_host_path()
        # The folder has another name in each attempt, and the prompt should be the same.
        self.submit_command = PurePath(SUBMIT_COMMAND).name
        self._folder = folder
        self._inherited = {name: os.environ[name] for name in (*INHERITED, *pass_env) if name in os.environ}

    async def has_program(self, program: str, env: Mapping[str, str]) -> bool:
        return await asyncio.to_thread(shutil.which, program, path=env["PATH"]) is not None

    async def write_file(self, name: str, data: bytes, *, mode: int) -> None:
        def write() -> None:
            path = Path(self.scratch, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            path.chmod(mode)

        await asyncio.to_thread(write)

    async def read_file(self, path: str, *, limit: int) -> bytes | None:
        return await asyncio.to_thread(self._read_file, path, limit)

    def _read_file(self, path: str, limit: int) -> bytes | None:
        # The program may have replaced any file or folder here by a link to one of the harness's own files.
        root = self._folder.path
        name = os.path.relpath(root / "home" / path, root)
        try:
            with open_input_below(self._folder.descriptor, name, max_bytes=limit) as content:
                return content.read()
        except OSError:
            return None

    @contextlib.asynccontextmanager
    async def serve(self, app: ASGIApp) -> AsyncIterator[str]:
        from harness.models.relay.serving import listen_on_loopback

        async with listen_on_loopback(app) as url:
            yield url

    async def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        seconds: float,
        on_output: OnOutput | None = None,
    ) -> ExecResult:
        """Run a program under a supervisor, which ends all of its processes.

        Raises AgentError with a sign of tampering if the supervisor was killed. Nothing on the harness's side
        does that as long as a program runs, and a program must not gain another try by it. Raises
        SandboxError if the program cannot be started.
        """
        home = self._folder.path / "home"
        variables = {"HOME": str(home), "TMPDIR": str(home), **self._inherited, **env}
        outputs = [KeptOutput(), KeptOutput()]
        program: HostProgram | None = None
        try:
            async with open_program(argv, env=variables, folder=self._folder.path, cwd=home) as program:
                reading = [
                    asyncio.create_task(_read(program.stdout, "stdout", outputs[0], on_output)),
                    asyncio.create_task(_read(program.stderr, "stderr", outputs[1], on_output)),
                ]
                try:
                    async with asyncio.timeout(seconds):
                        end = await program.wait()
                    # A process outside of the tree, such as a service's, may hold an output open.
                    await asyncio.wait(reading, timeout=OUTPUT_SECONDS)
                finally:
                    for task in reading:
                        task.cancel()
                    await asyncio.wait(reading)
        except CannotSuperviseError as error:
            raise SandboxError(str(error), outside=True) from error
        finally:
            if program is not None and program.ended is not None:
                self.unclean_end = program.ended.fault
        if end.exit_code is None:
            fault = end.fault or KILLED_SUPERVISOR
            raise AgentError(f"the program {fault}", tampering=KILLED_SUPERVISOR)
        return ExecResult(
            exit_code=end.exit_code,
            limit=None,
            stdout=outputs[0].stream,
            stderr=outputs[1].stream,
            cpu_seconds=end.cpu_seconds,
            duration_seconds=end.seconds,
            clean=not end.left,
        )


async def _read(
    reader: asyncio.StreamReader,
    name: Literal["stdout", "stderr"],
    kept: KeptOutput,
    on_output: OnOutput | None,
) -> None:
    """Read an output to its end."""
    while data := await reader.read(READ_BYTES):
        kept.add(data)
        if on_output is not None:
            on_output(name, data)


@contextlib.asynccontextmanager
async def open_host_place(pass_env: Sequence[str]) -> AsyncIterator[HostPlace]:
    """Yield a new folder of the host as the place of a program, and remove it."""
    folders = open_folder()
    folder = await asyncio.to_thread(folders.__enter__)
    try:
        (folder.path / "home").mkdir()
        yield HostPlace(folder, pass_env)
    finally:
        await complete(asyncio.to_thread(folders.__exit__, None, None, None))
