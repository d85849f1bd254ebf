"""Small household games for tests: a room that a test describes by facts."""

from __future__ import annotations

import json
from collections.abc import Sequence

from samples.households import KINDS, GrammarName, generate_game

from harness.environments.house.game import Game, read_game
from harness.environments.house.play import Play

FACTS = """\
(atLocation agent1 loc_bar_0)
(receptacleType Fridge_bar_1 FridgeType)
(receptacleAtLocation Fridge_bar_1 loc_bar_1)
(openable Fridge_bar_1)
(receptacleType Microwave_bar_1 MicrowaveType)
(receptacleAtLocation Microwave_bar_1 loc_bar_2)
(openable Microwave_bar_1)
(receptacleType Sink_bar_1_bar_SinkBasin SinkBasinType)
(receptacleAtLocation Sink_bar_1_bar_SinkBasin loc_bar_3)
(receptacleType CounterTop_bar_1 CounterTopType)
(receptacleAtLocation CounterTop_bar_1 loc_bar_4)
(objectType Apple_bar_1 AppleType)
(pickupable Apple_bar_1)
(cleanable Apple_bar_1)
(heatable Apple_bar_1)
(coolable Apple_bar_1)
(sliceable Apple_bar_1)
(inReceptacle Apple_bar_1 CounterTop_bar_1)
(objectAtLocation Apple_bar_1 loc_bar_4)
(objectType Knife_bar_1 KnifeType)
(pickupable Knife_bar_1)
(inReceptacle Knife_bar_1 CounterTop_bar_1)
(objectAtLocation Knife_bar_1 loc_bar_4)
(objectType DeskLamp_bar_1 DeskLampType)
(toggleable DeskLamp_bar_1)
(inReceptacle DeskLamp_bar_1 CounterTop_bar_1)
(objectAtLocation DeskLamp_bar_1 loc_bar_4)
(canContain CounterTopType AppleType)
(canContain CounterTopType KnifeType)
(canContain FridgeType AppleType)
"""
IN_THE_FRIDGE = """\
(exists (?o - object ?r - receptacle)
 (and (objectType ?o AppleType) (receptacleType ?r FridgeType) (inReceptacle ?o ?r)))"""


def make_file(
    facts: str = FACTS, goal: str = IN_THE_FRIDGE, *, verb: GrammarName = "put", **fields: object
) -> bytes:
    """Return the content of a game's file with these facts and this goal. `fields` replace others."""
    values = json.loads(generate_game(KINDS[0], verb, 1).content)
    values["pddl_problem"] = f"(define (problem p) (:domain alfred) (:init\n{facts})\n(:goal {goal}))"
    return json.dumps(values | fields).encode()


def make_game(facts: str = FACTS, goal: str = IN_THE_FRIDGE, *, verb: GrammarName = "put") -> Game:
    return read_game(make_file(facts, goal, verb=verb))


def play_commands(commands: Sequence[str], play: Play | None = None) -> list[str]:
    """Return the replies to commands in the game of FACTS, or in a given one."""
    play = play or Play(make_game())
    return [play.take(command) for command in commands]
