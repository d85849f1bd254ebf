"""Which attempts a run consists of: tasks selected, attempts numbered."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from harness.agents import Agent
from harness.benchmarks import Benchmark
from harness.errors import UsageError, unknown_name
from harness.model import Task


@dataclass(frozen=True, slots=True)
class PlannedAttempt:
    """One attempt to come. `number` counts from 0 within its task."""

    task: Task
    number: int
    sample_line: int | None

    @property
    def key(self) -> tuple[str, int]:
        return self.task.id, self.number


def select_tasks(
    benchmark: Benchmark,
    *,
    task_ids: Sequence[str] = (),
    categories: Sequence[str] = (),
    sample_size: int | None = None,
    seed: int = 0,
) -> list[Task]:
    """Return the selected tasks in the order of the data.

    Ids and categories narrow the choice, then `sample_size` draws from it with `seed`; it is an
    upper bound. Raises UsageError for an id or category that there is not.
    """
    tasks = list(benchmark.tasks)
    if task_ids:
        known = {task.id for task in tasks}
        for task_id in task_ids:
            if task_id not in known:
                raise _unknown(unknown_name("task", task_id, known), benchmark)
        tasks = [task for task in tasks if task.id in set(task_ids)]
    if categories:
        if not any(task.category for task in benchmark.tasks):
            raise UsageError(f"{benchmark.name} has no categories", hint="leave out --filter-category")
        known = {task.category.lower() for task in tasks if task.category}
        wanted = {category.lower() for category in categories}
        for category in sorted(wanted - known):
            raise _unknown(unknown_name("category", category, known), benchmark)
        tasks = [task for task in tasks if (task.category or "").lower() in wanted]
    if sample_size is not None and sample_size < len(tasks):
        chosen = set(random.Random(seed).sample(range(len(tasks)), sample_size))
        tasks = [task for place, task in enumerate(tasks) if place in chosen]
    return tasks


def plan_attempts(tasks: Sequence[Task], agent: Agent) -> list[PlannedAttempt]:
    """Return every attempt of the run, in task order."""
    return [
        PlannedAttempt(task, number, line)
        for task in tasks
        for number, line in enumerate(agent.sample_lines(task))
    ]


def _unknown(error: UsageError, benchmark: Benchmark) -> UsageError:
    hint = error.hint or ""
    return UsageError(
        f"{benchmark.name}: {error.message}", hint=hint if len(hint) < 400 else f"{hint[:400]} ..."
    )
