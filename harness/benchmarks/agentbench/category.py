"""A category of AgentBench whose world lives on the host: its files, its records and its score."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from harness.benchmarks.benchmark import CategoryFacts, TaskResult
from harness.benchmarks.data.local import parse_rows
from harness.benchmarks.data.rows import Row
from harness.benchmarks.data.tree import Tree
from harness.benchmarks.options import Options
from harness.core.types import Reference, Task
from harness.models.endpoint import Endpoint

Protocol = Literal["fc", "v0.2"]
"""The versions of AgentBench: the one with function calls, and the earlier one with a text protocol."""


@dataclass(frozen=True, slots=True)
class CategoryFiles:
    """The files of one of upstream's folders, by their names in the folder."""

    folder: str
    tree: Tree
    # The user's path, which the files were found at.
    path: Path
    notify: Callable[[str], None]
    # The SHA-256 (hex) of each file that has rows or is needed by them, which `note` adds.
    digests: dict[str, str] = field(default_factory=dict)

    @property
    def names(self) -> Iterable[str]:
        return self.tree.names

    def read(self, name: str) -> bytes:
        """Return the content of a file that `Category.is_needed` selects, and note its digest."""
        data = self.tree.contents[name]
        self.note(name, hashlib.sha256(data).hexdigest())
        return data

    def parse(self, name: str) -> list[Row]:
        """Return the rows of a JSON or JSON Lines file. Raises DataError, with the file and the line."""
        return parse_rows(self.read(name), self.tree.places[name])

    def note(self, name: str, sha256: str) -> None:
        """Note the digest of a file, so that the run can show which data it used."""
        self.digests[f"{self.folder}/{name}"] = sha256


@dataclass(frozen=True, slots=True)
class CategoryOptions:
    """The options of a run for one category."""

    protocol: Protocol
    # The category's own options, an instance of `Category.options`.
    own: Any


class NoOptions(Options):
    """The options of a category that has none."""


def mean_score(results: Sequence[TaskResult]) -> float:
    """Return the mean of the tasks' scores."""
    return sum(result.score for result in results) / len(results)


@dataclass(frozen=True, slots=True, kw_only=True)
class Category:
    """One category, which a module of `worlds` declares as CATEGORY."""

    name: str
    facts: CategoryFacts
    # Upstream's folders in `data/`.
    folders: tuple[str, ...]
    # Returns whether a file of the folder, by its name there, is read into memory.
    is_needed: Callable[[str], bool]
    # Returns the rows of a folder. Each row has the field `task_id`, and a field by which `owns` knows it.
    rows: Callable[[CategoryFiles, CategoryOptions], Iterator[Row]]
    # Returns whether a row is one of upstream's records of this category, by its fields.
    owns: Callable[[Row], bool]
    # Returns the task and the reference of such a row. It raises DataError with the row's place.
    read: Callable[[Row, CategoryOptions], tuple[Task, Reference]]
    # The ends of names by which a single file, or a folder of any name with one, is known as the category's.
    # Their contents may be other than JSON, or too large to read.
    suffixes: tuple[str, ...] = ()
    # Returns whether `rows` must read a single JSON or JSON Lines file, which it gets whole, because a row of
    # it is no task, or lacks the facts that `rows` adds.
    reads_file: Callable[[Sequence[Row]], bool] = lambda _rows: False
    # Returns whether there are tasks although the data have no folder of the category. It gets the
    # category's own options, and whether the user named the category.
    needs_no_folder: Callable[[Any, bool], bool] = lambda _own, _named: False
    # Returns the reason why a task, by its id, is not sound, or None.
    why_quarantined: Callable[[str], str | None] = lambda _task_id: None
    # Returns the reason why a reference of this category is not sound, or None. It gets all references.
    why_unsound: Callable[[Reference], str | None] = lambda _reference: None
    # Returns a notice about the tasks of the category, or None. It gets the category's own options, and True
    # if the tasks are those of the bundled sample.
    find_notice: Callable[[Any, bool], str | None] = lambda _own, _is_bundled: None
    options: type[Options] = NoOptions
    # Returns the model that the environment asks for judgements with the category's own options, or None.
    judge: Callable[[Any], str | Endpoint | None] = lambda _own: None
    # The number of turns in each protocol, None for the environment's own.
    turns: Mapping[str, int] = field(default_factory=dict)
    # The score of the category from the results of its tasks, of which there is at least one.
    score: Callable[[Sequence[TaskResult]], float] = mean_score
    # The words for `score` in reports.
    measure: str = "mean score"
    # The metrics of verdicts that `score` reads.
    score_metrics: tuple[str, ...] = ()


CATEGORIES = ("os", "db", "kg", "web", "card", "lateral", "house")

WEB_BROWSING = "mind2web"
"""Upstream's eighth category, which is browsing recorded web pages."""

FOLDERS = {
    "os_interaction": "os",
    "dbbench": "db",
    "knowledgegraph": "kg",
    "webshop": "web",
    "card_game": "card",
    "lateralthinkingpuzzle": "lateral",
    "lateralthinkingpuzzle_zh": "lateral",
    "alfworld": "house",
}
"""The category of each folder in upstream's `data/`."""

_ALIASES = {
    "os": ("os", "os interaction", "operating system"),
    "db": ("db", "dbbench", "database"),
    "kg": ("kg", "knowledge graph", "freebase"),
    "web": ("web", "ws", "web shop", "web shopping"),
    "card": ("card", "cg", "dcg", "card game", "digital card game", "aquawar"),
    "lateral": ("lateral", "ltp", "lateral thinking", "lateral thinking puzzle", "lateral thinking puzzles"),
    "house": ("house", "hh", "household", "householding", "house holding", "alf", "af", "alfworld"),
    WEB_BROWSING: (WEB_BROWSING, "mind 2 web", "m2w", "wb", "web browsing"),
}
_NAMES = {alias.replace(" ", ""): category for category, names in _ALIASES.items() for alias in names}


def category_of(environment: str) -> str | None:
    """Return the category for an environment's name as people write it, or None for an unknown name.

    Case, blanks, dashes and underscores do not matter.
    """
    return _NAMES.get(re.sub(r"[\s_-]+", "", environment).lower())
