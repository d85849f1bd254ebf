"""AgentBench on the command line: worlds on the host without an engine, and agents that act in sandboxes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from e2e.command_line import NO_ENGINE, FinishedRun, ForkServer, Harness, RunFolder, wait_until
from effort import THOROUGH

from harness.benchmarks.agentbench.tasks import categories
from harness.environments import environment_spec

BUNDLED = ("run", "-b", "agentbench", "--data", "bundled")
DB = (*BUNDLED, "--filter-category", "db", "-n", "1")
STATE = "os/sample/states/0"
# Some of each category, in proportion to its tasks.
SOME = () if THOROUGH else ("-n", "24", "--sampling", "stratified")
WORLDS = tuple(name for name in categories() if environment_spec(name).is_on_host)
ON_HOST = tuple(part for name in WORLDS for part in ("--filter-category", name))
# Acts in one world after the other, and notes each task that it begins. It hangs at its fifth task until the
# file `go` exists.
AGENT = """
import asyncio
from pathlib import Path

FOLDER = Path(__file__).parent


async def attempt(context):
    with (FOLDER / "begun").open("a") as file:
        file.write(context.task.id + "\\n")
    while len((FOLDER / "begun").read_text().splitlines()) == 5 and not (FOLDER / "go").exists():
        await asyncio.sleep(0.01)
    tool = next(name for name in context.environment.tools if name != "submit")
    seen = await context.environment.call(tool, {"nothing": "of use"})
    assert seen.refused
    await context.environment.submit("42")
    return "42"
"""


def test_the_oracle_solves_every_category_and_the_overall_score_is_whole(
    finished_run: Callable[..., FinishedRun],
) -> None:
    oracle = finished_run(*BUNDLED, *SOME)
    assert oracle.exit_code == 0, oracle.stderr
    summary = oracle.results["summary"]
    assert set(summary["by_category"]) == set(categories())
    assert {name: each["score"] for name, each in summary["scores"]["categories"].items()} == dict.fromkeys(
        categories(), 1.0
    )
    assert summary["scores"]["overall"]["method"] == "weighted"
    assert summary["resolved"] == summary["total"]


@pytest.fixture(scope="module")
def nothing_done(
    tmp_path_factory: pytest.TempPathFactory, surroundings: dict[str, str], fork_server: ForkServer
) -> RunFolder:
    """Return a run of the null agent in all worlds on the host, made where no engine can be reached."""
    folder = tmp_path_factory.mktemp("null")
    ended = Harness(folder, {**surroundings, **NO_ENGINE}, fork_server)(*BUNDLED, *ON_HOST, "--agent", "null")
    assert ended.returncode == 0, ended.stderr
    (run,) = (folder / "runs").iterdir()
    return RunFolder(run)


def test_an_agent_that_does_nothing_scores_nothing_in_any_world(nothing_done: RunFolder) -> None:
    summary = json.loads((nothing_done.path / "summary.json").read_text())
    scores = {name: each["score"] for name, each in summary["scores"]["categories"].items()}
    assert scores == dict.fromkeys(WORLDS, 0.0)
    assert summary["scores"]["overall"]["method"] == "partial"


def test_a_run_without_sandboxes_names_its_limits_and_no_engine(nothing_done: RunFolder) -> None:
    manifest = nothing_done.manifest
    assert (manifest["engine"], manifest["images"]) == (None, {})
    assert manifest["timeouts"] == {"card": 300, "house": 300, "kg": 180, "lateral": 600, "web": 600}


def test_a_killed_run_is_resumed_and_repeats_no_finished_attempt(harness: Harness, tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(AGENT)
    begun = tmp_path / "begun"
    settings = ("-n", "10", "--max-concurrent", "1", "--agent", str(agent))
    running = harness.start(*BUNDLED, *ON_HOST, *settings, env=NO_ENGINE)
    wait_until(lambda: begun.exists() and len(begun.read_text().splitlines()) == 5, "the fifth task")
    running.kill()
    running.wait()
    folder = harness.only_run().path
    (tmp_path / "go").touch()
    harness.succeed("run", "--resume", folder, env=NO_ENGINE)
    times = Counter(begun.read_text().splitlines())
    assert len(times) == 10
    assert sorted(times.values()) == [1] * 9 + [2]
    records = [json.loads(line) for line in (folder / "attempts.jsonl").read_text().splitlines()]
    assert len(records) == 10
    assert {record["metrics"]["rounds"] for record in records} == {2}


def test_a_turn_in_a_world_is_shown(harness: Harness, tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(AGENT)
    (tmp_path / "go").touch()
    task = "card/dev/baseline1/first/0"
    harness.succeed(*BUNDLED, "-t", task, "--agent", str(agent), env=NO_ENGINE)
    shown = harness("show", "latest", task, env=NO_ENGINE).stdout
    assert "wrong arguments for" in shown
    assert "submit" in shown


# --- in sandboxes


def test_the_oracle_solves_the_database_tasks(finished_run: Callable[..., FinishedRun]) -> None:
    oracle = finished_run(*DB, "--agent", "oracle")
    assert oracle.exit_code == 0, oracle.stderr
    assert (oracle.results["summary"]["total"], oracle.results["summary"]["resolved"]) == (1, 1)
    assert {attempt["category"] for attempt in oracle.results["attempts"]} == {"db"}


def test_an_empty_submission_solves_nothing(finished_run: Callable[..., FinishedRun]) -> None:
    null = finished_run(*DB, "--agent", "null")
    assert (null.results["summary"]["total"], null.results["summary"]["resolved"]) == (1, 0)
    assert {attempt["status"] for attempt in null.results["attempts"]} == {"failed"}


def test_show_prints_every_turn_and_how_many_the_config_allows(harness: Harness) -> None:
    config = harness.folder / "config.yaml"
    config.write_text(f"benchmark: agentbench\ndata: bundled\ntask_ids: [{STATE}]\nrounds: 3\n")
    harness.succeed("run", "-c", config)
    run = harness.only_run().path
    shown = harness("show", run, STATE).stdout
    expected = ("You have 3 rounds", "bash", "exit code 0", "submit", f"{STATE}: passed")
    assert [text for text in expected if text not in shown] == []
    assert "8 rounds" not in shown
