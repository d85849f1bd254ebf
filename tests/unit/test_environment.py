"""An environment handles the calls of an agent before any sandbox is involved."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from case_checks import each_case
from contexts import ListTranscript, no_context

from harness.core.tools import Arguments, Tool, TurnLimitReached
from harness.environments.base import SandboxEnvironment
from harness.sandbox.failures import SandboxClosed


class Number(Arguments):
    """A number."""

    number: int


DOUBLE = Tool("double", "Double a number.", Number)


class Ground:
    """An environment without a sandbox, and its transcript."""

    def __init__(self, turns: int | None = None) -> None:
        self.ended = 0
        sandbox: Any = SimpleNamespace(agent_acted=False)

        async def double(given: Number) -> str:
            return str(given.number * 2)

        async def end() -> None:
            self.ended += 1

        self.sandbox = sandbox
        self.transcript = ListTranscript()
        context = replace(no_context(turns=turns), transcript=self.transcript)
        self.environment = SandboxEnvironment(sandbox, {DOUBLE: double}, context, end=end)


async def test_a_tool_returns_the_text_of_its_handler() -> None:
    observation = await Ground().environment.call("double", {"number": 4})
    assert (observation.text, observation.refused) == ("8", False)


@each_case("arguments", [{}, {"number": "4"}, {"number": 4, "more": 1}])
async def test_wrong_arguments_are_reported_and_reach_no_handler(arguments: dict[str, Any]) -> None:
    observation = await Ground().environment.call("double", arguments)
    assert observation.refused
    assert "wrong arguments for 'double'" in observation.text


async def test_thousands_of_wrong_values_are_counted_and_not_listed() -> None:
    class Numbers(Arguments):
        """Numbers."""

        numbers: list[int]

    async def add(given: Numbers) -> str:
        return str(sum(given.numbers))

    async def end() -> None:
        pass

    handlers = {Tool("add", "Add numbers.", Numbers): add}
    environment = SandboxEnvironment(Ground().sandbox, handlers, no_context(), end=end)
    few = await environment.call("add", {"numbers": ["x"] * 3})
    many = await environment.call("add", {"numbers": ["x"] * 2000})
    assert few.text.startswith("wrong arguments for 'add': numbers.0: ")
    assert many.text == "wrong arguments for 'add': 2,000 of their values do not fit"
    assert many.refused


async def test_an_unknown_tool_is_refused_with_the_existing_ones() -> None:
    observation = await Ground().environment.call("triple", {})
    assert observation.refused
    assert "double, submit" in observation.text


async def test_refused_calls_count_as_turns() -> None:
    environment = Ground(turns=2).environment
    await environment.call("triple", {})
    await environment.call("double", {})
    with pytest.raises(TurnLimitReached, match="2 turns"):
        await environment.call("double", {"number": 1})


async def test_submit_sets_the_answer_and_ends_the_acting() -> None:
    environment = Ground().environment
    await environment.submit("forty-two")
    assert environment.submitted == "forty-two"
    assert (await environment.call("double", {"number": 1})).refused


async def test_a_second_answer_does_not_replace_the_first() -> None:
    environment = Ground().environment
    await environment.submit("first")
    await environment.submit("second")
    assert environment.submitted == "first"


async def test_every_turn_is_recorded() -> None:
    ground = Ground()
    await ground.environment.call("double", {"number": 4})
    await ground.environment.submit("8")
    told = [(entry["round"], entry["tool"], entry["observation"]) for entry in ground.transcript.entries]
    assert told == [(1, "double", "8"), (2, "submit", "answer submitted")]


def test_a_tool_describes_its_arguments_as_a_json_schema() -> None:
    assert DOUBLE.parameters["properties"] == {"number": {"title": "Number", "type": "integer"}}


@each_case(
    ("name", "arguments", "acted"),
    [
        ("double", {"number": 1}, True),
        ("double", {}, False),
        ("no such", {}, False),
        ("submit", {"answer": ""}, False),
    ],
)
async def test_an_agent_has_acted_once_a_tool_has_run(
    name: str, arguments: dict[str, Any], acted: bool
) -> None:
    ground = Ground()
    await ground.environment.call(name, arguments)
    assert ground.environment.agent_acted is ground.sandbox.agent_acted is acted


async def test_a_tool_that_fails_has_run() -> None:
    async def fail(_given: Number) -> str:
        raise RuntimeError

    ground = Ground()
    ground.environment._handlers["double"] = fail
    with pytest.raises(RuntimeError):
        await ground.environment.call("double", {"number": 1})
    assert ground.environment.agent_acted


async def test_an_agent_that_opened_a_terminal_has_acted() -> None:
    sandbox: Any = SimpleNamespace(agent_acted=False)
    opened: list[dict[str, Any]] = []
    nothing: Any = None
    environment = SandboxEnvironment(
        sandbox,
        {},
        no_context(),
        end=nothing,
        terminal=lambda **arguments: opened.append(arguments),  # type: ignore[arg-type]
    )
    assert environment.terminal is not None
    environment.terminal(rows=1, columns=2)
    assert (environment.agent_acted, opened) == (True, [{"rows": 1, "columns": 2}])


async def test_calls_at_the_same_time_run_one_after_the_other() -> None:
    running = 0

    async def run_alone(given: Any) -> str:
        nonlocal running
        running += 1
        assert running == 1
        await asyncio.sleep(0.01)
        running -= 1
        return "done"

    ground = Ground()
    ground.environment._handlers["double"] = run_alone
    await asyncio.gather(*(ground.environment.call("double", {"number": 1}) for _ in range(3)))
    assert len(ground.transcript.entries) == 3


async def test_a_task_that_the_agent_left_running_calls_no_tool_after_its_time() -> None:
    ground, may_go_on = Ground(), asyncio.Event()

    async def run_slowly(given: Any) -> str:
        await may_go_on.wait()
        assert ground.ended == 0, "the call under way ends before the agent's time does"
        return "done"

    ground.environment._handlers["double"] = run_slowly
    under_way, waiting = (
        asyncio.create_task(ground.environment.call("double", {"number": 1})) for _ in range(2)
    )
    await asyncio.sleep(0)
    ending = asyncio.create_task(ground.environment.end_acting())
    await asyncio.sleep(0)
    may_go_on.set()
    await ending
    assert ((await under_way).text, ground.ended) == ("done", 1)
    with pytest.raises(SandboxClosed):
        await waiting
    with pytest.raises(SandboxClosed):
        await ground.environment.call("double", {"number": 1})


async def test_a_terminal_is_refused_once_the_agents_time_is_over() -> None:
    ground = Ground()
    environment = SandboxEnvironment(
        ground.environment.sandbox,
        {},
        ground.environment.context,
        end=ground.environment._end,
        terminal=lambda **size: pytest.fail("a terminal opened"),
    )
    await environment.end_acting()
    assert environment.terminal is not None
    with pytest.raises(SandboxClosed):
        environment.terminal(rows=1, columns=2)


async def test_a_call_with_very_many_arguments_is_refused_in_one_line() -> None:
    observation = await Ground().environment.call("double", {str(number): 1 for number in range(100_000)})
    assert (observation.refused, observation.text) == (
        True,
        "'double' has 100,000 arguments, too many to check",
    )
