"""An audit, which shows whether a benchmark's grader passes every reference and no attack.

An audit is two runs in one folder. The controls, which are the reference and an empty answer, run on every
selected task under the usual limits. The attacks run on a sample of the tasks under tight limits.
"""

from __future__ import annotations

import hashlib
import json
import random
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from harness.audit.agent import (
    ATTACKER,
    CONSTANT,
    CONTROLS,
    ORACLE,
    Step,
    Suite,
    build_attacker,
    build_controls,
)
from harness.audit.containers import count_containers
from harness.benchmarks import Benchmark
from harness.core.errors import UsageError
from harness.core.inputs.json_text import parse_json
from harness.core.types import AttemptRecord, DataSource, Status, Task
from harness.environments import environment_spec
from harness.runs.agents import settings_for
from harness.runs.config import RunConfig
from harness.runs.filters import TaskFilters
from harness.runs.manifest import SCHEMA_VERSION
from harness.runs.observer import RunObserver
from harness.runs.plan import load_configured, plan_attempts, select_tasks
from harness.runs.run import Run, open_run
from harness.runs.run_files import read_run_file, replace_file
from harness.runs.run_starts import ResumedRun
from harness.runs.selection import Selection
from harness.runs.store import MANIFEST, read_manifest
from harness.runs.trust import SIGNATURE, is_signature, list_effects, refuse_effects, sign
from harness.runs.unread import list_unread_isolation
from harness.sandbox.limits import Limits

# The description of an audit, and its result, in its folder.
AUDIT, AUDIT_RESULTS = "audit.json", "results.json"
# Only programs run under these limits, because an environment and its reference need the usual ones. An
# attack that burns time ends by a limit. Every other attack needs only a small part of them.
LIMITS = Limits(
    memory_mb=256, processes=64, disk_mb=16, inodes=4096, cpu_seconds=1, wall_seconds=2.0, output_mb=4
)


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """One of the two runs of an audit, before it starts."""

    suite: Suite
    selection: Selection


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """Both runs of an audit, before they start.

    Attributes:
        attacked: the number of tasks to attack, None for all selected tasks.
        attacks: the names of the attacks to make, none for all.
    """

    config: RunConfig
    attacked: int | None
    attacks: tuple[str, ...]
    control_run: SuiteRun
    attack_run: SuiteRun

    @property
    def source(self) -> DataSource:
        return self.control_run.selection.benchmark.source

    def describe(self) -> dict[str, Any]:
        """Return a description for resuming the audit, with a digest of its attacks."""
        attacks = to_jsonable_python({step.name: step.attack for step in self.attack_run.suite.steps})
        return {
            "config": self.config.model_dump(mode="json"),
            "attacked": self.attacked,
            "attacks": self.attacks,
            "suite_sha256": hashlib.sha256(json.dumps(attacks).encode()).hexdigest(),
        }


