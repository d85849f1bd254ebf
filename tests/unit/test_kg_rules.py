"""The functions of the knowledge graph: their rules, their observations, and their bounds."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from case_checks import each_case
from hypothesis import given
from hypothesis import strategies as st

from harness.environments.kg.environment import run_blocking
from harness.environments.kg.graph import (
    MAX_STEPS,
    Action,
    Count,
    Entity,
    Extreme,
    Graph,
    Intersection,
    Literal,
    Neighbors,
    Ontology,
    Program,
    find_nodes,
    make_graph,
    parse_action,
    parse_node,
    parse_ranges,
    parse_triple,
    parse_vocabulary,
)
from harness.environments.kg.session import (
    MAX_LISTED,
    ActionError,
    NoVariableError,
    Rules,
    Session,
    UnknownVariableError,
)

TRIPLES: list[list[Any]] = [
    ["m.a", "film.actor.films", "m.one"],
    ["m.a", "film.actor.films", "m.two"],
    ["m.a", "film.actor.films", "m.b"],
    ["m.a", "film.actor.secret", "m.two"],
    ["m.b", "film.director.films", "m.two"],
    ["m.b", "film.director.films", "m.three"],
    ["m.b", "film.director.awards", "m.prize"],
    ["m.one", "film.film.length", 90],
    ["m.two", "film.film.length", 100],
    ["m.b", "film.film.length", 999],
    ["m.two", "film.film.genre", "m.drama"],
    ["m.two", "film.film.title", '"Zwei"@de'],
    ["m.two", "film.film.title", '"Two"@en-GB'],
]
GRAPH = make_graph(map(parse_triple, TRIPLES))
RANGES = {
    "film.actor.films": "film.film",
    "film.director.films": "film.film",
    "film.film.genre": "film.genre",
    "film.director.awards": "award.prize",
}
ONTOLOGY = Ontology(frozenset({*RANGES, "film.film.title"}), frozenset({"film.film.length"}), RANGES)
ENTITIES = {"Ada": "m.a", "Bea, the (second)": "m.b"}
A_FILMS, B_FILMS = "get_neighbors(m.a, film.actor.films)", "get_neighbors(m.b, film.director.films)"


def session(graph: Graph = GRAPH, **rules: Any) -> Session:
    return Session(graph, Rules(ENTITIES, ONTOLOGY, **rules))


def run(opened: Session, *actions: str) -> list[str]:
    """Return the observations, with that of a refused action in brackets."""
    observations = []
    for action in actions:
        try:
            observations.append(opened.run(parse_action(action)))
        except ActionError as error:
            observations.append(f"({error})")
    return observations


def answers(opened: Session, name: str) -> set[str]:
    variable = opened.find_variable(name)
    assert variable is not None
    return set(opened.knowledge.answers(variable.program))


def test_relations_are_those_of_the_vocabulary_in_order() -> None:
    assert run(session(), "get_relations(m.b)") == ["[film.director.awards, film.director.films]"]
    assert run(session(), "get_relations(Ada)") == ["[film.actor.films]"]


def test_a_name_may_hold_commas_and_parentheses() -> None:
    opened = session()
    assert run(opened, "get_neighbors(Bea, the (second), film.director.films)") == [
        "variable #0, which are instances of film.film"
    ]
    assert answers(opened, "#0") == {"m.two", "m.three"}


def test_an_entity_of_the_program_is_no_answer_but_may_lie_on_the_way() -> None:
    opened = session()
    run(opened, A_FILMS, B_FILMS, "intersection(#0, #1)", "get_neighbors(#0, film.director.films)")
    assert answers(opened, "#0") == {"m.one", "m.two", "m.b"}
    # Bea is named in the second variable, and so in their intersection.
    assert answers(opened, "#2") == {"m.two"}
    through_bea = Intersection(
        Neighbors(Neighbors(Entity("m.a"), "film.actor.films"), "film.director.films"),
        Neighbors(Entity("m.b"), "film.director.films"),
    )
    assert GRAPH.answers(through_bea) == {"m.two", "m.three"}


def test_the_relations_of_a_variable_are_those_of_any_answer() -> None:
    opened = session()
    run(opened, A_FILMS)
    assert run(opened, "get_relations(#0)") == [
        "[film.director.awards, film.director.films, film.film.genre, film.film.title]"
    ]


def test_literals_in_other_languages_are_no_answers() -> None:
    opened = session()
    run(opened, A_FILMS, "get_neighbors(#0, film.film.title)")
    assert answers(opened, "#1") == {"Two"}


def test_an_extreme_ignores_entities_of_the_question_and_keeps_all_ties() -> None:
    graph = make_graph(map(parse_triple, [*TRIPLES, ["m.one", "film.film.length", 100]]))
    opened = session(graph)
    run(opened, A_FILMS, B_FILMS, "intersection(#0, #0)")
    run(opened, "argmax(#0, film.film.length)", "argmin(#0, film.film.length)")
    assert answers(opened, "#3") == {"m.b"}
    assert answers(opened, "#4") == {"m.one"}
    films = Neighbors(Entity("m.a"), "film.actor.films")
    assert graph.answers(Extreme(Intersection(films, films), "film.film.length", largest=True)) == {"m.b"}


def test_the_largest_value_is_a_number_and_not_a_text() -> None:
    pairs = [["m.a", "r", f"m.{n}"] for n in (9, 10)] + [[f"m.{n}", "v", n] for n in (9, 10)]
    graph = make_graph(map(parse_triple, pairs))
    assert graph.answers(Extreme(Neighbors(Entity("m.a"), "r"), "v", largest=True)) == {"m.10"}


def test_texts_of_digits_are_in_the_order_of_texts() -> None:
    values = ['"9"', '"10"', '"1985"', '"1984-01-01"']
    triples = [
        triple
        for n, value in enumerate(values)
        for triple in (["m.a", "r", f"m.{n}"], [f"m.{n}", "v", value])
    ]
    graph = make_graph(map(parse_triple, triples))
    source = Neighbors(Entity("m.a"), "r")
    assert graph.answers(Extreme(source, "v", largest=True)) == {"m.0"}
    assert graph.answers(Extreme(source, "v", largest=False)) == {"m.1"}
    both = make_graph(map(parse_triple, [["m.a", "r", 5], ["m.a", "r", '"5"']]))
    assert len(find_nodes(both, source)) == 2


STEPS: list[list[Any]] = [
    ["m.a", "r", "m.one"],
    ["m.a", "r", "m.two"],
    ["m.a", "r", "m.b"],
    ["m.one", "v", 100],
    ["m.two", "v", 90],
    ["m.two", "v", 10],
    ["m.b", "v", 90],
    ["m.two", "s", "m.end"],
    ["m.b", "s", "m.side"],
    ["m.c", "r", "m.two"],
    ["m.c", "r", "m.b"],
    ["m.d", "r", "m.side"],
    ["m.d", "r", "m.end"],
]
STEPPED = make_graph(map(parse_triple, STEPS))
LARGEST = Extreme(Neighbors(Entity("m.a"), "r"), "v", largest=True)


@each_case(
    ("program", "expected"),
    [
        (LARGEST, {"m.one"}),
        # The node with the largest value of all has no such relation, or is not in the other variable.
        (Neighbors(LARGEST, "s"), {"m.end", "m.side"}),
        (Intersection(LARGEST, Neighbors(Entity("m.c"), "r")), {"m.two", "m.b"}),
        (Intersection(Neighbors(Entity("m.d"), "r"), Neighbors(LARGEST, "s")), {"m.end", "m.side"}),
        (Intersection(LARGEST, Neighbors(Entity("m.d"), "r")), set()),
        # Two extremes that meet have their best values alone.
        (Intersection(LARGEST, Extreme(Neighbors(Entity("m.c"), "r"), "v", largest=True)), set()),
        (Extreme(LARGEST, "v", largest=False), {"m.one"}),
        (Neighbors(Neighbors(LARGEST, "s"), "s"), set()),
    ],
)
def test_the_best_value_is_that_of_a_node_which_later_steps_keep(program: Any, expected: set[str]) -> None:
    assert STEPPED.answers(program) == expected


def test_a_named_entity_with_the_best_value_of_the_others_is_an_answer() -> None:
    program = Extreme(
        Intersection(Neighbors(Entity("m.a"), "r"), Neighbors(Entity("m.c"), "r")), "v", largest=True
    )
    named = [*STEPS, ["m.a", "r", "m.a"], ["m.c", "r", "m.a"]]
    for value, answers in ((90, {"m.a", "m.two", "m.b"}), (95, {"m.two", "m.b"})):
        graph = make_graph(map(parse_triple, [*named, ["m.a", "v", value]]))
        assert graph.answers(program) == answers


def test_an_intersection_of_counts_counts_what_both_have() -> None:
    opened = session()
    run(opened, A_FILMS, B_FILMS, "count(#0)", "count(#1)", "intersection(#2, #3)", "count(#4)")
    assert [answers(opened, name) for name in ("#2", "#3", "#4", "#5")] == [{"3"}, {"2"}, {"1"}, {"1"}]


def test_a_count_is_a_number_and_its_own_count() -> None:
    opened = session()
    observed = run(opened, A_FILMS, "count(#0)", "count(#1)")
    assert observed[1] == "variable #1, which is a number"
    assert answers(opened, "#1") == answers(opened, "#2") == {"3"}


@each_case(
    "action",
    [
        "get_neighbors(m.a, film.director.films)",
        "get_neighbors(m.a, film.actor.secret)",
        "get_relations(common.topic)",
        "get_relations(g.x)",
        "get_relations(nobody)",
        "intersection(m.a, m.b)",
        "count(Ada)",
        "get_attributes(m.a)",
    ],
)
def test_an_action_against_the_rules_makes_no_variable(action: str) -> None:
    opened = session(strict=True)
    with pytest.raises(ActionError):
        opened.run(parse_action(action))
    assert opened.variables == []


@each_case("action", ["intersection(#0, m.b)", "count(Ada)", "argmax(m.a, film.film.length)"])
def test_an_entity_is_no_variable(action: str) -> None:
    opened = session()
    run(opened, A_FILMS)
    with pytest.raises(NoVariableError, match="is not a variable; the variables are #0 to #0"):
        opened.run(parse_action(action))


@each_case("name", ["#1", "#-1", "#", "# 0", "#٠", "#999999999", "##0", "#0x"])
def test_a_variable_that_does_not_exist_is_unknown(name: str) -> None:
    opened = session()
    run(opened, A_FILMS)
    with pytest.raises(UnknownVariableError):
        opened.run(Action("count", (name,)))
    assert opened.find_variable(name) is None


def test_types_and_ids_bind_only_under_upstreams_own_rules() -> None:
    further = ("get_neighbors(#0, film.film.genre)", "intersection(#0, #1)", "get_relations(g.11)")
    actions = (A_FILMS, *further)
    assert run(session(), *actions)[2:] == ["variable #2, which are instances of film.film", "[]"]
    refused = run(session(strict=True), *actions)[2:]
    assert refused[0].startswith("(the variables differ in their type")
    assert "'g.11' is neither" in refused[1]


def test_version_0_2_wants_a_list_before_a_name_of_it_is_used() -> None:
    opened = session(asked_before=True)
    follow = "get_neighbors(Ada, film.actor.films)"
    assert run(opened, follow)[0].startswith("(")
    assert run(opened, "get_relations(m.a)", follow)[1] == "variable #0, which are instances of film.film"
    assert run(opened, "argmax(#0, film.film.length)")[0].startswith("(")
    assert run(opened, "get_attributes(#0)", "argmax(#0, film.film.length)")[1].startswith("variable #1")


def test_a_made_graph_is_entered_at_entities_of_the_question_alone() -> None:
    opened = session(starts=frozenset({"m.a"}))
    assert run(opened, "get_relations(m.a)") == ["[film.actor.films]"]
    assert run(opened, "get_relations(m.two)")[0].startswith("('m.two' is neither")


def test_a_program_stops_growing() -> None:
    opened = session()
    run(opened, A_FILMS)
    observed = [run(opened, f"intersection(#{place}, #{place})")[0] for place in range(12)]
    assert any(f"more than {MAX_STEPS} steps" in each for each in observed)
    assert len(opened.variables) < 8


def test_a_long_list_is_cut() -> None:
    names = [f"a.b.c{number:04}" for number in range(MAX_LISTED + 5)]
    graph = make_graph(("m.a", name, "m.x") for name in names)
    opened = Session(graph, Rules({}, Ontology(frozenset(names))))
    listed = opened.run(parse_action("get_relations(m.a)"))
    assert listed.endswith("and 5 more that are not shown]")
    # A name that was not shown may still be used.
    assert opened.run(parse_action(f"get_neighbors(m.a, {names[-1]})")).startswith("variable #0")


@given(st.text(max_size=200), st.text(max_size=60), st.sampled_from(["get_relations", "get_neighbors"]))
def test_a_text_that_names_nothing_gets_a_short_error(one: str, other: str, function: str) -> None:
    opened = session(starts=frozenset({"m.a"}))
    arguments = (f"x{one}", other) if function == "get_neighbors" else (f"x{one}",)
    with pytest.raises(ActionError) as refused:
        opened.run(Action(function, arguments))
    assert len(str(refused.value)) < 300
    assert opened.variables == []


NODES = st.sampled_from("abcdef")
EDGES = st.lists(st.tuples(NODES, st.sampled_from("rs"), NODES), max_size=20)


@given(EDGES, st.sampled_from("rs"), st.sampled_from("rs"))
def test_an_intersection_holds_what_both_hold_but_for_named_entities(
    edges: list[tuple[str, str, str]], one: str, other: str
) -> None:
    graph = make_graph(edges)
    first, second = Neighbors(Entity("a"), one), Neighbors(Neighbors(Entity("b"), other), one)
    found = find_nodes(graph, Intersection(first, second))
    assert found == (find_nodes(graph, first) & find_nodes(graph, second)) - {"a", "b"}
    number = len(find_nodes(graph, first))
    assert find_nodes(graph, Count(first)) == {Literal(str(number), number=float(number))}


@each_case(
    ("written", "node"),
    [
        ("m.x", "m.x"),
        (7, Literal("7", number=7.0)),
        ('"Berlin"', Literal("Berlin")),
        ('"Berlin"@de', Literal("Berlin", "de")),
        ('"1985-06-01"^^xsd:date', Literal("1985-06-01")),
        ('"a "quoted" word"', Literal('a "quoted" word')),
        ('"open', Literal("open")),
        ('"12.5"', Literal("12.5")),
        ('"12.5"^^xsd:decimal', Literal("12.5", number=12.5)),
        ('"12"^^<http://www.w3.org/2001/XMLSchema#int>', Literal("12", number=12.0)),
        ('"twelve"^^xsd:int', Literal("twelve")),
    ],
)
def test_the_object_of_a_triple_is_an_entity_or_a_literal(written: str | int, node: str | Literal) -> None:
    assert parse_node(written) == node


@each_case("value", [["a", "b"], "abc", ["a", "b", None], ["a", "b", True], [1, "b", "c"], {}])
def test_a_broken_triple_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="triple"):
        parse_triple(value)


@each_case("text", ["", "get_relations", "nothing(a)", "get_neighbors(a)", "count()", "a(b)c"])
def test_a_text_that_is_no_action_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"action|function|write"):
        parse_action(text)


def test_the_ontology_is_read_as_upstream_reads_it() -> None:
    # One of upstream's lines is two lines in one, and its third word is the range.
    assert parse_ranges("a b c\n\nd e f g h i\n") == {"b": "c", "e": "f"}
    with pytest.raises(ValueError, match="line 1"):
        parse_ranges("a b")
    with pytest.raises(ValueError, match="attributes"):
        parse_vocabulary({"relations": []})


async def test_work_on_a_large_graph_leaves_the_event_loop() -> None:
    many = tuple(f"m.{number}" for number in range(5000))

    async def find_thread(graph: Graph) -> int:
        threads: list[int] = []

        def work() -> str:
            threads.append(threading.get_ident())
            return ""

        await run_blocking(graph, work)
        return threads[0]

    # One subject may have all triples.
    assert await find_thread(Graph({"m.a": {"a.b.c": many}})) != threading.get_ident()
    assert await find_thread(Graph({"m.a": {"a.b.c": many[:9]}})) == threading.get_ident()


def test_counts_that_meet_superlatives_take_time_by_their_number() -> None:
    size, found = Literal("2", number=2.0), Literal("1", number=1.0)
    graph = make_graph([("m.a", "a.b.c", "m.b"), ("m.b", "a.b.size", size), ("m.b", "a.b.d", found)])
    largest = Neighbors(Extreme(Neighbors(Entity("m.a"), "a.b.c"), "a.b.size", True), "a.b.d")
    program: Program = Count(largest)
    # A search that goes through each side again takes hours.
    for _ in range(40):
        program = Count(Intersection(largest, program))
    assert find_nodes(graph, program) == {found}
