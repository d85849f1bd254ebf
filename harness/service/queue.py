"""The line where requests wait for a sandbox: fair between clients, bounded, and with an honest wait.

A request that would wait longer than it can is refused at once, because a client that gets no reply counts
the request as failed, while one that is refused at once tries again. A client that tries only a few times,
and then counts a miss, has its request held instead, for as long as it waits itself.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from harness.service.errors import BusyError, ShareUsedError

# The share of the newest measurement in the mean time of a request.
_NEWEST_SHARE = 0.05
# The mean time of a request before the first one has ended, in seconds.
FIRST_SECONDS = 0.05
# A client without work has waited for too long after this time, in seconds.
LATE_SECONDS = 1.0

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
        # Gets the time when the request begins, or the error that refuses it.
        self.turn: asyncio.Future[float] = loop.create_future()
        # Whether it may take the place that is kept for clients without work.
        self.is_late = False
        # When it entered the line, by the loop's clock.
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


@dataclass(slots=True)
class _Client:
    """The line of one client, and the number of its requests that work now."""

    # The round that serves it next.
    round: int
    waiting: collections.deque[WaitingRequest] = field(default_factory=collections.deque)
    working: int = 0


def _find_order(client: _Client) -> tuple[int, int]:
    """Return the key that orders clients."""
    return client.working, client.round


class _Place:
    """The context manager of `FairQueue.enter`.

    It is a class, because each generator as a context manager would cost several times as much.
    """

    def __init__(self, queue: FairQueue, client: str, wait_seconds: float, *, hold: bool) -> None:
        self._queue = queue
        self._client = client
        self._wait_seconds = wait_seconds
        self._hold = hold
        self._begun = 0.0

    async def __aenter__(self) -> float:
        self._begun, waited = await self._queue.begin(self._client, self._wait_seconds, hold=self._hold)
        return waited

    async def __aexit__(self, *_error: object) -> None:
        self._queue.end(self._client, self._begun)


class FairQueue:
    """Lets `places` requests work at once, and serves waiting clients in turn.

    Each client has a line. The client with the fewest requests at work is served next. Among equals there are
    rounds, and every client is served once in each. So a client with a thousand requests delays another
    client's single request by one request at most.

    A held request (see `enter`) is overdue once the wait that was expected for it is over. Its client then
    has its turn in each round, however many of its requests are at work.

    A request may take ten minutes. So there is one place more for a client that has no request at work and
    has waited for a second.

    Args:
        places: the requests that work at once.
        most: the requests that wait, of all clients.
        client_share: the share of `most` that a client may have while others wait, from 0 to 1.
        late_seconds: the time after which a client without work may take the one place more.
        clock: returns a time in seconds that never goes back.
        on_begin: gets the seconds that each request waited, when it begins.
        list_starts: returns when the sandboxes that are being started began, by `clock`.
            The requests that wait need no start of their own, so it is left out of what they expect.
    """

    def __init__(
        self,
        places: int,
        *,
        most: int,
        client_share: float = 1.0,
        late_seconds: float = LATE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        on_begin: Callable[[float], None] | None = None,
        list_starts: Callable[[], Sequence[float]] = tuple,
    ) -> None:
        self._places = places
        self._most = most
        self._client_share = client_share
        self._late_seconds = late_seconds
        self._clock = clock
        self._on_begin = on_begin
        self._list_starts = list_starts
        self._working = 0
        # In the order that they came.
        self._clients: dict[str, _Client] = {}
        # The round of the client that was served last. A client that comes back begins here, and not in an
        # earlier round, so that no client gains by leaving.
        self._round = 0
        self._waiting = 0
        # The held requests that have waited for longer than was expected when they came.
        self._overdue: list[WaitingRequest] = []
        self._mean_seconds = FIRST_SECONDS
        # The sum of the times when the requests at work began.
        self._begun = 0.0

    @property
    def waiting(self) -> int:
        """The number of requests that wait."""
        return self._waiting

    @property
    def working(self) -> int:
        """The number of requests that work."""
        return self._working

    @property
    def overdue(self) -> int:
        """The number of requests that wait and have waited for longer than was expected."""
        return sum(not each.turn.done() for each in self._overdue)

    @property
    def _free(self) -> int:
        return max(0, self._places - self._working)

    def resize(self, places: int) -> None:
        """Change the number of requests that work at once. Requests at work go on, even too many."""
        self._places = places
        self._serve_waiting()

    def estimate_wait(self, client: str, requests: int = 1) -> float:
        """Return the seconds that the last one of new requests of a client would wait."""
        begin_at_once = 0 if self._waiting else min(self._free, requests)
        if begin_at_once == requests:
            return 0.0
        own = self._clients.get(client)
        length = (0 if own is None else len(own.waiting)) + requests - begin_at_once - 1
        return self._estimate_behind(client, length)

    def _estimate_behind(self, client: str, length: int) -> float:
        """Return the seconds that a request with so many of its client's requests before it will wait."""
        # In each round of turns, every other client has at most one request served before this one's.
        ahead = length + sum(
            min(len(each.waiting), length + 1) for name, each in self._clients.items() if name != client
        )
        if not length and self._has_place_for_late(client):
            return min(self._late_seconds, self._estimate_turns(ahead))
        return self._estimate_turns(ahead)

    def _estimate_turns(self, ahead: int) -> float:
        """Return the seconds until so many requests have begun, and one more."""
        # After a change to slower requests, none of them has ended yet.
        seconds = max(self._mean_seconds, self._measure_work())
        return (ahead + 1) * seconds / max(self._places, 1)

    def _measure_work(self) -> float:
        """Return how long the requests at work have used their sandboxes on average, in seconds."""
        starts = self._list_starts()
        using = self._working - len(starts)
        if using <= 0:
            return 0.0
        now = self._clock()
        return (now * using - self._begun + sum(starts)) / using

    def _has_place_for_late(self, client: str) -> bool:
        """Return whether the place more is free, and only this client may take it soon."""
        own = self._clients.get(client)
        if not self._places or self._working > self._places or (own is not None and own.working):
            return False
        return not any(
            each.waiting and not each.working for name, each in self._clients.items() if name != client
        )

    def require_room(
        self, client: str, *, wait_seconds: float, requests: int = 1, hold: bool = False
    ) -> None:
        """Check that new requests of a client may wait, and that the last one begins within `wait_seconds`.

        The estimate of the wait refuses no request that is held.

        Raises:
            BusyError: if the wait would be longer, or too many requests wait.
            ShareUsedError: if the client would have too many requests in the line.
        """
        if not self._places:
            raise BusyError("no machine works on requests at the moment", retry_seconds=1.0)
        expected = self.estimate_wait(client, requests)
        added = requests - (0 if self._waiting else min(self._free, requests))
        if added and self._waiting + added > self._most:
            raise BusyError(
                f"{self._waiting:,} requests wait already, of {self._most:,} that may", retry_seconds=expected
            )
        own = self._clients.get(client)
        length = 0 if own is None else len(own.waiting)
        others = self._waiting - length
        if added and others and length + added > max(1, int(self._most * self._client_share)):
            raise ShareUsedError(
                f"this client has {length:,} requests in the queue, and {added:,} more exceed its share",
                retry_seconds=expected,
            )
        if expected > wait_seconds and not hold:
            raise BusyError(
                f"the queue needs about {expected:.1f} s, and this request can wait {wait_seconds:.1f} s",
                retry_seconds=expected - wait_seconds,
            )

    def enter(
        self, client: str, *, wait_seconds: float, hold: bool = False
    ) -> contextlib.AbstractAsyncContextManager[float]:
        """Return a context manager that lets a request wait, and then work.

        It gives the seconds that the request waited. The block is its work.

        Args:
            client: the client whose share the request uses.
            wait_seconds: the time that the request can wait.
            hold: let the request wait for all of `wait_seconds`, whatever wait is expected, because its
                client soon stops to try again.

        The start of the block raises:
            BusyError: if the wait would be longer than `wait_seconds`, at once where that can be foreseen and
                the request is not held, and if too many requests wait.
            ShareUsedError: if the client has too many requests in the line.
        """
        return _Place(self, client, wait_seconds, hold=hold)

    async def begin(self, client: str, wait_seconds: float, *, hold: bool) -> tuple[float, float]:
        """Return when a request began, and the seconds of its wait. Call `end` after its work.

        Arguments and errors are as in `enter`, which is for all other callers.
        """
        started = self._clock()
        if self._free and not self._waiting:
            begun = self._begin(client)
        else:
            begun = await self._wait(client, wait_seconds, hold=hold)
        if self._on_begin is not None:
            self._on_begin(begun - started)
        return begun, begun - started

    def end(self, client: str, begun: float) -> None:
        """End the work of a request that began at `begun`."""
        self._mean_seconds += _NEWEST_SHARE * (self._clock() - begun - self._mean_seconds)
        self._end(client, begun)

    async def _wait(self, client: str, wait_seconds: float, *, hold: bool) -> float:
        """Return the time when the request begins."""
        self.require_room(client, wait_seconds=wait_seconds, hold=hold)
        waiting = WaitingRequest(client, wait_seconds)
        waiting.add_step(self._late_seconds, self._let_late_work)
        waiting.add_step(wait_seconds, self._give_up)
        if hold:
            waiting.add_step(self.estimate_wait(client), self._note_overdue)
        own = self._clients.setdefault(client, _Client(self._round))
        own.waiting.append(waiting)
        self._waiting += 1
        waiting.start()
        try:
            return await waiting.turn
        except asyncio.CancelledError:
            if waiting in own.waiting:
                self._leave(waiting)
            elif not waiting.turn.cancelled() and waiting.turn.exception() is None:
                # The turn came at the same moment, so its place goes to the next request.
                self._end(client, waiting.turn.result())
            raise
        finally:
            waiting.stop()

    def _leave(self, waiting: WaitingRequest) -> None:
        self._clients[waiting.client].waiting.remove(waiting)
        self._waiting -= 1
        self._forget_if_idle(waiting.client)

    def _give_up(self, waiting: WaitingRequest) -> None:
        if not waiting.turn.done():
            expected = self.estimate_wait(waiting.client)
            message = f"no sandbox became free within {waiting.wait_seconds:.1f} s"
            self._leave(waiting)
            waiting.turn.set_exception(BusyError(message, retry_seconds=expected))

    def _let_late_work(self, waiting: WaitingRequest) -> None:
        waiting.is_late = True
        self._serve_waiting()

    def _note_overdue(self, waiting: WaitingRequest) -> None:
        """Note that a request has waited for as long as was expected.

        Otherwise slow work of its client that began in the meantime could keep it back until its time is
        over.
        """
        if not waiting.turn.done():
            self._overdue.append(waiting)

    def _begin(self, client: str) -> float:
        now = self._clock()
        self._working += 1
        self._begun += now
        own = self._clients.setdefault(client, _Client(self._round))
        own.working += 1
        self._round = max(self._round, own.round)
        own.round += 1
        return now

    def _end(self, client: str, begun: float) -> None:
        self._working -= 1
        # Without work, no error of rounding is carried on.
        self._begun = self._begun - begun if self.working else 0.0
        own = self._clients[client]
        own.working -= 1
        self._forget_if_idle(client)
        self._serve_waiting()

    def _serve_waiting(self) -> None:
        while self._free and self._waiting:
            following = min((each for each in self._clients.values() if each.waiting), key=_find_order)
            self._serve(self._find_overdue(following.round) or following.waiting[0])
        while self._places and self._working == self._places and (late := self._list_late()):
            self._serve(min(late, key=_find_order).waiting[0])

    def _find_overdue(self, most_round: int) -> WaitingRequest | None:
        """Return the overdue request of the client with the earliest round that is not after `most_round`."""
        self._overdue = [each for each in self._overdue if not each.turn.done()]
        rounds = {each: self._clients[each.client].round for each in self._overdue}
        ready = [each for each, number in rounds.items() if number <= most_round]
        return min(ready, key=rounds.__getitem__, default=None)

    def _list_late(self) -> list[_Client]:
        """Return the clients without work that have waited for too long."""
        return [
            each
            for each in self._clients.values()
            if not each.working and each.waiting and each.waiting[0].is_late
        ]

    def _serve(self, waiting: WaitingRequest) -> None:
        if waiting.turn.done():  # its client has gone
            self._leave(waiting)
            return
        self._clients[waiting.client].waiting.remove(waiting)
        self._waiting -= 1
        waiting.turn.set_result(self._begin(waiting.client))

    def _forget_if_idle(self, client: str) -> None:
        own = self._clients.get(client)
        if own is not None and not own.waiting and not own.working:
            del self._clients[client]
