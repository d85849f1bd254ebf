"""The files behind a knowledge graph: the ontology, and graphs that a user brings."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePath

from harness.benchmarks.data.local import parse_rows
from harness.benchmarks.data.rows import Row, parse_data
from harness.core.errors import DataError
from harness.core.inputs.files import MAX_DATA_BYTES, hash_file, open_input, read_input, unpack
from harness.core.inputs.json_text import BrokenJSONError
from harness.environments.kg.graph import (
    Graph,
    Ontology,
    Triple,
    make_graph,
    make_literal,
    parse_ranges,
    parse_triple,
    parse_vocabulary,
)
from harness.environments.kg.sparql import NAMESPACE

RANGES, VOCABULARY = "fb_roles", "vocab.json"
TRIPLES, TASK_ID = "triples", "task_id"

_LINE = re.compile(
    r"\s*<(?P<subject>[^<>\s]+)>\s+<(?P<relation>[^<>\s]+)>\s+"
    r'(?:<(?P<entity>[^<>\s]+)>|"(?P<text>(?:[^"\\]|\\.)*)"(?:@(?P<language>[A-Za-z0-9-]+)|\^\^<(?P<datatype>[^<>\s]+)>)?)'
    r"\s*\.\s*(?:#.*)?"
)
_ESCAPE = re.compile(r'\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([tbnrf"\'\\]))')
_ESCAPED = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class GraphFile:
    """The graphs of a file: one for each task id, or one for all tasks."""

    by_task: Mapping[str, Graph] = field(default_factory=dict)
    shared: Graph | None = None

    def graph_of(self, task_id: str) -> Graph | None:
        """Return the graph of a task, None if the file has none."""
        return self.by_task.get(task_id, self.shared)


def parse_ontology(ranges: bytes, vocabulary: bytes, place: Callable[[str], PurePath]) -> Ontology:
    """Return the ontology of upstream's two files. `place` returns a file's path for errors.

    Raises DataError.
    """
    try:
        found = parse_ranges(ranges.decode("utf-8"))
    except ValueError as error:
        raise DataError(f"is not a list of relations: {error}", path=place(RANGES)) from error
    try:
        relations, attributes = parse_vocabulary(parse_data(vocabulary))
    except (ValueError, BrokenJSONError) as error:
        raise DataError(f"is not a vocabulary: {error}", path=place(VOCABULARY)) from error
    return Ontology(relations, attributes, found)


def load_ontology(folder: str) -> Ontology:
    """Return the ontology in a folder. Raises DataError."""
    path = Path(folder)
    digests = tuple(_hash(path / name) for name in (RANGES, VOCABULARY))
    return _load_ontology(path, digests)


@lru_cache(maxsize=2)
def _load_ontology(path: Path, _digests: tuple[str, ...]) -> Ontology:
    files = [read_input(path / name, max_bytes=MAX_DATA_BYTES) for name in (RANGES, VOCABULARY)]
    return parse_ontology(files[0], files[1], lambda name: path / name)


def load_graph_file(path: str) -> tuple[GraphFile, str]:
    """Return the graphs of a file and its SHA-256 (hex).

    A `.nt` or `.nt.gz` file holds N-Triples, one graph for all tasks. A `.json` or `.jsonl` file has objects
    with `triples`, and with a `task_id` unless the graph is for all tasks. Raises DataError.
    """
    digest = _hash(Path(path))
    return _load_graph_file(Path(path), digest), digest


@lru_cache(maxsize=2)
def _load_graph_file(path: Path, _digest: str) -> GraphFile:
    name = path.name.lower()
    if name.endswith((".nt", ".nt.gz")):
        try:
            with open_input(path, max_bytes=MAX_DATA_BYTES) as raw:
                lines = unpack(raw, path) if name.endswith(".gz") else raw
                return GraphFile(shared=make_graph(read_n_triples(lines, path)))
        except (EOFError, gzip.BadGzipFile, OSError) as error:
            raise DataError(f"cannot be read: {error}", path=path) from error
    if not name.endswith((".json", ".jsonl")):
        raise DataError("not a known graph file", path=path, hint="known endings: .jsonl, .json, .nt, .nt.gz")
    rows = parse_rows(read_input(path, max_bytes=MAX_DATA_BYTES), path)
    by_task: dict[str, Graph] = {}
    shared: list[Triple] = []
    for row in rows:
        triples = _read_triples(row)
        if row.values.get(TASK_ID) is None:
            shared.extend(triples)
        elif (task_id := row.name(TASK_ID)) in by_task:
            raise row.error(f"has the graph of {task_id} a second time", field=TASK_ID)
        else:
            by_task[task_id] = make_graph(triples)
    return GraphFile(by_task, make_graph(shared) if shared else None)


def read_n_triples(lines: Iterable[bytes], path: PurePath) -> Iterator[Triple]:
    """Yield the triples of N-Triples, without Freebase's namespace. Raises DataError with the line."""
    for number, line in enumerate(lines, start=1):
        text = line.decode("utf-8", "replace").strip()
        if not text or text.startswith("#"):
            continue
        found = _LINE.fullmatch(text)
        if found is None:
            raise DataError("is not a triple of N-Triples", path=path, line=number)
        entity = found["entity"]
        node = (
            make_literal(_unescape(found["text"]), found["language"] or "", found["datatype"] or "")
            if entity is None
            else _name(entity)
        )
        yield _name(found["subject"]), _name(found["relation"]), node


def derive_ontology(graph: Graph) -> Ontology:
    """Return the relations and attributes of a graph. An attribute leads to literals alone."""
    relations: set[str] = set()
    literals: set[str] = set()
    for edges in graph.edges.values():
        for name, nodes in edges.items():
            (relations if any(isinstance(node, str) for node in nodes) else literals).add(name)
    return Ontology(frozenset(relations), frozenset(literals - relations))


def _read_triples(row: Row) -> list[Triple]:
    value = row.values.get(TRIPLES)
    if not isinstance(value, list):
        raise row.error("needs a list of triples", field=TRIPLES)
    found = []
    for place, triple in enumerate(value):
        try:
            found.append(parse_triple(triple))
        except ValueError as error:
            raise row.error(str(error), field=f"{TRIPLES}[{place}]") from error
    return found


def _hash(path: Path) -> str:
    try:
        return hash_file(path)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path=path) from error


def _name(iri: str) -> str:
    return iri.removeprefix(NAMESPACE)


def _unescape(text: str) -> str:
    def replace(found: re.Match[str]) -> str:
        code = found[1] or found[2]
        if code is not None:
            value = int(code, 16)
            return chr(value) if value < 0x110000 and not 0xD800 <= value < 0xE000 else "\ufffd"
        return _ESCAPED.get(found[3], found[3])

    return _ESCAPE.sub(replace, text)
