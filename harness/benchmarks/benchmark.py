"""What every benchmark is: how its rows become tasks and references, and how answers become programs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.data.hub import HubDataset
from harness.data.rows import Row
from harness.data.source import Gather
from harness.environments.world import World
from harness.model import DataSource, Reference, Submission, Task, Verdict


@dataclass(frozen=True, slots=True)
class NotBuilt:
    """A row of a category that there is no environment for yet. It is refused by name where it is chosen."""

    task_id: str
    category: str


@dataclass(frozen=True, slots=True)
class Definition:
    """A benchmark that can be loaded.

    `read` turns one row into a task and its reference, and raises DataError with the row's place.
    `submit` turns what a samples file holds (`completion` or `solution`, and its text) into a
    submission. `environments` name the worlds that its tasks live in. `play` is for those in which an
    agent acts: it does there what the reference says, as the oracle.

    `gather` reads what lies at a path, where a benchmark is more than one file. `categories` are all
    that it may have, `not_built` those of them that cannot be run yet. `why_quarantined` says of a
    task id why that task is not sound, None where it is. `scores` turns what was resolved, by task
    id, into scores of the benchmark's own, and `metrics` says of a verdict what the benchmark adds.
    """

    name: str
    description: str
    environments: tuple[str, ...]
    tasks: int
    licence: str
    hub: HubDataset
    bundled: str
    read: Callable[[Row], tuple[Task, Reference] | NotBuilt]
    submit: Callable[[Task, str, str], Submission]
    play: Callable[[Task, Reference, World], Awaitable[Submission]] | None = None
    categories: tuple[str, ...] = ()
    not_built: frozenset[str] = frozenset()
    gather: Gather | None = None
    why_quarantined: Callable[[str], str | None] = lambda _task_id: None
    scores: Callable[[Benchmark, Mapping[str, bool]], Mapping[str, Any]] | None = None
    metrics: Callable[[Verdict], Mapping[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A loaded benchmark. `tasks` are in the order of the data; `rows` are the data as published.

    `not_built` has the categories, by task id, of what cannot be run; `quarantined` the tasks, by
    their ids, that are not sound, and why.
    """

    definition: Definition
    tasks: tuple[Task, ...]
    references: Mapping[str, Reference]
    rows: Mapping[str, Mapping[str, Any]]
    source: DataSource
    not_built: Mapping[str, str] = field(default_factory=dict)
    quarantined: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.definition.name

    def submission(self, task: Task, field: str, text: str) -> Submission:
        """Return what `text`, given as the field `completion` or `solution`, hands in for `task`."""
        return self.definition.submit(task, field, text)

    def completed(self, verdict: Verdict) -> Verdict:
        """Return the verdict with the metrics that the benchmark adds to every one."""
        if self.definition.metrics is None:
            return verdict
        return replace(verdict, metrics={**verdict.metrics, **self.definition.metrics(verdict)})

    def scores(self, resolved: Mapping[str, bool]) -> Mapping[str, Any]:
        """Return the benchmark's own scores of what was resolved, by task id; {} where it has none."""
        return {} if self.definition.scores is None else self.definition.scores(self, resolved)


def read_all(definition: Definition, rows: Sequence[Row], source: DataSource) -> Benchmark:
    """Read every row. Raises DataError for the first broken one and for a task id given twice."""
    tasks: list[Task] = []
    references: dict[str, Reference] = {}
    values: dict[str, Mapping[str, Any]] = {}
    not_built: dict[str, str] = {}
    for row in rows:
        read = definition.read(row)
        task_id = read.task_id if isinstance(read, NotBuilt) else read[0].id
        if task_id in references or task_id in not_built:
            raise row.error(f"task id {task_id} is used twice", field="task_id")
        if isinstance(read, NotBuilt):
            not_built[task_id] = read.category
            continue
        task, reference = read
        tasks.append(task)
        references[task.id] = reference
        values[task.id] = row.values
    quarantined = {
        task.id: reason for task in tasks if (reason := definition.why_quarantined(task.id)) is not None
    }
    return Benchmark(definition, tuple(tasks), references, values, source, not_built, quarantined)
