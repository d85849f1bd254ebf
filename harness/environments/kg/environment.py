"""The tools of the `kg` environment, and the target that names the graph behind them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from harness.core.tools import Arguments, Tool
from harness.core.types import PlainData, Task
from harness.environments.base import EnvironmentContext, Handler
from harness.environments.host_environment import HostEnvironment, open_without_world
from harness.environments.kg.graph import Graph, Ontology
from harness.environments.kg.program import (
    ARGMAX,
    ARGMIN,
    COUNT,
    GET_ATTRIBUTES,
    GET_NEIGHBORS,
    GET_RELATIONS,
    INTERSECTION,
    Action,
)
from harness.environments.kg.session import ActionError, Knowledge, Rules, Session
from harness.environments.kg.sparql import Endpoint

TURNS = 15
MAX_NAME_CHARACTERS = 1000

Source = Literal["made for the task", "graph file", "SPARQL endpoint"]
"""Where the graph of a task comes from."""


@dataclass(frozen=True, slots=True)
class KnowledgeSetup:
    """The part of a question that its agent may see as data: the names of its entities."""

    entities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KnowledgeAnswer:
    """The gold answers of a question, the gold actions, and the graph that the tools answer from."""

    answers: tuple[str, ...]
    # The actions as written, whose last variable holds the answers.
    actions: tuple[str, ...]
    # The id of each entity of the question, by its name.
    entities: Mapping[str, str]
    ontology: Ontology
    source: Source
    # The graph in memory, or the URL of the endpoint.
    graph: Graph | None = None
    sparql_url: str | None = None
    # Upstream's own rules (`Rules.strict`), and v0.2's (`Rules.asked_before`).
    strict: bool = False
    asked_before: bool = False
    # The ids that an agent may start at, None for all.
    starts: frozenset[str] | None = None
    # The reason why the gold is not sound, None for sound gold.
    fault: str | None = None


class Subject(Arguments):
    """The arguments of a function on a variable or an entity."""

    variable: str = Field(
        max_length=MAX_NAME_CHARACTERS,
        description="A variable such as #0, or the name of an entity of the question.",
    )


class SubjectAndRelation(Subject):
    """The arguments of `get_neighbors`."""

    relation: str = Field(max_length=MAX_NAME_CHARACTERS, description="A relation that get_relations lists.")


class OneVariable(Arguments):
    """The arguments of a function on a variable."""

    variable: str = Field(max_length=MAX_NAME_CHARACTERS, description="A variable such as #0.")


class VariableAndAttribute(OneVariable):
    """The arguments of `argmax` and `argmin`."""

    attribute: str = Field(
        max_length=MAX_NAME_CHARACTERS, description="An attribute that get_attributes lists."
    )


class TwoVariables(Arguments):
    """The arguments of `intersection`."""

    variable1: str = Field(max_length=MAX_NAME_CHARACTERS, description="A variable such as #0.")
    variable2: str = Field(max_length=MAX_NAME_CHARACTERS, description="Another variable, such as #1.")


TOOLS = (
    Tool(
        GET_RELATIONS,
        "List the relations that lead out of an entity, or out of the members of a variable.",
        Subject,
    ),
    Tool(
        GET_NEIGHBORS,
        "Make a variable of all entities that a relation leads to from an entity or a variable. The relation "
        "must be one that get_relations lists for it.",
        SubjectAndRelation,
    ),
    Tool(
        INTERSECTION, "Make a variable of the entities that are in two variables of one type.", TwoVariables
    ),
    Tool(
        GET_ATTRIBUTES,
        "List the attributes with a value, such as a number or a date, that the members of a variable have.",
        OneVariable,
    ),
    Tool(
        ARGMAX,
        "Make a variable of the members with the largest value of an attribute. The attribute must be one "
        "that get_attributes lists for it.",
        VariableAndAttribute,
    ),
    Tool(
        ARGMIN,
        "Make a variable of the members with the smallest value of an attribute. The attribute must be one "
        "that get_attributes lists for it.",
        VariableAndAttribute,
    ),
    Tool(COUNT, "Make a variable that holds the number of members of a variable.", OneVariable),
)


def open_session(target: KnowledgeAnswer) -> Session:
    """Return a session without variables on the graph of a task."""
    rules = Rules(target.entities, target.ontology, target.strict, target.asked_before, target.starts)
    return Session(_find_knowledge(target), rules)


@contextlib.asynccontextmanager
async def open_environment(
    task: Task, context: EnvironmentContext
) -> AsyncIterator[HostEnvironment[Session] | HostEnvironment[None]]:
    """Yield the environment of a task: its tools answer from the graph in the target."""
    target: PlainData | None = context.target
    if not isinstance(target, KnowledgeAnswer):
        yield open_without_world(context)
        return
    session = open_session(target)
    handlers = {tool: _make_handler(tool, session) for tool in TOOLS}
    yield HostEnvironment(session, handlers, context)


async def run_blocking(
    knowledge: Knowledge, work: Callable[[], str | frozenset[str]]
) -> str | frozenset[str]:
    """Return the result of work on a graph. A large graph, or an endpoint, gets a thread."""
    if isinstance(knowledge, Graph) and _is_small(knowledge):
        return work()
    return await asyncio.to_thread(work)


# Work on more triples than this may take some milliseconds.
_SMALL_GRAPH = 2000


def _is_small(graph: Graph) -> bool:
    left = _SMALL_GRAPH
    for relations in graph.edges.values():
        for nodes in relations.values():
            # A single subject may have millions of triples.
            left -= len(nodes)
            if left < 0:
                return False
    return True


def _make_handler(tool: Tool, session: Session) -> Handler:
    names = list(tool.arguments.model_fields)

    async def run(arguments: Arguments) -> str:
        action = Action(tool.name, tuple(getattr(arguments, name) for name in names))
        try:
            return str(await run_blocking(session.knowledge, lambda: session.run(action)))
        except ActionError as error:
            return f"{tool.name} was not carried out: {error}."

    handler: Callable[[Arguments], Awaitable[str]] = run
    return handler


def _find_knowledge(target: KnowledgeAnswer) -> Knowledge:
    if target.sparql_url is not None:
        return Endpoint(target.sparql_url)
    return target.graph or Graph({})
