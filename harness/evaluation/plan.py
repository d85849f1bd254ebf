"""The plan of a run: the selected tasks and their numbered attempts."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from harness.agents import Agent, ChoosesSamples
from harness.benchmarks import Benchmark
from harness.config import STATEMENT, RunConfig, Sampling
from harness.errors import UsageError, unknown_task
from harness.evaluation.filters import TaskFilters, filter_tasks
from harness.evaluation.sampling import read_strata, sample_tasks
from harness.types import Task


@dataclass(frozen=True, slots=True)
class PlannedAttempt:
    """One attempt to make. `number` counts from 0 within its task, `sample_line` from 1 in the file.

    Its seeds are computed when they are used, because a plan may have very many attempts.
    """

    task: Task
    number: int
    sample_line: int | None
    run_seed: int = 0
    # The cluster of its task if the run clusters tasks by a field, else None.
    cluster: str | None = None

    @property
    def seed(self) -> int:
        """The seed that the agent gets."""
        return _derive_seed(f"{self.run_seed}/{self.task.id}/{self.number}")

    @property
    def environment_seed(self) -> int:
        """The seed of what the environment draws. The agent does not get it."""
        return _derive_seed(f"environment/{self.run_seed}/{self.task.id}/{self.number}")

    @property
    def key(self) -> tuple[str, int]:
        return self.task.id, self.number


def select_tasks(
    benchmark: Benchmark,
    filters: TaskFilters | None = None,
    *,
    sample_size: int | None = None,
    sampling: Sampling = "random",
    stratify_by: str | None = None,
    seed: int = 0,
    include_quarantined: bool = False,
    recorded: Collection[str] | None = None,
) -> list[Task]:
    """Return the selected tasks in the order of the data.

    Args:
        benchmark: the benchmark to select from.
        filters: the wanted tasks, None for all.
        sample_size: the number of tasks to take from the tasks that are left, None for all.
        sampling: the way in which they are taken.
        stratify_by: the strata of `stratified`, None for the categories.
        seed: the seed of the draw.
        include_quarantined: whether quarantined tasks take part.
        recorded: the ids of the tasks that a recorded run has, None to select from all.

    Raises:
        UsageError: for a filter that no task passes, for one without an environment, for an id of a
            quarantined task or one that the recorded run lacks, and if all selected tasks are quarantined.
    """
    filters = filters or TaskFilters()
    tasks = filter_tasks(benchmark, filters)
    if recorded is not None:
        for task_id in filters.task_ids:
            if task_id not in recorded:
                raise unknown_task(task_id, recorded, place="the recorded run", which="with a verdict")
        tasks = [task for task in tasks if task.id in recorded]
    if not include_quarantined:
        require_sound(benchmark, tasks, named=filters.task_ids)
        tasks = [task for task in tasks if task.id not in benchmark.quarantined]
    if sample_size is not None:
        tasks = sample_tasks(tasks, sample_size, sampling=sampling, seed=seed, stratify_by=stratify_by)
    return tasks


def select_configured_tasks(
    benchmark: Benchmark, config: RunConfig, *, recorded: Collection[str] | None = None
) -> list[Task]:
    """Return the tasks that a config selects, as `select_tasks` does."""
    return select_tasks(
        benchmark,
        TaskFilters.of_config(config),
        sample_size=config.sample_size,
        sampling=config.sampling,
        stratify_by=config.stratify_by,
        seed=config.seed,
        include_quarantined=config.include_quarantined,
        recorded=recorded,
    )


def list_quarantined(benchmark: Benchmark, filters: TaskFilters | None = None) -> dict[str, str]:
    """Return the reason for each quarantined task among those that pass the filters, by id."""
    return {
        task.id: benchmark.quarantined[task.id]
        for task in filter_tasks(benchmark, filters or TaskFilters())
        if task.id in benchmark.quarantined
    }


def replace_prompts(tasks: Sequence[Task], prompt: str) -> list[Task]:
    """Return the tasks with the user's own prompt, in which each problem replaces {problem_statement}.

    Each task keeps its old prompt as its statement, because a completion still continues that. It loses its
    instruction, because the user's prompt says how to answer.
    """
    prompted = []
    for task in tasks:
        statement = task.prompt if task.statement is None else task.statement
        prompted.append(
            replace(task, prompt=prompt.replace(STATEMENT, statement), statement=statement, instruction="")
        )
    return prompted


def plan_attempts(
    tasks: Sequence[Task], agent: Agent, *, n_samples: int = 1, seed: int = 0
) -> list[PlannedAttempt]:
    """Return every attempt in task order: `n_samples` at each task, or as many as the agent decides."""
    return [
        PlannedAttempt(task, number, line, seed)
        for task in tasks
        for number, line in enumerate(
            agent.samples(task) if isinstance(agent, ChoosesSamples) else [None] * n_samples
        )
    ]


def name_clusters(plan: Sequence[PlannedAttempt], cluster_by: str | None) -> list[PlannedAttempt]:
    """Return the plan with the cluster of each task: its value of the field `cluster_by`.

    A task without a value is a cluster of its own. Raises UsageError if no task has one.
    """
    if cluster_by is None:
        return [*plan]
    named = [replace(each, cluster=read_strata(each.task).get(cluster_by)) for each in plan]
    if plan and all(each.cluster is None for each in named):
        kinds = sorted({kind for each in plan for kind in read_strata(each.task)})
        raise UsageError(
            f"no selected task has a {cluster_by} to cluster by",
            hint=f"--cluster-by takes what the tasks have: {', '.join(kinds)}" if kinds else "leave it out",
        )
    return named


def list_task_ids(plan: Sequence[PlannedAttempt]) -> list[str]:
    """Return the ids of the tasks in a plan, each once, in the order of the plan."""
    return list(dict.fromkeys(planned.task.id for planned in plan))


def _derive_seed(name: str) -> int:
    """Return the seed of this name, from 0 to 2**31 - 1, which every model API accepts."""
    return int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:4]) >> 1


def require_sound(benchmark: Benchmark, tasks: Sequence[Task], *, named: Sequence[str]) -> None:
    """Raise UsageError if a named task is quarantined, or if all tasks are."""
    hint = "add --include-quarantined to run it"
    for task_id in named:
        if task_id in benchmark.quarantined:
            reason = benchmark.quarantined[task_id]
            raise UsageError(f"{benchmark.name}: task {task_id} is quarantined: {reason}", hint=hint)
    if tasks and all(task.id in benchmark.quarantined for task in tasks):
        raise UsageError(f"{benchmark.name}: every selected task is quarantined", hint=hint)


def describe_unused_samples(benchmark: Benchmark, tasks: Sequence[Task], agent: ChoosesSamples) -> str | None:
    """Return how many samples of `agent` are not used, and the reasons, or None if all are used.

    Args:
        benchmark: the benchmark of the samples.
        tasks: the selected tasks.
        agent: the agent that submits the samples.
    """
    selected = {task.id for task in tasks}
    left_out: Counter[str] = Counter()
    number = 0
    for task in benchmark.tasks:
        samples = sum(line is not None for line in agent.samples(task))
        number += samples
        if samples and task.id not in selected:
            left_out["quarantined tasks" if task.id in benchmark.quarantined else "unselected tasks"] += (
                samples
            )
    if not left_out:
        return None
    reasons = ", ".join(f"{count:,} for {reason}" for reason, count in sorted(left_out.items()))
    return f"samples that are not used: {left_out.total():,} of {number:,} ({reasons})"


def require_attempts(plan: Sequence[PlannedAttempt], ks: Sequence[int]) -> None:
    """Raise UsageError if no task has as many attempts as the largest k of pass@k needs."""
    attempts = Counter(planned.task.id for planned in plan)
    most, k = max(attempts.values(), default=0), max(ks, default=1)
    if attempts and most < k:
        raise UsageError(
            f"--k {k}: pass@{k} needs {k} attempts at a task, but no task has more than {most}",
            hint=f"leave out --k {k}, or add attempts: {k} lines for a task in --samples, "
            f"or harness run --n-samples {k}",
        )


def require_solutions(benchmark: Benchmark, tasks: Sequence[Task], *, agent: str) -> None:
    """Raise UsageError if none of the tasks has a reference solution that the agent could submit."""
    if any(benchmark.references[task.id].solution for task in tasks):
        return
    model = benchmark.definition.options
    own = (
        "--option solutions=FILE.jsonl, or "
        if model is not None and "solutions" in model.model_fields
        else ""
    )
    raise UsageError(
        f"agent '{agent}' needs reference solutions, but {benchmark.name} publishes none for these tasks",
        hint=f"add {own}grade samples: harness grade -b {benchmark.name} --samples FILE.jsonl",
    )
