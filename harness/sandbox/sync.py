"""The synchronous face of a sandbox, for scripts that have no event loop.

    with Sandbox.open_sync("python") as sandbox:
        print(sandbox.exec(["python3", "-c", "print(6 * 7)"], timeout=10).stdout)

The sandbox lives on an event loop in a thread. Each call waits for its answer from there. Ctrl-C ends the
waiting call. The end of the block removes the container, however the block ends. A forked process cannot use
the sandbox and does not end it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol, TypedDict, TypeVar

from harness.sandbox.backends.base import Backend
from harness.sandbox.failures import SandboxClosed
from harness.sandbox.guest.frames import MAX_BODY_BYTES
from harness.sandbox.limits import Limits
from harness.sandbox.loop_thread import LoopCalls, hold_on_loop
from harness.sandbox.results import ExecResult
from harness.sandbox.sandbox import KEEP_BYTES
from harness.sandbox.streaming import OutputChunk

T = TypeVar("T")


class OpeningOptions(TypedDict, total=False):
    """The arguments of `Sandbox.open`."""

    limits: Limits | None
    runtime: str
    seccomp: Literal["default", "strict"]
    network: Literal["own", "shared"]
    writable_root: bool
    terminals: bool
    relay: bool
    deadline_seconds: float
    run_id: str | None
    backend: Backend | None


class CommandOutput(Protocol):
    """The output of a command under way, as `Sandbox.stream` yields it."""

    @property
    def result(self) -> ExecResult: ...

    async def read(self) -> OutputChunk | None: ...


class AsyncSandbox(Protocol):
    """A sandbox on this machine or at a service. Its methods are those of `Sandbox`."""

    @property
    def container_id(self) -> str: ...

    async def exec(
        self,
        argv: Sequence[str],
        *,
        timeout: float | None = None,
        stdin: bytes | str = b"",
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        keep_bytes: int = KEEP_BYTES,
    ) -> ExecResult: ...

    def stream(
        self,
        argv: Sequence[str],
        *,
        timeout: float | None = None,
        stdin: bytes | str = b"",
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        keep_bytes: int = KEEP_BYTES,
    ) -> AbstractAsyncContextManager[CommandOutput]: ...

    async def write_file(self, path: str, data: bytes, *, mode: int = 0o644) -> None: ...

    async def read_file(self, path: str, *, limit: int = MAX_BODY_BYTES) -> bytes: ...


class SyncSandbox:
    """One hardened container, driven by blocking calls. Make it with `Sandbox.open_sync`.

    Threads may share it. Each method does the same as the method of `Sandbox` with this name.
    """

    def __init__(self, sandbox: AsyncSandbox, calls: LoopCalls) -> None:
        self._sandbox = sandbox
        self._call = calls.call
        self._calls = calls

    @property
    def container_id(self) -> str:
        """The id of the container, as its backend knows it."""
        return self._sandbox.container_id

    def exec(
        self,
        argv: Sequence[str],
        *,
        timeout: float | None = None,
        stdin: bytes | str = b"",
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        keep_bytes: int = KEEP_BYTES,
    ) -> ExecResult:
        """Run a command as the agent's user; return its result once all of its processes are gone."""
        return self._call(
            self._sandbox.exec(argv, timeout=timeout, stdin=stdin, env=env, cwd=cwd, keep_bytes=keep_bytes)
        )

    @contextlib.contextmanager
    def stream(
        self,
        argv: Sequence[str],
        *,
        timeout: float | None = None,
        stdin: bytes | str = b"",
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        keep_bytes: int = KEEP_BYTES,
    ) -> Iterator[SyncOutputStream]:
        """Run a command in the block, and yield its output as it comes. The end of the block ends it."""
        opening = self._sandbox.stream(
            argv, timeout=timeout, stdin=stdin, env=env, cwd=cwd, keep_bytes=keep_bytes
        )
        stream = self._call(_enter(opening))
        try:
            yield SyncOutputStream(stream, self._call)
        except BaseException as error:
            with contextlib.suppress(Exception):  # the error of the block is more useful
                self._call(_leave(opening, error))
            raise
        self._call(_leave(opening, None))

    def write_file(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file as the agent's user. Relative paths start at its folder. Raises UsageError."""
        self._call(self._sandbox.write_file(path, data, mode=mode))

    def read_file(self, path: str, *, limit: int = MAX_BODY_BYTES) -> bytes:
        """Return the bytes of a regular file of at most `limit` bytes. Raises UsageError."""
        return self._call(self._sandbox.read_file(path, limit=limit))

    def close(self) -> None:
        """Refuse calls from now on. Earlier ones reach the loop ahead of the sandbox's end."""
        self._calls.close()


class SyncOutputStream:
    """The output of a command under way. Iterate over it, and then read `result`."""

    def __init__(self, stream: CommandOutput, call: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._stream = stream
        self._call = call

    @property
    def result(self) -> ExecResult:
        """The result of the command, once the stream has ended. Raises UsageError before that."""
        return self._stream.result

    def read(self) -> OutputChunk | None:
        """Return the next chunk, or None after the last one. Raises SandboxError if the sandbox failed."""
        chunk: OutputChunk | None = self._call(self._stream.read())
        return chunk

    def __iter__(self) -> Iterator[OutputChunk]:
        while (chunk := self.read()) is not None:
            yield chunk


async def _enter(opening: AbstractAsyncContextManager[T]) -> T:
    return await opening.__aenter__()


async def _leave(opening: AbstractAsyncContextManager[Any], error: BaseException | None) -> None:
    await opening.__aexit__(None if error is None else type(error), error, None)


@contextlib.contextmanager
def hold_sandbox(opening: Callable[[], AbstractAsyncContextManager[AsyncSandbox]]) -> Iterator[SyncSandbox]:
    """Open a sandbox on a separate event loop and yield its synchronous face."""
    with hold_on_loop(opening, SandboxClosed) as (sandbox, calls):
        yield SyncSandbox(sandbox, calls)
