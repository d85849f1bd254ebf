"""Programs as agents over whole runs: in a container without a network, and on the host."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import textwrap
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from bundled import load_bundled
from docker import APIClient
from model_fixtures import MODEL_KEY
from model_server import ModelServer, completion
from model_solver import Solver

from harness import RunResult, load_benchmark, run
from harness.core.errors import UsageError
from harness.core.types import AttemptRecord, Status
from harness.environments.spec import EnvironmentSpec
from harness.host.retries import RunStoppedError
from harness.runs.agents.command import agent
from harness.sandbox.backends.docker.engine import connect
from harness.sandbox.machine.agent_images import build_agent_images, read_agent_source

SERVER = Path(__file__).parents[1] / "mcp_servers" / "tools.py"
EXAMPLE = Path(__file__).parents[2] / "examples" / "command_agent"
HUMANEVAL = "HumanEval-sample/12"
CHECK, ANSWER = "os/sample/checks/1", "os/sample/states/3"
PROGRAMS = load_bundled("humaneval")
REPLY = f"```python\n{PROGRAMS.references[HUMANEVAL].solution}\n```"
further = partial(pytest.param, marks=pytest.mark.thorough)


@pytest.fixture(scope="module")
def client() -> Iterator[APIClient]:
    client = connect()
    yield client
    client.close()


@pytest.fixture(scope="module")
def tiny(client: APIClient) -> str:
    """Return the name of the example's agent, whose files are in the images."""
    build_agent_images(client, read_agent_source("tiny", EXAMPLE), ("os", "python"), notify=print)
    return "tiny"


async def run_tasks(
    folder: Path, *tasks: str, server: ModelServer | None = None, **options: Any
) -> RunResult:
    """Run the agent `command` at tasks of one benchmark, with the model of a server if it has one."""
    model = {"model": "scripted", "base_url": server.url} if server else {}
    values: dict[str, Any] = {"agent": "command", "output_dir": str(folder), **model, **options}
    benchmark = "humaneval" if tasks[0] == HUMANEVAL else "agentbench"
    return await run(benchmark, data="bundled", task_ids=[*tasks], **values)


async def run_script(
    folder: Path, script: str, task: str = HUMANEVAL, *, command: Mapping[str, Any] = {}, **options: Any
) -> AttemptRecord:
    """Run a shell script as the program of an agent at one task."""
    quoted = script.replace("'", "'\\''")
    made = await run_tasks(folder, task, command={"cmd": f"bash -c '{quoted}'", **command}, **options)
    return only(made)


