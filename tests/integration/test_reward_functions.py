"""Reward functions of verl and SkyRL, called as these packages call them, and the client of OpenRLHF."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from bundled import load_bundled
from case_checks import each_case
from docker import APIClient
from failing_backend import FailingBackend
from readers import OPENRLHF, SKYRL, VERL
from service_fixtures import TOKEN, Served, serve

from harness import UsageError
from harness.client.connection import ServiceUnreachableError
from harness.host import retries
from harness.rl import verl
from harness.rl.grading import RewardUnavailableError

MBPP = load_bundled("mbpp")
TASK = MBPP.tasks[0].id
TESTS = json.dumps({"kind": "calls", "function": "add", "tests": [{"arguments": [1, 2], "result": 3}]})
RIGHT, WRONG = (f"Here:\n```python\ndef add(a, b): return {value}\n```" for value in ("a + b", "4"))

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url() -> AsyncIterator[str]:
    async with serve(benchmarks=(MBPP,)) as running:
        yield address(running)


def address(served: Served) -> str:
    return f"{served.url}/{TOKEN}"


# As verl's reward manager `naive` does it: a path in the config, and an await if the function is a coroutine.
VERL_PROGRAM = """
import asyncio, importlib.util, inspect, json, sys
from functools import partial
spec = importlib.util.find_spec("verl")
path = f"{spec.submodule_search_locations[0]}/utils/import_utils.py"
found = importlib.util.spec_from_file_location("import_utils", path)
module = importlib.util.module_from_spec(found)
found.loader.exec_module(module)
url, rows = sys.argv[1], json.loads(sys.argv[2])

def load(name):
    return partial(module.load_extern_object("pkg://harness.rl.verl", name), url=url)

async def run_single(row):
    score = load("compute_score_async")
    assert inspect.iscoroutinefunction(score)
    return await score(**row, extra_info={"num_turns": None}, reward_router_address=None)

async def run_all():
    return await asyncio.gather(*map(run_single, rows))

batch = {f"{name}s": [row[name] for row in rows] for name in rows[0]}
print(json.dumps([
    asyncio.run(run_all()),
    [load("compute_score")(**row, extra_info={}) for row in rows],
    load("compute_scores")(**batch, extra_infos=[{}] * len(rows)),
]))
"""


async def test_verl_rewards_responses_one_by_one_and_in_batches(url: str) -> None:
    solution = f"```python\n{MBPP.references[TASK].solution}\n```"
    rows = [
        {"data_source": "own", "solution_str": RIGHT, "ground_truth": TESTS},
        {"data_source": "own", "solution_str": WRONG, "ground_truth": TESTS},
        {"data_source": "own", "solution_str": "```python\nraise SystemExit(0)\n```", "ground_truth": TESTS},
        {"data_source": "mbpp", "solution_str": solution, "ground_truth": TASK},
    ]
    replies = json.loads(await asyncio.to_thread(VERL.run, VERL_PROGRAM, url, json.dumps(rows)))
    assert [[each["score"] for each in reply] for reply in replies] == [[1.0, 0.0, 0.0, 1.0]] * 3
    keys = {tuple(each) for reply in replies for each in reply}
    assert keys == {("score", "acc", "status")}, "verl needs the same keys in every sample"


async def test_a_service_that_is_away_is_an_error_and_not_a_reward_of_zero() -> None:
    with pytest.raises((RewardUnavailableError, ServiceUnreachableError)):
        await verl.compute_score_async(
            "own", RIGHT, TESTS, url=f"http://127.0.0.1:9/{TOKEN}", timeout_seconds=1.0
        )


@each_case(
    ("ground_truth", "message"),
    [
        (None, "row 0 has no judge"),
        ("{broken", "row 0: the ground truth is not JSON"),
        ({"task_id": None}, "row 0 has no judge"),
    ],
)
async def test_a_ground_truth_without_a_judge_is_refused(ground_truth: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        verl.compute_score("own", RIGHT, ground_truth)


async def test_a_setting_that_nobody_reads_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown setting 'timeout'"):
        verl.compute_score("own", RIGHT, TESTS, timeout=3)  # type: ignore[call-arg]


SKYRL_PROGRAM = """
import json, sys
import skyrl_gym
from skyrl_gym.envs import register
register(id="harness", entry_point="harness.rl.skyrl:VerdictEnv")
url, replies, tests = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
steps = []
for reply in replies:
    env = skyrl_gym.make(
        "harness", env_config={"url": url}, extras={"reward_spec": {"ground_truth": tests}, "max_turns": 1}
    )
    prompt, info = env.init([{"role": "user", "content": "Write add."}])
    step = env.step(reply)
    steps.append([step["reward"], step["done"], env.get_metrics()])
    env.close()
print(json.dumps(steps))
"""


async def test_skyrl_rewards_the_reply_of_an_episode(url: str) -> None:
    printed = await asyncio.to_thread(SKYRL.run, SKYRL_PROGRAM, url, json.dumps([RIGHT, WRONG]), TESTS)
    assert json.loads(printed.splitlines()[-1]) == [
        [1.0, True, {"passed": 1.0, "status": "passed"}],
        [0.0, True, {"passed": 0.0, "status": "failed"}],
    ]


# The packages `openrlhf` and `openrlhf.utils` import torch, which their file with the client does not need.
OPENRLHF_PROGRAM = """
import asyncio, importlib.util, json, sys, types
found = importlib.util.find_spec("openrlhf")
for name, folder in (("openrlhf", ""), ("openrlhf.utils", "/utils")):
    package = types.ModuleType(name)
    package.__path__ = [found.submodule_search_locations[0] + folder]
    sys.modules[name] = package
from openrlhf.utils.agent import SingleTurnAgentExecutor

url, queries, prompts, labels = sys.argv[1], *map(json.loads, sys.argv[2:])
client = SingleTurnAgentExecutor(url)
print(json.dumps(asyncio.run(client._fetch_rewards_via_http(queries, prompts, labels))))
"""
LABEL = json.dumps({"kind": "asserts", "tests": ["assert add(1, 2) == 3", "assert add(20, 22) == 42"]})
PROMPT = "<|im_start|>user\nWrite add.<|im_end|>\n<|im_start|>assistant\n"


def write_query(program: str) -> str:
    return f"{PROMPT}Here:\n```python\n{program}\n```<|im_end|>"


async def test_the_client_of_openrlhf_tries_again_after_a_fault_and_gets_a_reward_for_each_query(
    client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "BACKOFF_SECONDS", 0.0)
    backend = FailingBackend(client)
    async with serve(backend=backend, max_concurrent=1) as served:
        backend.refusals = retries.INFRA_TRIES
        programs = ("def add(a, b): return a + b", "def add(a, b): return 3", "import os\nos._exit(0)")
        columns = [[write_query(each) for each in programs], [PROMPT] * 3, [LABEL] * 3]
        arguments = [f"{served.url}/{TOKEN}/get_reward", *map(json.dumps, columns)]
        output = await asyncio.to_thread(OPENRLHF.run, OPENRLHF_PROGRAM, *arguments)
        (reply,) = json.loads(output.splitlines()[-1])
        assert await served.read_metric('harness_requests_total{operation="get_reward",status="503"}') == 1
    assert reply["rewards"] == reply["scores"] == [1.0, 0.0, 0.0]
