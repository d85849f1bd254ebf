"""Tasks as environments of OpenEnv, with a real client of WebSockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from case_checks import each_case
from service_fixtures import TOKEN, Served, serve
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from harness.benchmarks import Benchmark, load_benchmark

COUNT = "os/sample/answers/0"
STATE = "os/sample/states/1"


@pytest.fixture(scope="module")
def benchmarks() -> tuple[Benchmark, ...]:
    return load_benchmark("agentbench", data="bundled"), load_benchmark("mbpp", data="bundled")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(benchmarks: tuple[Benchmark, ...]) -> AsyncIterator[Served]:
    async with serve(benchmarks=benchmarks) as running:
        yield running


pytestmark = pytest.mark.asyncio(loop_scope="module")


class OpenEnvClient:
    """Sends the messages of OpenEnv's client."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def ask(self, kind: str, **data: Any) -> dict[str, Any]:
        await self.socket.send(json.dumps({"type": kind, "data": data}))
        reply: dict[str, Any] = json.loads(await self.socket.recv())
        return reply

    async def observe(self, kind: str, **data: Any) -> dict[str, Any]:
        reply = await self.ask(kind, **data)
        assert reply["type"] == "observation", reply
        found: dict[str, Any] = reply["data"]
        return found

    async def fail(self, kind: str, **data: Any) -> str:
        reply = await self.ask(kind, **data)
        assert reply["type"] == "error", reply
        code: str = reply["data"]["code"]
        return code


@contextlib.asynccontextmanager
async def open_client(served: Served) -> AsyncIterator[OpenEnvClient]:
    url = served.url.replace("http", "ws", 1)
    async with connect(f"{url}/{TOKEN}/ws", proxy=None) as socket:
        yield OpenEnvClient(socket)


def reset_to(task_id: str, benchmark: str = "agentbench") -> dict[str, Any]:
    return {"benchmark": benchmark, "task_id": task_id}


async def wait_until_free(served: Served) -> None:
    while await served.read_metric("harness_sessions"):  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def test_an_agent_acts_in_a_sandbox_and_is_graded(
    served: Served, benchmarks: tuple[Benchmark, ...]
) -> None:
    async with open_client(served) as client:
        start = await client.observe("reset", **reset_to(COUNT), episode_id="first")
        assert (start["reward"], start["done"]) == (None, False)
        assert start["observation"]["text"] == benchmarks[0].tasks[15].prompt
        assert [tool["name"] for tool in start["observation"]["tools"]] == ["bash", "submit"]
        seen = await client.observe("step", tool="bash", arguments={"command": "echo $((6 * 7))"})
        assert "42" in seen["observation"]["text"]
        answer = benchmarks[0].references[COUNT].solution
        end = await client.observe("step", tool="submit", arguments={"answer": answer})
        assert (end["reward"], end["done"], end["observation"]["status"]) == (1.0, True, "passed")
        state = (await client.ask("state"))["data"]
        assert (state["episode_id"], state["step_count"], state["status"]) == ("first", 2, "passed")
        assert await client.fail("step", tool="bash", arguments={"command": "ls"}) == "VALIDATION_ERROR"
    await wait_until_free(served)


async def test_a_wrong_answer_has_no_reward_and_tells_no_reference(
    served: Served, benchmarks: tuple[Benchmark, ...]
) -> None:
    async with open_client(served) as client:
        await client.observe("reset", **reset_to(COUNT))
        end = await client.observe("step", tool="submit", arguments={"answer": "wrong"})
        assert (end["reward"], end["done"], end["observation"]["status"]) == (0.0, True, "failed")
        assert benchmarks[0].references[COUNT].solution not in json.dumps(end)


async def test_a_state_that_an_agent_left_is_graded(
    served: Served, benchmarks: tuple[Benchmark, ...]
) -> None:
    async with open_client(served) as client:
        await client.observe("reset", **reset_to(STATE))
        solution = benchmarks[0].references[STATE].solution
        await client.observe("step", tool="bash", arguments={"command": solution})
        end = await client.observe("step", tool="submit", arguments={"answer": "done"})
        assert end["reward"] == 1.0


async def test_the_reply_of_a_model_is_read_for_its_action(served: Served) -> None:
    async with open_client(served) as client:
        await client.observe("reset", **reset_to("kg/dev/0"))
        seen = await client.observe("step", reply="I do not know what to do.")
        assert (seen["reward"], seen["done"]) == (None, False)
        assert seen["observation"]["text"]


