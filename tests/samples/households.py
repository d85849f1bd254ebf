"""Generate household games of all six types, in both grammars, from a seed.

A game has one room with its receptacles, and objects where the tables allow them. The goal is not reached at
the start, and it can be reached with the objects of the room. The file has ALFWorld's form, but its domain
and its grammar hold only the parts that `game` reads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal

from samples.rooms import LAMPS, OPENABLE, ROOMS, THINGS

GrammarName = Literal["put", "move"]
"""The verb of the command that puts an object down, by which the two grammars are known."""
GRAMMARS: tuple[GrammarName, ...] = ("put", "move")

_ACTIONS = (
    *("look", "inventory", "examineReceptacle", "examineObject", "GotoLocation", "OpenObject", "CloseObject"),
    *("PickupObject", "PutObject", "CleanObject", "HeatObject", "CoolObject", "ToggleObject", "SliceObject"),
)
_HELP = (
    "Commands: look, inventory, go to (receptacle), open (receptacle), close (receptacle), "
    "take (object) from (receptacle), move (object) to (receptacle), examine (something), use (object), "
    "heat (object) with (receptacle), clean (object) with (receptacle), cool (object) with (receptacle), "
    "slice (object) with (object)"
)
_LEAST_DISTRACTORS, _MOST_DISTRACTORS = 8, 16
_MOST_TRIES = 200


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of task: its key in AgentBench's records, and the start of its folders' names."""

    key: str
    folder: str
    task: str
    # The use that the object needs, such as "cleanable", and the predicate that the goal asks for.
    use: str | None = None
    state: str | None = None
    # A receptacle that the room must have.
    needs: str | None = None
    objects: int = 1


KINDS: tuple[Kind, ...] = (
    Kind("pick_and_place", "pick_and_place_simple", "put a {thing} in {place}."),
    Kind(
        "pick_clean_then_place",
        "pick_clean_then_place_in_recep",
        "put a clean {thing} in {place}.",
        *("cleanable", "isClean", "SinkBasin"),
    ),
    Kind(
        "pick_heat_then_place",
        "pick_heat_then_place_in_recep",
        "put a hot {thing} in {place}.",
        *("heatable", "isHot", "Microwave"),
    ),
    Kind(
        "pick_cool_then_place",
        "pick_cool_then_place_in_recep",
        "put a cool {thing} in {place}.",
        *("coolable", "isCool", "Fridge"),
    ),
    Kind("look_at_obj", "look_at_obj_in_light", "examine the {thing} with the {place}."),
    Kind("pick_two_obj", "pick_two_obj_and_place", "put two {thing} in {place}.", objects=2),
)
"""The six types of tasks, in the order of AgentBench's records."""


@dataclass(frozen=True, slots=True)
class GeneratedGame:
    """A generated game: its path in the form of AgentBench's records, and the content of its file."""

    path: str
    content: bytes


@dataclass(frozen=True, slots=True)
class _Placed:
    """A receptacle with its location, or an object with its receptacle."""

    kind: str
    id: str
    at: str


def write_games(folder: Path, split: str, seeds: Sequence[int]) -> None:
    """Write a list of games of all types and both grammars, and the games, as AgentBench has them.

    The list is `folder/SPLIT.json`, and the games are in `folder/json_2.1.1`.
    """
    games: dict[str, list[str]] = {}
    for kind in KINDS:
        for seed in seeds:
            for grammar in GRAMMARS:
                game = generate_game(kind, grammar, seed)
                games.setdefault(kind.key, []).append(game.path)
                path = folder / game.path
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(game.content)
    (folder / f"{split}.json").write_text(json.dumps(games, indent=2) + "\n")


