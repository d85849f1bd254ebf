"""AgentBench's questions on a knowledge graph (`knowledgegraph`): records, graphs, options and prompt.

Upstream's graph is Freebase, 53 GB in a database server. Without it, each task gets its own graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Annotated, Any

from pydantic import model_validator

from harness.benchmarks.benchmark import CategoryFacts
from harness.benchmarks.category import Category, CategoryFiles, CategoryOptions, solve_by_target
from harness.benchmarks.data.local import read_rows
from harness.benchmarks.data.rows import Row, describe, parse_data
from harness.benchmarks.options import OptionEffect, Options
from harness.core.errors import DataError, UsageError
from harness.core.inputs.files import MAX_TEXT_BYTES, hash_file
from harness.core.inputs.json_text import BrokenJSONError
from harness.core.secret_forms import describe_url_value, hide_url_secrets
from harness.core.types import Reference, Task
from harness.environments.kg.environment import KnowledgeAnswer, KnowledgeSetup, Source, open_session
from harness.environments.kg.files import (
    RANGES,
    VOCABULARY,
    GraphFile,
    derive_ontology,
    load_graph_file,
    load_ontology,
    parse_ontology,
)
from harness.environments.kg.generator import Schema, make_schema, make_task_graph
from harness.environments.kg.grader import (
    GoldError,
    Plan,
    describe_source,
    find_names,
    guess_ranges,
    read_plan,
    solve,
)
from harness.environments.kg.graph import ANY_TYPE, Graph, Ontology, find_entities
from harness.environments.kg.session import ActionError

NAME = "kg"
FOLDER = "knowledgegraph"
# The field of a row with the graph and the ontology that `rows` found for it.
WORLD = "world"

_RECORDS = re.compile(r"[^/]+\.jsonl?", re.IGNORECASE)
_SUFFIX = re.compile(r"\.jsonl?(\.gz)?$", re.IGNORECASE)
_ONTOLOGY = f"ontology/{RANGES}", f"ontology/{VOCABULARY}"
# The type of the answer is the first word of the gold expression that is a type.
_ANSWER_TYPE = re.compile(r"\(AND ([A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)+) ", re.ASCII)
_NOT_FREEBASE = "not Freebase"
_UNSOLVED = "its gold actions break a rule that is not a matter of strictness"

_PROMPT = """\
You answer a question with a knowledge graph. Its entities are connected by relations, such as \
people.person.profession. You never see the neighbors of an entity themselves. A tool that finds some makes \
a variable of them, and the variables are named #0, #1, #2 and so on, in the order in which they are made. \
{graph}

Start with `get_relations` on an entity of the question, follow a relation with `get_neighbors`, and go on \
until one variable holds exactly the answer. Use `intersection` for entities that meet two conditions, \
`count` for a question that asks how many, and `get_attributes` with `argmax` or `argmin` for the largest, \
first or last of several.

When a variable holds the answer, {end}

Question: {question}
Entities: {entities}
"""
_END = "call `submit` with its name, for example `#3`."
_PUBLISHED_END = "reply with its name and without a call, for example: Final Answer: #3"
_SOURCES: Mapping[Source, str] = {
    "made for the task": "It was made for this question and is not Freebase, so rely on what the tools show.",
    "graph file": "It is not Freebase, so rely on what the tools show.",
    "SPARQL endpoint": "It is Freebase.",
}


class KnowledgeOptions(Options):
    """The options of the category."""

    # Upstream's own rules on types and ids, which some gold actions break.
    strict: bool = False
    # The path of a file with graphs (`kg_files.load_graph_file`).
    graph: Annotated[str | None, OptionEffect("read the file")] = None
    # The URL of a SPARQL endpoint that serves Freebase.
    sparql_url: Annotated[str | None, OptionEffect("send requests to")] = None
    # The folder with fb_roles and vocab.json.
    ontology: Annotated[str | None, OptionEffect("read the folder")] = None

    @model_validator(mode="after")
    def _require_one_graph(self) -> KnowledgeOptions:
        if self.graph is not None and self.sparql_url is not None:
            raise UsageError(
                "kg.graph and kg.sparql_url are both set", hint="leave one out, because a run has one graph"
            )
        if self.sparql_url is not None and not self.sparql_url.startswith(("http://", "https://")):
            raise UsageError(
                "kg.sparql_url must be the URL of an endpoint, which begins with http:// or https://"
                f"{describe_url_value(self.sparql_url)}"
            )
        if self.sparql_url is not None and hide_url_secrets(self.sparql_url) != self.sparql_url:
            raise UsageError(
                "kg.sparql_url must hold no password and no key, because the run folder keeps the options",
                hint="name an endpoint that needs none",
            )
        if self.graph is not None and not Path(self.graph).is_file():
            raise UsageError(f"kg.graph is '{self.graph[:200]}', and there is no such file")
        if self.ontology is not None and not (Path(self.ontology) / RANGES).is_file():
            raise UsageError(
                f"kg.ontology is '{self.ontology[:200]}', and that is not a folder with {RANGES}",
                hint=f"name the folder with {RANGES} and {VOCABULARY}, which upstream's repository has as "
                "src/server/tasks/knowledgegraph/ontology",
            )
        return self


@dataclass(frozen=True, slots=True)
class World:
    """The ontology of a run, None without one, and the graphs that the user gave."""

    ontology: Ontology | None
    schema: Schema
    graphs: GraphFile | None


@dataclass(frozen=True, slots=True)
class KnowledgeRecord:
    """One of upstream's records."""

    task_id: str
    question: str
    entities: Mapping[str, str]
    expression: str
    actions: tuple[str, ...]
    answers: tuple[str, ...]
    # The names of answers, by id.
    names: Mapping[str, str]


