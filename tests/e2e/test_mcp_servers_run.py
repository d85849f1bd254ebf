"""Runs of the chat agent with the tools of MCP servers, and their baselines."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest
from model_server import Asked, ModelServer, completion
from tool_scripts import in_turn, observations

from harness import RunResult, run
from harness.core.errors import UsageError
from harness.runs.stored_result import list_absent_servers

SERVERS = Path(__file__).parents[1] / "mcp_servers"
APPEND = "Add numbers with mcp__sums__add."
SUMS = {"name": "sums", "command": sys.executable, "args": [str(SERVERS / "tools.py")]}
LAMP = "os/sample/answers/0"


def broken(how: str, *arguments: str) -> dict[str, Any]:
    script = str(SERVERS / "broken.py")
    return {"name": "broken", "command": sys.executable, "args": [script, how, *arguments]}


def reading(folder: Path) -> dict[str, Any]:
    """Return a server that needs no package, and whose tool `look` returns `text`."""
    path = folder / "read"
    path.write_text("text")
    return broken("read", str(path))


async def run_chat(
    server: ModelServer,
    folder: Path,
    *mcp_servers: Mapping[str, Any],
    benchmark: str = "gsm8k",
    tool_mode: str = "native",
    **options: Any,
) -> RunResult:
    return await run(
        benchmark,
        agent="chat",
        data="bundled",
        endpoints={"scripted": {"model": "scripted", "base_url": server.url, "tool_mode": tool_mode}},
        model="scripted",
        mcp_servers=[dict(each) for each in mcp_servers],
        output_dir=str(folder),
        **options,
    )


def names_of(asked: Asked) -> list[str]:
    return [tool["function"]["name"] for tool in asked.body["tools"]]


async def test_a_model_calls_the_tools_of_a_server_on_a_task_without_an_environment(
    server: ModelServer, tmp_path: Path
) -> None:
    server.script = in_turn(
        ("add", {"a": 2, "b": 3}), ("fail", {"reason": "no"}), ("submit", {"answer": "5"})
    )
    result = await run_chat(server, tmp_path, SUMS, sample_size=1)
    assert observations(server) == ["5", "error: Error executing tool fail: no"]
    assert names_of(server.asked[0]) == ["add", "fail", "fill", "mcp__sums__submit", "submit"]
    (record,) = result.attempts
    assert record.agent_output == "5"
    used = record.metrics["mcp"]["sums"]
    assert {name: (use["calls"], use["errors"]) for name, use in used["tools"].items()} == {
        "add": (1, 0),
        "fail": (1, 1),
        "fill": (0, 0),
        "submit": (0, 0),
    }
    summary = json.loads((result.folder / "summary.json").read_text())
    assert summary["mcp"]["sums"]["tools"]["add"]["calls"] == 1
    assert "mcp sums" in (result.folder / "report.html").read_text()


async def test_a_sandbox_has_its_own_tools_and_the_tools_of_the_server(
    server: ModelServer, tmp_path: Path
) -> None:
    server.script = in_turn(
        ("bash", {"command": "echo here"}),
        ("mcp__broken__look", {"a": 1}),
        ("submit", {"answer": "copper"}),
    )
    result = await run_chat(server, tmp_path, reading(tmp_path), benchmark="agentbench", task_ids=[LAMP])
    (record,) = result.attempts
    assert (record.status.value, record.metrics["rounds"]) == ("passed", 3)
    assert observations(server) == ["here\n[exit code 0]", "text"]


@pytest.mark.parametrize("how", ["die", pytest.param("flood", marks=pytest.mark.thorough)])
async def test_a_broken_server_costs_its_own_tools_only(
    server: ModelServer, tmp_path: Path, how: str
) -> None:
    server.script = in_turn(("look", {"a": 1}), ("submit", {"answer": "5"}))
    result = await run_chat(server, tmp_path, broken(how), sample_size=1)
    (record,) = result.attempts
    assert record.agent_output == "5"
    used = record.metrics["mcp"]["broken"]
    assert used["tools"]["look"]["errors"] == 1
    assert observations(server)[0].startswith("error: the MCP server 'broken' failed")


async def test_a_server_that_fails_to_start_in_an_attempt_costs_its_own_tools_only(
    server: ModelServer, tmp_path: Path
) -> None:
    server.script = in_turn(("look", {"a": 1}), ("submit", {"answer": "5"}))
    script = f"mkdir {tmp_path}/started && exec {sys.executable} {SERVERS / 'broken.py'} die"
    once = {"name": "once", "command": "sh", "args": ["-c", script]}
    result = await run_chat(server, tmp_path / "runs", once, sample_size=1)
    (record,) = result.attempts
    assert record.agent_output == "5"
    used = record.metrics["mcp"]["once"]
    assert used.pop("start_error")
    assert used == {"failed_starts": 1, "tools": {}}
    assert list_absent_servers(result.summary.mcp) == ["once"]


@pytest.mark.parametrize("how", ["exit-at-start", pytest.param("thousands", marks=pytest.mark.thorough)])
async def test_a_server_that_cannot_start_is_named_before_the_first_attempt_and_spares_the_run(
    server: ModelServer, tmp_path: Path, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.script = in_turn(("look", {"a": 1}), ("submit", {"answer": "5"}))
    other = {**reading(tmp_path), "name": "other"}
    result = await run_chat(server, tmp_path, broken(how), other, sample_size=1)
    assert "mcp_servers.broken: the server cannot be used" in capsys.readouterr().err
    assert observations(server)[0] == "text"
    assert list_absent_servers(result.summary.mcp) == ["broken"]


@pytest.mark.parametrize(
    ("benchmark", "task_ids"),
    [
        pytest.param("gsm8k", None, id="answer", marks=pytest.mark.thorough),
        pytest.param("agentbench", [LAMP], id="sandbox"),
    ],
)
@pytest.mark.parametrize("mode", ["native", pytest.param("text", marks=pytest.mark.thorough)])
async def test_a_baseline_differs_in_nothing_but_the_tools_and_the_prompt(
    server: ModelServer, tmp_path: Path, benchmark: str, task_ids: list[str] | None, mode: str
) -> None:
    def reply(asked: Asked) -> Mapping[str, Any]:
        if mode == "native":
            return completion(calls=[("submit", {"answer": "5"})])
        return completion("Act: submit\n```\n5\n```")

    server.script = reply
    treated = {**broken("die"), "system_prompt_append": APPEND}
    asked = []
    for baseline in (False, True):
        server.asked.clear()
        await run_chat(
            server,
            tmp_path,
            treated,
            benchmark=benchmark,
            baseline=baseline,
            system_prompt="Be brief.",
            tool_mode=mode,
            **({"sample_size": 1} if task_ids is None else {"task_ids": task_ids}),
        )
        asked.append(server.asked[-1].body)
    with_server, without = asked
    if mode == "native":
        added = [tool for tool in with_server["tools"] if tool not in without["tools"]]
        assert [tool["function"]["name"] for tool in added] == ["look"]
        assert [tool for tool in with_server["tools"] if tool not in added] == without["tools"]
        with_server = {**with_server, "tools": without["tools"]}
    system, *messages = with_server["messages"]
    assert system == {"role": "system", "content": f"Be brief.\n\n{APPEND}"}
    if mode == "text":
        prompt = messages[0]["content"]
        start, end = prompt.index("`look`: "), prompt.index("`submit`: ")
        messages = [{**messages[0], "content": prompt[:start] + prompt[end:]}, *messages[1:]]
    plain = [{"role": "system", "content": "Be brief."}, *messages]
    assert {**with_server, "messages": plain} == without


async def test_a_setup_command_runs_once_before_all_servers(server: ModelServer, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    server.script = in_turn(("submit", {"answer": "5"}))
    command = f"echo once >> {marks}"
    await run_chat(server, tmp_path, {**broken("die"), "setup_command": command}, sample_size=3)
    assert marks.read_text() == "once\n"


async def test_a_server_that_cannot_be_prepared_stops_the_run(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = {**broken("die"), "setup_command": "echo no disk >&2; exit 4"}
    with pytest.raises(UsageError, match="failed with exit code 4: no disk"):
        await run_chat(server, tmp_path, failing, sample_size=1)
    with pytest.raises(UsageError, match="the command '/nowhere/x' is not there"):
        await run_chat(server, tmp_path, {"name": "a", "command": "/nowhere/x"}, sample_size=1)
    with pytest.raises(UsageError, match=r"'mcp_servers\.sums\.env\.KEY' holds the key of model"):
        await run_chat(server, tmp_path, {**SUMS, "env": {"KEY": "${OPENAI_API_KEY}"}}, sample_size=1)
    with pytest.raises(UsageError, match="MISSING is not set"):
        await run_chat(server, tmp_path, {**SUMS, "env": {"KEY": "${MISSING}"}}, sample_size=1)
    assert server.asked == []


async def test_settings_that_nobody_reads_are_refused(server: ModelServer, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="agent 'oracle' does not read 'mcp_servers'"):
        await run("gsm8k", agent="oracle", data="bundled", mcp_servers=[SUMS], output_dir=str(tmp_path))
    with pytest.raises(UsageError, match="the config names none"):
        await run_chat(server, tmp_path, sample_size=1, baseline=True)


async def test_a_server_that_kills_its_supervisor_leaves_no_process_and_is_named(
    server: ModelServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.script = in_turn(("submit", {"answer": "5"}))
    leave = f"setsid env -i /bin/sleep 600 < /dev/null > /dev/null 2>&1 & echo $! >> {tmp_path}/pids"
    script = f"{leave}; kill -KILL $PPID; exec sleep 600"
    killing = {"name": "killing", "command": "sh", "args": ["-c", script]}
    result = await run_chat(server, tmp_path / "runs", killing, sample_size=1)
    fault = "ended the process that supervises it"
    assert f"mcp_servers.killing: the server {fault}" in capsys.readouterr().err
    (path,) = (result.folder / "transcripts").glob("*.jsonl")
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    (end,) = (entry for entry in entries if "unclean_end" in entry)
    assert (end["kind"], end["server"], end["unclean_end"]) == ("mcp_server", "killing", fault)
    pids = [int(line) for line in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2  # the trial, and the attempt
    assert not any(map(psutil.pid_exists, pids))
