"""Make questions in upstream's format, over an ontology of invented domains. No question needs Freebase.

One seed makes one list.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE = "harness"

# The relations of each type: the name, the type that it leads to, and how a question words its targets.
_RELATIONS: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "orchard.variety": (
        ("grown_in", "orchard.farm", "farms that grew {}"),
        ("pollinated_by", "orchard.insect", "insects that pollinated {}"),
        ("crossed_into", "orchard.variety", "varieties that were bred from {}"),
        ("attacked_by", "orchard.pest", "pests that attacked {}"),
    ),
    "orchard.farm": (
        ("varieties", "orchard.variety", "varieties that are grown on {}"),
        ("tools", "orchard.tool", "tools that were used on {}"),
        ("markets", "orchard.market", "markets that sold the harvest of {}"),
        ("pests_found", "orchard.pest", "pests that were found on {}"),
    ),
    "orchard.insect": (
        ("pollinates", "orchard.variety", "varieties that {} pollinated"),
        ("hunts", "orchard.pest", "pests that {} hunted"),
        ("kept_on", "orchard.farm", "farms that kept {}"),
    ),
    "orchard.market": (
        ("supplied_by", "orchard.farm", "farms that supplied {}"),
        ("sells", "orchard.variety", "varieties that were sold at {}"),
        ("tools_on_sale", "orchard.tool", "tools that were sold at {}"),
    ),
    "orchard.pest": (
        ("damages", "orchard.variety", "varieties that {} damaged"),
        ("eaten_by", "orchard.insect", "insects that ate {}"),
        ("reported_by", "orchard.farm", "farms that reported {}"),
    ),
    "orchard.tool": (
        ("used_on", "orchard.farm", "farms that used {}"),
        ("sold_at", "orchard.market", "markets that sold {}"),
        ("works_against", "orchard.pest", "pests that {} kept away"),
    ),
    "signal.lighthouse": (
        ("keepers", "signal.keeper", "keepers who served at {}"),
        ("lamps", "signal.lamp", "lamps that were fitted to {}"),
        ("guards", "signal.channel", "channels that {} guarded"),
        ("signalled", "signal.lighthouse", "lighthouses that {} signalled"),
    ),
    "signal.keeper": (
        ("served_at", "signal.lighthouse", "lighthouses at which {} served"),
        ("trained", "signal.keeper", "keepers whom {} trained"),
        ("repaired", "signal.lamp", "lamps that {} repaired"),
        ("sailed", "signal.vessel", "vessels that {} sailed"),
    ),
    "signal.lamp": (
        ("fitted_to", "signal.lighthouse", "lighthouses that carried {}"),
        ("repaired_by", "signal.keeper", "keepers who repaired {}"),
        ("carried_on", "signal.vessel", "vessels that carried {}"),
    ),
    "signal.channel": (
        ("guarded_by", "signal.lighthouse", "lighthouses that guarded {}"),
        ("used_by", "signal.vessel", "vessels that passed {}"),
        ("joins", "signal.channel", "channels that joined {}"),
    ),
    "signal.vessel": (
        ("passes", "signal.channel", "channels that {} passed"),
        ("crew", "signal.keeper", "keepers who sailed on {}"),
        ("lamps_aboard", "signal.lamp", "lamps that were aboard {}"),
        ("saved_by", "signal.lighthouse", "lighthouses that saved {}"),
    ),
}
# The attributes of each type, with the words for the largest and the smallest value.
_ATTRIBUTES: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "orchard.variety": (
        ("sweetness", "the sweetest", "the sourest"),
        ("first_grown", "the newest", "the oldest"),
    ),
    "orchard.farm": (("area", "the largest", "the smallest"), ("founded", "the newest", "the oldest")),
    "orchard.insect": (
        ("wing_length", "the longest-winged", "the shortest-winged"),
        ("age", "the oldest", "the youngest"),
    ),
    "orchard.market": (("stalls", "the largest", "the smallest"), ("opened", "the newest", "the oldest")),
    "orchard.pest": (
        ("eggs", "the most fertile", "the least fertile"),
        ("length", "the longest", "the shortest"),
    ),
    "orchard.tool": (("weight", "the heaviest", "the lightest"), ("price", "the dearest", "the cheapest")),
    "signal.lighthouse": (("height", "the tallest", "the lowest"), ("first_lit", "the newest", "the oldest")),
    "signal.keeper": (
        ("years_served", "the longest-serving", "the shortest-serving"),
        ("born", "the youngest", "the oldest"),
    ),
    "signal.lamp": (("power", "the brightest", "the dimmest"), ("made", "the newest", "the oldest")),
    "signal.channel": (("depth", "the deepest", "the shallowest"), ("width", "the widest", "the narrowest")),
    "signal.vessel": (("tonnage", "the heaviest", "the lightest"), ("launched", "the newest", "the oldest")),
}
_FIRST = ("Amber", "Brisk", "Copper", "Dusky", "Early", "Fallow", "Grey", "Hollow", "Iron", "Juniper", "Keen")
_SECOND: Mapping[str, tuple[str, ...]] = {
    "orchard.variety": ("Russet", "Pippin", "Damson", "Quince"),
    "orchard.farm": ("Acre", "Barton", "Holding", "Croft"),
    "orchard.insect": ("Mason Bee", "Hoverfly", "Lacewing", "Wasp"),
    "orchard.market": ("Cross", "Arcade", "Fair", "Hall"),
    "orchard.pest": ("Weevil", "Canker", "Aphid", "Sawfly"),
    "orchard.tool": ("Billhook", "Sprayer", "Ladder", "Press"),
    "signal.lighthouse": ("Point Light", "Rock Light", "Ness Light", "Pier Light"),
    "signal.keeper": ("Tamsin Rowe", "Edric Vane", "Oona Pell", "Ivo Strand"),
    "signal.lamp": ("Lantern", "Beacon", "Lens", "Burner"),
    "signal.channel": ("Sound", "Gut", "Narrows", "Reach"),
    "signal.vessel": ("Tern", "Petrel", "Auk", "Gannet"),
}
_KINDS = ("chain", "intersection", "both", "count", "superlative")


@dataclass(frozen=True, slots=True)
class _Path:
    """A way from an entity to nodes of a type: its relations, and the words for the nodes."""

    name: str
    id: str
    relations: tuple[str, ...]
    type: str
    words: str


def write_questions(folder: Path, split: str, number: int, seed: int) -> None:
    """Write questions and their ontology into a folder `knowledgegraph`, as AgentBench has them."""
    (folder / "ontology").mkdir(parents=True, exist_ok=True)
    (folder / f"{split}.json").write_text(json.dumps(make_questions(number, seed), indent=1) + "\n")
    files = make_ontology_files()
    (folder / "ontology" / "fb_roles").write_text("\n".join(files["fb_roles"]) + "\n")
    (folder / "ontology" / "vocab.json").write_text(json.dumps(files["vocab.json"], indent=1) + "\n")


def make_questions(number: int, seed: int) -> list[dict[str, Any]]:
    """Return records of questions, with kinds in turn: a chain, intersections, a count, and a superlative."""
    draw = random.Random(seed)
    return [_make_question(_KINDS[place % len(_KINDS)], draw, f"{seed}-{place}") for place in range(number)]


def make_ontology_files() -> dict[str, Any]:
    """Return the lines of `fb_roles`, and the value of `vocab.json`, of the invented ontology."""
    relations = [
        (kind, f"{kind}.{name}", target) for kind, each in _RELATIONS.items() for name, target, _words in each
    ]
    attributes = [
        (kind, f"{kind}.{name}", "type.int")
        for kind, each in _ATTRIBUTES.items()
        for name, _most, _least in each
    ]
    return {
        "fb_roles": [" ".join(each) for each in (*relations, *attributes)],
        "vocab.json": {
            "relations": [name for _kind, name, _target in relations],
            "attributes": [name for _kind, name, _target in attributes],
            "classes": sorted(_RELATIONS),
        },
    }


def _make_question(kind: str, draw: random.Random, qid: str) -> dict[str, Any]:
    first = _walk(draw, draw.choice(sorted(_RELATIONS)), 2 if kind in ("chain", "both", "superlative") else 1)
    actions = _actions(first, 0)
    entities = {first.name: first.id}
    expression, words = _expression(first), f"the {first.words}"
    last = len(first.relations) - 1
    if kind in ("intersection", "both", "count"):
        second = _walk_to(draw, first)
        actions += _actions(second, last + 1)
        entities[second.name] = second.id
        actions.append(f"intersection(#{last},#{last + len(second.relations)})")
        last += len(second.relations) + 1
        expression = f"(AND {first.type} (AND {expression} {_expression(second)}))"
        words = f"{words} and also {second.words}"
    number = draw.randint(2, 9)
    answers = [_new_id(draw) for _ in range(draw.choice((1, 1, 2, 3)))]
    if kind == "count":
        actions.append(f"count(#{last})")
        question = f"What is the number of {words}?"
        gold: list[dict[str, Any]] = [{"answer_type": "Value", "answer_argument": str(number)}]
        expression = f"(COUNT {expression})"
    elif kind == "superlative":
        attribute, most, least = draw.choice(_ATTRIBUTES[first.type])
        function, superlative = draw.choice((("argmax", most), ("argmin", least)))
        actions += [f"get_attributes(#{last})", f"{function}(#{last},{first.type}.{attribute})"]
        question = f"Which is {superlative} of {words}?"
        gold = _entities(draw, first.type, answers[:1])
        expression = f"({function.upper()} (AND {first.type} {expression}) {first.type}.{attribute})"
    else:
        question = f"Which are {words}?"
        gold = _entities(draw, first.type, answers)
    return {
        "question": question,
        "qid": qid,
        "source": SOURCE,
        "entities": entities,
        "s_expression": expression,
        "actions": actions,
        "answer": gold,
    }


def _walk(draw: random.Random, start: str, steps: int) -> _Path:
    name = _new_name(draw, start)
    kind, words, relations = start, name, []
    for _ in range(steps):
        relation, target, wording = draw.choice(_RELATIONS[kind])
        relations.append(f"{kind}.{relation}")
        kind, words = target, wording.format(words if not relations[1:] else f"the {words}")
    return _Path(name, _new_id(draw), tuple(relations), kind, words)


def _walk_to(draw: random.Random, other: _Path) -> _Path:
    """Return a path of one relation to the same type, from an entity with another name."""
    ways = [
        (kind, f"{kind}.{name}", words)
        for kind, each in sorted(_RELATIONS.items())
        for name, target, words in each
        if target == other.type and f"{kind}.{name}" not in other.relations
    ]
    kind, relation, words = draw.choice(ways)
    name = _new_name(draw, kind)
    while name == other.name:
        name = _new_name(draw, kind)
    return _Path(name, _new_id(draw), (relation,), other.type, words.format(name))


def _actions(path: _Path, first: int) -> list[str]:
    """Return the actions along a path, whose first variable has the number `first`."""
    actions = []
    subject = path.id
    for number, relation in enumerate(path.relations, start=first):
        actions += [f"get_relations({subject})", f"get_neighbors({subject},{relation})"]
        subject = f"#{number}"
    return actions


def _expression(path: _Path) -> str:
    expression = path.id
    for relation in path.relations:
        expression = f"(JOIN (R {relation}) {expression})"
    return expression


def _entities(draw: random.Random, kind: str, ids: list[str]) -> list[dict[str, Any]]:
    return [
        {"answer_type": "Entity", "answer_argument": name, "entity_name": _new_name(draw, kind)}
        for name in ids
    ]


def _new_name(draw: random.Random, kind: str) -> str:
    return f"{draw.choice(_FIRST)} {draw.choice(_SECOND[kind])}"


def _new_id(draw: random.Random) -> str:
    return f"m.0{''.join(draw.choices('bcdfghjklmnpqrstvwxy0123456789_', k=6))}"
