"""`/v1/grade`: verdicts on batches, which no program of a batch can forge, delay or leave without an end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from bundled import load_bundled
from case_checks import each_case
from docker import APIClient
from failing_backend import FailingBackend
from service_fixtures import Served, serve

from harness.host import retries
from harness.sandbox import reaper

MBPP = load_bundled("mbpp")
GSM8K = load_bundled("gsm8k")
STDIN: dict[str, Any] = {"kind": "stdin", "tests": [{"input": "3 4\n", "output": "7\n"}], "seconds": 1.0}
CALLS = {"kind": "calls", "function": "add", "tests": [{"arguments": [1, 2], "result": 3}], "seconds": 1.0}
ASSERTS = {"kind": "asserts", "tests": ["assert add(1, 2) == 3", "assert add(20, 22) == 42"]}
ADD = "def add(a, b):\n    return a + b\n"
READ_AND_ADD = "a, b = map(int, input().split())\nprint(a + b)\n"
SLEEP = "import time\ntime.sleep(600)\n"
# Looks for the tests wherever a process of its user may look, and answers with what it finds.
SEARCH = """
import gc, glob, os, sys
def read(path):
    try:
        return open(path, "rb").read(1 << 20)
    except OSError:
        return b""
places = glob.glob("/proc/*/cmdline") + glob.glob("/proc/*/environ") + glob.glob("/tmp/*") + glob.glob("*")
found = b"".join(map(read, places)) + repr(gc.get_objects()).encode()
# The second test's arguments, in a form that this source does not hold.
def add(a, b):
    return a + b if bytes.fromhex("32302c203232") in found else 0
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[Served]:
    async with serve(benchmarks=(MBPP, GSM8K)) as running:
        yield running


pytestmark = pytest.mark.asyncio(loop_scope="module")


def sample(solution: str, tests: dict[str, Any] = ASSERTS, **values: Any) -> dict[str, Any]:
    return {"tests": tests, "solution": solution, **values}


async def grade(served: Served, *samples: dict[str, Any], **values: Any) -> list[dict[str, Any]]:
    response = await served.post("/v1/grade", samples=list(samples), **values)
    assert response.status_code == 200, response.text
    verdicts: list[dict[str, Any]] = response.json()["verdicts"]
    return verdicts


def list_statuses(verdicts: list[dict[str, Any]]) -> list[tuple[str, float | None]]:
    return [(verdict["status"], verdict["score"]) for verdict in verdicts]


async def wait_for_metric(served: Served, name: str, accept: Callable[[float], bool]) -> None:
    """Wait until a metric has a value. The time limit of the test ends a wait in vain."""
    while not accept(await served.read_metric(name)):  # noqa: ASYNC110  because HTTP has no event
        await asyncio.sleep(0.02)


async def test_right_programs_pass_and_wrong_ones_fail(served: Served) -> None:
    wrong = "def add(a, b):\n    return 3\n"
    verdicts = await grade(
        served,
        sample(ADD),
        sample(wrong),
        sample(READ_AND_ADD, STDIN),
        sample("print(8)", STDIN),
        sample(ADD, CALLS),
        sample("def add(a, b):\n    return '3'\n", CALLS),
    )
    assert list_statuses(verdicts) == [("passed", 1.0), ("failed", 0.0)] * 3
    assert [verdict["metrics"]["tests_passed"] for verdict in verdicts[:2]] == [2, 1]


async def test_every_fault_of_a_program_is_a_verdict(served: Served) -> None:
    verdicts = await grade(
        served,
        sample("while True: pass", STDIN),
        # Filling the memory takes processor time, which must not be over first.
        sample("x = bytearray(3 << 30)", {**STDIN, "seconds": 30.0}),
        sample("import os; os.kill(os.getpid(), 11)"),
        sample("def add(", CALLS),
    )
    statuses = [verdict["status"] for verdict in verdicts]
    assert statuses == ["timeout", "memory_limit", "crashed", "failed"]
    assert {verdict["score"] for verdict in verdicts} == {0.0}


@each_case(
    ("program", "tests"),
    [
        ("import sys; sys.exit(0)", ASSERTS),
        ("import os; os._exit(0)", ASSERTS),
        ("import os; os._exit(0)", STDIN),
        (f"{ADD}\nprint('7')\n", STDIN),
        ("class Any:\n    def __eq__(self, other): return True\ndef add(a, b): return Any()", ASSERTS),
        ("class Any(int):\n    def __eq__(self, other): return True\ndef add(a, b): return Any()", CALLS),
        ("import builtins\nbuiltins.AssertionError = type(None)\ndef add(a, b): return 3", ASSERTS),
        (SEARCH, ASSERTS),
    ],
    ids=["exit", "hard exit", "hard exit stdin", "print", "equal", "equal number", "builtins", "search"],
)
async def test_a_program_cannot_forge_its_verdict(
    served: Served, program: str, tests: dict[str, Any]
) -> None:
    tests = (
        {**STDIN, "tests": [*STDIN["tests"], {"input": "1 1", "output": "2"}]} if tests is STDIN else tests
    )
    (verdict,) = await grade(served, sample(program, tests))
    assert verdict["score"] == 0.0, verdict


