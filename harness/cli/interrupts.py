"""SIGINT, SIGTERM and SIGHUP: everything is torn down, then the command ends with 128 + signal."""

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
    """A signal ended the command; all clean-up is done."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


def run_until_signal(work: Coroutine[Any, Any, T]) -> T:
    """Run `work`; the first signal cancels it, further ones change nothing. Raises Interrupted.

    A signal that is ignored already stays so: `nohup` means it. Once interrupted the process is on
    its way out, and signals stay without effect.
    """
    received: list[int] = []
    cancel: list[Callable[[], object]] = []

    # Not the loop's own handlers, for they are gone before the process is.
    def interrupt(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        if len(received) == 1:
            for call in cancel:
                call()

    async def watched() -> T:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(work)

        def cancel_task() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: there is nothing left to cancel
                loop.call_soon_threadsafe(task.cancel)

        cancel.append(cancel_task)
        if received:
            task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            if received:
                raise Interrupted(received[0]) from None
            raise

    before = {number: signal.getsignal(number) for number in SIGNALS}
    caught = [number for number in SIGNALS if before[number] is not signal.SIG_IGN]
    for number in caught:
        signal.signal(number, interrupt)
    try:
        return asyncio.run(watched())
    finally:
        if not received:
            for number in caught:
                signal.signal(number, before[number])
