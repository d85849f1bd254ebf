"""Agents of users that catch every exception of the model: a failure of the model is never their score."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from e2e.command_line import NO_ENGINE, Harness, RunFolder
from model_server import ModelServer, completion, error

from harness import AttemptContext, RunStoppedError, run
from harness.models.server_errors import ModelRefusedError

EXAMPLES = Path(__file__).parents[2] / "examples"


class Careless:
    """Submits a guess whatever the model does."""

    reads = ("model",)

    async def attempt(self, context: AttemptContext) -> str:
        assert context.model is not None
        with contextlib.suppress(Exception):
            return (await context.model.ask("hello")).text
        with contextlib.suppress(Exception):
            # A change of the copy must not reach the endpoint of the run.
            context.model.endpoint.extra_body["tools"] = [{"type": "web_search"}]
        return "42"


async def run_careless(server: ModelServer, folder: Path, **options: Any) -> None:
    endpoint = {"model": "scripted", "base_url": server.url, "request_seconds": 0.2}
    await run(
        "gsm8k",
        agent=Careless,
        data="bundled",
        model="scripted",
        endpoints={"scripted": endpoint},
        output_dir=str(folder),
        **{"max_concurrent": 1, **options},
    )


def read_records(folder: Path) -> list[dict[str, Any]]:
    (path,) = folder.iterdir()
    return RunFolder(path).attempts


async def test_a_refusal_ends_the_run_although_the_agent_catches_it(
    server: ModelServer, tmp_path: Path
) -> None:
    server.script = lambda asked: error(401, "wrong key")
    with pytest.raises(ModelRefusedError, match="wrong key"):
        await run_careless(server, tmp_path)
    assert os.listdir(tmp_path) == []


async def test_an_outage_ends_the_run_although_the_agent_catches_it(
    server: ModelServer, tmp_path: Path
) -> None:
    server.script = lambda asked: error(500, "out of memory")
    with pytest.raises(RunStoppedError, match="out of memory"):
        await run_careless(server, tmp_path)
    assert read_records(tmp_path) == []


async def test_the_budget_of_the_run_ends_it_although_the_agent_catches_it(
    server: ModelServer, tmp_path: Path
) -> None:
    server.script = lambda asked: completion("hi")
    with pytest.raises(RunStoppedError, match="budget of 30 total_tokens"):
        await run_careless(server, tmp_path, run_budget={"total_tokens": 30})
    assert len(read_records(tmp_path)) == 2


async def test_a_request_of_no_attempt_is_in_the_summary_also_of_a_killed_run(
    harness: Harness, server: ModelServer, tmp_path: Path
) -> None:
    """The first of the two attempts is refused, so that the run sends a plain request."""
    server.script = lambda asked: error(400, "no") if asked.number == 0 else completion("hi")
    await run_careless(server, tmp_path / "runs", sample_size=2)
    (path,) = await asyncio.to_thread(lambda: list((tmp_path / "runs").iterdir()))
    run = RunFolder(path)
    assert [attempt["metrics"].get("model_requests") for attempt in run.attempts] == [None, 1]
    model = run.summary["model"]
    assert (model["model_requests"], model["input_tokens"], model["model_retries"]) == (2, 20, 0)
    (path / "summary.json").unlink()
    shown = json.loads(harness("report", path, "--format", "json", env=NO_ENGINE).stdout)
    assert shown["summary"]["model"] == model


async def test_the_requests_under_way_that_exceed_a_budget_are_reported(
    harness: Harness, server: ModelServer, tmp_path: Path
) -> None:
    server.wait_seconds = 0.3
    with pytest.raises(RunStoppedError, match="budget of 20 total_tokens"):
        await run_careless(server, tmp_path, max_concurrent=4, run_budget={"total_tokens": 20})
    used = 15 * len(server.asked)
    assert used > 30
    shown = harness("show", "latest", "--output-dir", tmp_path, env=NO_ENGINE).stdout
    assert f"20 total tokens, used {used} (requests under way are not cut off)\n" in shown


async def test_an_agent_cannot_change_the_endpoint_of_the_run(server: ModelServer, tmp_path: Path) -> None:
    server.script = lambda asked: error(400, "no") if asked.number == 0 else completion("hi")
    await run_careless(server, tmp_path, sample_size=2)
    # The plain request after the refusal is the third.
    assert [asked.body.get("tools") for asked in server.asked] == [None, None, None]


def test_a_resumed_run_does_not_spend_its_budget_twice(harness: Harness, server: ModelServer) -> None:
    """The third request belongs to an attempt that has no record, because the budget ended it."""
    server.script = lambda asked: completion("hi")
    ended = harness(
        *("run", "-b", "gsm8k", "--data", "bundled", "--agent", EXAMPLES / "model_agent.py"),
        *("--model", "scripted", "--base-url", server.url),
        *("--max-concurrent", "1", "--run-budget", "total_tokens=45"),
        env=NO_ENGINE,
    )
    assert (ended.returncode, len(server.asked)) == (3, 3), ended.stderr
    folder = harness.only_run().path
    assert len(RunFolder(folder).attempts) == 1
    log = folder / "spending.jsonl"
    log.write_text(f'{log.read_text()}{{"input_to')  # as a kill may leave it
    again = harness("run", "--resume", folder, env=NO_ENGINE)
    assert (again.returncode, len(server.asked)) == (3, 3), again.stderr
    more = harness("run", "--resume", folder, "--run-budget", "total_tokens=60", env=NO_ENGINE)
    assert (more.returncode, len(server.asked)) == (3, 4), more.stderr
