"""The tools of the `kg` environment, and the target that names the graph behind them."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import Field

from harness.core.tools import SUBMIT, Arguments, TextCall, TextFault, Tool
from harness.core.types import PlainData, Task
from harness.environments.base import EnvironmentContext, Handler, HostEnvironment, open_without_world
from harness.environments.kg.graph import (
    ARGMAX,
    ARGMIN,
    COUNT,
    FUNCTIONS,
    GET_ATTRIBUTES,
    GET_NEIGHBORS,
    GET_RELATIONS,
    INTERSECTION,
    Action,
    Graph,
    Ontology,
    split_arguments,
)
from harness.environments.kg.session import ActionError, Knowledge, Rules, Session
from harness.environments.kg.sparql import Endpoint
from harness.environments.text_protocol import Published, TextForm, read_parentheses
from harness.environments.written_actions import WrittenAction, WrittenReply

TURNS = 15
MAX_NAME_CHARACTERS = 1000

Source = Literal["made for the task", "graph file", "SPARQL endpoint"]
"""Where the graph of a task comes from."""

# Work on more triples than this may take some milliseconds.
_SMALL_GRAPH = 2000

# Upstream reads the answer of its function calls from the text of a reply.
PUBLISHED_ANSWER = re.compile(r"(?:Find|Final) Answer: (#\d+)")
_ANSWER = "answer"
_FINAL_ANSWER = re.compile(
    r"[ \t>*_#`-]*+(?:final|find)[ \t]++answer[ \t*_`]*+[:：][ \t*_`]*+(?P<answer>.*)",
    re.IGNORECASE | re.ASCII,
)
_MARKS = " \t*_`."

_ADVICE = "Write one line `Action: FUNCTION(ARGUMENTS)`, or `Final Answer: #NUMBER` to end."


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
    url = target.sparql_url
    return Session(target.graph or Graph({}) if url is None else Endpoint(url), rules)


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
    environment = HostEnvironment(session, handlers, context)
    environment.publish(task, Published(handlers=handlers, answer=PUBLISHED_ANSWER))
    yield environment


async def run_blocking(
    knowledge: Knowledge, work: Callable[[], str | frozenset[str]]
) -> str | frozenset[str]:
    """Return the result of work on a graph. A large graph, or an endpoint, gets a thread."""
    if isinstance(knowledge, Graph) and _is_small(knowledge):
        return work()
    return await asyncio.to_thread(work)


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

    return run


_ACTIONS = "\n\n".join(
    f"Action: {tool.name}({', '.join(FUNCTIONS[tool.name])})\n{tool.description}" for tool in TOOLS
)
_INSTRUCTIONS = f"""\
In each reply, write your thoughts first, then exactly one action on one line, and then stop. The next \
message shows the observation. The actions are these:

{_ACTIONS}

When a variable holds the answer, end with its name instead of an action:

Final Answer: #3"""


def _read_function(_tools: Mapping[str, Tool], reply: WrittenReply) -> TextCall | TextFault:
    action = reply.actions[0]
    function = action.name.rstrip(".-").lower()
    names = FUNCTIONS[function]
    try:
        read = split_arguments(function, _find_arguments(action))
    except ValueError:
        advice = f"Write `Action: {function}({', '.join(names)})` on one line."
        return TextFault("malformed arguments", advice)
    arguments = dict(zip(names, read.arguments, strict=True))
    return TextCall(function, arguments, is_complete=action.closes_parentheses)


def _find_arguments(action: WrittenAction) -> str:
    """Return the text between the parentheses of an action, "" if there is none.

    The name of an entity may hold parentheses, and a remark in parentheses may follow the action.
    """
    text = action.find_in_parentheses()
    depth = 0
    for end, character in enumerate(text or ""):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            return str(text)[:end]
    return text or ""


def _read_answer(_tools: Mapping[str, Tool], reply: WrittenReply) -> TextCall | TextFault:
    action = reply.actions[0]
    if (answer := read_parentheses(action)) is not None:
        return replace(answer, arguments={"answer": answer.arguments["answer"].strip()})
    return _find_final_answer(action) or TextFault("missing answer", _ADVICE)


def _find_final_answer(action: WrittenAction) -> TextCall | None:
    """Return the call that submits the text after `Final Answer:`, None if no line has one."""
    for number, line in enumerate(action.lines):
        found = _FINAL_ANSWER.match(line)
        answer = found["answer"].strip(_MARKS) if found else ""
        if answer:
            # A line that the server cut off is the last one.
            return TextCall(SUBMIT.name, {"answer": answer}, is_complete=number + 1 < len(action.lines))
    return None


TEXT_FORM = TextForm(
    instructions=_INSTRUCTIONS,
    tools=TOOLS,
    advice=_ADVICE,
    result="Observation:",
    separator=" ",
    words={**dict.fromkeys(FUNCTIONS, _read_function), _ANSWER: _read_answer, SUBMIT.name: _read_answer},
    known=(*FUNCTIONS, "Final Answer"),
    # Upstream's own models escape the underscores of names.
    clean=lambda reply: reply.replace("\\_", "_"),
    read_introduction=_find_final_answer,
    leaves_out=lambda call, action: call.tool != SUBMIT.name and _find_final_answer(action) is not None,
)
"""AgentBench's form: `Action: get_relations(Ada)`, and `Final Answer: #2`.

The first of them in a reply is carried out.
Source: the task `knowledgegraph` of AgentBench (Liu et al. 2023, arXiv 2308.03688).
"""