def list_rows(files: CategoryFiles, options: CategoryOptions) -> Iterator[Row]:
    """Yield the rows of the folder's files, with their task ids. Raises DataError and UsageError."""
    own: KnowledgeOptions = options.own
    rows = [
        row for name in sorted(files.tree.contents) if _RECORDS.fullmatch(name) for row in _parse(files, name)
    ]
    if not rows:
        return
    ontology = _load_own_ontology(own)
    if ontology is None and all(name in files.tree.contents for name in _ONTOLOGY):
        ranges, vocabulary = (files.read(name) for name in _ONTOLOGY)
        places = files.tree.places
        ontology = parse_ontology(ranges, vocabulary, lambda name: places[f"ontology/{name}"])
    world = _make_world(own, ontology, rows)
    if own.ontology is not None:
        for name in (RANGES, VOCABULARY):
            files.note(f"option ontology/{name}", hash_file(Path(own.ontology) / name))
    if own.graph is not None:
        files.note(f"option graph/{PurePath(own.graph).name}", load_graph_file(own.graph)[1])
    for row in rows:
        yield replace(row, values={**row.values, WORLD: world})


def _find_notice(own: KnowledgeOptions, _is_bundled: bool) -> str | None:
    if own.sparql_url is not None:
        return None
    origin = "comes from a file" if own.graph is not None else "is made for each task"
    return f"{NAME}: the knowledge graph {origin}; it is {_NOT_FREEBASE}"


def owns(row: Row) -> bool:
    """Return whether a row is one of upstream's records of this category."""
    return row.values.get("s_expression") is not None


def read(row: Row, options: CategoryOptions) -> tuple[Task, Reference]:
    """Return the task and the reference of a record. Raises DataError and UsageError."""
    own: KnowledgeOptions = options.own
    record = read_record(row)
    world = row.values.get(WORLD)
    if not isinstance(world, World):
        given = [path for path in (own.ontology, own.graph) if path is not None]
        if given:
            world = _make_shared_world(own, tuple(map(_stamp, given)))
        else:
            world = _make_world_of_file(own, row.path, _stamp(row.path)) or _make_world(own, None, [row])
    target = _make_target(record, world, options)
    label = describe_source(target)
    prompt = _PROMPT.format(
        graph=_SOURCES[target.source],
        end=_PUBLISHED_END if options.protocol == "fc" else _END,
        question=record.question.strip(),
        entities="; ".join(record.entities) or "none",
    )
    task = Task(
        record.task_id,
        "agentbench",
        NAME,
        prompt,
        category=NAME,
        setup=KnowledgeSetup(tuple(record.entities)),
        labels={"graph": label},
    )
    expected = ", ".join(
        f"{answer} ({record.names[answer]})" if answer in record.names else answer
        for answer in record.answers
    )
    return task, Reference(record.task_id, "\n".join(record.actions), target, expected)


def read_record(row: Row) -> KnowledgeRecord:
    """Return the record of a row. Raises DataError with the row's place and the field."""
    entities = _decode(row, "entities")
    if not isinstance(entities, Mapping):
        raise row.error(f"needs an object, found {describe(entities)}", field="entities")
    for name, found in entities.items():
        # The hub's rows have the entities of all records, as null.
        if not isinstance(found, str | None):
            raise row.error(f"needs ids, found {describe(found)}", field=f"entities.{name}")
    actions = _decode(row, "actions")
    if not isinstance(actions, list) or not all(isinstance(action, str) for action in actions):
        raise row.error(f"needs a list of strings, found {describe(actions)}", field="actions")
    answers, names = _read_answers(row)
    expression = row.optional_text("s_expression") or ""
    task_id = f"{NAME}/{_SUFFIX.sub('', PurePath(row.path).name)}/{row.place}"
    if row.values.get("task_id") is not None:
        task_id = row.name("task_id")
    return KnowledgeRecord(
        task_id,
        row.text("question"),
        {name: found for name, found in entities.items() if found is not None},
        expression,
        tuple(actions),
        answers,
        names,
    )


