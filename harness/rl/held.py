"""A grading that stays open on an event loop of its own, because trainers call it from many places."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Any
from weakref import WeakKeyDictionary

from harness.errors import UsageError
from harness.logger import get_logger
from harness.rl.samples import Grading, RewardSample, RewardUnavailableError
from harness.types import Verdict

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
        self._holder: _Holder | None = None
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
            if self._holder is not None:
                self._holder.end()
                self._holder = None

    def close(self) -> None:
        """End what is under way, and remove all sandboxes. Further samples are refused."""
        self._is_closed = True
        self.release()

    def _begin(self, samples: Sequence[RewardSample]) -> Future[list[Verdict]]:
        if os.getpid() != self._process:
            # The thread of the loop is in the other process, and its lock may be held there for ever.
            self._starting = threading.Lock()
            self._holder, self._process = None, os.getpid()
        with self._starting:
            if self._is_closed:
                raise UsageError("the rewards are closed", hint="grade before close()")
            if self._holder is not None and self._holder.has_failed:
                self._holder.end()
                self._holder = None
            if self._holder is None:
                self._holder = _Holder(self._opening)
            return self._holder.submit(samples)


class _Holder:
    """A thread whose event loop keeps one grading open until `end`."""

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._loop = asyncio.new_event_loop()
        self._opened: asyncio.Future[Grading] = self._loop.create_future()
        self._left = asyncio.Event()
        self._calls: set[asyncio.Task[Any]] = set()
        # Whether the opening has failed. The next samples open another grading.
        self.has_failed = False
        self._thread = threading.Thread(target=self._run, name="harness-rewards", daemon=True)
        self._thread.start()

    def submit(self, samples: Sequence[RewardSample]) -> Future[list[Verdict]]:
        """Begin to grade. Never call it after `end`, because the loop is closed then."""
        return asyncio.run_coroutine_threadsafe(self._grade(samples), self._loop)

    def end(self) -> None:
        """Close the grading, and return once its sandboxes are gone."""
        self._loop.call_soon_threadsafe(self._left.set)
        self._thread.join()

    async def _grade(self, samples: Sequence[RewardSample]) -> list[Verdict]:
        call: asyncio.Task[Any] | None = asyncio.current_task()
        if call is not None:
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
        try:
            # A caller that is cancelled must not cancel the opening, for which others may wait.
            grading = await asyncio.shield(self._opened)
            return await grading.grade(samples)
        except asyncio.CancelledError:
            if self._left.is_set():
                raise RewardUnavailableError("the rewards were closed meanwhile") from None
            raise

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._hold())

    async def _hold(self) -> None:
        try:
            async with self._opening() as grading:
                self._opened.set_result(grading)
                await self._left.wait()
                await self._end_calls()
        except Exception as error:
            if self._opened.done():
                _LOGGER.exception("the sandboxes of the rewards could not be closed")
                return
            self.has_failed = True
            self._opened.set_exception(error)
            await self._left.wait()
            await self._end_calls()

    async def _end_calls(self) -> None:
        calls = list(self._calls)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
