"""Rewards for trainers: the same verdicts from sandboxes of this machine and from a service."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest
import pytest_asyncio
from bundled import load_bundled
from case_checks import each_case
from docker import APIClient
from failing_backend import FailingBackend
from service_fixtures import TOKEN, Served, serve

from harness import UsageError
from harness.client.connection import ServiceUnreachableError
from harness.core.errors import HarnessError
from harness.host import retries
from harness.rl.grading import HeldGrading, RewardSample, RewardUnavailableError
from harness.rl.openings import open_remote
from harness.rl.trl import VerdictReward

MBPP = load_bundled("mbpp")
ASSERTS = {"kind": "asserts", "tests": ["assert add(1, 2) == 3", "assert add(20, 22) == 42"]}
STDIN = {"kind": "stdin", "tests": [{"input": "3 4\n", "output": "7\n"}], "seconds": 1.0}
ADD = "def add(a, b):\n    return a + b\n"
T = TypeVar("T")

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[Served]:
    async with serve(benchmarks=(MBPP,)) as running:
        yield running


@pytest.fixture(params=["here", "service"])
def reward(request: pytest.FixtureRequest, served: Served) -> Iterator[VerdictReward]:
    made = (
        VerdictReward(benchmarks=[MBPP], max_concurrent=2)
        if request.param == "here"
        else VerdictReward(f"{served.url}/{TOKEN}")
    )
    yield made
    made.close()


async def block(call: Callable[[], T]) -> T:
    """Return the result of a call that blocks. The loop's own threads are those of the service."""
    with ThreadPoolExecutor(1) as pool:
        return await asyncio.get_running_loop().run_in_executor(pool, call)


async def test_each_completion_has_the_score_of_its_verdict(reward: VerdictReward) -> None:
    completions = [ADD, "def add(a, b): return 3", "import sys; sys.exit(0)", "while True: pass", "print(7)"]
    tests = [json.dumps(each) for each in [ASSERTS, ASSERTS, ASSERTS, STDIN, STDIN]]
    rewards = await block(lambda: reward([""] * 5, completions, tests=tests, other=[1] * 5))
    assert rewards == [1.0, 0.0, 0.0, 0.0, 1.0]


async def test_a_conversation_ends_with_a_reply(reward: VerdictReward) -> None:
    messages = [
        {"role": "assistant", "content": "```python\ndef add(a, b): return 0\n```"},
        {"role": "user", "content": "Are you sure?"},
        {"role": "assistant", "content": f"No:\n```python\n{ADD}```"},
    ]
    # The rows of a dataset have the keys of all others, with None.
    rewards = await block(lambda: reward([[]], [messages], tests=[{**ASSERTS, "function": None}]))
    assert rewards == [1.0]


async def test_a_row_names_a_task_of_a_benchmark(reward: VerdictReward) -> None:
    task = MBPP.tasks[0]
    completions = [MBPP.references[task.id].solution, ADD]
    columns: dict[str, Any] = {"benchmark": ["mbpp"] * 2, "task_id": [int(task.id)] * 2, "tests": None}
    assert await block(lambda: reward([""] * 2, completions, **columns)) == [1.0, 0.0]


