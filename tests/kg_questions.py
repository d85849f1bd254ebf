"""Made questions on a knowledge graph, for tests: their plans and their ontology."""

from __future__ import annotations

from typing import Any

from samples.questions import make_ontology_files

from harness.environments.kg.generator import make_schema
from harness.environments.kg.grader import Plan, read_plan
from harness.environments.kg.graph import Ontology, parse_ranges

FILES = make_ontology_files()
ONTOLOGY = Ontology(
    frozenset(FILES["vocab.json"]["relations"]),
    frozenset(FILES["vocab.json"]["attributes"]),
    parse_ranges("\n".join(FILES["fb_roles"])),
)
SCHEMA = make_schema(ONTOLOGY)


def plan_of(record: dict[str, Any]) -> Plan:
    """Return the plan of a record."""
    answers = [answer["answer_argument"] for answer in record["answer"]]
    return read_plan(record["actions"], record["entities"], answers)
