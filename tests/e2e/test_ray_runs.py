"""Runs on the nodes of a Ray cluster of this machine, whose nodes have a private Docker engine each.

By default one run makes a few bundled tasks. HARNESS_TESTS=thorough makes all tasks of MBPP, and kills
nodes and commands.
"""

from __future__ import annotations

import json
import random
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from e2e.command_line import Harness, RunFolder, RunningRun, remove_times_and_ids, wait_until
from effort import THOROUGH
from ray_nodes import RayNodes, find_ray_obstacle

KILLS = 5
# Ray starts a worker on each node, and an engine takes over an image.
HANG_SECONDS = 3600 if THOROUGH else 600

# It hands in the values of its environment that this file names.
ENVIRONMENT_AGENT = """
import os


class Agent:
    async def attempt(self, context):
        values = os.environ.values()
        return " ".join(value for value in values if "of-the-command" in value) or "nothing"
"""

# It waits until agents on two nodes have begun.
MEETING_AGENT = """
import asyncio
import hashlib
import os
from pathlib import Path

FOLDER = Path({folder!r})


class Agent:
    async def attempt(self, context):
        FOLDER.joinpath(hashlib.sha256(os.environ["DOCKER_HOST"].encode()).hexdigest()).touch()
        while len(list(FOLDER.iterdir())) < 2:
            await asyncio.sleep(0.1)
        return "no program"
"""

pytestmark = [
    pytest.mark.skipif(find_ray_obstacle() is not None, reason=str(find_ray_obstacle())),
    pytest.mark.timeout(HANG_SECONDS),
]


def find_tasks(request: pytest.FixtureRequest, number: int) -> tuple[str, ...]:
    """Return the options for the tasks of a run: all of MBPP for a thorough test, else some bundled ones."""
    if not THOROUGH:
        return ("--data", "bundled", "-n", str(number))
    folder: Path = request.getfixturevalue("shared_data")
    return ("--data", str(folder / "mbpp/sanitized-mbpp.json"))


def read_outcome(folder: Path, results: Path) -> tuple[str, str, Counter[str]]:
    """Return the summary and the attempts in a results file, and the length of each transcript."""
    values: dict[str, Any] = json.loads(results.read_text())
    entries = {path.name: len(path.read_text().splitlines()) for path in folder.glob("transcripts/*.jsonl")}
    texts = (remove_times_and_ids(json.dumps(values[name])) for name in ("summary", "attempts"))
    return (*texts, Counter(entries))  # type: ignore[return-value]


def has_ended_or(run: RunningRun, attempts: int) -> bool:
    return run.process.poll() is not None or len(run.folder.attempts) >= attempts


def test_a_run_on_two_nodes_equals_one_on_this_machine(
    harness: Harness, nodes: RayNodes, request: pytest.FixtureRequest
) -> None:
    run = ("run", "-b", "mbpp", *find_tasks(request, 4), "--fail-under", "0.9")
    made = {}
    for name, options in {"local": (), "ray": nodes.options}.items():
        ended = harness.succeed(*run, *options, "--output-dir", name, "-o", f"{name}.json")
        (folder,) = (harness.folder / name).iterdir()
        made[name] = read_outcome(folder, harness.folder / f"{name}.json")
    assert made["ray"] == made["local"]
    assert "it takes no part" in ended.stderr  # the head of the cluster has no engine
    assert ended.stderr.count("attempts at a time)") == 2


