"""AgentBench's function calls: their tools, texts and limits, in the place of an environment's own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml
from contexts import no_context

from harness.benchmarks import load_benchmark
from harness.core.errors import UsageError
from harness.core.tools import TextCall, Tool
from harness.core.types import Task
from harness.environments.base import Environment, HostEnvironment
from harness.environments.db import environment as db
from harness.environments.house import environment as house
from harness.environments.kg import environment as kg
from harness.environments.os import environment as os
from harness.environments.os.root_sandbox import ShellEnd, ShellResult
from harness.environments.text_protocol import LENIENT, Published
from harness.environments.web import environment as web
from harness.models.messages import Choice, Finish, Message, Role, ToolCall
from harness.runs.agents.chat.actions import Action, FormatError, NativeCalls
from harness.runs.attempt_ends import mention_turns
from harness.sandbox.results import Stream

NOTHING: Any = None
TOOLS: dict[str, list[Tool]] = {
    "os": [*os.make_published(NOTHING).handlers],
    "dbbench": [*db.make_published(NOTHING).handlers],
    "alfworld": [house.PUBLISHED_ACTION],
    "webshop": [web.PUBLISHED_SEARCH, web.PUBLISHED_CLICK],
}
CALLED: list[str] = []


async def note(arguments: Any) -> str:
    CALLED.append(arguments.script)
    return "noted"


def open_published(protocol: str = "fc", **rules: Any) -> Environment:
    """Return an environment on the host with one published tool, `bash_action`."""
    environment = HostEnvironment(None, {}, no_context())
    published = Published(handlers={os.SCRIPT: note}, **rules)
    environment.publish(Task("t", "agentbench", "os", "", protocol=protocol), published)
    return environment


def reply(text: str = "", *calls: str) -> Choice:
    tool_calls = tuple(ToolCall(str(place), "bash_action", call) for place, call in enumerate(calls))
    return Choice(Message(Role.ASSISTANT, text, tool_calls=tool_calls), Finish.STOP)


def show(output: str, ended: ShellEnd = ShellEnd.DONE) -> str:
    data = output.encode()
    return os.show_script(ShellResult(Stream(data, b"", len(data)), 0, ended, True, False, False, 0.1))


def test_the_tools_are_those_of_the_published_configuration(shared_data: Path) -> None:
    wrong = {}
    for name, tools in TOOLS.items():
        config = yaml.safe_load((shared_data / f"tasks/agentbench-fc/{name}.yaml").read_text())
        published = [each["function"] for each in config["default"]["parameters"]["tools"]]
        ours = [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in tools
        ]
        if ours != published:
            wrong[name] = ours
    assert wrong == {}


def test_the_output_of_a_script_has_upstreams_words() -> None:
    assert show("a\n") == "The output of the OS:\n\na\n"
    assert show("") == "The output of the OS is empty."
    assert show("b" * 800) == "The output of the OS:\n\n" + "b" * 800
    cut = "The output of the OS:\n\n" + "b" * 780 + "\n[truncated because the output is too long]"
    assert show("b" * 801) == cut
    assert show("", ShellEnd.WALL).endswith("\n[interrupted after 120 s]")


def test_only_published_tools_are_listed_and_an_answer_goes_through_them() -> None:
    environment = open_published(submit=lambda text: ("bash_action", {"script": f"answer {text}"}))
    assert [*environment.tools] == ["bash_action"]
    asyncio.run(environment.submit("42"))
    assert CALLED.pop() == "answer 42"


def test_arguments_of_other_names_are_taken_only_if_the_option_says_so() -> None:
    strict, lenient = open_published(), open_published(LENIENT)
    assert asyncio.run(strict.call("bash_action", {"x": "ls"})).refused
    assert asyncio.run(lenient.call("bash_action", {"x": "ls", "y": 1})).text == "noted"
    assert CALLED.pop() == "ls"
    assert lenient.tools["bash_action"].parameters == strict.tools["bash_action"].parameters


def test_a_reply_with_several_calls_carries_out_the_first_where_the_protocol_says_so() -> None:
    calls = ('{"script": "a"}', '{"script": "b"}')
    first, second = NativeCalls().read(reply("", *calls), open_published(only_first=True))
    assert isinstance(first, Action)
    assert isinstance(second, FormatError)
    assert all(isinstance(each, Action) for each in NativeCalls().read(reply("", *calls), open_published()))


def test_a_reply_without_a_call_gets_upstreams_text_or_is_the_answer() -> None:
    (fault,) = NativeCalls().read(reply("I am done."), open_published())
    assert isinstance(fault, FormatError)
    assert fault.advice == "No executable tool calls found. Please call a tool instead"
    published = open_published(answer=kg.PUBLISHED_ANSWER)
    (action,) = NativeCalls().read(reply("Final Answer: #3"), published)
    assert action == Action("submit", {"answer": "#3"})
    assert published.text_protocol.read("I know it.\n\nFinal Answer: #3") == TextCall(
        "submit", {"answer": "#3"}
    )


def test_a_bounded_text_has_the_published_schema_and_is_bounded() -> None:
    assert "maxLength" not in str(house.PUBLISHED_ACTION.parameters)
    with pytest.raises(ValueError, match="needs 0 to 400 characters, and has 401"):
        house.PUBLISHED_ACTION.arguments.model_validate({"action": "x" * 401})


def test_the_option_names_the_protocol_of_the_tasks_that_have_it() -> None:
    published = load_benchmark("agentbench", data="bundled", protocol="fc")
    own = load_benchmark("agentbench", data="bundled")
    with_protocol = {task.category for task in published.tasks if task.protocol == "fc"}
    assert with_protocol == {"os", "db", "kg", "web", "house"}
    assert {task.protocol for task in own.tasks} == {None}
    turns = {task.category: task.turns for task in published.tasks if task.protocol is not None}
    assert turns == {"os": 8, "db": 15, "kg": 15, "web": 20, "house": 20}
    shown = {task.id: mention_turns(task, task.turns).prompt for task in published.tasks if task.protocol}
    assert [task_id for task_id, prompt in shown.items() if "`submit`" in prompt] == []
    with pytest.raises(UsageError, match=r"fc\.lenient needs the protocol fc"):
        load_benchmark("agentbench", data="bundled", fc={"lenient": True})
