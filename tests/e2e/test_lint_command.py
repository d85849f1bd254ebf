"""`harness lint`: the faults of a set of task folders, as a user sees them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from docker import APIClient
from e2e.command_line import Harness
from sealed_tasks import build_image, write_task

SOLUTION = "#!/bin/sh\necho 42 > /app/answer.txt\n"
ALWAYS = "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n"


@pytest.mark.timeout(600)
def test_machines_show_the_faults_that_files_do_not(
    harness: Harness, client: APIClient, tmp_path: Path
) -> None:
    image, tasks, results = build_image(client), tmp_path / "tasks", harness.folder / "lint.json"
    write_task(tasks / "given", image, script=ALWAYS, solution=SOLUTION)
    copied = write_task(tasks / "leaking", image, solution="#!/bin/sh\nexit 1\n")
    content = (copied / "tests/test_outputs.py").read_text()
    line = f"RUN printf '%s' '{content.encode().hex()}' | python3 -c " + (
        "\"import sys; open('/app/found', 'wb').write(bytes.fromhex(sys.stdin.read()))\"\n"
    )
    (copied / "environment/Dockerfile").write_text(f"FROM {image}\n{line}")
    ended = harness("lint", tasks, "--network", "none", "--repeat", "1", "-o", results)
    assert ended.returncode == 1, ended
    found = json.loads(results.read_text())["findings"]
    errors = {(each["task_id"], each["check"]) for each in found if each["severity"] == "error"}
    given, leaking = ("given", "reference"), ("leaking", "reference")
    assert errors == {given, ("given", "empty agent"), leaking, ("leaking", "leak")}, found
    assert "/app/found" in ended.stdout


def test_files_alone_are_checked_without_a_machine(harness: Harness, tmp_path: Path) -> None:
    write_task(tmp_path / "tasks/one", "scratch", toml='schema_version = "1"\n[environmnt]\n')
    nowhere = {"DOCKER_HOST": "unix:///nowhere"}
    ended = harness("lint", "-b", tmp_path / "tasks", "--static", env=nowhere)
    assert ended.returncode == 0, ended
    assert "one/task.toml:2: warning (schema): the key 'environmnt' is unknown" in ended.stdout
    assert "1 task: 0 errors in 0 of them, " in ended.stdout
    assert harness("lint", "--static").returncode == 2
