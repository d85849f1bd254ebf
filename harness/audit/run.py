"""An audit, which shows whether a benchmark's grader passes every reference and no attack.

An audit is two runs in one folder. The controls, which are the reference and an empty answer, run on every
selected task under the usual limits. The attacks run on a sample of the tasks under tight limits.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from harness.audit.forging import AS_USUAL, OWN, ForgingSuite, build_forger, read_levels
from harness.audit.results import Audit, AuditedAttempt
from harness.audit.suite import (
    ATTACKER,
    CONSTANT,
    CONTROL_STEPS,
    CONTROLS,
    NULL,
    Step,
    Suite,
    build_attacker,
)
from harness.benchmarks.benchmark import Benchmark
from harness.core.errors import UsageError
from harness.core.inputs.json_text import parse_json
from harness.core.text import quote_argument
from harness.core.types import AttemptRecord, Task
from harness.environments import environment_spec
from harness.environments.container.seal import Level
from harness.environments.container.target import TaskFolderTarget
from harness.runs.agents.agent import settings_for
from harness.runs.attempt_index import ATTEMPTS
from harness.runs.filters import TaskFilters, select_shard
from harness.runs.plan import limit_times, load_configured, plan_attempts, select_tasks
from harness.runs.progress import RunObserver
from harness.runs.run import open_run
from harness.runs.run_files import read_run_file, replace_file
from harness.runs.run_starts import ResumedRun
from harness.runs.selection import Selection
from harness.runs.settings import RunConfig, name_option
from harness.runs.settings.tasks import read_shard
from harness.runs.store import AUDIT, MANIFEST, read_duration, read_manifest, read_records
from harness.runs.trust import SIGNATURE, is_signature, list_effects, refuse_effects, sign
from harness.runs.unread import list_unread_isolation
from harness.sandbox.backends.base import Backend
from harness.sandbox.limits import Limits
from harness.sandbox.reaper import find_run_containers

# The settings that only machines from images of tasks read.
_OF_TASK_IMAGES = frozenset(("base_images", "build_ca", "allow_network", "network", "timeout_multiplier"))
# The settings that may differ between the shards of an audit.
_OF_A_SHARD = {"shard": None, "output_dir": "", "max_concurrent": None, "max_sandboxes": None}
# Docker may still list a container for a moment after its removal.
GONE_SECONDS = 5.0
# Only programs run under these limits, because an environment and its reference need the usual ones. An
# attack that burns time ends by a limit. Every other attack needs only a small part of them.
LIMITS = Limits(
    memory_mb=256, processes=64, disk_mb=16, inodes=4096, cpu_seconds=1, wall_seconds=2.0, output_mb=4
)


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """Both runs of an audit, before they start. The agent of each is a suite."""

    config: RunConfig
    # The number of tasks to attack, None for all selected tasks.
    attacked: int | None
    # The names of the attacks to make, none for all.
    attacks: tuple[str, ...]
    control_run: Selection
    attack_run: Selection
    # The seal levels of the attacks on task folders, None for each task's own.
    levels: tuple[Level | None, ...] = ()

    def describe(self) -> dict[str, Any]:
        """Return a description for resuming the audit, with a digest of its attacks."""
        attacks = to_jsonable_python({step.name: step.attack for step in suite_of(self.attack_run).steps})
        return {
            "config": self.config.model_dump(mode="json"),
            "attacked": self.attacked,
            "attacks": self.attacks,
            "levels": [level or OWN for level in self.levels],
            "suite_sha256": hashlib.sha256(json.dumps(attacks).encode()).hexdigest(),
        }


def suite_of(selection: Selection) -> Suite:
    """Return the agent of a run of an audit."""
    assert isinstance(selection.agent, Suite)  # noqa: S101  because an audit plans no other agent
    return selection.agent


def plan_audit(
    config: RunConfig,
    attacked: int | None,
    *,
    takes_whole_folders: bool = False,
    attacks: Sequence[str] = (),
    levels: Sequence[str] | None = None,
    notify: Callable[[str], None],
) -> AuditPlan:
    """Return the plan of an audit.

    Args:
        config: the config of both runs.
        attacked: the number of tasks to attack, None for all.
        attacks: the names of the attacks to make, none for all.
        takes_whole_folders: whether all tasks of a folder are attacked, however many others are.
        levels: the seal levels of the attacks on task folders, or `own`. Default: `own` and `live`.
        notify: shows a message to the user.

    Raises:
        UsageError: for an option that cannot be used, and for a target without attacks.
        DataError: for data that cannot be used.
    """
    benchmark = load_configured(config, notify=notify)
    if benchmark.definition.judge is not None:
        raise UsageError(
            f"{benchmark.name}: an option names a model as the judge, and an audit asks no model",
            hint="leave the option out, so that the judge without a model is audited",
        )
    # A resumed audit must read the same data, whether or not the hub can be reached then.
    decided = benchmark.source.kind if benchmark.source.kind in ("hub", "bundled") else None
    config = config.model_copy(update={"data": config.data or decided})
    settings = settings_for(benchmark)
    kinds = sorted({task.environment for task in benchmark.tasks})
    specs = [environment_spec(kind) for kind in kinds]
    for error in list_unread_isolation(config, benchmark.definition, specs):
        raise error

    filters = TaskFilters.of_config(config)
    named = select_tasks(benchmark, filters)
    is_of_folders = all(type(each.target) is TaskFolderTarget for each in benchmark.references.values())
    if is_of_folders and takes_whole_folders:
        attacked = None
    elif levels and not is_of_folders:
        raise UsageError(f"{benchmark.name} has no seal levels", hint="leave out --level")
    unread = config.model_dump(exclude_defaults=True).keys() & _OF_TASK_IMAGES
    if not any(spec.runs_task_images for spec in specs) and unread:
        hint = "leave it out, because only tasks with images of their own use it"
        raise UsageError(f"benchmark '{benchmark.name}' does not read {name_option(min(unread))}", hint=hint)
    chosen = sample_every_kind(benchmark, named, attacked, config.seed)

    def plan_run(
        suite: Suite, agent: str, tasks: Sequence[Task], program_limits: Limits | None = None
    ) -> Selection:
        tasks = limit_times(tasks, config.timeout_seconds, config.timeout_multiplier)
        plan = plan_attempts(tasks, suite, seed=config.seed)
        if config.shard is not None:
            plan = select_shard(plan, config.shard)
        changed = config.model_copy(update={"agent": agent})
        return Selection(changed, benchmark, suite, plan, program_limits)

    if is_of_folders:
        at_levels = read_levels(levels or (OWN, AS_USUAL))
        return AuditPlan(
            *(config, attacked, tuple(attacks)),
            plan_run(ForgingSuite(settings, benchmark, CONTROL_STEPS), CONTROLS, chosen),
            plan_run(build_forger(settings, benchmark, attacks, at_levels), ATTACKER, chosen),
            at_levels,
        )
    tasks = select_tasks(benchmark, filters, sample_size=config.sample_size, seed=config.seed)
    return AuditPlan(
        *(config, attacked, tuple(attacks)),
        plan_run(Suite(settings, benchmark, CONTROL_STEPS), CONTROLS, tasks),
        plan_run(build_attacker(settings, benchmark, attacks), ATTACKER, chosen, LIMITS),
    )


def sample_every_kind(
    benchmark: Benchmark, tasks: Sequence[Task], number: int | None, seed: int
) -> list[Task]:
    """Return a random sample of tasks in the order of the data, evenly distributed over the kinds of targets.

    The sample has `number` tasks, or all if `number` is None. It has at least one task of each kind, even if
    that makes more than `number`.
    """
    if number is None or number >= len(tasks):
        return list(tasks)
    groups: dict[tuple[str, type], list[Task]] = {}
    for task in tasks:
        kind = task.environment, type(benchmark.references[task.id].target)
        groups.setdefault(kind, []).append(task)
    quotas = Counter(dict.fromkeys(groups, 1))
    while quotas.total() < number:
        for kind in groups:
            if quotas.total() < number and quotas[kind] < len(groups[kind]):
                quotas[kind] += 1
    chosen = {
        group[place].id
        for kind, group in groups.items()
        for place in random.Random(seed).sample(range(len(group)), quotas[kind])
    }
    return [task for task in tasks if task.id in chosen]


def make_audit_folder(plan: AuditPlan) -> Path:
    """Make a folder for an audit, write the description of the audit to it, and return its path.

    Raises UsageError and StorageError.
    """
    config, benchmark = plan.config, plan.control_run.benchmark.name
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-audit-{benchmark}-{secrets.token_hex(2)}"
    folder = Path(config.output_dir) / name
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise UsageError(
            f"{folder}: cannot be made: {error.strerror}", hint="choose another folder with --output-dir DIR"
        ) from error
    with replace_file(folder / AUDIT) as file:
        about = plan.describe()
        json.dump({**about, SIGNATURE: sign(["audit", about])}, file, indent=2)
    return folder


def plan_resumed_audit(folder: Path, *, is_trusted: bool = False, notify: Callable[[str], None]) -> AuditPlan:
    """Return the plan of the audit in `folder`.

    Raises UsageError if the folder holds no audit, if the attacks have changed since, or if the user has
    neither started nor accepted an audit that would run a file on this machine or exceed limits.
    """
    path = folder / AUDIT
    try:
        about = parse_json(read_run_file(folder, AUDIT))
        config = RunConfig.model_validate(about["config"], strict=False)
        unsigned = {name: value for name, value in about.items() if name != SIGNATURE}
        if not is_trusted and not is_signature(about.get(SIGNATURE), ["audit", unsigned]):
            refuse_effects(folder, list_effects(config))
        plan = plan_audit(
            *(config, about["attacked"]), attacks=about["attacks"], levels=about.get("levels"), notify=notify
        )
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="--resume takes the folder of an audit") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path}: is not the description of an audit", hint="start a new audit") from error
    if plan.describe()["suite_sha256"] != about.get("suite_sha256"):
        raise UsageError(
            f"{folder}: the attacks have changed since this audit started", hint="start a new audit"
        )
    return plan


async def carry_out_audit(plan: AuditPlan, folder: Path, observer: RunObserver) -> Audit:
    """Execute both runs in `folder`, or the rest of them, and return the result.

    Raises the errors of `open_run` and `Run.execute`.
    """
    attempts: list[AuditedAttempt] = []
    seconds, left = 0.0, 0
    made: list[tuple[Selection, Mapping[str, Any]]] = []
    for planned in (plan.control_run, plan.attack_run):
        config = planned.config.model_copy(update={"output_dir": str(folder)})
        earlier = _find_run(folder, config.agent)
        start = None if earlier is None else ResumedRun(earlier)
        suite_of(planned).learn(each.record for each in attempts)
        async with open_run(replace(planned, config=config), start, notify=observer.note) as run:
            await run.execute(observer)
            attempts += [
                AuditedAttempt(_find_step(planned, record), record, folder=run.folder)
                for record in run.records()
            ]
            made.append((run.selection, run.manifest))
            seconds += run.duration_seconds
            if run.engine.backend is not None:
                left += await count_containers(run.engine.backend, run.manifest["run_id"])
    return _conclude(plan, folder, attempts, made, seconds, left)


def join_audits(folders: Sequence[Path], *, is_trusted: bool, notify: Callable[[str], None]) -> Audit:
    """Return the result of the audit whose shards are in these folders. No attempt is made.

    Raises UsageError for folders that are not all finished shards of one audit, each of them once.
    """
    plans = [plan_resumed_audit(folder, is_trusted=is_trusted, notify=notify) for folder in folders]
    shards = [read_shard(plan.config.shard or "1/1") for plan in plans]
    alike = [{**plan.describe(), "config": plan.config.model_copy(update=_OF_A_SHARD)} for plan in plans]
    if any(each != alike[0] for each in alike):
        raise UsageError("these are not the shards of one audit", hint="name audits that differ in --shard")
    wanted = [(number, shards[0][1]) for number in range(1, shards[0][1] + 1)]
    if sorted(shards) != wanted:
        given = ", ".join(f"{number}/{total}" for number, total in sorted(shards))
        raise UsageError(f"each of {len(wanted):,} shards is needed once, and these are {given}")
    attempts: list[AuditedAttempt] = []
    seconds = 0.0
    made: list[tuple[Selection, Mapping[str, Any]]] = []
    runs = [(folder, plan.control_run) for folder, plan in zip(folders, plans, strict=True)]
    runs += [(folder, plan.attack_run) for folder, plan in zip(folders, plans, strict=True)]
    for folder, planned in runs:
        run = _find_run(folder, planned.config.agent)
        records = () if run is None else read_records(run / ATTEMPTS)
        found = {(each.task_id, each.attempt): each for each, _ in records}
        keys = [(each.task.id, each.number) for each in planned.plan]
        if run is None or not found.keys() >= set(keys):
            hint = f"make the rest: harness audit --resume {quote_argument(folder)}"
            raise UsageError(f"{folder}: the audit is not finished", hint=hint)
        attempts += [AuditedAttempt(_find_step(planned, found[key]), found[key], folder=run) for key in keys]
        made.append((planned, read_manifest(run)))
        seconds += read_duration(run)
    order = {task.id: place for place, task in enumerate(plans[0].control_run.benchmark.tasks)}
    attempts.sort(key=lambda each: order[each.record.task_id])
    return _conclude(plans[0], folders[0], attempts, made, seconds, left=0)


def _conclude(
    plan: AuditPlan,
    folder: Path,
    attempts: list[AuditedAttempt],
    made: Sequence[tuple[Selection, Mapping[str, Any]]],
    seconds: float,
    left: int,
) -> Audit:
    """Return the audit of attempts. `made` has the selection and the manifest of each run."""
    benchmark = plan.control_run.benchmark
    # An empty agent whom a task folder's tests pass is reported, and says nothing about the attacks.
    controls = (NULL, CONSTANT) if plan.levels else (CONSTANT,)
    guessable = {
        each.record.task_id for each in attempts if each.step.name in controls and each.record.resolved
    }
    attempts = [replace(each, is_guessable=each.record.task_id in guessable) for each in attempts]
    return Audit(
        benchmark=benchmark.name,
        source=benchmark.source,
        seed=plan.config.seed,
        folder=folder,
        duration_seconds=round(seconds, 3),
        attempts=tuple(attempts),
        containers_left=left,
        manners={name: text for run, _ in made for name, text in _list_manners(run).items()},
        quarantined={name: text for run, _ in made for name, text in run.quarantined.items()},
        weak_tests={name: text for _, each in made for name, text in each.get("weak_tests", {}).items()},
        levels=plan.levels,
    )


def _list_manners(selection: Selection) -> dict[str, str]:
    """Return how the check of each planned or quarantined task judges, by task id."""
    benchmark = selection.benchmark
    chosen = {planned.task.id for planned in selection.plan} | selection.quarantined.keys()
    found = {
        task.id: benchmark.definition.find_manner(benchmark.references[task.id])
        for task in benchmark.tasks
        if task.id in chosen
    }
    return {task_id: manner for task_id, manner in found.items() if manner is not None}


async def count_containers(backend: Backend, run_id: str) -> int:
    """Return the number of containers of a run that are still listed after GONE_SECONDS."""
    until = time.monotonic() + GONE_SECONDS
    while True:
        left = await asyncio.to_thread(find_run_containers, backend, run_id)
        if not left or time.monotonic() > until:
            return len(left)
        await asyncio.sleep(0.1)


def _find_run(folder: Path, agent: str) -> Path | None:
    """Return the folder of an agent's run that an earlier start of the audit made, None without one."""
    # The folder may be somebody else's, and a link in it could lead to another run, which would be resumed.
    runs = [path.parent for path in sorted(folder.glob(f"*/{MANIFEST}")) if not path.parent.is_symlink()]
    return next((run for run in runs if read_manifest(run).get("agent") == agent), None)


def _find_step(selection: Selection, record: AttemptRecord) -> Step:
    steps = suite_of(selection).steps
    if record.sample_line is None or not 0 < record.sample_line <= len(steps):
        raise UsageError(f"{record.task_id}: attempt {record.attempt} does not belong to this audit")
    return steps[record.sample_line - 1]