def read_entries(folder: Path) -> list[dict[str, Any]]:
    """Return the entries of the only transcript below a folder."""
    (path,) = folder.glob("*/transcripts/*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def read_summary(folder: Path) -> dict[str, Any]:
    """Return the summary of the only run in a folder."""
    (path,) = folder.glob("*/summary.json")
    return dict(json.loads(path.read_text()))


def read_end(folder: Path) -> dict[str, Any]:
    """Return the entry of the only transcript below a folder that describes the program's end."""
    (entry,) = (each for each in read_entries(folder) if each.get("kind") == "program")
    return entry


def only(result: RunResult) -> AttemptRecord:
    (record,) = result.attempts
    return record


@pytest.mark.parametrize("task", [HUMANEVAL, CHECK])
async def test_an_agent_in_a_container_solves_tasks_through_the_relay(
    server: ModelServer, tmp_path: Path, tiny: str, task: str
) -> None:
    benchmark = "humaneval" if task == HUMANEVAL else "agentbench"
    server.script = solver = Solver(load_benchmark(benchmark, data="bundled", notify=print))
    command = {"cmd": "tiny-agent", "image": tiny, "submission": "submit"}
    record = only(await run_tasks(tmp_path, task, server=server, command=command))
    assert solver.unknown == []
    assert (record.status, record.error) == (Status.PASSED, None)
    assert {asked.headers["authorization"] for asked in server.asked} == {f"Bearer {MODEL_KEY}"}


async def test_a_program_finds_neither_the_key_nor_a_network(server: ModelServer, tmp_path: Path) -> None:
    script = """
        env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr "\\0" "\\n"
        grep -rsl "$KEY_PART" /tmp /work /etc /opt /root /dev/shm || echo none
        cat /proc/net/dev | tail -n +3 | cut -d: -f1
    """
    record = await run_script(tmp_path, script, server=server, command={"env": {"KEY_PART": MODEL_KEY[:6]}})
    end = read_end(tmp_path)
    assert record.status is Status.FAILED
    assert MODEL_KEY not in json.dumps(end)
    assert end["stdout"].splitlines()[-1].strip() == "lo"
    assert "none" in end["stdout"]


async def test_a_variable_with_the_key_does_not_enter_the_container(
    server: ModelServer, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"'command\.env\.MY_KEY' holds the key"):
        await run_script(tmp_path, "true", server=server, command={"env": {"MY_KEY": f"x{MODEL_KEY}"}})


@pytest.mark.parametrize("task", [HUMANEVAL, pytest.param(CHECK, marks=pytest.mark.thorough)])
async def test_a_program_that_is_not_in_the_sandbox_ends_the_run_before_it_costs_an_attempt(
    tmp_path: Path, task: str
) -> None:
    with pytest.raises(UsageError, match='program "tiny-agnet" is not in the sandbox'):
        await run_tasks(tmp_path, task, command={"cmd": "tiny-agnet {prompt_file}"})
    assert os.listdir(tmp_path) == []


async def test_a_run_stops_whose_program_starts_in_none_of_its_first_attempts(tmp_path: Path) -> None:
    tasks = [task.id for task in PROGRAMS.tasks[:5]]
    with pytest.raises(RunStoppedError, match=r"first 3 attempt.* exit code 127 .*nowhere: .*not found"):
        await run(
            *("humaneval",),
            agent="command",
            data="bundled",
            task_ids=tasks,
            command={"cmd": "bash -c nowhere"},
            max_concurrent=1,
            output_dir=str(tmp_path),
        )
    assert read_summary(tmp_path)["statuses"] == {"agent_error": 3, "cancelled": 2}


@pytest.mark.parametrize(
    ("script", "command"),
    [
        pytest.param("harness-submit {}; echo wrong", {}, id="harness-submit", marks=pytest.mark.thorough),
        pytest.param("harness-submit wrong; printf %s {} | harness-submit", {}, id="the last one"),
        pytest.param("printf %s {} > answer.txt", {"submission_file": "answer.txt"}, id="file"),
        pytest.param("printf %s {}; echo noise >&2", {}, id="stdout", marks=pytest.mark.thorough),
    ],
)
async def test_a_program_submits_in_several_ways(
    tmp_path: Path, script: str, command: dict[str, Any]
) -> None:
    quoted = script.replace("{}", '"$SOLUTION"')
    record = await run_script(tmp_path, quoted, command={"env": {"SOLUTION": REPLY}, **command})
    assert (record.status, record.error) == (Status.PASSED, None)


@pytest.mark.parametrize(
    ("script", "command", "status", "error"),
    [
        ("echo late >&2; exit 3", {}, Status.AGENT_ERROR, "exit code 3 before it submitted: late"),
        further("kill -9 $$", {}, Status.AGENT_ERROR, "signal 9"),
        ("true", {"submission": "submit"}, Status.AGENT_ERROR, "without a submission"),
        further("true", {"submission_file": "x"}, Status.AGENT_ERROR, "x is not a file"),
        ("mkfifo x", {"submission_file": "x"}, Status.AGENT_ERROR, "x is not a file"),
        ("echo x; harness-submit ''", {}, Status.FAILED, "the program submitted an empty answer; "),
        further("echo log >&2", {}, Status.FAILED, "the program printed nothing; "),
        further("touch x", {"submission_file": "x"}, Status.FAILED, '"x" is empty; '),
    ],
)
async def test_a_missing_submission_is_an_error_of_the_agent_and_an_empty_one_is_named(
    tmp_path: Path, script: str, command: dict[str, Any], status: Status, error: str
) -> None:
    record = await run_script(tmp_path, script, command=command)
    assert record.status is status
    assert error in str(record.error)


CALL_TOOL = """
import json, os, sys, urllib.request
name, arguments = sys.argv[1], json.loads(sys.argv[2])
call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
head = {"Authorization": "Bearer " + os.environ["HARNESS_MCP_TOKEN"], "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
request = urllib.request.Request(os.environ["HARNESS_MCP_URL"], json.dumps(call).encode(), head)
print(urllib.request.urlopen(request).read().decode())
"""


async def test_the_end_of_a_tools_command_spares_the_program_and_what_it_starts(tmp_path: Path) -> None:
    script = """
        python3 -c "$CALL_TOOL" bash '{"command": "sleep 50", "timeout_seconds": 2}' > call &
        sleep 1
        sleep 300 &
        child=$!
        wait %1
        grep -q interrupted call || exit 4
        kill -0 $child || exit 5
        harness-submit done
    """
    record = await run_script(tmp_path, script, ANSWER, command=CALLING)
    assert record.status is Status.FAILED, record.error
    assert read_end(tmp_path)["exit_code"] == 0


CALLING = {"env": {"CALL_TOOL": CALL_TOOL}}
APPEND = "Add numbers with mcp__sums__add."
SUMS = {
    "name": "sums",
    "command": sys.executable,
    "args": [str(SERVER)],
    "system_prompt_append": APPEND,
}


async def test_a_program_calls_the_tools_of_a_users_server(tmp_path: Path) -> None:
    script = """python3 -c "$CALL_TOOL" add '{"a": 40, "b": 2}'"""
    record = await run_script(tmp_path, script, command=CALLING, mcp_servers=[SUMS])
    assert '"text":"42"' in str(record.agent_output)
    assert record.metrics["mcp"]["sums"]["tools"]["add"]["calls"] == 1


async def test_a_baseline_of_a_program_lacks_the_tools_and_the_prompt_of_a_server_alone(
    tmp_path: Path,
) -> None:
    async def show(*, baseline: bool) -> tuple[str, list[str]]:
        """Return the prompt of a program, and the tools that its task names."""
        script = 'cat "$HARNESS_PROMPT_FILE"; echo END; cat "$HARNESS_TASK_FILE"'
        folder = tmp_path / str(baseline)
        own = {"machine": "own"}
        await run_script(folder, script, ANSWER, command=own, mcp_servers=[SUMS], baseline=baseline)
        prompt, _, about = read_end(folder)["stdout"].partition("END")
        return prompt, [tool["name"] for tool in json.loads(about)["tools"]]

    prompt, tools = await show(baseline=False)
    assert "act in the task: `bash`, `submit`." in prompt
    assert tools == ["bash", "add", "fail", "fill", "mcp__sums__submit", "submit"]
    assert await show(baseline=True) == (prompt.replace(f"{APPEND}\n\n", ""), ["bash", "submit"])


async def test_a_program_that_goes_on_after_it_has_submitted_by_mcp_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "GOODBYE_SECONDS", 0.5)
    script = """python3 -c "$CALL_TOOL" submit '{"answer": "return 1"}'; sleep 1000"""
    assert (await run_script(tmp_path, script, command=CALLING)).status is Status.FAILED
    assert read_end(tmp_path)["ended"] == "after it had submitted"


