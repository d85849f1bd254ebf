"""An environment on the host: its tools, its bounds, its end, and the score of its state at a limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from case_checks import each_case
from contexts import ListTranscript, no_context
from pydantic import Field

from harness.core.tools import Arguments, LastObservation, Tool
from harness.environments.base import MAX_ARGUMENT_CHARACTERS, HostEnvironment, open_without_world
from harness.runs.agents.human import read_arguments


class Step(Arguments):
    """One step of a walk."""

    direction: str = Field(description="A direction.")
    steps: int = 1


WALK = Tool("walk", "Walk.", Step)


class Place:
    """The state of a walk."""

    def __init__(self) -> None:
        self.steps = 0


def open_walk(turns: int | None = None) -> HostEnvironment[Place]:
    place = Place()

    async def walk(arguments: Step) -> str | LastObservation:
        place.steps += arguments.steps
        if place.steps >= 3:
            return LastObservation("You are there.", "arrived")
        return f"You went {arguments.direction}."

    return HostEnvironment(place, {WALK: walk}, no_context(turns=turns))


async def test_a_last_observation_ends_the_task_with_its_answer() -> None:
    environment = open_walk()
    first = await environment.call("walk", {"direction": "north"})
    assert (first.text, environment.submitted) == ("You went north.", None)
    last = await environment.call("walk", {"direction": "north", "steps": 2})
    assert (last.text, environment.submitted) == ("You are there.", "arrived")
    after = await environment.call("walk", {"direction": "south"})
    assert after.refused
    assert environment.state.steps == 3


async def test_a_text_above_the_bound_reaches_no_handler() -> None:
    environment = open_walk()
    longest = await environment.call("walk", {"direction": "n" * MAX_ARGUMENT_CHARACTERS})
    assert not longest.refused
    observation = await environment.call("walk", {"direction": "n" * (MAX_ARGUMENT_CHARACTERS + 1)})
    assert observation.refused
    assert "4,097 characters" in observation.text
    assert environment.state.steps == 1


@each_case(
    "arguments",
    [
        {"direction": "north", "x" * 1_000_000: 1},
        {f"{number}{'x' * 10_000}": 1 for number in range(90)},
        {"direction": ["n" * 4000] * 1000},
        {"direction": {"n": {"n": "n" * 1_000_000}}},
        {"direction": "north", "steps": 10**300_000},
        {"direction": "north", **{f"{'x' * 300}{number}": 1 for number in range(90)}},
    ],
    ids=["name", "names", "list", "object", "number", "many errors"],
)
async def test_huge_arguments_are_neither_checked_nor_recorded(arguments: Mapping[str, Any]) -> None:
    environment, notes = open_walk(), ListTranscript()
    environment.context = replace(environment.context, transcript=notes)
    observation = await environment.call("walk", arguments)
    assert observation.refused
    assert len(observation.text) < 5000
    (entry,) = notes.entries
    assert len(str(entry)) < 50_000


async def test_the_name_of_an_unknown_tool_is_cut_in_the_transcript() -> None:
    environment, notes = open_walk(), ListTranscript()
    environment.context = replace(environment.context, transcript=notes)
    await environment.call("x" * 1_000_000, {})
    assert len(str(notes.entries)) < 1000


async def test_an_agent_has_acted_once_a_tool_ran() -> None:
    environment = open_walk()
    await environment.call("walk", {"wrong": 1})
    assert not environment.agent_acted
    await environment.call("walk", {"direction": "north"})
    assert environment.agent_acted


async def test_a_task_without_a_world_has_submit_alone() -> None:
    environment = open_without_world(no_context())
    assert list(environment.tools) == ["submit"]
    await environment.submit("x" * (MAX_ARGUMENT_CHARACTERS + 1))
    assert environment.submitted is not None


class Move(Arguments):
    """A move in a game."""

    piece: str
    place: int
    note: str


@each_case(
    ("line", "arguments"),
    [
        ("eel 2 with a note", {"piece": "eel", "place": 2, "note": "with a note"}),
        ("eel two", {"piece": "eel", "place": "two"}),
        ("", {}),
        ('{"piece": "a b", "place": 1, "note": ""}', {"piece": "a b", "place": 1, "note": ""}),
        ("{eel", {"piece": "{eel"}),
        ('"red eel" 2 a "big" one', {"piece": "red eel", "place": 2, "note": 'a "big" one'}),
        ('eel 2 "all of it"', {"piece": "eel", "place": 2, "note": "all of it"}),
    ],
)
def test_a_person_types_arguments_in_order_or_as_an_object(line: str, arguments: Mapping[str, Any]) -> None:
    assert read_arguments(Tool("move", "Move.", Move), line) == arguments


class Attack(Arguments):
    """An attack in a game, whose last argument may be left out."""

    piece: str
    kind: Literal["hit", "spell"]
    target: int | None = None


@each_case(
    ("line", "arguments"),
    [
        ("eel hit 2", {"piece": "eel", "kind": "hit", "target": 2}),
        ("eel spell", {"piece": "eel", "kind": "spell"}),
    ],
)
def test_a_person_types_optional_arguments_too(line: str, arguments: Mapping[str, Any]) -> None:
    assert read_arguments(Tool("attack", "Attack.", Attack), line) == arguments