@each_case(
    ("columns", "message"),
    [
        ({}, "row 0 has no judge"),
        ({"tests": ["{"]}, "row 0: 'tests' is not JSON"),
        ({"tests": ["[]"]}, "row 0: 'tests' must be an object, not list"),
        ({"tests": [{"kind": "asserts", "tests": []}]}, "there are no tests"),
        ({"benchmark": ["mbpp"], "task_id": ["x"]}, "unknown task 'x'"),
    ],
)
async def test_a_row_that_cannot_be_graded_is_refused(
    reward: VerdictReward, columns: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        await block(lambda: reward([""], [ADD], **columns))


async def test_a_pickled_reward_opens_sandboxes_of_its_own(served: Served) -> None:
    with pickle.loads(pickle.dumps(VerdictReward(served.url, token=TOKEN))) as reward:
        assert await block(lambda: reward([""], [ADD], tests=[ASSERTS])) == [1.0]
    with pytest.raises(UsageError, match="closed"):
        reward([""], [ADD], tests=[ASSERTS])


async def test_the_trainer_logs_the_statuses(served: Served) -> None:
    logged: dict[str, Any] = {}
    with VerdictReward(served.url, token=TOKEN) as reward:
        log = logged.__setitem__
        await block(lambda: reward([""], [ADD], tests=[ASSERTS], log_extra=log, log_metric=log))
    assert logged == {"status": ["passed"], "verdict/faults": 0.0}


async def test_a_completion_without_a_verdict_has_no_reward(
    client: APIClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(retries, "BACKOFF_SECONDS", 0.0)
    backend = FailingBackend(client)
    async with serve(backend=backend) as served:
        backend.refusals = 1_000_000
        options: dict[str, Any] = {"token": TOKEN, "timeout_seconds": 1.0}
        with VerdictReward(served.url, **options) as reward:
            assert await block(lambda: reward([""] * 2, [ADD] * 2, tests=[ASSERTS] * 2)) == [None, None]
        assert "2 of 2 completions got no verdict" in caplog.text
        with (
            VerdictReward(served.url, faults="raise", **options) as reward,
            pytest.raises(RewardUnavailableError, match="got no verdict"),
        ):
            await block(lambda: reward([""], [ADD], tests=[ASSERTS]))


async def test_a_service_that_is_away_is_an_error_without_the_token() -> None:
    async with serve() as served:
        url = f"{served.url}/{TOKEN}"
        opened = VerdictReward(url, timeout_seconds=4.0)
        assert await block(lambda: opened([""], [ADD], tests=[ASSERTS])) == [1.0]
    errors: list[HarnessError] = []
    for reward in (opened, VerdictReward(url)):
        with pytest.raises((RewardUnavailableError, ServiceUnreachableError)) as raised:
            await block(lambda reward=reward: reward([""], [ADD], tests=[ASSERTS]))  # type: ignore[misc]
        errors.append(raised.value)
        await block(reward.close)
    assert [type(error) for error in errors] == [RewardUnavailableError, ServiceUnreachableError]
    assert all(served.url in error.message and TOKEN not in error.message for error in errors)


async def test_a_wrong_token_is_refused_at_once(served: Served) -> None:
    with (
        VerdictReward(served.url, token="another-token-of-the-tests") as reward,
        pytest.raises(UsageError, match="does not accept the token"),
    ):
        await block(lambda: reward([""], [ADD], tests=[ASSERTS]))


async def test_a_cancelled_call_ends_its_programs(served: Served) -> None:
    held = HeldGrading(lambda: open_remote(served.url, token=TOKEN))
    sample = RewardSample("import time\ntime.sleep(600)\n", "solution", tests=ASSERTS)
    call = asyncio.create_task(held.grade_async([sample]))
    while await served.read_metric("harness_working") != 1:
        assert not call.done()
        await asyncio.sleep(0.02)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    while await served.read_metric("harness_working") != 0:  # noqa: ASYNC110  because HTTP has no event
        await asyncio.sleep(0.02)
    await block(held.close)


async def test_a_failed_opening_is_tried_again_with_the_next_samples(served: Served) -> None:
    urls = iter(["no URL", served.url])
    held = HeldGrading(lambda: open_remote(next(urls), token=TOKEN))
    sample = RewardSample(ADD, "solution", tests=ASSERTS)
    with pytest.raises(UsageError, match="must begin with http"):
        await held.grade_async([sample])
    (verdict,) = await held.grade_async([sample])
    assert verdict.score == 1.0
    await block(held.close)


async def test_a_fault_is_tried_again_and_the_program_has_its_whole_time_then(
    client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "BACKOFF_SECONDS", 0.0)
    backend = FailingBackend(client)
    program = f"import time\ntime.sleep(3)\n{ADD}"
    async with serve(backend=backend, max_concurrent=1) as served:
        backend.refusals = retries.INFRA_TRIES
        with VerdictReward(served.url, token=TOKEN, timeout_seconds=60.0) as reward:
            assert await block(lambda: reward([""], [program], tests=[ASSERTS])) == [1.0]
        assert await served.read_metric("harness_faults_total") == retries.INFRA_TRIES
