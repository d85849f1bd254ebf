"""A household game as its file describes it: the facts at its start, the goal, and the words of its grammar.

The file is JSON with a PDDL domain, a grammar, and a PDDL problem. The domain is always the same, so `play`
has its rules, and a file with another domain is refused. The file's `walkthrough` solves the game. It is not
read, so that it cannot reach an agent.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any

from harness.core.inputs.json_text import BrokenJSONError, parse_json
from harness.environments.house.goal import Fact, Goal, GoalError, read_goal

_SEPARATOR = "_bar_"
_BASIN = "basin"

FIELDS = ("pddl_domain", "grammar", "pddl_problem")
ACTIONS = frozenset(
    (
        *("look", "inventory", "examinereceptacle", "examineobject", "gotolocation", "openobject"),
        *("closeobject", "pickupobject", "putobject", "cleanobject", "heatobject", "coolobject"),
        *("toggleobject", "sliceobject"),
    )
)
"""The actions of the domain, by their names in lower case. The newer domain also has `help`."""
FLUENTS = frozenset(
    (
        *("atlocation", "objectatlocation", "opened", "inreceptacle", "inreceptacleobject", "holds"),
        *("holdsany", "isclean", "ishot", "iscool", "ison", "istoggled", "issliced"),
    )
)
"""The predicates whose facts may change."""
PREDICATES = FLUENTS | frozenset(
    (
        *("receptacleatlocation", "openable", "isreceptacleobject", "isreceptacleobjectfull"),
        *("wasinreceptacle", "checked", "examined", "receptacletype", "cancontain", "objecttype"),
        *("holdsanyreceptacleobject", "full", "cleanable", "heatable", "coolable", "pickupable", "moveable"),
        *("toggleable", "sliceable"),
    )
)
"""The predicates of the domain."""

_COMMENT = re.compile(r";[^\n]*")
_ACTION = re.compile(r"^[^;\n]*\(:action\s+(\w+)", re.MULTILINE)
_FACT = re.compile(r"\(([a-z]+)((?:\s+[^\s()]+)*)\s*\)")
_RULE = r'"{}"\s*:\s*\[\s*\{{\s*"rhs"\s*:\s*("(?:[^"\\]|\\.)*")'
_TASK = re.compile(_RULE.format("task"))
_HELP = re.compile(_RULE.format(r"help\.feedback"))
_PUT = re.compile(r'action\s+PutObject\s*\{\s*template\s*::\s*"(put|move) \{o\} (in/on|to) \{r\}"')
_ARRIVAL = re.compile(r'"You arrive at \{(lend|r)\.name\}\. ')
_WORDS = {("put", "in/on"), ("move", "to")}

# Published games have some hundreds of facts and a few dozen receptacles. Each command looks at all of them.
MOST_FACTS, MOST_RECEPTACLES, MOST_HELD = 4000, 300, 10
MOST_ID_CHARACTERS, MOST_TEXT_CHARACTERS = 200, 4000

_ARITIES = {
    **dict.fromkeys(PREDICATES, 1),
    **dict.fromkeys(
        (
            *("atlocation", "receptacleatlocation", "objectatlocation", "inreceptacle", "inreceptacleobject"),
            *("wasinreceptacle", "receptacletype", "cancontain", "objecttype", "holds"),
        ),
        2,
    ),
}

_LONGEST = 4
_SMOOTHING = 5
LEAST_SCORE = 0.01
"""A command with this score or less is too far from the text."""


def name_objects(ids: Iterable[str]) -> dict[str, str]:
    """Return the name of each id: its kind, and a number from 1 within the kind.

    The ids are numbered in their order from the highest number down, so that the last one is 1. An id without
    a position keeps its text as its name.
    """
    kinds = {each: _kind(each) for each in sorted(ids)}
    left = Counter(kind for kind in kinds.values() if kind is not None)
    names = {}
    for each, kind in kinds.items():
        if kind is None:
            names[each] = each
        else:
            names[each] = f"{kind} {left[kind]}"
            left[kind] -= 1
    return names


def _kind(id_: str) -> str | None:
    kind, separator, _ = id_.partition(_SEPARATOR)
    if not separator:
        return None
    # The id of a sink's basin begins with `sink`, and ends with `sinkbasin`.
    return f"{kind}{_BASIN}" if _BASIN in id_ else kind


class GameError(ValueError):
    """A file that is not a household game. The message has the reason, and the caller knows the file."""


@dataclass(frozen=True, slots=True)
class Words:
    """The words that differ between the two grammars."""

    # The verb and the preposition of the command that puts an object down.
    put: str
    into: str
    # Whether an arrival names the location instead of the receptacle.
    names_location: bool
    # The reply to the command `help`, None if there is no such command.
    help: str | None


@dataclass(frozen=True)
class Game:
    """A household game at its start. All ids are in lower case."""

    # The sentence that describes the goal to the agent.
    task: str
    words: Words
    goal: Goal
    # The facts at the start, by predicate.
    facts: Mapping[str, frozenset[Fact]] = field(repr=False)

    @cached_property
    def names(self) -> Mapping[str, str]:
        """The name of each object, receptacle and location in texts, by id."""
        ids = {name for facts in self.facts.values() for fact in facts for name in fact}
        return MappingProxyType(name_objects(ids))

    @cached_property
    def places(self) -> tuple[tuple[str, str], ...]:
        """Each receptacle with its location, in the order of their ids."""
        return tuple(sorted((receptacle, at) for receptacle, at in self.facts["receptacleatlocation"]))

    @cached_property
    def types(self) -> Mapping[str, frozenset[str]]:
        """The types of each object and each receptacle."""
        found: dict[str, set[str]] = {}
        for predicate in ("objecttype", "receptacletype"):
            for name, kind in self.facts.get(predicate, ()):
                found.setdefault(name, set()).add(kind)
        return {name: frozenset(kinds) for name, kinds in found.items()}

    def has(self, predicate: str, *arguments: str) -> bool:
        """Return whether a fact holds at the start, and for facts that never change, always."""
        return arguments in self.facts.get(predicate, frozenset())

    def fits(self, object_: str, receptacle: str) -> bool:
        """Return whether the object may be put into the receptacle."""
        allowed = self.facts.get("cancontain", frozenset())
        kinds = self.types.get(object_, frozenset())
        return any((place, kind) in allowed for place in self.types.get(receptacle, ()) for kind in kinds)


def read_game(data: bytes) -> Game:
    """Return the game in the content of a file. Raises GameError."""
    domain, grammar, problem = _read_fields(data)
    actions = _list_actions(domain)
    if actions - {"help"} != ACTIONS:
        odd = sorted((actions - {"help"}) ^ ACTIONS)
        raise GameError(f"its domain is not ALFWorld's: it differs in {', '.join(odd)[:200]}")
    task = _find_rule(_TASK, grammar)
    if task is None:
        raise GameError('its grammar has no text for "task"')
    _require_most("characters in its task", len(task), MOST_TEXT_CHARACTERS)
    facts, formula = _read_problem(problem)
    try:
        goal = read_goal(formula)
    except GoalError as error:
        raise GameError(f"its goal cannot be read: {error}") from error
    for each in (*goal.conditions, *goal.absences):
        if each.predicate not in PREDICATES:
            raise GameError(f"its goal names the unknown predicate `{each.predicate[:50]}`")
        _require_arity("goal", each.predicate, each.arguments)
    return Game(task, _read_words(grammar, has_help="help" in actions), goal, facts)


# All games have one of two domains.
@lru_cache(maxsize=8)
def _list_actions(domain: str) -> frozenset[str]:
    return frozenset(name.lower() for name in _ACTION.findall(domain))


def _read_fields(data: bytes) -> tuple[str, str, str]:
    try:
        values: Any = parse_json(data)
    except BrokenJSONError as error:
        raise GameError(f"is not JSON: {error} in line {error.line}") from error
    if not isinstance(values, dict):
        raise GameError("is not a JSON object with " + ", ".join(FIELDS))
    for name in FIELDS:
        if not isinstance(values.get(name), str):
            raise GameError(f"has no text '{name}', so that it is not a game of ALFWorld")
    return values["pddl_domain"], values["grammar"], values["pddl_problem"]


def _read_words(grammar: str, *, has_help: bool) -> Words:
    put, arrival = _PUT.search(grammar), _ARRIVAL.search(grammar)
    if put is None or arrival is None or (put[1], put[2]) not in _WORDS:
        raise GameError("its grammar is neither of ALFWorld's two (`put X in/on Y`, `move X to Y`)")
    help_ = _find_rule(_HELP, grammar) if has_help else None
    if has_help and help_ is None:
        raise GameError('its grammar has no text for "help.feedback"')
    _require_most("characters in its help", len(help_ or ""), MOST_TEXT_CHARACTERS)
    # The parser of TextWorld skips blanks at the start of a text.
    return Words(put[1], put[2], arrival[1] == "lend", None if help_ is None else help_.lstrip())


def _find_rule(rule: re.Pattern[str], grammar: str) -> str | None:
    found = rule.search(grammar)
    if found is None:
        return None
    try:
        text = json.loads(found[1])
    except ValueError as error:
        raise GameError(f"its grammar has a broken text: {error}") from error
    return text if isinstance(text, str) else None


def _read_problem(problem: str) -> tuple[Mapping[str, frozenset[Fact]], str]:
    """Return the facts of a PDDL problem by predicate, and the formula of its goal."""
    text = _COMMENT.sub("", problem).lower()
    _, found, rest = text.partition("(:init")
    start, goal, formula = rest.partition("(:goal")
    if not found or not goal:
        raise GameError("its problem has no `(:init` or no `(:goal`")
    collected: dict[str, set[Fact]] = {}
    for predicate, arguments in _FACT.findall(start):
        # Distances are numbers, not facts. The text does not depend on them.
        if predicate in PREDICATES:
            collected.setdefault(predicate, set()).add(tuple(arguments.split()))
    facts = {predicate: frozenset(each) for predicate, each in collected.items()}
    _require_sound(facts)
    return MappingProxyType(facts), formula


def _require_sound(facts: Mapping[str, frozenset[Fact]]) -> None:
    for predicate, each in facts.items():
        if any(len(fact) != _ARITIES[predicate] for fact in each):
            _require_arity("problem", predicate, next(f for f in each if len(f) != _ARITIES[predicate]))
    if len(facts.get("atlocation", ())) != 1:
        raise GameError("its problem needs one `atLocation`, the place of the agent")
    if not facts.get("receptacleatlocation"):
        raise GameError("its problem has no `receptacleAtLocation`")
    _require_most("facts", sum(map(len, facts.values())), MOST_FACTS)
    _require_most("receptacles", len(facts["receptacleatlocation"]), MOST_RECEPTACLES)
    _require_most("held objects", len(facts.get("holds", ())), MOST_HELD)
    longest = max(len(name) for each in facts.values() for fact in each for name in fact)
    _require_most("characters in an id", longest, MOST_ID_CHARACTERS)


def _require_most(noun: str, number: int, limit: int) -> None:
    if number > limit:
        raise GameError(f"has {number:,} {noun}; the limit is {limit:,}")


def _require_arity(part: str, predicate: str, arguments: Fact) -> None:
    if len(arguments) != _ARITIES[predicate]:
        raise GameError(
            f"its {part} has `{predicate}` with {len(arguments)} arguments, it needs {_ARITIES[predicate]}"
        )


def find_nearest(text: str, commands: Sequence[str]) -> str | None:
    """Return the command that is nearest to a text, None if none is near.

    As in AgentBench, only the first line of the text counts, in lower case. The first of equally near
    commands is returned.
    """
    wanted = text.strip().lower().split("\n")[0]
    if wanted in commands:
        return wanted
    words = wanted.split()
    scores = [score(words, command.split()) for command in commands]
    best = max(range(len(commands)), key=scores.__getitem__, default=None)
    return commands[best] if best is not None and scores[best] > LEAST_SCORE else None


def score(words: Sequence[str], reference: Sequence[str]) -> float:
    """Return the BLEU score of words against a reference, from 0 to 1."""
    counts = [_count(words, reference, length) for length in range(1, _LONGEST + 1)]
    if not counts[0][0]:
        return 0.0
    logarithms, misses = [], 0
    for shared, number in counts:
        found = float(shared)
        if not shared and len(words) > 1:
            misses += 1
            found = math.log(len(words)) / (2**misses * _SMOOTHING)
        if found:
            logarithms.append(math.log(found / number) / _LONGEST)
    brevity = 1.0 if len(words) > len(reference) else math.exp(1 - len(reference) / len(words))
    # The exact sum gives equally near commands the same score.
    return brevity * math.exp(math.fsum(logarithms))


def _count(words: Sequence[str], reference: Sequence[str], length: int) -> tuple[int, int]:
    """Return how many sequences of words occur in the reference, and how many there are, at least 1."""
    own, others = _sequences(words, length), _sequences(reference, length)
    return (own & others).total(), max(1, own.total())


def _sequences(words: Sequence[str], length: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[start : start + length]) for start in range(len(words) - length + 1))
