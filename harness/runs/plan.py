"""The plan of a run: the selected tasks, their numbered attempts, and the order that they start in."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness.benchmarks.benchmark import Benchmark
from harness.benchmarks.data.download import DownloadObserver
from harness.benchmarks.loading import load_with_options
from harness.benchmarks.programs import SubmitProgram
from harness.benchmarks.replies import CodeRule, holds_block
from harness.core.errors import UsageError, unknown_task
from harness.core.types import Task
from harness.runs.agents.agent import Agent, ChoosesSamples
from harness.runs.agents.predictions import Predictions
from harness.runs.attempt_index import ATTEMPTS
from harness.runs.filters import TaskFilters, filter_tasks
from harness.runs.records import PlannedAttempt
from harness.runs.run_names import find_run
from harness.runs.settings import RunConfig
from harness.runs.settings.agents import STATEMENT
from harness.runs.settings.attempts import MAX_TASK_SECONDS
from harness.runs.settings.tasks import Sampling
from harness.runs.store import read_records

CATEGORY, DIFFICULTY = "category", "difficulty"
# Fewer texts than one in this many may hold a fence for a reason, such as a docstring with an example.
_NOTICED = 10


def sample_tasks(
    tasks: Sequence[Task], size: int, *, sampling: Sampling, seed: int, stratify_by: str | None = None
) -> list[Task]:
    """Return a sample of tasks in the order of the data.

    Args:
        tasks: the tasks to draw from.
        size: the number of tasks to draw. A larger number than that of the tasks returns all.
        sampling: `sequential` takes the first tasks, `random` draws them. `stratified` draws from each
            stratum in proportion to its size, by the method of largest remainders.
        seed: the seed of the draws.
        stratify_by: the strata: `category`, `difficulty`, or the kind of a label. None means the
            category.

    Raises:
        UsageError: if no task has the value that `stratify_by` names.
    """
    strata = _group_by_stratum(tasks, stratify_by or CATEGORY) if sampling == "stratified" else {}
    if size >= len(tasks):
        return list(tasks)
    match sampling:
        case "sequential":
            return list(tasks[:size])
        case "random":
            chosen = set(random.Random(seed).sample(range(len(tasks)), size))
        case "stratified":
            chosen = set()
            for name, quota in share_out(size, {name: len(each) for name, each in strata.items()}).items():
                # A permutation, so that a larger sample with the same seed keeps most tasks of a smaller one.
                order = strata[name].copy()
                random.Random(f"{seed}/{name}").shuffle(order)
                chosen.update(order[:quota])
    return [task for place, task in enumerate(tasks) if place in chosen]


def share_out(size: int, strata: Mapping[str, int]) -> dict[str, int]:
    """Return the number of tasks to draw from each stratum, by the method of largest remainders.

    `strata` has the number of tasks in each stratum; `size` is at most their sum. Of equal remainders that
    of the larger stratum comes first, then the first by name.
    """
    whole = sum(strata.values())
    quotas = {name: size * number // whole for name, number in strata.items()}
    by_remainder = sorted(strata, key=lambda name: (-(size * strata[name] % whole), -strata[name], name))
    for name in by_remainder[: size - sum(quotas.values())]:
        quotas[name] += 1
    return quotas


def read_strata(task: Task) -> dict[str, str]:
    """Return the values by which a task can be stratified, by kind."""
    known = {CATEGORY: task.category, DIFFICULTY: task.difficulty}
    return {**task.labels, **{kind: value for kind, value in known.items() if value is not None}}


def _group_by_stratum(tasks: Sequence[Task], kind: str) -> dict[str, list[int]]:
    """Return the places of the tasks in each stratum. Tasks without a value form one of their own."""
    strata: dict[str, list[int]] = {}
    for place, task in enumerate(tasks):
        strata.setdefault(read_strata(task).get(kind, ""), []).append(place)
    if tasks and not strata.keys() - {""}:
        kinds = {name for task in tasks for name in read_strata(task)}
        if not kinds:
            raise UsageError(
                "the selected tasks have no category, difficulty or label to stratify by",
                hint="leave out --sampling stratified",
            )
        hint = f"--stratify-by takes what the tasks have: {', '.join(sorted(kinds))}"
        raise UsageError(f"no selected task has a {kind} to stratify by", hint=hint)
    return strata


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
        sampling: how they are taken.
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


def load_configured(
    config: RunConfig,
    *,
    notify: Callable[[str], None] = lambda _note: None,
    observer: DownloadObserver | None = None,
    sample_stands_in: bool = True,
    categories: Sequence[str] | None = None,
) -> Benchmark:
    """Return the benchmark of a config, as `load_benchmark` does.

    `categories` are those whose data are read, None for the ones that the config selects.
    """
    return load_with_options(
        config.benchmark,
        config.options,
        data=config.data,
        split=config.split,
        notify=notify,
        observer=observer,
        sample_stands_in=sample_stands_in,
        extract=config.extract,
        categories=config.filter_category if categories is None else categories,
    )


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


def limit_times(tasks: Sequence[Task], seconds: int | None, multiplier: float) -> list[Task]:
    """Return the tasks with the limits of a run: `seconds`, or their own limits times `multiplier`.

    Tasks that set no limits stay as they are.
    """

    def limit(own: float | None) -> float | None:
        return None if own is None else min(seconds or own * multiplier, MAX_TASK_SECONDS)

    return [
        task
        if task.agent_seconds is None and task.tests_seconds is None
        else replace(task, agent_seconds=limit(task.agent_seconds), tests_seconds=limit(task.tests_seconds))
        for task in tasks
    ]


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


def require_sound(benchmark: Benchmark, tasks: Sequence[Task], *, named: Sequence[str]) -> None:
    """Raise UsageError if a named task is quarantined, or if all tasks are."""
    hint = "add --include-quarantined to run it" if benchmark.definition.runs_quarantined else None
    for task_id in named:
        if task_id in benchmark.quarantined:
            reason = benchmark.quarantined[task_id]
            raise UsageError(f"{benchmark.name}: task {task_id} is quarantined: {reason}", hint=hint)
    if tasks and all(task.id in benchmark.quarantined for task in tasks):
        first = f"{tasks[0].id}: {benchmark.quarantined[tasks[0].id]}"
        raise UsageError(f"{benchmark.name}: every selected task is quarantined, such as {first}", hint=hint)


def describe_samples(benchmark: Benchmark, tasks: Sequence[Task], agent: ChoosesSamples) -> Iterator[str]:
    """Yield a notice for each thing about the samples that a user may not expect.

    Args:
        benchmark: the benchmark of the samples.
        tasks: the selected tasks.
        agent: the agent that submits the samples.
    """
    yield from _describe_unused(benchmark, tasks, agent)
    if isinstance(agent, Predictions):
        yield from _describe_fences(benchmark, tasks, agent)


def _describe_fences(benchmark: Benchmark, tasks: Sequence[Task], agent: Predictions) -> Iterator[str]:
    """Yield a notice for each field with many texts that hold fences no rule takes out."""
    submit = benchmark.definition.submit
    if not isinstance(submit, SubmitProgram) or submit.chosen is not None:
        return
    number: Counter[str] = Counter()
    fenced: Counter[str] = Counter()
    for task in tasks:
        for field, text in agent.texts(task):
            if submit.rule_of(field) is CodeRule.NONE:
                number[field] += 1
                fenced[field] += holds_block(text)
    for field in sorted(fenced):
        if fenced[field] * _NOTICED >= number[field] and fenced[field]:
            yield f"{fenced[field]:,} of {number[field]:,} {field}s hold ``` fences: say --extract fenced"


def _describe_unused(benchmark: Benchmark, tasks: Sequence[Task], agent: ChoosesSamples) -> Iterator[str]:
    """Yield the notice about samples of tasks that are not selected, with the reasons."""
    selected = {task.id for task in tasks}
    left_out: Counter[str] = Counter()
    number = 0
    for task in benchmark.tasks:
        samples = sum(line is not None for line in agent.samples(task))
        number += samples
        if samples and task.id not in selected:
            reason = "quarantined tasks" if task.id in benchmark.quarantined else "unselected tasks"
            left_out[reason] += samples
    if left_out:
        reasons = ", ".join(f"{count:,} for {reason}" for reason, count in sorted(left_out.items()))
        yield f"samples that are not used: {left_out.total():,} of {number:,} ({reasons})"


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


def read_durations(folder: Path) -> dict[str, float]:
    """Return the seconds of the longest attempt at each task of a run, by task id. Raises UsageError."""
    durations: dict[str, float] = {}
    for record, _size in read_records(folder / ATTEMPTS):
        durations[record.task_id] = max(record.duration_seconds, durations.get(record.task_id, 0.0))
    return durations


def find_durations(config: RunConfig) -> tuple[RunConfig, dict[str, float]]:
    """Return the config with an absolute path as `durations_from`, and the durations of that run.

    Raises UsageError for a run that does not exist or cannot be read.
    """
    if config.durations_from is None:
        return config, {}
    folder = find_run(config.durations_from, Path(config.output_dir)).absolute()
    return config.model_copy(update={"durations_from": str(folder)}), read_durations(folder)


def order_by_duration(
    plan: Sequence[PlannedAttempt], durations: Mapping[str, float]
) -> Sequence[PlannedAttempt]:
    """Return a plan with the longest tasks first, so that no long task keeps a run going at its end.

    Tasks without a known duration come before all others, because each of them may be the longest. The
    attempts at one task stay together.
    """
    if not durations:
        return plan
    return sorted(plan, key=lambda planned: -durations.get(planned.task.id, float("inf")))


def describe_unknown(
    plan: Sequence[PlannedAttempt], durations: Mapping[str, float], notify: Callable[[str], None]
) -> None:
    """Report how many tasks of a plan have no known duration. Raises UsageError if none has one."""
    tasks = {planned.task.id for planned in plan}
    unknown = tasks.difference(durations)
    if tasks and len(unknown) == len(tasks):
        raise UsageError(
            "the run that --durations-from names has no attempt at any of the selected tasks",
            hint="name a run of the same benchmark, or leave it out",
        )
    if unknown:
        notify(f"tasks without a known duration, which start first: {len(unknown):,} of {len(tasks):,}")
