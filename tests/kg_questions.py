"""Made questions on a knowledge graph, for tests: their plans, their ontology, and files of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.environments.kg.generator import make_schema
from harness.environments.kg.grader import Plan, read_plan
from harness.environments.kg.graph import Ontology, parse_ranges
from harness.environments.kg.questions import make_ontology_files, make_questions

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


def write_questions(number: int, seed: int, folder: Path) -> Path:
    """Write made questions and their ontology in upstream's layout, and return their folder."""
    root = folder / "knowledgegraph"
    (root / "ontology").mkdir(parents=True)
    (root / "std.json").write_text(json.dumps(make_questions(number, seed)))
    (root / "ontology" / "fb_roles").write_text("\n".join(FILES["fb_roles"]))
    (root / "ontology" / "vocab.json").write_text(json.dumps(FILES["vocab.json"]))
    return root
