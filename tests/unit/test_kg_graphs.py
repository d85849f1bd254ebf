"""The graphs that are made for tasks: gold that works, and decoys that an agent cannot tell from it."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from case_checks import each_case
from effort import THOROUGH
from hypothesis import given
from hypothesis import strategies as st
from kg_questions import ONTOLOGY, SCHEMA, plan_of
from samples.questions import make_questions, write_questions

from harness.benchmarks import Benchmark, load_benchmark
from harness.environments.kg.environment import KnowledgeAnswer, open_session
from harness.environments.kg.generator import _WORDS, make_schema, make_task_graph
from harness.environments.kg.grader import GoldError, read_plan
from harness.environments.kg.graph import Action, Entity, Graph, Ontology, Program, parse_action
from harness.environments.kg.session import ActionError, Session

TURNS = 15


def generated(number: int, seed: int, folder: Path) -> Benchmark:
    """Return a benchmark of made questions, with the ontology of their domains."""
    root = folder / "knowledgegraph"
    write_questions(root, "std", number, seed)
    return load_benchmark("agentbench", data=str(root))


def targets_of(benchmark: Benchmark) -> Iterator[KnowledgeAnswer]:
    for reference in benchmark.references.values():
        assert isinstance(reference.target, KnowledgeAnswer)
        if reference.target.fault is None:
            yield reference.target


def replay(target: KnowledgeAnswer) -> tuple[Session, list[str]]:
    """Return the session after the gold actions, and the messages of those that were refused."""
    session, refused = open_session(target), []
    for text in target.actions:
        try:
            session.run(parse_action(text))
        except ActionError as error:
            refused.append(f"{text}: {error}")
    return session, refused


@each_case("place", range(10))
def test_the_gold_actions_find_the_gold_answers(place: int) -> None:
    plan = plan_of(make_questions(10, 1)[place])
    graph, ontology = make_task_graph(plan, SCHEMA, "seed")
    assert graph.answers(plan.program) == set(plan.answers)
    assert ontology.relations <= ONTOLOGY.relations
    assert ontology.ranges.items() <= ONTOLOGY.ranges.items()


def test_one_seed_makes_one_graph() -> None:
    plan = plan_of(make_questions(1, 1)[0])
    first, second, third = (make_task_graph(plan, SCHEMA, seed)[0] for seed in ("a", "a", "b"))
    assert first == second != third


def entities_of(program: Entity | Program) -> Iterator[str]:
    if isinstance(program, Entity):
        yield program.id
    else:
        for field in ("source", "first", "second"):
            if hasattr(program, field):
                yield from entities_of(getattr(program, field))


@each_case("with_ontology", [True, False])
def test_decoys_surround_the_gold_and_lead_further(with_ontology: bool) -> None:
    schema = SCHEMA if with_ontology else make_schema(Ontology(), is_complete=False)
    for record in make_questions(10, 2):
        plan = plan_of(record)
        graph, _ = make_task_graph(plan, schema, record["qid"])
        for entity in entities_of(plan.program):
            relations = graph.edges[entity]
            assert len(relations) >= 4
            deeper = [
                name for name, nodes in relations.items() if any(leads_on(graph, node) for node in nodes)
            ]
            assert len(deeper) >= 4


def leads_on(graph: Graph, node: object) -> bool:
    return isinstance(node, str) and node in graph.edges


def test_a_shadow_of_the_path_leads_to_the_same_type() -> None:
    record = next(each for each in make_questions(10, 3) if each["actions"][-1].startswith("intersection"))
    plan = plan_of(record)
    graph, ontology = make_task_graph(plan, SCHEMA, "seed")
    gold = parse_action(record["actions"][1]).arguments
    same = [
        name
        for name in graph.edges[gold[0]]
        if ontology.ranges.get(name) == ontology.ranges[gold[1]] and name != gold[1]
    ]
    assert same


@each_case(
    ("actions", "answers", "reason"),
    [
        (["get_neighbors(common.topic,a.b.c)"], ["m.x"], "starts at common.topic"),
        (["get_neighbors(m.a,a.b.c)"], ["m.a"], "is an entity of its question"),
        (["get_neighbors(m.a,a.b.c)"], [], "no gold answer"),
        (["get_relations(m.a)"], ["m.x"], "makes no variable"),
        (["get_neighbors(#0,a.b.c)"], ["m.x"], "not a variable by then"),
        (["get_neighbors(m.a,a.b.c)", "count(#0)"], ["many"], "is not a number"),
        (["get_neighbors(m.a,a.b.c)", "count(#0)"], ["99999"], "is not a number"),
        (["get_neighbors(m.a,a.b.c)", "count(#0)"], ["9" * 5000], "is not a number"),
        (["fly(m.a)"], ["m.x"], "cannot be read"),
        # Each of these doubles the program.
        (["get_neighbors(m.a,a.b.c)", *(f"intersection(#{n},#{n})" for n in range(60))], ["m.x"], "steps"),
        (["get_neighbors(m.a,a.b.c)", *(f"count(#{n})" for n in range(5000))], ["m.x"], "steps"),
    ],
)
def test_gold_that_no_graph_makes_right_is_named(actions: list[str], answers: list[str], reason: str) -> None:
    with pytest.raises(GoldError, match=reason):
        read_plan(actions, {}, answers)


@given(st.integers(0, 10_000), st.booleans())
def test_any_question_gets_a_graph(seed: int, with_ontology: bool) -> None:
    plan = plan_of(make_questions(5, seed)[seed % 5])
    graph, _ = make_task_graph(
        plan, SCHEMA if with_ontology else make_schema(Ontology(), is_complete=False), str(seed)
    )
    assert graph.answers(plan.program) == set(plan.answers)


def test_a_relation_that_both_sides_use_is_no_obstacle() -> None:
    actions = ["get_neighbors(m.a,a.b.c)", "get_neighbors(m.a,a.b.c)", "intersection(#0,#1)"]
    plan = read_plan(actions, {}, ["m.x", "m.y"])
    graph, _ = make_task_graph(plan, SCHEMA, "seed")
    assert graph.answers(plan.program) == {"m.x", "m.y"}


# A blind agent draws every action without a look at the question.


class Blind:
    """An agent that draws legal actions. It sees observations, and neither the question nor the gold."""

    def __init__(self, target: KnowledgeAnswer, seed: str) -> None:
        self.session = open_session(target)
        self.entities = sorted(target.entities)
        self.draw = random.Random(seed)
        self.left = TURNS - 1
        self.relations: dict[str, list[str]] = {}

    @property
    def names(self) -> list[str]:
        return [f"#{number}" for number in range(len(self.session.variables))]

    def list_relations(self, subject: str) -> list[str]:
        if subject not in self.relations:
            listed = self.act("get_relations", subject) or "[]"
            self.relations[subject] = [name for name in listed.strip("[]").split(", ") if name]
        return self.relations[subject]

    def follow(self, subject: str) -> str | None:
        """Follow a relation of a subject, and return the new variable."""
        names = self.list_relations(subject)
        if names and self.act("get_neighbors", subject, self.draw.choice(names)) is not None:
            return self.names[-1]
        return None

    def act(self, function: str, *arguments: str) -> str | None:
        if self.left == 0:
            return None
        self.left -= 1
        try:
            return self.session.run(Action(function, arguments))
        except ActionError:
            return None

    def pairs(self) -> list[tuple[str, str]]:
        types = [variable.type for variable in self.session.variables]
        return [
            (f"#{one}", f"#{other}")
            for one in range(len(types))
            for other in range(one)
            if types[one] == types[other]
        ]

    @property
    def is_right(self) -> bool:
        variables = self.session.variables
        return bool(variables) and self.session.knowledge.answers(variables[-1].program) == self.answers

    answers: frozenset[str] = frozenset()


def draw_actions(agent: Blind) -> None:
    """Draw among all legal actions."""
    for _ in range(agent.draw.randint(4, TURNS)):
        choices: list[Callable[[], object]] = [
            lambda: agent.list_relations(agent.draw.choice([*agent.entities, *agent.names]))
        ]
        choices.append(lambda: agent.follow(agent.draw.choice([*agent.entities, *agent.names])))
        if agent.pairs():
            choices.append(lambda: agent.act("intersection", *agent.draw.choice(agent.pairs())))
        if agent.names:
            choices.append(lambda: agent.act("count", agent.draw.choice(agent.names)))
        agent.draw.choice(choices)()


def walk_and_meet(agent: Blind) -> None:
    """Walk one or two relations from each entity, and intersect the ends."""
    ends = []
    for entity in agent.entities:
        end: str | None = entity
        for _ in range(agent.draw.choice((1, 2))):
            end = agent.follow(end) if end is not None else None
        if end is not None:
            ends.append(end)
    if len(ends) > 1:
        agent.act("intersection", *ends[:2])


def match_types(agent: Blind) -> None:
    """Explore until two variables have one type, and intersect them, as the gold does."""
    for _ in range(TURNS):
        if agent.pairs() and agent.draw.random() < 0.6:
            agent.act("intersection", *agent.draw.choice(agent.pairs()))
            return
        agent.follow(agent.draw.choice([*agent.entities, *agent.names]))


POLICIES = (draw_actions, walk_and_meet, match_types)


def blind_rate(
    targets: list[KnowledgeAnswer], policy: Callable[[Blind], None], tries: int, kind: type[Blind] = Blind
) -> float:
    right = 0
    for place, target in enumerate(targets):
        for number in range(tries):
            agent = kind(target, f"{place} {number}")
            agent.answers = frozenset(target.answers)
            if agent.entities:
                policy(agent)
            right += agent.is_right
    return right / (tries * len(targets))


def test_a_blind_agent_rarely_finds_the_answer_of_a_made_question(tmp_path: Path) -> None:
    targets = list(targets_of(generated(60, 4, tmp_path)))
    assert len(targets) == 60
    rates = [blind_rate(targets, policy, 10 if THOROUGH else 4) for policy in POLICIES]
    assert max(rates) <= 0.02, rates


class Knowing(Blind):
    """A blind agent that knows the words of which the generator makes the names of decoys."""

    def list_relations(self, subject: str) -> list[str]:
        names = super().list_relations(subject)
        return [name for name in names if not name.rpartition(".")[2].endswith(_WORDS)] or names


@each_case("name", ["knowledgegraph", "questions.json"], ids=["folder", "single file"])
def test_the_names_of_decoys_do_not_show_the_gold(name: str, tmp_path: Path) -> None:
    """Without an ontology, the names of decoys are invented."""
    path = tmp_path / name / "std.json" if name == "knowledgegraph" else tmp_path / name
    path.parent.mkdir(exist_ok=True)
    # Freebase has a hundred domains, so that most questions have theirs for themselves.
    questions = [
        json.loads(re.sub(r"\b(orchard|signal)\.", rf"\g<1>{place}.", json.dumps(record)))
        for place, record in enumerate(make_questions(40, 4))
    ]
    path.write_text(json.dumps(questions))
    data = path.parent if name == "knowledgegraph" else path
    targets = list(targets_of(load_benchmark("agentbench", data=str(data))))
    assert len(targets) == 40
    tries = 5 if THOROUGH else 2
    rates = [blind_rate(targets, policy, tries, Knowing) for policy in (walk_and_meet, match_types)]
    assert max(rates) <= 0.02, rates


@pytest.fixture(scope="module", params=[True, False], ids=["ontology", "no-ontology"])
def published(request: pytest.FixtureRequest, shared_data: Path) -> list[KnowledgeAnswer]:
    """Return the targets of upstream's sound questions, with and without its ontology."""
    worlds = shared_data / "agentbench" / "worlds" / "kg"
    options = {"ontology": str(worlds / "ontology")} if request.param else {}
    targets: list[KnowledgeAnswer] = []
    for data in (shared_data / "agentbench" / "knowledgegraph", worlds / "kg_rl_60.json"):
        targets.extend(targets_of(load_benchmark("agentbench", data=str(data), kg=options)))
    assert len(targets) == 78
    return targets


@pytest.mark.thorough
@each_case("policy", POLICIES)
def test_a_blind_agent_rarely_finds_the_answer_of_a_published_question(
    policy: Callable[[Blind], None], published: list[KnowledgeAnswer]
) -> None:
    assert blind_rate(published, policy, 5) <= 0.02


def test_the_oracle_solves_every_made_question(tmp_path: Path) -> None:
    for target in targets_of(generated(50, 5, tmp_path)):
        session, refused = replay(target)
        assert refused == []
        assert session.knowledge.answers(session.variables[-1].program) == set(target.answers)