def generate_game(kind: Kind, grammar: GrammarName, seed: int) -> GeneratedGame:
    """Return the game of one type of task that a seed determines."""
    # A text seeds the same numbers in every process, unlike the hash of a tuple.
    random = Random(f"{kind.key}/{grammar}/{seed}")
    for _ in range(_MOST_TRIES):
        room = random.choice(sorted(ROOMS))
        counts = {name: random.randint(*furniture) for name, furniture in ROOMS[room].items()}
        present = [name for name, count in counts.items() if count]
        choices = _list_goals(kind, room, present)
        if choices:
            thing, place = random.choice(choices)
            return _make_game(kind, grammar, seed, random, _Goal(thing, place), room, counts)
    raise AssertionError(f"no room has a goal of the type {kind.key}")


@dataclass(frozen=True, slots=True)
class _Goal:
    """The kind of object, and the kind of its receptacle, or of the lamp."""

    thing: str
    place: str


def _list_goals(kind: Kind, room: str, present: list[str]) -> list[tuple[str, str]]:
    """Return the objects and receptacles of the goals that a room with these receptacles allows."""
    if kind.needs is not None and kind.needs not in present:
        return []
    things = [
        name
        for name, thing in THINGS.items()
        if room in thing.rooms and (kind.use is None or kind.use in thing.uses)
    ]
    found: list[tuple[str, str]] = []
    for name in things:
        allowed = [place for place in dict.fromkeys(THINGS[name].receptacles) if place in present]
        if kind.key == "look_at_obj":
            found.extend((name, lamp) for lamp, places in LAMPS.items() if allowed and {*places} & {*present})
        elif len(allowed) > 1:
            # Another receptacle must hold the object at the start.
            found.extend((name, place) for place in allowed)
    return found


def _make_game(
    kind: Kind,
    grammar: GrammarName,
    seed: int,
    random: Random,
    goal: _Goal,
    room: str,
    counts: dict[str, int],
) -> GeneratedGame:
    make_id = _id_maker(random)
    receptacles = [
        _Placed(name, make_id(name), _make_location(random, number))
        for number, name in enumerate(name for name, count in counts.items() for _ in range(count))
    ]
    objects: list[_Placed] = []

    def place(name: str, allowed: tuple[str, ...]) -> None:
        where = [each for each in receptacles if each.kind in allowed]
        if where:
            objects.append(_Placed(name, make_id(name), random.choice(where).id))

    kept_apart = tuple(each for each in THINGS[goal.thing].receptacles if each != goal.place)
    for _ in range(kind.objects + random.randint(0, 1)):
        place(goal.thing, kept_apart)
    if kind.key == "look_at_obj":
        place(goal.place, LAMPS[goal.place])
    others = [name for name, thing in THINGS.items() if room in thing.rooms and name != goal.thing]
    for _ in range(random.randint(_LEAST_DISTRACTORS, _MOST_DISTRACTORS)):
        name = random.choice(others)
        place(name, THINGS[name].receptacles)
    problem = _write_problem(kind, goal, receptacles, objects)
    task = "Your task is to: " + kind.task.format(thing=goal.thing.lower(), place=goal.place.lower())
    content = {
        "pddl_domain": _write_domain(grammar),
        "grammar": _write_grammar(grammar, task),
        "pddl_problem": problem,
        "solvable": True,
        "walkthrough": None,
    }
    target = "None-" + goal.place
    folder = f"{kind.folder}-{goal.thing}-{target}-{seed}/trial_{grammar}"
    text = json.dumps(content, indent=1)
    return GeneratedGame(f"json_2.1.1/generated/{folder}/game.tw-pddl", text.encode())


def _id_maker(random: Random) -> Callable[[str], str]:
    """Return a function that returns a new id for an object of a kind, with an invented position."""
    taken: set[str] = set()

    def make_id(kind: str) -> str:
        while True:
            signs = random.choices(("plus", "minus"), k=3)
            position = "_bar_".join(
                f"_{sign}_{random.randint(0, 3):02}_dot_{random.randint(0, 99):02}" for sign in signs
            )
            if kind.endswith("Basin"):
                made = f"{kind.removesuffix('Basin')}_bar_{position}_bar_{kind}"
            else:
                made = f"{kind}_bar_{position}"
            if made not in taken:
                taken.add(made)
                return made

    return make_id