def why_unsound(reference: Reference) -> str | None:
    """Return the reason why the gold of a question cannot be right, or None."""
    target = reference.target
    return target.fault if isinstance(target, KnowledgeAnswer) else None


def _make_target(record: KnowledgeRecord, world: World, options: CategoryOptions) -> KnowledgeAnswer:
    own: KnowledgeOptions = options.own
    fault: str | None = None
    plan: Plan | None = None
    try:
        plan = read_plan(record.actions, record.entities, record.answers)
    except GoldError as error:
        fault = str(error)
    base = KnowledgeAnswer(
        record.answers,
        record.actions,
        record.entities,
        world.ontology or Ontology(),
        "SPARQL endpoint",
        sparql_url=own.sparql_url,
        strict=own.strict,
        asked_before=options.protocol == "v0.2",
        fault=fault,
    )
    if own.sparql_url is not None:
        return replace(base, ontology=_with_gold(base.ontology, plan, record, own))
    if world.graphs is not None:
        graph = world.graphs.graph_of(record.task_id)
        if graph is None:
            missing = f"the file {PurePath(own.graph or '').name} has no graph of it"
            return replace(base, source="graph file", graph=Graph({}), fault=missing)
        ontology = world.ontology or derive_ontology(graph)
        return replace(
            base, source="graph file", graph=graph, ontology=_with_gold(ontology, plan, record, own)
        )
    base = replace(
        base, source="made for the task", graph=Graph({}), starts=frozenset(record.entities.values())
    )
    if plan is None:
        return base
    schema = world.schema
    if not find_names(plan.program)[0] <= schema.ontology.ranges.keys():
        schema = make_schema(_guess(schema.ontology, plan, record), is_complete=schema.is_complete)
    try:
        graph, ontology = make_task_graph(plan, schema, record.task_id)
    except GoldError as error:
        return replace(base, fault=str(error))
    starts = (base.starts or frozenset()) | find_entities(plan.program)
    made = replace(base, graph=graph, ontology=ontology, starts=starts)
    if not _solves(plan, made):
        return replace(made, fault=_UNSOLVED)
    if not own.strict or world.ontology is None:
        return made
    known = world.ontology.relations | world.ontology.attributes
    return replace(made, ontology=ontology.narrow(known))


def _solves(plan: Plan, target: KnowledgeAnswer) -> bool:
    """Return whether the gold actions end at the gold answers under lenient rules."""
    session = open_session(replace(target, asked_before=False, strict=False))
    try:
        for action in plan.actions:
            session.run(action)
    except ActionError:
        return False
    return session.knowledge.answers(session.variables[-1].program) == frozenset(target.answers)


def _with_gold(
    ontology: Ontology, plan: Plan | None, record: KnowledgeRecord, own: KnowledgeOptions
) -> Ontology:
    """Return the ontology with the names in the gold that it lacks, unless the rules are upstream's own.

    Upstream's vocabulary lacks a few names that its own gold uses.
    """
    return ontology if own.strict or plan is None else _guess(ontology, plan, record)


def _guess(ontology: Ontology, plan: Plan, record: KnowledgeRecord) -> Ontology:
    relations, attributes = find_names(plan.program)
    if relations <= ontology.ranges.keys() & ontology.relations and attributes <= ontology.attributes:
        return ontology
    found = _ANSWER_TYPE.search(record.expression)
    return ontology.extend(relations, attributes, guess_ranges(plan.program, found[1] if found else ANY_TYPE))


@lru_cache(maxsize=2)
def _make_shared_world(own: KnowledgeOptions, _stamps: tuple[tuple[int, ...], ...]) -> World:
    """Return the world that all rows of a single file share, because it depends on the options alone."""
    return _make_world(own, _load_own_ontology(own), [])


@lru_cache(maxsize=2)
def _make_world_of_file(own: KnowledgeOptions, path: str, _stamp: tuple[int, ...]) -> World | None:
    """Return the world of all questions in a file, None if they cannot be read together.

    Decoys take their names from the other questions. Those of a question alone would show the gold, because
    no other relation would have a name that the gold uses.
    """
    file = Path(path)
    try:
        if not file.is_file() or file.stat().st_size > MAX_TEXT_BYTES:
            return None
        rows, _ = read_rows(file, max_bytes=MAX_TEXT_BYTES, or_object=True)
        return _make_world(own, None, [row for row in rows if owns(row)])
    except (OSError, DataError):
        # The reader of the task reports a broken file.
        return None