async def test_at_the_time_limit_the_program_is_ended_and_later_work_is_not_graded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Users cannot choose less than 180 s.
    monkeypatch.setattr(EnvironmentSpec, "agent_seconds", lambda *_: 5.0)
    script = """
        echo begun; echo careful >&2
        (sleep 6; printf %s "$SOLUTION" | harness-submit) &
        wait
    """
    record = await run_script(tmp_path, script, command={"env": {"SOLUTION": REPLY}})
    assert record.status is Status.TIMEOUT
    end = read_end(tmp_path)
    assert (end["stdout"], end["stderr"]) == ("begun\n", "careful\n")
    assert end["ended"] == "by the harness, because the attempt was over"


async def test_a_daemon_that_outlives_the_program_does_not_reach_the_relay(
    server: ModelServer, tmp_path: Path
) -> None:
    # It asks the model until it is killed, and the program ends once it was answered.
    ask = """
        import os, time, urllib.request
        url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
        head = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
        body = b'{"messages": [{"role": "user", "content": "still there?"}]}'
        while True:
            try:
                urllib.request.urlopen(urllib.request.Request(url, body, head), timeout=5).read()
                open("answered", "w")
            except OSError:
                open("refused", "w")
            time.sleep(0.01)
    """
    script = """
        setsid python3 -c "$ASK" > /dev/null 2>&1 &
        while [ ! -e answered ]; do sleep 0.05; done
        harness-submit done
    """
    command = {"env": {"ASK": textwrap.dedent(ask)}}
    record = await run_script(tmp_path, script, ANSWER, server=server, command=command)
    assert record.status is Status.FAILED, record.error
    # Every request that reached the model was one of the attempt, before it was graded.
    assert record.metrics["model_requests"] == len(server.asked) > 0
    kinds = [each.get("kind") for each in read_entries(tmp_path)]
    assert "model" not in kinds[kinds.index("program") :]


