"""Objects on the event loop of a thread, and their blocking faces for scripts that have no event loop.

    with Sandbox.open_sync("python") as sandbox:
        print(sandbox.exec(["python3", "-c", "print(6 * 7)"], timeout=10).stdout)

Each call waits for its answer from the loop. Ctrl-C ends the waiting call. The end of the block ends the
object, however the block ends. A forked process cannot use the object and does not end it.

The calls are plain tasks of asyncio. A cancel scope of anyio would cancel the clean-up of a call again at
each of its steps.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_END = object()


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


class SyncFace:
    """The blocking face of an object on the loop of a thread. Threads may share it.

    It has the attributes and methods of the object. A coroutine method blocks until its result is there, an
    asynchronous context manager serves a `with` block, and an asynchronous iterator a `for` loop. Objects
    with such methods get a face as well.
    """

    def __init__(self, target: Any, calls: LoopCalls) -> None:
        self._target = target
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if not callable(value):
            return value

        def call(*arguments: Any, **options: Any) -> Any:
            return self._show(self._calls.call(_await_result(value, arguments, options)))

        return functools.update_wrapper(call, value)

    def __iter__(self) -> Iterator[Any]:
        iterator = aiter(self._target)
        while (item := self._calls.call(_take(iterator))) is not _END:
            yield item

    def __dir__(self) -> list[str]:
        return dir(self._target)

    def close(self) -> None:
        """Refuse calls from now on. Earlier ones reach the loop ahead of the object's end."""
        self._calls.close()

    def _show(self, value: Any) -> Any:
        if isinstance(value, AbstractAsyncContextManager):
            return self._enter(value)
        if type(value) is list:
            return [self._show(each) for each in value]
        kind = type(value)
        methods = (inspect.getattr_static(kind, name, None) for name in dir(kind))
        return SyncFace(value, self._calls) if any(map(inspect.iscoroutinefunction, methods)) else value

    @contextlib.contextmanager
    def _enter(self, opening: AbstractAsyncContextManager[Any]) -> Iterator[Any]:
        held = _Held(opening)
        opened = self._show(self._calls.call(held.enter()))
        try:
            yield opened
        except BaseException as error:
            with contextlib.suppress(Exception):  # the error of the block is more useful
                self._calls.call(held.leave(error))
            raise
        self._calls.call(held.leave(None))


class _Held:
    """An asynchronous context manager that a task of its own enters and leaves, as some of them require."""

    def __init__(self, opening: AbstractAsyncContextManager[Any]) -> None:
        self._opening = opening

    async def enter(self) -> Any:
        loop = asyncio.get_running_loop()
        self._opened, self._left = loop.create_future(), loop.create_future()
        self._task = asyncio.create_task(self._hold())
        try:
            await asyncio.wait((self._opened, self._task), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            raise
        return self._opened.result() if self._opened.done() else await self._task

    async def leave(self, error: BaseException | None) -> None:
        self._left.set_result(error)
        await self._task

    async def _hold(self) -> None:
        self._opened.set_result(await self._opening.__aenter__())
        try:
            error = await self._left
        except asyncio.CancelledError as cancelled:
            error = cancelled
        await self._opening.__aexit__(None if error is None else type(error), error, None)


async def _await_result(function: Callable[..., Any], arguments: Any, options: Any) -> Any:
    result = function(*arguments, **options)
    return await result if inspect.isawaitable(result) else result


async def _take(iterator: AsyncIterator[Any]) -> Any:
    return await anext(iterator, _END)


@contextlib.contextmanager
def hold_face(
    opening: Callable[[], AbstractAsyncContextManager[Any]], build_closed_error: Callable[[], Exception]
) -> Iterator[SyncFace]:
    """Open an object on the event loop of a new thread, and yield its blocking face.

    It takes the arguments of `hold_on_loop`, and raises its errors.
    """
    with hold_on_loop(opening, build_closed_error) as (opened, calls):
        yield SyncFace(opened, calls)
