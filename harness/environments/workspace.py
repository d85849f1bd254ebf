"""A workspace: the sandbox where a program of an agent runs."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

from harness.core.errors import SandboxError
from harness.sandbox.failures import SandboxClosed, SandboxLimitReached
from harness.sandbox.layout import AGENTS_FOLDER, ATTEMPT_FOLDER, TEMPORARY_FOLDER
from harness.sandbox.limits import Limits
from harness.sandbox.relay import Accept, RelayListener
from harness.sandbox.results import ExecResult, OnOutput
from harness.sandbox.sandbox import KEEP_BYTES, Sandbox

# The environment of tasks that have no sandbox where an agent could run programs.
WORKSPACE_IMAGE = "python"
WORKSPACE_LIMITS = Limits(
    memory_mb=1024,
    processes=256,
    disk_mb=512,
    file_mb=256,
    open_files=1024,
    cpu_seconds=600,
    wall_seconds=600,
)
SCRATCH = f"{TEMPORARY_FOLDER}/harness"


class WorkspaceLost(Exception):
    """The agent's program has cost its workspace. The attempt is not retried, as `failure` shows why."""

    def __init__(self, failure: SandboxError) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Workspace:
    """The sandbox where a program of an agent runs.

    It is the sandbox of the environment if agents run programs there, else a sandbox for one attempt alone.
    Every method raises SandboxClosed once the agent's time is over, WorkspaceLost if a program has cost the
    sandbox, and SandboxError if the sandbox failed for another reason.

    `note_acting` is called before a program runs, because from then on the agent answers for a loss.
    """

    def __init__(
        self, sandbox: Sandbox, note_acting: Callable[[], None], *, is_in_environment: bool = False
    ) -> None:
        self._sandbox = sandbox
        self._note_acting = note_acting
        self._is_over = False
        self.is_in_environment = is_in_environment
        # The PATH of programs.
        self.search_path = sandbox.environment["PATH"]
        # The folder for files of the harness, which are not part of the state that is graded.
        self.scratch = ATTEMPT_FOLDER if sandbox.is_root_agent else SCRATCH

    async def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        timeout: float | None = None,
        keep_bytes: int = KEEP_BYTES,
        on_output: OnOutput | None = None,
    ) -> ExecResult:
        """Run a program as the agent's user and return its result, as `Sandbox.exec` does."""
        with self._blame_programs():
            self._note_acting()
            return await self._sandbox.exec(
                argv, env=env, cwd=cwd, timeout=timeout, keep_bytes=keep_bytes, on_output=on_output
            )

    async def write_file(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file as the agent's user, as `Sandbox.write_file` does."""
        with self._blame_programs():
            await self._sandbox.write_file(path, data, mode=mode)

    async def read_file(self, path: str, *, limit: int) -> bytes:
        """Return the content of a file, as `Sandbox.read_file` does. Raises UsageError."""
        with self._blame_programs():
            return await self._sandbox.read_file(path, limit=limit)

    @contextlib.asynccontextmanager
    async def relay(self, accept: Accept) -> AsyncIterator[RelayListener]:
        """Open a port for programs for the duration of the block, as `Sandbox.relay` does."""
        async with contextlib.AsyncExitStack() as stack:
            with self._blame_programs():
                listener = await stack.enter_async_context(self._sandbox.relay(accept))
            # A failure of the block may come from another sandbox.
            yield listener
            with self._blame_programs():
                await stack.aclose()

    def close(self) -> None:
        """Refuse all further calls."""
        self._is_over = True

    @contextlib.contextmanager
    def _blame_programs(self) -> Iterator[None]:
        """Raise WorkspaceLost for a failure of the sandbox that the agent answers for."""
        if self._is_over:
            raise SandboxClosed()
        try:
            yield
        except (SandboxLimitReached, SandboxClosed):
            raise
        except SandboxError as error:
            if self._sandbox.agent_acted and not error.outside and error.acted_in is not False:
                raise WorkspaceLost(error) from error
            raise


OpenWorkspace = Callable[[], contextlib.AbstractAsyncContextManager[Workspace]]
"""Yields the workspace of an attempt, or of each of its steps. The end of the block closes it."""


@contextlib.asynccontextmanager
async def hold_workspace(workspace: Workspace) -> AsyncIterator[Workspace]:
    """Yield a workspace, and close it at the end of the block."""
    try:
        yield workspace
    finally:
        workspace.close()


def find_agent_folder(name: str) -> str:
    """Return the folder of the sandbox where the prepared files of an agent are."""
    return f"{AGENTS_FOLDER}/{name}"


def name_image(environment_image: str, agent: str | None) -> str:
    """Return the name of an environment's image with the prepared files of an agent, or without an agent."""
    return environment_image if agent is None else f"{environment_image}+{agent}"
