"""`/get_reward`: a reward for each completion as OpenRLHF asks for it, or a request that can be repeated."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from bundled import load_bundled
from case_checks import each_case
from docker import APIClient
from failing_backend import FailingBackend
from service_fixtures import Served, serve

from harness.host import retries
from harness.service.verdicts import rewards

MBPP = load_bundled("mbpp")
ASSERTS = {"kind": "asserts", "tests": ["assert add(1, 2) == 3", "assert add(20, 22) == 42"]}
CALLS = {"kind": "calls", "function": "add", "seconds": 1.0}
ADD = "def add(a, b):\n    return a + b\n"
WRONG = "def add(a, b):\n    return 3\n"
PROMPT = "<|im_start|>user\nWrite add.\n```python\nadd(1, 2)\n```<|im_end|>\n<|im_start|>assistant\n"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[Served]:
    async with serve(benchmarks=(MBPP,)) as running:
        yield running


pytestmark = pytest.mark.asyncio(loop_scope="module")


def reply(program: str) -> str:
    return f"Here it is:\n```python\n{program}```\nDone.<|im_end|>"


async def ask(served: Served, *completions: str, label: Any = ASSERTS, prompt: str = PROMPT) -> Any:
    label = label if isinstance(label, str) else json.dumps(label)
    response = await served.post(
        "/get_reward",
        query=[prompt + completion for completion in completions],
        prompts=[prompt] * len(completions),
        labels=[label] * len(completions),
    )
    assert response.status_code == 200, response.text
    return response.json()


async def test_each_completion_has_its_reward_in_the_order_of_the_queries(served: Served) -> None:
    label = {**CALLS, "tests": [{"arguments": [1, 2], "result": 3}, {"arguments": [20, 22], "result": 42}]}
    queries = (reply(ADD), reply(WRONG), reply("while True: pass\n"), reply(ADD), "I cannot.")
    body = await ask(served, *queries, label=label)
    assert body["rewards"] == body["scores"] == [1.0, 0.0, 0.0, 1.0, 0.0]
    assert body["extra_logs"] == {
        "passed": [1.0, 0.0, 0.0, 1.0, 0.0],
        "timeout": [0.0, 0.0, 1.0, 0.0, 0.0],
    }


@each_case("program", ["raise SystemExit(0)\n", "import os; os._exit(0)\n", "print('3')\n"], ids=repr)
async def test_a_program_cannot_forge_its_reward(served: Served, program: str) -> None:
    assert (await ask(served, reply(program)))["rewards"] == [0.0]


async def test_a_label_names_a_task_of_a_loaded_benchmark(served: Served) -> None:
    task_id = MBPP.tasks[0].id
    label = {"benchmark": "mbpp", "task_id": int(task_id)}
    body = await ask(served, reply(MBPP.references[task_id].solution), reply(ADD), label=label)
    assert body["rewards"] == [1.0, 0.0]


async def test_a_label_chooses_the_kind_of_the_completion(served: Served) -> None:
    label = {**ASSERTS, "field": "solution"}
    body = await ask(served, f"{ADD}</s>", reply(ADD), label=label)
    assert body["rewards"] == [1.0, 0.0]


async def test_a_label_may_be_an_object(served: Served) -> None:
    response = await served.post("/get_reward", query=[reply(ADD)], prompts=[""], labels=[ASSERTS])
    assert response.json()["rewards"] == [1.0]


@each_case(
    ("wrong", "message"),
    [
        ({"query": []}, "query"),
        ({"prompts": []}, "'prompts' must have one entry for each query, 1, not 0"),
        ({"labels": ["3", "4"]}, "'labels' must have one entry for each query, 1, not 2"),
        ({"prompts": ["Another prompt"]}, "'query.0' does not contain its prompt"),
        ({"labels": ["3"]}, "'labels.0': the label must be an object"),
        ({"labels": ["{"]}, "'labels.0': the label is not JSON"),
        ({"labels": ["{}"]}, "'labels.0': needs either 'benchmark' and 'task_id', or 'tests'"),
        ({"labels": ['{"kind": "asserts", "tests": []}']}, "'labels.0': there are no tests"),
        ({"labels": ['{"benchmark": "mbpp", "task_id": "x"}']}, "unknown task 'x'"),
        ({"labels": ['{"benchmark": "/etc/passwd", "task_id": "x"}']}, "has not loaded the benchmark"),
        ({"labels": ['{"benchmark": "mbpp", "task_id": 11, "field": "task_id"}']}, "the key 'field'"),
        ({"labels": ['{"benchmark": "mbpp", "task_id": 11, "field": "id"}']}, "needs exactly one of"),
        ({"labels": ["[" + "[]," * 600_000 + "[]]"]}, "'labels' have too many values"),
    ],
)
async def test_a_request_that_has_no_rewards_names_the_fault(
    served: Served, wrong: dict[str, Any], message: str
) -> None:
    content = {"query": [reply(ADD)], "prompts": ["Here"], "labels": [json.dumps(ASSERTS)], **wrong}
    response = await served.post("/get_reward", **content)
    assert response.status_code in (413, 422)
    assert message in response.json()["error"]["message"]


async def test_a_fault_of_the_service_fails_the_whole_request(
    client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "BACKOFF_SECONDS", 0.0)
    backend = FailingBackend(client)
    async with serve(backend=backend, max_concurrent=1) as served:
        backend.refusals = retries.INFRA_TRIES
        query = [reply(ADD), reply(ADD)]
        content = {"query": query, "prompts": ["", ""], "labels": [ASSERTS, ASSERTS]}
        response = await served.post("/get_reward", **content)
        assert (response.status_code, response.json()["error"]["code"]) == (503, "grading_failed")
        assert "retry-after" in response.headers
        # The client tries again, and the fault is over.
        assert (await served.post("/get_reward", **content)).json()["rewards"] == [1.0, 1.0]


async def test_a_completion_that_cannot_be_graded_in_time_fails_the_whole_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rewards, "REQUEST_SECONDS", 3.0)
    monkeypatch.setattr(rewards, "SAMPLE_SECONDS", 1.5)
    query = [reply("import time\ntime.sleep(600)\n")] * 3
    async with serve(max_concurrent=1) as served:
        response = await served.post("/get_reward", query=query, prompts=[""] * 3, labels=[ASSERTS] * 3)
        assert (response.status_code, response.json()["error"]["code"]) == (504, "busy")
        assert await served.read_metric("harness_working") == 0
