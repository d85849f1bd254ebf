"""A run whose submissions a service grades has the same result as one of this machine."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from bundled import load_bundled
from docker import APIClient
from failing_backend import FailingBackend
from model_fixtures import MODEL_KEY
from model_server import ModelServer, completion
from service_fixtures import TOKEN, Served, serve

import harness
from harness import (
    AttemptContext,
    RunResult,
    RunStoppedError,
    Status,
    UsageError,
    environments,
    load_benchmark,
)
from harness.benchmarks import Benchmark
from harness.client import Remote, connect
from harness.core.types import AttemptRecord
from harness.environments import python
from harness.host import retries

_FIND_JUDGE = environments._find_judge.__wrapped__
MBPP = load_bundled("mbpp")
HUMANEVAL = load_bundled("humaneval")
TASKS = ("9001", "9002", "9003")
# Never ends, and uses no processor.
WAITING = "import time\ntime.sleep(1000)\n"
HOSTILE = {
    "crashing": "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n",
    "exiting": "import os\nos._exit(0)\n",
    "printing": "print('passed', 'OK', '{\"status\": \"passed\"}', flush=True)\n",
    "greedy": "x = bytearray(1 << 34)\n",
    "waiting": WAITING,
    "broken": "def f(:\n",
    "half a surrogate pair": "x = '\ud800'\n",
    "equal to all": "class A:\n    def __eq__(self, other): return True\ndef __getattr__(name): return A()\n",
}

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the time of programs, at the service and here, and the wait between two tries."""
    monkeypatch.setattr(retries, "BACKOFF_SECONDS", 0.0)
    set_wall_seconds(monkeypatch, 2.0)


