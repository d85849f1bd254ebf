"""The programs that variables of the knowledge graph stand for, and the actions that make them.

A program is a query in the form of a tree. Its variable never holds the answers, so that an agent sees only
their type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

GET_RELATIONS = "get_relations"
GET_NEIGHBORS = "get_neighbors"
INTERSECTION = "intersection"
GET_ATTRIBUTES = "get_attributes"
ARGMAX = "argmax"
ARGMIN = "argmin"
COUNT = "count"
# The arguments of each function, in upstream's order.
FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    GET_RELATIONS: ("variable",),
    GET_NEIGHBORS: ("variable", "relation"),
    INTERSECTION: ("variable1", "variable2"),
    GET_ATTRIBUTES: ("variable",),
    ARGMAX: ("variable", "attribute"),
    ARGMIN: ("variable", "attribute"),
    COUNT: ("variable",),
}
# Each intersection of a variable with itself doubles a program, so its size needs a bound.
MAX_STEPS = 100

_CALL = re.compile(r"\s*(?P<function>[a-z_]{1,40})\s*\((?P<arguments>.*)\)\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Entity:
    """A node of the graph, by its id."""

    id: str


@dataclass(frozen=True, slots=True)
class Neighbors:
    """All nodes that a relation leads to from the source."""

    source: Entity | Program
    relation: str


@dataclass(frozen=True, slots=True)
class Intersection:
    """The nodes that both programs find."""

    first: Program
    second: Program


@dataclass(frozen=True, slots=True)
class Extreme:
    """The nodes with the largest, or the smallest, value of an attribute. All ties are kept."""

    source: Program
    attribute: str
    largest: bool


@dataclass(frozen=True, slots=True)
class Count:
    """The number of different nodes that a program finds."""

    source: Program


Program = Neighbors | Intersection | Extreme | Count


@dataclass(frozen=True, slots=True)
class Action:
    """A written action, such as `get_neighbors(m.02mjmr, people.person.profession)`."""

    function: str
    arguments: tuple[str, ...]


def parse_action(text: str) -> Action:
    """Return the action that a text of one function and its arguments stands for.

    The last comma separates two arguments, because the name of an entity may hold commas, and a relation
    holds none. Raises ValueError, whose message names the function and its arguments.
    """
    found = _CALL.fullmatch(text)
    if found is None:
        raise ValueError("an action is a function and its arguments in parentheses")
    return split_arguments(found["function"], found["arguments"])


def split_arguments(function: str, text: str) -> Action:
    """Return the action of a function with the text between its parentheses. Raises ValueError."""
    names = FUNCTIONS.get(function)
    if names is None:
        raise ValueError(f"there is no function {function}; the functions are {', '.join(FUNCTIONS)}")
    parts = [text] if len(names) == 1 else text.rsplit(",", 1)
    arguments = tuple(part.strip() for part in parts)
    if len(arguments) != len(names) or not all(arguments):
        raise ValueError(f"write {function}({', '.join(names)})")
    return Action(function, arguments)


def count_steps(program: Entity | Program) -> int:
    """Return the number of nodes of a program's tree."""
    match program:
        case Entity():
            return 1
        case Intersection(first, second):
            return 1 + count_steps(first) + count_steps(second)
        case Neighbors(source) | Extreme(source) | Count(source):
            return 1 + count_steps(source)


def find_entities(program: Entity | Program) -> frozenset[str]:
    """Return the ids of the entities that a program names. No answer of the program is one of them."""
    match program:
        case Entity(name):
            return frozenset((name,))
        case Intersection(first, second):
            return find_entities(first) | find_entities(second)
        case Neighbors(source) | Extreme(source) | Count(source):
            return find_entities(source)


def find_extreme(program: Entity | Program) -> Extreme | None:
    """Return the extreme that a program ends at, or that later steps lead on from, None without one.

    It is None for two extremes that meet, because each has its best value alone.
    """
    match program:
        case Extreme():
            return program
        case Neighbors(source):
            return find_extreme(source)
        case Intersection(first, second):
            one, other = find_extreme(first), find_extreme(second)
            return other if one is None else one if other is None else None
    return None


def intersect(first: Program, second: Program) -> Program:
    """Return the program of an intersection.

    In upstream's query a count stays outside, so that the intersection of two counts counts what both have.
    """
    if not isinstance(first, Count) and not isinstance(second, Count):
        return Intersection(first, second)
    parts = (part.source if isinstance(part, Count) else part for part in (first, second))
    return Count(Intersection(*parts))
