"""The leases that share a sandbox, and the reasons for which leases wait."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from case_checks import each_case

from harness.core.errors import SandboxError
from harness.core.types import ProgramTests
from harness.environments.db import SPEC as DB
from harness.environments.os import SPEC as OS
from harness.environments.os.root_sandbox import RootSandbox
from harness.environments.python import SPEC as PYTHON
from harness.environments.python.call_programs import CallTests
from harness.sandbox import pool as pools
from harness.sandbox import stock as stocks
from harness.sandbox.limits import Limits
from harness.sandbox.pool import PREPARED, AcrossTasks, SandboxPool, SandboxSettings
from harness.sandbox.sandbox import Sandbox
from harness.sandbox.stock import Stock, count_burst

SMALL = SandboxSettings("python", Limits(memory_mb=100))
LARGE = SandboxSettings("python", Limits(memory_mb=300))
# Ends a test that would wait for ever.
HANG_SECONDS = 60


class Numbered(Sandbox):
    """A sandbox without a container."""

    is_lost = False

    def __init__(self, number: int) -> None:
        self.number = number
        self.clean = True
        self.marked = False
        self.agent_acted = False


class Sandboxes:
    """A starter of sandboxes, numbered from 1. `open` has the numbers of those that live."""

    def __init__(self) -> None:
        self.started = 0
        self.open: set[int] = set()
        self.most = 0
        self.memory_mb = self.most_memory_mb = 0
        self.starting = 0
        self.most_starting = 0
        self.deadlines: list[float] = []
        self.closing_fails = False

    @contextlib.asynccontextmanager
    async def start(self, _image: str, **arguments: Any) -> AsyncIterator[Sandbox]:
        self.starting += 1
        self.most_starting = max(self.most_starting, self.starting)
        await asyncio.sleep(0)
        self.starting -= 1
        self.started += 1
        number = self.started
        self.deadlines.append(arguments["deadline_seconds"])
        memory_mb = arguments["limits"].memory_mb
        self.memory_mb += memory_mb
        self.most_memory_mb = max(self.most_memory_mb, self.memory_mb)
        self.open.add(number)
        self.most = max(self.most, len(self.open))
        try:
            yield Numbered(number)
        finally:
            self.open.discard(number)
            self.memory_mb -= memory_mb
        if self.closing_fails:
            raise SandboxError("it cannot be removed")


@pytest.fixture
def sandboxes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandboxes]:
    started = Sandboxes()
    monkeypatch.setattr(Sandbox, "open", started.start)
    monkeypatch.setattr(pools, "IDLE_SECONDS", 0.0)
    yield started
    assert started.open == set(), "every pool of these tests was left"


async def number(pool: SandboxPool, key: str | None, settings: SandboxSettings = SMALL, **doubt: bool) -> int:
    """Lease a sandbox and return its number. `doubt` has the attributes that it gets afterwards."""
    async with pool.lease(settings, seconds=10.0, key=key) as sandbox:
        assert isinstance(sandbox, Numbered)
        for name, value in doubt.items():
            setattr(sandbox, name, value)
        return sandbox.number


async def test_leases_of_one_key_share_a_clean_sandbox(sandboxes: Sandboxes) -> None:
    async with SandboxPool() as pool:
        assert [await number(pool, key) for key in ("a", "a", "b", "a")] == [1, 1, 2, 1]


async def test_a_lease_without_a_key_has_a_sandbox_for_itself(sandboxes: Sandboxes) -> None:
    async with SandboxPool() as pool:
        assert [await number(pool, None) for _ in range(2)] == [1, 2]
        assert sandboxes.open == set()


@pytest.mark.parametrize("doubt", [{"clean": False}, {"marked": True}, {"agent_acted": True}], ids=str)
async def test_a_sandbox_in_doubt_is_destroyed(sandboxes: Sandboxes, doubt: dict[str, Any]) -> None:
    async with SandboxPool() as pool:
        assert [await number(pool, "a", **doubt), await number(pool, "a")] == [1, 2]


async def test_a_sandbox_of_other_settings_is_not_shared(sandboxes: Sandboxes) -> None:
    async with SandboxPool() as pool:
        assert [await number(pool, "a"), await number(pool, "a", LARGE)] == [1, 2]


async def test_a_sandbox_whose_lease_failed_is_destroyed(sandboxes: Sandboxes) -> None:
    async with SandboxPool() as pool:
        with pytest.raises(RuntimeError):
            async with pool.lease(SMALL, seconds=1.0, key="a"):
                raise RuntimeError
        assert await number(pool, "a") == 2


async def test_a_sandbox_with_too_little_time_left_is_replaced(
    sandboxes: Sandboxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "KEPT_SECONDS", 100.0)
    async with SandboxPool() as pool:
        assert await number(pool, "a") == 1
        async with pool.lease(SMALL, seconds=109.0, key="a") as sandbox:
            assert sandbox.number == 1  # type: ignore[attr-defined]
        async with pool.lease(SMALL, seconds=111.0, key="a") as sandbox:
            assert sandbox.number == 2  # type: ignore[attr-defined]
    assert sandboxes.deadlines[0] >= 100 + 10 + pools.MARGIN_SECONDS


async def test_the_sandbox_of_a_key_is_destroyed_once_no_lease_needs_it(sandboxes: Sandboxes) -> None:
    async with SandboxPool() as pool:
        await number(pool, "a")
        await number(pool, "b")
        pool.discard("a")
        assert await number(pool, "a") == 3
        assert await number(pool, "b") == 2


async def test_the_end_of_a_pool_waits_until_its_sandboxes_are_closed(sandboxes: Sandboxes) -> None:
    async with SandboxPool() as pool:
        await number(pool, "a")
        assert sandboxes.open == {1}
    assert sandboxes.open == set()


async def test_a_sandbox_that_cannot_be_removed_fails_only_the_lease_that_owns_it(
    sandboxes: Sandboxes,
) -> None:
    sandboxes.closing_fails = True
    async with SandboxPool() as pool:
        assert await number(pool, "a", clean=False) == 1
        with pytest.raises(SandboxError, match="cannot be removed"):
            await number(pool, None)


STRICT = replace(SMALL, seccomp="strict")
PROGRAMS = AcrossTasks(ProgramTests)


async def lease_across_tasks(
    pool: SandboxPool, settings: SandboxSettings = STRICT, key: AcrossTasks = PROGRAMS, nested: bool = False
) -> int:
    async with pool.lease(settings, seconds=10.0, key=key, nested=nested) as sandbox:
        return sandbox.number  # type: ignore[attr-defined, no-any-return]


async def test_tasks_with_other_settings_tests_or_owners_share_no_sandbox(sandboxes: Sandboxes) -> None:
    settings = [
        STRICT,
        replace(STRICT, limits=Limits(memory_mb=200)),
        replace(STRICT, image="python:other"),
        STRICT,
    ]
    async with SandboxPool() as pool:
        assert [await lease_across_tasks(pool, each) for each in settings] == [1, 2, 3, 1]
        assert await lease_across_tasks(pool, key=AcrossTasks(CallTests)) == 4
        assert await lease_across_tasks(pool, key=AcrossTasks(CallTests, owner="another client")) == 5


@each_case(
    ("settings", "nested"),
    [
        pytest.param(SMALL, False, id="default filter"),
        pytest.param(replace(STRICT, terminals=True), False, id="terminals"),
        pytest.param(replace(STRICT, kind=RootSandbox), False, id="an agent that is root"),
        pytest.param(STRICT, True, id="a copy of an agent's sandbox"),
    ],
)
async def test_tasks_share_no_sandbox_in_which_an_agent_may_act(
    sandboxes: Sandboxes, settings: SandboxSettings, nested: bool
) -> None:
    async with SandboxPool() as pool:
        with pytest.raises(ValueError, match="only sandboxes for programs under tests"):
            await lease_across_tasks(pool, settings, nested=nested)
    assert sandboxes.started == 0


def test_only_environments_without_an_agent_let_tasks_share_sandboxes() -> None:
    assert [spec.grades_programs_alone for spec in (PYTHON, DB, OS)] == [True, False, False]
    assert [spec.choose_isolation("run") for spec in (PYTHON, DB, OS)] == ["run", "attempt", "attempt"]


async def test_a_lease_that_waits_for_memory_takes_a_fitting_sandbox_that_becomes_idle(
    sandboxes: Sandboxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "IDLE_SECONDS", 1000.0)
    async with asyncio.timeout(HANG_SECONDS), SandboxPool(max_sandboxes=1) as pool:
        assert await asyncio.gather(*(lease_across_tasks(pool) for _ in range(5))) == [1] * 5


async def test_a_sandbox_that_many_tasks_share_makes_room_for_a_lease_that_has_waited(
    sandboxes: Sandboxes,
) -> None:
    order: list[str] = []

    async def grade_tasks(pool: SandboxPool) -> None:
        for _ in range(20):
            async with pool.lease(STRICT, seconds=10.0, key=PROGRAMS):
                await asyncio.sleep(0)
            order.append("task")

    async def act(pool: SandboxPool) -> None:
        async with pool.lease(LARGE, seconds=10.0):
            order.append("agent")

    async with asyncio.timeout(HANG_SECONDS), SandboxPool(max_sandboxes=1) as pool:
        await asyncio.gather(grade_tasks(pool), act(pool))
    assert order.index("agent") < 5


async def test_leases_of_one_key_are_served_in_turn(sandboxes: Sandboxes) -> None:
    order: list[int] = []

    async def work(pool: SandboxPool, worker: int) -> None:
        for _ in range(10):
            async with pool.lease(STRICT, seconds=10.0, key=PROGRAMS):
                order.append(worker)
                await asyncio.sleep(0)

    async with asyncio.timeout(HANG_SECONDS), SandboxPool(max_sandboxes=1) as pool:
        await asyncio.gather(work(pool, 1), work(pool, 2))
    assert order[:6] in ([1, 2] * 3, [2, 1] * 3, [1, 1, 2, 1, 2, 1])
    assert sandboxes.started == 1


async def test_the_sandbox_that_was_used_last_is_leased_first(sandboxes: Sandboxes) -> None:
    async with SandboxPool() as pool:
        async with pool.lease(STRICT, seconds=10.0, key=PROGRAMS):
            assert await lease_across_tasks(pool) == 2
        assert [await lease_across_tasks(pool) for _ in range(3)] == [1, 1, 1]


async def lease_all(pool: SandboxPool, leases: int, *, key: str = "", **options: Any) -> int:
    """Ask for `leases` leases at once, and return the largest number that the pool granted at once."""
    held, most = 0, 0

    async def hold(place: int) -> None:
        nonlocal held, most
        async with pool.lease(SMALL, seconds=10.0, key=f"{key}{place}", **options):
            held += 1
            most = max(most, held)
            # Wait in turns of the loop, because any time is too short on a machine under load.
            for _ in range(200):
                await asyncio.sleep(0)
            held -= 1

    async with asyncio.TaskGroup() as tasks:
        for place in range(leases):
            tasks.create_task(hold(place))
    return most


async def test_memory_bounds_how_many_sandboxes_live(sandboxes: Sandboxes) -> None:
    async with SandboxPool(memory_mb=450) as pool:
        assert await lease_all(pool, 20) == 4
    assert (sandboxes.most, sandboxes.started) == (4, 20)


async def test_a_number_bounds_how_many_sandboxes_live(sandboxes: Sandboxes) -> None:
    async with SandboxPool(memory_mb=4000, max_sandboxes=3) as pool:
        assert await lease_all(pool, 10) == 3


async def test_one_sandbox_lives_however_little_memory_there_is(sandboxes: Sandboxes) -> None:
    async with SandboxPool(memory_mb=1) as pool:
        assert await lease_all(pool, 3) == 1


async def test_the_gate_bounds_starts_and_not_leases(sandboxes: Sandboxes) -> None:
    async with SandboxPool(memory_mb=4000, gate_places=2) as pool:
        assert await lease_all(pool, 20) == 20
    assert sandboxes.most_starting == 2


async def test_the_gate_bounds_leases_that_work(sandboxes: Sandboxes) -> None:
    async with SandboxPool(memory_mb=4000, gate_places=2) as pool:
        assert await lease_all(pool, 20, working=True) == 2


async def test_a_lease_within_a_lease_waits_for_nothing(sandboxes: Sandboxes) -> None:
    async with (
        asyncio.timeout(HANG_SECONDS),
        SandboxPool(memory_mb=100, gate_places=1) as pool,
        pool.lease(SMALL, seconds=1.0),
        pool.gate,
        pool.lease(SMALL, seconds=1.0, nested=True) as inner,
    ):
        assert inner.number == 2  # type: ignore[attr-defined]


async def test_an_idle_sandbox_makes_room_for_another_key(sandboxes: Sandboxes) -> None:
    async with asyncio.timeout(HANG_SECONDS), SandboxPool(memory_mb=100) as pool:
        assert [await number(pool, "a"), await number(pool, "b")] == [1, 2]
        assert sandboxes.open == {2}


async def test_a_lease_that_is_cancelled_while_it_waits_takes_no_memory(sandboxes: Sandboxes) -> None:
    async with asyncio.timeout(HANG_SECONDS), SandboxPool(memory_mb=100) as pool:
        async with pool.lease(SMALL, seconds=1.0):
            waiting = asyncio.create_task(number(pool, "a"))
            await asyncio.sleep(0.01)
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waiting
        assert await number(pool, "b", LARGE) == 2


async def test_a_start_that_fails_gives_its_memory_back(
    sandboxes: Sandboxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.asynccontextmanager
    async def fail(_image: str, **_arguments: Any) -> AsyncIterator[Sandbox]:
        raise SandboxError("no container")
        yield

    async with asyncio.timeout(HANG_SECONDS), SandboxPool(memory_mb=100) as pool:
        with monkeypatch.context() as patch:
            patch.setattr(Sandbox, "open", fail)
            with pytest.raises(SandboxError, match="no container"):
                await number(pool, "a")
        assert await lease_all(pool, 2) == 1


async def grade(pool: SandboxPool, number: int) -> None:
    """Act in a sandbox, and hold two further ones while the outcome is graded."""
    async with pool.lease(SMALL, seconds=10.0):
        await asyncio.sleep(0)
        async with (
            pool.grade_nested(),
            pool.lease(SMALL, seconds=10.0, nested=True),
            pool.lease(SMALL, seconds=10.0, key=number, nested=True),
        ):
            await asyncio.sleep(0)


@pytest.mark.parametrize("places", [1, 3, 20])
@pytest.mark.parametrize(("most", "memory_mb"), [(3, 100_000), (4, 100_000), (8, 100_000), (40, 900)])
async def test_nested_leases_stay_within_the_budget(
    sandboxes: Sandboxes, places: int, most: int, memory_mb: int
) -> None:
    async with (
        asyncio.timeout(HANG_SECONDS),
        SandboxPool(max_sandboxes=most, memory_mb=memory_mb, gate_places=places, nested_sandboxes=2) as pool,
    ):
        await asyncio.gather(*(grade(pool, number) for number in range(30)))
    assert sandboxes.started == 90
    assert sandboxes.most <= min(most, memory_mb // SMALL.limits.memory_mb)


async def test_a_grading_of_a_large_machine_finds_room_among_small_ones(sandboxes: Sandboxes) -> None:
    async def hold(pool: SandboxPool) -> None:
        async with pool.lease(SMALL, seconds=10.0):
            await asyncio.sleep(HANG_SECONDS)

    async with SandboxPool(memory_mb=1500, nested_sandboxes=2) as pool, pool.lease(LARGE, seconds=10.0):
        holding = [asyncio.create_task(hold(pool)) for _ in range(20)]
        for _ in range(1000):
            await asyncio.sleep(0)
        async with (
            pool.grade_nested(),
            pool.lease(LARGE, seconds=10.0, nested=True),
            pool.lease(LARGE, seconds=10.0, key=1, nested=True),
        ):
            assert sandboxes.most_memory_mb == 1500
        for each in holding:
            each.cancel()
        await asyncio.gather(*holding, return_exceptions=True)


async def test_a_budget_of_one_sandbox_is_exceeded_by_one_grading_alone(sandboxes: Sandboxes) -> None:
    async with asyncio.timeout(HANG_SECONDS), SandboxPool(max_sandboxes=1, nested_sandboxes=2) as pool:
        await asyncio.gather(*(grade(pool, number) for number in range(10)))
    assert sandboxes.most == 3


async def test_most_of_a_large_budget_is_for_agents(sandboxes: Sandboxes) -> None:
    act = asyncio.Event()
    most = 0

    async def hold(pool: SandboxPool) -> None:
        nonlocal most
        async with pool.lease(SMALL, seconds=10.0):
            most = max(most, len(sandboxes.open))
            await act.wait()

    async with SandboxPool(max_sandboxes=20, memory_mb=100_000, gate_places=3, nested_sandboxes=2) as pool:
        holding = [asyncio.create_task(hold(pool)) for _ in range(20)]
        for _ in range(1000):
            await asyncio.sleep(0)
        act.set()
        await asyncio.gather(*holding)
    assert most == 14


async def lease_several(pool: SandboxPool, count: int) -> None:
    async with contextlib.AsyncExitStack() as stack:
        async with pool.pairing:
            await stack.enter_async_context(pool.lease(SMALL, seconds=10.0))
            for held in range(1, count):
                await asyncio.sleep(0)
                await stack.enter_async_context(pool.lease(LARGE, seconds=10.0, held=held))
        await asyncio.sleep(0)


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize(("most", "memory_mb"), [(1, 10_000), (3, 10_000), (100, 300)])
async def test_blocks_that_need_several_sandboxes_do_not_wait_for_each_other(
    sandboxes: Sandboxes, most: int, memory_mb: int, count: int
) -> None:
    pool = SandboxPool(gate_places=4, max_sandboxes=most, memory_mb=memory_mb)
    async with asyncio.timeout(HANG_SECONDS), pool:
        await asyncio.gather(
            *(lease_several(pool, count) for _ in range(5)), *(number(pool, None) for _ in range(5))
        )
    assert sandboxes.started == 5 * count + 5
    assert sandboxes.most <= max(most, count)


async def wait_while(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(HANG_SECONDS):
        while holds():  # noqa: ASYNC110  because the pool has no event for each change
            await asyncio.sleep(0)


async def test_a_prepared_sandbox_is_for_one_lease_without_a_key(sandboxes: Sandboxes) -> None:
    ages: list[float | None] = []
    async with SandboxPool() as pool:
        pool.on_claim = lambda _settings, _seconds, age: ages.append(age)
        assert await pool.prepare(SMALL, 10.0)
        assert await number(pool, "a") == 2
        assert [await number(pool, None, each) for each in (LARGE, SMALL, SMALL)] == [3, 1, 4]
        assert [age is not None for age in ages] == [False, True, False]
        pool.discard("a")


async def test_a_prepared_sandbox_ends_as_late_as_one_that_was_started_for_the_lease(
    sandboxes: Sandboxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "MARGIN_SECONDS", 0.0)
    async with SandboxPool() as pool:
        await pool.prepare(SMALL, 10.0)
        async with pool.lease(SMALL, seconds=0.01):
            await wait_while(lambda: bool(sandboxes.open))


@pytest.mark.parametrize("lost", [True, False])
async def test_a_lost_sandbox_is_lent_to_nobody(
    sandboxes: Sandboxes, monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    async with SandboxPool() as pool:
        await pool.prepare(SMALL, 10.0)
        await number(pool, "a")
        monkeypatch.setattr(Numbered, "is_lost", lost)
        assert [await number(pool, None), await number(pool, "a")] == ([3, 4] if lost else [1, 2])


async def test_a_prepared_sandbox_gives_way_to_a_lease_that_lacks_its_memory(
    sandboxes: Sandboxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "IDLE_SECONDS", HANG_SECONDS)
    async with SandboxPool(memory_mb=300) as pool:
        assert await pool.prepare(SMALL, 10.0)
        assert await number(pool, None, LARGE) == 2
        async with pool.lease(LARGE, seconds=10.0):
            assert not await pool.prepare(SMALL, 10.0), "no memory is left"


async def test_the_stock_follows_the_demand_of_the_last_minute(
    sandboxes: Sandboxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stocks, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(stocks, "BURST_SECONDS", HANG_SECONDS)
    async with SandboxPool(memory_mb=1000) as pool, Stock(pool) as stock:
        assert stock.count == 0, "nobody has claimed one"
        await asyncio.gather(*(number(pool, None) for _ in range(3)))
        await wait_while(lambda: stock.count < 3)
        started = sandboxes.started
        assert await number(pool, None) <= started
        await wait_while(lambda: stock.count < 4)
        await number(pool, None, LARGE)
        for _ in range(50):
            await asyncio.sleep(0)
        assert stock.count == 4, "another one of LARGE would exceed half of the memory"
        monkeypatch.setattr(stocks, "WINDOW_SECONDS", 0.0)
        await wait_while(lambda: stock.count > 0 or bool(sandboxes.open))


@each_case(
    ("times", "burst"), [([], 0), ([5.0], 1), ([0.0, 1.0, 2.0, 2.5], 3), ([0.0, 9.0, 9.5, 30.0, 31.0], 2)]
)
def test_a_burst_is_the_most_claims_within_two_seconds(times: list[float], burst: int) -> None:
    assert count_burst(times) == burst


async def test_the_stock_of_all_kinds_takes_at_most_half_of_the_memory(
    sandboxes: Sandboxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stocks, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(stocks, "BURST_SECONDS", HANG_SECONDS)
    async with SandboxPool(memory_mb=800) as pool, Stock(pool) as stock:
        await number(pool, None, LARGE)
        await wait_while(lambda: stock.ready < 1)
        await asyncio.gather(*(number(pool, None) for _ in range(3)))
        await wait_while(lambda: stock.ready < 2)
        for _ in range(50):
            await asyncio.sleep(0)
        assert [pool.count_idle(PREPARED, each) for each in (LARGE, SMALL)] == [1, 1], "400 MiB are half"
