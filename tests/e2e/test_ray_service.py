"""A service on the nodes of a Ray cluster of this machine, whose nodes have a private Docker engine each."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from e2e.command_line import Harness, wait_until
from e2e.served_process import ServedProcess, start_service
from effort import THOROUGH
from ray_nodes import RayNodes, find_ray_obstacle

from harness.runs.executors.ray_cluster import connect_ray
from harness.runs.executors.ray_nodes import NodeLost, RayNode

KILLS = 5
# Enough that a node is killed while both nodes work.
REQUESTS = 120
CLIENTS = 16
# One that the service may give to a request that it did not finish. The client sends it again.
REFUSALS = (503, 504)
HANG_SECONDS = 1800 if THOROUGH else 600

pytestmark = [
    pytest.mark.skipif(find_ray_obstacle() is not None, reason=str(find_ray_obstacle())),
    pytest.mark.timeout(HANG_SECONDS),
]


def post(served: ServedProcess, path: str, **values: Any) -> httpx.Response:
    return httpx.post(f"{served.url}/{path}", json=values, timeout=300, trust_env=False)


def run_program(served: ServedProcess, code: str, **values: Any) -> httpx.Response:
    return post(served, "run_code", code=code, language="python", **values)


def send_until_answered(send: Callable[[], httpx.Response]) -> dict[str, Any]:
    """Send a request again while the service refuses it, as its clients do, and return its reply."""
    while (reply := send()).status_code in REFUSALS:
        time.sleep(0.2)
    assert reply.status_code == 200, reply.text
    value: dict[str, Any] = reply.json()
    return value


def read_metric(served: ServedProcess, name: str) -> float:
    lines = httpx.get(f"{served.url}/metrics", timeout=60, trust_env=False).text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))


def test_two_nodes_answer_as_one_machine_does(harness: Harness, nodes: RayNodes) -> None:
    file = {"files": {"data.txt": "YWJj"}, "fetch_files": ["out.txt"]}
    copy = "open('out.txt', 'w').write(open('data.txt').read() * 2)"
    tests = {"kind": "stdin", "tests": [{"input": "3 4\n", "output": "7\n"}]}
    right, wrong = "print(sum(map(int, input().split())))", "print(0)"
    made = {}
    for name, options in {"local": (), "ray": nodes.options}.items():
        with start_service(harness, *options) as served:
            replies = [
                run_program(served, "print(input()[::-1])", stdin="abc"),
                run_program(served, "raise SystemExit(3)"),
                run_program(served, "x = 'a' * (1 << 31)"),
                run_program(served, copy, **file),
                post(served, "run_code", code="echo hello; exit 2", language="bash"),
            ]
            samples = [{"solution": solution, "tests": tests} for solution in (right, wrong)]
            graded = post(served, "v1/grade", samples=samples).json()
            made[name] = (
                [(reply.status_code, drop_times(reply.json())) for reply in replies],
                [(verdict["status"], verdict["score"]) for verdict in graded["verdicts"]],
            )
            if name == "ray":
                assert read_metric(served, "harness_machines") == 2
    assert made["ray"] == made["local"]
    assert made["ray"][1] == [("passed", 1.0), ("failed", 0.0)]


def drop_times(reply: dict[str, Any]) -> dict[str, Any]:
    if reply.get("run_result"):
        reply["run_result"]["execution_time"] = None
    return reply


@pytest.mark.thorough
def test_a_node_that_is_killed_under_load_costs_no_answer(harness: Harness, nodes: RayNodes) -> None:
    seed = random.SystemRandom().randrange(2**32)
    source = random.Random(seed)
    tests = {"kind": "stdin", "tests": [{"input": "3 4\n", "output": "7\n"}]}
    right = "import time; time.sleep(0.3); print(sum(map(int, input().split())))"

    def send(number: int) -> str:
        if number % 2:
            code: dict[str, Any] = {"code": right, "stdin": "3 4", "compile_timeout": 30, "run_timeout": 30}
            return str(send_until_answered(lambda: run_program(served, **code))["status"])
        samples = [{"solution": right, "tests": tests}]
        reply = send_until_answered(lambda: post(served, "v1/grade", samples=samples))
        return str(reply["verdicts"][0]["status"])

    with start_service(harness, *nodes.options, "--max-concurrent", "2") as served:
        for _ in range(KILLS):
            assert read_metric(served, "harness_machines") == 2
            with ThreadPoolExecutor(CLIENTS) as threads:
                sent = [threads.submit(send, number) for number in range(REQUESTS)]
                goal = source.randrange(1, REQUESTS // 2)
                concurrent.futures.wait(sent[:goal])
                number = source.randrange(2)
                nodes.kill_node(number)
                outcomes = Counter(each.result() for each in sent)
            assert outcomes == {"Success": REQUESTS // 2, "passed": REQUESTS // 2}, seed
            assert read_metric(served, "harness_machines") == 1
            nodes.add_node(number)
            wait_until(lambda: read_metric(served, "harness_machines") == 2, "two machines", seconds=120)
        code, errors = served.end(signal.SIGTERM)
    assert code == 128 + signal.SIGTERM, errors
    assert "is lost" in errors, seed


@pytest.mark.thorough
def test_a_node_works_again_once_its_engine_is_back(harness: Harness, nodes: RayNodes) -> None:
    def sleep() -> httpx.Response:
        return run_program(served, "import time; time.sleep(1)")

    with start_service(harness, *nodes.options) as served:
        assert read_metric(served, "harness_machines") == 2
        nodes.engines[0].stop()
        try:
            with ThreadPoolExecutor(4) as threads:
                # Each machine gets some of them, because they are at work at the same time.
                sent = [threads.submit(send_until_answered, sleep) for _ in range(8)]
                assert Counter(each.result()["status"] for each in sent) == {"Success": 8}
            assert read_metric(served, "harness_machines") == 1
        finally:
            nodes.engines[0].start()
        wait_until(lambda: read_metric(served, "harness_machines") == 2, "two machines", seconds=300)


@pytest.mark.thorough
async def test_work_that_a_node_cancels_at_its_end_is_lost_and_no_defect(nodes: RayNodes) -> None:
    class Actor:
        def __init__(self) -> None:
            self.tasks: asyncio.Queue[asyncio.Task[Any] | None] = asyncio.Queue()

        async def perform(self, _item: None) -> None:
            self.tasks.put_nowait(asyncio.current_task())
            await asyncio.Event().wait()

        async def stream(self, item: None) -> AsyncIterator[None]:
            yield None
            await self.perform(item)

        async def close(self) -> None:
            task = await self.tasks.get()
            assert task is not None
            task.cancel()

    async def iterate() -> None:
        async for _result in node.stream("stream", None):
            pass

    async with connect_ray(nodes.address) as ray:
        actor = ray.remote(Actor).options(num_cpus=0).remote()
        node = RayNode("id", "node", 1, ray, actor)
        for work in (node.ask("perform", None), iterate()):
            asked = asyncio.ensure_future(work)
            await asyncio.sleep(0)
            await actor.close.remote()
            with pytest.raises(NodeLost):
                await asked


@pytest.mark.thorough
def test_a_killed_service_leaves_nothing_on_any_node(harness: Harness, nodes: RayNodes) -> None:
    with start_service(harness, *nodes.options) as served, ThreadPoolExecutor(4) as threads:
        sleep = "import time; time.sleep(60)"
        waiting = [threads.submit(run_program, served, sleep, run_timeout=60) for _ in range(4)]
        wait_until(lambda: len(nodes.containers()) >= 2, "containers of the service")
        served.end(signal.SIGKILL)
        wait_until(lambda: nodes.containers() == [], "no container on any engine", seconds=60)
        for each in waiting:
            with pytest.raises(httpx.TransportError):
                each.result()


@pytest.mark.thorough
def test_a_terminated_service_finishes_the_requests_of_its_nodes(harness: Harness, nodes: RayNodes) -> None:
    with start_service(harness, *nodes.options) as served, ThreadPoolExecutor(1) as threads:
        # Ray's own handler of the signal would abort the service after three seconds.
        running = threads.submit(run_program, served, "import time; time.sleep(5)")
        wait_until(lambda: read_metric(served, "harness_working") == 1, "a request at work")
        code, errors = served.end(signal.SIGTERM)
        assert running.result().json()["status"] == "Success"
    assert code == 128 + signal.SIGTERM, errors
    entries = [json.loads(line) for line in errors.splitlines()]
    assert entries
    assert not [entry for entry in entries if "traceback" in entry or entry["level"] == "error"]


@pytest.mark.thorough
def test_a_client_that_leaves_frees_its_sandbox_on_the_node(harness: Harness, nodes: RayNodes) -> None:
    with start_service(harness, *nodes.options) as served:
        sleep = {"code": "import time; time.sleep(60)", "language": "python", "run_timeout": 60}
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{served.url}/run_code", json=sleep, timeout=10, trust_env=False)
        wait_until(lambda: nodes.containers() == [], "no container on any engine")
        assert read_metric(served, "harness_working") == 0


def test_options_that_do_not_go_together_are_refused(harness: Harness) -> None:
    for options, message in (
        (("--executor", "ray", "--token", "a-token-of-the-tests"), "Ray shows the command line to everybody"),
        (("--ray-address", "127.0.0.1:1"), "--ray-address has no effect"),
    ):
        code, _, stderr = harness.refused("serve", *options)
        assert (code, message in stderr) == (2, True), stderr
