"""A knowledge graph in memory: its triples, and the answers of programs over them.

Variables of the knowledge graph hold programs. A program is a query in the form of a tree. Its variable
never holds the answers, so that an agent sees only their type.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

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

# The id of an entity of Freebase.
ENTITY_ID = re.compile(r"[mgf]\.\w{1,64}", re.ASCII)
_CALL = re.compile(r"\s*(?P<function>[a-z_]{1,40})\s*\((?P<arguments>.*)\)\s*", re.DOTALL)

# Freebase writes its time zone after each date, and upstream's gold answers leave it out.
_ZONE = "-08:00"
_LITERAL = re.compile(
    r'"(?P<text>.*)"(?:@(?P<language>[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8})*)|\^\^(?P<datatype>\S+))?', re.DOTALL
)
# A longer text is not read as a number.
_MAX_DIGITS = 40
_LAST_WORD = re.compile(r"\w+(?=>?\Z)", re.ASCII)
# The datatypes of XML Schema whose values are numbers.
_NUMERIC = frozenset(
    {
        *("integer", "int", "long", "short", "byte", "decimal", "float", "double"),
        *("nonNegativeInteger", "positiveInteger", "nonPositiveInteger", "negativeInteger"),
        *("unsignedInt", "unsignedLong", "unsignedShort", "unsignedByte"),
    }
)

# The place of a value in the order of values.
_Rank = tuple[int, float, str]

# The type of a node without a known type, as in Freebase.
ANY_TYPE = "common.topic"


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
    """Return the action in a text of one function and its arguments.

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


@dataclass(frozen=True, slots=True)
class Literal:
    """A value at the end of a triple."""

    text: str
    # The language tag, "" for none.
    language: str = ""
    # The value if it is a number.
    number: float | None = None

    @property
    def is_shown(self) -> bool:
        """Whether the literal may be an answer: it has no language tag, or an English one."""
        return self.language.lower().partition("-")[0] in ("", "en")


Node = str | Literal
"""An entity by its id, or a literal."""

Triple = tuple[str, str, Node]


@dataclass(frozen=True, slots=True)
class Graph:
    """Triples: the objects of each relation of each subject."""

    edges: Mapping[str, Mapping[str, tuple[Node, ...]]]

    def relations_of(self, subject: Entity | Program) -> Set[str]:
        """Return the relations and attributes that lead out of an entity, or of any answer of a program."""
        sources = [subject.id] if isinstance(subject, Entity) else find_nodes(self, subject)
        found: set[str] = set()
        for source in sources:
            if isinstance(source, str):
                found |= self.edges.get(source, {}).keys()
        return found

    def answers(self, program: Program) -> frozenset[str]:
        """Return the answers of a program as texts: ids, or the texts of literals."""
        return frozenset(
            node if isinstance(node, str) else node.text.replace(_ZONE, "")
            for node in find_nodes(self, program)
        )


def make_graph(triples: Iterable[Triple]) -> Graph:
    """Return the graph of these triples."""
    edges: dict[str, dict[str, dict[Node, None]]] = {}
    for subject, relation, node in triples:
        edges.setdefault(subject, {}).setdefault(relation, {})[node] = None
    return Graph(
        {
            subject: {relation: tuple(nodes) for relation, nodes in relations.items()}
            for subject, relations in edges.items()
        }
    )


def parse_triple(value: Any) -> Triple:
    """Return a triple of a graph file: subject, relation and object.

    A number as the object is a literal, and so is a text that begins with a quotation mark, such as
    `"Berlin"`, `"Berlin"@de` or `"1985-06-01"^^xsd:date`. Any other object is the id of an entity. Raises
    ValueError.
    """
    if not isinstance(value, list | tuple) or len(value) != 3:
        raise ValueError("a triple is a list of a subject, a relation and an object")
    subject, relation, node = value
    if not isinstance(subject, str) or not isinstance(relation, str):
        raise ValueError("the subject and the relation of a triple are strings")
    if isinstance(node, bool) or not isinstance(node, str | int | float):
        raise ValueError("the object of a triple is a string or a number")
    return subject, relation, parse_node(node)


def parse_node(value: str | int | float) -> Node:
    """Return the node of a triple's object, as `parse_triple` does."""
    if not isinstance(value, str):
        return Literal(str(value), number=_read_number(str(value)))
    if not value.startswith('"'):
        return value
    found = _LITERAL.fullmatch(value)
    if found is None:
        return Literal(value[1:])
    return make_literal(found["text"], found["language"] or "", found["datatype"] or "")


def make_literal(text: str, language: str = "", datatype: str = "") -> Literal:
    """Return a literal, with its number if the datatype is a number's.

    A text without a datatype is not a number, even if it has digits alone. SPARQL puts `"9"` after `"10"`.
    """
    word = _LAST_WORD.search(datatype)
    if word is None or word[0] not in _NUMERIC or len(text) > _MAX_DIGITS:
        return Literal(text, language)
    return Literal(text, language, _read_number(text))


def _read_number(text: str) -> float | None:
    """Return the number in a text, None for any other text."""
    try:
        number = float(text)
    except ValueError:
        return None
    # No order has a place for NaN, so that an extreme would depend on the order of a set.
    return None if math.isnan(number) else number


def find_nodes(graph: Graph, program: Program) -> Set[Node]:
    """Return the answers of a program: its nodes, without literals in other languages and named entities."""
    extreme = find_extreme(program)
    if extreme is not None:
        return _find_best(graph, program, extreme)
    named = find_entities(program)
    return {node for node in _find_all(graph, program) if _is_answer(node, named)}


