"""One head gives work to 64 nodes, of which a quarter drops dead under load."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

from stub_nodes import Notes, StubNode, make_attempts, open_members, plan_attempts

from harness.runs.executors.messages import LeaseBook
from harness.service.workers import TRIES, RayWorkers

NODES, PLACES, COUNT = 64, 4, 2000
# After these numbers of verdicts, the next nodes drop dead. Fewer die at once than a request has tries,
# because a request whose node is lost may choose one that died with it. The next ones die a round later.
DEATHS = dict.fromkeys((100, 600, 1100, 1600), TRIES - 1)


def make_nodes() -> list[StubNode]:
    return [StubNode(number, PLACES, 0.005) for number in range(NODES)]


def kill_some(nodes: list[StubNode], verdicts: int) -> None:
    """Let the next nodes drop dead in the middle of their work."""
    alive = [node for node in nodes if not node.is_dead]
    for node in alive[: DEATHS.get(verdicts, 0)]:
        node.drop_dead()


async def test_a_run_loses_and_doubles_no_verdict_of_a_node_that_drops_dead(tmp_path: Path) -> None:
    nodes = make_nodes()
    observer = Notes(lambda count: kill_some(nodes, count))
    await make_attempts(nodes, COUNT, tmp_path, observer)
    lines = [json.loads(line) for line in (tmp_path / "attempts.jsonl").read_text().splitlines()]
    assert Counter(line["task_id"] for line in lines) == {f"task/{number}": 1 for number in range(COUNT)}
    assert {line["status"] for line in lines} == {"passed"}
    assert sum("is lost" in note for note in observer.notes) == sum(DEATHS.values())


async def test_a_service_answers_each_request_once_though_nodes_drop_dead() -> None:
    nodes = make_nodes()
    faults: list[int] = []
    workers = RayWorkers(await open_members(nodes, lambda _note: None), faults.append)
    places = asyncio.Semaphore(NODES * PLACES)
    answered: list[int] = []

    async def ask(number: int) -> None:
        async with places:
            item: Any = number
            reply, verdict = await workers.perform(item, seconds=60)
        assert verdict.resolved
        answered.append(reply)
        kill_some(nodes, len(answered))

    await asyncio.gather(*map(ask, range(COUNT)))
    assert sorted(answered) == list(range(COUNT))
    assert workers.machines == NODES - sum(DEATHS.values())
    assert len(faults) >= sum(DEATHS.values())


async def test_fewer_units_than_places_go_to_the_nodes_with_the_most_free_places(tmp_path: Path) -> None:
    nodes = make_nodes()
    await make_attempts(nodes, NODES, tmp_path, Notes())
    assert {node.peak for node in nodes} == {1}
    units = [[each] for each in plan_attempts(6)]
    book = LeaseBook(units)
    taking = {
        node: [asyncio.create_task(book.take(node)) for _ in range(places)]
        for node, places in (("small", 2), ("large", 6))
    }
    await asyncio.sleep(0.01)
    assert {node: sum(each.done() for each in tasks) for node, tasks in taking.items()} == {
        "small": 1,
        "large": 5,
    }
    # A node that is lost while it gets a unit loses no unit.
    for each in taking["small"]:
        each.cancel()
    await asyncio.gather(*taking["small"], return_exceptions=True)
    for unit in units:
        book.finish(unit[0])
    assert (await asyncio.gather(*taking["large"]))[-1] is None


async def test_a_unit_that_has_lost_its_node_goes_to_the_one_that_worked_last() -> None:
    first, second = plan_attempts(2)
    book = LeaseBook([[first], [second]])
    lost, works = await asyncio.gather(book.take("lost"), book.take("works"))
    # It has never worked, so nobody knows whether it lives.
    idle = [asyncio.create_task(book.take("idle")) for _ in range(3)]
    await asyncio.sleep(0)
    assert lost is not None
    assert works is not None
    book.begin(lost[0])
    book.finish(works[0])
    taking = asyncio.create_task(book.take("works"))
    await asyncio.sleep(0.01)
    book.give_back(lost)
    assert await taking == lost
    book.finish(lost[0])
    assert await asyncio.gather(*idle) == [None] * 3


async def test_a_place_that_is_cancelled_as_it_gets_a_unit_gives_it_back() -> None:
    first, second = plan_attempts(2)
    book = LeaseBook([[first], [second]])
    taking = asyncio.create_task(book.take("lost"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    taking.cancel()
    await asyncio.gather(taking, return_exceptions=True)
    assert [await book.take("other"), await book.take("other")] == [[first], [second]]
