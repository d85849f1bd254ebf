"""Check a set of task folders: their files, the reference's attempts and an empty agent's attempts.

The attempts are made in one run. The reference must pass each time, and the empty agent must not.
"""

from __future__ import annotations

import asyncio
import json
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from harness.audit.forging import ForgingSuite
from harness.audit.lint_files import Finding, Severity, lint_folder
from harness.audit.results import NO_VERDICT
from harness.audit.suite import NULL, ORACLE, Step
from harness.benchmarks.benchmark import Benchmark
from harness.core.errors import UsageError
from harness.core.text import escape_terminal, quote_markdown
from harness.core.types import AttemptRecord, Submission, Task
from harness.environments.container.environment import ContainerEnvironment
from harness.environments.container.target import TaskFolderSetup
from harness.environments.container.task_folder import SOLUTION, TESTS, TaskFolder, list_included_files
from harness.environments.os.file_entries import UnreadableFiles
from harness.reports.console import LONG
from harness.reports.figures import count
from harness.runs.agents.agent import AttemptContext, settings_for
from harness.runs.filters import TaskFilters, list_shard_tasks
from harness.runs.plan import limit_times, load_configured, plan_attempts, select_tasks
from harness.runs.progress import RunObserver
from harness.runs.run import open_run
from harness.runs.run_files import SCHEMA_VERSION, replace_file
from harness.runs.selection import Selection
from harness.runs.settings import RunConfig

# The agent's name in the manifest.
LINTER = "lint"
# The metrics of an empty agent: the files of the tests in its machine, and the bytes of all files there.
LEAKED, IMAGE_BYTES = "leaked_files", "image_bytes"
MAX_FILES, MAX_FILE_BYTES, LEAST_BYTES = 2_000_000, 1 << 20, 40
MOST_IMAGE_BYTES = 4 << 30
# The share of a limit that should be left on a slower machine.
_HALF = 0.5
_SHOWN = 300
_VARIABLE = re.compile(r"needs the variable (\w+)")


class Linter(ForgingSuite):
    """Runs the reference several times, and looks at the machine that an empty agent gets."""

    acts_unproven = True

    async def attempt(self, context: AttemptContext) -> Submission:
        environment = context.environment
        if context.sample is not None and self.steps[context.sample - 1].name == NULL:
            assert isinstance(environment, ContainerEnvironment)  # noqa: S101  a folder opens this one alone
            # A verdict on an empty agent needs no proven level.
            environment.seal_level = environment.seal_level or "work"
            self._measured[context.task.id, context.number] = await _look(environment)
        return await super().attempt(context)


async def _look(environment: ContainerEnvironment) -> Mapping[str, Any]:
    """Return the size of a machine's files, and those that have the bytes of a file of tests or solution."""
    sandbox = environment.machine.sandbox
    hidden = await asyncio.to_thread(_read_hidden, environment.folder)
    entries = await sandbox.list_all_changed(MAX_FILES, since_ns=0)
    files = [entry for entry in entries if entry.kind == "file"]
    leaked = [entry.path for entry in files if entry.path.startswith((f"/{TESTS}/", f"/{SOLUTION}/"))]
    for entry in files:
        if entry.size in hidden and entry.path not in leaked:
            try:
                found = await environment.machine.read_files([entry.path], limit=MAX_FILE_BYTES)
            except UnreadableFiles:
                continue
            leaked += [path for path, content in found.items() if content in hidden[entry.size]]
    return {LEAKED: leaked[:20], IMAGE_BYTES: sum(entry.size for entry in files)}


def _read_hidden(folder: TaskFolder) -> dict[int, list[bytes]]:
    """Return the contents of the files of tests and solution by their size, without small and large ones."""
    hidden: dict[int, list[bytes]] = {}
    for part in (TESTS, SOLUTION):
        for name in list_included_files(folder.path, part):
            path = Path(folder.path, part, name)
            if path.is_file() and LEAST_BYTES <= path.stat().st_size <= MAX_FILE_BYTES:
                content = path.read_bytes()
                hidden.setdefault(len(content), []).append(content)
    return hidden


async def run_checks(
    config: RunConfig, benchmark: Benchmark, tasks: Sequence[Task], *, repeat: int, observer: RunObserver
) -> tuple[Path, list[AttemptRecord]]:
    """Run the reference `repeat` times and an empty agent once on each task.

    Returns the run folder and the records. Raises the errors of `open_run` and `Run.execute`.
    """
    steps = [*[Step(ORACLE)] * repeat, Step(NULL)]
    suite = Linter(settings_for(benchmark), benchmark, steps)
    tasks = limit_times(tasks, config.timeout_seconds, config.timeout_multiplier)
    config = config.model_copy(update={"agent": LINTER})
    selection = Selection(config, benchmark, suite, plan_attempts(tasks, suite, seed=config.seed))
    async with open_run(selection, notify=observer.note) as run:
        await run.execute(observer)
        return run.folder, list(run.records())


