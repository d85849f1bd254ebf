"""The samples that trainers grade, and a grading that stays open on an event loop of its own.

Trainers call a grading from many threads and loops. A sample that got no verdict is an error, never a 0.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

from harness.core.errors import HarnessError, UsageError, unknown_name
from harness.core.logger import get_logger
from harness.core.portal import LoopHolder
from harness.core.types import TEXT_FIELDS, Verdict

_LOGGER = get_logger(__name__)
T = TypeVar("T")


class RewardUnavailableError(HarnessError):
    """A completion got no verdict, because the infrastructure failed or was too busy. It is not a 0."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class RewardSample:
    """A completion, and the task or the hidden tests that judge it."""

    text: str
    # The kind of the text, as in samples files: `completion`, `solution`, `answer` or `reply`.
    field: str
    # Hidden tests in JSON, as `read_hidden_tests` takes them. None for a task of a benchmark.
    tests: Mapping[str, Any] | None = None
    benchmark: str | None = None
    task_id: str | None = None
    # The number of the row, for messages.
    place: int = 0

    def encode(self) -> dict[str, Any]:
        """Return the sample as `/v1/grade` takes it."""
        judge = (
            {"benchmark": self.benchmark, "task_id": self.task_id}
            if self.tests is None
            else {"tests": dict(self.tests)}
        )
        return {**judge, self.field: self.text}


class Grading(Protocol):
    """Grades samples, here or at a service."""

    async def grade(self, samples: Sequence[RewardSample]) -> list[Verdict]:
        """Return one verdict for each sample, in their order.

        Raises UsageError for a sample that cannot be graded, and RewardUnavailableError if there is no
        verdict on any sample. A single fault is a verdict without a score.
        """
        ...


def make_sample(
    text: str, field: str, *, tests: Any = None, benchmark: Any = None, task_id: Any = None, place: int = 0
) -> RewardSample:
    """Return the sample of one row of a dataset.

    `tests` may be a text in JSON, because all rows of a dataset have the same keys, and tests do not.
    For the same reason, keys with the value None are left out. Raises UsageError.
    """
    if field not in TEXT_FIELDS:
        raise unknown_name("field", field, TEXT_FIELDS)
    if tests is None:
        if benchmark is None or task_id is None:
            raise UsageError(
                f"row {place} has no judge",
                hint="the dataset needs the column 'tests', or the columns 'benchmark' and 'task_id'",
            )
        if isinstance(task_id, float) and task_id.is_integer():
            # A column of whole numbers has floats once one of its rows is empty.
            task_id = int(task_id)
        return RewardSample(text, field, benchmark=str(benchmark), task_id=str(task_id), place=place)
    try:
        values = json.loads(tests) if isinstance(tests, str) else tests
    except (ValueError, RecursionError) as error:
        raise UsageError(f"row {place}: 'tests' is not JSON: {error}") from error
    if not isinstance(values, Mapping):
        raise UsageError(f"row {place}: 'tests' must be an object, not {type(values).__name__}")
    kept = {name: value for name, value in values.items() if value is not None}
    return RewardSample(text, field, tests=kept, place=place)


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
