"""Runs of task folders: their own limits, and what is graded when they are over."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from docker import APIClient

from harness import AttemptContext, run
from harness.core.types import Status
from harness.runs.store import ATTEMPTS
from harness.sandbox.backends.docker.images import require_image

SCRIPT = "#!/bin/sh\nif [ -f /app/done ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n"


def _write(folder: Path, image: str, toml: str, script: str = SCRIPT) -> None:
    files = {
        "task.toml": toml,
        "instruction.md": "Make the file done.\n",
        "environment/Dockerfile": f"FROM {image}\nWORKDIR /app\n",
        "tests/test.sh": script,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


async def test_a_task_that_cannot_run_ends_alone_and_is_not_tried_again(
    client: APIClient, tmp_path: Path
) -> None:
    image, tasks = require_image(client, "os"), tmp_path / "set"
    _write(tasks / "good", image, "[environment]\nmemory_mb = 256\n")
    _write(tasks / "network", image, '[environment]\nnetwork_mode = "public"\n')
    _write(tasks / "variable", image, '[environment]\nenv = {A = "${NOT_SET}"}\n')
    _write(tasks / "base", "registry.invalid/base:1", "")
    _write(tasks / "build", image, "")
    (tasks / "build/environment/Dockerfile").write_text(f"FROM {image}\n\nRUN echo why it failed; exit 3\n")
    acted: list[str] = []

    async def act(context: AttemptContext) -> str:
        acted.append(context.task.id)
        assert context.environment is not None
        await context.environment.call("bash", {"command": "touch done"})
        return "ended"

    result = await run(str(tasks), agent=act, output_dir=str(tmp_path / "runs"))
    lines = (result.folder / ATTEMPTS).read_text().splitlines()
    records = {record["task_id"]: record for record in map(json.loads, lines)}
    assert acted == ["good"]
    assert records.pop("good")["status"] == Status.PASSED
    expected = {
        "network": "asks for network_mode = 'public'",
        "variable": "needs the variable NOT_SET",
        "base": "environment/Dockerfile:1: cannot get the image registry.invalid/base:1",
        "build": "environment/Dockerfile:3; the end of the log",
    }
    assert {
        name: (each["status"], each["metrics"]["tries"]) for name, each in records.items()
    } == dict.fromkeys(expected, (Status.INFRA_ERROR, 1))
    assert not [name for name, text in expected.items() if text not in records[name]["error"]], records
    assert "why it failed" in records["build"]["error"]
    assert "--allow-network" in records["network"]["metrics"]["hint"]


async def test_no_agent_acts_on_a_task_whose_tests_prove_nothing(
    client: APIClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    _write(tmp_path / "task", require_image(client, "os"), "")
    (tmp_path / "task/solution").mkdir()
    (tmp_path / "task/solution/solve.sh").write_text("#!/bin/sh\n")

    async def act(context: AttemptContext) -> str:
        raise AssertionError("the agent acts")

    result = await run(str(tmp_path / "task"), agent=act, output_dir=str(tmp_path / "runs"))
    record = json.loads((result.folder / ATTEMPTS).read_text())
    assert (record["status"], record["score"]) == (Status.GRADER_ERROR, None)
    assert "the reference passes at no level" in record["error"]


async def test_the_limits_are_the_tasks_own_and_work_that_came_in_time_counts(
    client: APIClient, tmp_path: Path
) -> None:
    image = require_image(client, "os")
    _write(tmp_path / "set/late", image, "[agent]\ntimeout_sec = 8\n")
    slow_tests = SCRIPT.replace("if", "sleep 600; if", 1)
    _write(tmp_path / "set/slow-tests", image, "[verifier]\ntimeout_sec = 3\n", slow_tests)

    async def act(context: AttemptContext) -> str:
        assert context.environment is not None
        await context.environment.call("bash", {"command": "touch done"})
        if context.task.id == "late":
            await asyncio.sleep(600)
        return "ended"

    result = await run(
        str(tmp_path / "set"), agent=act, timeout_multiplier=0.9, output_dir=str(tmp_path / "runs")
    )
    lines = (result.folder / ATTEMPTS).read_text().splitlines()
    records = {record["task_id"]: record for record in map(json.loads, lines)}
    assert records["late"]["status"] == Status.PASSED
    assert (records["slow-tests"]["status"], records["slow-tests"]["metrics"]["phase"]) == (
        Status.TIMEOUT,
        "evaluator",
    )


async def test_an_agent_that_removes_a_user_of_the_task_has_failed_alone(
    client: APIClient, tmp_path: Path
) -> None:
    image = require_image(client, "os")
    _write(tmp_path / "set/tests", image, '[verifier]\nuser = "nobody"\n')
    _write(tmp_path / "set/hook", image, '[[verifier.collect]]\ncommand = "true"\nuser = "nobody"\n')
    _write(tmp_path / "set/none", image, "")

    async def act(context: AttemptContext) -> str:
        assert context.environment is not None
        await context.environment.call("bash", {"command": "touch done; sed -i /^nobody/d /etc/passwd"})
        return "ended"

    result = await run(str(tmp_path / "set"), agent=act, output_dir=str(tmp_path / "runs"))
    lines = (result.folder / ATTEMPTS).read_text().splitlines()
    statuses = {record["task_id"]: record["status"] for record in map(json.loads, lines)}
    assert statuses == {"tests": Status.CRASHED, "hook": Status.CRASHED, "none": Status.PASSED}
