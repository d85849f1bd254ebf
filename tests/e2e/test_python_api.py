"""The package as a library: `Sandbox`, `load_benchmark` and `run`."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from docker import APIClient

from harness import AttemptContext, RunResult, Sandbox, load_benchmark, run
from harness.core.errors import DataError, UsageError
from harness.core.types import AttemptRecord


async def test_sandbox_runs_a_command() -> None:
    async with Sandbox.open("python") as sandbox:
        result = await sandbox.exec(["python3", "-c", "print(6 * 7)"], timeout=10)
    assert (result.exit_code, result.limit, str(result.stdout)) == (0, None, "42\n")


async def test_sandbox_is_gone_when_the_block_is_left(client: APIClient) -> None:
    opened: list[str] = []

    async def fail_inside() -> None:
        async with Sandbox.open("python") as sandbox:
            opened.append(sandbox.container_id)
            assert client.inspect_container(sandbox.container_id)["State"]["Running"]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_inside()
    assert client.containers(all=True, filters={"id": opened}) == []


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    folder = tmp_path_factory.mktemp("api")
    return asyncio.run(run("mbpp", data="bundled", sample_size=3, seed=5, output_dir=str(folder)))


def test_run_returns_a_summary(result: RunResult) -> None:
    assert (result.summary.total, result.summary.resolved, result.summary.rate) == (3, 3, 1.0)


def test_run_returns_attempts_in_task_order(result: RunResult) -> None:
    order = [task.id for task in load_benchmark("mbpp", data="bundled").tasks]
    places = [order.index(attempt.task_id) for attempt in result.attempts]
    assert places == sorted(places)
    assert all(type(attempt) is AttemptRecord for attempt in result.attempts)


def test_run_leaves_a_whole_run_folder(result: RunResult) -> None:
    names = {path.name for path in result.folder.iterdir()}
    files = {"manifest.json", "attempts.jsonl", "summary.json", "report.html", "run.log"}
    assert names == {*files, "transcripts"}


def test_run_takes_the_keys_of_the_config(result: RunResult) -> None:
    config = json.loads((result.folder / "manifest.json").read_text())["config"]
    assert (config["sample_size"], config["seed"], config["data"]) == (3, 5, "bundled")


async def test_run_refuses_an_unknown_key() -> None:
    with pytest.raises(UsageError, match="unknown key 'sample_sise'") as caught:
        await run("mbpp", sample_sise=3)  # type: ignore[call-arg]
    assert "did you mean 'sample_size'?" in str(caught.value.hint)


async def test_run_refuses_an_unknown_benchmark() -> None:
    with pytest.raises(UsageError, match="unknown benchmark 'mbbp'"):
        await run("mbbp", data="bundled")


async def test_a_cancelled_run_is_resumed_with_its_agent(tmp_path: Path) -> None:
    made: list[str] = []
    third = asyncio.Event()

    async def answer(context: AttemptContext) -> str:
        made.append(context.task.id)
        if len(made) == 3:
            third.set()
            await asyncio.sleep(60)
        return "x = 1"

    running = asyncio.create_task(
        run(
            "mbpp",
            agent=answer,
            data="bundled",
            sample_size=4,
            max_concurrent=1,
            output_dir=str(tmp_path),
        )
    )
    await third.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    (name,) = os.listdir(tmp_path)
    folder = tmp_path / name
    finished = await run(resume=folder, agent=answer)
    assert (finished.folder, finished.summary.total) == (folder, 4)
    # The attempt that was under way is made again, and no other.
    assert sorted(made) == sorted([*(attempt.task_id for attempt in finished.attempts), made[2]])
    again = await run(resume=finished, agent=answer)
    assert (again.summary, len(made)) == (finished.summary, 5)


async def test_a_run_needs_a_benchmark_or_a_run_to_resume(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a run needs a benchmark, or a run to resume"):
        await run()
    with pytest.raises(UsageError, match="nothing-here"):
        await run(resume=tmp_path / "nothing-here")


def test_cancelling_a_run_ends_it_cleanly(tmp_path: Path, client: APIClient) -> None:
    class CancelsAtFirst:
        """Watches a run, and cancels it as soon as an attempt has ended."""

        work: asyncio.Task[RunResult]

        def on_start(self, *, attempts: int, finished: int, concurrency: int) -> None: ...

        def on_attempt(self, record: AttemptRecord) -> None:
            self.work.cancel()

        def note(self, text: str) -> None: ...

        def on_end(self) -> None: ...

    async def cancelled() -> None:
        watcher = CancelsAtFirst()
        options: dict[str, Any] = {"data": "bundled", "output_dir": str(tmp_path), "max_concurrent": 2}
        watcher.work = asyncio.create_task(run("mbpp", observer=watcher, **options))
        await watcher.work

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    (folder,) = tmp_path.iterdir()
    manifest = json.loads((folder / "manifest.json").read_text())
    assert client.containers(all=True, filters={"label": f"harness.run={manifest['run_id']}"}) == []
    statuses = json.loads((folder / "summary.json").read_text())["statuses"]
    assert statuses["passed"] in (1, 2)
    assert statuses["cancelled"] == sum(statuses.values()) - statuses["passed"]


def test_load_benchmark_keeps_task_and_reference_apart() -> None:
    benchmark = load_benchmark("humaneval", data="bundled")
    task = benchmark.tasks[0]
    reference = benchmark.references[task.id]
    assert task.prompt in reference.solution
    assert not any(reference.solution == getattr(task, name) for name in task.__slots__)


async def test_a_program_is_graded_in_a_separate_sandbox() -> None:
    benchmark = load_benchmark("humaneval", data="bundled")
    (example,) = benchmark.get_test_data(sample_k=1, seed=1)
    label = benchmark.get_label(example)
    body = example["canonical_solution"]
    right, wrong, continued = await asyncio.gather(
        benchmark.async_evaluate(label.solution, label),
        benchmark.async_evaluate("import os; os._exit(0)", label),
        benchmark.async_evaluate(body, label, field="completion"),
    )
    assert [found["status"] for found in (right, wrong, continued)] == ["passed", "failed", "passed"]
    assert (right["score"], wrong["resolved"]) == (1.0, False)


def test_load_benchmark_names_file_and_line_of_a_broken_row(tmp_path: Path) -> None:
    path = tmp_path / "HumanEval.jsonl"
    path.write_text('{"task_id": "HumanEval/0"}\n')
    with pytest.raises(DataError, match=r"HumanEval\.jsonl:1: field 'prompt': missing"):
        load_benchmark("humaneval", data=str(path))


def test_import_of_the_package_loads_nothing_heavy() -> None:
    script = "import sys, harness; print([m for m in ('docker', 'pydantic', 'rich') if m in sys.modules])"
    printed = subprocess.run(
        [sys.executable, "-c", script], env=dict(os.environ), capture_output=True, text=True, check=True
    )
    assert printed.stdout == "[]\n"


def test_package_is_typed() -> None:
    assert files("harness").joinpath("py.typed").is_file()


def test_package_has_no_other_attributes() -> None:
    import harness

    with pytest.raises(AttributeError, match="has no attribute 'rnu'"):
        _ = harness.rnu