async def test_a_benchmark_is_named_by_its_task_in_every_field(served: Served) -> None:
    task_id = MBPP.tasks[0].id
    task = {"benchmark": "mbpp", "task_id": int(task_id)}
    solution = MBPP.references[task_id].solution
    answer = {"benchmark": "gsm8k", "task_id": GSM8K.tasks[0].id}
    verdicts = await grade(
        served,
        {**task, "solution": solution},
        {**task, "reply": f"Here:\n```python\n{solution}\n```\nDone."},
        {**task, "task_id": task_id, "completion": solution},
        {**task, "reply": "I do not know."},
        {**answer, "answer": GSM8K.references[GSM8K.tasks[0].id].solution},
    )
    assert [verdict["score"] for verdict in verdicts] == [1.0, 1.0, 1.0, 0.0, 1.0]


async def test_the_program_of_a_reply_is_found_for_tests_of_the_client(served: Served) -> None:
    reply = f"<think>no</think>First:\n```python\n{ADD}```\nCall it:\n```python\nprint(add(1, 2))\n```"
    verdicts = await grade(
        served,
        {"tests": ASSERTS, "reply": reply},
        {"tests": CALLS, "reply": reply},
        {"tests": ASSERTS, "solution": reply},
    )
    assert [verdict["score"] for verdict in verdicts] == [1.0, 1.0, 0.0]


async def test_verdicts_have_the_order_and_the_ids_of_the_request(served: Served) -> None:
    verdicts = await grade(
        served,
        sample("while True: pass", CALLS, id="slow"),
        sample(ADD, id=7),
        sample(ADD),
        sample(ADD, id="7"),
    )
    assert [verdict["id"] for verdict in verdicts] == ["slow", 7, 2, "7"]


async def test_a_large_batch_is_graded_and_a_broken_one_refused(served: Served) -> None:
    tests = {**STDIN, "tests": [{"input": "3 4\n" + " " * 600_000, "output": "7\n"}]}
    assert list_statuses(await grade(served, sample(READ_AND_ADD, tests))) == [("passed", 1.0)]
    response = await served.post("/v1/grade", samples=[sample(ADD, padding=" " * 600_000)])
    assert response.status_code == 422
    assert "padding" in response.json()["error"]["message"]


@each_case("way", ["field", "header"])
async def test_a_stream_has_a_verdict_a_line_in_the_order_of_completion(served: Served, way: str) -> None:
    content = {
        "samples": [sample("while True: pass", CALLS, id="slow"), sample(ADD, id="fast")],
        **({"stream": True} if way == "field" else {}),
    }
    headers = {"accept": "application/x-ndjson"} if way == "header" else {}
    async with served.http.stream("POST", "/v1/grade", json=content, headers=headers) as response:
        assert response.headers["content-type"] == "application/x-ndjson"
        lines = [json.loads(line) async for line in response.aiter_lines()]
    assert [(line["id"], line["status"]) for line in lines] == [("fast", "passed"), ("slow", "timeout")]


async def test_a_sleeping_program_reaches_its_own_limit_and_has_a_score(served: Served) -> None:
    (verdict,) = await grade(served, sample(SLEEP), timeout_seconds=4, sample_seconds=1)
    assert (verdict["status"], verdict["score"]) == ("timeout", 0.0)


async def test_samples_that_cannot_begin_in_time_have_no_score() -> None:
    async with serve(max_concurrent=1) as served:
        verdicts = await grade(
            served, *[sample(SLEEP, id=place) for place in range(3)], timeout_seconds=3, sample_seconds=1.5
        )
    assert list_statuses(verdicts)[0] == ("timeout", 0.0)
    assert list_statuses(verdicts)[-1] == ("cancelled", None)


async def test_a_batch_that_the_queue_cannot_clear_is_refused_before_any_work() -> None:
    async with serve(max_concurrent=1) as served:
        response = await served.post("/v1/grade", samples=[sample(ADD)] * 900, timeout_seconds=2)
        assert (response.status_code, response.json()["error"]["code"]) == (504, "busy")
        assert await served.read_metric("harness_verdicts_total") == 0
        assert await served.read_metric("harness_queue_length") == 0


@each_case("stream", [False, True], ids=["whole", "stream"])
async def test_a_client_that_leaves_ends_its_programs(stream: bool) -> None:
    async with serve() as served:
        content = {"samples": [sample(SLEEP), sample(ADD), *[sample(SLEEP)] * 8], "stream": stream}

        async def ask() -> None:
            async with served.http.stream("POST", "/v1/grade", json=content) as response:
                async for _line in response.aiter_lines():
                    pass

        leaving = asyncio.create_task(ask())
        await wait_for_metric(served, "harness_working", lambda value: value == 3)
        await wait_for_metric(served, "harness_queue_length", lambda value: value > 0)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        await wait_for_metric(served, "harness_working", lambda value: value == 0)
        assert await served.read_metric("harness_queue_length") == 0
        assert list_statuses(await grade(served, sample(ADD))) == [("passed", 1.0)]