def _make_location(random: Random, number: int) -> str:
    # The number makes each location different from all others.
    return f"loc_bar_{random.randint(0, 9)}_bar_{random.randint(0, 9)}_bar_{number}_bar_30"


def _write_problem(kind: Kind, goal: _Goal, receptacles: list[_Placed], objects: list[_Placed]) -> str:
    location_of = {each.id: each.at for each in receptacles}
    start = f"loc_bar_0_bar_0_bar_{len(receptacles)}_bar_30"
    places = sorted({each.kind for each in receptacles})
    kinds = sorted({each.kind for each in objects})
    lines = [f"(atLocation agent1 {start})"]
    for each in receptacles:
        lines.append(f"(receptacleType {each.id} {each.kind}Type)")
        lines.append(f"(receptacleAtLocation {each.id} {each.at})")
        if each.kind in OPENABLE:
            lines.append(f"(openable {each.id})")
    for each in objects:
        lines.append(f"(objectType {each.id} {each.kind}Type)")
        lines.append(f"(inReceptacle {each.id} {each.at})")
        lines.append(f"(objectAtLocation {each.id} {location_of[each.at]})")
        uses = ("toggleable",) if each.kind in LAMPS else ("pickupable", *THINGS[each.kind].uses)
        lines.extend(f"({use} {each.id})" for use in uses)
    for place in places:
        held = (name for name in kinds if name in THINGS and place in THINGS[name].receptacles)
        lines.extend(f"(canContain {place}Type {name}Type)" for name in held)
    facts = "\n".join(lines)
    formula = _write_goal(kind, goal)
    return f"(define (problem generated)\n(:domain alfred)\n(:init\n{facts}\n)\n(:goal {formula}))\n"


def _write_goal(kind: Kind, goal: _Goal) -> str:
    thing, place = f"{goal.thing}Type", f"{goal.place}Type"
    if kind.key == "look_at_obj":
        return (
            "(and (exists (?l - object ?r - receptacle ?a - agent ?at - location) "
            f"(and (objectType ?l {place}) (toggleable ?l) (isToggled ?l) (receptacleAtLocation ?r ?at) "
            "(atLocation ?a ?at) (inReceptacle ?l ?r))) "
            f"(exists (?o - object ?a - agent) (and (objectType ?o {thing}) (holds ?a ?o))))"
        )
    conditions = f"(objectType ?o {thing}) (receptacleType ?r {place}) (inReceptacle ?o ?r)"
    if kind.use is not None:
        conditions += f" ({kind.use} ?o) ({kind.state} ?o)"
    if kind.objects == 2:
        conditions += (
            f" (exists (?p - object) (and (not (= ?o ?p)) (objectType ?p {thing}) (inReceptacle ?p ?r)))"
        )
    return f"(exists (?r - receptacle) (exists (?o - object) (and {conditions})))"


def _write_domain(grammar: GrammarName) -> str:
    names = (*_ACTIONS, "help") if grammar == "move" else _ACTIONS
    return "(define (domain alfred)\n" + "".join(f" (:action {name})\n" for name in names) + ")\n"


def _write_grammar(grammar: GrammarName, task: str) -> str:
    put, arrival = ("move {o} to {r}", "r") if grammar == "move" else ("put {o} in/on {r}", "lend")
    rules = {
        "task": [{"rhs": task}],
        "GotoLocation.feedback": [{"rhs": f"You arrive at {{{arrival}.name}}. #examineReceptacle.feedback#"}],
    }
    if grammar == "move":
        rules["help.feedback"] = [{"rhs": _HELP}]
    action = f'action PutObject {{\n    template :: "{put}";\n}}\n'
    return f'grammar :: """\n{json.dumps(rules, indent=1)}\n""";\n\n{action}'