async def test_a_budget_ends_the_program(server: ModelServer, tmp_path: Path, tiny: str) -> None:
    server.script = lambda _asked: completion(calls=[("bash", {"command": "true"})], usage=(10, 50))
    record = await run_script(
        *(tmp_path, "tiny-agent; sleep 1000"),
        server=server,
        command={"image": tiny},
        attempt_budget={"output_tokens": 120},
    )
    assert record.status is Status.LIMIT_REACHED
    assert record.metrics["limit"] == "output_tokens"


async def test_a_task_with_a_database_has_its_tools_by_mcp_and_a_workspace_next_to_it(tmp_path: Path) -> None:
    script = """python3 -c "$CALL_TOOL" sql '{"sql": "SELECT 41 + 1"}'; harness-submit 0"""
    record = await run_script(tmp_path, script, "db/sample/0", max_sandboxes=1, command=CALLING)
    assert record.status is Status.FAILED
    assert "42" in read_end(tmp_path)["stdout"]


async def test_a_program_that_destroys_its_workspace_gets_no_second_chance(tmp_path: Path) -> None:
    # Root may fill the file system of its machine.
    script = "head -c 200M /dev/zero > /root/full; sleep 100"
    record = await run_script(tmp_path, script, ANSWER, limits={"disk_mb": 50, "file_mb": 500})
    assert record.status in (Status.OUTPUT_LIMIT, Status.MEMORY_LIMIT, Status.CRASHED), record.error
    assert record.metrics.get("tries") is None


async def test_a_program_on_the_host_gets_the_named_variables_alone(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMED", "visible")
    monkeypatch.setenv("UNNAMED", "hidden")
    server.script = lambda _asked: completion("    return 1")
    program = tmp_path / "program.py"
    program.write_text((EXAMPLE / "bin" / "tiny-agent").read_text() + "print(sorted(os.environ))\n")
    command = {"cmd": f"{sys.executable} {program}", "where": "host", "pass_env": ["NAMED"]}
    record = only(await run_tasks(tmp_path / "runs", HUMANEVAL, server=server, command=command))
    assert record.status is Status.FAILED, record.error
    end = read_end(tmp_path / "runs")
    assert end["exit_code"] == 0, end["stderr"]
    assert "'NAMED'" in end["stdout"]
    assert "UNNAMED" not in end["stdout"]
    assert [asked.headers["authorization"] for asked in server.asked] == [f"Bearer {MODEL_KEY}"]


async def test_a_program_on_the_host_that_kills_its_supervisor_gets_no_second_chance(tmp_path: Path) -> None:
    script = f"echo x >> {tmp_path}/started; kill -KILL $PPID; exec sleep 600"
    record = await run_script(tmp_path / "runs", script, command={"where": "host"}, max_concurrent=1)
    assert record.status is Status.AGENT_ERROR
    assert record.error == "the program ended the process that supervises it"
    assert record.metrics["integrity"] == "ended the process that supervises it"
    assert read_summary(tmp_path / "runs")["integrity"] == {"ended the process that supervises it": 1}
    assert "supervises it" in read_end(tmp_path / "runs")["ended"]
    assert (tmp_path / "started").read_text() == "x\n"


async def test_a_submission_on_the_host_leads_to_no_file_of_the_harness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_HARNESS", "sk-0123456789")
    script = 'ln -sf /proc/self/environ "$HARNESS_SUBMISSION_FILE"; ln -s /proc/self/environ answer'
    command = {"where": "host", "submission_file": "answer"}
    record = await run_script(tmp_path, script, command=command)
    assert record.status is Status.AGENT_ERROR
    assert "answer is not a file of at most" in str(record.error)
    paths = await asyncio.to_thread(lambda: [path for path in tmp_path.rglob("*") if path.is_file()])
    written = [path.read_bytes() for path in paths]
    assert len(written) > 4
    assert not any(b"sk-0123456789" in data for data in written)
