"""Tasks with steps: one machine of the agent, whose processes pause while a step is graded elsewhere."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docker import APIClient
from sealed_tasks import describe

from harness import AttemptContext, run
from harness.environments.container.calibration import find_calibration
from harness.runs.store import ATTEMPTS
from harness.runs.transcripts import TRANSCRIPTS
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.backends.docker.images import require_image
from harness.sandbox.pool import SandboxPool

TOML = """
artifacts = ["/app/one"]
[environment]
workdir = "/app"
[verifier]
env = {OF_TASK = "1"}
[[steps]]
name = "one"
min_reward = 1
[steps.verifier]
env = {OF_STEP = "2"}
[[steps]]
name = "two"
[steps.agent]
timeout_sec = 3
[steps.healthcheck]
command = "test -e /app/set-up"
interval_sec = 0.1
[[steps]]
name = "three"
min_reward = {reward = 0.5, other = 0.5}
[[steps]]
name = "four"
"""
FILES = {
    "task.toml": TOML,
    "environment/Dockerfile": "FROM {image}\nRUN mkdir -p /app/data\nWORKDIR /app\n",
    "tests/helpers.sh": 'give() { echo "$1" > /logs/verifier/reward.txt; exit; }\n',
    "tests/expected": "of the task",
    "tests/test.sh": "#!/bin/bash\n. /tests/helpers.sh\n[ -e late ] && give 0.5\n",
    "steps/one/instruction.md": "Make one.",
    "steps/one/tests/test.sh": "#!/bin/bash\n. /tests/helpers.sh\nsleep 2\n"
    '[ -e one ] && [ "$(cat /tests/expected) $OF_TASK$OF_STEP" = "of the step 12" ] && give 1\n',
    "steps/one/tests/expected": "of the step",
    "steps/two/instruction.md": "Make late.",
    "steps/two/workdir/setup.sh": "set -e; cat data/given > set-up; rm setup.sh\n",
    "steps/two/workdir/data/given": "given",
    "steps/three/instruction.md": "Make three.",
    "steps/three/tests/test.sh": "#!/bin/bash\n"
    """echo '{"reward": 0.75, "other": 0.375}' > /logs/verifier/reward.json\n""",
    "steps/four/instruction.md": "Nobody reads this.",
}


_NOTE_TIMES = "import time\nwhile True: print(time.time(), flush=True); time.sleep(0.1)"


def _write(folder: Path, client: APIClient, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("{image}", require_image(client, "os")))
    return folder


async def _run(folder: Path, act: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the record of a run of a task, and its transcript."""
    result = await run(str(folder), agent=act, output_dir=str(folder.parent / "runs"))
    (line,) = (result.folder / ATTEMPTS).read_text().splitlines()
    (transcript,) = (result.folder / TRANSCRIPTS).iterdir()
    return json.loads(line), [json.loads(each) for each in transcript.read_text().splitlines()]


async def test_an_agent_makes_the_steps_of_a_task_in_one_machine(client: APIClient, tmp_path: Path) -> None:
    folder = _write(tmp_path / "task", client, FILES)
    seen: dict[str, str] = {}

    async def act(context: AttemptContext) -> str:
        assert context.environment is not None

        async def do(command: str) -> str:
            assert context.environment is not None
            seen = await context.environment.call("bash", {"command": command})
            return seen.text.removesuffix("[exit code 0]")

        prompt = context.task.prompt
        seen[prompt] = await do("ls -d /tests /logs/verifier/* 2> /dev/null; cat set-up late; echo $kept")
        if "one" in prompt:
            # A process that notes the time ten times a second, in a shell whose variables stay.
            await do(f"kept=yes; python3 -c '{_NOTE_TIMES}' > /tmp/times & touch one; sleep 0.5")
        elif "late" in prompt:
            await do("touch late; sleep 100")
        else:
            times = (await do("cat /tmp/times")).split()
            seen["longest pause"] = str(max(float(b) - float(a) for a, b in itertools.pairwise(times)))
        return "done"

    record, transcript = await _run(folder, act)
    pause = float(seen.pop("longest pause"))
    assert seen == {
        "Make one.": "cat: set-up: No such file or directory\ncat: late: No such file or directory\n\n",
        "Make late.": "givencat: late: No such file or directory\nyes\n",
        "Make three.": "givenyes\n",
    }
    assert pause > 2, "the agent's process ran while its step was graded"
    steps = record["metrics"]["steps"]
    assert [(step["name"], step["status"], step["reward"]) for step in steps] == [
        ("one", "passed", 1.0),
        ("two", "failed", 0.5),
        ("three", "failed", 0.75),
    ]
    # The mean of each key, and a step that lacks it counts as 0.
    assert record["metrics"]["rewards"] == {"reward": 0.75, "other": 0.125}
    kept = record["metrics"]["artifacts"]
    assert [(each["step"], each["files"]) for each in kept] == [("one", 1), ("two", 1), ("three", 1)]
    # The time of the second step was over.
    assert (record["status"], record["score"], record["metrics"]["limit"]) == (
        "timeout",
        0.75,
        "timeout_seconds",
    )
    assert [entry["name"] for entry in transcript if entry.get("kind") == "step"] == ["one", "two", "three"]


async def test_a_step_that_cannot_begin_on_the_agents_work_fails(client: APIClient, tmp_path: Path) -> None:
    begun = 0

    async def act(context: AttemptContext) -> str:
        nonlocal begun
        begun += 1
        assert context.environment is not None
        await context.environment.call("bash", {"command": "touch one; mkdir set-up"})
        return "done"

    record, _ = await _run(_write(tmp_path / "task", client, FILES), act)
    assert begun == 1
    assert record["status"] == "failed", record
    assert "setup.sh failed with exit code 1" in record["error"], record


async def test_the_reference_of_steps_proves_a_level(
    client: APIClient, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    script = "#!/bin/sh\n[ -e /usr/share/new/{part} ] && echo 1 > /logs/verifier/reward.txt\n"
    files = {
        "task.toml": '[[steps]]\nname = "a"\n[[steps]]\nname = "b"\n',
        "environment/Dockerfile": "FROM {image}\n",
        **{f"steps/{name}/instruction.md": "Do it." for name in "ab"},
        **{f"steps/{name}/tests/test.sh": script.replace("{part}", name) for name in "ab"},
        **{
            f"steps/{name}/solution/solve.sh": "#!/bin/sh\nmkdir -p /usr/share/new\n"
            f"touch /usr/share/new/{name}\n"
            for name in "ab"
        },
    }
    folder = _write(tmp_path / "task", client, files)
    async with SandboxPool(DockerBackend(client), nested_sandboxes=1) as pool:
        found = await find_calibration(*describe(pool, folder))
    assert found.level == "tools", found
