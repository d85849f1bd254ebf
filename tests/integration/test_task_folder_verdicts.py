"""Runs of task folders: their own limits, and what is graded when they are over."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

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
