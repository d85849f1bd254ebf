"""Runs of the chat agent with MCP servers in the machine of the task, and in sandboxes of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from docker import APIClient
from mcp_images import FOLDER, build_server_images
from model_server import ModelServer
from tool_scripts import in_turn, observations

from harness import RunResult, run
from harness.core.errors import ImageMissingError, UsageError
from harness.core.types import Status
from harness.environments.base import SandboxEnvironment
from harness.environments.grading import GradingContext, grade_submission
from harness.runs import attempt
from harness.sandbox.sandbox import Sandbox

LAMP = "os/sample/answers/0"


@pytest.fixture(scope="module")
def prepared(client: APIClient, tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_server_images(client, tmp_path_factory.mktemp("servers"))


def server_of(image: str, how: str, *args: str, **changes: Any) -> dict[str, Any]:
    args = (f"{FOLDER}/broken.py", how, *args)
    given = {"name": "test", "command": "python3", "args": [*args], "where": "sandbox", "image": image}
    return {**given, **changes}


async def run_chat(
    server: ModelServer, folder: Path, *servers: dict[str, Any], benchmark: str = "agentbench", **options: Any
) -> RunResult:
    chosen = {"task_ids": [LAMP]} if benchmark == "agentbench" else {"sample_size": 1}
    return await run(
        benchmark,
        agent="chat",
        data="bundled",
        endpoints={"scripted": {"model": "scripted", "base_url": server.url, "tool_mode": "native"}},
        model="scripted",
        mcp_servers=list(servers),
        output_dir=str(folder),
        **chosen,
        **options,
    )


def keep_sandboxes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Return a list that gets the image and the id of each sandbox of a run when it starts."""
    started: list[tuple[str, str]] = []
    create = Sandbox.__init__

    def note(self: Sandbox, backend: Any, container_id: str, connection: Any, spec: Any) -> None:
        create(self, backend, container_id, connection, spec)
        started.append((spec.image, container_id))

    monkeypatch.setattr(Sandbox, "__init__", note)
    return started


