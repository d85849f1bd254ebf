"""A grading that stays open on an event loop of its own, because trainers call it from many places."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from harness.core.errors import UsageError
from harness.core.logger import get_logger
from harness.core.portal import LoopHolder
from harness.core.types import Verdict
from harness.rl.samples import Grading, RewardSample, RewardUnavailableError

_LOGGER = get_logger(__name__)

Opening = Callable[[], AbstractAsyncContextManager[Grading]]


class HeldGrading:
    """Opens a grading with the first samples, and keeps it open until `close`.

    It works on an event loop in a thread, so that any thread and any other loop can use it. A forked process
    opens one of its own. In a process that ends without `close`, the containers stop, and the next run or
    `harness gc` removes them.
    """

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._starting = threading.Lock()
        self._thread: _GradingThread | None = None
        self._is_closed = False
        self._process = os.getpid()
        self._releasing: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[None]]
        self._releasing = WeakKeyDictionary()

    def grade(self, samples: Sequence[RewardSample]) -> list[Verdict]:
        """Return one verdict for each sample. It blocks, so call `grade_async` on an event loop.

        Raises what the opening and `Grading.grade` raise, and UsageError after `close`.
        """
        future = self._begin(samples)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def grade_async(
        self, samples: Sequence[RewardSample], *, release_with_loop: bool = False
    ) -> list[Verdict]:
        """Return one verdict for each sample, on any event loop. A cancellation ends the programs.

        With `release_with_loop`, the sandboxes are removed when `asyncio.run` ends the running loop, for
        callers that have no other hook for their end.
        """
        if release_with_loop:
            loop = asyncio.get_running_loop()
            if loop not in self._releasing:
                self._releasing[loop] = loop.create_task(self._release_at_the_end())
        return await asyncio.wrap_future(self._begin(samples))

    async def _release_at_the_end(self) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            # The loop cancels its tasks at its end, and waits for them.
            await asyncio.to_thread(self.release)

    def release(self) -> None:
        """End what is under way, and remove all sandboxes. Further samples open others."""
        if os.getpid() != self._process:
            return
        with self._starting:
            if self._thread is not None:
                self._thread.end()
                self._thread = None

    def close(self) -> None:
        """End what is under way, and remove all sandboxes. Further samples are refused."""
        self._is_closed = True
        self.release()

    def _begin(self, samples: Sequence[RewardSample]) -> Future[list[Verdict]]:
        if os.getpid() != self._process:
            # The thread of the loop is in the other process, and its lock may be held there for ever.
            self._starting = threading.Lock()
            self._thread, self._process = None, os.getpid()
        with self._starting:
            if self._is_closed:
                raise UsageError("the rewards are closed", hint="grade before close()")
            if self._thread is not None and self._thread.has_failed:
                self._thread.end()
                self._thread = None
            if self._thread is None:
                self._thread = _GradingThread(self._opening)
            return self._thread.submit(samples)


class _GradingThread:
    """A thread whose event loop keeps one grading open until `end`."""

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._is_ended = False
        self._calls: set[asyncio.Task[Any]] = set()
        self._holder = LoopHolder(self._open, name="harness-rewards")
        self._holder.start()

    @property
    def has_failed(self) -> bool:
        """Whether the opening has failed. The next samples open another grading."""
        opened = self._holder.opened
        return opened.done() and opened.exception() is not None

    def submit(self, samples: Sequence[RewardSample]) -> Future[list[Verdict]]:
        """Begin to grade. Never call it after `end`, because the loop is closed then."""
        return asyncio.run_coroutine_threadsafe(self._grade(samples), self._holder.loop)

    def end(self) -> None:
        """Close the grading, and return once its sandboxes are gone."""
        self._is_ended = True
        self._holder.end()
        error = self._holder.ended.exception()
        if error is not None and not self.has_failed:
            _LOGGER.error("the sandboxes of the rewards could not be closed", exc_info=error)

    @contextlib.asynccontextmanager
    async def _open(self) -> AsyncIterator[Grading]:
        try:
            async with self._opening() as grading:
                try:
                    yield grading
                finally:
                    await self._end_calls()
        except asyncio.CancelledError:
            # The end came before the grading was open, and calls wait for it.
            await self._end_calls()
            raise

    async def _grade(self, samples: Sequence[RewardSample]) -> list[Verdict]:
        call: asyncio.Task[Any] | None = asyncio.current_task()
        if call is not None:
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
        try:
            # A caller that is cancelled must not cancel the opening, because others may wait for it.
            grading = await asyncio.shield(asyncio.wrap_future(self._holder.opened))
            return await grading.grade(samples)
        except asyncio.CancelledError:
            if self._is_ended:
                raise RewardUnavailableError("the rewards were closed meanwhile") from None
            raise

    async def _end_calls(self) -> None:
        calls = list(self._calls)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


T = TypeVar("T")


async def gather_or_cancel(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return all results in order. The first exception cancels the rest, and is raised as it is.

    A task group would raise a group of exceptions, which callers of a reward function do not expect.
    """
    tasks = [asyncio.create_task(each) for each in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