@pytest.mark.thorough
def test_a_run_whose_nodes_are_killed_has_one_verdict_for_each_attempt(
    harness: Harness, nodes: RayNodes, request: pytest.FixtureRequest
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    source = random.Random(seed)
    run = harness.start_run(*find_tasks(request, 22), *nodes.options)
    expected = run.folder.manifest["planned"]["attempts"]
    for kill in range(KILLS):
        left = expected - len(run.folder.attempts)
        goal = len(run.folder.attempts) + source.randrange(max(left // (KILLS - kill + 1), 1))
        wait_until(lambda goal=goal: has_ended_or(run, goal), f"{goal} attempts", seconds=600)  # type: ignore[misc]
        number = source.randrange(2)
        nodes.kill_node(number)
        nodes.add_node(number)
    stdout, stderr = run.process.communicate()
    assert run.process.returncode == 0, (seed, stdout, stderr)
    keys = Counter((attempt["task_id"], attempt["attempt"]) for attempt in run.folder.attempts)
    assert set(keys.values()) == {1}, seed
    assert len(keys) == expected, seed
    assert run.folder.summary["statuses"] == {"passed": expected}, seed
    assert "is lost" in stderr, seed


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_ended_command_leaves_nothing_on_any_node_and_can_be_resumed(
    harness: Harness, nodes: RayNodes, number: signal.Signals
) -> None:
    run = harness.start_run("-n", "10", "--max-concurrent", "1", *nodes.options)
    kept = run.folder.raw_attempts
    run.end(number)
    assert run.process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    wait_until(lambda: nodes.containers() == [], "no container on any engine", seconds=120)
    assert run.folder.raw_attempts.startswith(kept)

    harness.succeed("run", "--resume", run.folder.path, "--executor", "local")
    assert run.folder.summary["statuses"] == {"passed": 10}


@pytest.mark.thorough
def test_a_node_that_comes_during_a_run_joins_it(harness: Harness, nodes: RayNodes) -> None:
    met = harness.folder / "met"
    met.mkdir()
    Path(harness.folder, "agent.py").write_text(MEETING_AGENT.format(folder=str(met)))
    nodes.kill_node(1)
    # No attempt ends before two nodes work, so the run waits for the second node.
    run = harness.start_run(
        *("-n", "6", "--agent", harness.folder / "agent.py", "--max-concurrent", "2"),
        *nodes.options,
        finished=0,
    )
    wait_until(lambda: list(met.iterdir()), "an attempt on the first node")
    nodes.add_node(1)
    stdout, stderr = run.process.communicate()
    assert run.process.returncode == 0, stdout + stderr
    assert "joins the run (" in stderr
    assert len(list(met.iterdir())) == 2
    assert RunFolder(run.folder.path).summary["statuses"] == {"failed": 6}


@pytest.mark.thorough
def test_samples_are_graded_on_nodes_that_do_not_have_the_file(harness: Harness, nodes: RayNodes) -> None:
    answers = [{"task_id": 9001, "solution": "def nothing(): pass"}]
    samples = "".join(json.dumps(answer) + "\n" for answer in answers)
    run = ("run", "-b", "mbpp", "--data", "bundled", "-t", "9001", "-t", "9002", "--samples", "-")
    harness.succeed(*run, *nodes.options, "-o", "results.json", "--output-dir", "runs", stdin=samples)
    attempts = harness.read_json()["attempts"]
    assert [attempt["status"] for attempt in attempts] == ["failed", "agent_error"]


@pytest.mark.parametrize(
    "is_started",
    [
        pytest.param(False, id="a cluster that runs"),
        pytest.param(True, id="a cluster of the run", marks=pytest.mark.thorough),
    ],
)
def test_no_node_has_a_key_of_the_command(harness: Harness, nodes: RayNodes, is_started: bool) -> None:
    Path(harness.folder, "agent.py").write_text(ENVIRONMENT_AGENT)
    secrets = {"OPENAI_API_KEY": "sk-of-the-command", "SOME_TOKEN": "token-of-the-command"}
    options = ("--executor", "ray", "--ray-address", "local") if is_started else nodes.options
    run = ("run", "-b", "gsm8k", "--data", "bundled", "-n", "1", "--agent", harness.folder / "agent.py")
    harness.succeed(*run, *options, "-o", "results.json", env={**secrets, "PLAIN": "plain-of-the-command"})
    (attempt,) = harness.read_json()["attempts"]
    found = {value for value in secrets.values() if value in attempt["agent_output"]}
    assert found == set()
    assert ("plain-of-the-command" in attempt["agent_output"]) == is_started


def test_a_run_without_a_cluster_is_refused(harness: Harness) -> None:
    stderr = harness.expect_refusal(
        *("run", "-b", "gsm8k", "--data", "bundled"), *("--executor", "ray", "--ray-address", "127.0.0.1:1")
    )
    assert "no Ray cluster answers at 127.0.0.1:1" in stderr
    assert list((harness.folder / "runs").iterdir()) == []
