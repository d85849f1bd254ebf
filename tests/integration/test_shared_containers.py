"""Attempts at one task share a grading container, each has its own, or all tasks share one."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import get_args

import pytest
from docker import APIClient

import harness
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.limits import Isolation
from harness.sandbox.pool import SandboxPool, SandboxSettings

pytestmark = pytest.mark.timeout(240)


@pytest.mark.parametrize(("key", "containers"), [("task", 1), (None, 2)])
async def test_leases_of_one_key_get_the_same_container(
    client: APIClient, key: str | None, containers: int
) -> None:
    found = set()
    async with SandboxPool(DockerBackend(client)) as pool:
        for _ in range(2):
            settings = SandboxSettings("python", seccomp="strict")
            async with pool.lease(settings, seconds=60.0, key=key) as sandbox:
                found.add(sandbox.container_id)
    assert len(found) == containers


TASKS = ["HumanEval-sample/3", "HumanEval-sample/4"]
CONTAINERS: dict[Isolation, int] = {"task": 2, "attempt": 4, "run": 1}
# The engine writes this file when it creates a container.
PROGRAM = "import os\nraise ValueError('in ' + str(os.stat('/etc/hostname').st_mtime_ns))"


@pytest.mark.parametrize("isolation", get_args(Isolation))
async def test_a_run_gives_its_attempts_the_containers_that_its_manifest_names(
    tmp_path: Path, isolation: Isolation
) -> None:
    samples = tmp_path / "samples.jsonl"
    # Each text differs, because equal samples need not be graded twice.
    rows = [
        {"task_id": task, "solution": f"{PROGRAM}  # {number}\n"} for task in TASKS for number in range(2)
    ]
    samples.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = functools.partial(harness.run, "humaneval", data="bundled", samples=str(samples), k=[1])
    result = await run(isolation=isolation, output_dir=str(tmp_path), task_ids=TASKS, max_concurrent=1)
    manifest = json.loads((result.folder / "manifest.json").read_text())
    assert manifest["config"]["isolation"] == isolation
    assert manifest["isolation"] == {"python": isolation}
    seen = [record.error for record in result.attempts]
    assert len(seen) == len(rows)
    assert all(": in " in str(text) for text in seen), seen
    assert len({str(text) for text in seen}) == CONTAINERS[isolation]