def set_wall_seconds(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Set the wall time of a program, and so little memory that it is used up long before."""
    limits = python.SPEC.limits.model_copy(update={"wall_seconds": seconds, "memory_mb": 128})
    monkeypatch.setattr(python, "SPEC", replace(python.SPEC, limits=limits))
    # Without its cache, which has the spec as it was.
    monkeypatch.setattr(environments, "_find_judge", _FIND_JUDGE)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[Served]:
    async with serve(benchmarks=(MBPP, HUMANEVAL)) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def remote(served: Served) -> Remote:
    return connect(f"{served.url}/{TOKEN}")


def write_samples(path: Path, benchmark: Benchmark) -> Path:
    """Write samples of every kind: right ones, hostile ones, replies, completions, and a task without one."""
    lines: list[dict[str, str]] = []
    tasks = benchmark.tasks[-3:-1]
    for task in tasks:
        solution = benchmark.references[task.id].solution
        lines.append({"task_id": task.id, "solution": solution})
        lines.append({"task_id": task.id, "reply": f"Here it is:\n```python\n{solution}\n```\nDone."})
        lines.append({"task_id": task.id, "completion": "    return None\n"})
    lines += [{"task_id": tasks[0].id, "solution": program} for program in HOSTILE.values()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def compare(attempts: Sequence[AttemptRecord]) -> list[dict[str, Any]]:
    """Return the records without times."""
    values = []
    for record in attempts:
        kept = asdict(record)
        del kept["duration_seconds"], kept["started_at"]
        kept["error"] = re.sub(r"after [0-9.]+ s", "after N s", record.error or "")
        kept["metrics"] = {name: value for name, value in record.metrics.items() if name != "cpu_seconds"}
        values.append(kept)
    return values


@pytest.mark.parametrize(
    "benchmark",
    [pytest.param(MBPP, id="mbpp"), pytest.param(HUMANEVAL, id="humaneval", marks=pytest.mark.thorough)],
)
async def test_the_records_equal_those_of_a_run_on_this_machine(
    remote: Remote, tmp_path: Path, benchmark: Benchmark
) -> None:
    samples = write_samples(tmp_path / "samples.jsonl", benchmark)
    results = []
    for run in (harness.run, remote.run):
        settings: dict[str, Any] = {"data": "bundled", "samples": str(samples), "output_dir": str(tmp_path)}
        results.append(await run(benchmark.name, **settings))
    local, graded = results
    for ours, theirs in zip(compare(local.attempts), compare(graded.attempts), strict=True):
        assert theirs == ours
    assert graded.summary == local.summary
    found = {record.status for record in graded.attempts}
    assert {Status.PASSED, Status.FAILED, Status.CRASHED, Status.TIMEOUT, Status.MEMORY_LIMIT} <= found
    assert Status.AGENT_ERROR in found  # the task without a sample


async def make_run(remote: Remote, folder: Path, **settings: Any) -> RunResult:
    values: dict[str, Any] = {"data": "bundled", "output_dir": str(folder), "agent": "oracle"}
    return await remote.run("mbpp", **{**values, **settings})


async def answer(context: AttemptContext) -> str:
    """Submit a program that passes no task, as a user's own agent."""
    return f"```python\nx = {context.number}\n```"


@pytest.mark.parametrize(
    ("agent", "status"),
    [("oracle", Status.PASSED), ("null", Status.FAILED), (answer, Status.FAILED)],
    ids=["oracle", "null", "function"],
)
async def test_an_agent_that_submits_text_takes_part(
    remote: Remote, tmp_path: Path, agent: Any, status: Status
) -> None:
    result = await make_run(remote, tmp_path, agent=agent, n_samples=2, task_ids=["9001"])
    assert [record.status for record in result.attempts] == [status] * 2
    assert len(result.to_frame()) == 2


async def test_submissions_travel_in_batches(remote: Remote, served: Served, tmp_path: Path) -> None:
    accepted = 'harness_requests_total{operation="v1/grade",status="200"}'
    before = await served.read_metric(accepted)
    result = await make_run(remote, tmp_path, n_samples=6, task_ids=list(TASKS))
    requests = await served.read_metric(accepted) - before
    assert 0 < requests < len(result.attempts) / 4


async def test_a_model_is_asked_from_this_machine(
    remote: Remote, tmp_path: Path, server: ModelServer
) -> None:
    solution = MBPP.references["9001"].solution
    server.script = lambda _asked: completion(f"```python\n{solution}\n```")
    result = await make_run(remote, tmp_path, agent="chat", model="m", base_url=server.url, task_ids=["9001"])
    assert [record.status for record in result.attempts] == [Status.PASSED]
    assert all(record.metrics["model_requests"] for record in result.attempts)
    assert f"Bearer {MODEL_KEY}" in {asked.headers["authorization"] for asked in server.asked}


async def test_the_run_folder_names_the_service_without_its_address(
    remote: Remote, served: Served, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    result = await make_run(remote, tmp_path, task_ids=["9001"])
    manifest = json.loads((result.folder / "manifest.json").read_text())
    assert manifest["service"]["harness_version"] == harness.__version__
    assert manifest["isolation"] == {"python": "run"}
    assert manifest["image_tags"].keys() == {"python"}
    assert "a service with harness" in (result.folder / "report.html").read_text()
    host = served.url.partition("//")[2]
    files = {path.name: path.read_text() for path in result.folder.rglob("*") if path.is_file()}
    assert TOKEN not in "".join(files.values()) + caplog.text
    # At this level the log has the addresses of all requests.
    assert [name for name, text in files.items() if host in text] == ["run.log"]


async def test_a_benchmark_that_is_not_loaded_is_refused(remote: Remote, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has not loaded the benchmark 'gsm8k'; loaded: mbpp, humaneval"):
        await remote.run("gsm8k", data="bundled", agent="oracle", output_dir=str(tmp_path))
    assert not os.listdir(tmp_path)


async def test_other_data_are_refused_with_both_hashes(remote: Remote, tmp_path: Path) -> None:
    path = tmp_path / "mbpp.jsonl"
    rows = [dict(MBPP.rows[task.id]) for task in MBPP.tasks[:2]]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ours = load_benchmark("mbpp", data=str(path)).source.sha256
    with pytest.raises(UsageError) as raised:
        await make_run(remote, tmp_path, data=str(path))
    assert ours in raised.value.message
    assert MBPP.source.sha256 in raised.value.message


async def test_requests_for_another_revision_are_refused(served: Served) -> None:
    sample = {"benchmark": "mbpp", "task_id": "9001", "submission": "pass"}
    refused = await served.post("/v1/grade", samples=[sample], revisions={"mbpp": "0" * 64})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "other_revision")
    listed = (await served.http.get("/v1/benchmarks")).json()["benchmarks"]
    revisions = {each["name"]: each["revision"] for each in listed}
    graded = await served.post("/v1/grade", samples=[sample], revisions=revisions)
    assert graded.json()["verdicts"][0]["status"] == "failed"
    assert listed[0]["data_sha256"] == MBPP.source.sha256
    assert (listed[0]["name"], listed[0]["tasks"]) == ("mbpp", len(MBPP.tasks))


def find_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def count_records(folder: Path) -> int:
    """Return the number of records of the only run in a folder."""
    return sum(path.read_text().count("\n") for path in folder.glob("*/attempts.jsonl"))


async def wait_until(is_so: Callable[[], Awaitable[bool]]) -> None:
    while not await is_so():  # noqa: ASYNC110  nothing announces it
        await asyncio.sleep(0.02)


async def wait_for_records(folder: Path, number: int) -> None:
    """Wait until the only run in a folder has stored so many records."""

    async def are_there() -> bool:
        return count_records(folder) >= number

    await wait_until(are_there)


async def is_idle(served: Served) -> bool:
    """Return whether a service has no work."""
    working = await served.read_metric("harness_working")
    return not working + await served.read_metric("harness_queue_length")


def write_waiting_samples(path: Path) -> Path:
    """Write two right programs, and many that wait."""
    lines = [{"task_id": task, "solution": MBPP.references[task].solution} for task in TASKS[:2]]
    lines += [{"task_id": TASKS[2], "solution": WAITING}] * 4
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


async def test_a_service_that_stays_away_stops_the_run_which_another_one_finishes(tmp_path: Path) -> None:
    port = find_port()
    remote = connect(f"http://127.0.0.1:{port}/{TOKEN}", wait_seconds=0.2)
    samples = write_waiting_samples(tmp_path / "samples.jsonl")
    folder = tmp_path / "runs"
    settings: dict[str, Any] = {"agent": "predictions", "samples": str(samples)}
    async with serve(benchmarks=(MBPP,), port=port, drain_seconds=0.1):
        running = asyncio.create_task(make_run(remote, folder, **settings))
        await wait_for_records(folder, 2)
    with pytest.raises(RunStoppedError, match="the service stopped responding"):
        await running
    (name,) = os.listdir(folder)
    run_folder = folder / name
    async with serve(benchmarks=(MBPP,), port=port, max_concurrent=4):
        result = await remote.run(resume=run_folder)
    statuses = [record.status for record in result.attempts]
    assert (statuses.count(Status.PASSED), statuses.count(Status.TIMEOUT)) == (2, 4)


async def test_a_service_that_comes_back_with_other_data_stops_the_run(tmp_path: Path) -> None:
    data = tmp_path / "mbpp.jsonl"
    data.write_text("".join(json.dumps(dict(MBPP.rows[task.id])) + "\n" for task in MBPP.tasks[:3]))
    other = load_benchmark("mbpp", data=str(data))
    port = find_port()
    remote = connect(f"http://127.0.0.1:{port}/{TOKEN}", wait_seconds=60)
    samples = write_waiting_samples(tmp_path / "samples.jsonl")
    async with serve(benchmarks=(MBPP,), port=port, drain_seconds=0.1):
        running = asyncio.create_task(
            make_run(remote, tmp_path / "runs", agent="predictions", samples=str(samples))
        )
        await wait_for_records(tmp_path / "runs", 2)
    async with serve(benchmarks=(other,), port=port):
        with pytest.raises(RunStoppedError, match="the service has loaded another mbpp"):
            await running


async def test_a_run_that_a_service_has_graded_is_not_resumed_here(remote: Remote, tmp_path: Path) -> None:
    result = await make_run(remote, tmp_path, task_ids=["9001"])
    with pytest.raises(UsageError, match="a service has graded this run"):
        await harness.run(resume=result)


async def test_a_run_of_this_machine_is_not_resumed_at_a_service(remote: Remote, tmp_path: Path) -> None:
    result = await harness.run(
        "mbpp", data="bundled", agent="null", task_ids=["9001"], output_dir=str(tmp_path)
    )
    with pytest.raises(UsageError, match="this machine has graded this run"):
        await remote.run(resume=result)


async def test_a_cancelled_run_keeps_its_records_and_frees_the_service(tmp_path: Path) -> None:
    samples = write_waiting_samples(tmp_path / "samples.jsonl")
    folder = tmp_path / "runs"
    async with serve(benchmarks=(MBPP,)) as served:
        remote = connect(f"{served.url}/{TOKEN}")
        running = asyncio.create_task(
            make_run(remote, folder, agent="predictions", samples=str(samples), task_ids=list(TASKS))
        )
        await wait_for_records(folder, 2)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await wait_until(lambda: is_idle(served))
    assert count_records(folder) == 2


async def test_a_run_goes_on_when_the_queue_of_the_service_is_full(tmp_path: Path) -> None:
    async with serve(benchmarks=(MBPP,), max_concurrent=1, queued=1) as served:
        remote = connect(f"{served.url}/{TOKEN}", wait_seconds=20)
        result = await make_run(remote, tmp_path, sample_size=5)
    assert {record.status for record in result.attempts} == {Status.PASSED}


async def test_a_service_without_room_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_wall_seconds(monkeypatch, 100.0)
    async with serve(benchmarks=(MBPP,), max_concurrent=1, queued=1) as served:
        waiting = {"benchmark": "mbpp", "task_id": "9001", "submission": WAITING}
        remote = connect(f"{served.url}/{TOKEN}", wait_seconds=0)
        other = asyncio.create_task(served.post("/v1/grade", samples=[waiting] * 2))

        async def is_full() -> bool:
            return bool(await served.read_metric("harness_queue_length"))

        await wait_until(is_full)
        with pytest.raises(RunStoppedError, match="had no room"):
            await make_run(remote, tmp_path, task_ids=["9001"])
        other.cancel()
        await asyncio.gather(other, return_exceptions=True)


async def test_a_fault_of_the_service_is_retried(client: APIClient, tmp_path: Path) -> None:
    backend = FailingBackend(client)
    # The service gives up once.
    backend.refusals = retries.INFRA_TRIES
    async with serve(benchmarks=(MBPP,), backend=backend, max_concurrent=1) as served:
        result = await make_run(connect(f"{served.url}/{TOKEN}"), tmp_path, task_ids=["9001"])
    assert [record.status for record in result.attempts] == [Status.PASSED]
    assert backend.refusals == 0


async def test_a_lasting_fault_has_no_score_and_is_repeated_on_resume(
    client: APIClient, tmp_path: Path
) -> None:
    backend = FailingBackend(client)
    backend.refusals = retries.INFRA_TRIES**2
    async with serve(benchmarks=(MBPP,), backend=backend, max_concurrent=1) as served:
        remote = connect(f"{served.url}/{TOKEN}")
        result = await make_run(remote, tmp_path, task_ids=["9001"])
        (record,) = result.attempts
        assert (record.status, record.score, record.metrics["tries"]) == (Status.INFRA_ERROR, None, 5)
        again = await remote.run(resume=result)
    assert [record.status for record in again.attempts] == [Status.PASSED]


async def test_a_submission_that_the_service_refuses_costs_no_other(tmp_path: Path) -> None:
    samples = tmp_path / "samples.jsonl"
    programs = [MBPP.references["9001"].solution, "# " + "long" * 10_000, MBPP.references["9001"].solution]
    samples.write_text("".join(json.dumps({"task_id": "9001", "solution": each}) + "\n" for each in programs))
    async with serve(benchmarks=(MBPP,), body_bytes=20_000) as served:
        remote = connect(f"{served.url}/{TOKEN}")
        result = await make_run(remote, tmp_path / "runs", agent="predictions", samples=str(samples))
    statuses = [record.status for record in result.attempts if record.task_id == "9001"]
    assert statuses == [Status.PASSED, Status.INFRA_ERROR, Status.PASSED]
    assert "may have 20,000 bytes" in str(result.attempts[1].error)
