"""Check a set of task folders: their files, and the attempts of the reference and of an empty agent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from harness.audit.lint.machine import judge_attempts, run_checks
from harness.audit.lint.static import Finding, Severity, lint_folder
from harness.audit.results import NO_VERDICT
from harness.core.errors import UsageError
from harness.environments.container.target import TaskFolderSetup
from harness.runs.filters import TaskFilters, list_shard_tasks
from harness.runs.plan import load_configured, select_tasks
from harness.runs.progress import RunObserver
from harness.runs.settings import RunConfig

_VARIABLE = re.compile(r"needs the variable (\w+)")


@dataclass(frozen=True, slots=True)
class Linted:
    """The findings on a set, the errors first. `unfinished` attempts have no verdict."""

    findings: tuple[Finding, ...]
    tasks: int
    unfinished: int = 0

    @property
    def has_errors(self) -> bool:
        return any(each.severity is Severity.ERROR for each in self.findings)


def _explain_unread(task_id: str, reason: str) -> Finding:
    """Return the finding on a folder that cannot be read, or not without a variable of the user's."""
    if variable := _VARIABLE.search(reason):
        hint = f"to check it, export the variable and add --option harbor.pass_env=[{variable[1]}]"
        return Finding("unsupported", Severity.WARNING, task_id, reason, hint)
    return Finding("schema", Severity.ERROR, task_id, reason, "mend it, so that the task can be read")


async def lint_tasks(config: RunConfig, *, repeat: int, observer: RunObserver) -> Linted:
    """Return the findings on the task folders that a config selects.

    Args:
        config: the folder, the choice of tasks, and the settings of the run.
        repeat: how often the reference runs. With 0, no machine starts.
        observer: gets the events of the run.

    Raises:
        UsageError: if the config names anything but task folders.
        DataError: if there is only one folder, and it cannot be read.
    """
    benchmark = load_configured(config, notify=observer.note)
    tasks = select_tasks(
        *(benchmark, TaskFilters.of_config(config)),
        sample_size=config.sample_size,
        seed=config.seed,
        include_quarantined=True,
    )
    if config.shard is not None:
        part = set(list_shard_tasks([task.id for task in tasks], config.shard))
        tasks = [task for task in tasks if task.id in part]
    findings: list[Finding] = []
    folders = {}
    for task in tasks:
        if not isinstance(task.setup, TaskFolderSetup):
            raise UsageError(f"{benchmark.name}: only folders of tasks can be checked")
        reason = benchmark.quarantined.get(task.id)
        if not task.setup.digest:
            findings.append(_explain_unread(task.id, reason or "cannot be read"))
            continue
        folders[task.id], found = lint_folder(Path(task.setup.folder))
        findings += found
        if reason is not None:
            hint = "only the files of this task were checked"
            findings.append(Finding("unsupported", Severity.WARNING, task.id, reason, hint))
    unfinished = 0
    runnable = [task for task in tasks if task.id not in benchmark.quarantined]
    if repeat and runnable:
        _, records = await run_checks(config, benchmark, runnable, repeat=repeat, observer=observer)
        for task in runnable:
            folder = folders[task.id]
            if folder is not None:
                findings += judge_attempts(
                    folder, (each for each in records if each.task_id == task.id), repeat
                )
        unfinished = sum(each.status in NO_VERDICT for each in records)
    findings.sort(key=lambda each: each.severity is not Severity.ERROR)
    return Linted(tuple(findings), len(tasks), unfinished)
