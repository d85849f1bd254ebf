"""The synchronous face of a sandbox, for scripts that have no event loop.

    with Sandbox.open_sync("python") as sandbox:
        print(sandbox.exec(["python3", "-c", "print(6 * 7)"], timeout=10).stdout)

The sandbox lives on an event loop in a thread. Each call waits for its answer from there. Ctrl-C ends the
waiting call. The end of the block removes the container, however the block ends. A forked process cannot use
the sandbox and does not end it.

The thread is ours because a portal of `anyio` (4.16) repeats a cancellation until the task ends, so that it
cancels the clean-up as well, and because a call of a forked process to it never returns.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, Literal, Protocol, TypedDict, TypeVar

from harness.sandbox.backends.base import Backend
from harness.sandbox.failures import SandboxClosed
from harness.sandbox.guest.frames import MAX_BODY_BYTES
from harness.sandbox.limits import Limits
from harness.sandbox.results import ExecResult
from harness.sandbox.sandbox import KEEP_BYTES
from harness.sandbox.streaming import OutputChunk

T = TypeVar("T")


class LoopCalls:
    """Calls of blocking code to an object on an event loop. Threads may share it.

    Args:
        loop: the loop of the object.
        build_closed_error: returns the error of a call after the object's end.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, build_closed_error: Callable[[], Exception]) -> None:
        self._loop = loop
        self._build_closed_error = build_closed_error
        self._scheduling = threading.Lock()
        self._closed = False
        self._process = os.getpid()

    def close(self) -> None:
        """Refuse calls from now on. Earlier ones reach the loop ahead of the object's end."""
        if os.getpid() != self._process:
            return
        with self._scheduling:
            self._closed = True

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the loop, and return its result. An interruption of the wait cancels it."""
        if os.getpid() != self._process:
            # The thread of its loop is in the process that opened it; a lock may be held for ever here.
            work.close()
            raise self._build_closed_error()
        with self._scheduling:
            if self._closed:
                work.close()
                raise self._build_closed_error()
            answer = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return answer.result()
        except CancelledError as error:
            # The loop has ended, and has cancelled the calls that were still running.
            raise self._build_closed_error() from error
        except BaseException:
            answer.cancel()
            raise


class LoopHolder(Generic[T]):
    """A thread whose event loop keeps an object open until `end` is called.

    Args:
        opening: returns the context manager of the object.
        name: the name of the thread.
    """

    def __init__(self, opening: Callable[[], AbstractAsyncContextManager[T]], *, name: str) -> None:
        self._opening = opening
        self.loop = asyncio.new_event_loop()
        self._left = asyncio.Event()
        self._task: asyncio.Task[Any] | None = None
        # Holds the object or the error of its opening. After an error the loop goes on until `end`, so that
        # calls that wait for the object can get it.
        self.opened: Future[T] = Future()
        # Holds a result, or the error of the object's end, once it is over.
        self.ended: Future[None] = Future()
        self._process = os.getpid()
        # A daemon thread ends with a process that never calls `end`, and the guest ends with the thread.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to open the object and return at once."""
        try:
            self._thread.start()
        except BaseException:
            if self._thread.ident is None:
                self.loop.close()
            raise

    def end(self) -> None:
        """End the object, or stop opening it; return once that is done.

        An interruption during the wait is raised afterwards. In a forked process there is nothing to end.
        """
        if os.getpid() != self._process:
            return
        interruption: BaseException | None = None
        while self._thread.ident is not None and not self.ended.done():
            try:
                with contextlib.suppress(RuntimeError):  # the loop has ended by itself
                    self.loop.call_soon_threadsafe(self._leave)
                self.ended.exception()
            except BaseException as error:
                interruption = error
        if interruption is not None:
            raise interruption

    def _leave(self) -> None:
        self._left.set()
        if self._task is not None and not self.opened.done():
            self._task.cancel()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
                runner.run(self._hold())
        except BaseException as error:
            for outcome in (self.ended, self.opened):
                if not outcome.done():
                    outcome.set_exception(error)
        else:
            self.ended.set_result(None)

    async def _hold(self) -> None:
        self._task = asyncio.current_task()
        if self._left.is_set():
            raise asyncio.CancelledError
        try:
            async with self._opening() as opened:
                self.opened.set_result(opened)
                await self._left.wait()
        except Exception as error:
            if not self.opened.done():
                self.opened.set_exception(error)
                await self._left.wait()
            raise


@contextlib.contextmanager
def hold_on_loop(
    opening: Callable[[], AbstractAsyncContextManager[T]], build_closed_error: Callable[[], Exception]
) -> Iterator[tuple[T, LoopCalls]]:
    """Open an object on the event loop of a new thread, and yield it with the calls to it.

    Args:
        opening: returns the context manager of the object. The end of the block ends it.
        build_closed_error: returns the error of a call after that.

    Raises the errors of the context manager.
    """
    holder = LoopHolder(opening, name="harness-sandbox")
    try:
        holder.start()
        opened = holder.opened.result()
        calls = LoopCalls(holder.loop, build_closed_error)
        try:
            yield opened, calls
        finally:
            calls.close()
    except BaseException:
        # The error of the object's end is dropped here, because it would hide the more useful exception.
        holder.end()
        raise
    holder.end()
    if holder.ended.done():
        holder.ended.result()


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
