"""The queue of the service: in turn between clients, bounded, and honest about the wait."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from harness.service.errors import BusyError, ShareUsedError
from harness.service.queue import FIRST_SECONDS, LATE_SECONDS, FairQueue


class Line:
    """Requests that enter a queue, and the order that they begin."""

    def __init__(self, queue: FairQueue) -> None:
        self.queue = queue
        self.begun: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def send(self, name: str, *, wait_seconds: float = 60.0, hold: bool = False) -> None:
        """Let a request enter. Its client is the part of its name before the hyphen."""
        self._ends[name] = asyncio.Event()

        async def work() -> None:
            async with self.queue.enter(name.partition("-")[0], wait_seconds=wait_seconds, hold=hold):
                self.begun.append(name)
                await self._ends[name].wait()

        self.tasks[name] = asyncio.create_task(work())
        await let_all_run()

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await self.tasks[name]
        await let_all_run()

    async def wait_for(self, name: str) -> None:
        """Wait until a request has begun. The time limit of the test ends a wait in vain."""
        while name not in self.begun:  # noqa: ASYNC110  because the queue has no event to wait for
            await asyncio.sleep(0.001)

    async def wait_for_overdue(self, requests: int) -> None:
        """Wait until so many requests are overdue. The time limit of the test ends a wait in vain."""
        while self.queue.overdue < requests:  # noqa: ASYNC110  because the queue has no event to wait for
            await asyncio.sleep(0.001)

    async def end_all(self) -> None:
        """End the requests in the order that they begin."""
        for place in range(len(self.tasks)):
            await self.end(self.begun[place])


async def let_all_run() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def open_line(
    places: int, *, most: int = 100, client_share: float = 1.0, late_seconds: float = LATE_SECONDS
) -> AsyncIterator[Line]:
    line = Line(FairQueue(places, most=most, client_share=client_share, late_seconds=late_seconds))
    yield line
    for task in line.tasks.values():
        task.cancel()
    await asyncio.gather(*line.tasks.values(), return_exceptions=True)


async def test_no_more_requests_work_than_there_are_places() -> None:
    async with open_line(2) as line:
        for number in range(5):
            await line.send(f"a-{number}")
        assert (line.queue.working, line.queue.waiting) == (2, 3)


async def test_clients_take_turns() -> None:
    async with open_line(1) as line:
        for name in ("a-0", "a-1", "a-2", "b-0", "b-1", "c-0"):
            await line.send(name)
        await line.end_all()
        assert line.begun == ["a-0", "b-0", "c-0", "a-1", "b-1", "a-2"]


async def test_a_client_without_work_is_served_before_one_that_works() -> None:
    async with open_line(2) as line:
        for name in ("a-0", "a-1", "a-2", "b-0"):
            await line.send(name)
        await line.end("a-0")
        assert line.begun[-1] == "b-0"


async def test_a_request_that_would_wait_too_long_is_refused_at_once() -> None:
    async with open_line(1) as line:
        await line.send("a-0")
        with pytest.raises(BusyError, match=r"can wait 0\.0 s"):
            async with line.queue.enter("b", wait_seconds=FIRST_SECONDS / 2):
                pytest.fail("the request was not refused")
        assert line.queue.waiting == 0


async def test_a_request_leaves_the_queue_when_its_wait_is_over() -> None:
    async with open_line(1) as line:
        await line.send("a-0")
        await line.send("b-0", wait_seconds=FIRST_SECONDS * 1.5)
        with pytest.raises(BusyError, match="no sandbox became free"):
            await line.tasks["b-0"]
        assert line.queue.waiting == 0
        await line.end("a-0")
        assert line.queue.working == 0


async def test_a_full_queue_refuses() -> None:
    async with open_line(1, most=2) as line:
        for number in range(4):
            await line.send(f"a-{number}")
        with pytest.raises(BusyError, match="2 requests wait already"):
            await line.tasks["a-3"]


async def test_a_client_cannot_take_the_places_in_the_queue_that_others_need() -> None:
    async with open_line(1, most=4, client_share=0.5) as line:
        for name in ("a-0", "b-0", "a-1", "a-2", "a-3"):
            await line.send(name)
        with pytest.raises(ShareUsedError, match="2 requests in the queue"):
            await line.tasks["a-3"]


async def test_a_client_alone_may_fill_the_queue() -> None:
    async with open_line(1, most=4, client_share=0.5) as line:
        for number in range(5):
            await line.send(f"a-{number}")
        assert line.queue.waiting == 4


async def test_a_cancelled_request_gives_its_place_in_the_line_up() -> None:
    async with open_line(1) as line:
        for name in ("a-0", "b-0", "c-0"):
            await line.send(name)
        line.tasks["b-0"].cancel()
        await let_all_run()
        await line.end("a-0")
        assert line.begun == ["a-0", "c-0"]


async def test_a_place_that_comes_at_the_moment_of_a_cancellation_goes_to_the_next_request() -> None:
    async with open_line(1) as line:
        for name in ("a-0", "b-0", "c-0"):
            await line.send(name)
        # Both happen before the request of b can run.
        line._ends["a-0"].set()
        await asyncio.sleep(0)
        line.tasks["b-0"].cancel()
        await let_all_run()
        assert line.begun[-1] == "c-0"
        await line.end("c-0")
        assert (line.queue.working, line.queue.waiting) == (0, 0)


async def test_nothing_of_a_client_is_kept_after_its_last_request() -> None:
    async with open_line(1) as line:
        for number in range(20):
            await line.send(f"client{number}-0")
        await line.end_all()
        assert not line.queue._clients


async def test_the_estimate_grows_with_the_time_of_requests() -> None:
    now = 0.0
    queue = FairQueue(1, most=10, clock=lambda: now)
    for _ in range(200):
        async with queue.enter("a", wait_seconds=60.0):
            now += 2.0
    async with queue.enter("a", wait_seconds=60.0):
        assert queue.estimate_wait("a") == pytest.approx(2.0, rel=0.01)


async def test_the_estimate_counts_work_that_takes_longer_than_before() -> None:
    now = 0.0
    queue = FairQueue(1, most=10, clock=lambda: now)
    async with queue.enter("a", wait_seconds=60.0):
        now += 3.0
        assert queue.estimate_wait("a") == pytest.approx(3.0)


async def test_the_estimate_leaves_out_the_start_of_a_sandbox_which_the_next_request_does_not_need() -> None:
    now = 0.0
    starts: list[float] = []
    queue = FairQueue(2, most=500, clock=lambda: now, list_starts=lambda: starts)
    async with queue.enter("a", wait_seconds=60.0), queue.enter("a", wait_seconds=60.0):
        starts += [0.0, 0.0]
        now = 3.0
        assert queue.estimate_wait("a", requests=100) == pytest.approx(100 * FIRST_SECONDS / 2)
        # One of the two has its sandbox since then.
        starts.pop()
        assert queue.estimate_wait("a", requests=100) == pytest.approx(100 * 3.0 / 2)


async def test_a_held_request_waits_for_as_long_as_its_client_whatever_is_expected() -> None:
    now = 0.0
    queue = FairQueue(1, most=10, clock=lambda: now)
    begun: list[str] = []

    async def wait(seconds: float) -> None:
        async with queue.enter("a", wait_seconds=seconds, hold=True):
            begun.append("a")

    async with queue.enter("a", wait_seconds=60.0):
        now += 500.0
        with pytest.raises(BusyError, match="needs about"):
            queue.require_room("a", wait_seconds=60.0)
        kept = asyncio.create_task(wait(60.0))
        with pytest.raises(BusyError, match="no sandbox became free within"):
            await wait(0.01)
    await kept
    assert begun == ["a"]
    assert (queue.working, queue.waiting) == (0, 0)


async def test_a_full_line_refuses_held_requests_at_once() -> None:
    queue = FairQueue(1, most=1)
    async with queue.enter("a", wait_seconds=60.0), asyncio.TaskGroup() as group:
        waiting = group.create_task(queue.begin("a", 60.0, hold=True))
        await let_all_run()
        with pytest.raises(BusyError, match="requests wait already"):
            await queue.begin("a", 60.0, hold=True)
        waiting.cancel()
    assert (queue.working, queue.waiting) == (0, 0)


async def test_a_client_with_overdue_requests_has_its_turn_in_each_round_and_no_more() -> None:
    async with open_line(2, most=20) as line:
        for name in ("a-0", "b-0"):
            await line.send(name)
        for name in ("a-1", "a-2"):
            await line.send(name, hold=True)
        await line.wait_for_overdue(2)
        for name in ("c-0", "c-1", "c-2", "d-0", "d-1", "d-2"):
            await line.send(name)
        for place in range(1, 10):
            await line.end(line.begun[place])
        await line.end("a-0")
        assert line.begun == ["a-0", "b-0", "c-0", "d-0", "a-1", "c-1", "d-1", "a-2", "c-2", "d-2"]
        assert (line.queue.working, line.queue.waiting, line.queue.overdue) == (0, 0, 0)


async def test_an_overdue_request_takes_no_place_that_is_kept_for_clients_without_work() -> None:
    async with open_line(1, late_seconds=0.3) as line:
        await line.send("a-0")
        await line.send("a-1", hold=True)
        await line.wait_for_overdue(1)
        await line.send("b-0")
        await line.wait_for("b-0")
        assert line.begun == ["a-0", "b-0"]


async def test_an_overdue_request_whose_client_leaves_is_forgotten() -> None:
    async with open_line(1) as line:
        await line.send("a-0")
        await line.send("a-1", hold=True)
        await line.wait_for_overdue(1)
        line.tasks["a-1"].cancel()
        await let_all_run()
        await line.end("a-0")
        assert line.begun == ["a-0"]
        assert (line.queue.working, line.queue.waiting, line.queue.overdue) == (0, 0, 0)


async def test_a_client_that_leaves_after_each_request_gets_no_more_than_its_turn() -> None:
    async with open_line(1) as line:
        for name in ("z-0", "a-0", "a-1", "a-2", "b-0", "b-1", "b-2", "leaver-0"):
            await line.send(name)
        served = 0
        while served < 8:
            name = line.begun[served]
            await line.end(name)
            served += 1
            if name.startswith("leaver"):
                await line.send(f"leaver-{served}")
        first = line.begun[1:7]
        assert sum(name.startswith("leaver") for name in first) == 2, line.begun


async def test_more_places_let_waiting_requests_begin() -> None:
    async with open_line(1) as line:
        for name in ("a-1", "a-2", "a-3"):
            await line.send(name)
        line.queue.resize(2)
        await let_all_run()
        assert line.begun == ["a-1", "a-2"]


async def test_after_the_loss_of_places_nobody_begins_until_work_has_ended() -> None:
    async with open_line(3) as line:
        for name in ("a-1", "a-2", "a-3", "b-1"):
            await line.send(name)
        line.queue.resize(1)
        for name in ("a-1", "a-2"):
            await line.end(name)
        assert (line.begun, line.queue.working) == (["a-1", "a-2", "a-3"], 1)
        await line.end("a-3")
        assert line.begun[-1] == "b-1"


async def test_a_request_is_refused_while_there_is_no_place_at_all() -> None:
    async with open_line(1) as line:
        line.queue.resize(0)
        with pytest.raises(BusyError, match="no machine works on requests"):
            line.queue.require_room("a", wait_seconds=60.0)


async def test_a_batch_is_refused_as_a_whole_if_its_last_request_would_wait_too_long() -> None:
    async with open_line(2) as line:
        assert line.queue.estimate_wait("a", 2) == 0.0
        # Two begin at once, and the other eight wait for four rounds of two.
        assert line.queue.estimate_wait("a", 10) == pytest.approx(4 * FIRST_SECONDS)
        line.queue.require_room("a", requests=10, wait_seconds=5 * FIRST_SECONDS)
        with pytest.raises(BusyError):
            line.queue.require_room("a", requests=10, wait_seconds=3 * FIRST_SECONDS)


async def test_a_batch_must_fit_into_the_queue() -> None:
    async with open_line(1, most=4) as line:
        line.queue.require_room("a", requests=5, wait_seconds=60.0)
        with pytest.raises(BusyError):
            line.queue.require_room("a", requests=6, wait_seconds=60.0)


async def test_a_batch_must_fit_into_the_share_of_its_client_while_others_wait() -> None:
    async with open_line(1, most=10, client_share=0.5) as line:
        line.queue.require_room("b", requests=9, wait_seconds=60.0)
        await line.send("a-1")
        await line.send("a-2")
        line.queue.require_room("b", requests=5, wait_seconds=60.0)
        with pytest.raises(ShareUsedError):
            line.queue.require_room("b", requests=6, wait_seconds=60.0)


async def test_another_client_waits_for_one_request_of_a_batch() -> None:
    async with open_line(1) as line:
        for number in range(5):
            await line.send(f"a-{number}")
        # One works, and one of the waiting ones may be served first.
        assert line.queue.estimate_wait("b") == pytest.approx(2 * FIRST_SECONDS)


async def test_a_client_whose_requests_take_long_does_not_keep_another_client_out() -> None:
    line = Line(FairQueue(2, most=10, late_seconds=0.001))
    for name in ("a-0", "a-1", "a-2", "b-0", "b-1"):
        await line.send(name)
    await line.wait_for("b-0")
    assert line.begun == ["a-0", "a-1", "b-0"]
    await line.end("b-0")
    # The place more is free again, and the client has no work again.
    await line.wait_for("b-1")
    await line.end_all()
    assert (line.queue.working, line.queue.waiting) == (0, 0)


async def test_a_client_without_work_waits_for_no_program_of_another_client() -> None:
    now = 0.0
    queue = FairQueue(1, most=10, late_seconds=1.0, clock=lambda: now)
    async with queue.enter("a", wait_seconds=60.0):
        now += 500.0
        assert queue.estimate_wait("b") == pytest.approx(1.0)
        assert queue.estimate_wait("a") == pytest.approx(500.0)


async def test_a_queue_without_machines_begins_no_late_request() -> None:
    line = Line(FairQueue(1, most=10, late_seconds=0.001))
    await line.send("a-0")
    await line.send("b-0")
    line.queue.resize(0)
    await line.end("a-0")
    await asyncio.sleep(0.01)
    assert line.begun == ["a-0"]
    line.queue.resize(1)
    await line.end("b-0")
