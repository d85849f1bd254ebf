"""Make a graph for one task, grown backwards from its gold answers. It is not Freebase.

The nodes between the question and its answers are invented, and so are decoys. Shadows of the gold path start
at other relations of the same entities, lead to nodes of the same types, and meet as the gold path does.
Unrelated relations surround the nodes of both. Therefore, an agent that does not read the question rarely
ends at the answers.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from harness.environments.kg.grader import GoldError, Plan, find_names
from harness.environments.kg.graph import (
    ENTITY_ID,
    Count,
    Entity,
    Extreme,
    Graph,
    Intersection,
    Literal,
    Neighbors,
    Node,
    Ontology,
    Program,
    Triple,
    find_entities,
    make_graph,
)

# The last word of invented relations, if the ontology has too few other relations that could lend theirs.
_WORDS = (
    *("related_to", "part_of", "owned_by", "used_in", "made_by", "found_in", "named_after", "follows"),
    *("member_of", "similar_to", "derived_from", "located_near", "supports", "precedes", "contains", "type"),
)
_QUALIFIERS = ("", "former_", "primary_", "notable_", "earlier_")
_TRIED_WORDS = 40
_SHADOWS = 3
# The relations of an entity of the question: the gold one, the starts of shadows, and unrelated ones.
_RELATIONS_OF_ENTITY = 7
# A question may have a hundred answers, and a few nodes with relations are enough for a list of them.
_NODES_WITH_RELATIONS = 3


@dataclass(frozen=True, slots=True)
class Schema:
    """The relations of an ontology, by the domain of their name and by the type that they lead to."""

    ontology: Ontology
    by_domain: Mapping[str, tuple[str, ...]]
    by_range: Mapping[str, tuple[str, ...]]
    attributes: Mapping[str, tuple[str, ...]]
    # The last words of all relations. An invented relation has one of them, because an agent could tell
    # decoys from the gold by a list of words that only decoys have.
    words: tuple[str, ...]
    # Whether the ontology is a published one, and not gathered from the gold of the questions.
    is_complete: bool


def make_schema(ontology: Ontology, *, is_complete: bool = True) -> Schema:
    """Return the schema of an ontology."""
    by_domain: dict[str, list[str]] = {}
    by_range: dict[str, list[str]] = {}
    attributes: dict[str, list[str]] = {}
    for name in sorted(ontology.relations):
        by_domain.setdefault(_domain_of(name), []).append(name)
        by_range.setdefault(ontology.range_of(name), []).append(name)
    for name in sorted(ontology.attributes):
        attributes.setdefault(name.rpartition(".")[0], []).append(name)
    words = tuple(sorted({name.rpartition(".")[2] for name in ontology.relations}))
    return Schema(ontology, _freeze(by_domain), _freeze(by_range), _freeze(attributes), words, is_complete)


def make_task_graph(plan: Plan, schema: Schema, seed: str) -> tuple[Graph, Ontology]:
    """Return the graph of a task and the part of the ontology that it uses. One seed makes one graph.

    Raises GoldError if no graph leads from the gold actions to the gold answers.
    """
    # Gold that uses one relation twice may allow no stranger, or no decoy.
    for with_strangers, shadows in ((True, _SHADOWS), (False, _SHADOWS), (False, 0)):
        draw = random.Random(seed.encode("utf-8", "surrogatepass"))
        maker = _Maker(plan, schema, draw, with_strangers)
        graph = maker.make(shadows)
        if graph.answers(plan.program) == frozenset(plan.answers):
            return graph, maker.find_ontology()
    raise GoldError("its gold actions cannot find its gold answer in any graph")


class _Maker:
    def __init__(self, plan: Plan, schema: Schema, draw: random.Random, with_strangers: bool) -> None:
        self._plan = plan
        self._schema = schema
        self._draw = draw
        self._with_strangers = with_strangers
        # If the answer is 1, a graph of single nodes would make the count of anything the answer.
        self._least = 2 if isinstance(plan.program, Count) and plan.answers == ("1",) else 1
        self._triples: list[Triple] = []
        self._ids = {*plan.answers, *find_entities(plan.program)}
        self._relations, self._attributes = find_names(plan.program)
        self._invented: dict[str, str] = {}
        # The relations that already lead out of each node.
        self._used: dict[str, dict[str, None]] = {}

    def make(self, shadows: int) -> Graph:
        program = self._plan.program
        self._grow(program, self._gold_nodes(), shadow=False)
        for _ in range(shadows):
            self._grow(program, self._few(4), shadow=True)
        for entity in sorted(find_entities(program)):
            self._surround_entity(entity)
        # The order of triples must not show which of them are gold.
        self._draw.shuffle(self._triples)
        return make_graph(self._triples)

    def find_ontology(self) -> Ontology:
        """Return the part of the ontology that the graph uses, with the names that only this task has."""
        relations, attributes = set(self._invented), set[str]()
        valued = self._schema.ontology.attributes | self._attributes
        for _subject, name, node in self._triples:
            is_value = isinstance(node, Literal) and name in valued
            (attributes if is_value and name not in self._relations else relations).add(name)
        known = self._schema.ontology
        ranges = {name: self._invented.get(name) or known.range_of(name) for name in relations | attributes}
        return Ontology(frozenset(relations), frozenset(attributes), ranges)

    def _gold_nodes(self) -> list[Node]:
        if isinstance(self._plan.program, Count):
            number = int(self._plan.answers[0])
            return self._fresh(number)
        return [answer if ENTITY_ID.fullmatch(answer) else Literal(answer) for answer in self._plan.answers]

    def _grow(self, program: Entity | Program, wanted: Sequence[Node], *, shadow: bool) -> None:
        """Add triples that lead a program, or its shadow, to these nodes."""
        match program:
            case Neighbors(Entity(name), relation):
                chosen = self._find_substitute(name, relation) if shadow else relation
                for node in wanted:
                    self._add(name, chosen, node)
                self._surround(wanted, relation)
            case Neighbors(source, relation):
                sources = self._few(3)
                for number, node in enumerate(wanted):
                    self._add(str(sources[number % len(sources)]), relation, node)
                # A source without a target would be of another kind than the rest.
                for number, each in enumerate(sources):
                    if wanted and number >= len(wanted):
                        self._add(str(each), relation, self._draw.choice(wanted))
                self._surround(wanted, relation)
                self._grow(source, sources, shadow=shadow)
            case Intersection(first, second):
                for side in (first, second):
                    self._grow(side, [*wanted, *self._strangers()], shadow=shadow)
            case Extreme(source, attribute, largest):
                others = self._strangers()
                self._give_values(wanted, others, attribute, largest=largest)
                self._grow(source, [*wanted, *others], shadow=shadow)
            case Count(source):
                self._grow(source, wanted, shadow=shadow)

    def _give_values(
        self, wanted: Iterable[Node], others: Iterable[Node], attribute: str, *, largest: bool
    ) -> None:
        best = self._draw.randint(1000, 1999)
        step = -1 if largest else 1
        near = [
            name
            for name in self._schema.attributes.get(attribute.rpartition(".")[0], ())
            if name != attribute
        ]
        other = self._draw.choice(near) if near else None
        for node in wanted:
            self._add(str(node), attribute, _integer(best))
        for number, node in enumerate(others, start=1):
            self._add(str(node), attribute, _integer(best + step * (7 * number - self._draw.randint(0, 3))))
        if other is not None:
            for node in (*wanted, *others):
                self._add(str(node), other, _integer(self._draw.randint(1, 99)))

    def _strangers(self) -> list[Node]:
        return self._few(3) if self._with_strangers else []

    def _surround(self, nodes: Sequence[Node], relation: str) -> None:
        """Give nodes unrelated relations of the domain of `relation`."""
        for node in [node for node in nodes if isinstance(node, str)][:_NODES_WITH_RELATIONS]:
            for name in self._unrelated(node, relation, self._draw.randint(2, 3)):
                self._add(node, name, *self._few(1))

    def _surround_entity(self, entity: str) -> None:
        """Give an entity of the question unrelated relations, whose targets have relations too."""
        used = list(self._used.get(entity, ()))
        model = used[0]
        for name in self._unrelated(entity, model, max(2, _RELATIONS_OF_ENTITY - len(used))):
            targets = self._few(2)
            for target in targets:
                self._add(entity, name, target)
            for further in self._unrelated(str(targets[0]), name, 2):
                self._add(str(targets[0]), further, *self._few(1))

    def _find_substitute(self, subject: str, relation: str) -> str:
        """Return another relation, if possible one to the same type and of the same domain."""
        kind = self._range_of(relation)
        same = self._schema.by_range.get(kind, ())
        domain = _domain_of(relation)
        near = [name for name in same if _domain_of(name) == domain]
        # A name that no ontology has would stand out, unless there is no ontology.
        others = self._schema.by_domain.get(domain, ()) if self._schema.is_complete else ()
        for names in (near, same, others):
            free = [name for name in names if self._is_free(subject, name)]
            if free:
                return self._draw.choice(free)
        return self._invent(subject, relation, kind)

    def _unrelated(self, subject: str, relation: str, number: int) -> list[str]:
        names = self._schema.by_domain.get(_domain_of(relation), ())
        if len(names) > 40:
            names = tuple(self._draw.sample(names, 40))
        free = [name for name in names if self._is_free(subject, name)]
        chosen = self._draw.sample(free, min(number, len(free)))
        while len(chosen) < number:
            kind = self._draw.choice(sorted(self._schema.by_range)) if self._schema.by_range else ""
            name = self._invent(subject, relation, kind or self._range_of(relation))
            if name in chosen:
                break
            chosen.append(name)
        return chosen

    def _is_free(self, subject: str, name: str) -> bool:
        return name not in self._relations and name not in self._used.get(subject, ())

    def _invent(self, subject: str, relation: str, kind: str) -> str:
        """Return a relation that no ontology has, and that leads to nodes of this type."""
        prefix = relation.rpartition(".")[0] or relation
        words = self._schema.words
        own = [f"{prefix}.{word}" for word in self._draw.sample(words, min(len(words), _TRIED_WORDS))]
        spare = [f"{prefix}.{qualifier}{word}" for qualifier in _QUALIFIERS for word in _WORDS]
        free: list[str] = []
        for names in (own, spare):
            free = free or [name for name in names if self._may_invent(subject, name, kind)]
        name = self._draw.choice(free) if free else f"{prefix}.{_WORDS[0]}_{len(self._invented)}"
        if name not in self._schema.ontology.relations:
            self._invented[name] = kind
        return name

    def _may_invent(self, subject: str, name: str, kind: str) -> bool:
        known = self._schema.ontology
        if not self._is_free(subject, name) or name in known.attributes or name in self._attributes:
            return False
        return (known.range_of(name) if name in known.relations else self._invented.get(name, kind)) == kind

    def _range_of(self, relation: str) -> str:
        return self._invented.get(relation) or self._schema.ontology.range_of(relation)

    def _few(self, most: int) -> list[Node]:
        """Return a few new nodes."""
        return self._fresh(self._draw.randint(self._least, max(self._least, most)))

    def _fresh(self, number: int) -> list[Node]:
        """Return this number of new nodes."""
        nodes: list[Node] = []
        for _ in range(number):
            name = f"m.0z{self._draw.getrandbits(24):06x}"
            while name in self._ids:
                name = f"m.0z{self._draw.getrandbits(24):06x}"
            self._ids.add(name)
            nodes.append(name)
        return nodes

    def _add(self, subject: str, relation: str, *nodes: Node) -> None:
        self._used.setdefault(subject, {})[relation] = None
        self._triples.extend((subject, relation, node) for node in nodes)


def _integer(value: int) -> Literal:
    return Literal(str(value), number=float(value))


@lru_cache(maxsize=4096)
def _domain_of(name: str) -> str:
    """Return the domain of a relation: its first word, or the first two of a user's own domain."""
    words = name.split(".")
    return ".".join(words[:2]) if words[0] in ("base", "user", "m") and len(words) > 3 else words[0]


def _freeze(groups: Mapping[str, list[str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(found) for name, found in groups.items()}
