"""Records of the knowledge graph: files, ids, options, the hub's rows, and verdicts."""

from __future__ import annotations

import gzip
import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from case_checks import each_case
from contexts import no_context

from harness.benchmarks import Benchmark, load_benchmark
from harness.benchmarks.category import CategoryOptions
from harness.benchmarks.data import source
from harness.benchmarks.data.rows import Row
from harness.core.errors import DataError, UsageError
from harness.core.types import Reference, Status, Submission, Task
from harness.environments.base import HostEnvironment
from harness.environments.kg.category import CATEGORY, KnowledgeOptions, read_record
from harness.environments.kg.environment import TOOLS, KnowledgeAnswer, open_environment
from harness.environments.kg.grader import f1_score, grade_answer
from harness.environments.kg.graph import FUNCTIONS, Literal
from harness.environments.kg.session import Session
from harness.runs.config import RunConfig
from harness.runs.selection import select

BUNDLED = Path(source.__file__).parent / "bundled" / "agentbench" / "knowledgegraph"
RECORD: dict[str, Any] = {
    "question": "Who made the blue boat?",
    "qid": "1",
    "source": "ours",
    "entities": {"blue boat": "m.boat"},
    "s_expression": "(AND harbour.maker (JOIN (R harbour.boat.made_by) m.boat))",
    "actions": ["get_relations(m.boat)", "get_neighbors(m.boat,harbour.boat.made_by)"],
    "answer": [{"answer_type": "Entity", "answer_argument": "m.maker", "entity_name": "Ada"}],
}
TRIPLES = [["m.boat", "harbour.boat.made_by", "m.maker"], ["m.boat", "harbour.boat.length", 12]]


