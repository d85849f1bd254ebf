"""Folders of tasks in the form of Harbor or Terminal-Bench 1, named by their path."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from harness.benchmarks.benchmark import Benchmark, Definition, TaskResult
from harness.benchmarks.data.hub import default_cache_dir
from harness.benchmarks.data.rows import Row
from harness.benchmarks.data.task_sets import FoundFolder, find_task_folders
from harness.benchmarks.data.terminal_bench import convert_cached, is_terminal_bench_folder
from harness.benchmarks.options import NO_EFFECT, OptionEffect, Options, validate_options
from harness.core.errors import DataError, HarnessError
from harness.core.types import Reference, Submission, Task
from harness.environments.base import Environment
from harness.environments.container.compose import read_services
from harness.environments.container.environment import ContainerEnvironment, solve
from harness.environments.container.target import (
    NUMBERED,
    SAME_PROCESS,
    SEAL_NUMBER,
    TaskFolderSetup,
    TaskFolderTarget,
)
from harness.environments.container.task_folder import (
    MAX_SECONDS,
    SOLUTION,
    SOLVE_SCRIPT,
    TaskFolder,
    read_task_folder,
)

_SHOWN_WARNINGS = 10


class HarborOptions(Options):
    """How task folders are graded, and what of this machine they may read."""

    pass_at: Annotated[float, Field(allow_inf_nan=False), NO_EFFECT] = 1.0
    """The least reward of a task that counts as passed."""
    pass_env: Annotated[tuple[str, ...], OptionEffect("give task folders the variables")] = ()
    """The variables of this machine that a task.toml may name as ${NAME}."""


class TaskFolderOptions(Options):
    """The options of a benchmark of task folders."""

    harbor: HarborOptions = HarborOptions()
    dataset: Annotated[str | None, NO_EFFECT] = None
    """The dataset of a registry.json, as NAME or NAME@VERSION."""


def folder_definition(path: Path, options: TaskFolderOptions | None = None) -> Definition:
    """Return the benchmark of a task folder, a folder of such, a dataset.toml or a registry.json."""
    reader = _Reader(options or TaskFolderOptions())
    named = path.resolve() if path.is_dir() else path.resolve().parent
    return Definition(
        name=re.sub(r"[^\w.-]+", "-", named.name) or "tasks",
        description="task folders",
        grading_version=2,
        environments=("container",),
        tasks=None,
        licence="unknown",
        data=str(path),
        hub=None,
        bundled=None,
        names_tell_splits=False,
        gather=reader.gather,
        read=reader.read,
        submit=_submit,
        play=_play,
        scores=_count_levels,
        score_metrics=(SEAL_NUMBER, SAME_PROCESS),
        why_quarantined=reader.refused.get,
        runs_quarantined=False,
        describe_task=reader.describe,
        options=TaskFolderOptions,
        configure=lambda _definition, values: folder_definition(
            path, validate_options(TaskFolderOptions, values, named.name)
        ),
    )


def _count_levels(_benchmark: Benchmark, results: Mapping[str, TaskResult]) -> Mapping[str, Any]:
    """Return the number of tasks at each seal level, and of tasks with the label `same_process`."""
    numbers = Counter(int(result.metrics.get(SEAL_NUMBER, 0)) for result in results.values())
    levels = {level: numbers[place] for place, level in enumerate(NUMBERED, 1) if numbers[place]}
    if same := sum(bool(result.metrics.get(SAME_PROCESS)) for result in results.values()):
        levels[SAME_PROCESS] = same
    return {"sealed": levels} if levels else {}


async def _play(_task: Task, _reference: Reference, environment: Environment) -> Submission:
    """Run the reference solution in the machine of its task, as the oracle does."""
    assert isinstance(environment, ContainerEnvironment)  # noqa: S101  because its tasks have no other
    return await solve(environment)


def _submit(_task: Task, _field: str, text: str) -> Submission:
    return Submission(text, agent_output=text)


class _Reader:
    """Reads the folders, and keeps what their rows are made from."""

    def __init__(self, options: TaskFolderOptions) -> None:
        self._options = options
        self._folders: dict[str, TaskFolder] = {}
        # The reason for each task that cannot run, by task id.
        self.refused: dict[str, str] = {}

    def gather(self, path: Path, notify: Callable[[str], None]) -> tuple[list[Row], str]:
        """Return a row for each folder, and the SHA-256 over their names and digests.

        A folder of several that cannot be read stays in the benchmark, as a task that is not sound.
        """
        found = find_task_folders(
            path, dataset=self._options.dataset, cache_dir=default_cache_dir(), notify=notify
        )
        rows: list[Row] = []
        warnings: list[str] = []
        for each in found:
            try:
                folder = _read(each)
                read_services(folder, self._options.harbor.pass_env)
                reason = why_unsupported(folder)
            except HarnessError as error:
                if len(found) == 1:
                    raise
                rows.append(self._add_broken(each, error))
                continue
            _require_digest(folder, each.digest)
            self._folders[folder.path] = folder
            if reason is not None:
                self.refused[folder.name] = reason
            warnings += folder.warnings
            facts = {"name": folder.name, "folder": folder.path, "digest": folder.digest}
            rows.append(Row({**facts, "metadata": folder.toml.metadata}, folder.path))
        for warning in warnings[:_SHOWN_WARNINGS]:
            notify(warning)
        if len(warnings) > _SHOWN_WARNINGS:
            notify(f"{len(warnings) - _SHOWN_WARNINGS:,} more keys are unknown and ignored")
        listed = "".join(f"{row.values['name']}\0{row.values['digest']}\n" for row in rows)
        return rows, hashlib.sha256(listed.encode("utf-8", "surrogateescape")).hexdigest()

    def describe(self, task: Task) -> Mapping[str, Any]:
        """Return the facts of a task.toml that a user needs to choose a task, and to know its machine."""
        if not isinstance(task.setup, TaskFolderSetup) or task.setup.folder not in self._folders:
            return {}
        folder = self._folders[task.setup.folder]
        toml, machine = folder.toml, folder.toml.environment
        about = {} if toml.task is None else toml.task.model_dump(include={"version", "description"})
        authors = () if toml.task is None else toml.task.authors
        known = ("difficulty", "category", "tags")
        limits = machine.model_dump(include={"docker_image", "cpus", "memory_mb", "storage_mb"})
        facts = {
            **about,
            "authors": ", ".join(author.name for author in authors),
            **{name: value for name, value in toml.metadata.items() if name not in known},
            **limits,
            "network": str(toml.agent.network_mode or machine.network),
            "steps": ", ".join(step.name for step in folder.steps),
            "verifier": toml.verifier_mode(),
        }
        return {name: value for name, value in facts.items() if value not in (None, "", [], ())}

    def _add_broken(self, found: FoundFolder, error: HarnessError) -> Row:
        name = found.name or found.path.name
        self.refused[name] = error.message
        return Row({"name": name, "folder": str(found.path), "digest": ""}, str(found.path))

    def read(self, row: Row) -> tuple[Task, Reference]:
        """Return the task and the reference of a folder."""
        name, path, digest = row.name("name"), row.text("folder"), row.text("digest")
        passed = self._options.harbor.pass_env
        setup = TaskFolderSetup(path, digest, passed)
        target = TaskFolderTarget(path, digest, passed, self._options.harbor.pass_at)
        task = Task(name, "", "container", "", setup=setup)
        solution = ""
        if (folder := self._folders.get(path)) is not None:
            task = _describe(task, folder)
            if folder.has_reference:
                solution = str(Path(path, SOLUTION, SOLVE_SCRIPT))
        passing = f"a reward of at least {self._options.harbor.pass_at:g} from the tests"
        return task, Reference(name, solution, target, expected_output=passing)


def _read(found: FoundFolder) -> TaskFolder:
    path = found.path
    if is_terminal_bench_folder(path) and not (path / "task.toml").is_file():
        path = convert_cached(path, default_cache_dir())
    return read_task_folder(path)


def _require_digest(folder: TaskFolder, listed: str | None) -> None:
    if listed is not None and folder.digest != listed:
        raise DataError(
            f"has the digest {folder.digest}, but the dataset lists {listed}",
            path=folder.path,
            hint="download the task again, or list its digest",
        )


def _describe(task: Task, folder: TaskFolder) -> Task:
    """Return a task with the prompt, the limits and the names for selecting it."""
    toml = folder.toml
    metadata = toml.metadata
    tags = [*_list(metadata.get("tags")), *(toml.task.keywords if toml.task is not None else ())]
    tables = [view.toml for view in folder.views()]
    return replace(
        task,
        prompt=folder.steps[0].instruction if folder.steps else folder.instruction,
        category=_text(metadata.get("category")),
        difficulty=_text(metadata.get("difficulty")),
        tags=tuple(dict.fromkeys([*tags, *_list(toml.source)])),
        agent_seconds=min(sum(each.agent.timeout_sec or MAX_SECONDS for each in tables), MAX_SECONDS),
        tests_seconds=min(sum(each.verifier.timeout_sec for each in tables), MAX_SECONDS),
    )


def _list(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [text for each in values if (text := _text(each)) is not None]


def _text(value: Any) -> str | None:
    return str(value) if isinstance(value, (str, int, float)) and str(value).strip() else None


def why_unsupported(folder: TaskFolder) -> str | None:
    """Return why a task that was read cannot run, or None if it can."""
    users = {str(view.toml.agent.user) for view in folder.views()}
    if len(users) > 1:
        return (
            f"its steps have the users {', '.join(sorted(users))}, and an agent has one shell with one user"
        )
    return None
