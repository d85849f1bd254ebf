"""Runs of task folders: in images without Python, with refused settings, and at the levels of `calibrate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from docker import APIClient
from e2e.command_line import Harness, RunFolder
from model_server import ModelServer, completion
from sealed_tasks import build_image, write_task

from harness.sandbox.backends.docker.images import require_image

# The published image is replaced, and the task's own has a shell and two programs.
DOCKERFILE = """FROM published:1 AS all
RUN mkdir -p /out/bin /out/app && cp /bin/dash /out/bin/sh && cp /bin/cat /out/bin && chmod 777 /out/app \\
    && cp --parents $(ldd /bin/dash | grep -o '/lib[^ ]*') /out
FROM scratch
COPY --from=all /out /
WORKDIR /app
USER 1000
"""
FILES = {
    "task.toml": '[environment]\nallow_internet = true\n[verifier]\nuser = "root"\n',
    "instruction.md": "Write 42 into answer.",
    "environment/Dockerfile": DOCKERFILE,
    "tests/test.sh": '#!/bin/sh\nread found < /app/answer\n[ "$found" = 42 ] && reward=1 || reward=0\n'
    "echo $reward > /logs/verifier/reward.txt\n",
    "solution/solve.sh": "#!/bin/sh\necho 42 > answer\n",
}

SOLUTION = "#!/bin/sh\necho 42 > /app/answer.txt\n"


@pytest.fixture
def task(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "some-task" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "some-task"


def test_agents_solve_a_task_in_an_image_without_python(
    harness: Harness, task: Path, client: APIClient
) -> None:
    base = require_image(client, "os")
    options = ("-b", str(task), "--base-image", f"published:*={base}", "--network", "none", "--seal", "work")
    results = {}
    for name, agent in {
        "oracle": ("oracle",),
        "null": ("null",),
        "program": ("command", "--agent-cmd", "sh -c 'echo 42 > answer'"),
    }.items():
        folder = harness.folder / name
        harness.succeed("run", *options, "--agent", *agent, "--output-dir", folder)
        (results[name],) = RunFolder(next(folder.iterdir())).attempts
    statuses = {name: record["status"] for name, record in results.items()}
    assert statuses == {"oracle": "passed", "null": "failed", "program": "passed"}
    metrics = results["oracle"]["metrics"]
    assert metrics["replaced_images"] == {"published:1": base}
    assert metrics["without_network"] == "public"


def test_a_model_solves_a_task_in_an_image_without_python(
    harness: Harness, task: Path, client: APIClient, server: ModelServer
) -> None:
    steps = [("bash", {"command": "echo 42 > answer; cat answer"}), ("submit", {"answer": "done"})]
    server.script = lambda asked: completion(
        None, calls=[steps[asked.body["messages"][-1]["role"] == "tool"]]
    )
    base = require_image(client, "os")
    options = ("-b", str(task), "--base-image", f"published:*={base}", "--network", "none", "--seal", "work")
    config = harness.folder / "config.yaml"
    endpoint = {"model": "scripted", "base_url": server.url, "tool_mode": "native"}
    config.write_text(json.dumps({"endpoints": {"scripted": endpoint}}))
    harness.succeed("run", *options, "-c", config, "--model", "scripted")
    (record,) = harness.only_run().attempts
    assert record["status"] == "passed", record["error"]
    sent = json.dumps([asked.body for asked in server.asked])
    assert "Write 42 into answer." in sent
    assert "reward.txt" not in sent


def test_settings_of_task_images_are_refused_elsewhere(harness: Harness, task: Path) -> None:
    samples = harness.folder / "samples.jsonl"
    samples.write_text('{"task_id": "some-task", "solution": "42"}')
    for arguments, message in (
        (("-b", "humaneval", "--base-image", "a=b"), "does not read --base-image"),
        (("-b", "humaneval", "--allow-network"), "does not read --allow-network"),
        (("-b", str(task), "--agent", "null", "--base-image", "ab"), "--base-image 'ab' is not NAME=VALUE"),
        (("-b", str(task), "--agent", "null"), "task some-task asks for network_mode = 'public'"),
        (("-b", str(task), "--agent", "predictions", "--samples", samples), "samples are texts"),
    ):
        ended = harness("run", *arguments)
        assert ended.returncode == 2, ended.stdout + ended.stderr
        assert message in ended.stderr


def test_levels_are_found_and_shown(harness: Harness, client: APIClient, tmp_path: Path) -> None:
    tasks = tmp_path / "tasks"
    kept = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    image = build_image(client)
    write_task(tasks / "proven", image, solution=SOLUTION)
    write_task(tasks / "unknown", image)
    calibrated = harness("calibrate", tasks, "--network", "none", env=kept)
    assert "proven: work, proven by the reference" in calibrated.stdout, calibrated
    assert "unknown: work, no reference" in calibrated.stdout, calibrated
    assert "sealed    2 work" in calibrated.stdout, calibrated
    assert calibrated.returncode == 0, calibrated
    command = ("run", "-b", tasks, "-t", "proven", "--agent", "oracle", "--network", "none")
    solved = harness(*command, env=kept)
    assert "100.0 % resolved" in solved.stdout, solved
