"""The selection of a run: its benchmark, its agent and its plan, before anything is started or written."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.benchmarks import Benchmark
from harness.core.errors import UsageError
from harness.core.text import escape_terminal
from harness.environments import EnvironmentSpec, environment_spec
from harness.models.endpoint import Endpoint
from harness.runs.agents import (
    Agent,
    ChoosesSamples,
    build_agent,
    name_agent,
    settings_for,
    wrap_outside_agent,
)
from harness.runs.agents.client import CLIENT
from harness.runs.durations import describe_unknown, find_durations
from harness.runs.executors.ray_support import refuse_unsupported
from harness.runs.filters import TaskFilters
from harness.runs.images_needed import list_images
from harness.runs.model_access import (
    find_endpoint,
    find_judge,
)
from harness.runs.plan import (
    PlannedAttempt,
    list_quarantined,
    load_configured,
    name_clusters,
    plan_attempts,
    replace_prompts,
    require_attempts,
    require_solutions,
    require_sound,
    select_configured_tasks,
)
from harness.runs.recorded_run import (
    RecordedRun,
    check_recording,
    open_recording,
)
from harness.runs.run_secrets import refuse_keys
from harness.runs.samples import describe_samples
from harness.runs.settings import RunConfig
from harness.runs.settings.attempts import MIN_TIMEOUT_SECONDS
from harness.runs.shards import select_shard
from harness.runs.unread import refuse_unread
from harness.runs.workspaces import Workspaces, add_workspace_limits, find_workspaces
from harness.sandbox.limits import Limits


@dataclass(frozen=True, slots=True)
class Selection:
    """The benchmark, the agent and the plan of a run, before anything is started or written."""

    config: RunConfig
    benchmark: Benchmark
    agent: Agent
    plan: list[PlannedAttempt]
    # These override all other limits in environments without an acting agent.
    program_limits: Limits | None = None
    # The model that the agent asks, None for a run without one.
    endpoint: Endpoint | None = None
    # The model that environments ask for judgements, None for a benchmark that needs none.
    judge: Endpoint | None = None
    # The run that the agent replays, None for every other agent.
    recording: RecordedRun | None = None
    # The seconds that tasks took in an earlier run, by task id, so that the longest start first.
    durations: Mapping[str, float] = field(default_factory=dict)

    @property
    def environments(self) -> list[EnvironmentSpec]:
        """The environments of the planned tasks."""
        return [
            environment_spec(name) for name in sorted({planned.task.environment for planned in self.plan})
        ]

    @property
    def images(self) -> list[str]:
        """The images that the run needs. A baseline opens no sandbox for a server alone."""
        workspaces = self.workspaces
        if self.config.baseline:
            workspaces = [each.without_servers_apart() for each in workspaces]
        return list_images(self.benchmark, (planned.task for planned in self.plan), workspaces)

    @property
    def workspaces(self) -> list[Workspaces]:
        """The sandboxes in which programs of the agent and of MCP servers run, by the environments."""
        return find_workspaces(self.agent, self.config.mcp_servers, self.environments)

    @property
    def quarantined(self) -> dict[str, str]:
        """The reason for each selected task that is quarantined, by id. The plan may leave them out."""
        return list_quarantined(self.benchmark, TaskFilters.of_config(self.config))

    def describe_tests(self) -> Iterator[str]:
        """Yield a line on each kind of tests that costs more than others, or proves less."""
        tasks = {planned.task.id: planned.task for planned in self.plan}
        own = self.benchmark.list_own_sandboxes(tasks.values())
        weak = self.benchmark.list_weak_tests(tasks.values())
        if own:
            task_id, reason = next(iter(own.items()))
            yield (
                f"{len(own)} of {len(tasks)} tasks get a container for each attempt, because their tests may "
                f"stop or branch by an answer, as in {task_id}: {reason}"
            )
        if weak:
            task_id, reason = next(iter(weak.items()))
            yield f"{len(weak)} of {len(tasks)} tasks have weak tests, as in {task_id}: {reason}"

    @property
    def timeout_seconds(self) -> int | None:
        """The wall limit of an attempt in seconds. None if the environments have different ones."""
        defaults = {spec.timeout_seconds for spec in self.environments} or {MIN_TIMEOUT_SECONDS}
        return self.config.timeout_seconds or (defaults.pop() if len(defaults) == 1 else None)

    def without(self, unsound: Mapping[str, str]) -> Selection:
        """Return the selection without tasks that are unsound for the reasons in `unsound`, by task id.

        Raises UsageError if the config names one of them, or if no other task is left.
        """
        if not unsound:
            return self
        benchmark = replace(self.benchmark, quarantined={**self.benchmark.quarantined, **unsound})
        tasks = list({planned.task.id: planned.task for planned in self.plan}.values())
        # A shard may have no sound task, because other shards have some.
        checked = tasks if self.config.shard is None else []
        require_sound(benchmark, checked, named=self.config.task_ids)
        plan = [planned for planned in self.plan if planned.task.id not in unsound]
        return replace(self, benchmark=benchmark, plan=plan)

    def limits(self, spec: EnvironmentSpec) -> Limits:
        """Return the limits of an environment's sandboxes: its own, overridden by those of the config."""
        limits = {**spec.limits.model_dump(), **self.config.limits.model_dump(exclude_unset=True)}
        if self.program_limits is not None and spec.open_environment is None:
            limits |= self.program_limits.model_dump(exclude_unset=True)
        return Limits.model_validate(limits)

    @property
    def all_limits(self) -> dict[str, Limits]:
        """The limits of sandboxes by the name of their environment, with those of workspaces."""
        limits = {spec.name: self.limits(spec) for spec in self.environments}
        return add_workspace_limits(limits, self.workspaces, self.config.limits)


