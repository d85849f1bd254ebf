"""The synchronous face of a sandbox, for scripts that have no event loop.

    with Sandbox.open_sync("python") as sandbox:
        print(sandbox.exec(["python3", "-c", "print(6 * 7)"], timeout=10).stdout)

The sandbox lives on an event loop in a thread. Each call waits for its answer from there. Ctrl-C ends the
waiting call. The end of the block removes the container, however the block ends. A forked process cannot use
the sandbox and does not end it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol, TypedDict, TypeVar

from harness.sandbox.backends.base import Backend
from harness.sandbox.failures import SandboxClosed
from harness.sandbox.guest.frames import MAX_BODY_BYTES
from harness.sandbox.limits import Limits
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

    def __init__(self, sandbox: AsyncSandbox, loop: asyncio.AbstractEventLoop) -> None:
        self._sandbox = sandbox
        self._loop = loop
        self._scheduling = threading.Lock()
        self._closed = False
        self._process = os.getpid()

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
        if os.getpid() != self._process:
            return
        with self._scheduling:
            self._closed = True

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        if os.getpid() != self._process:
            # The thread of its loop is in the process that opened it; a lock may be held for ever here.
            work.close()
            raise SandboxClosed()
        with self._scheduling:
            if self._closed:
                work.close()
                raise SandboxClosed()
            answer = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return answer.result()
        except CancelledError as error:
            # The loop has ended, and has cancelled the calls that were still running.
            raise SandboxClosed() from error
        except BaseException:
            answer.cancel()
            raise


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


class _Holder:
    """A thread whose event loop keeps a sandbox open until `end` is called."""

    def __init__(self, opening: Callable[[], AbstractAsyncContextManager[AsyncSandbox]]) -> None:
        self._opening = opening
        self._started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = Future()
        self._left = asyncio.Event()
        self.opened: Future[SyncSandbox] = Future()
        # Holds a result, or the error of the sandbox's end, once the container is gone.
        self.ended: Future[None] = Future()
        self._process = os.getpid()
        # A daemon thread ends with a process that never leaves the block, and the guest ends with the thread.
        self._thread = threading.Thread(target=self._run, name="harness-sandbox", daemon=True)

    def start(self) -> None:
        """Begin to open the sandbox and return at once."""
        self._thread.start()

    def end(self) -> None:
        """Destroy the sandbox, or stop opening it; return once the container is gone.

        An interruption during the wait is raised afterwards. In a forked process there is nothing to end.
        """
        if os.getpid() != self._process:
            return
        interruption: BaseException | None = None
        while self._thread.ident is not None and not self.ended.done():
            try:
                self._leave()
                self.ended.exception()
            except BaseException as error:
                interruption = error
        if interruption is not None:
            raise interruption

    def _leave(self) -> None:
        loop, task = self._started.result()
        with contextlib.suppress(RuntimeError):  # the loop has ended by itself
            if self.opened.done():
                loop.call_soon_threadsafe(self._left.set)
            elif task is not None:
                loop.call_soon_threadsafe(task.cancel)

    def _run(self) -> None:
        try:
            asyncio.run(self._hold())
        except BaseException as error:
            for outcome in (self._started, self.ended, self.opened):
                if not outcome.done():
                    outcome.set_exception(error)
        else:
            self.ended.set_result(None)

    async def _hold(self) -> None:
        loop = asyncio.get_running_loop()
        self._started.set_result((loop, asyncio.current_task()))
        async with self._opening() as sandbox:
            self.opened.set_result(SyncSandbox(sandbox, loop))
            await self._left.wait()


@contextlib.contextmanager
def hold_sandbox(opening: Callable[[], AbstractAsyncContextManager[AsyncSandbox]]) -> Iterator[SyncSandbox]:
    """Open a sandbox on a separate event loop and yield its synchronous face."""
    holder = _Holder(opening)
    try:
        holder.start()
        sandbox = holder.opened.result()
        try:
            yield sandbox
        finally:
            sandbox.close()
    except BaseException:
        # The error of the sandbox's end is dropped here, because it would hide the more useful exception.
        holder.end()
        raise
    holder.end()
    if holder.ended.done():
        holder.ended.result()
