"""A category of AgentBench: its files, its records, its oracle and its score.

The folder of its environment declares it, as CATEGORY in `category.py`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Literal

from harness.benchmarks.benchmark import CategoryFacts, Rehearsal, TaskResult
from harness.benchmarks.data.local import parse_rows
from harness.benchmarks.data.rows import Row, describe
from harness.benchmarks.data.tree import Tree
from harness.benchmarks.options import Options
from harness.core.types import PlainData, Reference, Task
from harness.models.endpoint import Endpoint

Protocol = Literal["own", "fc", "v0.2"]
"""`own` has our tools and the limits of `fc`, AgentBench's function calls. `v0.2` has the limits of the
earlier version, which has a text protocol."""

_SUFFIX = re.compile(r"\.jsonl?(\.gz)?$", re.IGNORECASE)
FLAT_PROMPT = """\
{end}

Task: {task}
"""


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


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one task."""

    category: str
    result: TaskResult
    # The kind of the task, for a category whose score depends on it (`Category.find_kind`).
    kind: str | None = None
    # Whether the task is a flat record. Its answer is judged as a text, not by its environment.
    is_flat: bool = False


def mean_score(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the mean of the tasks' scores."""
    return {"score": sum(outcome.result.score for outcome in outcomes) / len(outcomes)}


def success_rate(outcomes: Sequence[Outcome]) -> float:
    """Return the share of tasks that are resolved."""
    return sum(outcome.result.resolved for outcome in outcomes) / len(outcomes)


async def submit_solution(_environment: Any, reference: Reference) -> str:
    """Return the reference's solution as the answer, without any act in the environment."""
    return reference.solution


def name_record(row: Row, category: str) -> str:
    """Return the record's id, or its category, file and place from 0, as in `db/dev/17`. Raises DataError."""
    task_id = row.values.get("task_id")
    if task_id is None:
        place = row.line if row.item is None else row.item
        stem = _SUFFIX.sub("", PurePath(row.path).name)
        return f"{category}/{stem}" if place is None else f"{category}/{stem}/{place - 1}"
    if isinstance(task_id, bool) or not isinstance(task_id, str | int) or task_id == "":
        raise row.error(f"needs a string, found {describe(task_id)}", field="task_id")
    return str(task_id)


def solve_by_target(
    solve: Callable[[Any, Any], Awaitable[str]],
) -> Callable[[Any, Reference], Awaitable[str]]:
    """Return the oracle that gets the whole reference, for one that gets its target alone."""
    return lambda environment, reference: solve(environment, reference.target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Category:
    """One category. It has the name of its environment."""

    name: str
    # The place of the category in reports.
    place: int
    # The divisor of its score in the score over all categories: the mean of the paper's models, 0 to 100.
    weight: float
    # Further names that people use for it, in lower case.
    aliases: tuple[str, ...]
    facts: CategoryFacts
    # Upstream's folders in `data/`.
    folders: tuple[str, ...]
    # Returns whether a file of the folder, by its name there, is read into memory.
    is_needed: Callable[[str], bool]
    # Returns the rows of a folder. Each row has the field `task_id`, and a field that `owns` knows it by.
    rows: Callable[[CategoryFiles, CategoryOptions], Iterator[Row]]
    # Returns whether a row is one of upstream's records of this category, by its fields.
    owns: Callable[[Row], bool]
    # Returns the task and the reference of such a row. It raises DataError with the row's place.
    read: Callable[[Row, CategoryOptions], tuple[Task, Reference]]
    # A single file whose name ends in one of these is the category's, and so is a folder with one. The
    # contents may be other than JSON, or too large to read.
    suffixes: tuple[str, ...] = ()
    # Returns whether `rows` must read a single JSON or JSON Lines file, which it gets whole, because a row of
    # it is not a task, or lacks the facts that `rows` adds.
    reads_file: Callable[[Sequence[Row]], bool] = lambda _rows: False
    # Returns whether there are tasks although the data have no folder of the category. It gets the
    # category's own options, and whether the user named the category.
    needs_no_folder: Callable[[Any, bool], bool] = lambda _own, _named: False
    # Returns whether only a folder of this category has a file with this path. Such a file tells the category
    # of a folder, whatever the name of the folder.
    is_only_here: Callable[[str], bool] = lambda _name: False
    # Returns the folder around a single file of records if `rows` needs other files of that folder, or None.
    # It gets the path of the file.
    find_home: Callable[[Path], Path | None] = lambda _path: None
    # The prompt of a flat record, with the places {end} and {task}, and the set-up of its environment.
    flat_prompt: str = FLAT_PROMPT
    flat_setup: PlainData | None = None
    # Acts in the environment as the oracle, by the reference, and returns the answer to submit.
    solve: Callable[[Any, Reference], Awaitable[str]] = submit_solution
    # Returns the reason why a task, by its id, is not sound, or None.
    why_quarantined: Callable[[str], str | None] = lambda _task_id: None
    # Returns the reason why a reference of this category is not sound, or None. It gets all references.
    why_unsound: Callable[[Reference], str | None] = lambda _reference: None
    # Tries the references in sandboxes before a run, None if they need no trial.
    rehearse: Rehearsal | None = None
    # Returns how the check of a task judges, in words, or None. It gets all references.
    find_manner: Callable[[Reference], str | None] = lambda _reference: None
    # Returns a notice about the tasks of the category, or None. It gets the category's own options, and True
    # if the tasks are the bundled sample's.
    find_notice: Callable[[Any, bool], str | None] = lambda _own, _is_bundled: None
    options: type[Options] = NoOptions
    # Returns the model that the environment asks for judgements with the category's own options, or None.
    judge: Callable[[Any], str | Endpoint | None] = lambda _own: None
    # The number of turns in each protocol, None for the environment's own. `own` has the number of `fc`, and
    # the environment of a category with `fc` has a `Published` for its tools.
    turns: Mapping[str, int] = field(default_factory=dict)
    # Returns the kind of a task by the values of its row.
    find_kind: Callable[[Mapping[str, Any]], str | None] = lambda _values: None
    # Returns the `score` of the category, and further figures of its own, from at least one task.
    score: Callable[[Sequence[Outcome]], Mapping[str, Any]] = mean_score
    # The words for `score` in reports.
    measure: str = "mean score"
    # The metrics of verdicts that `score` reads.
    score_metrics: tuple[str, ...] = ()
