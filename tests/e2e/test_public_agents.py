"""Public agents that are not ours, from their registries, in containers without a network."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from model_server import Asked, ModelServer, RawReply, call_item, completion, text_item
from streamed_events import stream_message, stream_response

from harness import RunResult, load_benchmark, run
from harness.cli.machine import find_source
from harness.core.errors import SandboxError, UsageError
from harness.core.types import Reference, Status
from harness.sandbox.backends.docker.engine import connect
from harness.sandbox.machine.agent_images import build_agent_images

HUMANEVAL = "HumanEval-sample/12"
OS = "os/sample/checks/1"
SUBMIT = "/tmp/harness/bin/harness-submit"
# These install up to 800 MB of images. tests/e2e/test_command_agent.py always runs a small agent.
pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]


def prepare(name: str) -> None:
    """Prepare a public agent, or skip the test if its packages cannot be installed."""
    client = connect()
    try:
        build_agent_images(client, find_source(name), ("os", "python"), notify=print)
    except (SandboxError, UsageError) as error:
        if "cannot prepare agent" not in error.message and "is installed by npm" not in error.message:
            raise
        pytest.skip(f"the packages of {name} cannot be installed: {error.message[:200]}")
    finally:
        client.close()


async def attempt_task(
    server: ModelServer, folder: Path, agent: str, task: str, script: Callable[[Asked, Reference], Any]
) -> RunResult:
    """Return the run of an agent whose model answers by a script, which may know the reference."""
    prepare(agent)
    benchmark = "humaneval" if task == HUMANEVAL else "agentbench"
    reference = load_benchmark(benchmark, data="bundled", notify=print).references[task]
    server.script = lambda asked: script(asked, reference)
    return await run(
        benchmark,
        agent=agent,
        data="bundled",
        task_ids=[task],
        model="scripted",
        base_url=server.url,
        output_dir=str(folder),
    )


def require_pass(result: RunResult, server: ModelServer) -> None:
    """Assert that the only attempt has passed, and that the program saw a machine of the harness."""
    (record,) = result.attempts
    assert (record.status, record.error) == (Status.PASSED, None)
    assert "Linux sandbox" in json.dumps(server.asked[1].body)


def write_submission(reference: Reference) -> str:
    """Return the command that hands in the solution of a program."""
    return f"{SUBMIT} <<'END'\n{reference.solution}\nEND"


@pytest.mark.parametrize("task", [HUMANEVAL, OS])
async def test_mini_swe_agent_solves_a_task_through_the_relay(
    server: ModelServer, tmp_path: Path, task: str
) -> None:
    def act(asked: Asked, reference: Reference) -> Mapping[str, Any]:
        commands = [
            "uname -a",
            # The answer of the task in a shell is the output of its solution.
            f"({reference.solution}\n) | harness-submit" if task == OS else write_submission(reference),
            "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT",
        ]
        steps = sum(each["role"] == "assistant" for each in asked.messages)
        return completion("The next step.", calls=[("bash", {"command": commands[steps]})])

    require_pass(await attempt_task(server, tmp_path, "mini-swe-agent", task, act), server)


@pytest.mark.parametrize("task", [HUMANEVAL, OS])
async def test_codex_solves_a_task_through_the_relay(server: ModelServer, tmp_path: Path, task: str) -> None:
    def act(asked: Asked, reference: Reference) -> RawReply:
        outputs = [each for each in asked.body["input"] if each.get("type") == "function_call_output"]
        number = f"call_{asked.number}"
        if task == HUMANEVAL and len(outputs) < 2:
            command = write_submission(reference) if outputs else "uname -a"
            return stream_response(call_item("exec_command", {"cmd": command}, number))
        if task == OS and len(outputs) < 2:
            if outputs:
                item = call_item("submit", {"answer": find_number(outputs[-1]["output"])}, number)
            else:
                item = call_item("bash", {"command": f"uname -a; {reference.solution}"}, number)
            return stream_response({**item, "namespace": "mcp__harness"})
        return stream_response(text_item("Done."))

    result = await attempt_task(server, tmp_path, "codex", task, act)
    require_pass(result, server)


@pytest.mark.parametrize("task", [HUMANEVAL, OS])
async def test_claude_code_solves_a_task_through_the_relay(
    server: ModelServer, tmp_path: Path, task: str
) -> None:
    def act(asked: Asked, reference: Reference) -> RawReply:
        results = [
            block
            for message in asked.messages
            if isinstance(message["content"], list)
            for block in message["content"]
            if block["type"] == "tool_result"
        ]
        if len(results) == 2:
            return stream_message("Done.", number=asked.number)
        if task == HUMANEVAL:
            command = write_submission(reference) if results else "uname -a"
            call = ("Bash", {"command": command, "description": "the next step"})
        elif results:
            call = ("mcp__harness__submit", {"answer": find_number(results[-1]["content"])})
        else:
            call = ("mcp__harness__bash", {"command": f"uname -a; {reference.solution}"})
        return stream_message("The next step.", calls=[call], number=asked.number)

    result = await attempt_task(server, tmp_path, "claude-code", task, act)
    require_pass(result, server)


def find_number(observed: Any) -> str:
    """Return the line after that of `uname` in the result of a tool."""
    text = "\n".join(each["text"] for each in observed) if isinstance(observed, list) else observed
    found = re.search(r"GNU/Linux\n(\d+)", text)
    assert found is not None, text
    return found[1]
