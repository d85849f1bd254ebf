"""SIGINT, SIGTERM and SIGHUP: everything is torn down, then the command ends with 128 + signal."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """A signal ended the command; all clean-up is done."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.exit_code = 128 + number


def run_until_signal(work: Coroutine[Any, Any, T]) -> T:
    """Run `work`; the first signal cancels it, further ones change nothing. Raises Interrupted."""

    async def watched() -> T:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(work)
        received: list[signal.Signals] = []

        def interrupt(number: signal.Signals) -> None:
            if not received:
                task.cancel()
            received.append(number)

        for number in SIGNALS:
            loop.add_signal_handler(number, interrupt, number)
        try:
            return await task
        except asyncio.CancelledError:
            if received:
                raise Interrupted(received[0]) from None
            raise

    return asyncio.run(watched())
