"""The goal of a game: a formula of PDDL, read as one search for objects that meet all its conditions.

The goals of household games consist of facts, `and`, `exists` and differences of two objects. Such a formula
is one list of conditions over all its variables. ALFRED's own goals add that no receptacle is open, which is
a fact that must be absent for all objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import count

Fact = tuple[str, ...]
"""The arguments of a fact. A mapping holds the facts of each predicate."""
Facts = Mapping[str, Set[Fact]]
Bindings = Mapping[str, str]
"""The object of each variable."""

_TOKEN = re.compile(r"[()]|[^\s()]+")
_MOST_DEPTH = 60
# The comparisons of one search, which ends within 50 ms. Published games need some hundreds, and a goal with
# many variables could need more than there is time for. A search for all ways to meet a goal has more.
MOST_COMPARED, MOST_COMPARED_FOR_ALL = 10_000, 1_000_000
# The conditions, absences and differences of a goal.
MOST_PARTS = 50
_PREDICATE = re.compile(r"[a-z]+")
_WORDS = frozenset({"and", "exists", "forall", "imply", "not", "or", "when"})

Expression = str | list["Expression"]


class GoalError(ValueError):
    """A goal that is broken, or that needs more of PDDL than the games use."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A fact that must hold. Arguments that begin with `?` are variables."""

    predicate: str
    arguments: Fact


@dataclass(frozen=True, slots=True)
class Goal:
    """A search for objects."""

    # All of these must hold.
    conditions: tuple[Condition, ...]
    # The objects of these pairs of variables must differ.
    differences: tuple[tuple[str, str], ...] = ()
    # None of these may hold, whatever the objects of those variables are that occur in no condition.
    absences: tuple[Condition, ...] = ()

    def is_reached(self, facts: Facts) -> bool:
        """Return whether the facts meet the goal. Raises GoalError if that takes too many comparisons."""
        found = self._search(list(self.conditions), 0, {}, facts, iter(range(MOST_COMPARED)))
        return any(self._lacks(bound, facts) for bound in found)

    def find(self, facts: Facts, predicates: Set[str] | None = None) -> Iterator[dict[str, str]]:
        """Yield the objects of the variables for each way to meet the conditions.

        With `predicates`, only conditions on these are searched. Absences are not looked at. Raises GoalError
        if the search takes too many comparisons.
        """
        wanted = [each for each in self.conditions if predicates is None or each.predicate in predicates]
        return self._search(wanted, 0, {}, facts, iter(range(MOST_COMPARED_FOR_ALL)))

    def _search(
        self,
        wanted: list[Condition],
        position: int,
        bound: dict[str, str],
        facts: Facts,
        steps: Iterator[int],
    ) -> Iterator[dict[str, str]]:
        if position == len(wanted):
            yield bound
            return
        condition = wanted[position]
        known = facts.get(condition.predicate, frozenset())
        _require_few(steps)
        filled = tuple(bound.get(name, name) for name in condition.arguments)
        if not any(name.startswith("?") for name in filled):
            if filled in known:
                yield from self._search(wanted, position + 1, bound, facts, steps)
            return
        fixed = [(place, name) for place, name in enumerate(filled) if not name.startswith("?")]
        free = [(place, name) for place, name in enumerate(filled) if name.startswith("?")]
        for fact in known:
            _require_few(steps)
            if any(fact[place] != name for place, name in fixed):
                continue
            found = dict(bound)
            # A variable may occur twice in a condition.
            agrees = all(found.setdefault(name, fact[place]) == fact[place] for place, name in free)
            if agrees and self._differ(found):
                yield from self._search(wanted, position + 1, found, facts, steps)

    def _lacks(self, bound: Bindings, facts: Facts) -> bool:
        for each in self.absences:
            filled = [bound.get(name, name) for name in each.arguments]
            for fact in facts.get(each.predicate, frozenset()):
                if all(name[0] == "?" or name == value for name, value in zip(filled, fact, strict=True)):
                    return False
        return True

    def _differ(self, bound: Bindings) -> bool:
        return all(bound.get(one, one) != bound.get(other, other) for one, other in self.differences)


def _require_few(steps: Iterator[int]) -> None:
    if next(steps, None) is None:
        raise GoalError("the goal needs too many comparisons with facts")


