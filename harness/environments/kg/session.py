"""The functions of the knowledge graph in one attempt: their rules, and the variables that they make.

Every list is sorted, because upstream's order comes from a hash. A text of an agent is only compared with
the names of variables, entities and relations.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, field
from typing import Protocol

from harness.environments.kg.graph import (
    ARGMAX,
    ARGMIN,
    COUNT,
    ENTITY_ID,
    GET_ATTRIBUTES,
    GET_NEIGHBORS,
    GET_RELATIONS,
    INTERSECTION,
    MAX_STEPS,
    Action,
    Count,
    Entity,
    Extreme,
    Neighbors,
    Ontology,
    Program,
    count_steps,
    intersect,
)

NUMBER_TYPE = "type.int"
# An entity of a real graph may have thousands of relations.
MAX_LISTED = 400
MAX_LIST_CHARACTERS = 16_000
_SHOWN_CHARACTERS = 80

_VARIABLE = re.compile(r"(?:[Vv]ariable )?\s*#(?P<number>[0-9]{1,6})", re.ASCII)
_STRICT_ID = re.compile(r"[mf]\.\w{1,64}", re.ASCII)


class Knowledge(Protocol):
    """A knowledge graph: one in memory, or an endpoint."""

    def relations_of(self, subject: Entity | Program) -> Set[str]:
        """Return the relations and attributes that lead out of an entity, or of any answer of a program."""

    def answers(self, program: Program) -> frozenset[str]:
        """Return the answers of a program as texts."""


class ActionError(Exception):
    """An action that the rules refuse. Its message is the observation."""


class UnknownVariableError(ActionError):
    """The action names a variable that does not exist."""


class NoVariableError(ActionError):
    """The action needs a variable and has another text, such as the id of an entity."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one task. The fields hold nothing that an agent may not know."""

    # The id of each entity of the question, by its name.
    entities: Mapping[str, str]
    ontology: Ontology
    # Upstream's own rules: both variables of an intersection have one type, and ids begin with `m.` or `f.`.
    strict: bool = False
    # Whether relations and attributes must have been listed before they are used, as in AgentBench v0.2.
    asked_before: bool = False
    # The ids that an agent may start at, None for all.
    starts: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable: the type of its answers, and its program."""

    type: str
    program: Program


@dataclass(slots=True)
class Session:
    """The variables of one attempt."""

    knowledge: Knowledge
    rules: Rules
    variables: list[Variable] = field(default_factory=list)
    _listed: dict[Entity | Program, Set[str]] = field(default_factory=dict)

    def run(self, action: Action) -> str:
        """Carry out an action, and return its observation. Raises ActionError."""
        arguments = action.arguments
        match action.function:
            case name if name == GET_RELATIONS:
                return _show_list(self._list_names(self._start(arguments[0]), self.rules.ontology.relations))
            case name if name == GET_ATTRIBUTES:
                variable = self._variable(arguments[0])
                return _show_list(self._list_names(variable.program, self.rules.ontology.attributes))
            case name if name == GET_NEIGHBORS:
                return self._get_neighbors(*arguments)
            case name if name == INTERSECTION:
                return self._intersect(*arguments)
            case name if name == COUNT:
                return self._count(arguments[0])
            case name if name in (ARGMAX, ARGMIN):
                return self._find_extreme(*arguments, largest=name == ARGMAX)
        raise ActionError(f"there is no function {action.function}")

    def find_variable(self, text: str) -> Variable | None:
        """Return the variable that a text such as `#2` names, None if it names none."""
        found = _VARIABLE.fullmatch(text.strip())
        if found is None or int(found["number"]) >= len(self.variables):
            return None
        return self.variables[int(found["number"])]

    def _get_neighbors(self, source: str, relation: str) -> str:
        start = self._start(source)
        self._require_listed(start, relation, self.rules.ontology.relations, "relation", GET_RELATIONS)
        return self._add(Variable(self.rules.ontology.range_of(relation), Neighbors(start, relation)))

    def _intersect(self, one: str, other: str) -> str:
        first, second = self._variable(one), self._variable(other)
        if self.rules.strict and first.type != second.type:
            raise ActionError(
                f"the variables differ in their type: {first.type} and {second.type}; "
                "an intersection needs two variables of one type"
            )
        return self._add(Variable(first.type, intersect(first.program, second.program)))

    def _count(self, text: str) -> str:
        program = self._variable(text).program
        # Upstream's program for the count of a count is the count itself.
        counted = program if isinstance(program, Count) else Count(program)
        return self._add(Variable(NUMBER_TYPE, counted), is_number=True)

    def _find_extreme(self, text: str, attribute: str, *, largest: bool) -> str:
        variable = self._variable(text)
        names = self.rules.ontology.attributes
        self._require_listed(variable.program, attribute, names, "attribute", GET_ATTRIBUTES)
        return self._add(Variable(variable.type, Extreme(variable.program, attribute, largest)))

    def _start(self, text: str) -> Entity | Program:
        """Return the program of a variable, or the entity of a name or an id. Raises ActionError."""
        if text.strip().startswith("#") or _VARIABLE.fullmatch(text.strip()):
            return self._variable(text).program
        name = text.strip()
        found = self.rules.entities.get(text, self.rules.entities.get(name, name))
        form = _STRICT_ID if self.rules.strict else ENTITY_ID
        allowed = self.rules.starts
        if form.fullmatch(found) is None or (allowed is not None and found not in allowed):
            raise ActionError(
                f"{_shorten(name)} is neither a variable such as #0 nor an entity of the question"
            )
        return Entity(found)

    def _variable(self, text: str) -> Variable:
        variable = self.find_variable(text)
        if variable is None:
            number = len(self.variables)
            known = "there is none yet" if not number else f"the variables are #0 to #{number - 1}"
            kind = UnknownVariableError if text.strip().startswith("#") else NoVariableError
            raise kind(f"{_shorten(text)} is not a variable; {known}")
        return variable

    def _list_names(self, subject: Entity | Program, known: Collection[str]) -> Set[str]:
        """Return the names of the vocabulary that lead out of a subject, and note that they are listed."""
        names = {name for name in self.knowledge.relations_of(subject) if name in known}
        self._listed[subject] = self._listed.get(subject, frozenset()) | names
        return names

    def _require_listed(
        self, subject: Entity | Program, name: str, known: Collection[str], kind: str, function: str
    ) -> None:
        """Raise ActionError unless a subject has this relation or attribute."""
        listed = self._listed.get(subject, frozenset())
        if name not in listed and not self.rules.asked_before:
            listed = self._list_names(subject, known)
        if name not in known or name not in listed:
            raise ActionError(f"{_shorten(name)} is not a {kind} that {function} lists for it")

    def _add(self, variable: Variable, *, is_number: bool = False) -> str:
        if count_steps(variable.program) > MAX_STEPS:
            raise ActionError(f"the variable would stand for more than {MAX_STEPS} steps")
        self.variables.append(variable)
        nature = "is a number" if is_number else f"are instances of {variable.type}"
        return f"variable #{len(self.variables) - 1}, which {nature}"


def _show_list(names: Set[str]) -> str:
    shown: list[str] = []
    length = 0
    for name in sorted(names):
        length += len(name) + 2
        if len(shown) == MAX_LISTED or length > MAX_LIST_CHARACTERS:
            return f"[{', '.join(shown)}, and {len(names) - len(shown):,} more that are not shown]"
        shown.append(name)
    return f"[{', '.join(shown)}]"


def _shorten(text: str) -> str:
    text = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
    return f"'{text}'"