def write(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


def write_dev(folder: Path) -> Path:
    """Write the record alone into a folder of upstream's layout, and return the folder of the category."""
    return write(folder / "knowledgegraph" / "dev.json", [RECORD]).parent


def load(path: Path, **options: Any) -> Benchmark:
    return load_benchmark("agentbench", data=str(path), kg=options)


def target_of(benchmark: Benchmark) -> KnowledgeAnswer:
    (reference,) = benchmark.references.values()
    assert isinstance(reference.target, KnowledgeAnswer)
    return reference.target


def read_row(values: Mapping[str, Any]) -> tuple[Task, Reference]:
    return CATEGORY.read(Row(values, "hub/data.jsonl", line=4), CategoryOptions("fc", KnowledgeOptions()))


def read(values: Mapping[str, Any]) -> KnowledgeAnswer:
    _task, reference = read_row(values)
    assert isinstance(reference.target, KnowledgeAnswer)
    return reference.target


def test_a_folder_gives_ids_by_file_and_place(tmp_path: Path) -> None:
    write(tmp_path / "knowledgegraph" / "std.json", [RECORD, RECORD])
    write(tmp_path / "knowledgegraph" / "train.json", [RECORD])
    write(tmp_path / "knowledgegraph" / "notes.json", [{"nothing": 1}])
    loaded = load(tmp_path)
    assert [task.id for task in loaded.tasks] == ["kg/std/0", "kg/std/1", "kg/train/0"]
    assert {task.turns for task in loaded.tasks} == {15}
    assert loaded.tasks[0].labels == {"graph": "made for the task, not Freebase", "split": "std"}


def test_a_single_file_is_read(tmp_path: Path) -> None:
    assert [task.id for task in load(write(tmp_path / "kg_rl.json", [RECORD])).tasks] == ["kg/kg_rl/0"]


@each_case(("task_id", "is_warned"), [("kg/dev/0", True), ("os/sample/answers/0", False)])
def test_only_a_run_with_tasks_of_the_category_is_warned_that_its_graphs_are_not_freebase(
    tmp_path: Path, task_id: str, is_warned: bool
) -> None:
    shutil.copytree(BUNDLED.parent / "os_interaction", tmp_path / "os_interaction")
    write(tmp_path / "knowledgegraph" / "dev.json", [RECORD])
    config = RunConfig(benchmark="agentbench", data=str(tmp_path), task_ids=[task_id])
    notes: list[str] = []
    select(config, notify=notes.append)
    assert any("not Freebase" in note for note in notes) is is_warned


def test_the_hubs_rows_hold_nulls_and_json() -> None:
    values = {
        **RECORD,
        "entities": {**RECORD["entities"], "another record's": None},
        "actions": json.dumps(RECORD["actions"]),
        "answer": json.dumps(RECORD["answer"]),
        "table": None,
    }
    assert CATEGORY.owns(Row(values, "x"))
    assert read(values).entities == {"blue boat": "m.boat"}
    assert read(values).graph == read({**RECORD, "table": None}).graph


@each_case(
    ("changed", "message"),
    [
        ({"entities": ["m.boat"]}, "needs an object"),
        ({"entities": {"a": 1}}, "needs ids"),
        ({"actions": None}, "needs a list of strings"),
        ({"actions": "get_relations("}, "needs JSON"),
        ({"answer": None}, "needs a list"),
        ({"answer": [{}]}, "needs a text or a number"),
        ({"question": None}, "needs a string"),
    ],
)
def test_a_broken_record_is_named_with_its_line(changed: Mapping[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_record(Row({**RECORD, **changed}, "data.jsonl", line=3))
    assert "data.jsonl:3" in str(caught.value)


def test_gold_that_cannot_be_right_is_quarantined_by_its_record(tmp_path: Path) -> None:
    wrong = {**RECORD, "answer": [{"answer_argument": "m.boat"}]}
    loaded = load(write(tmp_path / "knowledgegraph" / "train.json", [RECORD, wrong]))
    assert list(loaded.quarantined) == ["kg/train/1"]
    assert "entity of its question" in loaded.quarantined["kg/train/1"]


@each_case(
    ("actions", "answer"),
    [
        (["get_neighbors(m.boat,harbour.boat.built)"], "1985-06-01"),
        (["get_neighbors(m.boat,harbour.boat.built)", "get_neighbors(#0,a.b.c)"], "12.5"),
        (["get_neighbors(g.boat,harbour.boat.made_by)"], "g.x"),
    ],
)
def test_gold_may_be_a_value_or_an_id_of_another_kind(actions: list[str], answer: str) -> None:
    target = read({**RECORD, "actions": actions, "answer": [{"answer_argument": answer}]})
    assert target.fault is None


def test_a_count_of_nothing_is_quarantined_because_no_relation_leads_there() -> None:
    actions = [*RECORD["actions"], "count(#0)"]
    target = read({**RECORD, "actions": actions, "answer": [{"answer_argument": "0"}]})
    assert target.fault is not None


def test_a_graph_file_has_a_graph_for_each_task(tmp_path: Path) -> None:
    data = write_dev(tmp_path)
    graphs = tmp_path / "graphs.jsonl"
    graphs.write_text(json.dumps({"task_id": "kg/dev/0", "triples": TRIPLES}))
    target = target_of(load(data, graph=str(graphs)))
    assert target.source == "graph file"
    assert target.graph is not None
    assert target.graph.relations_of is not None
    assert set(target.graph.edges["m.boat"]) == {"harbour.boat.made_by", "harbour.boat.length"}
    assert target.ontology.attributes == {"harbour.boat.length"}
    graphs.write_text(json.dumps({"task_id": "kg/dev/7", "triples": TRIPLES}))
    assert load(data, graph=str(graphs)).quarantined == {
        "kg/dev/0": "the file graphs.jsonl has no graph of it"
    }


@each_case("name", ["all.nt", "all.nt.gz", "all.json"])
def test_a_graph_file_may_be_one_graph_for_all_tasks(tmp_path: Path, name: str) -> None:
    data = write_dev(tmp_path)
    path = tmp_path / name
    space = "http://rdf.freebase.com/ns/"
    lines = (
        "# a comment\n\n"
        f"<{space}m.boat> <{space}harbour.boat.made_by> <{space}m.maker> .\n"
        f'<{space}m.boat> <{space}harbour.boat.length> "12"^^<http://www.w3.org/2001/XMLSchema#int> .\n'
        f'<{space}m.maker> <{space}type.object.name> "A\\u00e9 \\"x\\""@en .\n'
    )
    if name.endswith(".json"):
        write(path, {"triples": TRIPLES})
    else:
        path.write_bytes(gzip.compress(lines.encode()) if name.endswith(".gz") else lines.encode())
    graph = target_of(load(data, graph=str(path))).graph
    assert graph is not None
    assert graph.edges["m.boat"]["harbour.boat.made_by"] == ("m.maker",)
    if not name.endswith(".json"):
        assert [getattr(node, "text", "") for node in graph.edges["m.maker"]["type.object.name"]] == [
            'Aé "x"'
        ]


@each_case("number", ["9" * 400, "NaN"])
def test_a_number_that_no_order_has_a_place_for_is_read(tmp_path: Path, number: str) -> None:
    data = write_dev(tmp_path)
    (tmp_path / "g.jsonl").write_text(f'{{"triples": [["m.a", "a.b.c", {number}]]}}')
    graph = target_of(load(data, graph=str(tmp_path / "g.jsonl"))).graph
    assert graph is not None
    (node,) = graph.edges["m.a"]["a.b.c"]
    assert isinstance(node, Literal)
    assert node.number in (None, math.inf)


@each_case(
    ("content", "name", "message"),
    [
        ('{"triples": [["a", "b"]]}', "g.jsonl", "a triple is a list"),
        ('{"triples": 1}', "g.jsonl", "needs a list of triples"),
        ('{"task_id": "t", "triples": []}\n{"task_id": "t", "triples": []}', "g.jsonl", "a second time"),
        ("<a> <b> c .", "g.nt", "not a triple of N-Triples"),
        ("x", "g.csv", "not a known graph file"),
    ],
)
def test_a_broken_graph_file_is_refused(tmp_path: Path, content: str, name: str, message: str) -> None:
    data = write_dev(tmp_path)
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        load(data, graph=str(tmp_path / name))


@each_case(
    ("options", "message"),
    [
        ({"graph": "g.jsonl", "sparql_url": "http://x"}, "both set"),
        ({"sparql_url": "file:///etc/passwd"}, "begins with http"),
        ({"sparql_url": "http://127.0.0.1:1/sparql"}, "needs the ontology"),
        ({"colour": "blue"}, "colour"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    tmp_path: Path, options: Mapping[str, Any], message: str
) -> None:
    data = write_dev(tmp_path)
    with pytest.raises(UsageError, match=message):
        load(data, **options)


@each_case("option", ["graph", "ontology"])
def test_a_missing_file_of_an_option_is_named(tmp_path: Path, option: str) -> None:
    data = write_dev(tmp_path)
    for path in (data, data / "dev.json"):
        with pytest.raises(UsageError, match=rf"kg\.{option} is .*absent\.jsonl"):
            load(path, **{option: str(tmp_path / "absent.jsonl")})


def test_the_ontology_is_found_in_the_folder_of_the_data(tmp_path: Path) -> None:
    folder = write_dev(tmp_path)
    ontology = folder / "ontology"
    write(ontology / "vocab.json", {"relations": ["harbour.boat.made_by"], "attributes": []})
    (ontology / "fb_roles").write_text("harbour.boat harbour.boat.made_by harbour.shipwright\n")
    given = target_of(load(folder))
    assert given.ontology.range_of("harbour.boat.made_by") == "harbour.shipwright"
    # Without the folder, the type is that of the gold expression.
    assert read(RECORD).ontology.range_of("harbour.boat.made_by") == "harbour.maker"


def test_an_endpoint_is_freebase_and_gets_upstreams_names(tmp_path: Path) -> None:
    folder = write_dev(tmp_path)
    write(folder / "ontology" / "vocab.json", {"relations": [], "attributes": []})
    (folder / "ontology" / "fb_roles").write_text("")
    loaded = load(folder, sparql_url="http://127.0.0.1:1/sparql")
    assert "It is Freebase." in loaded.tasks[0].prompt
    assert loaded.tasks[0].labels == {"graph": "SPARQL endpoint", "split": "dev"}
    # Lenient rules add the names that the gold uses.
    assert target_of(loaded).ontology.relations == {"harbour.boat.made_by"}
    strict = target_of(load(folder, sparql_url="http://127.0.0.1:1/sparql", strict=True))
    assert strict.ontology.relations == frozenset()


def test_the_bundled_sample_uses_every_function() -> None:
    records = json.loads((BUNDLED / "dev.json").read_text())
    used = {action.partition("(")[0] for record in records for action in record["actions"]}
    assert used == set(FUNCTIONS) == {tool.name for tool in TOOLS}
    # A number must not be the answer of many questions.
    counts = [
        record["answer"][0]["answer_argument"] for record in records if "count" in str(record["actions"][-1])
    ]
    assert len(counts) == 4
    assert "1" not in counts


async def test_an_agent_is_graded_by_the_variable_that_it_names() -> None:
    target = read(RECORD)
    task, _reference = read_row(RECORD)
    async with open_environment(task, no_context(target=target)) as opened:
        environment = cast("HostEnvironment[Session]", opened)
        listed = await environment.call("get_relations", {"variable": "blue boat"})
        assert "harbour.boat.made_by" in listed.text
        for relation in sorted(target.ontology.relations):
            await environment.call("get_neighbors", {"variable": "m.boat", "relation": relation})
        right = [
            number
            for number, variable in enumerate(environment.state.variables)
            if environment.state.knowledge.answers(variable.program) == {"m.maker"}
        ]
        assert len(right) == 1
        for text, status in (
            (f"#{right[0]}", Status.PASSED),
            (f" #{right[0]}\n", Status.PASSED),
            (f"{right[0]}", Status.FAILED),
            ("m.maker", Status.FAILED),
            ("Ada", Status.FAILED),
            ("#99", Status.FAILED),
            ("", Status.FAILED),
        ):
            verdict = await grade_answer(environment, target, Submission(text, agent_output=text))
            assert verdict.status is status, text
            assert verdict.score == float(status is Status.PASSED)
            assert verdict.metrics == {"graph": "made for the task, not Freebase"}


async def test_a_long_argument_reaches_no_graph() -> None:
    task, _reference = read_row(RECORD)
    async with open_environment(task, no_context(target=read(RECORD))) as environment:
        refused = await environment.call("get_relations", {"variable": "m" * 1001})
        assert refused.refused
        assert not environment.agent_acted


@each_case(
    ("found", "expected", "score"),
    [("ab", "ab", 1.0), ("a", "ab", 2 / 3), ("abcd", "a", 0.4), ("x", "a", 0.0), ("", "a", 0.0)],
)
def test_the_score_is_the_harmonic_mean_of_precision_and_recall(
    found: str, expected: str, score: float
) -> None:
    assert f1_score(set(found), set(expected)) == pytest.approx(score)
