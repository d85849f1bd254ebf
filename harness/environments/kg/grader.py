"""Grade the variable that an agent submits, by the F1 of its answers against the gold answers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass

from harness.core.text import escape_text, shorten
from harness.core.types import Phase, Status, Submission, Verdict
from harness.environments.base import HostEnvironment
from harness.environments.kg.environment import KnowledgeAnswer, run_blocking
from harness.environments.kg.graph import (
    ARGMAX,
    ARGMIN,
    COUNT,
    ENTITY_ID,
    FUNCTIONS,
    GET_NEIGHBORS,
    INTERSECTION,
    MAX_STEPS,
    Action,
    Count,
    Entity,
    Extreme,
    Intersection,
    Neighbors,
    Program,
    count_steps,
    find_entities,
    parse_action,
)
from harness.environments.kg.session import ActionError, Session
from harness.environments.spec import StateGrader

_SHOWN = 5
_SHOWN_CHARACTERS = 60

_VARIABLE = re.compile(r"#([0-9]{1,4})", re.ASCII)
# The largest count that a graph is made for.
MAX_COUNT = 5000


def f1_score(found: Set[str], expected: Set[str]) -> float:
    """Return the harmonic mean of precision and recall, from 0 to 1. It is 0 if nothing is right."""
    right = len(found & expected)
    return 2 * right / (len(found) + len(expected)) if right else 0.0


async def grade_answer(
    environment: HostEnvironment[Session], target: KnowledgeAnswer, submission: Submission
) -> Verdict:
    """Return the verdict on the variable that the submission names, such as `#3`.

    The score is the F1 of its answers, and it passes if they are the gold answers. Raises SandboxError if the
    endpoint fails. Source: the metrics F1 and EM of AgentBench's task `knowledgegraph`.
    """
    session = environment.state
    metrics = {"graph": describe_source(target)}
    variable = session.find_variable(submission.text)
    if variable is None:
        shown = escape_text(shorten(submission.text, _SHOWN_CHARACTERS))
        evidence = f"the answer is not a variable: '{shown}'; there are {len(session.variables)}"
        return Verdict(Status.FAILED, 0.0, metrics, evidence, Phase.EVALUATOR)
    try:
        found = await run_blocking(session.knowledge, lambda: session.knowledge.answers(variable.program))
    except ActionError as error:
        return Verdict(Status.FAILED, 0.0, metrics, escape_text(str(error)), Phase.EVALUATOR)
    given, expected = frozenset(found), frozenset(target.answers)
    score = f1_score(given, expected)
    if given == expected:
        return Verdict(Status.PASSED, score, metrics, phase=Phase.EVALUATOR)
    evidence = f"found {_show(given)}; expected {_show(expected)}"
    return Verdict(Status.FAILED, score, metrics, evidence, Phase.EVALUATOR)


def describe_source(target: KnowledgeAnswer) -> str:
    """Return the origin of a task's graph, for records and reports."""
    if target.source == "SPARQL endpoint":
        return target.source
    return f"{target.source}, not Freebase"


def _show(answers: Collection[str]) -> str:
    if not answers:
        return "nothing"
    shown = ", ".join(escape_text(shorten(answer, _SHOWN_CHARACTERS)) for answer in sorted(answers)[:_SHOWN])
    return shown if len(answers) <= _SHOWN else f"{shown} and {len(answers) - _SHOWN:,} more"


GRADERS = (StateGrader(KnowledgeAnswer, grade_answer),)


async def solve(environment: HostEnvironment[Session], target: KnowledgeAnswer) -> str:
    """Make the calls of the gold actions, and return the last variable as the answer.

    A call that the rules refuse is passed over, as upstream's replay of its gold does.
    """
    for text in target.actions:
        try:
            action = parse_action(text)
        except ValueError:
            continue
        names = FUNCTIONS[action.function]
        await environment.call(action.function, dict(zip(names, action.arguments, strict=True)))
    return f"#{len(environment.state.variables) - 1}" if environment.state.variables else "none"


class GoldError(Exception):
    """The gold of a record cannot be right. The message completes a sentence that begins with the task."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The gold actions, the program of their last variable, and the gold answers."""

    actions: tuple[Action, ...]
    program: Program
    answers: tuple[str, ...]


