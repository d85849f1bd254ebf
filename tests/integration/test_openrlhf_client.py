"""The client of OpenRLHF, as PyPI serves it, gets its rewards from the service."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from docker import APIClient
from failing_backend import FailingBackend
from readers import OPENRLHF
from service_fixtures import TOKEN, serve

from harness.host import retries

# The packages `openrlhf` and `openrlhf.utils` import torch, which their file with the client does not need.
PROGRAM = """
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


RIGHT = write_query("def add(a, b):\n    return a + b")
WRONG = write_query("def add(a, b):\n    return 3")
EXIT = write_query("import os\nos._exit(0)")


async def test_the_client_tries_again_after_a_fault_and_gets_a_reward_for_each_query(
    client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "BACKOFF_SECONDS", 0.0)
    backend = FailingBackend(client)
    async with serve(backend=backend, max_concurrent=1) as served:
        backend.refusals = retries.INFRA_TRIES
        columns = [[RIGHT, WRONG, EXIT], [PROMPT] * 3, [LABEL] * 3]
        arguments = [f"{served.url}/{TOKEN}/get_reward", *map(json.dumps, columns)]
        with ThreadPoolExecutor(1) as pool:
            output = await asyncio.get_running_loop().run_in_executor(
                pool, lambda: OPENRLHF.run(PROGRAM, *arguments)
            )
        (reply,) = json.loads(output.splitlines()[-1])
        assert await served.read_metric('harness_requests_total{operation="get_reward",status="503"}') == 1
    assert reply["rewards"] == reply["scores"] == [1.0, 0.0, 0.0]