def read_goal(text: str) -> Goal:
    """Return the goal that a formula in lower case describes. Raises GoalError."""
    reader = _Reader()
    reader.collect(_parse(text), {})
    if not reader.conditions:
        raise GoalError("the goal has no condition")
    if (parts := len(reader.conditions) + len(reader.differences) + len(reader.absences)) > MOST_PARTS:
        raise GoalError(f"the goal has {parts:,} conditions; the limit is {MOST_PARTS}")
    return Goal(tuple(_sort(reader.conditions)), tuple(reader.differences), tuple(reader.absences))


def _sort(conditions: list[Condition]) -> list[Condition]:
    """Return the conditions in the order of the search, where each limits the next as much as it can.

    Those with the fewest free variables come first, and of these the ones about objects that are known. So
    the search goes from an object to its receptacle, and does not try all pairs of objects of a type.
    """
    left, ordered = list(conditions), []
    bound: set[str] = set()

    def rank(condition: Condition) -> tuple[int, bool]:
        free = {name for name in condition.arguments if name[0] == "?"} - bound
        return len(free), bound.isdisjoint(condition.arguments)

    while left:
        following = min(left, key=rank)
        left.remove(following)
        ordered.append(following)
        bound.update(name for name in following.arguments if name[0] == "?")
    return ordered


def _parse(text: str) -> Expression:
    stack: list[list[Expression]] = [[]]
    for token in _TOKEN.findall(text):
        if token == "(":
            stack.append([])
            if len(stack) > _MOST_DEPTH:
                raise GoalError(f"the goal is nested deeper than {_MOST_DEPTH} levels")
        elif token == ")":
            if len(stack) == 1:
                # The formula is the end of a problem, whose own parentheses close after it.
                break
            inner = stack.pop()
            stack[-1].append(inner)
        else:
            stack[-1].append(token)
    if len(stack) != 1 or len(stack[0]) != 1:
        raise GoalError("the goal is not one formula in parentheses")
    return stack[0][0]


class _Reader:
    """Collects the conditions of a formula."""

    def __init__(self) -> None:
        self.conditions: list[Condition] = []
        self.differences: list[tuple[str, str]] = []
        self.absences: list[Condition] = []
        self._numbers = count()

    def collect(self, formula: Expression, names: Mapping[str, str]) -> None:
        """Add the conditions of a formula. `names` has the unique name of each variable in its scope."""
        match formula:
            case ["and", *parts]:
                for each in parts:
                    self.collect(each, names)
            case ["exists", [*variables], inner]:
                self.collect(inner, {**names, **self._name(variables)})
            case ["not", ["=", str(one), str(other)]]:
                self.differences.append((_resolve(one, names), _resolve(other, names)))
            case ["forall", [*variables], ["not", [str(_), *_] as inner]]:
                self.absences.append(_read_condition(inner, {**names, **self._name(variables)}))
            case _:
                self.conditions.append(_read_condition(formula, names))

    def _name(self, variables: list[Expression]) -> dict[str, str]:
        """Return a unique name for each variable in a list, which may also hold types."""
        texts = [each for each in variables if isinstance(each, str) and each.startswith("?")]
        return {each: f"{each}#{next(self._numbers)}" for each in texts}


def _read_condition(formula: Expression, names: Mapping[str, str]) -> Condition:
    match formula:
        case [str(predicate), *arguments] if predicate in _WORDS or not _PREDICATE.fullmatch(predicate):
            raise GoalError(f"`{predicate[:50]}` is not supported here")
        case [str(predicate), *arguments]:
            return Condition(predicate, tuple(_resolve(each, names) for each in arguments))
    raise GoalError(f"the goal contains {_show(formula)}, which is not a condition")


def _resolve(name: Expression, names: Mapping[str, str]) -> str:
    if not isinstance(name, str):
        raise GoalError(f"the goal contains {_show(name)} where an object is needed")
    if name.startswith("?") and name not in names:
        raise GoalError(f"the goal uses the variable {name[:50]} outside of its `exists`")
    return names.get(name, name)


def _show(formula: Expression) -> str:
    return f"`{formula[:50]}`" if isinstance(formula, str) else f"a list of {len(formula)}"