async def test_a_large_batch_does_not_delay_another_client() -> None:
    # A client is an address, so the second one comes from another address of this host.
    import httpx

    async with serve(max_concurrent=1) as served:
        large = asyncio.create_task(grade(served, *[sample(ADD)] * 100))
        await wait_for_metric(served, "harness_queue_length", lambda value: value > 50)
        transport = httpx.AsyncHTTPTransport(local_address="127.0.0.2")
        headers = dict(served.http.headers)
        async with httpx.AsyncClient(
            base_url=served.url, transport=transport, headers=headers, timeout=None
        ) as other:
            response = await other.post("/v1/grade", json={"samples": [sample(ADD)]})
        assert response.json()["verdicts"][0]["score"] == 1.0
        assert not large.done()
        large.cancel()
        await asyncio.gather(large, return_exceptions=True)


async def test_verdicts_are_counted_by_status(served: Served) -> None:
    name = 'harness_verdicts_total{status="failed"}'
    before = await served.read_metric(name.partition("{")[0])
    await grade(served, sample(ADD), sample("def add(a, b): return 0"))
    assert await served.read_metric(name.partition("{")[0]) == before + 2
    assert name in (await served.http.get("/metrics")).text


@each_case(
    ("samples", "message"),
    [
        ([], "samples"),
        ([{"solution": "x"}], "either 'benchmark' and 'task_id', or 'tests'"),
        ([{"tests": ASSERTS}], "needs exactly one of completion"),
        ([sample(ADD, reply=ADD)], "needs exactly one of completion"),
        ([sample(ADD, id=1), sample(ADD, id=1)], "'samples.1.id': 1 is used twice"),
        ([sample(ADD, id=True)], "'samples.0.id' must be a whole number or a text"),
        ([sample(ADD), sample(ADD, {"kind": "asserts", "tests": []})], "'samples.1': there are no tests"),
        ([sample(ADD, {"kind": "asserts", "tests": ["assert ("]})], "'samples.0': assert 1 is not Python"),
        ([{"solution": "x", "benchmark": "/etc/passwd", "task_id": "0"}], "has not loaded the benchmark"),
        ([{"solution": "x", "benchmark": "own.py", "task_id": "0"}], "loaded: mbpp, gsm8k"),
        ([{"solution": "x", "benchmark": "mbpp", "task_id": "0"}], "unknown task '0'"),
        ([sample(ADD)] * 1025, "at most|may have 1,024 samples"),
    ],
)
async def test_a_batch_that_cannot_be_graded_is_refused_with_its_place(
    served: Served, samples: list[dict[str, Any]], message: str
) -> None:
    response = await served.post("/v1/grade", samples=samples)
    assert response.status_code == 422
    text = response.json()["error"]["message"]
    assert any(part in text for part in message.split("|")), text


@each_case(
    "wrong", [{"timeout_seconds": 601}, {"timeout_seconds": 0}, {"timeout_seconds": 5, "sample_seconds": 6}]
)
async def test_times_out_of_range_are_refused(served: Served, wrong: dict[str, float]) -> None:
    response = await served.post("/v1/grade", samples=[sample(ADD)], **wrong)
    assert response.status_code == 422
    assert next(iter(wrong)) in response.json()["error"]["message"]


@each_case(("refusals", "expected"), [(2, ("passed", 1.0)), (retries.INFRA_TRIES, ("infra_error", None))])
async def test_a_fault_of_the_engine_is_retried_and_never_a_zero(
    client: APIClient, monkeypatch: pytest.MonkeyPatch, refusals: int, expected: tuple[str, float | None]
) -> None:
    monkeypatch.setattr(retries, "BACKOFF_SECONDS", 0.0)
    backend = FailingBackend(client)
    async with serve(backend=backend) as served:
        backend.refusals = refusals
        assert list_statuses(await grade(served, sample(ADD))) == [expected]
        assert await served.read_metric("harness_faults_total") == refusals


async def test_a_container_that_is_killed_costs_no_verdict(client: APIClient) -> None:
    program = f"import time\ntime.sleep(3)\n{ADD}"
    labels = [f"{reaper.ROLE}=sandbox", f"{reaper.NAMESPACE}={reaper.namespace()}"]

    def kill_one(known: set[str]) -> bool:
        for found in client.containers(filters={"label": labels}):
            if found["Id"] not in known:
                client.kill(found["Id"])
                return True
        return False

    known = {found["Id"] for found in client.containers(filters={"label": labels})}
    async with serve() as served:
        grading = asyncio.create_task(grade(served, sample(program)))
        await wait_for_metric(served, "harness_working", lambda value: value == 1)
        while not await asyncio.to_thread(kill_one, known):
            assert not grading.done()
            await asyncio.sleep(0.02)
        assert list_statuses(await grading) == [("passed", 1.0)]
        assert await served.read_metric("harness_faults_total") >= 1