def _is_answer(node: Node, named: Set[str]) -> bool:
    return node not in named if isinstance(node, str) else node.is_shown


def _find_all(graph: Graph, program: Entity | Program) -> Set[Node]:
    """Return all nodes of a program. An entity of the question may lie on the way to an answer."""
    match program:
        case Entity(name):
            return {name}
        case Neighbors(source, relation):
            return {
                node
                for subject in _find_all(graph, source)
                if isinstance(subject, str)
                for node in graph.edges.get(subject, {}).get(relation, ())
            }
        case Intersection(first, second):
            return _find_all(graph, first) & _find_all(graph, second)
        case Extreme():
            return find_nodes(graph, program)
        case Count(source):
            number = len(find_nodes(graph, source))
            return {Literal(str(number), number=float(number))}


def _find_best(graph: Graph, program: Program, extreme: Extreme) -> Set[Node]:
    """Return the nodes of a program for the best value that leads to an answer.

    Upstream makes one query of the whole program. The value is the best of those with an answer, also if
    later steps follow the extreme. Then all nodes with that value count, named entities included.
    """
    choose = max if extreme.largest else min
    valued = [
        (_rank(value), node)
        for node in _find_all(graph, extreme.source)
        if isinstance(node, str)
        for value in graph.edges.get(node, {}).get(extreme.attribute, ())
    ]
    starts: dict[Node, _Rank] = {}
    for rank, node in valued:
        starts[node] = choose(rank, starts.get(node, rank))
    named = find_entities(program)
    # Both walks meet the same sides, and to find these twice would double the work with each count in them.
    sides: dict[Program | Entity, Set[Node]] = {}
    reached = _follow(graph, program, starts, choose, sides)
    ranks = [rank for node, rank in reached.items() if _is_answer(node, named)]
    if not ranks:
        return set()
    best = choose(ranks)
    best_starts: dict[Node, _Rank] = {node: rank for rank, node in valued if rank == best}
    return _follow(graph, program, best_starts, choose, sides).keys()


def _follow(
    graph: Graph,
    program: Entity | Program,
    starts: Mapping[Node, _Rank],
    choose: Callable[..., _Rank],
    sides: dict[Program | Entity, Set[Node]],
) -> Mapping[Node, _Rank]:
    """Return the nodes that a program reaches from the nodes of its extreme, each with its best value.

    `sides` has the nodes of the programs that meet this one, as far as they are known.
    """
    match program:
        case Neighbors(source, relation):
            found: dict[Node, _Rank] = {}
            for subject, rank in _follow(graph, source, starts, choose, sides).items():
                if isinstance(subject, str):
                    for node in graph.edges.get(subject, {}).get(relation, ()):
                        found[node] = choose(rank, found.get(node, rank))
            return found
        case Intersection(first, second):
            if find_extreme(first) is None:
                first, second = second, first
            if second not in sides:
                sides[second] = _find_all(graph, second)
            reached = _follow(graph, first, starts, choose, sides)
            return {node: rank for node, rank in reached.items() if node in sides[second]}
    return starts


def _rank(value: Node) -> _Rank:
    """Return the place of a value in SPARQL's order: entities, then numbers by value, then other texts."""
    if isinstance(value, str):
        return (0, 0.0, value)
    if value.number is not None:
        return (1, value.number, "")
    return (2, 0.0, value.text)


@dataclass(frozen=True, slots=True)
class Ontology:
    """The relations and attributes that the tools list, and the type of the nodes that each leads to."""

    relations: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()
    ranges: Mapping[str, str] = field(default_factory=dict)

    def range_of(self, relation: str) -> str:
        """Return the type of the nodes that a relation leads to."""
        return self.ranges.get(relation, ANY_TYPE)

    def extend(
        self,
        relations: Iterable[str] = (),
        attributes: Iterable[str] = (),
        ranges: Mapping[str, str] | None = None,
    ) -> Ontology:
        """Return the ontology with more names. A range that is known already stays."""
        return Ontology(
            self.relations | set(relations),
            self.attributes | set(attributes),
            {**(ranges or {}), **self.ranges},
        )

    def narrow(self, names: Iterable[str]) -> Ontology:
        """Return the part of the ontology about these relations and attributes."""
        kept = frozenset(names)
        return Ontology(
            self.relations & kept,
            self.attributes & kept,
            {name: self.ranges[name] for name in sorted(kept & self.ranges.keys())},
        )


def parse_ranges(text: str) -> dict[str, str]:
    """Return the type that each relation leads to, from upstream's `fb_roles`.

    Each line holds the type that a relation leads from, the relation, and the type that it leads to. Raises
    ValueError with the number of a line that has fewer words.
    """
    ranges: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words:
            continue
        if len(words) < 3:
            raise ValueError(f"line {number} needs a domain, a relation and a range")
        ranges[words[1]] = words[2]
    return ranges


def parse_vocabulary(value: Any) -> tuple[frozenset[str], frozenset[str]]:
    """Return the relations and the attributes of upstream's `vocab.json`. Raises ValueError."""
    if not isinstance(value, dict):
        raise ValueError("needs an object with 'relations' and 'attributes'")
    found = []
    for name in ("relations", "attributes"):
        names = value.get(name)
        if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
            raise ValueError(f"needs a list of strings as '{name}'")
        found.append(frozenset(names))
    return found[0], found[1]