async def test_a_program_is_graded_in_one_step(served: Served, benchmarks: tuple[Benchmark, ...]) -> None:
    mbpp = benchmarks[1]
    task = mbpp.tasks[0]
    async with open_client(served) as client:
        start = await client.observe("reset", **reset_to(task.id, "mbpp"))
        assert start["observation"]["text"] == task.prompt
        end = await client.observe("step", solution=mbpp.references[task.id].solution)
        assert (end["reward"], end["done"]) == (1.0, True)
        await client.observe("reset", **reset_to(task.id, "mbpp"))
        end = await client.observe("step", solution="raise SystemExit(0)")
        assert (end["reward"], end["done"]) == (0.0, True)


async def test_the_id_of_a_task_may_be_a_number(served: Served, benchmarks: tuple[Benchmark, ...]) -> None:
    task = benchmarks[1].tasks[0]
    async with open_client(served) as client:
        start = await client.observe("reset", benchmark="mbpp", task_id=int(task.id))
    assert start["observation"]["task_id"] == task.id


async def test_a_seed_names_the_same_task_again(served: Served) -> None:
    async with open_client(served) as client:
        drawn = [
            (await client.observe("reset", benchmark="mbpp", seed=seed))["observation"]["task_id"]
            for seed in (1, 2, 1, 3, 4)
        ]
    assert drawn[0] == drawn[2]
    assert len({*drawn}) > 1


@each_case(
    ("kind", "data", "code"),
    [
        ("step", {"tool": "bash"}, "VALIDATION_ERROR"),
        ("reset", {"benchmark": "unknown"}, "VALIDATION_ERROR"),
        ("reset", {}, "VALIDATION_ERROR"),
        ("reset", {"benchmark": "mbpp", "task_id": "unknown"}, "VALIDATION_ERROR"),
        ("step", {"tool": "bash", "reply": "both"}, "VALIDATION_ERROR"),
        ("dance", {}, "UNKNOWN_TYPE"),
        ("reset", {"benchmark": "mbpp", "task_id": "\ud800"}, "VALIDATION_ERROR"),
    ],
    ids=["no episode", "benchmark", "which benchmark", "task", "two actions", "type", "half of a pair"],
)
async def test_a_wrong_message_is_an_error_and_the_conversation_goes_on(
    served: Served, kind: str, data: dict[str, Any], code: str
) -> None:
    async with open_client(served) as client:
        assert await client.fail(kind, **data) == code
        await client.socket.send("no JSON")
        assert json.loads(await client.socket.recv())["data"]["code"] == "INVALID_JSON"
        assert (await client.ask("state"))["type"] == "state"


async def test_a_client_that_leaves_frees_its_environment(served: Served) -> None:
    async with open_client(served) as client:
        await client.observe("reset", **reset_to(COUNT))
        assert await served.read_metric("harness_sessions") == 1
        call = {"tool": "bash", "arguments": {"command": "sleep 100"}}
        await client.socket.send(json.dumps({"type": "step", "data": call}))
        client.socket.transport.abort()
    await wait_until_free(served)
    assert await served.read_metric("harness_sandboxes") <= 1


async def test_a_closed_episode_frees_its_environment(served: Served) -> None:
    async with open_client(served) as client:
        await client.observe("reset", **reset_to("kg/dev/0"))
        await client.socket.send(json.dumps({"type": "close"}))
        await client.socket.wait_closed()
    await wait_until_free(served)


async def test_a_service_without_benchmarks_has_no_environments() -> None:
    async with serve() as plain:
        url = plain.url.replace("http", "ws", 1)
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"{url}/{TOKEN}/ws", proxy=None).__aenter__()
    assert refused.value.response.status_code == 404
    assert b"harness serve -b" in (refused.value.response.body or b"")


async def test_environments_count_as_sandboxes_of_their_client(benchmarks: tuple[Benchmark, ...]) -> None:
    async with (
        serve(benchmarks=benchmarks, client_sessions=1) as small,
        open_client(small) as first,
        open_client(small) as second,
    ):
        await first.observe("reset", **reset_to("kg/dev/0"))
        assert await second.fail("reset", **reset_to("kg/dev/0")) == "CAPACITY_REACHED"
        response = await small.post("/v1/sandboxes")
        assert (response.status_code, response.json()["error"]["code"]) == (429, "too_many_requests")
