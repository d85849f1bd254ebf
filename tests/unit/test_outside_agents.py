"""Agents that users write: a file, an importable name, an installed package, or a Python object."""

from __future__ import annotations

import importlib.metadata
import os
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from bundled import load_bundled
from case_checks import each_case
from contexts import ListTranscript

import harness.runs.agents
from harness.benchmarks import load_benchmark
from harness.core.errors import UsageError
from harness.core.types import Submission
from harness.models.messages import NO_USAGE, ModelReply
from harness.runs.agents import AgentError, AgentSettings, AttemptContext, build_agent, settings_for
from harness.runs.agents.outside import OutsideAgent, name_agent, wrap_outside_agent
from harness.runs.config import load_config
from harness.runs.plan import plan_attempts

GSM8K = load_bundled("gsm8k")
TASK = GSM8K.tasks[0]
CONTEXT = AttemptContext(TASK, 0, 7, None, None, ListTranscript())
FUNCTION = "async def attempt(context):\n    return f'{context.task.id}: 42'\n"
CLASS = "class Mine:\n    async def attempt(self, context):\n        return 'it is 42'\n"


async def answer(name: str) -> str:
    agent = build_agent(name, settings_for(GSM8K), GSM8K)
    assert isinstance(agent, OutsideAgent)
    with closing(agent):
        return (await agent.attempt(CONTEXT)).text


def written(folder: Path, text: str) -> str:
    path = folder / "my_agent.py"
    path.write_text(text)
    return str(path)


@each_case("text", [FUNCTION, CLASS], ids=["function", "class"])
async def test_an_agent_is_one_file(tmp_path: Path, text: str) -> None:
    assert "42" in await answer(written(tmp_path, text))


async def test_the_suffix_of_a_file_may_have_any_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.rename(written(tmp_path, FUNCTION), "OWN.PY")
    assert "42" in await answer("OWN.PY")
    config = load_config(None, {"benchmark": "gsm8k", "agent": "OWN.PY"})
    assert config.agent == str(tmp_path / "OWN.PY")


async def test_an_edit_within_the_same_second_takes_effect(tmp_path: Path) -> None:
    """Python would use old bytecode for a file of the same size and time."""
    for reply in ("42", "43"):
        path = written(tmp_path, f"async def attempt(context):\n    return '{reply}'\n")
        os.utime(path, (1, 1))
        assert reply in await answer(path)


async def test_a_class_that_the_file_only_imports_is_not_its_agent(tmp_path: Path) -> None:
    text = f"from harness.runs.agents.null import Null\n\n{CLASS}"
    assert "42" in await answer(written(tmp_path, text))


@each_case("reply", ["Sure:\n```python\nreturn 1\n```\n", "    return 1"])
async def test_the_text_of_an_agent_is_read_as_the_reply_of_a_chat_model(reply: str) -> None:
    humaneval = load_benchmark("humaneval", data="bundled", notify=print)
    task = humaneval.tasks[0]

    async def attempt(context: AttemptContext) -> str:
        return reply

    agent = wrap_outside_agent(attempt, settings_for(humaneval), name="mine")
    assert isinstance(agent, OutsideAgent)
    with closing(agent):
        submission = await agent.attempt(AttemptContext(task, 0, 7, None, None, ListTranscript()))
    assert submission == Submission(f"{task.prompt}    return 1", agent_output=reply)


async def test_an_agent_is_named_by_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "agents_of_mine.py").write_text(CLASS)
    monkeypatch.syspath_prepend(tmp_path)
    assert "42" in await answer("agents_of_mine:Mine")


async def test_an_installed_package_adds_an_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    point = importlib.metadata.EntryPoint("theirs", "test_outside_agents:Theirs", "harness.agents")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [point])
    monkeypatch.setattr(importlib.metadata.EntryPoint, "load", lambda _point: Theirs)
    assert await answer("theirs") == "theirs"


class Theirs:
    """An agent of somebody else."""

    async def attempt(self, context: AttemptContext) -> Submission:
        return Submission("theirs", agent_output="")


