"""The selection of a run: its benchmark, its agent and its plan, before anything is started or written."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.benchmarks.benchmark import Benchmark
from harness.core.errors import UsageError
from harness.core.text import escape_terminal
from harness.core.types import Task
from harness.environments import environment_spec
from harness.environments.spec import EnvironmentSpec
from harness.models.endpoint import Endpoint
from harness.runs.agents import build_agent
from harness.runs.agents.agent import Agent, ChoosesSamples, settings_for
from harness.runs.agents.client import CLIENT
from harness.runs.agents.outside import name_agent, wrap_outside_agent
from harness.runs.faults import choose_concurrency, choose_gate_places
from harness.runs.features import read_machine_rules
from harness.runs.filters import TaskFilters, select_shard
from harness.runs.manifest import hash_definition, hash_samples
from harness.runs.model_access import find_endpoint, find_judge
from harness.runs.plan import (
    describe_samples,
    describe_unknown,
    find_durations,
    limit_times,
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
from harness.runs.recorded_run import RecordedRun, check_recording, open_recording
from harness.runs.records import PlannedAttempt
from harness.runs.run_secrets import refuse_keys
from harness.runs.settings import RunConfig
from harness.runs.settings.attempts import MIN_TIMEOUT_SECONDS
from harness.runs.unread import list_unread
from harness.runs.workspaces import Workspaces, add_workspace_limits, find_workspaces, list_images
from harness.sandbox.backends.base import Backend
from harness.sandbox.limits import Limits
from harness.sandbox.pool import SandboxPool

_LOCAL_HINT = "leave out --executor, or use: --executor local"


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
    def agent_sha256(self) -> str | None:
        """The SHA-256 of the file of a user's own agent, None for a built-in one."""
        return getattr(self.agent, "source_sha256", None)

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
        """The sandboxes where programs of the agent and of MCP servers run, by the environments."""
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
        """The wall limit of an attempt in seconds. None if environments or tasks have different ones."""
        if self.config.timeout_seconds is None and any(each.task.agent_seconds for each in self.plan):
            return None
        defaults = {spec.timeout_seconds for spec in self.environments} or {MIN_TIMEOUT_SECONDS}
        return self.config.timeout_seconds or (defaults.pop() if len(defaults) == 1 else None)

    def make_pool(self, backend: Backend | None, images: Mapping[str, str], run_id: str) -> SandboxPool:
        """Return the pool of a run. Its sandboxes start from the image ids in `images`, by name."""
        return SandboxPool(
            backend,
            images=images,
            runtime=self.config.runtime,
            run_id=run_id,
            max_sandboxes=self.config.max_sandboxes,
            gate_places=choose_gate_places(self.config.max_concurrent, self.agent),
            nested_sandboxes=max((spec.nested_sandboxes for spec in self.environments), default=0),
        )

    def choose_concurrency(self, *, at_service: bool = False) -> int:
        """Return how many attempts may be under way at once, as `faults.choose_concurrency` does."""
        return choose_concurrency(
            self.config.max_concurrent,
            self.agent,
            sandboxes=bool(self.images),
            isolation=self.config.isolation,
            at_service=at_service,
        )

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
        serves_client: whether an MCP client has started this process, as the agent `client` needs.

    Raises:
        UsageError: for a config that cannot be used.
        DataError: for data that cannot be used.
    """
    _require_usable(config, serves_client=serves_client or agent is not None)
    recording = open_recording(config)
    benchmark = _load_benchmark(config, recording, notify)
    config, chosen = _choose_agent(config, agent, benchmark, recording)
    tasks = _choose_tasks(config, chosen, benchmark, recording, notify)
    if recording is None:
        plan = plan_attempts(tasks, chosen, n_samples=config.n_samples, seed=config.seed)
    else:
        plan = recording.plan(tasks, config.seed)
    plan = name_clusters(plan, config.cluster_by)
    config, durations = _choose_durations(config, plan, notify, resumed=resumed)
    selection = Selection(config, benchmark, chosen, plan, recording=recording, durations=durations)
    if not resumed:
        _refuse_unread(selection, tasks)
    # A replay takes the recorded judgements, so it asks no model.
    judge = find_judge(config, benchmark.definition.judge) if recording is None else None
    hint = benchmark.definition.judge_hint
    # An agent that waits for nobody, such as the oracle, follows a plan of its own.
    if judge is None and recording is None and hint is not None and getattr(chosen, "waits", True):
        raise UsageError(f"{benchmark.name} needs a model for its environment, and has none", hint=hint)
    endpoint = find_endpoint(config, chosen)
    refuse_keys(config, [endpoint, judge])
    # The whole plan is checked, so that a fault of the config ends every shard and not only some.
    if config.shard is not None:
        selection = replace(selection, plan=select_shard(plan, config.shard))
    if config.executor == "ray":
        refuse_unsupported(config, chosen, endpoint=endpoint, judge=judge, is_object=agent is not None)
    if endpoint is None and getattr(chosen, "offers_model", False):
        notify("the run has no model, so the agent's program cannot ask one; name it with --model")
    return replace(selection, endpoint=endpoint, judge=judge)


def _require_usable(config: RunConfig, *, serves_client: bool) -> None:
    if any(k < 1 for k in config.k):
        raise UsageError(f"--k must be at least 1, not {min(config.k)}")
    read_machine_rules(config)  # before an engine is asked
    if config.agent == CLIENT and not serves_client:
        task = config.task_ids[0] if config.task_ids else "TASK"
        command = escape_terminal(f"harness mcp {config.benchmark} {task}")
        raise UsageError(
            f"agent '{CLIENT}' is an MCP client that starts harness itself, so no run can select it",
            hint=f"name this command in the configuration of the client: {command}",
        )


def _load_benchmark(
    config: RunConfig, recording: RecordedRun | None, notify: Callable[[str], None]
) -> Benchmark:
    benchmark = load_configured(
        config,
        notify=notify,
        # Samples graded on the bundled problems would look like a score on the benchmark itself.
        sample_stands_in=config.samples is None,
        # A benchmark may read the data of these categories alone, and a replay needs all recorded data.
        categories=None if recording is None else recording.categories,
    )
    if recording is not None:
        check_recording(recording, benchmark, config, notify)
    return benchmark


def _choose_agent(
    config: RunConfig, agent: Any, benchmark: Benchmark, recording: RecordedRun | None
) -> tuple[RunConfig, Agent]:
    """Return the config with the name of the agent, and the agent: the user's own, or the named one."""
    settings = settings_for(
        benchmark,
        samples=None if config.samples is None else Path(config.samples),
        system_prompt=config.whole_system_prompt,
        server_prompts=config.server_prompts,
        recording=recording,
        command=config.command,
    )
    if agent is None:
        return config, build_agent(config.agent, settings, benchmark)
    named: RunConfig = config.model_copy(update={"agent": name_agent(agent)})
    return named, wrap_outside_agent(agent, settings, name=named.agent)


