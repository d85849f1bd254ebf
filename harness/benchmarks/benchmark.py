"""What every benchmark is: how its rows become tasks and references, and how answers become programs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.data.hub import HubDataset
from harness.data.rows import Row
from harness.environments.world import World
from harness.model import DataSource, Reference, Submission, Task


@dataclass(frozen=True, slots=True)
class Definition:
    """A benchmark that can be loaded.

    `read` turns one row into a task and its reference, and raises DataError with the row's place.
    `submit` turns what a samples file holds (`completion` or `solution`, and its text) into a
    submission. `environments` name the worlds that its tasks live in. `play` is for those in which an
    agent acts: it does there what the reference says, as the oracle.
    """

    name: str
    description: str
    environments: tuple[str, ...]
    tasks: int
    licence: str
    hub: HubDataset
    bundled: str
    read: Callable[[Row], tuple[Task, Reference]]
    submit: Callable[[Task, str, str], Submission]
    play: Callable[[Task, Reference, World], Awaitable[Submission]] | None = None


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A loaded benchmark. `tasks` are in the order of the data; `rows` are the data as published."""

    definition: Definition
    tasks: tuple[Task, ...]
    references: Mapping[str, Reference]
    rows: Mapping[str, Mapping[str, Any]]
    source: DataSource

    @property
    def name(self) -> str:
        return self.definition.name

    def submission(self, task: Task, field: str, text: str) -> Submission:
        """Return what `text`, given as the field `completion` or `solution`, hands in for `task`."""
        return self.definition.submit(task, field, text)


def read_all(definition: Definition, rows: Sequence[Row], source: DataSource) -> Benchmark:
    """Read every row. Raises DataError for the first broken one and for a task id given twice."""
    tasks: list[Task] = []
    references: dict[str, Reference] = {}
    values: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        task, reference = definition.read(row)
        if task.id in references:
            raise row.error(f"task id {task.id} is used twice", field="task_id")
        tasks.append(task)
        references[task.id] = reference
        values[task.id] = row.values
    return Benchmark(definition, tuple(tasks), references, values, source)