def read_plan(actions: Sequence[str], entities: Mapping[str, str], answers: Sequence[str]) -> Plan:
    """Return the plan of a record, without the rules on types and names. Raises GoldError."""
    variables: list[Program] = []

    def variable(text: str) -> Program:
        found = _VARIABLE.fullmatch(text)
        if found is None or int(found[1]) >= len(variables):
            raise GoldError(f"its reference uses {text}, which is not a variable by then")
        return variables[int(found[1])]

    read: list[Action] = []
    for text in actions:
        try:
            action = parse_action(text)
        except ValueError as error:
            raise GoldError(f"its reference has an action that cannot be read: {error}") from error
        read.append(action)
        first, second = (*action.arguments, "")[:2]
        if action.function == GET_NEIGHBORS:
            source = variable(first) if first.startswith("#") else Entity(entities.get(first, first))
            variables.append(Neighbors(source, second))
        elif action.function == INTERSECTION:
            variables.append(Intersection(variable(first), variable(second)))
        elif action.function in (ARGMAX, ARGMIN):
            variables.append(Extreme(variable(first), second, action.function == ARGMAX))
        elif action.function == COUNT:
            variables.append(Count(variable(first)))
        else:
            continue
        # Each intersection of a variable with itself doubles a program, and all that reads one is recursive.
        if count_steps(variables[-1]) > MAX_STEPS:
            raise GoldError(f"its reference has a variable of more than {MAX_STEPS} steps")
    if not variables:
        raise GoldError("its reference makes no variable")
    plan = Plan(tuple(read), variables[-1], tuple(dict.fromkeys(answers)))
    _require_sound(plan)
    return plan


def find_names(program: Entity | Program) -> tuple[frozenset[str], frozenset[str]]:
    """Return the relations and the attributes that a program uses."""
    match program:
        case Entity():
            return frozenset(), frozenset()
        case Neighbors(source, relation):
            relations, attributes = find_names(source)
            return relations | {relation}, attributes
        case Extreme(source, attribute):
            relations, attributes = find_names(source)
            return relations, attributes | {attribute}
        case Intersection(first, second):
            pairs = zip(find_names(first), find_names(second), strict=True)
            relations, attributes = (one | other for one, other in pairs)
            return relations, attributes
        case Count(source):
            return find_names(source)


def guess_ranges(program: Entity | Program, answer_type: str) -> dict[str, str]:
    """Return the type that each relation leads to, as the relations that follow it suggest.

    A relation such as `film.film.genre` begins with the type that it leads from.
    """
    match program:
        case Entity():
            return {}
        case Neighbors(source, relation):
            before = relation.rpartition(".")[0]
            return {**guess_ranges(source, before or answer_type), relation: answer_type}
        case Extreme(source, attribute):
            return guess_ranges(source, attribute.rpartition(".")[0] or answer_type)
        case Intersection(first, second):
            return {**guess_ranges(first, answer_type), **guess_ranges(second, answer_type)}
        case Count(source):
            return guess_ranges(source, answer_type)


def _require_sound(plan: Plan) -> None:
    """Raise GoldError for gold that no graph can make right."""
    named = find_entities(plan.program)
    for name in sorted(named):
        if ENTITY_ID.fullmatch(name) is None:
            raise GoldError(f"its reference starts at {name}, which is not an entity")
    if not plan.answers:
        raise GoldError("it has no gold answer")
    shared = sorted(named & set(plan.answers))
    if shared:
        raise GoldError(
            f"its gold answer {shared[0]} is an entity of its question, which no variable can hold"
        )
    if isinstance(plan.program, Count) and not (
        len(plan.answers) == 1
        and plan.answers[0].isascii()
        and plan.answers[0].isdecimal()
        # Python converts no more than 4,300 digits.
        and len(plan.answers[0]) <= len(str(MAX_COUNT))
        and int(plan.answers[0]) <= MAX_COUNT
    ):
        raise GoldError(f"its reference counts, and its gold answer is not a number up to {MAX_COUNT:,}")
