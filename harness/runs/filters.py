"""The filters of a run: the tasks of a benchmark with the wanted ids, categories, difficulties and tags."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from harness.benchmarks.benchmark import Benchmark
from harness.core.errors import UsageError, unknown_name, unknown_task
from harness.core.types import Task
from harness.runs.records import PlannedAttempt, list_task_ids
from harness.runs.settings import RunConfig
from harness.runs.settings.tasks import read_shard

_SHOWN_CHARACTERS = 400


@dataclass(frozen=True, slots=True)
class TaskFilters:
    """The wanted tasks. An empty field selects all, and a task has to satisfy every field."""

    task_ids: Sequence[str] = ()
    # A label of a task counts as a category. Several names of one kind select tasks with any of them. Names
    # of several kinds select tasks that have one of each kind.
    categories: Sequence[str] = ()
    # A task needs any of them.
    difficulties: Sequence[str] = ()
    # A task needs all of them. Labels count as tags, as `value` and as `kind=value`.
    tags: Sequence[str] = ()

    @classmethod
    def of_config(cls, config: RunConfig) -> TaskFilters:
        return cls(config.task_ids, config.filter_category, config.filter_difficulty, config.filter_tags)


def filter_tasks(benchmark: Benchmark, filters: TaskFilters) -> list[Task]:
    """Return the tasks that pass the filters, in the order of the data.

    Raises UsageError for an id, a category, a difficulty or a tag that no task has.
    """
    tasks = list(benchmark.tasks)
    if filters.task_ids:
        wanted = set(filters.task_ids)
        known = {task.id for task in tasks}
        for task_id in filters.task_ids:
            if task_id not in known:
                raise unknown_task(task_id, [task.id for task in tasks], place=benchmark.name)
        tasks = [task for task in tasks if task.id in wanted]
    if filters.categories:
        tasks = _filter_categories(benchmark, tasks, filters.categories)
    if filters.difficulties:
        tasks = _filter_difficulties(benchmark, tasks, filters.difficulties)
    if filters.tags:
        tasks = _filter_tags(benchmark, tasks, filters.tags)
    return tasks


def _filter_categories(benchmark: Benchmark, tasks: Sequence[Task], categories: Sequence[str]) -> list[Task]:
    find = benchmark.definition.find_category
    wanted = {find(category) or category.lower() for category in categories}
    _require_categories(benchmark, tasks, wanted)
    named = {kind for task in tasks for kind, name in _kinds(task).items() if name in wanted}
    return [task for task in tasks if all(_kinds(task).get(kind) in wanted for kind in named)]


def _kinds(task: Task) -> dict[str, str]:
    """Return the names that select a task, in lower case, by kind. The kind of the category is ""."""
    own = {"": task.category} if task.category else {}
    return {kind: name.lower() for kind, name in {**own, **task.labels}.items()}


def _require_categories(benchmark: Benchmark, tasks: Sequence[Task], wanted: set[str]) -> None:
    """Raise UsageError for a category that is unknown, or that no task has."""
    there = {name for task in tasks for name in _kinds(task).values()}
    known = there | {*benchmark.definition.categories}
    if not known:
        raise UsageError(f"{benchmark.name} has no categories", hint="leave out --filter-category")
    # A benchmark that declares its categories may have many labels, which would hide them.
    shown = benchmark.definition.categories or known
    for category in sorted(wanted & benchmark.definition.missing_categories.keys()):
        reason = benchmark.definition.missing_categories[category]
        raise UsageError(
            f"{benchmark.name} has no category '{category}' here: {reason}",
            hint=f"its categories: {', '.join(benchmark.definition.categories)}",
        )
    for category in sorted(wanted - known):
        raise _name_benchmark(unknown_name("category", category, shown), benchmark)
    for category in sorted(wanted - there):
        raise UsageError(
            f"{benchmark.name}: no selected task has the category {category}",
            hint=f"categories of the selected tasks: {', '.join(sorted(there)) or 'none'}",
        )


def _filter_difficulties(benchmark: Benchmark, tasks: Sequence[Task], names: Sequence[str]) -> list[Task]:
    known = {task.difficulty.lower() for task in benchmark.tasks if task.difficulty is not None}
    if not known:
        raise UsageError(f"{benchmark.name} publishes no difficulties", hint="leave out --filter-difficulty")
    there = {task.difficulty.lower() for task in tasks if task.difficulty is not None}
    wanted = {name.lower() for name in names}
    _require_known(benchmark, "difficulty", wanted, known=known, there=there)
    return [task for task in tasks if task.difficulty is not None and task.difficulty.lower() in wanted]


def list_tags(task: Task) -> frozenset[str]:
    """Return the tags of a task, in lower case: its own, and its labels as `value` and as `kind=value`."""
    labels = (text for kind, value in task.labels.items() for text in (value, f"{kind}={value}"))
    return frozenset(text.lower() for text in (*task.tags, *labels))


def _filter_tags(benchmark: Benchmark, tasks: Sequence[Task], names: Sequence[str]) -> list[Task]:
    known = frozenset[str]().union(*map(list_tags, benchmark.tasks))
    if not known:
        raise UsageError(f"{benchmark.name} has no tags", hint="leave out --filter-tags")
    wanted = {name.lower() for name in names}
    there = frozenset[str]().union(*map(list_tags, tasks))
    _require_known(benchmark, "tag", wanted, known=known, there=there)
    tagged = [task for task in tasks if wanted <= list_tags(task)]
    if tasks and not tagged:
        raise UsageError(
            f"{benchmark.name}: no selected task has all of the tags {', '.join(sorted(wanted))}",
            hint="leave out one of them, because a task needs every tag that --filter-tags names",
        )
    return tagged


def _require_known(
    benchmark: Benchmark, kind: str, wanted: set[str], *, known: Collection[str], there: Collection[str]
) -> None:
    """Raise UsageError for a name that no task of the benchmark has, or that no selected one has."""
    for name in sorted(wanted.difference(known)):
        raise _name_benchmark(unknown_name(kind, name, known), benchmark)
    for name in sorted(wanted.difference(there)):
        shown = ", ".join(sorted(there)) or "none"
        raise UsageError(
            f"{benchmark.name}: no selected task has the {kind} {name}",
            hint=_cut(f"{kind} of the selected tasks: {shown}"),
        )


def _name_benchmark(error: UsageError, benchmark: Benchmark) -> UsageError:
    return UsageError(f"{benchmark.name}: {error.message}", hint=_cut(error.hint or ""))


def _cut(hint: str) -> str:
    return hint if len(hint) < _SHOWN_CHARACTERS else f"{hint[:_SHOWN_CHARACTERS]} ..."


def select_shard(plan: Sequence[PlannedAttempt], shard: str) -> list[PlannedAttempt]:
    """Return the attempts of one shard, in the order of the plan.

    The tasks are dealt out in turn, because neighbours in the data often take similar time. All attempts at a
    task are in one shard, because they share a sandbox. The plan depends on nothing but the config and the
    data, so every machine divides it in the same way.

    Args:
        plan: the attempts of the whole run.
        shard: the shard, such as `2/8`.

    Raises:
        UsageError: if there are more shards than tasks, whichever of them is selected.
    """
    part = set(list_shard_tasks(list_task_ids(plan), shard))
    return [each for each in plan if each.task.id in part]


def list_shard_tasks(task_ids: Sequence[str], shard: str) -> list[str]:
    """Return the tasks of one shard, by id, from the whole run's. Raises as `select_shard` does."""
    number, shards = read_shard(shard)
    tasks = len(task_ids)
    if shards > tasks:
        raise UsageError(
            f"--shard {shard}: the run selects {tasks:,} tasks, too few for {shards:,} shards",
            hint=f"divide it into at most {tasks:,} shards, for example --shard 1/{max(tasks, 1)}",
        )
    return list(task_ids[number - 1 :: shards])
