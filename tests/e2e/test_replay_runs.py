"""Replays in real sandboxes: of the oracle, of commands of a script, and of a machine that has changed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from e2e.command_line import FinishedRun, Harness, RunFolder
from effort import THOROUGH

SERVER = Path(__file__).parents[1] / "mcp_servers" / "tools.py"
BUNDLED = ("run", "-b", "agentbench", "--data", "bundled")
# Tasks in a database and of a shell. A thorough run has all their kinds.
TASKS = tuple(
    part
    for name in (
        *(f"db/sample/{number}" for number in ((0, 5, 9, 12, 14) if THOROUGH else (0,))),
        "os/sample/answers/1",
        *(("os/sample/states/0", "os/sample/checks/0") if THOROUGH else ()),
    )
    for part in ("-t", name)
)
AGENT = """
COMMANDS = [
    ("mkdir -p /root/made && cd /root/made && echo one > a && cat a", 20),
    ("pwd; echo two >> a; wc -l a; exit_code() { return 3; }; exit_code", 20),
    ("sleep 100", 1),
    ("cat /proc/sys/kernel/random/uuid", 20),
    ("echo the same again", 20),
]


async def attempt(context):
    environment = context.environment
    for command, seconds in COMMANDS:
        await environment.call("bash", {"command": command, "timeout_seconds": seconds})
    await environment.call("bash", {"no": "command"})
    await environment.submit("42")
    return "42"
"""


@pytest.fixture(scope="module")
def oracle_run(finished_run: Callable[..., FinishedRun]) -> RunFolder:
    return finished_run(*BUNDLED, *TASKS).folder


def replay(harness: Harness, recorded: RunFolder, *arguments: str, exit_code: int = 0) -> RunFolder:
    """Replay a run by the command line, which has to end with `exit_code`, and return its folder."""
    ended = harness("run", "--from", recorded.path, "--output-dir", harness.folder / "replays", *arguments)
    assert ended.returncode == exit_code, ended.stderr
    (folder,) = (harness.folder / "replays").iterdir()
    return RunFolder(folder)


def test_no_observation_of_the_oracle_differs_in_sandboxes(harness: Harness, oracle_run: RunFolder) -> None:
    again = replay(harness, oracle_run, "--fail-on-difference")
    compared = again.summary["replay"]
    assert compared["attempts"] == compared["equal"] == compared["same_verdicts"] == len(TASKS) // 2
    assert (compared["observations_differing"], compared["first_difference"]) == (0, None)
    # The SQL of the references ran again, because no call of a tool changes these tables.
    assert {attempt["status"] for attempt in again.attempts} == {"passed"}
    assert again.manifest["replay"]["run_id"] == oracle_run.run_id
    assert again.manifest["replay"]["image_tags"] == again.manifest["image_tags"]


def test_the_first_difference_of_an_edited_run_is_named(
    harness: Harness, oracle_run: RunFolder, tmp_path: Path
) -> None:
    edited = oracle_run.copy_to(tmp_path / "edited")
    path = edited.path / "transcripts" / "os%2Fsample%2Fanswers%2F1-0.jsonl"
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    observation = entries[1]["observation"]
    entries[1]["observation"] = f"{observation[:2]}?{observation[2:]}"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    tasks = ("-t", "os/sample/answers/1", "-t", "db/sample/0")
    folder = replay(harness, edited, *tasks, "--fail-on-difference", exit_code=1)
    compared = folder.summary["replay"]
    assert (compared["equal"], compared["different"], compared["same_verdicts"]) == (1, 1, 2)
    assert compared["first_difference"]["task_id"] == "os/sample/answers/1"
    # A terminal's width decides where the table breaks its lines.
    shown = " ".join(harness("show", folder.path).stdout.split())
    assert "replayed 2 attempts: 1 equal, 1 different; 1 of" in shown
    assert "first difference: os/sample/answers/1, round 1, bash: from character 3: recorded ?" in shown
    assert "[first difference] round 1, bash" in harness("show", folder.path, "os/sample/answers/1").stdout


def test_commands_of_a_script_differ_only_where_they_are_random(harness: Harness, tmp_path: Path) -> None:
    agent = tmp_path / "script.py"
    agent.write_text(AGENT)
    task = ("-t", "os/sample/answers/1")
    harness.succeed(*BUNDLED, *task, "--agent", str(agent), "--output-dir", harness.folder / "runs")
    folder = harness.only_run().path
    again = replay(harness, RunFolder(folder))
    (attempt,) = again.attempts
    assert (attempt["status"], attempt["metrics"]["recorded_status"]) == ("failed", "failed")
    assert (attempt["metrics"]["observations"], attempt["metrics"]["observations_differing"]) == (7, 1)
    assert attempt["metrics"]["first_difference"].startswith("round 4, bash: from character ")


def test_programs_are_graded_again(harness: Harness, finished_run: Callable[..., FinishedRun]) -> None:
    recorded = finished_run("run", "-b", "mbpp", "--data", "bundled", "-n", "1").folder
    compared = replay(harness, recorded).summary["replay"]
    assert (compared["equal"], compared["same_verdicts"], compared["observations"]) == (1, 1, 0)


SERVED_AGENT = """
async def attempt(context):
    environment = context.environment
    await environment.call("bash", {"command": "echo before"})
    await environment.call("add", {"a": 1, "b": 2})
    await environment.call("bash", {"command": "echo after"})
    await environment.submit("42")
    return "42"
"""


def test_a_call_of_a_users_server_is_left_out(harness: Harness) -> None:
    (harness.folder / "agent.py").write_text(SERVED_AGENT)
    server = {"name": "sums", "command": sys.executable, "args": [str(SERVER)]}
    settings = {"benchmark": "agentbench", "data": "bundled", "agent": "agent.py", "mcp_servers": [server]}
    (harness.folder / "servers.yaml").write_text(json.dumps(settings))
    harness.succeed("run", "-c", "servers.yaml", "-t", "os/sample/answers/1")
    recorded = harness.only_run().path
    again = replay(harness, RunFolder(recorded), "--fail-on-difference")
    compared = again.summary["replay"]
    # The calls of the shell, and the submission.
    assert (compared["equal"], compared["observations"]) == (1, 3)