def select(
    config: RunConfig,
    *,
    notify: Callable[[str], None],
    agent: Any = None,
    resumed: bool = False,
    serves_client: bool = False,
) -> Selection:
    """Return the selection of a run, without starting or writing anything.

    Args:
        config: the config of the run.
        notify: shows a message to the user.
        agent: the user's own function, class or object, instead of the agent that the config names.
        resumed: whether a run is resumed. It keeps its settings, even if they would be refused today.
        serves_client: whether an MCP client has started this process, for which the agent `client` is.

    Raises:
        UsageError: for a config that cannot be used.
        DataError: for data that cannot be used.
    """
    if any(k < 1 for k in config.k):
        raise UsageError(f"--k must be at least 1, not {min(config.k)}")
    if config.agent == CLIENT and agent is None and not serves_client:
        raise UsageError(
            f"agent '{CLIENT}' is an MCP client that starts harness itself, so no run can select it",
            hint=f"name this command in the configuration of the client: {_name_command(config)}",
        )
    recording = open_recording(config)
    benchmark = load_configured(
        config,
        notify=notify,
        # Samples graded on the bundled problems would look like a score on the benchmark itself.
        sample_stands_in=config.samples is None,
        # A benchmark may read the data of these categories alone, and a replay needs all recorded data.
        categories=None if recording is None else recording.categories,
    )
    samples = None if config.samples is None else Path(config.samples)
    if recording is not None:
        check_recording(recording, benchmark, config, notify)
    settings = settings_for(
        benchmark,
        samples=samples,
        system_prompt=config.whole_system_prompt,
        server_prompts=config.server_prompts,
        recording=recording,
        command=config.command,
    )
    if agent is None:
        chosen = build_agent(config.agent, settings, benchmark)
    else:
        config = config.model_copy(update={"agent": name_agent(agent)})
        chosen = wrap_outside_agent(agent, settings, name=config.agent)
    recorded = None if recording is None else recording.task_ids
    tasks = select_configured_tasks(benchmark, config, recorded=recorded)
    for notice in benchmark.list_notices(tasks):
        notify(notice)
    if config.agent_prompt is not None:
        tasks = replace_prompts(tasks, config.agent_prompt)
    if config.samples is not None and isinstance(chosen, ChoosesSamples):
        for notice in describe_samples(benchmark, tasks, chosen):
            notify(notice)
    if recording is None:
        plan = plan_attempts(tasks, chosen, n_samples=config.n_samples, seed=config.seed)
    else:
        plan = recording.plan(tasks, config.seed)
    plan = name_clusters(plan, config.cluster_by)
    # The whole plan is checked, so that a fault of the config ends every shard and not only some.
    durations: Mapping[str, float] = {}
    if not resumed:
        config, durations = find_durations(config)
        if durations:
            describe_unknown(plan, durations, notify)
    else:
        # The order of a run decides no verdict, so the earlier run may be gone by now.
        with contextlib.suppress(UsageError):
            _, durations = find_durations(config)
    selection = Selection(config, benchmark, chosen, plan, recording=recording, durations=durations)
    if not resumed:
        # With the servers of a baseline, because the same config must do for both runs.
        images = list_images(benchmark, tasks, selection.workspaces)
        refuse_unread(config, chosen, benchmark, selection.environments, images, selection.workspaces)
        require_attempts(selection.plan, config.k)
        if getattr(chosen, "needs_solutions", False):
            require_solutions(benchmark, tasks, agent=config.agent)
    # The recorded judgements stand for those of a model.
    judge = find_judge(config, benchmark.definition.judge) if recording is None else None
    endpoint = find_endpoint(config, chosen)
    refuse_keys(config, [endpoint, judge])
    if config.shard is not None:
        selection = replace(selection, plan=select_shard(plan, config.shard))
    if config.executor == "ray":
        refuse_unsupported(config, chosen, endpoint=endpoint, judge=judge, is_object=agent is not None)
    if endpoint is None and getattr(chosen, "offers_model", False):
        notify("the run has no model, so the agent's program cannot ask one; name it with --model")
    return replace(selection, endpoint=endpoint, judge=judge)


def _name_command(config: RunConfig) -> str:
    task = config.task_ids[0] if config.task_ids else "TASK"
    return escape_terminal(f"harness mcp {config.benchmark} {task}")
