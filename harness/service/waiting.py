"""A request in the queue of the service, and the steps that are taken while it waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

Step: TypeAlias = "Callable[[WaitingRequest], None]"


class WaitingRequest:
    """A request in the line. Make it on the event loop.

    Args:
        client: the client whose line it is in.
        wait_seconds: the time that it can wait.
    """

    __slots__ = ("_since", "_steps", "_timer", "client", "is_late", "turn", "wait_seconds")

    def __init__(self, client: str, wait_seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self.client = client
        self.wait_seconds = wait_seconds
        # Gets the time at which the request begins, or the error that refuses it.
        self.turn: asyncio.Future[float] = loop.create_future()
        # Whether it may take the place that is kept for clients without work.
        self.is_late = False
        # The time on the loop's clock at which it entered the line.
        self._since = loop.time()
        # Each with its time in the line, in seconds. The latest comes first.
        self._steps: list[tuple[float, Step]] = []
        # The timer of the next step. There is only one, because most requests begin before the first step.
        self._timer: asyncio.TimerHandle | None = None

    def add_step(self, seconds: float, step: Step) -> None:
        """Add a function that is called after so many seconds in the line, if the request still waits then.

        Call it before `start`, or in a step for a later one.
        """
        self._steps.append((seconds, step))
        self._steps.sort(key=_sort_last_first)

    def start(self) -> None:
        """Take the steps from now on, each at its time."""
        seconds, step = self._steps.pop()
        self._timer = asyncio.get_running_loop().call_at(self._since + seconds, self._take, step)

    def stop(self) -> None:
        """Take no further step."""
        if self._timer is not None:
            self._timer.cancel()

    def _take(self, step: Step) -> None:
        step(self)
        if self._steps and not self.turn.done():
            self.start()


def _sort_last_first(step: tuple[float, Step]) -> float:
    return -step[0]