@dataclass(frozen=True, slots=True)
class AuditedAttempt:
    """One attempt of an audit, and its step in the suite."""

    step: Step
    record: AttemptRecord
    # Whether a constant program solves the task, so that the attack may have passed by its answer.
    is_guessable: bool = False
    # The folder of its run.
    folder: Path = Path()

    @property
    def forged(self) -> bool:
        """Whether the attempt passed although it is not the reference, and its answer does not explain it."""
        if self.step.name in (ORACLE, CONSTANT) or (self.step.attack is not None and self.is_guessable):
            return False
        return self.record.resolved

    @property
    def failed(self) -> bool:
        """Whether the attempt is the reference and did not pass.

        A reference that follows attacks runs under their tight limits too, so a timeout does not count.
        """
        status = self.record.status
        slow = self.step.kind is not None and status is Status.TIMEOUT
        return self.step.name == ORACLE and status.has_score and not self.record.resolved and not slow


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit.

    Attributes:
        folder: the folder with the run folders of both runs.
        containers_left: the number of containers of both runs that Docker listed at their end.
        manners: how the check of each selected task judges, by task id, if that differs between tasks.
        quarantined: the reason for each selected task that no grader can rely on, by task id.
        weak_tests: why a pass of a selected task proves less than it says, by task id, for those tasks.
    """

    benchmark: str
    source: DataSource
    seed: int
    folder: Path
    duration_seconds: float
    attempts: tuple[AuditedAttempt, ...]
    containers_left: int
    manners: Mapping[str, str] = field(default_factory=dict)
    quarantined: Mapping[str, str] = field(default_factory=dict)
    weak_tests: Mapping[str, str] = field(default_factory=dict)

    @property
    def forged(self) -> list[AuditedAttempt]:
        return [attempt for attempt in self.attempts if attempt.forged]

    @property
    def failed(self) -> list[AuditedAttempt]:
        return [attempt for attempt in self.attempts if attempt.failed]

    @property
    def unfinished(self) -> list[AuditedAttempt]:
        """The attempts without a verdict, which their submissions did not cause."""
        return [attempt for attempt in self.attempts if not attempt.record.status.has_score]

    @property
    def sound(self) -> bool:
        """Whether every attempt has the right verdict and no container is left."""
        return not (self.forged or self.failed or self.unfinished or self.containers_left)

    @property
    def attacks(self) -> list[AuditedAttempt]:
        return [attempt for attempt in self.attempts if attempt.step.attack is not None]

    @property
    def guessed(self) -> list[AuditedAttempt]:
        """The attacks that passed at a task that a constant program solves."""
        return [attempt for attempt in self.attacks if attempt.is_guessable and attempt.record.resolved]

    @property
    def integrity(self) -> dict[str, int]:
        """The number of attempts that show a sign of tampering, by sign, the most frequent first."""
        signs = [attempt.record.metrics.get("integrity") for attempt in self.attacks]
        return dict(Counter(str(sign) for sign in signs if sign is not None).most_common())

    def controls(self, name: str, *, after_attacks: bool = False) -> list[AuditedAttempt]:
        """Return the attempts of `oracle` or `null`, either those before or those after attacks."""
        return [
            attempt
            for attempt in self.attempts
            if attempt.step.name == name and (attempt.step.kind is not None) == after_attacks
        ]


def count_statuses(attempts: Iterable[AuditedAttempt]) -> dict[Status, int]:
    """Return the number of attempts with each status that occurs, in the order of `Status`."""
    counts = Counter(attempt.record.status for attempt in attempts)
    return {status: counts[status] for status in Status if counts[status]}


def plan_audit(
    config: RunConfig,
    attacked: int | None,
    *,
    attacks: Sequence[str] = (),
    notify: Callable[[str], None],
) -> AuditPlan:
    """Return the plan of an audit.

    Args:
        config: the config of both runs.
        attacked: the number of tasks to attack, None for all.
        attacks: the names of the attacks to make, none for all.
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
    for unread in list_unread_isolation(config, benchmark.definition, specs):
        raise unread

    filters = TaskFilters.of_config(config)
    named = select_tasks(benchmark, filters)
    tasks = select_tasks(
        benchmark,
        filters,
        sample_size=config.sample_size,
        seed=config.seed,
    )

    def plan_run(
        suite: Suite, agent: str, tasks: Sequence[Task], program_limits: Limits | None = None
    ) -> SuiteRun:
        plan = plan_attempts(tasks, suite, seed=config.seed)
        changed = config.model_copy(update={"agent": agent})
        return SuiteRun(suite, Selection(changed, benchmark, suite, plan, program_limits))

    return AuditPlan(
        config,
        attacked,
        tuple(attacks),
        plan_run(build_controls(settings, benchmark), CONTROLS, tasks),
        plan_run(
            build_attacker(settings, benchmark, attacks),
            ATTACKER,
            sample_every_kind(benchmark, named, attacked, config.seed),
            LIMITS,
        ),
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
    config, benchmark = plan.config, plan.control_run.selection.benchmark.name
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-audit-{benchmark}-{secrets.token_hex(2)}"
    folder = Path(config.output_dir) / name
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise UsageError(
            f"{folder}: cannot be made: {error.strerror}",
            hint="choose another folder with --output-dir DIR",
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
        plan = plan_audit(config, about["attacked"], attacks=about["attacks"], notify=notify)
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
    manners: dict[str, str] = {}
    quarantined: dict[str, str] = {}
    weak_tests: dict[str, str] = {}
    for part in (plan.control_run, plan.attack_run):
        config = part.selection.config.model_copy(update={"output_dir": str(folder)})
        selection = replace(part.selection, config=config)
        earlier = _find_run(folder, config.agent)
        start = None if earlier is None else ResumedRun(earlier)
        async with open_run(selection, start, notify=observer.note) as run:
            await run.execute(observer)
            attempts += [
                AuditedAttempt(_find_step(part.suite, record), record, folder=run.folder)
                for record in run.records()
            ]
            manners |= _list_manners(run.selection)
            quarantined |= run.selection.quarantined
            weak_tests |= run.manifest.get("weak_tests", {})
            seconds += run.duration_seconds
            left += await _count_containers(run)
    guessable = {
        each.record.task_id for each in attempts if each.step.name == CONSTANT and each.record.resolved
    }
    attempts = [replace(each, is_guessable=each.record.task_id in guessable) for each in attempts]
    return Audit(
        benchmark=plan.control_run.selection.benchmark.name,
        source=plan.source,
        seed=plan.config.seed,
        folder=folder,
        duration_seconds=round(seconds, 3),
        attempts=tuple(attempts),
        containers_left=left,
        manners=manners,
        quarantined=quarantined,
        weak_tests=weak_tests,
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


async def _count_containers(run: Run) -> int:
    """Return the number of containers that a run has left."""
    if run.engine.backend is None:
        return 0
    return await count_containers(run.engine.backend, run.manifest["run_id"])


def _find_run(folder: Path, agent: str) -> Path | None:
    """Return the folder of an agent's run that an earlier start of the audit made, None without one."""
    # The folder may be somebody else's, and a link in it could lead to another run, which would be resumed.
    runs = [path.parent for path in sorted(folder.glob(f"*/{MANIFEST}")) if not path.parent.is_symlink()]
    return next((run for run in runs if read_manifest(run).get("agent") == agent), None)


def _find_step(suite: Suite, record: AttemptRecord) -> Step:
    if record.sample_line is None or not 0 < record.sample_line <= len(suite.steps):
        raise UsageError(f"{record.task_id}: attempt {record.attempt} does not belong to this audit")
    return suite.steps[record.sample_line - 1]


def write_audit(audit: Audit, path: Path) -> None:
    """Write the result of an audit as JSON. Raises StorageError."""
    value = {
        "schema_version": SCHEMA_VERSION,
        "audit": {
            "benchmark": audit.benchmark,
            "data": asdict(audit.source),
            "seed": audit.seed,
            "folder": str(audit.folder),
            "duration_seconds": audit.duration_seconds,
        },
        "summary": {
            "forged": len(audit.forged),
            "guessed": len(audit.guessed),
            "failed_references": len(audit.failed),
            "unfinished": len(audit.unfinished),
            "containers_left": audit.containers_left,
            "tasks": len({attempt.record.task_id for attempt in audit.attempts}),
            "attacked_tasks": len({attempt.record.task_id for attempt in audit.attacks}),
            "attacks": len({attempt.step.name for attempt in audit.attacks}),
            "attempts": len(audit.attempts),
            "statuses": {status.value: number for status, number in count_statuses(audit.attacks).items()},
            "integrity": audit.integrity,
        },
        "manners": dict(audit.manners),
        "quarantined": dict(audit.quarantined),
        "weak_tests": dict(audit.weak_tests),
        "attempts": [_describe_attempt(attempt) for attempt in audit.attempts],
    }
    with replace_file(path) as file:
        json.dump(value, file, indent=1)


def _describe_attempt(attempt: AuditedAttempt) -> dict[str, Any]:
    step, record = attempt.step, attempt.record
    return {
        "task_id": record.task_id,
        "attack": step.name,
        "class": step.kind,
        "sample": step.sample,
        "forged": attempt.forged,
        "guessable": attempt.is_guessable,
        "failed": attempt.failed,
        "status": record.status,
        "metrics": record.metrics,
        "duration_seconds": record.duration_seconds,
        "error": record.error,
    }
