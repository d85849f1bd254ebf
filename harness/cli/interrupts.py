"""Handling of SIGINT, SIGTERM and SIGHUP: the command cleans up, then exits with 128 + signal."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """A signal cancelled the command, and its clean-up is done."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


def run_until_signal(
    work: Coroutine[Any, Any, T], *, make_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> T:
    """Run `work` and return its result. Raises Interrupted.

    The first signal cancels the work. Further signals are ignored until the process exits. A signal that is
    ignored from the start, as with `nohup`, stays ignored. `make_loop` makes the event loop, None for that of
    asyncio.
    """
    interrupts = _Interrupts()
    before = {number: signal.getsignal(number) for number in SIGNALS}
    caught = [number for number in SIGNALS if before[number] is not signal.SIG_IGN]
    for number in caught:
        signal.signal(number, interrupts.receive)
    try:
        with asyncio.Runner(loop_factory=make_loop) as runner:
            return runner.run(interrupts.watch(work))
    finally:
        work.close()  # it has not begun if there is no loop
        for number in caught:
            # Python removes its handlers before the process ends, but an ignored signal stays ignored.
            signal.signal(number, before[number] if interrupts.first is None else signal.SIG_IGN)


class _Interrupts:
    """The first signal that arrived, and the task that it cancels."""

    def __init__(self) -> None:
        self.first: int | None = None
        self._task: asyncio.Task[Any] | None = None

    def receive(self, number: int, _frame: FrameType | None) -> None:
        if self.first is not None:
            return
        self.first = number
        if self._task is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, so nothing is left to cancel
                self._task.get_loop().call_soon_threadsafe(self._task.cancel)

    async def watch(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(work)
        self._task = task
        if self.first is not None:
            task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            if self.first is not None:
                raise Interrupted(self.first) from None
            raise