def _stamp(path: str) -> tuple[int, ...]:
    """Return the times and sizes of a file, or of the files of an ontology, which show a change."""
    files = [Path(path) / name for name in (RANGES, VOCABULARY)] if Path(path).is_dir() else [Path(path)]
    found = (file.stat() for file in files if file.exists())
    return tuple(number for stat in found for number in (stat.st_mtime_ns, stat.st_size))


def _load_own_ontology(own: KnowledgeOptions) -> Ontology | None:
    return None if own.ontology is None else load_ontology(own.ontology)


def _make_world(own: KnowledgeOptions, ontology: Ontology | None, rows: list[Row]) -> World:
    if own.sparql_url is not None and ontology is None:
        raise UsageError(
            "kg.sparql_url needs the ontology, because Freebase has relations that no tool lists",
            hint=f"give the folder with {RANGES} and {VOCABULARY} as kg.ontology",
        )
    graphs = None if own.graph is None else load_graph_file(own.graph)[0]
    known = ontology
    if known is None and own.sparql_url is None and graphs is None:
        known = _derive_from(rows)
    return World(ontology, make_schema(known or Ontology(), is_complete=ontology is not None), graphs)


def _derive_from(rows: list[Row]) -> Ontology:
    """Return the names that the gold of records uses, and the types that their order suggests."""
    ontology = Ontology()
    relations: set[str] = set()
    attributes: set[str] = set()
    ranges: dict[str, str] = {}
    for row in rows:
        try:
            record = read_record(row)
            plan = read_plan(record.actions, record.entities, record.answers)
        except (DataError, GoldError):
            # The reader of the task reports a broken record.
            continue
        guessed = _guess(ontology, plan, record)
        relations |= guessed.relations
        attributes |= guessed.attributes
        for name, found in guessed.ranges.items():
            ranges.setdefault(name, found)
    return Ontology(frozenset(relations), frozenset(attributes), ranges)


def _parse(files: CategoryFiles, name: str) -> Iterator[Row]:
    stem = _SUFFIX.sub("", name)
    for row in files.parse(name):
        if owns(row):
            identity = (
                f"{NAME}/{stem}" if row.line is None and row.item is None else f"{NAME}/{stem}/{row.place}"
            )
            given = row.values.get("task_id")
            yield replace(row, values={**row.values, "task_id": identity if given is None else given})


def _decode(row: Row, field: str) -> Any:
    """Return a field, which may hold its value as a text of JSON."""
    value = row.values.get(field)
    if not isinstance(value, str):
        return value
    try:
        return parse_data(value)
    except BrokenJSONError as error:
        raise row.error(f"needs JSON: {error}", field=field) from error


def _read_answers(row: Row) -> tuple[tuple[str, ...], dict[str, str]]:
    answers = _decode(row, "answer")
    if not isinstance(answers, list):
        raise row.error(f"needs a list, found {describe(answers)}", field="answer")
    found: list[str] = []
    names: dict[str, str] = {}
    for place, answer in enumerate(answers):
        argument = answer.get("answer_argument") if isinstance(answer, Mapping) else None
        if isinstance(argument, bool) or not isinstance(argument, str | int | float):
            raise row.error("needs a text or a number", field=f"answer[{place}].answer_argument")
        found.append(str(argument))
        if isinstance(name := answer.get("entity_name"), str):
            names[str(argument)] = name
    return tuple(dict.fromkeys(found)), names


CATEGORY = Category(
    name=NAME,
    place=3,
    weight=13.9,
    aliases=("knowledge graph", "freebase"),
    facts=CategoryFacts(
        task="answer a question by walking through a knowledge graph",
        bundled="20 questions of ours, with a graph of ours",
        bring="data/knowledgegraph/, and Freebase by kg.sparql_url; without it the graphs are made",
    ),
    folders=(FOLDER,),
    is_needed=lambda name: _RECORDS.fullmatch(name) is not None or name in _ONTOLOGY,
    rows=list_rows,
    owns=owns,
    read=read,
    solve=solve_by_target(solve),
    why_unsound=why_unsound,
    find_notice=_find_notice,
    options=KnowledgeOptions,
    turns={"fc": 15, "v0.2": 15},
    reads_file=lambda rows: all(map(owns, rows)),
    measure=f"mean F1, {_NOT_FREEBASE} unless kg.sparql_url is set",
)
