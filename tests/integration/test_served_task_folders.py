"""A trainer acts in the machine of a task folder at a service, and its reward is that of the task's tests."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from docker import APIClient
from sealed_tasks import build_image, write_task
from service_fixtures import TOKEN, Served, serve
from websockets.asyncio.client import connect as connect_socket

from harness import connect
from harness.benchmarks import Benchmark, load_benchmark
from harness.core.errors import SandboxError
from harness.environments.base import MachineRules
from harness.sandbox.backends.base import BuildRules

pytestmark = pytest.mark.asyncio(loop_scope="module")
_TOML = "[verifier]\ntimeout_sec = 60\n[environment]\nmemory_mb = 512\n"
_NO_REWARD = "#!/bin/bash\necho the answer is 42\n"
SOLVE = "#!/bin/bash\necho 42 > /app/answer.txt\n"


@pytest.fixture(scope="module")
def folder(client: APIClient, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return three tasks: one to solve, one whose tests give no reward, and one that cannot run."""
    folder, image = tmp_path_factory.mktemp("folders") / "tasks", build_image(client)
    write_task(folder / "answer", "published:1", toml=_TOML)
    write_task(folder / "silent", image, toml=_TOML, script=_NO_REWARD)
    write_task(folder / "windows", image, toml='[environment]\nos = "windows"\n')
    return folder


@pytest.fixture(scope="module")
def benchmark(folder: Path) -> Benchmark:
    return load_benchmark(str(folder))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(benchmark: Benchmark, client: APIClient) -> AsyncIterator[Served]:
    rules = MachineRules(BuildRules((("published:*", build_image(client)),)), seal="work")
    async with serve(benchmarks=(benchmark,), machine_rules=rules) as running:
        yield running


async def test_a_step_is_a_call_in_the_machine_and_the_end_has_the_reward_of_its_tests(
    served: Served, benchmark: Benchmark
) -> None:
    rewards = {}
    for command in ("echo 42 > answer.txt; ls /tests", "echo 41 > answer.txt"):
        async with connect(served.url, token=TOKEN).environment(benchmark.name, "answer") as episode:
            assert "/app/answer.txt" in episode.prompt
            assert [*episode.tools] == ["bash", "submit"]
            seen = await episode.call("bash", {"command": command})
            verdict = await episode.submit("done")
            rewards[command] = (verdict.score, "No such file" in seen.text)
    assert [*rewards.values()] == [(1.0, True), (0.0, False)]


async def test_the_reply_of_a_model_is_a_call(served: Served, benchmark: Benchmark) -> None:
    async with connect(served.url, token=TOKEN).environment(benchmark.name, "answer") as episode:
        assert "bash" in episode.instructions
        seen = await episode.reply("I shall look around.")
        assert episode.verdict is None
        assert seen.text
        arguments = json.dumps({"command": "echo 42 > answer.txt"})
        await episode.reply(f"Act: bash\n\n```json\n{arguments}\n```")
        verdict = await episode.submit("")
    assert verdict.score == 1.0


async def test_tests_without_a_reward_are_an_error_that_tells_nothing_of_them(
    served: Served, benchmark: Benchmark, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect(served.url, token=TOKEN).environment(benchmark.name, "silent") as episode:
        with caplog.at_level(logging.WARNING), pytest.raises(SandboxError) as error:
            await episode.submit("done")
    assert "gave no reward" in str(error.value)
    assert "42" not in str(error.value)
    assert "the answer is 42" in caplog.text


async def test_a_task_that_is_drawn_can_run(served: Served, benchmark: Benchmark) -> None:
    assert set(benchmark.quarantined) == {"windows"}
    while await served.read_metric("harness_sessions"):  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    url = served.url.replace("http", "ws", 1)
    async with connect_socket(f"{url}/{TOKEN}/ws", proxy=None) as socket:
        # Among all three tasks, this seed draws the last one.
        await socket.send(json.dumps({"type": "reset", "data": {"seed": 3}}))
        reply = json.loads(await socket.recv())
    assert reply["type"] == "observation", reply
    assert reply["data"]["observation"]["task_id"] in ("answer", "silent")
