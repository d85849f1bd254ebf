"""The client of OpenEnv, as PyPI serves it, against the service."""

from __future__ import annotations

import asyncio
import json

from readers import OPENENV
from service_fixtures import TOKEN, serve

from harness.benchmarks import load_benchmark

# The package imports its server and its web page, which need many others. Its client needs none of them.
PROGRAM = """
import asyncio, json, sys, types
from pathlib import Path
import openenv

core = types.ModuleType("openenv.core")
core.__path__ = [str(Path(openenv.__file__).with_name("core"))]
sys.modules["openenv.core"] = core
from openenv.core.generic_client import GenericEnvClient

async def main(url, task_id, solution):
    async with GenericEnvClient(base_url=url) as client:
        start = await client.reset(benchmark="agentbench", task_id=task_id, episode_id="one")
        seen = await client.step({"tool": "bash", "arguments": {"command": "echo $((6 * 7))"}})
        end = await client.step({"tool": "submit", "arguments": {"answer": solution}})
        state = await client.state()
        try:
            await client.reset(benchmark="agentbench", task_id="unknown")
        except RuntimeError as error:
            fault = str(error)
    tools = [tool["name"] for tool in start.observation["tools"]]
    results = [[each.reward, each.done] for each in (start, seen, end)]
    shown = seen.observation["text"]
    print(json.dumps({"tools": tools, "results": results, "shown": shown, "state": state, "fault": fault}))

asyncio.run(main(*sys.argv[1:]))
"""
TASK = "os/sample/answers/0"


async def test_the_client_of_openenv_completes_an_episode() -> None:
    benchmark = load_benchmark("agentbench", data="bundled")
    async with serve(benchmarks=(benchmark,)) as served:
        url, solution = f"{served.url}/{TOKEN}", benchmark.references[TASK].solution
        output = await asyncio.to_thread(OPENENV.run, PROGRAM, url, TASK, solution)
    found = json.loads(output)
    assert found["tools"] == ["bash", "submit"]
    assert found["results"] == [[None, False], [None, False], [1.0, True]]
    assert "42" in found["shown"]
    assert (found["state"]["episode_id"], found["state"]["status"]) == ("one", "passed")
    assert "unknown task" in found["fault"]