@each_case(
    ("text", "message"),
    [
        pytest.param("", "must define one agent, but defines 0", id="nothing"),
        pytest.param(CLASS + CLASS.replace("Mine", "Other"), "but defines 2: Mine, Other", id="two"),
        pytest.param("def attempt(context):\n    return ''\n", "is not an `async def`", id="not async"),
        pytest.param("1 / 0", "ZeroDivisionError", id="raises"),
        pytest.param("raise SystemExit(1)", "SystemExit", id="exits"),
        pytest.param(
            "class Mine:\n    def __init__(self, key): ...\n    async def attempt(self, context): ...\n",
            "Mine(): TypeError",
            id="needs arguments",
        ),
    ],
)
async def test_a_file_without_an_agent_is_refused_with_the_reason(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(UsageError) as refused:
        await answer(written(tmp_path, text))
    assert message in refused.value.message


@each_case("name", ["nowhere.py", "no_such_module:Agent", "json:no_such_name", "orcale"])
async def test_an_unknown_name_is_refused_with_a_hint(name: str) -> None:
    with pytest.raises(UsageError) as refused:
        await answer(name)
    assert name in refused.value.message
    assert refused.value.hint


class Parameterless:
    async def attempt(self, context: AttemptContext) -> Submission:
        raise NotImplementedError


class WithoutBenchmark:
    needs_references = True

    def __init__(self, settings: AgentSettings) -> None: ...


@each_case(
    ("agent", "message"),
    [
        (Parameterless, "agent 'mine' does not take (settings): too many positional arguments"),
        (WithoutBenchmark, "agent 'mine' does not take (settings, benchmark): too many positional arguments"),
    ],
)
def test_a_class_of_the_package_that_cannot_be_built_is_refused(
    monkeypatch: pytest.MonkeyPatch, agent: type, message: str
) -> None:
    monkeypatch.setattr(harness.runs.agents, "agents", lambda: {"mine": agent})
    with pytest.raises(UsageError) as refused:
        build_agent("mine", settings_for(GSM8K), GSM8K)
    assert refused.value.message == message
    assert "AgentSettings" in str(refused.value.hint)


@each_case("reply", [None, 42, b"42"])
async def test_a_reply_that_is_not_text_is_an_agent_error(reply: Any) -> None:
    async def attempt(_context: AttemptContext) -> Any:
        return reply

    agent = wrap_outside_agent(attempt, settings_for(GSM8K), name="mine")
    assert isinstance(agent, OutsideAgent)
    with closing(agent), pytest.raises(AgentError, match="not text or a Submission"):
        await agent.attempt(CONTEXT)


async def test_a_reply_of_the_model_as_a_whole_is_refused_with_the_name_of_its_text() -> None:
    async def attempt(_context: AttemptContext) -> Any:
        return ModelReply((), NO_USAGE, "m", {})

    agent = wrap_outside_agent(attempt, settings_for(GSM8K), name="mine")
    assert isinstance(agent, OutsideAgent)
    with closing(agent), pytest.raises(AgentError, match=r"ModelReply, not text .*; return its `text`"):
        await agent.attempt(CONTEXT)


def test_a_users_agent_makes_as_many_attempts_as_the_config_sets() -> None:
    agent = wrap_outside_agent(Theirs, settings_for(GSM8K), name="theirs")
    assert len(plan_attempts([TASK], agent, n_samples=3)) == 3


def test_an_agent_may_choose_its_samples() -> None:
    class Twice(Theirs):
        def samples(self, task: Any) -> list[int | None]:
            return [4, 9]

    agent = wrap_outside_agent(Twice(), settings_for(GSM8K), name="twice")
    assert [planned.sample_line for planned in plan_attempts([TASK], agent, n_samples=3)] == [4, 9]


def test_an_object_is_named_by_its_class() -> None:
    assert name_agent(Theirs()) == name_agent(Theirs) == f"{__name__}:Theirs"


def test_attempts_have_distinct_and_stable_seeds() -> None:
    agent = wrap_outside_agent(Theirs, settings_for(GSM8K), name="theirs")
    first, again, other = (
        plan_attempts(GSM8K.tasks[:2], agent, n_samples=2, seed=seed) for seed in (1, 1, 2)
    )
    assert len({planned.seed for planned in [*first, *other]}) == 8
    assert [planned.seed for planned in first] == [planned.seed for planned in again]


@each_case(
    ("attribute", "value"),
    [
        ("max_concurrent", "2"),
        ("max_concurrent", 0),
        ("max_concurrent", True),
        ("max_concurrent", None),
        ("waits", "no"),
        ("reads", "model"),
        ("reads", {"modle"}),
        ("reads", 3),
    ],
)
def test_an_attribute_that_is_not_valid_is_refused_by_its_name(attribute: str, value: Any) -> None:
    agent = type("Mine", (Theirs,), {attribute: value})
    with pytest.raises(UsageError, match=f"agent 'mine': `{attribute}` must be"):
        wrap_outside_agent(agent, settings_for(GSM8K), name="mine")


@each_case(
    ("chosen", "message"),
    [
        pytest.param([], "every selected task counts", id="none"),
        pytest.param([0], "0 is not a line from 1, or None", id="line 0"),
        pytest.param(["1"], '"1" is not a line', id="text"),
        pytest.param(3, "TypeError", id="no list"),
    ],
)
def test_an_agent_cannot_take_a_task_out_of_the_run(chosen: Any, message: str) -> None:
    class Choosy(Theirs):
        def samples(self, task: Any) -> Any:
            return chosen

    agent = wrap_outside_agent(Choosy(), settings_for(GSM8K), name="choosy")
    with pytest.raises(UsageError, match=re.escape(f"samples of task {TASK.id}: ")) as refused:
        plan_attempts([TASK], agent)
    assert message in refused.value.message