async def test_servers_of_any_task_have_sandboxes_of_their_own_which_end_before_grading(
    server: ModelServer,
    client: APIClient,
    tmp_path: Path,
    prepared: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = keep_sandboxes(monkeypatch)
    left: list[str] = []

    async def look_and_grade(*args: Any, **options: Any) -> Any:
        left.extend(name for _image, name in started if client.containers(all=True, filters={"id": name}))
        return await grade_submission(*args, **options)

    monkeypatch.setattr(attempt, "grade_submission", look_and_grade)
    sums = server_of(prepared, "x", name="sums", env={"PYTHONPATH": f"{FOLDER}/lib"})
    sums["args"] = [f"{FOLDER}/tools.py"]
    server.script = in_turn(
        ("add", {"a": 2, "b": 3}),
        ("mcp__test__look", {"a": 1}),
        ("submit", {"answer": "5"}),
    )
    result = await run_chat(server, tmp_path, sums, server_of(prepared, "network"), benchmark="gsm8k")
    assert observations(server) == ["5", "lo"]
    (record,) = result.attempts
    assert record.agent_output == "5"
    assert len(started) == 2
    assert left == []


@pytest.mark.parametrize("benchmark", ["gsm8k", pytest.param("agentbench", marks=pytest.mark.thorough)])
async def test_attempts_that_need_more_sandboxes_than_fit_do_not_wait_for_each_other(
    server: ModelServer, tmp_path: Path, prepared: str, benchmark: str
) -> None:
    server.script = in_turn(("submit", {"answer": "copper"}))
    first, second = (server_of(prepared, "die", name=name, machine="own") for name in ("first", "second"))
    result = await run_chat(
        server, tmp_path, first, second, benchmark=benchmark, n_samples=3, max_sandboxes=1
    )
    assert [each.agent_output for each in result.attempts] == ["copper"] * 3
    assert all(use["failed_starts"] == 0 for each in result.attempts for use in each.metrics["mcp"].values())


async def test_a_server_in_the_machine_works_on_its_files_and_ends_before_grading(
    server: ModelServer, tmp_path: Path, prepared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[str] = []

    async def look_and_grade(target: Any, submission: Any, context: GradingContext) -> Any:
        assert isinstance(context.environment, SandboxEnvironment)
        listed = await context.environment.sandbox.exec(["sh", "-c", "cat /proc/[0-9]*/cmdline"])
        left.append(str(listed.stdout))
        return await grade_submission(target, submission, context)

    monkeypatch.setattr(attempt, "grade_submission", look_and_grade)
    server.script = in_turn(
        ("bash", {"command": "echo written by the agent > note; WORD=kept"}),
        ("mcp__reader__look", {"a": 1}),
        ("mcp__spawner__look", {"a": 1}),
        ("mcp__dying__look", {"a": 1}),
        ("bash", {"command": "echo $WORD; id -u"}),
        ("submit", {"answer": "copper"}),
    )
    result = await run_chat(
        server,
        tmp_path,
        server_of(prepared, "read", "{workdir}/note", name="reader"),
        server_of(prepared, "daemon", name="spawner"),
        server_of(prepared, "die", name="dying"),
    )
    (record,) = result.attempts
    read, _daemon, died, shell = observations(server)[1:5]
    assert read == "written by the agent\n"
    assert "out of licences" in died
    assert shell == "kept\n0\n[exit code 0]"
    assert (record.status, record.error) == (Status.PASSED, None)
    (text,) = left
    assert "broken.py" not in text
    assert "sleep" not in text


async def test_a_server_that_ends_all_processes_of_the_machine_leaves_the_agent_a_new_shell(
    server: ModelServer, tmp_path: Path, prepared: str
) -> None:
    # The first command may come before the end of the old shell has been noticed. Then it is lost with it.
    echo = ("bash", {"command": "echo on"})
    server.script = in_turn(("look", {"a": 1}), echo, echo, ("submit", {"answer": "copper"}))
    result = await run_chat(server, tmp_path, server_of(prepared, "kill-all"))
    (record,) = result.attempts
    assert observations(server)[0].startswith("error: the MCP server 'test' failed")
    assert "on\n" in observations(server)[2]
    assert record.status is Status.PASSED


async def test_a_server_that_costs_the_machine_ends_the_attempt(
    server: ModelServer, tmp_path: Path, prepared: str
) -> None:
    server.script = in_turn(("look", {"a": 1}), ("submit", {"answer": "copper"}))
    result = await run_chat(server, tmp_path, server_of(prepared, "fill-disk"))
    (record,) = result.attempts
    assert (record.resolved, record.status, record.metrics["limit"]) == (
        False,
        Status.OUTPUT_LIMIT,
        "disk_mb",
    )


async def test_a_server_that_fills_its_own_sandbox_costs_its_tools(
    server: ModelServer, tmp_path: Path, prepared: str
) -> None:
    server.script = in_turn(("look", {"a": 1}), ("submit", {"answer": "copper"}))
    result = await run_chat(server, tmp_path, server_of(prepared, "fill-disk", machine="own"))
    (record,) = result.attempts
    assert observations(server)[0].startswith("error: the MCP server 'test' failed")
    assert record.status is Status.PASSED


async def test_a_baseline_runs_in_the_same_machine_without_the_server(
    server: ModelServer, tmp_path: Path, prepared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = keep_sandboxes(monkeypatch)
    # The listing shows the sockets that a program may open, and the files of the layer.
    show = "python3 -c 'import socket; socket.socket()' && ls /opt/agents"
    server.script = in_turn(("bash", {"command": show}), ("submit", {"answer": "copper"}))
    seen = []
    for baseline in (False, True):
        await run_chat(server, tmp_path, server_of(prepared, "die"), baseline=baseline)
        seen.append((started[0][0], observations(server)))
        started.clear()
    assert seen[0] == seen[1]
    assert seen[0][1] == [f"{prepared}\n[exit code 0]"]


async def test_a_server_that_cannot_be_prepared_stops_the_run(
    server: ModelServer, tmp_path: Path, prepared: str
) -> None:
    with pytest.raises(ImageMissingError) as missing:
        await run_chat(server, tmp_path, server_of("nowhere-prepared", "die"))
    assert "harness images build --agent nowhere-prepared" in str(missing.value.hint)
    with pytest.raises(UsageError, match=r"env\.KEY' holds the key of model"):
        await run_chat(server, tmp_path, server_of(prepared, "die", env={"KEY": "${OPENAI_API_KEY}"}))
    with pytest.raises(UsageError, match="in the same sandbox"):
        await run_chat(server, tmp_path, server_of(prepared, "die"), server_of("other", "die", name="second"))
    assert server.asked == []


async def test_a_command_that_is_not_there_costs_the_tools_of_its_server(
    server: ModelServer, tmp_path: Path, prepared: str
) -> None:
    server.script = in_turn(("submit", {"answer": "5"}))
    gone = server_of(prepared, "die", command="no-such-server")
    result = await run_chat(server, tmp_path, gone, benchmark="gsm8k")
    (record,) = result.attempts
    assert record.agent_output == "5"
    assert "no-such-server: not found" in json.dumps(record.metrics["mcp"]["test"]["start_error"])