def _choose_tasks(
    config: RunConfig,
    agent: Agent,
    benchmark: Benchmark,
    recording: RecordedRun | None,
    notify: Callable[[str], None],
) -> list[Task]:
    """Return the selected tasks with the user's prompt, and report what is special about them."""
    recorded = None if recording is None else recording.task_ids
    tasks = select_configured_tasks(benchmark, config, recorded=recorded)
    for notice in benchmark.list_notices(tasks):
        notify(notice)
    if config.agent_prompt is not None:
        tasks = replace_prompts(tasks, config.agent_prompt)
    tasks = limit_times(tasks, config.timeout_seconds, config.timeout_multiplier)
    if config.samples is not None and isinstance(agent, ChoosesSamples):
        for notice in describe_samples(benchmark, tasks, agent):
            notify(notice)
    return tasks


def _choose_durations(
    config: RunConfig, plan: Sequence[PlannedAttempt], notify: Callable[[str], None], *, resumed: bool
) -> tuple[RunConfig, Mapping[str, float]]:
    """Return the config with the run that durations are from, and the durations."""
    if resumed:
        # The order of a run decides no verdict, so the earlier run may be gone by now.
        with contextlib.suppress(UsageError):
            return config, find_durations(config)[1]
        return config, {}
    config, durations = find_durations(config)
    if durations:
        describe_unknown(plan, durations, notify)
    return config, durations