def judge_attempts(folder: TaskFolder, records: Iterable[AttemptRecord], repeat: int) -> Iterator[Finding]:
    """Yield the findings on the attempts at a task. The first `repeat` ones are of the reference, if any."""
    by_line: dict[int, AttemptRecord] = {each.sample_line or 0: each for each in records}
    empty = by_line.pop(repeat + 1, None)
    references = list(by_line.values())

    def find(check: str, severity: Severity, message: str, hint: str) -> Finding:
        return Finding(check, severity, folder.name, message, hint)

    yield from _judge_references(references, folder, find)
    if empty is None:
        return
    if empty.resolved:
        hint = "let a test fail as long as nothing is done"
        yield find("empty agent", Severity.ERROR, "an agent that does nothing passes", hint)
    if leaked := empty.metrics.get(LEAKED):
        hint = "leave these files out of the image of the agent's machine"
        message = f"the agent's machine has files of the tests or the solution: {', '.join(leaked)}"
        yield find("leak", Severity.ERROR, message, hint)
    size = empty.metrics.get(IMAGE_BYTES, 0)
    if size > MOST_IMAGE_BYTES:
        hint = "use a smaller base, and remove caches in the step that makes them"
        yield find("image size", Severity.WARNING, f"the image has {size / (1 << 30):.1f} GiB", hint)


def _judge_references(
    references: Sequence[AttemptRecord], folder: TaskFolder, find: Any
) -> Iterator[Finding]:
    judged = [each for each in references if each.status not in NO_VERDICT]
    passed = [each for each in judged if each.resolved]
    failed = next((each for each in judged if not each.resolved), None)
    if failed is not None:
        ended = f"{failed.status}: {(failed.error or '')[:_SHOWN]}"
        if passed:
            hint = "remove what differs between runs: time, order, random numbers, the network"
            message = f"the reference passed {len(passed)} of {len(judged)} times; then {ended}"
            yield find("flaky", Severity.ERROR, message, hint)
        else:
            hint = f"mend {SOLUTION}/ or {TESTS}/; harness calibrate shows the outcome at each seal level"
            yield find("reference", Severity.ERROR, f"the reference does not pass: {ended}", hint)
    if not passed:
        return
    level = passed[0].metrics.get("seal")
    if level in ("all", "live"):
        hint = "let the tests depend on files in the working folder alone"
        message = f"the reference passes only at seal level {level}, where an agent can forge the tests"
        yield find("seal", Severity.WARNING, message, hint)
    seconds = max(each.metrics.get("tests_seconds", 0.0) for each in passed)
    limits = {"the tests": (seconds, folder.toml.verifier.timeout_sec)}
    if folder.toml.agent.timeout_sec is not None:
        acting = statistics.median(
            each.duration_seconds - each.metrics.get("tests_seconds", 0.0) for each in passed
        )
        limits["the reference"] = (acting, folder.toml.agent.timeout_sec)
    for what, (taken, limit) in limits.items():
        if taken > limit * _HALF:
            hint = "raise timeout_sec, because other machines are slower"
            yield find("wall time", Severity.WARNING, f"{what} took {taken:.0f} s of {limit:g} s", hint)


@dataclass(frozen=True, slots=True)
class Linted:
    """Findings on a set, errors first. `unfinished` counts the attempts without a verdict."""

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


def conclude_lint(findings: Sequence[Finding], tasks: int) -> str:
    """Return the number of faults in one line."""
    errors = sum(each.severity is Severity.ERROR for each in findings)
    faulty = len({each.task_id for each in findings if each.severity is Severity.ERROR})
    return (
        f"{count(tasks, 'task')}: {count(errors, 'error')} in {faulty:,} of them, "
        f"{count(len(findings) - errors, 'warning')}"
    )


def print_findings(findings: Sequence[Finding], tasks: int, *, stream: TextIO) -> None:
    """Print a line for each finding, with its remedy below, and the number of all."""
    for each in findings:
        print(
            escape_terminal(f"{each.place}: {each.severity} ({each.check}): {each.message}", LONG),
            file=stream,
        )
        print(escape_terminal(f"    {each.hint}", LONG), file=stream)
    print(conclude_lint(findings, tasks), file=stream)


def write_findings(findings: Sequence[Finding], tasks: int, path: Path) -> None:
    """Write findings as JSON, or as Markdown to a file whose name ends in .md. Raises StorageError."""
    with replace_file(path) as file:
        if path.suffix != ".md":
            value = {
                "schema_version": SCHEMA_VERSION,
                "tasks": tasks,
                "errors": sum(each.severity is Severity.ERROR for each in findings),
                "findings": [asdict(each) for each in findings],
            }
            json.dump(value, file, indent=1)
            return
        file.write(f"**{conclude_lint(findings, tasks)}**\n")
        if findings:
            file.write("\n| | place | check | fault | remedy |\n| :-- | :-- | :-- | :-- | :-- |\n")
        for each in findings:
            texts = " | ".join(quote_markdown(text) for text in (each.message, each.hint))
            file.write(f"| {each.severity} | {quote_markdown(each.place)} | {each.check} | {texts} |\n")