def _refuse_unread(selection: Selection, tasks: Sequence[Task]) -> None:
    """Raise UsageError for settings that nothing reads, and for more than the plan has."""
    config, agent, benchmark = selection.config, selection.agent, selection.benchmark
    # With the servers of a baseline, because the same config must do for both runs.
    images = list_images(benchmark, tasks, selection.workspaces)
    places = selection.environments, selection.workspaces
    for unread in list_unread(config, agent, benchmark.definition, *places, needs_image=bool(images)):
        raise unread
    require_attempts(selection.plan, config.k)
    if getattr(agent, "needs_solutions", False):
        require_solutions(benchmark, tasks, agent=config.agent)


def refuse_unsupported(
    config: RunConfig,
    agent: object,
    *,
    endpoint: Endpoint | None,
    judge: Endpoint | None,
    is_object: bool = False,
) -> None:
    """Raise UsageError if an attempt of the run needs the process of the run itself.

    A model does. Its key must not leave the machine, because every user of a Ray cluster can read its object
    store. Its budgets, its cache and its adaptive concurrency hold for all attempts together.
    """
    if endpoint is not None:
        raise UsageError(
            f"--executor ray: agent '{config.agent}' asks a model, and only attempts on this machine can ask "
            "one, because keys do not leave it",
            hint=f"{_LOCAL_HINT}; or store the replies as samples, and grade them on Ray",
        )
    if judge is not None:
        raise UsageError(
            f"--executor ray: benchmark '{config.benchmark}' asks a model as the judge, and only "
            "attempts on this machine can ask one, because keys do not leave it",
            hint=_LOCAL_HINT,
        )
    if config.mcp_servers:
        raise UsageError(
            "--executor ray: MCP servers of the config are programs or addresses of this machine",
            hint=_LOCAL_HINT,
        )
    if is_object:
        raise UsageError(
            f"--executor ray: the agent '{config.agent}' is an object of this process",
            hint="name it by its file or module: agent='FILE.py', agent='module:Name'",
        )
    if getattr(agent, "needs_this_machine", False):
        raise UsageError(
            f"--executor ray: agent '{config.agent}' acts only on this machine", hint=_LOCAL_HINT
        )


def hash_inputs(selection: Selection) -> dict[str, str | None]:
    """Return the SHA-256 (hex) of each input of a run by its name, None for one that the run lacks.

    The order is that in which a difference explains the later ones. Raises UsageError for a file that cannot
    be read.
    """
    recording = selection.recording
    return {
        "data": selection.benchmark.source.sha256,
        "file of the benchmark": hash_definition(selection.benchmark),
        "file of the agent": selection.agent_sha256,
        "samples": hash_samples(selection.config),
        "recorded run": None if recording is None else recording.describe()["attempts_sha256"],
        "plan": _hash_plan(selection),
    }


def find_difference(ours: Mapping[str, str | None], theirs: Mapping[str, str | None]) -> str | None:
    """Return the first input that differs, in words, None if all are equal."""
    for name, sha256 in ours.items():
        if theirs.get(name) != sha256:
            found = _show(theirs.get(name))
            return f"its {name} has the SHA-256 {found}, and the run's is {_show(sha256)}"
    return None


def _show(sha256: str | None) -> str:
    return "none" if sha256 is None else sha256[:12]


def _hash_plan(selection: Selection) -> str:
    digest = hashlib.sha256()
    for planned in selection.plan:
        task = planned.task
        values = [*planned.key, planned.sample_line, planned.run_seed, task.environment, task.prompt]
        digest.update(json.dumps(values).encode())
    return digest.hexdigest()


def describe_config(selection: Selection) -> dict[str, Any]:
    """Return the config of a run as JSON, for a node that selects the same attempts.

    It names the source of the data that the run reads, because a node may reach the hub when the run did not.
    The order of the attempts is the business of the process that leases them.
    """
    config = selection.config
    kind = selection.benchmark.source.kind
    changed = config.model_copy(
        update={
            "data": config.data or (kind if kind in ("hub", "bundled") else None),
            "split": selection.benchmark.split,
            "durations_from": None,
        }
    )
    return changed.model_dump(mode="json", exclude={"executor", "ray_address"})


def read_described_config(values: Mapping[str, Any]) -> RunConfig:
    """Return the config that `describe_config` has described."""
    return RunConfig.model_validate(dict(values), strict=False)
